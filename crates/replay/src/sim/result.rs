//! From the state at the end of a run to its outcome.

use super::costs::ns;
use super::engine::Sim;
use super::outcome::LockOutcome;
use super::outcome::Outcome;
use super::outcome::Stuck;
use super::outcome::ThreadOutcome;
use super::outcome::WaitKind;
use super::state::Class;
use super::state::Place;
use super::state::Thread;

impl Sim<'_> {
    pub(super) fn into_outcome(mut self) -> Outcome {
        let now = self.now;
        self.set_queued(0);
        let is_cut = self.is_limited && self.live > 0 && self.ops >= self.max_ops;
        let is_stuck = self.live > 0 && !is_cut;
        for thread in &mut self.threads {
            close(thread, now);
        }
        let stuck = is_stuck.then(|| Stuck {
            threads: self
                .threads
                .iter()
                .enumerate()
                .filter(|(_, thread)| !matches!(thread.place, Place::Ended | Place::NotStarted))
                .map(|(tid, thread)| (tid as u32, thread.current_op as u32))
                .collect(),
        });
        Outcome {
            wall_ns: ns(now),
            threads: self.threads.iter().map(thread_outcome).collect(),
            locks: self
                .locks
                .into_iter()
                .map(|lock| LockOutcome {
                    acquisitions: lock.counts.acquisitions,
                    contended: lock.counts.contended,
                    waited_ns: ns(lock.counts.waited),
                    hold_ns: ns(lock.counts.hold),
                    reacquisitions: lock.counts.reacquisitions,
                    reacquire_waited_ns: ns(lock.counts.reacquire_waited),
                    waits: lock.counts.waits,
                })
                .collect(),
            futex: self.futex_counts,
            unmatched_releases: self.unmatched_releases,
            sections: self.sections,
            order: self.order.unwrap_or_default(),
            stuck,
            ops: self.ops,
            is_cut,
            queued: self.enqueued,
            queued_ns: ns(self.queued_time),
        }
    }
}

/// Accounts for what a thread that did not end is in the middle of.
fn close(thread: &mut Thread, now: u64) {
    match thread.place {
        Place::Ended | Place::NotStarted => return,
        Place::Running => {
            thread.cpu_time += now.saturating_sub(thread.on_cpu_since);
            thread.account(thread.class.index(), now);
        }
        Place::Queued | Place::Blocked => {
            let index = match thread.class {
                Class::Sleep => thread.class.index(),
                _ => thread.queued_class(),
            };
            thread.account(index, now);
        }
    }
    thread.end = now;
}

fn thread_outcome(thread: &Thread) -> ThreadOutcome {
    let time = |class: Class| ns(thread.time[class.index()]);
    ThreadOutcome {
        is_missing: thread.place == Place::NotStarted,
        start_ns: ns(thread.start),
        end_ns: ns(thread.end),
        work_ns: time(Class::Work),
        protocol_ns: time(Class::Protocol),
        runnable_ns: ns(thread.time[Class::RUNNABLE]),
        waited_ns: WaitKind::ALL.map(|kind| time(Class::Wait(kind))),
        slept_ns: time(Class::Sleep),
        cpu_ns: ns(thread.cpu_time),
        voluntary: thread.voluntary,
        involuntary: thread.involuntary,
    }
}
