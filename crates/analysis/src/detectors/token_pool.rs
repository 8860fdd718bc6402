//! Pools of tokens: semaphores whose threads take, use and give back.

use convoy_model::finding::{Finding, Subject};
use convoy_model::is_pythons_lock;
use convoy_model::FindingId;
use convoy_profile::Op;

use crate::estimate::queueing::overhead::{NO_WORK, PARK_NS};
use crate::estimate::queueing::{predict, Change};
use crate::facts::operations::Role;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::ProcessView;
use crate::root_causes::cause;
use crate::tables::counters::{EventClass, EventRow};
use crate::words::{count, duration, evidence, percent, place_of, plural};

pub(crate) fn findings(cx: &ProcessFacts, events: &[EventRow]) -> Vec<Finding> {
    events
        .iter()
        .filter(|e| e.class == EventClass::Pool && e.waited_ratio >= cx.t.waited_ratio)
        .map(|e| finding(cx, e))
        .collect()
}

/// As many tokens as threads that want one.
fn without_waits(view: &ProcessView, event: &EventRow) -> Change {
    let mut change = Change::none(view);
    // Waits that no release ended: the thread found the token taken again, and waited once more.
    let in_vain = match event.wakes {
        0 => 0.0, // wake-ups were not seen
        n => event.waits.saturating_sub(n) as f64 / event.waits.max(1) as f64,
    };
    let uses = view.uses_of(event.object).iter();
    for u in uses.filter(|u| view.role(u) == Some(Role::Wait)) {
        let Some(i) = view.thread(u.thread) else {
            continue;
        };
        let (d, t) = (&mut change.deltas[i], &view.threads[i]);
        d.wait = (d.wait + u.wait_ns as f64).min(t.life);
        if u.op == Some(Op::FutexWait) {
            // Of a wait by futex only the sleep is seen. The tries before and after it, and the way
            // back to a CPU between them, are waiting for the token, too: of those delays the share
            // that ends in another wait, at most all.
            d.queue[1] = in_vain * t.run_delay;
            d.queue[2] = t.run_delay;
            for (sum, each) in d.overhead.iter_mut().zip(PARK_NS) {
                *sum = (*sum + u.waits as f64 * in_vain * each).min(NO_WORK * t.cpu);
            }
            d.overhead[0] = 0.0;
        }
    }
    // What the tokens stand for may itself be scarce.
    change.sure = 0.2;
    change
}

fn finding(cx: &ProcessFacts, event: &EventRow) -> Finding {
    let view = cx.view;
    let change = without_waits(view, event);
    let here = place_of(view, event.sites.first().map(|s| s.site));
    let is_lock = is_pythons_lock(view.model, event.object);
    let (lost, why, fix) = match is_lock {
        true => (
            "it",
            "a lock of Python's (threading.Lock) has a single token",
            format!(
                "hold it for a shorter time after {here}: no I/O under it, and what needs no lock before or after it; or one lock \
                 per part of the data"
            ),
        ),
        false => (
            "one of its tokens",
            "more threads want a token than there are",
            format!(
                "more tokens where the semaphore is made, or hold one for a shorter time after {here}; one that is used as a lock, \
                 with a single token, is to be split like a lock"
            ),
        ),
    };
    Finding {
        id: FindingId::SmallPool,
        subject: Subject::Object(event.object),
        title: format!(
            "{}: {} wait {} of their time for {lost}",
            view.object_name(event.object),
            plural(event.threads, "thread"),
            percent(event.waited_ratio)
        ),
        evidence: vec![
            evidence(
                "waited_ratio",
                event.waited_ratio,
                format!(
                    "waits took {} of the time of {}",
                    percent(event.waited_ratio),
                    plural(event.threads, "thread")
                ),
            ),
            evidence(
                "wait_ns",
                event.wait_ns as f64,
                format!(
                    "waited {} in all, {} at most, in {} of {} calls",
                    duration(event.wait_ns as f64),
                    duration(event.wait_max_ns as f64),
                    count(event.waits as f64),
                    count(event.calls as f64)
                ),
            ),
        ],
        causes: vec![cause("pool-too-small", why, fix)],
        undecided: String::new(),
        gain: predict(view, cx.stations, cx.links, &change),
        share_of_thread_time: event.waited_ratio,
        caveats: match is_lock {
            true => Vec::new(),
            false => vec![
                "what the tokens stand for (connections, memory, disks) may itself be limited"
                    .into(),
            ],
        },
    }
}
