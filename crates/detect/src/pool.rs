//! Pools of tokens: semaphores whose threads take, use and give back.

use convoy_model::finding::{Finding, Subject};
use convoy_model::is_pythons_lock;

use crate::causes::cause;
use crate::gain::{predict, Change};
use crate::ops::Role;
use crate::rows::{EventClass, EventRow};
use crate::text::{count, duration, evidence, percent, place_of, plural};
use crate::Context;

pub(crate) fn findings(cx: &Context, events: &[EventRow]) -> Vec<Finding> {
    events
        .iter()
        .filter(|e| e.class == EventClass::Pool && e.waited_ratio >= cx.t.waited_ratio)
        .map(|e| finding(cx, e))
        .collect()
}

fn finding(cx: &Context, event: &EventRow) -> Finding {
    let view = cx.view;
    let mut change = Change::none(view);
    for u in view
        .uses_of(event.object)
        .iter()
        .filter(|u| view.role(u) == Some(Role::Wait))
    {
        if let Some(i) = view.thread(u.thread) {
            let d = &mut change.deltas[i];
            d.wait = (d.wait + u.wait_ns as f64).min(view.threads[i].life);
        }
    }
    // What the tokens stand for may itself be scarce.
    change.sure = 0.2;
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
        id: "small-pool",
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
