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

    /// The thread was off the CPU since its event before this one.
    pub(super) fn read_cpu(&mut self, event: &Event) {
        if let Some((at_ns, cpu_ns)) = self.reading {
            let wall = event.at_ns.saturating_sub(at_ns) as f64;
            let ran = event.arg.saturating_sub(cpu_ns) as f64;
            let since = self.free_since_ns.max(at_ns);
            let open = event.at_ns.saturating_sub(since) as f64;
            let off = (wall - ran - self.waited_ns).clamp(0.0, open);
            self.off_cpu(since, event.at_ns, off);
        }
        self.reading = Some((event.at_ns, event.arg));
        self.waited_ns = 0.0;
    }

    fn off_cpu(&mut self, from_ns: u64, to_ns: u64, off: f64) {
        self.off_ns += off;
        if off > 0.0 && !self.of.off_cpu.is_preemption(from_ns, to_ns) {
            self.sleep(off);
        }
    }

    pub(super) fn sleep(&mut self, ns: f64) {
        self.opaque.sleep_ns += ns;
        self.ops.push(Op::Sleep { ns: ns as f32 });
    }
}
