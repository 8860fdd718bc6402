//! A thread that hardly ever gets a lock that others keep taking, while the whole run waits for that thread.
//!
//! glibc's reader-writer locks let readers pass a waiting writer, and its mutexes let a running thread pass one that
//! was woken: whoever takes the lock again at once starves the other one. The others lose no time, so that time
//! accounting finds nothing to gain; but if they only go on until that thread is done, all their time is lost.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::FindingId;
use convoy_model::Use;
use convoy_profile::ObjectKind;

use crate::estimate::queueing::Saving;
use crate::facts::operations::Role;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::site_with_most;
use crate::root_causes::cause;
use crate::tables::counters::LockRow;
use crate::words::{count, duration, evidence, percent, place_of};

/// Share of its life that the thread waits for the lock, and that the others do at most.
const STARVED: f64 = 0.5;
const OTHERS: f64 = 0.1;
/// Times that others take the lock for each time that it does: with fewer, it only waits for long holds, in its turn.
const PASSED: f64 = 5.0;
/// Share of the run that it lives for.
const LONG: f64 = 0.5;
/// Share of the run within which all others end once it has: they only went on because it did.
const TOGETHER: f64 = 0.02;
/// The same before it has: what they wait for is there before the thread itself is gone.
const BEFORE: f64 = 0.005;
/// It still waits for those that have the lock when it comes.
const EXPECTED: f64 = 0.8;

pub(crate) fn findings(cx: &ProcessFacts, locks: &[LockRow]) -> Vec<Finding> {
    let found = locks.iter().filter_map(|row| finding(cx, row));
    found
        .filter(|finding| finding.gain.mid >= cx.t.gain_mid)
        .collect()
}

fn finding(cx: &ProcessFacts, row: &LockRow) -> Option<Finding> {
    let view = cx.view;
    let acquires = |u: &&&Use| matches!(view.role(u), Some(Role::Acquire | Role::AcquireShared));
    let uses = || view.uses_of(row.object).iter().filter(acquires);
    let mut waits: BTreeMap<usize, f64> = BTreeMap::new();
    for u in uses() {
        if let Some(i) = view.thread(u.thread) {
            *waits.entry(i).or_default() += u.wait_ns as f64;
        }
    }
    let share = |i: usize, ns: f64| ns / view.threads[i].life.max(1.0);
    let (&starved, &wait) = waits
        .iter()
        .max_by(|a, b| share(*a.0, *a.1).total_cmp(&share(*b.0, *b.1)))?;
    let thread = &view.threads[starved];
    if share(starved, wait) < STARVED || thread.life < LONG * view.wall() {
        return None;
    }
    let others = || waits.iter().filter(|(i, _)| **i != starved);
    let at_ease = |(i, ns): (&usize, &f64)| share(*i, *ns) <= OTHERS;
    // A thread that lived on until the process ended says nothing of who waited for whom.
    let end = thread.end - BEFORE * view.wall()..=thread.end + TOGETHER * view.wall();
    let until = |i: usize| end.contains(&view.threads[i].end);
    if others().count() == 0
        || !others().all(at_ease)
        || thread.end >= view.end
        || !others().all(|(i, _)| until(*i))
    {
        return None;
    }
    let own = |u: &&&Use| view.thread(u.thread) == Some(starved);
    let calls: u64 = uses().filter(own).map(|u| u.calls).sum();
    let of_others: u64 = uses().filter(|u| !own(u)).map(|u| u.calls).sum();
    let passed = of_others as f64 / calls.max(1) as f64;
    if passed < PASSED {
        return None;
    }
    let site = site_with_most(uses().copied().filter(|u| own(&u)), |u| u.calls);
    let holder = site_with_most(uses().copied().filter(|u| !own(&u)), |u| u.calls);
    let (here, there) = (place_of(view, site), place_of(view, holder));
    let hold = row.stats.hold_total_ns / row.stats.acquisitions.max(1) as f64;
    let saving = Saving {
        stretch: thread.life,
        cpu: thread.cpu,
        saved: EXPECTED * (wait - calls as f64 * hold).max(0.0),
        saved_max: wait,
        sure: 0.0,
    };
    let name = view.object_name(row.object);
    let readers = view
        .object(row.object)
        .is_some_and(|o| o.kind == ObjectKind::RwLock);
    let (text, fix) = if readers {
        (
            "readers pass a writer that waits: it gets the lock when by chance none of them has it",
            format!("let writers go first (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), hold it for a shorter time at {there}, or let readers use a copy"),
        )
    } else {
        (
            "whoever lets it go takes it again before the one that waits has woken up",
            format!("shorter sections at {there} and more between two of them, or a lock that is handed on in order"),
        )
    };
    Some(Finding {
        id: FindingId::StarvedThread,
        subject: Subject::object_at(row.object, site),
        title: format!(
            "{name}: a thread of {} starves: it waits {} of its time for the lock, and the others go on until it is done",
            view.group_name(thread.group),
            percent(share(starved, wait))
        ),
        evidence: vec![
            evidence(
                "wait_ns",
                wait,
                format!(
                    "waited {} for {} acquisitions at {here}",
                    duration(wait),
                    count(calls as f64)
                ),
            ),
            evidence(
                "others",
                others().count() as f64,
                format!(
                    "{} others hardly wait, take it at {there} {} times for each of these, for {} each, and end within {} of that thread's end",
                    others().count(),
                    count(passed),
                    duration(hold),
                    percent(TOGETHER)
                ),
            ),
        ],
        causes: vec![cause("starved-thread", text, fix)],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "the thread's waits for the lock, gone but for the holds that it meets",
            "the work of that thread",
        ),
        share_of_thread_time: share(starved, wait),
        caveats: vec![
            "that the others only go on until that thread is done is inferred from when they end".into(),
        ],
    })
}
