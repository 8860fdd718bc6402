//! What counts as progress where the user does not say it.
//!
//! The first of these that a window sees often enough: points that the program names itself
//! (coz.h: throughput, then latency), locks released, wake-ups given, arrivals at barriers.
//! Releases come first of the rest, as nearly every unit of work of a multithreaded program passes
//! some lock a fixed number of times; releases by waits on a condition are none, since their number
//! depends on the schedule. Where none of them comes often enough, calls of a function count that
//! took samples, and that is not called when threads meet: of those that are called often enough,
//! bursts counted once, the one that is called least often, since it is nearest to a unit of work.

use std::time::Duration;

use serde::Serialize;

use crate::experiment::BLOCKS_LEAST;

/// Length of a window that sees enough progress, seconds.
pub(crate) const WINDOW_S: f64 = 0.030;
/// Windows are at most so long, seconds.
const WINDOW_MOST_S: f64 = 0.300;
/// Units of progress that a window should see.
const ENOUGH: f64 = 40.0;
/// With fewer in the longest window nothing can be said.
const LEAST: f64 = 4.0;
/// Of a window passes between two of them: lengthened code needs to show its effect first.
const GAP_SHARE: f64 = 1.0 / 6.0;

/// Blocks that a budget has room for, over those that are needed: windows may be disturbed.
const SPARE: f64 = 1.2;

/// With more calls per second the counter itself could cost more than 5 % of a CPU.
const CALLS_MOST_HZ: f64 = 5e6;

/// Functions of the C library that are called more often the less gets done: they wait, give way,
/// or ask whether to go on.
const POLLS: &[&str] = &[
    "clock_gettime",
    "clock_nanosleep",
    "epoll_wait",
    "nanosleep",
    "poll",
    "ppoll",
    "pthread_mutex_trylock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "pthread_yield",
    "sched_yield",
    "select",
    "sem_trywait",
    "usleep",
];

/// Whether the calls of a function may follow the work. Prefixes of internal names do not count.
pub fn may_follow_the_work(function: &str) -> bool {
    !POLLS.contains(&function.trim_start_matches('_'))
}

/// What progress is measured by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Progress {
    /// Calls of a function that the user names.
    Calls(String),
    /// System calls that the user names, by the C library's functions.
    SystemCalls(String),
    /// A point that the program names.
    Point(String),
    /// The time between two points: of functions that the user names, or of coz.h.
    Latency(String),
    /// Locks released.
    Releases,
    /// Wake-ups given.
    Wakes,
    /// Arrivals at barriers.
    Arrivals,
}

/// A candidate, and how often it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// What.
    pub progress: Progress,
    /// Per second.
    pub per_second: f64,
    /// Units that come together, at least 1 ([`Rate::of`]).
    pub burst: f64,
}

/// Units of progress in a piece of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its length.
    pub seconds: f64,
    /// How many.
    pub units: u64,
}

impl Progress {
    fn rank(&self) -> u32 {
        match self {
            Self::Calls(_) | Self::SystemCalls(_) => 0,
            Self::Point(_) => 1,
            Self::Latency(_) => 2,
            Self::Releases => 3,
            Self::Wakes => 4,
            Self::Arrivals => 5,
        }
    }

    /// Whether it is a time, by Little's law (L = lambda W; Coz, section 3.3): windows measure the
    /// sum of all latencies, and the departures.
    pub fn is_latency(&self) -> bool {
        matches!(self, Self::Latency(_))
    }

    /// The best of functions; `None` = none is called often enough.
    pub fn choose_calls(rates: &[Rate]) -> Option<Rate> {
        let counted = || rates.iter().filter(|rate| rate.per_second <= CALLS_MOST_HZ);
        let seen = |a: &&Rate, b: &&Rate| a.independent().total_cmp(&b.independent());
        // One that lets windows be short, else the one that lets them be shortest.
        let short = counted().filter(|rate| rate.independent() >= ENOUGH / WINDOW_S);
        let rarest = short.min_by(|a, b| a.per_second.total_cmp(&b.per_second));
        let best = rarest.or_else(|| counted().max_by(seen));
        best.filter(|rate| rate.is_enough()).cloned()
    }

    /// The best candidate; `None` = none comes often enough.
    pub fn choose(rates: &[Rate]) -> Option<Rate> {
        let enough = rates.iter().filter(|rate| rate.is_enough());
        let best = enough.min_by(|a, b| {
            let by_rate = b.per_second.total_cmp(&a.per_second);
            a.progress.rank().cmp(&b.progress.rank()).then(by_rate)
        });
        best.cloned()
    }
}

impl Rate {
    /// Units per second below which nothing can be said.
    pub(crate) const LEAST_HZ: f64 = LEAST / WINDOW_MOST_S;

    /// From successive steps. A burst is the variance of a step's units over their mean (1 if they
    /// come independently of each other): a compressor that releases nine locks for a block tells
    /// as much as one release would. The variance is that of successive differences (von Neumann,
    /// 1941), so that slow changes of pace, such as phases, are not taken for bursts.
    pub fn of(progress: Progress, steps: &[Step]) -> Self {
        let seconds: f64 = steps.iter().map(|step| step.seconds).sum();
        let units: u64 = steps.iter().map(|step| step.units).sum();
        let per_second = units as f64 / seconds.max(f64::MIN_POSITIVE);
        let pairs = steps.iter().zip(steps.iter().skip(1));
        let excess = pairs.filter(|(a, b)| a.seconds > 0.0 && b.seconds > 0.0);
        let excess = excess.map(|(a, b)| {
            let apart = a.units as f64 / a.seconds - b.units as f64 / b.seconds;
            // Expected of independent units: the sum of both rates' variances.
            apart.powi(2) / (per_second * (1.0 / a.seconds + 1.0 / b.seconds))
        });
        let excess: Vec<f64> = excess.filter(|of| of.is_finite()).collect();
        let burst = excess.iter().sum::<f64>() / excess.len().max(1) as f64;
        Self {
            progress,
            per_second,
            burst: burst.max(1.0),
        }
    }

    /// Independent units per second.
    fn independent(&self) -> f64 {
        (self.per_second / self.burst).max(f64::MIN_POSITIVE)
    }

    /// Whether the longest window sees enough of it.
    pub fn is_enough(&self) -> bool {
        self.per_second >= Self::LEAST_HZ
    }

    /// Length of a window, seconds: 30 ms, or as long as it takes to see 40 independent units, at
    /// most 300 ms. Shorter if less than the blocks that a number needs would fit into the budget:
    /// a wide interval is more than none.
    pub fn window_seconds(&self, budget: Duration, windows_per_block: usize) -> f64 {
        let needed = (BLOCKS_LEAST * windows_per_block).max(1) as f64;
        let fits = budget.as_secs_f64() / (needed * (1.0 + GAP_SHARE) * SPARE);
        let seen = LEAST / self.independent();
        let most = fits.max(seen).clamp(WINDOW_S, WINDOW_MOST_S);
        (ENOUGH / self.independent()).clamp(WINDOW_S, most)
    }
}

/// Time between two windows, seconds, by the length of a window: a sixth of that.
pub fn gap_seconds(window_seconds: f64) -> f64 {
    window_seconds * GAP_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(progress: Progress, per_second: f64) -> Rate {
        Rate {
            progress,
            per_second,
            burst: 1.0,
        }
    }

    /// Steps of 10 ms with these units.
    fn steps(units: impl IntoIterator<Item = u64>) -> Vec<Step> {
        let step = |units| Step {
            seconds: 0.01,
            units,
        };
        units.into_iter().map(step).collect()
    }

    #[test]
    fn the_program_s_own_point_is_preferred_unless_it_is_too_rare() {
        let point = || Progress::Point("request".into());
        let chosen = |of: &[Rate]| Progress::choose(of).map(|r| r.progress);
        let releases = rate(Progress::Releases, 1e6);
        assert_eq!(
            chosen(&[releases.clone(), rate(point(), 100.0)]),
            Some(point())
        );
        assert_eq!(
            chosen(&[rate(point(), 1.0), releases]),
            Some(Progress::Releases)
        );
        assert_eq!(chosen(&[rate(Progress::Releases, 0.0)]), None);
    }

    #[test]
    fn the_rarest_function_that_is_called_often_enough_counts() {
        let chosen = |hz: &[f64]| {
            let calls = |hz: &f64| rate(Progress::Calls(format!("{hz}")), *hz);
            let rates: Vec<Rate> = hz.iter().map(calls).collect();
            Progress::choose_calls(&rates).map(|rate| rate.per_second)
        };
        assert_eq!(chosen(&[100.0, 20_000.0, 400_000.0]), Some(20_000.0));
        assert_eq!(chosen(&[20.0, 100.0]), Some(100.0));
        assert_eq!(chosen(&[1.0, 5e7]), None, "too rare, and too expensive");
        assert!(may_follow_the_work("parse") && !may_follow_the_work("__sched_yield"));
    }

    #[test]
    fn a_function_that_is_called_in_bursts_counts_as_often_as_they_come() {
        let calls = |name: &str, per_second, burst| Rate {
            burst,
            ..rate(Progress::Calls(name.into()), per_second)
        };
        let all = [
            calls("bursts", 15_000.0, 50.0),
            calls("even", 90_000.0, 1.5),
        ];
        assert_eq!(Progress::choose_calls(&all).as_ref(), Some(&all[1]));
        assert_eq!(Progress::choose_calls(&all[..1]).as_ref(), Some(&all[0]));
    }

    #[test]
    fn rare_progress_makes_windows_longer_within_bounds() {
        let budget = Duration::from_secs(60);
        let window = |per_second| rate(Progress::Releases, per_second).window_seconds(budget, 6);
        assert_eq!(window(1e6), WINDOW_S);
        assert!((window(400.0) - 0.1).abs() < 1e-12);
        assert_eq!(window(1.0), WINDOW_MOST_S);
    }

    #[test]
    fn windows_are_short_enough_for_all_blocks_that_a_number_needs() {
        let slow = rate(Progress::Releases, 100.0);
        let budget = Duration::from_secs(6);
        let window = slow.window_seconds(budget, 6);
        assert!((0.1..0.15).contains(&window), "{window}");
        let whole = window * (1.0 + GAP_SHARE) * (6 * BLOCKS_LEAST) as f64;
        assert!(whole < budget.as_secs_f64(), "{whole}");
        // A window that sees nothing tells nothing.
        let few = slow.window_seconds(Duration::from_secs(1), 20);
        assert!((few - LEAST / 100.0).abs() < 1e-12, "{few}");
    }

    #[test]
    fn units_that_come_together_are_counted_once() {
        let at_a_time = |n: u64| {
            let mut random = crate::random::Random::new(5);
            // A tenth of a chance in each of ten places of a step.
            let events = (0..500).map(|_| (0..10).filter(|_| random.below(10) == 0).count());
            Rate::of(Progress::Releases, &steps(events.map(|e| n * e as u64)))
        };
        let (single, nine) = (at_a_time(1), at_a_time(9));
        assert!((90.0..110.0).contains(&single.per_second), "{single:?}");
        assert_eq!(single.burst, 1.0);
        assert!((7.0..10.0).contains(&nine.burst), "{nine:?}");
        assert!((nine.independent() / single.independent() - 1.0).abs() < 0.2);
    }

    #[test]
    fn a_change_of_pace_is_no_burst() {
        let phases = (0..50).map(|n| if n / 10 % 2 == 0 { 1000 } else { 3000 });
        let phases = Rate::of(Progress::Releases, &steps(phases));
        let window = phases.window_seconds(Duration::from_secs(60), 6);
        assert!(window < 0.1, "{window}: {phases:?}");
        let none = Rate::of(Progress::Releases, &steps([0, 0, 0]));
        assert!(!none.is_enough() && none.burst == 1.0, "{none:?}");
    }
}
