//! Time off the CPU that no recorded operation explains: preemption, or I/O and sleep.
//!
//! Preemption comes from the scheduler, which replay has its own of, so it is left out of the program.
//! I/O and sleep are the program's and stay. A thread that has also left the CPU by itself since
//! the reading before counts as preempted where more threads wanted to run then than there are CPUs.

use convoy_trace::{Kind, Recording, Window};

/// Decides what time off the CPU was.
#[derive(Debug)]
pub(super) struct Policy {
    /// Points in time at which the number of runnable threads changes, and that number from there on.
    runnable: Vec<(u64, i32)>,
    cpus: i32,
}

impl Policy {
    pub fn of(recording: &Recording, window: Window) -> Self {
        let mut changes = Vec::new();
        for thread in &recording.threads {
            let Some((first, last)) = thread.events.first().zip(thread.events.last()) else {
                continue;
            };
            let begins = match first.kind {
                Kind::Start => first.at_ns,
                _ => recording.start_ns,
            };
            let ends = match last.kind {
                Kind::End => last.at_ns,
                _ => recording.end_ns,
            };
            changes.push((begins, 1));
            changes.push((ends, -1));
            let mut waits = false;
            for event in &thread.events {
                if waits {
                    changes.push((event.at_ns, 1));
                }
                waits = begins_wait(event.kind);
                if waits {
                    changes.push((event.at_ns, -1));
                }
            }
            if waits && last.kind != Kind::End {
                changes.push((ends, 1));
            }
        }
        changes.sort_unstable();
        let mut level = 0;
        let mut runnable: Vec<(u64, i32)> = Vec::new();
        for (at, change) in changes {
            level += change;
            match runnable.last_mut() {
                Some(last) if last.0 == at => last.1 = level,
                _ if at > window.end_ns => break,
                _ => runnable.push((at, level)),
            }
        }
        Self {
            runnable,
            cpus: recording.cpus.max(1) as i32,
        }
    }

    /// Whether a thread that was off the CPU between these times was kept off by others.
    pub fn is_preemption(&self, from_ns: u64, to_ns: u64) -> bool {
        let middle = from_ns + to_ns.saturating_sub(from_ns) / 2;
        let at = self.runnable.partition_point(|(at, _)| *at <= middle);
        let level = at.checked_sub(1).map_or(0, |at| self.runnable[at].1);
        level > self.cpus
    }
}

/// Whether the thread is off the CPU from this event until its next one.
pub(super) fn begins_wait(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Request
            | Kind::RequestShared
            | Kind::CondWait
            | Kind::BarrierArrive
            | Kind::SemRequest
            | Kind::JoinBegin
            | Kind::FutexWait
    )
}
