//! Page faults and the lock of the address space.

use std::collections::BTreeSet;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{bare, FindingId, OffCpu, OffId, OffReason, SiteId, Slice, ThreadId};

use crate::estimate::saving::{together, Saving};
use crate::facts::own_wait::Blocked;
use crate::facts::run_facts::RunFacts;
use crate::facts::switch_cost::Switching;
use crate::words::{cause, evidence, time};

/// Most of it can be avoided: memory is read ahead or kept, and rarer calls meet less often.
const EXPECTED: f64 = 0.9;
/// Of a thread's time in the kernel that its waits alone do not show, what is expected to be theirs.
const KERNEL: f64 = 0.5;
/// Share of what threads run from which on their page faults are told.
const FAULTS: f64 = 0.05;
/// To give pages back takes this part of the time at least that it took to fault them in (measured: 0.17 to 0.2). What is touched
/// and kept is none of these calls' business.
const GIVEN_BACK: f64 = 0.1;
/// Waits that are contention: fewer are a start or an end.
const WAITS: u64 = 20;

/// Memory that is mapped and given back again and again costs the calls and the page faults: that is one fix, and one finding.
pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let is_worth = |f: &Finding| f.gain.mid >= cx.view.t.gain_mid;
    let calls = calls(cx);
    let faulting = faulting(cx, &calls);
    match (memory_lock(cx, &calls, faulting), page_faults(cx)) {
        // They are in it, by samples.
        (Some(calls), Some(_)) if faulting > 0.0 => vec![calls],
        (Some(mut calls), Some(faults)) if is_worth(&calls) && is_worth(&faults) => {
            let bound = calls.gain.high.max(faults.gain.high);
            // Their CPU time is no work: it goes as well.
            together(&mut calls.gain, &faults.gain, f64::INFINITY);
            // Either bound is that of both.
            calls.gain.high = calls.gain.mid.max(bound);
            let text = format!("its page faults go with it: {}", faults.title);
            calls
                .evidence
                .push(evidence("faults_gain", faults.gain.mid, text));
            vec![calls]
        }
        (calls, faults) => faults.into_iter().chain(calls).collect(),
    }
}

fn page_faults(cx: &RunFacts) -> Option<Finding> {
    let blocked = blocked(cx, OffReason::PageFault);
    // A build: each compiler reads itself in.
    if blocked.is_a_start(cx) {
        return None;
    }
    finding(cx, &blocked, 0.0, |place, share| {
        Words {
        id: FindingId::PageFaults,
        title: format!("{share} of the run few threads work because others are in page faults, most at {place}"),
        text: "memory is read in or zeroed page by page, or waits for the lock of the address space",
        fix: format!("touch or read the memory of {place} ahead (MAP_POPULATE, madvise), reuse it, or use huge pages"),
        caveat: "the expected gain assumes that most of them can be avoided",
    }
    })
}

/// Waits for the lock of the address space, and the calls that take it.
fn calls(cx: &RunFacts) -> Blocked {
    let mut blocked = blocked(cx, OffReason::Memory);
    // Who cannot have the lock spins for it in the kernel before it sleeps.
    for slice in &cx.view.sched.slices {
        if let Some(site) = slice.site.filter(|site| is_memory_call(cx, *site)) {
            blocked.add_call(cx, slice);
            *blocked.sites.entry(site).or_default() += slice.running_ns as f64;
        }
    }
    blocked
}

fn memory_lock(cx: &RunFacts, calls: &Blocked, faulting: f64) -> Option<Finding> {
    if calls.n < WAITS && faulting == 0.0 {
        return None;
    }
    let title = |place: &str, share: &str| {
        match faulting > 0.0 {
        true => format!(
            "memory is mapped, touched and given back again and again, {} of the CPU time, most at {place}",
            percent((calls.cpu + faulting) / (cx.view.cpus_used() * cx.view.wall).max(1.0))
        ),
        false => format!(
            "threads wait for the lock of the address space, or spin for it in the kernel, for {share} of the run, most at {place}"
        ),
    }
    };
    finding(cx, calls, faulting, |place, share| {
        Words {
        id: FindingId::MemoryLock,
        title: title(place, share),
        text: match faulting > 0.0 {
            true => "pages that are mapped anew are zeroed when they are first touched, and in no cache then",
            false => "mmap(), munmap(), mprotect(), brk() and page faults of all threads take one lock",
        },
        fix: format!("map less often at {place}: keep memory instead of giving it back (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, another allocator)"),
        caveat: "the expected gain assumes that most of these calls can be avoided",
    }
    })
}

fn blocked(cx: &RunFacts, reason: OffReason) -> Blocked {
    let mut blocked = Blocked::default();
    for (ix, off) in cx.view.sched.offs.iter().enumerate() {
        if off.reason == reason {
            blocked.add(cx, OffId(ix as u32), off);
        }
    }
    blocked
}

/// Whether the innermost function is the C library's side of a call that changes the address space.
fn is_memory_call(cx: &RunFacts, site: SiteId) -> bool {
    const CALLS: [&str; 7] = [
        "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "sbrk",
    ];
    let site = cx.view.model.site(site);
    let leaf = site.and_then(|site| site.frames.first());
    leaf.is_some_and(|frame| CALLS.contains(&bare(&frame.function)))
}

/// CPU time of page faults of these threads that goes with the calls: what is mapped again and again is touched anew each time, and
/// given back, which takes a part of the time. Small shares are of what is touched once, or interrupts.
fn faulting(cx: &RunFacts, calls: &Blocked) -> f64 {
    // A build: each compiler gets what it needs for one file, and ends.
    if calls.is_of_short_lives(cx) {
        return 0.0;
    }
    let of = |slice: &&Slice| calls.in_it.contains_key(&slice.thread);
    let slices = || cx.view.sched.slices.iter().filter(of);
    let faults = |slice: &Slice| slice.faults as f64 / slice.n.max(1) as f64;
    let all: f64 = slices().map(|slice| slice.running_ns as f64).sum();
    let faulting: f64 = slices()
        .map(|slice| slice.running_ns as f64 * faults(slice))
        .sum();
    let faulting = faulting.min(calls.cpu / GIVEN_BACK);
    match faulting >= FAULTS * all {
        true => faulting,
        false => 0.0,
    }
}

/// Faults and calls that did not have to wait were in the kernel as well: zeroing, copying, going through pages. They
/// keep processors from everybody.
#[derive(Default)]
struct InKernel {
    /// CPU time in the kernel, by the share of these waits among all.
    own: f64,
    /// By the share of page faults and of waits for the lock: what is mapped anew is touched anew, and both go.
    both: f64,
    /// What each thread could lose of both, waits and delays on the way included, if most workers are in it.
    wall: f64,
}

impl InKernel {
    fn of(cx: &RunFacts, blocked: &Blocked) -> Self {
        let view = cx.view;
        let threads: BTreeSet<ThreadId> = blocked.in_it.keys().copied().collect();
        let is_either = |off: &&OffCpu| {
            matches!(off.reason, OffReason::Memory | OffReason::PageFault)
                && blocked.in_it.contains_key(&off.thread)
        };
        let either = || view.sched.offs.iter().filter(is_either);
        let time = |n: f64| Switching::of(view, &threads, n).in_kernel.unwrap_or(0.0);
        let own = time(blocked.n as f64);
        let both = time(either().map(|off| off.n as f64).sum());
        let rows = || threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows().map(|th| th.running_ns as f64).sum();
        let ready: f64 = rows()
            .map(|th| (th.delayed_ns as f64) + th.preempted_ns as f64)
            .sum();
        let waited: f64 = either().map(|off| off.sum_ns as f64).sum();
        let at_once = threads.len().min(view.workers_at_once).max(1) as f64;
        let each = (waited + both * (1.0 + ready / running.max(1.0))) / at_once;
        Self {
            own,
            both,
            wall: if blocked.themselves(cx) { each } else { 0.0 },
        }
    }
}

struct Words {
    id: FindingId,
    title: String,
    text: &'static str,
    fix: String,
    caveat: &'static str,
}

/// `faulting`: CPU time in page faults, known by samples, that goes with them.
fn finding(
    cx: &RunFacts,
    blocked: &Blocked,
    faulting: f64,
    words: impl Fn(&str, &str) -> Words,
) -> Option<Finding> {
    let view = cx.view;
    let (one, all) = blocked.wall(cx);
    let kernel = InKernel::of(cx, blocked);
    let guessed = (kernel.own - blocked.cpu).max(0.0);
    // What samples tell need not be guessed.
    let (besides, theirs) = match faulting > 0.0 {
        true => (faulting, faulting),
        false => (guessed, KERNEL * guessed),
    };
    let cpu = blocked.cpu + theirs;
    let in_it = one + theirs / view.useful.max(1.0);
    let (most, most_cpu) = match faulting > 0.0 {
        // On the CPUs that other programs left, at most.
        true => (
            all.max(one + theirs / view.at_once().max(f64::MIN_POSITIVE)),
            cpu,
        ),
        false => (all.max(kernel.wall), kernel.both.max(blocked.cpu)),
    };
    let saving = Saving {
        expected: EXPECTED * in_it,
        most,
        sure: 0.0,
        cpu: (EXPECTED * cpu, most_cpu),
    };
    if saving.bound(view) < view.t.gain_mid || !blocked.on_the_critical_path(cx) {
        return None;
    }
    let site = blocked.site()?;
    let share = one / view.wall;
    let words = words(&view.place(Some(site)), &percent(share));
    let mut list = match blocked.n {
        0 => Vec::new(),
        _ => blocked.evidence("wait_ns", "wait_low_ns"),
    };
    if blocked.cpu > 0.0 {
        list.push(time(
            "call_cpu_ns",
            blocked.cpu,
            "of CPU time in those calls, spinning for the lock included",
        ));
    }
    if besides > 0.0 {
        let text = match faulting > 0.0 {
            true => "of CPU time in page faults: what is mapped anew is touched anew",
            false => "more of CPU time in the kernel, if these waits cost as much as others",
        };
        list.push(time("kernel_cpu_ns", besides, text));
    }
    let gain = saving.gain(
        view,
        "time that threads were in it, and few others worked or all were",
        "how much of the memory traffic can be avoided",
    );
    Some(Finding {
        id: words.id,
        subject: Subject::Code(site),
        title: words.title,
        evidence: list,
        causes: vec![cause(words.id.as_str(), words.text, words.fix)],
        undecided: String::new(),
        gain,
        share_of_thread_time: share.min(1.0),
        caveats: vec![words.caveat.into()],
    })
}
