//! Page faults and the lock of the address space.

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{OffId, OffReason, SiteId};

use super::blocked::Blocked;
use super::Context;
use crate::gain::Saving;
use crate::text::{cause, time};

/// Most of it can be avoided: memory is read ahead or kept, and rarer calls meet less often.
const EXPECTED: f64 = 0.8;
/// Waits that are contention: fewer are a start or an end.
const WAITS: u64 = 20;

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    page_faults(cx).into_iter().chain(memory_lock(cx)).collect()
}

fn page_faults(cx: &Context) -> Option<Finding> {
    let blocked = blocked(cx, OffReason::PageFault);
    // A build: each compiler reads itself in.
    if blocked.is_a_start(cx) {
        return None;
    }
    finding(cx, &blocked, |place, share| {
        Words {
        id: "page-faults",
        title: format!("{share} of the run few threads work because others are in page faults, most at {place}"),
        text: "memory is read in or zeroed page by page, or waits for the lock of the address space",
        fix: format!("touch or read the memory of {place} ahead (MAP_POPULATE, madvise), reuse it, or use huge pages"),
        caveat: "the expected gain assumes that most of them can be avoided",
    }
    })
}

fn memory_lock(cx: &Context) -> Option<Finding> {
    let mut blocked = blocked(cx, OffReason::Memory);
    // Who cannot have the lock spins for it in the kernel before it sleeps.
    for slice in &cx.view.sched.slices {
        if slice.site.is_some_and(|site| is_memory_call(cx, site)) {
            blocked.add_call(cx, slice);
        }
    }
    if blocked.n < WAITS {
        return None;
    }
    finding(cx, &blocked, |place, share| {
        Words {
        id: "memory-lock",
        title: format!("threads wait for the lock of the address space, or spin for it in the kernel, for {share} of the run, most at {place}"),
        text: "mmap(), munmap(), mprotect(), brk() and page faults of all threads take one lock",
        fix: format!("map less often at {place}: keep memory instead of giving it back (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, another allocator)"),
        caveat: "the expected gain assumes that most of these calls can be avoided",
    }
    })
}

fn blocked(cx: &Context, reason: OffReason) -> Blocked {
    let mut blocked = Blocked::default();
    for (ix, off) in cx.view.sched.offs.iter().enumerate() {
        if off.reason == reason {
            blocked.add(cx, OffId(ix as u32), off);
        }
    }
    blocked
}

/// Whether the innermost function is the C library's side of a call that changes the address space.
fn is_memory_call(cx: &Context, site: SiteId) -> bool {
    const CALLS: [&str; 7] = [
        "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "sbrk",
    ];
    let site = cx.view.model.sites.get(site.0 as usize);
    let leaf = site.and_then(|site| site.frames.first());
    leaf.is_some_and(|frame| {
        let name = frame.function.trim_start_matches('_');
        let name = name.strip_prefix("GI_").unwrap_or(name);
        CALLS.contains(&name.trim_start_matches('_').trim_end_matches("64"))
    })
}

struct Words {
    id: &'static str,
    title: String,
    text: &'static str,
    fix: String,
    caveat: &'static str,
}

fn finding(
    cx: &Context,
    blocked: &Blocked,
    words: impl Fn(&str, &str) -> Words,
) -> Option<Finding> {
    let view = cx.view;
    let (one, all) = blocked.wall(cx);
    let saving = Saving {
        expected: EXPECTED * one,
        most: all,
        sure: 0.0,
        cpu: (EXPECTED * blocked.cpu, blocked.cpu),
    };
    if saving.bound(view) < view.t.gain_mid || !blocked.on_the_critical_path(cx) {
        return None;
    }
    let site = blocked.site()?;
    let share = one / view.wall;
    let words = words(&view.place(Some(site)), &percent(share));
    let mut list = blocked.evidence("wait_ns", "wait_low_ns");
    if blocked.cpu > 0.0 {
        list.push(time(
            "call_cpu_ns",
            blocked.cpu,
            "of CPU time in those calls, spinning for the lock included",
        ));
    }
    Some(Finding {
        id: words.id,
        subject: Subject::Code(site),
        title: words.title,
        evidence: list,
        causes: vec![cause(words.id, words.text, words.fix)],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "time that threads were in it, and few others worked or all were",
            "how much of the memory traffic can be avoided",
        ),
        share_of_thread_time: share.min(1.0),
        caveats: vec![words.caveat.into()],
    })
}
