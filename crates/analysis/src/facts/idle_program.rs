//! Whether a program is idle most of the time because nobody asks for anything: then what a request takes keeps nobody from more of
//! them.

use std::collections::BTreeMap;

use convoy_model::{OffCpu, OffId, OffReason, ThreadId};

use crate::detectors::blocking_calls::ends::{end, End};
use crate::facts::concurrency::none;
use crate::facts::run_view::{is_file_io, RunView};
use crate::tables::waits::meanwhile;

/// Share of the run without anything to do from which on it is idle.
const MOSTLY: f64 = 0.5;

/// Whether, for most of the run, some thread waits for what comes from outside, and all others with it: none works, or is in anything
/// that a request would be in.
pub(crate) fn nobody_asks(view: &RunView) -> bool {
    let offs = || view.sched.offs.iter();
    let busy: f64 = offs()
        .filter(|off| is_of_a_request(view, off))
        .map(|off| none(meanwhile(off)))
        .sum();
    let idle = none(&view.sched.working) - busy;
    if idle < MOSTLY * view.wall {
        return false;
    }
    let mut inside: BTreeMap<OffId, f64> = BTreeMap::new();
    for wake in &view.sched.wakes {
        if matches!(wake.waker, convoy_model::Waker::Thread(..)) {
            *inside.entry(wake.off).or_default() += wake.wait_ns as f64;
        }
    }
    let mut threads: BTreeMap<ThreadId, f64> = BTreeMap::new();
    for (id, off) in (0..).map(OffId).zip(offs()) {
        if is_for_a_request(view, off) {
            let by_others = inside.get(&id).copied().unwrap_or(0.0);
            let outside = 1.0 - (by_others / (off.sum_ns as f64).max(1.0)).min(1.0);
            *threads.entry(off.thread).or_default() += outside * none(meanwhile(off));
        }
    }
    threads.values().any(|ns| *ns >= MOSTLY * view.wall)
}

/// Whether a thread waits for somebody who asks: for events, or at the end of a connection that is asked.
fn is_for_a_request(view: &RunView, off: &OffCpu) -> bool {
    match off.reason {
        OffReason::Poll => true,
        OffReason::Socket => matches!(end(view, off), End::Listens | End::Asked),
        _ => false,
    }
}

/// Whether it is a wait that a request may be in.
fn is_of_a_request(view: &RunView, off: &OffCpu) -> bool {
    match off.reason {
        reason if is_file_io(reason) => true,
        OffReason::PageFault | OffReason::Memory | OffReason::Child => true,
        OffReason::Socket => !is_for_a_request(view, off),
        OffReason::Sleep => view.workers.contains(&off.thread),
        _ => false,
    }
}
