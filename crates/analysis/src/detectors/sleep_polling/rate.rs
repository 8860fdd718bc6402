//! Threads that sleep to keep a rate (a ticker, a limit of so many a second): nothing waits for the end of such a sleep.

use convoy_model::{Interval, OffReason, ThreadId};

use super::ASLEEP;
use crate::facts::run_view::RunView;

/// Periods from which on they tell.
const PERIODS: usize = 20;
/// A sleep that is as much shorter as the work before it was longer leaves the periods this part of its own spread at most.
const MADE_UP: f64 = 0.5;
/// So many periods together are spread no more than so many times as one where all begin by one clock; where each begins when the one
/// before has ended, by the root of their number.
const TOGETHER: usize = 16;
const BY_A_CLOCK: f64 = 2.0;

/// Whether the thread's sleeps end at a constant rate, whatever it does between them, and it does nothing for longer.
pub(crate) fn keeps_a_rate(view: &RunView, id: ThreadId) -> bool {
    let timeline = view.sched.timeline.iter();
    let lanes = timeline.flat_map(|timeline| &timeline.lanes);
    let mut ends = Vec::new();
    let mut sleeps = Vec::new();
    for interval in lanes
        .filter(|lane| lane.thread == id)
        .flat_map(|lane| &lane.intervals)
    {
        if interval.mix.is_some() {
            // What is in it, and so where its sleeps end, is not known.
            return false;
        }
        if is_sleep(view, interval) {
            ends.push(interval.end_ns as f64);
            sleeps.push(interval.end_ns.saturating_sub(interval.start_ns) as f64);
        }
    }
    if sleeps.iter().sum::<f64>() < ASLEEP * view.life(id) {
        return false;
    }
    let over = |n: usize| -> Vec<f64> {
        let pairs = ends.iter().zip(ends.iter().skip(n));
        pairs.map(|(from, to)| to - from).collect()
    };
    let one = over(1);
    if one.len() < PERIODS {
        return false;
    }
    let of_one = spread(one);
    let many = over(TOGETHER);
    let by_a_clock = many.len() >= PERIODS && spread(many) <= BY_A_CLOCK * of_one;
    of_one < MADE_UP * spread(sleeps) || (of_one > 0.0 && by_a_clock)
}

fn is_sleep(view: &RunView, interval: &Interval) -> bool {
    let off = view.waits(&interval.doing);
    off.is_some_and(|off| off.reason == OffReason::Sleep)
}

/// How far the middle half of them is apart: a few that came late say nothing.
fn spread(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| values.get(values.len() * part / 4).copied().unwrap_or(0.0);
    at(3) - at(1)
}
