//! What counts as progress where the user does not say it.
//!
//! The first of these that a window sees often enough: points that the program names itself
//! (coz.h: throughput, then latency), locks released, wake-ups given, arrivals at barriers.
//! Releases come first of the rest, as nearly every unit of work of a multithreaded program passes
//! some lock a fixed number of times; releases by waits on a condition are none, since their number
//! depends on the schedule. Where none of them comes often enough, calls of a function count that
//! took samples: of those that are called often enough the one that is called least often, since it
//! is nearest to a unit of work.

use serde::Serialize;

/// Length of a window that sees enough progress, seconds.
const WINDOW_S: f64 = 0.030;
/// Windows are at most so long, seconds.
const WINDOW_MOST_S: f64 = 0.300;
/// Units of progress that a window should see.
const ENOUGH: f64 = 40.0;
/// With fewer in the longest window nothing can be said.
const LEAST: f64 = 4.0;
/// Of a window passes between two of them: lengthened code needs to show its effect first.
const GAP_SHARE: f64 = 1.0 / 6.0;

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
        let order = |a: &&Rate, b: &&Rate| a.per_second.total_cmp(&b.per_second);
        // One that lets windows be short, else the one that lets them be shortest.
        let short = counted().filter(|rate| rate.per_second >= ENOUGH / WINDOW_S);
        let best = short.min_by(order).or_else(|| counted().max_by(order));
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

    /// Whether the longest window sees enough of it.
    pub fn is_enough(&self) -> bool {
        self.per_second >= Self::LEAST_HZ
    }

    /// Length of a window, seconds: 30 ms, or as long as it takes to see 40 units, at most 300 ms.
    pub fn window_seconds(&self) -> f64 {
        (ENOUGH / self.per_second.max(f64::MIN_POSITIVE)).clamp(WINDOW_S, WINDOW_MOST_S)
    }

    /// Time between two windows, seconds: a sixth of a window.
    pub fn gap_seconds(&self) -> f64 {
        self.window_seconds() * GAP_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(progress: Progress, per_second: f64) -> Rate {
        Rate {
            progress,
            per_second,
        }
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
    fn rare_progress_makes_windows_longer_within_bounds() {
        let window = |per_second| rate(Progress::Releases, per_second).window_seconds();
        assert_eq!(window(1e6), WINDOW_S);
        assert!((window(400.0) - 0.1).abs() < 1e-12);
        assert_eq!(window(1.0), WINDOW_MOST_S);
    }
}
