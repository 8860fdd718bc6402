//! What is said of a recording. Every finding asks the same: what of the run would be gone without it?

mod awaits;
mod blocked;
mod blocking_calls;
pub(crate) mod busy_waiting;
mod contended_futex;
mod excluded;
mod file_lock;
mod garbage;
mod go_processors;
mod goroutine_lock;
mod goroutine_pool;
mod goroutine_sleep;
mod goroutine_stage;
mod goroutines;
mod hand_over;
mod holder_off_cpu;
mod idle;
mod imbalance;
pub(crate) mod interpreter_lock;
mod io;
mod kept_off;
mod library_calls;
mod limiting_stage;
mod lock_calls;
mod lock_code;
mod lock_places;
mod lock_step;
mod memory;
mod one_thread;
mod passed_on;
mod pool_of_processes;
mod serial_code;
mod serial_jobs;
mod served;
mod servers_lock;
mod shared_lines;
mod sleeping;
mod small_calls;
mod small_writes;
mod tasks;
mod thread_count;
mod uneven_tasks;
mod write_through;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{GroupId, ProcessId, SiteId};

use self::goroutines::Kinds;
use self::holder_off_cpu::Found;
use self::passed_on::PassedOn;
use self::served::Askers;
use self::write_through::WrittenThrough;
use crate::gain::{by_cpus, together};
use crate::in_call::InCall;
use crate::rows::Analysis;
use crate::subject;
use crate::text::evidence;
use crate::view::View;
use crate::waited_for::WaitedFor;
use crate::worth;

/// Threads that spend so much of what they run in small writes have little else to share.
const MOSTLY: f64 = 0.7;

/// What all findings are made from.
pub(crate) struct Context<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) rows: &'a Analysis,
    pub(crate) waited_for: WaitedFor,
    pub(crate) in_call: InCall,
    pub(crate) passed_on: PassedOn,
    pub(crate) askers: Askers,
    pub(crate) goroutines: BTreeMap<ProcessId, Kinds<'a>>,
    pub(crate) written_through: WrittenThrough,
    /// The program is idle most of the time, as nobody asks for anything.
    pub(crate) nobody_asks: bool,
}

/// Everything that could be said, in no particular order.
pub(crate) fn all(view: &View, rows: &Analysis) -> Vec<Finding> {
    let mut cx = Context {
        view,
        rows,
        waited_for: WaitedFor::of(view),
        in_call: InCall::of(view),
        passed_on: PassedOn::of(view),
        askers: Askers::of(view),
        goroutines: goroutines::by_start(view),
        written_through: WrittenThrough::default(),
        nobody_asks: idle::nobody_asks(view),
    };
    cx.written_through = WrittenThrough::of(&cx);
    let cx = cx;
    if view.workers_at_once < 2 {
        return where_one_works(&cx);
    }
    // Low parallelism of a group that is explained otherwise is not serial code as well.
    let mut explained: BTreeSet<GroupId> = BTreeSet::new();
    let mut findings = Vec::new();
    let holders = holder_off_cpu::findings(&cx);
    let is_worth = |finding: &Finding| finding.gain.mid >= view.t.gain_mid;
    // Threads that only hand out work to other processes take turns because there is so much of that.
    let pools = pool_of_processes::findings(&cx);
    let process = |f: &Finding| subject::process(view.model, &f.subject);
    let worth = pools.iter().filter(|(_, found)| is_worth(found));
    let pooled: BTreeSet<ProcessId> = worth.flat_map(|(ids, _)| ids.clone()).collect();
    let in_a_pool = |f: &Finding| process(f).is_some_and(|id| pooled.contains(&id));
    let mut interpreters: BTreeSet<ProcessId> = BTreeSet::new();
    for (groups, finding) in interpreter_lock::findings(&cx) {
        if in_a_pool(&finding) {
            continue;
        }
        if is_worth(&finding) {
            explained.extend(groups);
            interpreters.extend(process(&finding));
        }
        findings.push(finding);
    }
    // Nor is it an imbalance that they work more than those that they hand out to.
    let mut uneven = imbalance::findings(&cx);
    uneven.retain(|(_, found)| match &found.subject {
        Subject::Processes(ids) => !ids.iter().any(|id| pooled.contains(id)),
        _ => !in_a_pool(found),
    });
    for (groups, finding) in uneven.into_iter().chain(limiting_stage::findings(&cx)) {
        explained.extend(groups);
        findings.push(finding);
    }
    // What is not worth its fix leaves the rest of the low parallelism to be explained.
    for (groups, finding) in contended_futex::findings(&cx) {
        let its_wait = |at| interpreter_lock::is_its_wait(view.model, at);
        if process(&finding).is_some_and(|id| interpreters.contains(&id))
            && site(&finding.subject).is_some_and(its_wait)
        {
            continue;
        }
        if is_worth(&finding) {
            explained.extend(groups);
        }
        if !is_explained(&finding, &holders) {
            findings.push(finding);
        }
    }
    let mut add = |found: Vec<(Vec<GroupId>, Finding)>, explained: &mut BTreeSet<GroupId>| {
        for (groups, finding) in found {
            if is_worth(&finding) {
                explained.extend(groups);
            }
            findings.push(finding);
        }
    };
    let file_locks = file_lock::findings(&cx);
    let worth = file_locks.iter().filter(|found| is_worth(&found.finding));
    let batched: BTreeSet<SiteId> = worth.flat_map(|found| found.syncs.clone()).collect();
    let file_locks = file_locks.into_iter().map(|f| (f.groups, f.finding));
    add(file_locks.collect(), &mut explained);
    let mut goroutines = goroutine_lock::findings(&cx);
    let mut shared = goroutine_pool::findings(&cx);
    // A lock that is kept during a call is told once.
    goroutines.retain(|(_, f)| {
        let of = process(f);
        let held = |held: &goroutine_pool::Found| {
            Some(held.process) == of && held.is_of_a_lock() && held.finding.gain.mid > f.gain.mid
        };
        !shared.iter().any(held)
    });
    let written_through = cx.written_through.all();
    let written_through: Vec<(_, Finding)> = written_through
        .filter_map(|of| Some((of, of.finding(&cx)?)))
        .collect();
    shared.retain(|held| {
        let fought = |(_, f): &(Vec<GroupId>, Finding)| process(f) == Some(held.process);
        let told = written_through.iter().any(|(_, of)| held.is_told(view, of));
        !held.is_of_a_lock() || !told && !goroutines.iter().any(fought)
    });
    let in_calls = shared.iter().filter(|held| held.is_of_a_lock());
    let in_calls = in_calls.filter_map(|held| view.shown(held.call?).map(|frame| frame.key()));
    let in_calls: BTreeSet<_> = in_calls.collect();
    let fought: Vec<_> = goroutines
        .iter()
        .filter(|(_, f)| is_worth(f))
        .map(|(_, f)| process(f))
        .collect();
    add(goroutines, &mut explained);
    add(goroutine_stage::findings(&cx), &mut explained);
    let mut limited = Vec::new();
    for (groups, finding) in go_processors::findings(&cx) {
        if go_processors::explains(&finding) {
            explained.extend(groups);
        }
        limited.push(finding);
    }
    let shared = shared.into_iter().map(|f| (Vec::new(), f.finding));
    add(shared.collect(), &mut explained);
    let mut turns = lock_step::findings(&cx, &explained);
    let has_goroutines =
        |f: &Finding| process(f).is_none_or(|id| !goroutine_pool::are_idle(view, id));
    turns.retain(|(_, found)| !in_a_pool(found) && has_goroutines(found));
    // Pieces that are a call each are said once: with what buys more.
    let mut messages = small_writes::messages::findings(&cx);
    let same = |of: &BTreeSet<GroupId>, turns: &[GroupId]| turns.iter().all(|id| of.contains(id));
    messages.retain(|(of, found)| {
        let mut better = turns.iter().filter(|(_, f)| f.gain.mid > found.gain.mid);
        !better.any(|(groups, _)| same(of, groups))
    });
    turns.retain(|(groups, _)| !messages.iter().any(|(of, _)| same(of, groups)));
    let messages = messages.into_iter();
    let messages = messages.map(|(groups, found)| (groups.into_iter().collect(), found));
    add(messages.collect(), &mut explained);
    add(turns, &mut explained);
    let blocked = blocking_calls::finding(&cx);
    // Who sleeps in its work looks for none there.
    let in_work = |sleeps: &Finding| blocked.iter().any(|(_, f)| f.subject == sleeps.subject);
    let sleeps = sleeping::finding(&cx).filter(|(_, sleeps)| !in_work(sleeps));
    add(blocked.into_iter().collect(), &mut explained);
    add(sleeps.into_iter().collect(), &mut explained);
    add(awaits::findings(&cx), &mut explained);
    findings.extend(lock_calls::findings(&cx, &explained));
    findings.extend(serial_code::findings(&cx, &explained));
    let holders = holders.into_iter().map(|found| found.finding);
    let holders: Vec<Finding> = holders.collect();
    let under_a_lock: BTreeSet<SiteId> = holders.iter().filter_map(|f| site(&f.subject)).collect();
    findings.extend(holders);
    let function = |f: &Finding| view.shown(site(&f.subject)?).map(|frame| frame.key());
    let futexes = findings.iter().filter(|f| f.id == "contended-futex");
    let small = small_writes::findings(&cx, &futexes.filter_map(function).collect());
    let worth = small.iter().filter(|(_, f)| is_worth(f));
    let written: BTreeSet<_> = worth.flat_map(|(of, _)| &of.writes).collect();
    // What they buy more of is the lock that they are made under, and the code that waits are for because it makes them.
    findings.retain(|found| {
        let mut better = small.iter().filter(|(_, f)| f.gain.mid >= found.gain.mid);
        let Some(at) = function(found) else {
            return true;
        };
        match found.id {
            "contended-futex" => !better.any(|(of, _)| of.locks.contains(&at)),
            "serial-code" => {
                let mostly = |f: &Finding| f.share_of_thread_time >= MOSTLY;
                !better.any(|(of, f)| of.writes.contains(&at) && mostly(f))
            }
            _ => true,
        }
    });
    // I/O under a lock is said once, of the lock; and what small writes wait for, of them.
    let in_call = |site| {
        view.shown(site)
            .is_some_and(|f| in_calls.contains(&f.key()))
    };
    let under = |site| under_a_lock.contains(&site) || batched.contains(&site) || in_call(site);
    let alone = written_through.into_iter();
    let alone = alone.filter(|(of, _)| !of.is_mostly_at(under));
    findings.extend(alone.map(|(_, finding)| finding));
    findings.extend(io::findings(&cx).into_iter().filter(|f| {
        let of_a_lock = site(&f.subject).is_some_and(under);
        !of_a_lock && function(f).is_none_or(|of| !written.contains(&of))
    }));
    findings.extend(small.into_iter().map(|(_, finding)| finding));
    let mut loops = busy_waiting::findings(&cx);
    // What goroutines spin for a lock is part of what it costs.
    loops.retain(|found| match found.subject {
        Subject::Loop(id) => {
            !fought.contains(&process(found)) || !goroutine_lock::is_its_loop(view, id)
        }
        _ => true,
    });
    // Nor is it two things that threads spin for a monitor of Java's before they sleep for it.
    loops.retain(|spin| {
        if !busy_waiting::is_of_monitors(view, spin) {
            return true;
        }
        let one = findings.iter_mut().find(|f| {
            f.gain.mid >= spin.gain.mid
                && is_worth(f)
                && contended_futex::is_of_monitors(view, f)
                && process(f) == process(spin)
        });
        match one {
            Some(monitor) => {
                monitor.evidence.push(spun_before(spin));
                false
            }
            None => true,
        }
    });
    for finding in &mut findings {
        with_loops(&cx, finding, &loops);
    }
    findings.extend(loops);
    findings.extend(memory::findings(&cx));
    findings.extend(shared_lines::findings(&cx));
    add_sleepers(&cx, &mut findings);
    // The scheduler runs as well where goroutines wait for a lock.
    let hand_overs = hand_over::findings(&cx).into_iter();
    findings.extend(hand_overs.filter(|f| !fought.contains(&process(f))));
    findings.extend(pools.into_iter().map(|(_, finding)| finding));
    findings.extend(small_calls::findings(&cx));
    findings.extend(garbage::findings(&cx));
    if !findings.iter().any(|f| f.id == "too-few-threads") {
        findings.extend(thread_count::finding(&cx));
    }
    if !findings.iter().any(is_worth) {
        findings.extend(serial_jobs::finding(&cx));
    }
    findings.extend(limited);
    findings.extend(kept_off::finding(&cx));
    findings
}

/// One thread is not parallel whatever it does, unless others wait for it, it waits for others all the time, or there could be more.
fn where_one_works(cx: &Context) -> Vec<Finding> {
    let stages = limiting_stage::findings(cx).into_iter();
    let of_groups = stages
        .chain(blocking_calls::finding(cx))
        .chain(awaits::findings(cx))
        .chain(go_processors::findings(cx));
    let mut found: Vec<Finding> = of_groups.map(|(_, finding)| finding).collect();
    let shared = goroutine_pool::findings(cx).into_iter();
    found.extend(shared.map(|f| f.finding));
    add_sleepers(cx, &mut found);
    let written = cx.written_through.all();
    found.extend(written.filter_map(|of| of.finding(cx)));
    // What the report dismisses explains nothing.
    if !found.iter().any(|f| worth(f, cx.view.t)) {
        found.extend(one_thread::finding(cx).or_else(|| serial_jobs::finding(cx)));
    }
    found
}

/// Goroutines that sleep, of programs that nothing else is said of: who waits for a pool or a lock may sleep while it has it.
fn add_sleepers(cx: &Context, findings: &mut Vec<Finding>) {
    let told = |f: &Finding| match f.gain.mid >= cx.view.t.gain_mid {
        true => subject::process(cx.view.model, &f.subject),
        false => None,
    };
    let told: BTreeSet<ProcessId> = findings.iter().filter_map(told).collect();
    let asleep = goroutine_sleep::findings(cx).into_iter();
    findings.extend(
        asleep
            .filter(|(id, _)| !told.contains(id))
            .map(|(_, finding)| finding),
    );
}

/// Whether threads wait for a lock mostly because of what its holders wait for: then that is what is said.
fn is_explained(contended: &Finding, holders: &[Found]) -> bool {
    const MOSTLY: f64 = 0.5;
    let waited = contended.evidence.iter().find(|e| e.key == "wait_ns");
    let waited = waited.map_or(f64::INFINITY, |e| e.value);
    let at = site(&contended.subject);
    let same = |found: &&Found| at.is_some_and(|at| found.waiters.contains(&at));
    let explained: f64 = holders
        .iter()
        .filter(same)
        .map(|found| found.waited_ns)
        .sum();
    explained >= MOSTLY * waited
}

/// Processes that wait in loops for the one that has most work do so because of it: with even work, both go.
fn with_loops(cx: &Context, imbalance: &mut Finding, loops: &[Finding]) {
    let Subject::Processes(processes) = imbalance.subject.clone() else {
        return;
    };
    let spins = |f: &&Finding| match f.subject {
        Subject::Loop(id) => {
            let of = cx.view.sched.loops.get(id.0 as usize);
            of.is_some_and(|of| processes.contains(&of.process))
        }
        _ => false,
    };
    for spin in loops.iter().filter(spins) {
        together(&mut imbalance.gain, &spin.gain, by_cpus(cx.view));
        imbalance.evidence.push(evidence(
            "spin_gain",
            spin.gain.mid,
            format!("meanwhile, {}", spin.title),
        ));
    }
}

/// What threads spun for a lock before they slept for it.
fn spun_before(spin: &Finding) -> Evidence {
    let ns = spin.evidence.iter().find(|e| e.key == "spinning_ns");
    let (ns, share) = (ns.map_or(0.0, |e| e.value), spin.share_of_thread_time);
    evidence(
        "spinning_ns",
        ns,
        format!(
            "before they sleep they spin for it, {} of the CPU time",
            percent(share)
        ),
    )
}

/// Where a finding is.
fn site(subject: &Subject) -> Option<SiteId> {
    match subject {
        Subject::Code(site) | Subject::Site(_, site) | Subject::File(_, site) => Some(*site),
        _ => None,
    }
}
