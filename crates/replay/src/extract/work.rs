//! Work between a thread's operations: time since the latest one, without what was not the
//! program's.

use convoy_trace::{Event, Kind};

use super::thread::Walk;
use crate::program::{LockIx, Op};

/// Which end of a piece of work an operation on a lock is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    Acquire,
    Release,
    Other,
}

impl Edge {
    pub(super) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Acquired | Kind::AcquiredShared | Kind::AcquiredAfterWait | Kind::TryAcquired => {
                Self::Acquire
            }
            Kind::Released | Kind::Woke => Self::Release,
            _ => Self::Other,
        }
    }
}

/// A thread was off the CPU at some time within these bounds, nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Off {
    from_ns: u64,
    to_ns: u64,
    /// It has not left the CPU by itself.
    is_forced: bool,
}

impl Walk<'_, '_> {
    /// Work since the latest operation. `acquires`: an operation follows that has half of the cost
    /// of a lock and unlock in front of its event.
    pub(super) fn work_until(&mut self, at_ns: u64, acquires: bool) {
        let before = if acquires {
            Edge::Acquire
        } else {
            Edge::Release
        };
        self.work(at_ns, before, 0.0);
    }

    /// The same before an event that acquires or requests a lock.
    pub(super) fn work_until_lock(&mut self, at_ns: u64, lock: LockIx, event: usize) {
        let paid = self.of.transfers.paid(self.recorded, event, lock);
        self.work(
            at_ns,
            Edge::Acquire,
            paid.map_or(0.0, |of| f64::from(of.word_ns)),
        );
    }

    /// What of the section that an event begins is for the cache lines of its data.
    pub(super) fn data_ns(&self, lock: LockIx, event: usize) -> f64 {
        let paid = self.of.transfers.paid(self.recorded, event, lock);
        paid.map_or(0.0, |of| f64::from(of.data_ns))
    }

    fn work(&mut self, at_ns: u64, before: Edge, transfer_ns: f64) {
        let wall = at_ns.saturating_sub(self.free_since_ns) as f64;
        let cost = self.cost(before) + transfer_ns + std::mem::take(&mut self.data_ns);
        let ns = (wall - self.off_ns - cost).max(0.0) as f32;
        if ns > 0.0 {
            self.ops.push(Op::Work { ns });
        }
        self.free_at(at_ns.max(self.free_since_ns));
    }

    /// What a piece of no work lasts in a recording, beyond what replay adds again.
    fn cost(&self, before: Edge) -> f64 {
        let (recorder, pair_ns) = (self.of.recorder, self.of.pair_ns);
        match (recorder.empty, self.after, before) {
            (Some(empty), Edge::Release, Edge::Acquire) => empty.gap_ns,
            (Some(empty), Edge::Acquire, Edge::Release) => empty.section_ns,
            (Some(empty), Edge::Acquire, Edge::Acquire)
            | (Some(empty), Edge::Release, Edge::Release) => {
                (empty.section_ns + empty.gap_ns) / 2.0
            }
            (_, _, Edge::Acquire) => recorder.event_ns + pair_ns,
            _ => recorder.event_ns,
        }
    }

    pub(super) fn free_at(&mut self, at_ns: u64) {
        self.free_since_ns = at_ns;
        self.off_ns = 0.0;
        self.data_ns = 0.0;
    }

    /// The CPU clock, read where the thread was found to have been off the CPU.
    ///
    /// Not all of the time off the CPU need lie after its latest event: a thread that is taken off
    /// the CPU between the last look before an operation and the operation's event is found at the
    /// next look. That part is in the longest piece of work since the reading before.
    pub(super) fn read_cpu(&mut self, event: &Event) {
        if let Some((at_ns, cpu_ns)) = self.reading {
            let wall = event.at_ns.saturating_sub(at_ns) as f64;
            let ran = event.arg.saturating_sub(cpu_ns) as f64;
            let since = self.free_since_ns.max(at_ns);
            let open = event.at_ns.saturating_sub(since) as f64;
            let off_ns = (wall - ran - self.waited_ns).max(0.0);
            let off = Off {
                from_ns: since,
                to_ns: event.at_ns,
                is_forced: event.kind == Kind::Preempted,
            };
            self.off_cpu(&off, off_ns.min(open));
            self.was_off_before(&off, at_ns, off_ns - open);
        }
        self.read((event.at_ns, event.arg));
    }

    /// A reading of the CPU clock: when, CPU time.
    pub(super) fn read(&mut self, reading: (u64, u64)) {
        self.reading = Some(reading);
        self.read_at_op = self.ops.len();
        self.waited_ns = 0.0;
    }

    fn off_cpu(&mut self, off: &Off, ns: f64) {
        self.off_ns += ns;
        if self.is_sleep(off, ns) {
            self.sleep(ns);
        }
    }

    /// Takes time off the CPU out of the work that is in the program already, from a time on.
    fn was_off_before(&mut self, off: &Off, from_ns: u64, ns: f64) {
        let work = |op: &Op| match op {
            Op::Work { ns } => *ns,
            _ => 0.0,
        };
        let since = self.read_at_op..self.ops.len();
        let longest = since.max_by(|a, b| work(&self.ops[*a]).total_cmp(&work(&self.ops[*b])));
        let Some(longest) = longest.filter(|_| ns > 0.0) else {
            return;
        };
        let ns = ns.min(f64::from(work(&self.ops[longest])));
        if let Op::Work { ns: of_work } = &mut self.ops[longest] {
            *of_work -= ns as f32;
        }
        let before = Off {
            from_ns,
            to_ns: off.from_ns,
            ..*off
        };
        if self.is_sleep(&before, ns) {
            self.opaque.sleep_ns += ns;
            self.ops.insert(longest + 1, Op::Sleep { ns: ns as f32 });
        }
    }

    /// Whether the program itself kept the thread off the CPU. Two clocks differ by less than a
    /// switch takes.
    fn is_sleep(&self, off: &Off, ns: f64) -> bool {
        let is_long = ns > self.of.switch_ns;
        is_long && !off.is_forced && !self.of.off_cpu.is_preemption(off.from_ns, off.to_ns)
    }

    pub(super) fn sleep(&mut self, ns: f64) {
        self.opaque.sleep_ns += ns;
        self.ops.push(Op::Sleep { ns: ns as f32 });
    }
}
