//! The session's clock: how the agent makes CLOCK_MONOTONIC nanoseconds out of the cycle counter.
//!
//! Reading the counter costs a third of `clock_gettime` and never leaves user space. It is used only
//! where the kernel itself trusts it (clock source "tsc": invariant and synchronised between the
//! processors); anywhere else the agent asks the kernel.

use std::time::Duration;

use convoy_abi as abi;
use rustix::time::{clock_gettime, ClockId};

/// How long calibration takes at least. The error of one reading is below 0.1 us, so 10 ms give 10 ppm.
const CALIBRATION: Duration = Duration::from_millis(10);
/// Readings at its begin, and at its end.
const POINTS: usize = 3;

/// Disagreement of the two clocks over a recording that is worth a note. NTP may slew by 500 ppm;
/// the hardware itself drifts by less than one.
const NOTEWORTHY_DRIFT_PPM: f64 = 200.0;

/// Makes nanoseconds as the agent does: all times of a profile come from one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    kind: u32,
    base_ticks: u64,
    base_ns: u64,
    mult: u64,
}

/// CLOCK_MONOTONIC, nanoseconds.
pub fn monotonic_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// CLOCK_REALTIME, nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Realtime))
}

/// CPU time of all threads that a process has or had, nanoseconds.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let clock = process_clock(pid)?;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to a timespec that lives, and refuses clocks that are not there.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    let ns = u64::try_from(time.tv_nsec).ok()?;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    (!failed).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// The clock of a process as the kernel numbers them (include/linux/posix-timers_types.h):
/// `CPUCLOCK_SCHED` of the process, not of a thread.
fn process_clock(pid: u32) -> Option<libc::clockid_t> {
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    let pid = libc::clockid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    Some((!pid).wrapping_shl(3) | CPUCLOCK_SCHED)
}

fn timespec_ns(t: rustix::time::Timespec) -> u64 {
    (t.tv_sec.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec.max(0) as u64)
}

/// A clock that is being compared with the system's, while there is something else to do.
#[derive(Debug)]
pub struct Calibration {
    system: Clock,
    /// Readings; none where the counter is not trusted.
    begin: Vec<(u64, u64)>,
}

impl Calibration {
    /// Looks at both clocks.
    pub fn begin() -> Self {
        let (base_ticks, base_ns) = reading();
        let system = Clock {
            kind: abi::CV_CLOCK_MONOTONIC,
            base_ticks,
            base_ns,
            mult: 0,
        };
        let mut begin = Vec::new();
        if counter_is_trusted() {
            begin.push((base_ticks, base_ns));
            begin.extend((1..POINTS).map(|_| reading()));
        }
        Self { system, begin }
    }

    /// The best clock of this machine. Waits until 10 ms have passed since the begin.
    pub fn end(self) -> Clock {
        let Self { system, begin } = self;
        let Some(&(_, last_ns)) = begin.last() else {
            return system;
        };
        let passed = Duration::from_nanos(monotonic_ns().saturating_sub(last_ns));
        std::thread::sleep(CALIBRATION.saturating_sub(passed));
        let mut points = begin;
        points.extend((0..POINTS).map(|_| reading()));
        match median_mult(&points) {
            Some(mult) => Clock {
                kind: abi::CV_CLOCK_TSC,
                mult,
                ..system
            },
            None => system,
        }
    }
}

impl Clock {
    /// The best clock of this machine, calibrated (10 ms).
    pub fn calibrate() -> Self {
        Calibration::begin().end()
    }

    /// Write this clock into a session.
    pub fn store(&self, session: &mut abi::Session) {
        session.clock_kind = self.kind;
        session.clock_base_ticks = self.base_ticks;
        session.clock_base_ns = self.base_ns;
        session.clock_mult = self.mult;
    }

    /// The clock of a session that another convoy made on this machine.
    pub fn load(session: &abi::Session) -> Self {
        Self {
            kind: session.clock_kind,
            base_ticks: session.clock_base_ticks,
            base_ns: session.clock_base_ns,
            mult: session.clock_mult,
        }
    }

    /// Whether the cycle counter is used.
    pub fn uses_counter(&self) -> bool {
        self.kind == abi::CV_CLOCK_TSC
    }

    /// Now, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        if self.uses_counter() {
            self.ns_of(ticks())
        } else {
            monotonic_ns()
        }
    }

    /// A count of ticks as nanoseconds; before the base it is the base.
    pub(crate) fn ns_of(&self, ticks: u64) -> u64 {
        let elapsed = u128::from(ticks.saturating_sub(self.base_ticks));
        self.base_ns
            .saturating_add((elapsed.saturating_mul(u128::from(self.mult)) >> 32) as u64)
    }

    /// How far this clock and the system's have drifted apart since calibration, if that is worth a note.
    pub fn drift_note(&self) -> Option<String> {
        if !self.uses_counter() {
            return None;
        }
        let (ticks, system_ns) = reading();
        let elapsed_ns = system_ns.saturating_sub(self.base_ns);
        let drift_ns = self.ns_of(ticks) as f64 - system_ns as f64;
        let ppm = drift_ns / elapsed_ns.max(1) as f64 * 1e6;
        (elapsed_ns > 1_000_000_000 && ppm.abs() > NOTEWORTHY_DRIFT_PPM).then(|| {
            format!(
                "the cycle counter and the system clock disagree by {ppm:.0} ppm ({:.1} ms) over \
                 this recording: times are proportionally off",
                drift_ns / 1e6
            )
        })
    }
}

/// Ticks and nanoseconds of the same moment: the closest of several pairs.
fn reading() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..8 {
        let before = ticks();
        let ns = monotonic_ns();
        let width = ticks().saturating_sub(before);
        if width <= best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

/// Nanoseconds per tick, times 2^32: the median slope between all pairs of points (Theil-Sen), which
/// one late reading cannot move. `None` if the points disagree.
fn median_mult(points: &[(u64, u64)]) -> Option<u64> {
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        for b in &points[i + 1..] {
            let ticks = b.0.checked_sub(a.0).filter(|t| *t > 0)?;
            let ns = b.1.checked_sub(a.1).filter(|n| *n > 0)?;
            let mult = (u128::from(ns) << 32) / u128::from(ticks);
            slopes.push((ns, u64::try_from(mult).ok()?));
        }
    }
    // Long baselines only: a reading's error weighs less in them.
    let longest = slopes.iter().map(|s| s.0).max()?;
    let mut long: Vec<u64> = slopes
        .iter()
        .filter(|s| s.0 >= longest / 2)
        .map(|s| s.1)
        .filter(|m| *m > 0)
        .collect();
    long.sort_unstable();
    let median = *long.get(long.len() / 2)?;
    let spread = long.last()? - long.first()?;
    // Points that disagree by 1 % are no clock at all (a virtual machine that was stopped in between).
    (spread < median / 100).then_some(median)
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: rdtsc has no precondition on x86_64 Linux (PR_SET_TSC is never set by us).
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(target_arch = "x86_64")]
fn counter_is_trusted() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpu_info
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    std::fs::read_to_string(source).is_ok_and(|s| s.trim() == "tsc")
        && ["constant_tsc", "nonstop_tsc"]
            .iter()
            .all(|f| flags.split(' ').any(|word| word == *f))
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_trusted() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_the_median_of_long_baselines() {
        // 2 ticks a nanosecond; the third reading came 1 us late
        let points = [
            (0, 1),
            (5_000_000, 2_500_001),
            (10_000_000, 5_001_001),
            (20_000_000, 10_000_001),
        ];
        let mult = median_mult(&points).unwrap();
        let exact = 1u64 << 31;
        assert!(
            mult.abs_diff(exact) < exact / 5_000,
            "{mult} is not near {exact}"
        );
    }

    #[test]
    fn points_that_disagree_are_no_clock() {
        assert_eq!(median_mult(&[(0, 0), (100, 100), (200, 1_000)]), None);
        assert_eq!(
            median_mult(&[(5, 0), (5, 10)]),
            None,
            "the counter stands still"
        );
        assert_eq!(median_mult(&[(0, 0)]), None);
    }

    #[test]
    fn calibrated_clock_follows_the_system() {
        let clock = Clock::calibrate();
        let before = monotonic_ns();
        let now = clock.now_ns();
        let after = monotonic_ns();
        // 50 ppm of the time since the base, and the width of a reading
        let slack = (after - clock.base_ns) / 20_000 + 2_000;
        assert!(
            now + slack >= before && now <= after + slack,
            "{before} <= {now} <= {after} +- {slack}"
        );
    }

    #[test]
    fn time_before_the_base_is_the_base() {
        let clock = Clock {
            kind: abi::CV_CLOCK_TSC,
            base_ticks: 100,
            base_ns: 7,
            mult: 1 << 32,
        };
        assert_eq!(clock.ns_of(99), 7);
        assert_eq!(clock.ns_of(103), 10);
        assert!(clock.ns_of(u64::MAX) > 7);
    }
}
