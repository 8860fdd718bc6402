//! What must hold of every complete trace, however noisy the run.

use std::collections::HashMap;

use convoy_harness::{check, Result};
use convoy_profile::{Op, Process};
use convoy_trace::{Event, Kind, Object, ObjectKind, Recording};

/// All laws. `whole`: nothing is missing, so that counts are those of the agent's tables.
pub fn hold(process: &Process, recording: &Recording, whole: bool) -> Result {
    check!(
        recording.losses.events.is_empty() || !whole,
        "lost: {:?}",
        recording.losses
    );
    times_do_not_fall(recording)?;
    waits_are_closed(recording)?;
    holds_do_not_overlap(recording, |_, _| false)?;
    if whole {
        counts_are_those_of_the_tables(process, recording)?;
    }
    Ok(())
}

/// The laws of a program whose signal handlers take locks: one may run in the middle of a wait.
pub fn hold_with_handlers(recording: &Recording) -> Result {
    times_do_not_fall(recording)?;
    waits_nest(recording)?;
    holds_do_not_overlap(recording, was_interrupted)
}

/// A handler that ran between a release and its record has recorded first, and time does not fall:
/// the release gets the handler's time, when another thread may have the lock already.
fn was_interrupted(before: Option<&Event>, release: &Event) -> bool {
    before.is_some_and(|before| before.at_ns == release.at_ns)
}

/// Each thread's own.
fn times_do_not_fall(recording: &Recording) -> Result {
    for thread in &recording.threads {
        let falls = thread.events.windows(2).find(|e| e[0].at_ns > e[1].at_ns);
        check!(falls.is_none(), "{}: time falls: {falls:?}", thread.name);
        let out = thread
            .events
            .iter()
            .find(|e| e.at_ns < recording.start_ns || e.at_ns > recording.end_ns);
        check!(
            out.is_none(),
            "{}: outside of the run: {out:?}",
            thread.name
        );
    }
    Ok(())
}

/// Between a request and what comes of it, the thread does nothing else.
fn waits_are_closed(recording: &Recording) -> Result {
    // A thread that is preempted in front of its wait is found at the wait's end.
    let is_neutral = |kind: Kind| kind.is_reading() || kind == Kind::Lost;
    for thread in &recording.threads {
        let mut steps = thread.events.iter().filter(|e| !is_neutral(e.kind));
        let mut open: Option<&Event> = None;
        for event in &mut steps {
            let ends = matches!(
                event.kind,
                Kind::AcquiredAfterWait | Kind::TimedOut | Kind::End
            );
            if let Some(request) = open.take() {
                check!(
                    ends && (event.object == request.object || event.kind == Kind::End),
                    "{}: {request:?} is followed by {event:?}",
                    thread.name
                );
            } else {
                check!(
                    event.kind != Kind::AcquiredAfterWait,
                    "{}: no request before {event:?}",
                    thread.name
                );
            }
            if matches!(event.kind, Kind::Request | Kind::RequestShared) {
                open = Some(event);
            }
        }
    }
    Ok(())
}

/// Each wait ends, and what began within it has ended before.
fn waits_nest(recording: &Recording) -> Result {
    for thread in &recording.threads {
        let mut open: Vec<&Event> = Vec::new();
        for event in &thread.events {
            match event.kind {
                Kind::Request | Kind::RequestShared => open.push(event),
                Kind::AcquiredAfterWait => {
                    let request = open.pop();
                    check!(
                        request.is_some_and(|request| request.object == event.object),
                        "{}: {request:?} is ended by {event:?}",
                        thread.name
                    );
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A lock that one thread has at a time.
fn is_exclusive(object: &Object) -> bool {
    matches!(
        object.kind,
        ObjectKind::Mutex | ObjectKind::Spin | ObjectKind::OmpLock
    )
}

/// An exclusive lock has one holder at a time. `is_late`: whether a release, given the event before
/// it, was recorded later than it was made.
fn holds_do_not_overlap(
    recording: &Recording,
    is_late: impl Fn(Option<&Event>, &Event) -> bool,
) -> Result {
    let mut holds: HashMap<u32, Vec<(u64, u64, u32)>> = HashMap::new();
    for (ix, thread) in (0..).zip(&recording.threads) {
        let mut since: HashMap<u32, u64> = HashMap::new();
        let mut before = None;
        for event in &thread.events {
            let late = is_late(before.replace(event), event);
            let mutex = match event.kind {
                Kind::CondWait | Kind::CondWoken => event.arg as u32,
                _ => event.object,
            };
            let exclusive = recording.objects.get(mutex as usize);
            if !exclusive.is_some_and(is_exclusive) {
                continue;
            }
            match event.kind {
                Kind::Acquired | Kind::AcquiredAfterWait | Kind::TryAcquired | Kind::CondWoken => {
                    since.insert(mutex, event.at_ns);
                }
                Kind::Released | Kind::CondWait => {
                    if let Some(from) = since.remove(&mutex).filter(|_| !late) {
                        holds
                            .entry(mutex)
                            .or_default()
                            .push((from, event.at_ns, ix));
                    }
                }
                _ => {}
            }
        }
    }
    for (object, mut holds) in holds {
        holds.sort_unstable();
        let both = holds.windows(2).find(|h| h[0].1 > h[1].0);
        check!(
            both.is_none(),
            "{:?} is held twice at once: {both:?}",
            recording.objects[object as usize]
        );
    }
    Ok(())
}

/// What is counted by both, by call site.
type Counts = HashMap<(u64, &'static str), u64>;

/// Per call site, as many events as the agent has counted calls.
fn counts_are_those_of_the_tables(process: &Process, recording: &Recording) -> Result {
    let counted = counted(process);
    let (seen, recursive) = seen(recording);
    let different: Vec<_> = counted
        .iter()
        .filter(|((pc, _), _)| !recursive.contains(pc))
        .filter(|(key, n)| seen.get(*key).copied().unwrap_or(0) != **n)
        .map(|(key, n)| (key, n, seen.get(key)))
        .collect();
    check!(
        different.is_empty(),
        "((site, what), counted, events): {different:x?}"
    );
    let uncounted: Vec<_> = seen
        .iter()
        .filter(|(key, _)| !counted.contains_key(*key))
        .collect();
    check!(
        uncounted.is_empty(),
        "events of nothing counted: {uncounted:x?}"
    );
    Ok(())
}

fn counted(process: &Process) -> Counts {
    let counts = process
        .counts
        .iter()
        .map(|c| (c.frame, c.op, c.n, c.failed));
    let others = process
        .unattributed
        .iter()
        .map(|c| (c.frame, c.op, c.n, c.failed));
    let mut all = Counts::new();
    for (frame, op, n, failed) in counts.chain(others) {
        let pc = process.frames[frame as usize].pc;
        let (what, n) = match op {
            Op::MutexLock
            | Op::MutexTimedlock
            | Op::RwlockRd
            | Op::RwlockWr
            | Op::RwlockTimedrd
            | Op::RwlockTimedwr
            | Op::SpinLock
            | Op::OmpLock
            | Op::OmpCritical => ("acquired", n),
            Op::MutexTrylock
            | Op::RwlockTryrd
            | Op::RwlockTrywr
            | Op::SpinTrylock
            | Op::OmpTrylock => ("tried", n),
            Op::SemTrywait | Op::SemWait | Op::SemTimedwait => ("semaphore", n - failed),
            Op::CondWait | Op::CondTimedwait => ("condition", n),
            Op::CondSignal | Op::CondBroadcast => ("signal", n),
            Op::SemPost => ("post", n),
            Op::BarrierWait | Op::OmpBarrier => ("barrier", n),
            Op::Join => ("join", n - failed),
            Op::FutexWait => ("futex-wait", n),
            Op::FutexWake => ("futex-wake", n),
            Op::Once | Op::OmpRegion => continue,
        };
        *all.entry((pc, what)).or_default() += n;
    }
    all.retain(|_, n| *n > 0);
    all
}

/// Events by call site, and the sites of recursive mutexes: of these the outermost acquisitions alone are events.
fn seen(recording: &Recording) -> (Counts, Vec<u64>) {
    const RECURSIVE: u32 = 1; // PTHREAD_MUTEX_RECURSIVE in the low bits of a mutex's kind
    let (mut all, mut recursive) = (Counts::new(), Vec::new());
    for event in recording.threads.iter().flat_map(|t| &t.events) {
        let Some(site) = recording.sites.get(event.site as usize) else {
            continue;
        };
        let object = recording.objects.get(event.object as usize);
        if object.is_some_and(|o| o.kind == ObjectKind::Mutex && o.attr & 3 == RECURSIVE) {
            recursive.push(site.pc);
        }
        let of_region = object.is_some_and(|o| o.addr + 1 == site.pc);
        let (what, n) = match event.kind {
            Kind::Acquired | Kind::AcquiredShared | Kind::AcquiredAfterWait => ("acquired", 1),
            Kind::TryAcquired => ("tried", 1),
            Kind::TryFailed if object.is_some_and(|o| o.kind == ObjectKind::Sem) => continue,
            Kind::TryFailed => ("tried", event.arg),
            Kind::SemAcquired => ("semaphore", 1),
            Kind::CondWoken => ("condition", 1),
            Kind::Signal | Kind::Broadcast => ("signal", 1),
            Kind::SemPost => ("post", 1),
            Kind::BarrierArrive if !of_region => ("barrier", 1),
            Kind::JoinEnd => ("join", 1),
            Kind::FutexWait => ("futex-wait", 1),
            Kind::FutexWake => ("futex-wake", 1),
            _ => continue,
        };
        *all.entry((site.pc, what)).or_default() += n;
    }
    (all, recursive)
}
