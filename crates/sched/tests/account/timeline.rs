//! The timeline: nothing of a thread's life is missing, however few intervals may be kept.

use std::collections::HashMap;

use convoy_profile::{Doing, Lane, OffReason, Sched, SchedSource, SchedThread, Timeline, Times};
use convoy_sched::{Event, Options, Output, State};

use crate::draw::{schedule, steady};
use crate::laws::check;
use crate::tell::{account, at, block, by, fork, init, preempt, run, sample, wake, OPTIONS};

/// Panics if the timeline contradicts the tables.
pub fn check_timeline(out: &Output) {
    let s = &out.sched;
    let Some(timeline) = &s.timeline else { return };
    let threads: HashMap<_, _> = s.threads.iter().map(|t| (t.thread, t)).collect();
    let intervals: u64 = timeline
        .lanes
        .iter()
        .map(|l| l.intervals.len() as u64)
        .sum();
    assert!(intervals <= timeline.limit, "{intervals}");
    for lane in &timeline.lanes {
        let thread = threads[&lane.thread];
        let mut before = thread.start_ns;
        for interval in &lane.intervals {
            assert_eq!(interval.start_ns, before, "no gaps");
            assert!(interval.end_ns > interval.start_ns);
            before = interval.end_ns;
            assert!(interval.mix.is_none() || timeline.merged_below_ns > 0);
            check_rows(s, lane, interval.doing, interval.wake);
        }
        assert_eq!(before, thread.end_ns);
        check_times(timeline, lane, thread);
        let long = |i: &convoy_profile::Interval| i.ns() >= timeline.merged_below_ns;
        assert!(lane.intervals.len() == 1 || lane.intervals.iter().all(long));
    }
    if timeline.merged_below_ns == 0 && timeline.threads_left_out == 0 {
        let lives = s.threads.iter().filter(|t| t.end_ns > t.start_ns).count();
        assert_eq!(timeline.lanes.len(), lives);
        check_sums(s, timeline);
    }
}

fn check_rows(s: &Sched, lane: &Lane, doing: Doing, wake: Option<u32>) {
    match doing {
        Doing::Running(row) | Doing::Spinning(row) => {
            assert!(row.is_none_or(|row| s.slices[row as usize].thread == lane.thread));
        }
        Doing::Preempted(row) => {
            assert_eq!(s.offs[row.unwrap() as usize].thread, lane.thread);
        }
        Doing::Waiting(row) => {
            assert_eq!(s.offs[row.unwrap() as usize].thread, lane.thread);
            assert!(wake.is_none_or(|wake| Some(s.wakes[wake as usize].off) == row));
        }
        Doing::Woken => {}
    }
    assert!(wake.is_none() || matches!(doing, Doing::Waiting(_)));
}

/// Exact, or, of joined intervals, within what their shares can say.
fn check_times(timeline: &Timeline, lane: &Lane, thread: &SchedThread) {
    let mut sum = Times::default();
    for interval in &lane.intervals {
        sum += interval.times();
    }
    let life = thread.end_ns - thread.start_ns;
    let slack = match timeline.merged_below_ns {
        0 => 0,
        _ => life / 1000 + 8 * lane.intervals.len() as u64,
    };
    for (found, expected) in [
        (sum.running_ns + sum.spinning_ns, thread.running_ns),
        (sum.ready_ns, thread.delayed_ns + thread.preempted_ns),
        (sum.waiting_ns, thread.blocked_ns),
    ] {
        assert!(found.abs_diff(expected) <= slack, "{sum:?} and {thread:?}");
    }
    assert_eq!(sum.all_ns(), life);
}

/// Waits by reason and by waker are those of the tables.
fn check_sums(s: &Sched, timeline: &Timeline) {
    let mut offs = vec![(0, 0); s.offs.len()];
    let mut wakes = vec![(0, 0); s.wakes.len()];
    for interval in timeline.lanes.iter().flat_map(|lane| &lane.intervals) {
        if let Doing::Preempted(Some(row)) | Doing::Waiting(Some(row)) = interval.doing {
            let (n, ns) = &mut offs[row as usize];
            (*n, *ns) = (*n + 1, *ns + interval.ns());
        }
        if let Some(row) = interval.wake {
            let (n, ns) = &mut wakes[row as usize];
            (*n, *ns) = (*n + 1, *ns + interval.ns());
        }
    }
    for (row, &(n, ns)) in s.offs.iter().zip(&offs) {
        // Waits of no length are in the tables alone.
        assert!(n <= row.n && ns == row.sum_ns, "{row:?}: {n}, {ns}");
    }
    for (row, &(n, ns)) in s.wakes.iter().zip(&wakes) {
        assert!(n <= row.n && ns == row.wait_ns, "{row:?}: {n}, {ns}");
    }
}

fn keeping(intervals: usize, events: &[Event], end_ns: u64) -> Output {
    let options = Options {
        intervals,
        ..OPTIONS
    };
    let out = account(options, events, end_ns);
    check(&out);
    out
}

#[test]
fn all_is_kept_as_long_as_there_is_room() {
    for seed in 0..30 {
        let events = schedule(seed, 1 + seed as usize % 9, 2_000, SchedSource::Bpf);
        let end = events.last().unwrap().ts() + 99;
        let timeline = keeping(100_000, &events, end).sched.timeline.unwrap();
        assert_eq!(
            (timeline.merged_below_ns, timeline.threads_left_out),
            (0, 0)
        );
    }
}

#[test]
fn a_long_run_fits_into_any_room() {
    let events = steady(5, 12, 40_000, SchedSource::Bpf);
    let end = events.last().unwrap().ts();
    let mut finer = 0;
    for limit in [30_000, 3_000, 300, 30] {
        let timeline = keeping(limit, &events, end).sched.timeline.unwrap();
        assert_eq!(timeline.lanes.len(), 12, "{limit}");
        assert!(timeline.merged_below_ns > finer);
        finer = timeline.merged_below_ns;
        let kept: usize = timeline.lanes.iter().map(|l| l.intervals.len()).sum();
        assert!(kept > limit / 10 || limit < 100, "{kept} of {limit}");
    }
}

#[test]
fn more_threads_than_room_are_counted() {
    let events = schedule(3, 500, 5_000, SchedSource::Bpf);
    let end = events.last().unwrap().ts();
    let out = keeping(100, &events, end);
    let timeline = out.sched.timeline.unwrap();
    assert!(timeline.lanes.len() <= 50);
    assert_eq!(
        timeline.threads_left_out,
        out.sched.threads.len() as u64 - 50
    );
    assert!(keeping(0, &events, end).sched.timeline.is_none());
}

/// What it did, its length, and whether somebody ended it.
fn told(out: &Output, lane: usize) -> Vec<(Doing, u64, bool)> {
    let lane = &out.sched.timeline.as_ref().unwrap().lanes[lane];
    let told = lane.intervals.iter();
    told.map(|i| (i.doing, i.ns(), i.wake.is_some())).collect()
}

#[test]
fn a_life_is_told_in_order() {
    let events = [
        init(100, 1, State::Running),
        fork(110, 2, 1),
        wake(120, 2, by(1, 7)),
        run(130, 2),
        sample(140, 2, 3, None),
        sample(150, 2, 3, None),
        sample(160, 2, 4, Some(0)),
        preempt(165, 2, 4),
        run(170, 2),
        block(180, 2, 5),
        wake(200, 2, by(1, 7)),
        run(205, 2),
        block(210, 2, 5),
    ];
    let out = keeping(1000, &events, 300);
    let row = |stack, spin| {
        let slices = &out.sched.slices;
        let found = |s: &convoy_profile::Slice| s.stack == stack && s.spin == spin;
        Some(slices.iter().position(found).unwrap() as u32)
    };
    let off = |reason| {
        let offs = &out.sched.offs;
        Some(offs.iter().position(|o| o.reason == reason).unwrap() as u32)
    };
    let (worked, spun) = (row(3, None), row(4, Some(0)));
    let (futex, preempted) = (off(OffReason::Futex), off(OffReason::Preempted));
    assert_eq!(
        told(&out, 1),
        [
            (Doing::Woken, 10, false),
            (Doing::Running(worked), 20, false),
            (Doing::Spinning(spun), 15, false),
            (Doing::Preempted(preempted), 5, false),
            (Doing::Spinning(spun), 10, false),
            (Doing::Waiting(futex), 20, true),
            (Doing::Woken, 5, false),
            (Doing::Running(row(5, None)), 5, false),
            (Doing::Waiting(futex), 90, false),
        ]
    );
}

#[test]
fn what_is_too_short_goes_to_what_is_like_it() {
    // 100 waits of 9.9 us with 100 ns of work between them, and one stretch of work: of 30 intervals that may be
    // kept, the stretch is one.
    let mut events = vec![init(0, 1, State::Blocked(at(1, OffReason::Futex)))];
    for i in 1..=100u64 {
        events.extend([wake(i * 10_000, 1, by(1, 1)), run(i * 10_000, 1)]);
        let works = if i == 50 { 5_000_000 } else { 100 };
        events.extend([block(i * 10_000 + works, 1, 1)]);
    }
    let timeline = keeping(30, &events, 6_000_000).sched.timeline.unwrap();
    let lane = &timeline.lanes[0].intervals;
    let work: Vec<_> = lane
        .iter()
        .filter(|i| matches!(i.doing, Doing::Running(_)))
        .collect();
    assert_eq!(work.len(), 1, "{lane:?}");
    assert!(work[0].ns().abs_diff(5_000_000) <= 2 * timeline.merged_below_ns);
}
