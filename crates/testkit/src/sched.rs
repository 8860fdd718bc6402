//! Scheduler events of a synthetic profile: what each thread does when, and from that every row with its
//! histograms, exactly.

mod sweep;
mod timeline;

use std::collections::BTreeMap;

use convoy_profile::{
    CodeFrom, LoopIx, NameIx, OffReason, Profile, Sched, SpinKind, SpinLoop, StackIx, ThreadIx,
    ThreadRef, Waker,
};

/// The timelines of threads. Every call appends to one of them; all begin at 0, the start of the run.
#[derive(Debug, Default)]
pub struct Schedule {
    lanes: BTreeMap<ThreadRef, Lane>,
    loops: Vec<SpinLoop>,
    names: Vec<String>,
    process: u32,
}

#[derive(Debug, Default)]
struct Lane {
    now: u64,
    start: u64,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    from: u64,
    to: u64,
    doing: Doing,
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    Run(Code),
    Ready(Code),
    Off(Wait),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Code {
    stack: StackIx,
    from: CodeFrom,
    spin: Option<LoopIx>,
}

impl Code {
    fn new(stack: StackIx, from: CodeFrom, spin: Option<LoopIx>) -> Self {
        Self { stack, from, spin }
    }
}

/// A wait: why, where, for what, and who ends it.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    reason: OffReason,
    stack: StackIx,
    address: u64,
    name: Option<NameIx>,
    waker: Waker,
}

impl Wait {
    /// For this reason, at this place.
    pub fn new(reason: OffReason, stack: StackIx) -> Self {
        Self {
            reason,
            stack,
            address: 0,
            name: None,
            waker: Waker::Interrupt,
        }
    }

    /// On a futex word.
    pub fn futex(stack: StackIx, address: u64) -> Self {
        Self {
            address,
            waker: Waker::Unknown,
            ..Self::new(OffReason::Futex, stack)
        }
    }

    /// For this file.
    pub fn named(self, name: NameIx) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    /// Ended by this thread of the same process, at this place.
    pub fn woken_by(self, thread: ThreadIx, stack: StackIx) -> Self {
        self.woken_from(0, thread, stack)
    }

    /// Ended by a thread of that process.
    pub fn woken_from(self, process: u32, thread: ThreadIx, stack: StackIx) -> Self {
        Self {
            waker: Waker::Thread(ThreadRef { process, thread }, stack),
            ..self
        }
    }
}

impl Schedule {
    /// Nothing happens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What follows is in this process. The first one has number 0.
    pub fn process(&mut self, process: u32) -> &mut Self {
        self.process = process;
        self
    }

    /// A loop that waits.
    pub fn spin_loop(&mut self, kind: SpinKind, frame: Option<u32>) -> LoopIx {
        self.loops.push(SpinLoop {
            process: self.process,
            frame,
            lo: 0x1000,
            hi: 0x1010,
            kind,
            evidence: "mov, cmp, jne".into(),
            samples: 0,
        });
        self.loops.len() as LoopIx - 1
    }

    /// A file, pipe or socket.
    pub fn name(&mut self, name: &str) -> NameIx {
        self.names.push(name.into());
        self.names.len() as NameIx - 1
    }

    /// The thread is first seen at this time.
    pub fn starts(&mut self, thread: ThreadIx, at_ns: u64) -> &mut Self {
        let lane = self.lane(thread);
        lane.now = at_ns;
        lane.start = at_ns;
        self
    }

    /// The thread is on a processor, and samples found it here.
    pub fn runs(&mut self, thread: ThreadIx, stack: StackIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::Sample, None);
        self.add(thread, ns, Doing::Run(code))
    }

    /// The thread is on a processor, too short for a sample: it blocks here at the end.
    pub fn runs_until(&mut self, thread: ThreadIx, stack: StackIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::StackTop, None);
        self.add(thread, ns, Doing::Run(code))
    }

    /// The thread waits on a processor.
    pub fn spins(&mut self, thread: ThreadIx, stack: StackIx, spin: LoopIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::Sample, Some(spin));
        self.add(thread, ns, Doing::Run(code))
    }

    /// The thread could run, and waits for a processor.
    pub fn queues(&mut self, thread: ThreadIx, stack: StackIx, ns: u64) -> &mut Self {
        let code = Code::new(stack, CodeFrom::Sample, None);
        self.add(thread, ns, Doing::Ready(code))
    }

    /// The thread waits.
    pub fn waits(&mut self, thread: ThreadIx, wait: Wait, ns: u64) -> &mut Self {
        self.add(thread, ns, Doing::Off(wait))
    }

    fn add(&mut self, thread: ThreadIx, ns: u64, doing: Doing) -> &mut Self {
        let lane = self.lane(thread);
        let from = lane.now;
        lane.now += ns;
        lane.pieces.push(Piece {
            from,
            to: from + ns,
            doing,
        });
        self
    }

    fn lane(&mut self, thread: ThreadIx) -> &mut Lane {
        let process = self.process;
        self.lanes.entry(ThreadRef { process, thread }).or_default()
    }

    /// Adds what happened to a profile.
    pub fn put_into(self, profile: &mut Profile) {
        profile.sched = Some(self.build(profile.meta.start_ns));
    }

    /// The rows of a run that began at this time and ended with the last piece of any thread.
    pub fn build(self, start_ns: u64) -> Sched {
        sweep::rows(&self, start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ms, ProfileBuilder};

    #[test]
    fn rows_follow_from_the_timelines() {
        let mut p = ProfileBuilder::new("app");
        let worker = p.thread("w").id();
        let work = p.site("work", "a.c", 1);
        let join = p.site("join", "a.c", 2);
        let mut s = Schedule::new();
        s.runs(0, work, ms(10));
        s.waits(0, Wait::futex(join, 0x100).woken_by(worker, work), ms(30));
        s.starts(worker, ms(10)).runs(worker, work, ms(30));
        let mut profile = p.build();
        s.put_into(&mut profile);
        let sched = profile.sched.unwrap();
        assert_eq!(sched.active, [0, ms(40)]);
        assert_eq!(sched.threads[0].cm_ns, ms(10) as f64);
        assert_eq!(sched.threads[1].cm_ns, ms(30) as f64);
        assert_eq!(sched.offs[0].by_active[..], [0, ms(30)]);
        assert_eq!(sched.wakes[0].waker_running_ns, ms(30));
        let lanes = sched.timeline.unwrap().lanes;
        let waits = convoy_profile::Doing::Waiting(Some(0));
        assert_eq!(lanes[0].intervals[1].doing, waits);
        assert_eq!(lanes[0].intervals[1].wake, Some(0));
        assert_eq!(
            sched.bins.bins.iter().map(|b| b.active_ns).sum::<u64>(),
            ms(40)
        );
    }

    #[test]
    fn threads_that_spin_are_active_and_do_not_work() {
        let mut s = Schedule::new();
        let spin = s.spin_loop(SpinKind::Pause, None);
        s.runs(0, 1, ms(10));
        s.spins(1, 2, spin, ms(10));
        let sched = s.build(5);
        assert_eq!(sched.active, [0, 0, ms(10)]);
        assert_eq!(sched.working, [0, ms(10)]);
        assert_eq!(sched.threads[0].cm_working_ns, ms(10) as f64);
        assert_eq!(sched.threads[1].cm_working_ns, 0.0);
        assert_eq!(sched.threads[1].spinning_ns, ms(10));
    }
}
