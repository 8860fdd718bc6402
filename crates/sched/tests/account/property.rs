//! Random schedules against the oracle.

use std::collections::BTreeMap;

use convoy_profile::{OffReason, SchedSource, ThreadRef, Waker};
use convoy_sched::{Options, Output};

use crate::draw::schedule;
use crate::laws::{check, close};
use crate::oracle::{truth, By, OffKey};
use crate::tell::account;

/// Lives of one process come in the order in which the oracle counts them.
fn life(thread: ThreadRef) -> usize {
    assert_eq!(thread.process, 0);
    thread.thread as usize
}

fn histogram(hist: &[u64]) -> BTreeMap<usize, u64> {
    let held = hist.iter().enumerate().filter(|h| *h.1 > 0);
    held.map(|(n, &ns)| (n, ns)).collect()
}

fn compare(seed: u64, threads: usize, events: usize, source: SchedSource) {
    let options = Options {
        source,
        sample_period_ns: 700,
        bins: 50,
        intervals: 1000,
    };
    let events = schedule(seed, threads, events, source);
    let end = events.last().unwrap().ts() + 12_345;
    let out = account(options, &events, end);
    check(&out);
    assert_eq!(out.sched.contradictions, 0, "seed {seed}");
    assert_eq!(out.images.len(), 1, "the draw keeps a thread alive");
    let truth = truth(&events, end, options.sample_period_ns);
    compare_slices(&out, &truth.slices, seed);
    compare_offs(&out, &truth.offs, seed);
    compare_wakes(&out, &truth.wakes, seed);
    for t in &out.sched.threads {
        assert_eq!(t.spinning_ns, truth.spinning_ns[life(t.thread)]);
    }
    compare_bins(&out, seed);
}

fn compare_slices(
    out: &Output,
    truth: &BTreeMap<crate::oracle::SliceKey, crate::oracle::SliceSum>,
    seed: u64,
) {
    assert_eq!(out.sched.slices.len(), truth.len(), "seed {seed}");
    for r in &out.sched.slices {
        let t = &truth[&(life(r.thread), r.stack, r.from, r.spin)];
        let what = format!("seed {seed}: {r:?}");
        assert_eq!(
            (r.n, r.active_ns, r.running_ns),
            (t.n, t.active_ns, t.running_ns),
            "{what}"
        );
        assert_eq!(histogram(&r.by_active), t.by_active, "{what}");
        assert_eq!(histogram(&r.by_working), t.by_working, "{what}");
        close(r.cm_ns, t.cm_ns, &what);
        close(r.cm_working_ns, t.cm_working_ns, &what);
    }
}

fn compare_offs(out: &Output, truth: &BTreeMap<OffKey, crate::oracle::OffSum>, seed: u64) {
    assert_eq!(out.sched.offs.len(), truth.len(), "seed {seed}");
    for r in &out.sched.offs {
        let t = &truth[&(life(r.thread), r.stack, r.reason)];
        let what = format!("seed {seed}: {r:?}");
        assert_eq!(
            (r.n, r.sum_ns, r.max_ns, r.unfinished_ns),
            (t.n, t.sum_ns, t.max_ns, t.unfinished_ns),
            "{what}"
        );
        assert_eq!(histogram(&r.by_active), t.by_active, "{what}");
        assert_eq!(histogram(&r.by_working), t.by_working, "{what}");
    }
}

fn compare_wakes(out: &Output, truth: &BTreeMap<(OffKey, By), crate::oracle::WakeSum>, seed: u64) {
    let offs = &out.sched.offs;
    let key = |off: u32| {
        let r = &offs[off as usize];
        (life(r.thread), r.stack, r.reason)
    };
    assert_eq!(out.sched.wakes.len(), truth.len(), "seed {seed}");
    for w in &out.sched.wakes {
        let by = match w.waker {
            Waker::Unknown => By::Unknown,
            Waker::Interrupt => By::Interrupt,
            Waker::Thread(t, stack) => By::Life(life(t), stack),
            Waker::Outside(tid) => By::Outside(tid),
        };
        let t = &truth[&(key(w.off), by)];
        let what = format!("seed {seed}: {w:?}");
        assert_eq!(
            (w.n, w.wait_ns, w.max_ns),
            (t.n, t.wait_ns, t.max_ns),
            "{what}"
        );
        assert_eq!(
            (w.waker_running_ns, w.waker_delayed_ns),
            (t.running_ns, t.delayed_ns),
            "{what}"
        );
        let off: BTreeMap<OffKey, u64> = w.waker_off.iter().map(|o| (key(o.0), o.1)).collect();
        assert_eq!(off, t.off, "{what}");
        assert!(w.waker_off.windows(2).all(|p| p[0].1 >= p[1].1));
    }
}

/// Every piece has what its part of the time says: `active` in all is checked by the laws, so here that the
/// pieces are full.
fn compare_bins(out: &Output, seed: u64) {
    let s = &out.sched;
    let width = s.bins.width_ns;
    for (i, b) in s.bins.bins.iter().enumerate() {
        let begin = i as u64 * width;
        let length = width.min(s.end_ns - s.start_ns - begin);
        assert!(b.idle_ns <= length, "seed {seed}");
        assert!(b.active_ns >= length - b.idle_ns, "seed {seed}");
        assert!(b.working_ns <= b.active_ns && b.running_ns <= b.active_ns);
        assert_eq!(b.top.is_some(), b.idle_ns < length, "seed {seed}");
    }
}

#[test]
fn few_threads_as_the_oracle_says() {
    for seed in 0..60 {
        compare(seed, 2 + (seed % 4) as usize, 300, SchedSource::Bpf);
    }
}

#[test]
fn long_runs_as_the_oracle_says() {
    for seed in 100..106 {
        compare(seed, 3, 3_000, SchedSource::Bpf);
    }
}

#[test]
fn thirty_threads_as_the_oracle_says() {
    for seed in 200..206 {
        compare(seed, 30, 2_500, SchedSource::Bpf);
    }
}

#[test]
fn perf_events_as_the_oracle_says() {
    for seed in 300..330 {
        compare(seed, 4, 400, SchedSource::Perf);
    }
}

#[test]
fn without_wake_ups_nobody_waits_for_a_processor_after_a_wait() {
    let events = schedule(7, 6, 2_000, SchedSource::Perf);
    let options = Options {
        source: SchedSource::Perf,
        ..crate::tell::OPTIONS
    };
    let out = account(options, &events, events.last().unwrap().ts());
    check(&out);
    assert!(out.sched.wakes.is_empty());
    let begun_ready = |e: &convoy_sched::Event| {
        matches!(
            e,
            convoy_sched::Event::Init {
                state: convoy_sched::State::Ready,
                ..
            }
        )
    };
    let ready = events.iter().filter(|e| begun_ready(e)).count();
    let delayed = out.sched.threads.iter().filter(|t| t.delayed_ns > 0);
    assert!(delayed.count() <= ready);
    let preempted = out
        .sched
        .offs
        .iter()
        .any(|o| o.reason == OffReason::Preempted);
    assert!(
        preempted,
        "time without a processor is told in Preempted rows"
    );
}
