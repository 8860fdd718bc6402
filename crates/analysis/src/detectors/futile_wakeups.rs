//! Threads that a broadcast wakes for nothing: they find that another one was quicker, and wait again (a thundering
//! herd).
//!
//! A thread that is woken and finds nothing waits again without letting the mutex go in between. So it waits more
//! often than it takes the mutex, which a thread at a barrier, or one that finds something, never does.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::{FindingId, ObjectId, Use};
use convoy_profile::{ObjectKind, Op};

use crate::estimate::queueing::{kernel_share, predict, Change, PARK_NS};
use crate::facts::operations::Role;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::{site_with_most, ProcessView};
use crate::root_causes::cause;
use crate::tables::counters::EventRow;
use crate::words::{count, evidence, function, percent, place_of};

/// Share of the waits that must be such.
const FUTILE: f64 = 0.5;
/// Of them, per second of the run: fewer cost nothing to speak of.
const FUTILE_HZ: f64 = 1000.0;
/// Of the time in the kernel, and of that in the functions of locks, what can be expected to go.
const NO_WORK: f64 = 0.9;
/// Samples from which on a share of them means something.
const SAMPLES: f64 = 30.0;
/// Who wakes the others is ready to run without a processor for this share of the time that it could run: then processors are what
/// threads wait for.
const QUEUES: f64 = 0.3;
/// A signal instead of a broadcast may wake the wrong thread, if they wait for different things.
const SURE: f64 = 0.3;

pub(crate) fn findings(cx: &ProcessFacts, events: &[EventRow]) -> Vec<Finding> {
    let is_cond = |e: &&EventRow| {
        let object = cx.view.object(e.object);
        object.is_some_and(|o| o.kind == ObjectKind::Cond)
    };
    let found = events.iter().filter(is_cond);
    found.filter_map(|event| finding(cx, event)).collect()
}

fn finding(cx: &ProcessFacts, event: &EventRow) -> Option<Finding> {
    let view = cx.view;
    let uses = view.uses_of(event.object);
    let wakes = |u: &&&Use| view.role(u) == Some(Role::Wake);
    let (mut broadcasts, mut calls) = (BTreeMap::new(), 0);
    for u in uses.iter().filter(wakes) {
        calls += u.calls;
        if u.op == Some(Op::CondBroadcast) {
            if let Some(i) = view.thread(u.thread) {
                *broadcasts.entry(i).or_insert(0) += u.calls;
            }
        }
    }
    let all: u64 = broadcasts.values().sum();
    if all == 0 || all * 2 < calls {
        return None;
    }
    let Again {
        futile: woken,
        waits,
        mutex,
    } = again(cx, event);
    // Somebody may have found something at each of the calls.
    let futile = woken.values().sum::<f64>().min(waits - calls as f64);
    if futile < FUTILE * waits || futile / view.wall() * 1e9 < FUTILE_HZ {
        return None;
    }
    let mut weights = vec![0.0; view.threads.len()];
    for (i, n) in &woken {
        weights[*i] += n;
    }
    for (i, n) in &broadcasts {
        weights[*i] += futile * *n as f64 / all as f64;
    }
    let in_kernel = NO_WORK * kernel_share(view, &weights);
    let of_wakers = sampled(cx, &|i| broadcasts.contains_key(&i));
    let of_woken = sampled(cx, &|i| woken.contains_key(&i));
    let share = futile / waits;
    let mut change = Change::none(view);
    change.sure = SURE;
    // Who wakes them all while it has the mutex has it for hardly more than that, if it hardly runs anything else.
    if of_wakers.is_some_and(|of| share * of >= FUTILE) {
        change.removed.extend(mutex);
    }
    for (i, delta) in change.deltas.iter_mut().enumerate() {
        let of = match broadcasts.contains_key(&i) {
            true => of_wakers,
            false => of_woken,
        };
        // What they run in the functions of locks and conditions is no work: of that as much goes as is for nothing.
        let goes = of.map_or(0.0, |of| share * of);
        let most = [
            in_kernel,
            in_kernel.max(NO_WORK * goes),
            in_kernel.max(goes),
        ];
        // To wake and to be woken, and the same again for the mutex: all that are woken at once want it. What samples say of
        // it counts more than the usual price.
        let least = [0.0, NO_WORK * goes, 0.0];
        let bounds = least.iter().zip(most);
        for ((sum, park), (least, most)) in delta.overhead.iter_mut().zip(PARK_NS).zip(bounds) {
            *sum =
                (weights[i] * park).clamp(least * view.threads[i].cpu, most * view.threads[i].cpu);
        }
    }
    wait_less(cx, uses, &mut change);
    queue_less(cx, &broadcasts, &mut change);
    answer_sooner(cx, &broadcasts, &mut change);
    let broadcast = uses.iter().copied();
    let broadcast = broadcast.filter(|u| u.op == Some(Op::CondBroadcast));
    let here = place_of(view, site_with_most(broadcast, |u| u.calls));
    let of_calls = waits / calls.max(1) as f64;
    Some(Finding {
        id: FindingId::FutileWakeups,
        subject: Subject::Object(event.object),
        title: format!(
            "{}: {} of the wake-ups are for nothing, {} a second",
            view.object_name(event.object),
            percent(share),
            count(futile / view.wall() * 1e9)
        ),
        evidence: vec![
            evidence(
                "futile_ratio",
                share,
                format!(
                    "of {} waits, {} began right after another one, the mutex not let go in between",
                    count(waits),
                    count(futile)
                ),
            ),
            evidence(
                "waits_per_wake",
                of_calls,
                format!(
                    "{of_calls:.1} threads are woken by each of {} calls, most at {here}",
                    count(calls as f64)
                ),
            ),
        ],
        causes: vec![cause(
            "thundering-herd",
            "all threads that wait are woken, one finds what it waits for, and the others go back to sleep",
            format!("wake one thread for one piece of work (signal, notify_one) at {here}; a condition variable for each thing that is waited for, if they differ"),
        )],
        undecided: String::new(),
        gain: predict(view, cx.stations, cx.links, &change),
        share_of_thread_time: event.waited_ratio,
        caveats: vec!["what a wake-up costs here was not measured".into()],
    })
}

/// Share of what these threads run that is in functions of locks and conditions, their system calls included; `None` with too few
/// samples.
fn sampled(cx: &ProcessFacts, of: &dyn Fn(usize) -> bool) -> Option<f64> {
    let view = cx.view;
    let (mut all, mut there) = (0.0, 0.0);
    for (slice, site) in view.model.samples() {
        if view.thread(slice.thread).is_some_and(of) {
            all += slice.n as f64;
            if site.is_some_and(|site| site.sync.is_some()) {
                there += slice.n as f64;
            }
        }
    }
    (all >= SAMPLES).then(|| there / all)
}

/// Those who wait here wait for one another, and for the wake-ups between: with less to run at the same parallelism, all get on
/// faster in proportion.
fn wait_less(cx: &ProcessFacts, uses: &[&Use], change: &mut Change) {
    let view = cx.view;
    let less = view.wall() * gone(view, change, 1);
    let mut waited: BTreeMap<usize, f64> = BTreeMap::new();
    for u in uses.iter().filter(|u| view.role(u) == Some(Role::Wait)) {
        if let Some(i) = view.thread(u.thread) {
            *waited.entry(i).or_default() += u.wait_ns as f64;
        }
    }
    for (i, waited) in waited {
        let delta = &mut change.deltas[i];
        delta.wait = waited.min((less - delta.overhead[1]).max(0.0));
    }
}

/// Who wakes all the others queues behind them for a CPU: the less they run for nothing, the less. At best all that it is off
/// the CPUs goes with them, for not all of it is counted as queueing; half of that is expected.
fn queue_less(cx: &ProcessFacts, broadcasts: &BTreeMap<usize, u64>, change: &mut Change) {
    let view = cx.view;
    let goes = [0, 1, 2].map(|variant| gone(view, change, variant));
    for &i in broadcasts.keys() {
        let (thread, delta) = (&view.threads[i], &mut change.deltas[i]);
        // A wait has queueing in it.
        let counted = (thread.run_delay - delta.wait).max(0.0);
        let all = (thread.run_delay + thread.off - delta.wait).max(0.0);
        delta.queue = [
            goes[0] * counted,
            goes[1] * (counted + all) / 2.0,
            goes[2] * all,
        ];
    }
}

/// Where threads queue for processors, what those who wake the others wait for themselves - an answer, the mutex - is done by
/// threads that queue behind the ones that run for nothing: it also comes sooner in proportion.
fn answer_sooner(cx: &ProcessFacts, broadcasts: &BTreeMap<usize, u64>, change: &mut Change) {
    let view = cx.view;
    let less = view.wall() * gone(view, change, 1);
    for &i in broadcasts.keys() {
        let (thread, delta) = (&view.threads[i], &mut change.deltas[i]);
        if thread.run_delay < QUEUES * (thread.run_delay + thread.cpu) {
            continue;
        }
        let waits = thread.lock_wait + thread.event_wait;
        let rest = (less - delta.overhead[1] - delta.queue[1]).max(0.0);
        delta.wait = delta.wait.max(waits.min(rest));
    }
}

/// Share of what all threads run that goes: pessimistic, expected, optimistic.
fn gone(view: &ProcessView, change: &Change, variant: usize) -> f64 {
    let deltas = change.deltas.iter();
    let gone: f64 = deltas.map(|delta| delta.overhead[variant]).sum();
    (gone / view.cpu().max(1.0)).min(1.0)
}

/// Waits at a condition.
struct Again {
    /// By thread, those that did not begin with taking the mutex.
    futile: BTreeMap<usize, f64>,
    /// All that did not time out.
    waits: f64,
    mutex: Option<ObjectId>,
}

/// Which mutex a condition has was not recorded: it is one of those that a thread takes where it waits, at most the one that it takes
/// most often. Where it takes none there, any lock may be that mutex.
fn again(cx: &ProcessFacts, event: &EventRow) -> Again {
    let view = cx.view;
    let uses = view.uses_of(event.object);
    let waiting = |u: &&&Use| view.role(u) == Some(Role::Wait);
    let mut waits: BTreeMap<usize, u64> = BTreeMap::new();
    let mut functions: Vec<&str> = Vec::new();
    for u in uses.iter().filter(waiting) {
        if let Some(i) = view.thread(u.thread) {
            *waits.entry(i).or_default() += u.calls.saturating_sub(u.timeouts);
            functions.push(function(view, u.site));
        }
    }
    functions.sort_unstable();
    functions.dedup();
    let (mut near, mut anywhere) = (Taken::default(), Taken::default());
    for u in view.uses() {
        let takes = matches!(view.role(u), Some(Role::Acquire | Role::Try));
        let Some(i) = view.thread(u.thread).filter(|_| takes) else {
            continue;
        };
        let n = u.calls.saturating_sub(u.failed);
        *anywhere.entry((i, u.object)).or_default() += n;
        if functions.binary_search(&function(view, u.site)).is_ok() {
            *near.entry((i, u.object)).or_default() += n;
        }
    }
    let all = waits.values().sum::<u64>() as f64;
    let mut mutexes: BTreeMap<ObjectId, u64> = BTreeMap::new();
    for ((i, object), n) in &near {
        if waits.contains_key(i) {
            *mutexes.entry(*object).or_default() += n;
        }
    }
    let futile = waits.into_iter().map(|(i, n)| {
        let taken = most(&near, i).or_else(|| most(&anywhere, i));
        (i, n.saturating_sub(taken.unwrap_or(0)) as f64)
    });
    Again {
        futile: futile.collect(),
        waits: all,
        mutex: mutexes
            .into_iter()
            .max_by_key(|(_, n)| *n)
            .map(|(id, _)| id),
    }
}

/// How often threads took locks.
type Taken = BTreeMap<(usize, ObjectId), u64>;

/// The most often that a thread took one.
fn most(taken: &Taken, thread: usize) -> Option<u64> {
    let of_thread = taken.range((thread, ObjectId(0))..=(thread, ObjectId(u32::MAX)));
    of_thread.map(|(_, n)| *n).max()
}
