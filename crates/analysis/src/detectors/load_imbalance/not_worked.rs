//! What the members but the busiest one did not work, and for whom that was.

use std::collections::BTreeSet;

use convoy_model::{GroupId, OffReason, ProcessId, SchedSource, ThreadId, Waker};

use super::Member;
use crate::facts::lock_recognition::lets_go;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;

/// A process that hands on works itself if it does this share of the others' mean; a thread of a pool takes part if it does
/// this share of the busiest one's.
pub(super) const HELPS: f64 = 0.1;
/// So many pieces that a thread was handed are a habit: it takes part, too, if it does this share of the busiest one's work.
const FED: (u64, f64) = (100, 0.02);

/// What the members but the busiest one did not work, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct NotWorked {
    pub(super) all: f64,
    /// Of `all`, for other members: waits that they ended, busy waiting, and `gone`. Not for locks: who holds one lets it go,
    /// not who has more to do.
    pub(super) known: f64,
    /// Between the end of their own work and that of the busiest one's.
    pub(super) gone: f64,
    /// Of `known`, for the next piece, from somebody who waited for the busiest one; and who that was.
    pub(super) fed: f64,
    pub(super) feeders: BTreeSet<GroupId>,
}

/// What the others did not work, and for whom. Of processes, what launchers, timers and the start took is nobody's.
pub(super) fn for_members(
    cx: &RunFacts,
    members: &[Member],
    busiest_at: usize,
    processes: bool,
) -> NotWorked {
    let view = cx.view;
    let busiest = &members[busiest_at];
    let (mut lost, mut known, mut ended) = (0.0, 0.0, 0.0);
    let (mut fed, mut feeders) = (0.0, BTreeSet::new());
    let others = members
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != busiest_at);
    for (_, other) in others {
        let gone = busiest.end().saturating_sub(other.end()) as f64;
        let spun = other.spun(view);
        let blocked = if processes {
            0.0
        } else {
            other.sum(|th| th.blocked_ns)
        };
        let for_locks = if processes {
            0.0
        } else {
            other.of(&view.spun_for_locks)
        };
        lost += blocked + gone + spun;
        known += gone + spun - for_locks;
        ended += gone;
    }
    if view.sched.source == SchedSource::Perf {
        known = lost; // nobody says who woke whom
    }
    for wake in &view.sched.wakes {
        let Some(off) = view.sched.off(wake.off) else {
            continue;
        };
        let of = members.iter().find(|m| m.has(off.thread));
        let Some(of) = of.filter(|_| !busiest.has(off.thread)) else {
            continue;
        };
        let ns = wake.wait_ns as f64;
        match wake.waker {
            Waker::Thread(_, at) if !processes && lets_go(view, off, at) => {}
            // Its own threads are its own affair.
            Waker::Thread(waker, _) if processes && (of.has(waker) || view.is_helper(waker)) => {}
            Waker::Thread(waker, _) => {
                lost += if processes { ns } else { 0.0 };
                // Who hands on what all have done was waiting for the last one himself.
                let takes_part =
                    |share: f64| !processes && of.working() >= share * busiest.working();
                let is_fed = wake.n >= FED.0 && takes_part(FED.1);
                let hands_on = processes && is_hub(view, members, waker);
                if hands_on || members.iter().any(|m| m.has(waker)) {
                    known += ns;
                } else if is_fed || takes_part(HELPS) {
                    // Who sends a pool home was waiting for the last one of it himself: that is the end of the work of one that
                    // did some.
                    let theirs = cx
                        .waited_for
                        .passed_on(wake, off.thread, |id| busiest.has(id));
                    known += theirs;
                    ended += theirs;
                    if is_fed && theirs > 0.0 {
                        fed += theirs;
                        feeders.insert(view.role(waker));
                    }
                }
            }
            Waker::Interrupt if processes && is_network(off.reason) => lost += ns,
            _ => {}
        }
    }
    NotWorked {
        all: lost,
        known: known.min(lost),
        gone: ended,
        fed,
        feeders,
    }
}

/// Whether the thread is of another process of the program, which is none of them.
fn is_hub(view: &RunView, members: &[Member], id: ThreadId) -> bool {
    let exe = |id: ProcessId| Some(&view.process_at(id)?.exe);
    let of = exe(view.process(id));
    members.iter().all(|m| !m.has(id)) && members.iter().any(|m| exe(m.process) == of)
}

fn is_network(reason: OffReason) -> bool {
    matches!(reason, OffReason::Socket | OffReason::Poll)
}
