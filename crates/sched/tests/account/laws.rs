//! What holds for every output, whatever went in.

use std::collections::HashMap;

use convoy_profile::{bucket_floor, OffReason, Sched, ThreadRef, Waker};
use convoy_sched::Output;

use crate::timeline::check_timeline;

fn sum(hist: &[u64]) -> u64 {
    hist.iter().sum()
}

pub fn close(a: f64, b: f64, what: &str) {
    assert!(
        (a - b).abs() <= 1e-6 * a.abs().max(b.abs()) + 1e-3,
        "{what}: {a} and {b}"
    );
}

/// Panics if a law of conservation does not hold.
pub fn check(out: &Output) {
    let s = &out.sched;
    let span = s.end_ns - s.start_ns;
    for (hist, what) in [
        (&s.active, "active"),
        (&s.working, "working"),
        (&s.running, "running"),
    ] {
        assert_eq!(sum(hist), span, "{what}: all the time is in the histogram");
    }
    check_cmetric(s, span);
    check_threads(out);
    check_rows(s);
    check_bins(s, span);
    assert_eq!(s.offs.len(), out.off_kernel.len());
    check_timeline(out);
}

fn check_cmetric(s: &Sched, span: u64) {
    let busy = span - s.active.first().copied().unwrap_or(0);
    let cm: f64 = s.threads.iter().map(|t| t.cm_ns).sum();
    close(
        cm,
        busy as f64,
        "CMetric and the time with an active thread",
    );
    let worked = span - s.working.first().copied().unwrap_or(0);
    let cm: f64 = s.threads.iter().map(|t| t.cm_working_ns).sum();
    close(
        cm,
        worked as f64,
        "CMetric and the time with a working thread",
    );
}

/// What the rows of a thread add up to.
#[derive(Default)]
struct Sums {
    active_ns: u64,
    running_ns: u64,
    cm_ns: f64,
    cm_working_ns: f64,
    blocked_ns: u64,
    preempted_ns: u64,
}

fn sums(s: &Sched) -> HashMap<ThreadRef, Sums> {
    let mut all: HashMap<ThreadRef, Sums> = HashMap::new();
    for r in &s.slices {
        let own = all.entry(r.thread).or_default();
        own.active_ns += r.active_ns;
        own.running_ns += r.running_ns;
        own.cm_ns += r.cm_ns;
        own.cm_working_ns += r.cm_working_ns;
    }
    for r in &s.offs {
        let own = all.entry(r.thread).or_default();
        match r.reason {
            OffReason::Preempted => own.preempted_ns += r.sum_ns,
            _ => own.blocked_ns += r.sum_ns,
        }
    }
    all
}

fn check_threads(out: &Output) {
    let s = &out.sched;
    let lives: usize = out.images.iter().map(|i| i.lives.len()).sum();
    assert_eq!(lives, s.threads.len());
    let mut rows = sums(s);
    for t in &s.threads {
        let life = &out.images[t.thread.process as usize].lives[t.thread.thread as usize];
        assert!(life.start_ns <= t.start_ns && t.start_ns <= t.end_ns);
        assert_eq!(life.end_ns, t.end_ns);
        let active = t.running_ns + t.delayed_ns + t.preempted_ns;
        assert_eq!(active + t.blocked_ns, t.end_ns - t.start_ns, "{t:?}");
        assert!(t.spinning_ns <= t.running_ns);

        let own = rows.remove(&t.thread).unwrap_or_default();
        assert_eq!(own.active_ns, active);
        assert_eq!(own.running_ns, t.running_ns);
        assert_eq!(own.blocked_ns, t.blocked_ns);
        assert_eq!(own.preempted_ns, t.preempted_ns);
        close(own.cm_ns, t.cm_ns, "slices and thread");
        close(
            own.cm_working_ns,
            t.cm_working_ns,
            "working slices and thread",
        );
    }
    assert!(rows.is_empty(), "rows of threads that were not");
}

fn check_rows(s: &Sched) {
    for r in &s.slices {
        assert_eq!(sum(&r.by_active), r.active_ns);
        assert!(sum(&r.by_working) <= r.active_ns);
        assert_eq!(r.by_active.first().copied().unwrap_or(0), 0);
        assert_eq!(r.by_working.first().copied().unwrap_or(0), 0);
        assert_ne!(r.by_active.last(), Some(&0), "trailing zeroes");
        let exact = r.by_active.len() <= 32;
        let parts = r.by_active.iter().enumerate().skip(1);
        let cm = parts
            .map(|(b, &ns)| ns as f64 / bucket_floor(b) as f64)
            .sum();
        if exact {
            close(r.cm_ns, cm, "CMetric and its histogram");
        }
    }
    for r in &s.offs {
        assert_eq!(sum(&r.by_active), r.sum_ns);
        assert_eq!(sum(&r.by_working), r.sum_ns);
        assert_eq!(r.hist.sum(), r.n);
        assert!(r.max_ns <= r.sum_ns && r.unfinished_ns <= r.sum_ns);
    }
    for w in &s.wakes {
        let off = &s.offs[w.off as usize];
        assert!(w.n <= off.n && w.wait_ns <= off.sum_ns && w.max_ns <= off.max_ns);
        let own: u64 = w.waker_off.iter().map(|o| o.1).sum();
        assert!(w.waker_running_ns + w.waker_delayed_ns + own <= w.wait_ns);
        assert!(w.waker_off.len() <= 8);
        if let Waker::Thread(t, _) = w.waker {
            for &(o, _) in &w.waker_off {
                assert_eq!(s.offs[o as usize].thread, t);
            }
        }
    }
}

fn check_bins(s: &Sched, span: u64) {
    let bins = &s.bins;
    let threads =
        |hist: &[u64]| -> u64 { hist.iter().enumerate().map(|(n, ns)| n as u64 * ns).sum() };
    if s.active.len() <= 32 {
        let all = |f: fn(&convoy_profile::Bin) -> u64| bins.bins.iter().map(f).sum::<u64>();
        assert_eq!(all(|b| b.active_ns), threads(&s.active));
        assert_eq!(all(|b| b.working_ns), threads(&s.working));
        assert_eq!(all(|b| b.running_ns), threads(&s.running));
        assert_eq!(all(|b| b.idle_ns), s.active.first().copied().unwrap_or(0));
    }
    assert_eq!(bins.bins.len() as u64, span.div_ceil(bins.width_ns));
    for b in &bins.bins {
        assert!(b.top.is_none_or(|t| (t as usize) < s.slices.len()));
    }
}
