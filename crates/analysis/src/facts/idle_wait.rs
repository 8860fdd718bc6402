//! Waits for events, and whether anybody could have shortened them.
//!
//! A worker that waits at an empty queue is idle: the wait is the absence of work, not its cause.
//! The same wait is somebody's fault if the thread that should have ended it was at work all the
//! time (a slow stage), was itself held up by a lock, or is one of several that share the work
//! unevenly. So a wait is judged by whoever ended it.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{tokens_are_given_back, FutexOf, GroupId, ObjectId, OffReason, ThreadId, Use};
use convoy_profile::{ObjectKind, Op};

use crate::facts::operations::{is_meeting, Role};
use crate::facts::process_view::ProcessView;
use crate::facts::wait_pairs::{waits_for, Pairs};
use crate::tables::counters::{EventClass, EventRow};
use crate::tables::locks::{add_hist, own_pairs, site_shares};
use crate::words::percent;

/// A group that works (or does I/O) for this share of its life has no capacity left.
pub(crate) const SATURATED: f64 = 0.8;
/// A waker that waits for locks for this share of its life is delayed by them.
const DELAYED: f64 = 0.2;
/// Share of the waits that threads of the waiter's own kind must have ended to speak of their affair.
const OWN_SHARE: f64 = 0.6;
/// Share of its own time, queues for locks and processors apart, that a thread sleeps that looks after something from
/// time to time.
const ASLEEP: f64 = 0.8;

/// Waits of one group that another group ended, at events: (waits, nanoseconds).
pub(crate) type Links = BTreeMap<(GroupId, GroupId), (u64, u64)>;

/// One row per event object, most waited first, and which groups wake which.
pub(crate) fn event_rows(view: &ProcessView, pairs: &Pairs) -> (Vec<EventRow>, Links) {
    let mut rows = Vec::new();
    let mut links = Links::new();
    for uses in view.uses().chunk_by(|a, b| a.object == b.object) {
        let object = uses[0].object;
        if view.locks.contains(object) {
            continue;
        }
        let mut row = totals(view, object, uses);
        if row.calls + row.waits == 0 {
            continue;
        }
        let wakers = Wakers::of(view, pairs, object);
        (row.class, row.why) = classify(view, &row, uses, &wakers);
        if !matches!(view.object(object), Some(o) if o.kind == ObjectKind::Thread) {
            for (link, (n, ns)) in &wakers.by_group {
                let sum = links.entry(*link).or_default();
                sum.0 += n;
                sum.1 += ns;
            }
        }
        row.waits_for = waits_for(own_pairs(view, pairs, object));
        rows.push(row);
    }
    rows.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then(a.object.cmp(&b.object)));
    links.retain(|(a, b), _| a != b);
    (rows, links)
}

/// Writes what the classes mean into the threads' times.
pub(crate) fn mark_elastic(view: &mut ProcessView, rows: &[EventRow]) {
    let classes: BTreeMap<ObjectId, EventClass> =
        rows.iter().map(|r| (r.object, r.class)).collect();
    let mut parts = vec![(0.0, 0.0); view.threads.len()];
    for u in view.uses() {
        let (Some(class), Some(i)) = (classes.get(&u.object), view.thread(u.thread)) else {
            continue;
        };
        if view.role(u) != Some(Role::Wait) {
            continue;
        }
        match class {
            EventClass::Idle => {
                parts[i].0 += u.wait_ns as f64;
                parts[i].1 += u.wait_ns as f64;
            }
            EventClass::SlowPeer | EventClass::DelayedPeer | EventClass::Unknown => {
                parts[i].0 += u.wait_ns as f64
            }
            EventClass::Straggler | EventClass::Pool => {}
        }
    }
    for (t, (elastic, idle)) in view.threads.iter_mut().zip(parts) {
        t.elastic = elastic.min(t.life);
        t.idle = idle.min(t.life);
    }
}

/// A lone thread that sleeps nearly all the time, and for which nobody waits but at locks, looks after something from
/// time to time until the others are done: it ends with them, however fast they get.
pub(crate) fn mark_tickers(view: &mut ProcessView, links: &Links) {
    let model = view.model;
    let Some(sched) = &model.sched else {
        return;
    };
    let awaited: BTreeSet<GroupId> = links.keys().map(|&(_, waker)| waker).collect();
    let mut members: BTreeMap<GroupId, usize> = BTreeMap::new();
    for t in &view.threads {
        *members.entry(t.group).or_default() += 1;
    }
    let mut slept: BTreeMap<ThreadId, f64> = BTreeMap::new();
    for t in &view.threads {
        if !t.main && members.get(&t.group) == Some(&1) && !awaited.contains(&t.group) {
            slept.insert(t.id, 0.0);
        }
    }
    if slept.is_empty() {
        return;
    }
    for off in sched
        .offs
        .iter()
        .filter(|off| off.reason == OffReason::Sleep)
    {
        if let Some(slept) = slept.get_mut(&off.thread) {
            *slept += off.sum_ns as f64;
        }
    }
    for t in &mut view.threads {
        let slept = slept.get(&t.id).copied().unwrap_or(0.0).min(t.off);
        if slept > ASLEEP * (t.life - t.lock_wait - t.run_delay) {
            t.elastic = (t.elastic + slept).min(t.life);
        }
    }
}

fn totals(view: &ProcessView, object: ObjectId, uses: &[&Use]) -> EventRow {
    let mut row = EventRow {
        object,
        ..Default::default()
    };
    let mut waiters: BTreeMap<usize, u64> = BTreeMap::new();
    for u in uses {
        match view.role(u) {
            Some(Role::Wait) => {
                row.calls += u.calls;
                row.waits += u.waits;
                row.wait_ns += u.wait_ns;
                row.wait_max_ns = row.wait_max_ns.max(u.wait_max_ns);
                row.timeouts += u.timeouts;
                add_hist(&mut row.wait_hist, &u.hist);
                if let Some(i) = view.thread(u.thread).filter(|_| u.wait_ns > 0) {
                    *waiters.entry(i).or_default() += u.wait_ns;
                }
            }
            Some(Role::Wake) => row.wakes += u.calls,
            _ => {}
        }
    }
    let life: f64 = waiters.keys().map(|i| view.threads[*i].life).sum();
    row.waited_ratio = if life > 0.0 {
        (row.wait_ns as f64 / life).min(1.0)
    } else {
        0.0
    };
    row.threads = waiters.len();
    row.sites = site_shares(view, uses);
    row
}

/// Who ended the waits at one object.
struct Wakers {
    /// (waiter's group, waker's group).
    by_group: BTreeMap<(GroupId, GroupId), (u64, u64)>,
    known_ns: u64,
}

impl Wakers {
    fn of(view: &ProcessView, pairs: &Pairs, object: ObjectId) -> Self {
        let mut this = Self {
            by_group: BTreeMap::new(),
            known_ns: 0,
        };
        for p in own_pairs(view, pairs, object) {
            let (Some(waiter), Some(peer)) =
                (view.thread(p.thread), p.peer.and_then(|id| view.thread(id)))
            else {
                continue;
            };
            let sum = this
                .by_group
                .entry((view.threads[waiter].group, view.threads[peer].group))
                .or_default();
            sum.0 += p.waits;
            sum.1 += p.wait_ns;
            this.known_ns += p.wait_ns;
        }
        this
    }

    /// Share of the wait ended by threads of the waiter's own group.
    fn own_share(&self) -> f64 {
        let own: u64 = self
            .by_group
            .iter()
            .filter(|((a, b), _)| a == b)
            .map(|(_, (_, ns))| ns)
            .sum();
        if self.known_ns > 0 {
            own as f64 / self.known_ns as f64
        } else {
            0.0
        }
    }

    /// The group that ended most of the waits of other groups.
    fn main_waker(&self) -> Option<GroupId> {
        let mut sums: BTreeMap<GroupId, u64> = BTreeMap::new();
        for ((waiter, waker), (_, ns)) in &self.by_group {
            if waiter != waker {
                *sums.entry(*waker).or_default() += ns;
            }
        }
        sums.into_iter().max_by_key(|(_, ns)| *ns).map(|(g, _)| g)
    }
}

fn classify(
    view: &ProcessView,
    row: &EventRow,
    uses: &[&Use],
    wakers: &Wakers,
) -> (EventClass, String) {
    let Some(object) = view.object(row.object) else {
        return (EventClass::Unknown, String::new());
    };
    if is_meeting(object) {
        return (
            EventClass::Straggler,
            "threads meet here: all wait for the last one".into(),
        );
    }
    if object.kind == ObjectKind::Thread {
        return (EventClass::Idle, "waits for a thread to end".into());
    }
    let timeout_ns: u64 = uses.iter().map(|u| u.timeout_ns).sum();
    if row.wait_ns > 0 && timeout_ns * 10 >= row.wait_ns * 9 {
        return (
            EventClass::Idle,
            "nearly all of it ended by timeout: a timer".into(),
        );
    }
    // Of a C++ semaphore only the calls that wait or wake are seen: no balance can be drawn.
    let unbalanced_pool =
        object.futex_of == Some(FutexOf::CxxSemaphore) && wakers.own_share() >= OWN_SHARE;
    if unbalanced_pool
        || (object.kind == ObjectKind::Sem && tokens_are_given_back(uses.iter().copied()))
    {
        return (
            EventClass::Pool,
            "the threads that wait are the ones that post: a pool of tokens that is too small"
                .into(),
        );
    }
    if wakers.known_ns * 2 < row.wait_ns {
        return (
            EventClass::Unknown,
            "most of these waits were ended by somebody who was not seen".into(),
        );
    }
    if wakers.own_share() >= OWN_SHARE {
        let (mut broadcasts, mut wakes) = (0, 0);
        for u in uses.iter().filter(|u| view.role(u) == Some(Role::Wake)) {
            wakes += u.calls;
            broadcasts += if matches!(u.op, Some(Op::CondBroadcast)) {
                u.calls
            } else {
                0
            };
        }
        return if broadcasts > 0 && broadcasts * 2 >= wakes {
            (EventClass::Straggler, "ended by a broadcast of the same kind of thread: a barrier made of a condition variable".into())
        } else {
            (
                EventClass::Unknown,
                "ended by threads of the same kind".into(),
            )
        };
    }
    let Some(waker) = wakers.main_waker() else {
        return (EventClass::Unknown, String::new());
    };
    let name = view.group_name(waker);
    let (life, on_cpu, off, locked) =
        view.group_threads(waker)
            .fold((0.0, 0.0, 0.0, 0.0), |a, t| {
                (
                    a.0 + t.life,
                    a.1 + t.busy() - t.off + t.run_delay,
                    a.2 + t.off,
                    a.3 + t.lock_wait,
                )
            });
    let busy = on_cpu + off;
    if life <= 0.0 {
        (EventClass::Unknown, String::new())
    } else if busy / life >= SATURATED && off > on_cpu {
        // A timer, a peer on the network, a disk: the source is as fast as it is.
        (
            EventClass::Idle,
            format!(
                "{name}, who ends these waits, is asleep or in I/O {} of its time",
                percent(off / life)
            ),
        )
    } else if busy / life >= SATURATED {
        (
            EventClass::SlowPeer,
            format!(
                "{name}, which ends these waits, is busy {:.0} % of its time",
                100.0 * busy / life
            ),
        )
    } else if locked / life >= DELAYED {
        (
            EventClass::DelayedPeer,
            format!(
                "{name}, who ends these waits, waits for locks {:.0} % of its time",
                100.0 * locked / life
            ),
        )
    } else {
        (EventClass::Idle, format!("{name}, which ends these waits, was not blocked and had time to spare: there was no work"))
    }
}
