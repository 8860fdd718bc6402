//! Events in a few letters.

use convoy_profile::{OffReason, SchedSource};
use convoy_sched::{Accounting, Event, Options, Out, Output, Place, State, WakerIs};

pub const OPTIONS: Options = Options {
    source: SchedSource::Bpf,
    sample_period_ns: 0,
    bins: 100,
    intervals: 1000,
};

pub fn at(stack: u32, reason: OffReason) -> Place {
    Place {
        stack,
        reason,
        nr: -1,
        ..Place::default()
    }
}

pub fn block(ts: u64, tid: u32, stack: u32) -> Event {
    blocked_in(ts, tid, at(stack, OffReason::Futex))
}

pub fn blocked_in(ts: u64, tid: u32, place: Place) -> Event {
    let how = Out::Blocked(place);
    Event::Out { ts, tid, how }
}

pub fn preempt(ts: u64, tid: u32, stack: u32) -> Event {
    let how = Out::Preempted(at(stack, OffReason::Preempted));
    Event::Out { ts, tid, how }
}

pub fn run(ts: u64, tid: u32) -> Event {
    Event::In { ts, tid }
}

pub fn wake(ts: u64, tid: u32, waker: WakerIs) -> Event {
    Event::Wakeup { ts, tid, waker }
}

pub fn by(tid: u32, stack: u32) -> WakerIs {
    WakerIs::Thread(tid, stack)
}

pub fn sample(ts: u64, tid: u32, stack: u32, spin: Option<u32>) -> Event {
    Event::Sample {
        ts,
        tid,
        stack,
        spin,
        fault: false,
    }
}

/// Thread `tid` of process 1.
pub fn init(ts: u64, tid: u32, state: State) -> Event {
    Event::Init {
        ts,
        tid,
        pid: 1,
        state,
    }
}

/// Thread `tid` of process 1.
pub fn fork(ts: u64, tid: u32, parent: u32) -> Event {
    Event::Fork {
        ts,
        tid,
        pid: 1,
        parent,
    }
}

pub fn exit(ts: u64, tid: u32) -> Event {
    Event::Exit { ts, tid }
}

pub fn account(options: Options, events: &[Event], end_ns: u64) -> Output {
    let mut a = Accounting::new(options);
    for event in events {
        a.push(event);
    }
    a.finish(end_ns)
}
