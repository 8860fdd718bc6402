//! Performance fidelity: a replay of the recorded program must give back the recorded run before
//! any what-if is believed (PerfPlay, CGO'15).

use convoy_estimate::Method;

use crate::sections::Sections;
use crate::sim::Outcome;
use crate::sim::WaitHistogram;

/// What a run is recognized by.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fingerprint {
    /// Wall time, nanoseconds.
    pub wall_ns: f64,
    /// Contended acquisitions of all acquisitions, 0..1.
    pub contended_share: f64,
    /// Time that threads waited for locks, of the threads' lifetimes, 0..1.
    pub waited_share: f64,
    /// Context switches of threads that blocked; NaN = not known.
    pub voluntary: f64,
    /// Context switches of threads that were preempted; NaN = not known.
    pub involuntary: f64,
    /// Half of the waits for locks took less, nanoseconds; 0 = there were none.
    pub wait_p50_ns: f64,
    /// Nine tenths of them.
    pub wait_p90_ns: f64,
    /// 99 of 100.
    pub wait_p99_ns: f64,
}

/// Wall time within this share of the recorded one.
pub const WALL_TOLERANCE: f64 = 0.05;
/// Context switches within this share.
pub const SWITCH_TOLERANCE: f64 = 0.2;
/// Shares of contended acquisitions, and of waited time: so many apart at most.
pub const SHARE_TOLERANCE: f64 = 0.05;
/// Wait percentiles within this factor: they span orders of magnitude.
pub const WAIT_FACTOR: f64 = 2.0;
/// Context switches a second below which their number is chance.
const MIN_SWITCH_RATE: f64 = 20.0;

impl Fingerprint {
    /// Of a simulated run.
    pub fn of(outcome: &Outcome) -> Self {
        let (mut acquisitions, mut contended, mut waited) = (0, 0, 0.0);
        let mut waits = WaitHistogram::default();
        for lock in &outcome.locks {
            acquisitions += lock.acquisitions;
            contended += lock.contended;
            waited += lock.waited_ns;
            if let Some(lock_waits) = &lock.waits {
                waits.merge(lock_waits);
            }
        }
        let lifetime: f64 = outcome.threads.iter().map(|t| t.end_ns - t.start_ns).sum();
        let (voluntary, involuntary) = outcome.switches();
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Self {
            wall_ns: outcome.wall_ns,
            contended_share: share(contended as f64, acquisitions as f64),
            waited_share: share(waited, lifetime),
            voluntary: voluntary as f64,
            involuntary: involuntary as f64,
            wait_p50_ns: waits.quantile_ns(0.5),
            wait_p90_ns: waits.quantile_ns(0.9),
            wait_p99_ns: waits.quantile_ns(0.99),
        }
    }

    /// Of recorded windows: `windows` names them by their number in the recording, `lifetime_ns` is
    /// the threads' time in them. `switches`: voluntary and involuntary ones, if they are known.
    pub fn of_recording(
        sections: &Sections,
        windows: &[u32],
        wall_ns: f64,
        lifetime_ns: f64,
        switches: Option<(f64, f64)>,
    ) -> Self {
        let (mut acquisitions, mut contended, mut waited) = (0u64, 0u64, 0.0);
        let mut waits = WaitHistogram::default();
        for section in &sections.all {
            if section.reacquired || !windows.contains(&section.window) {
                continue;
            }
            acquisitions += 1;
            if section.contended {
                contended += 1;
                waited += section.wait_ns() as f64;
                waits.add(section.wait_ns());
            }
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (voluntary, involuntary) = switches.unwrap_or((f64::NAN, f64::NAN));
        Self {
            wall_ns,
            contended_share: share(contended as f64, acquisitions as f64),
            waited_share: share(waited, lifetime_ns),
            voluntary,
            involuntary,
            wait_p50_ns: waits.quantile_ns(0.5),
            wait_p90_ns: waits.quantile_ns(0.9),
            wait_p99_ns: waits.quantile_ns(0.99),
        }
    }

    /// Of a run that went on like this until it was so many times as long.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            wall_ns: self.wall_ns * factor,
            voluntary: self.voluntary * factor,
            involuntary: self.involuntary * factor,
            ..self
        }
    }

    /// Field by field; all zero if there are none.
    pub fn mean(all: impl IntoIterator<Item = Self>) -> Self {
        let (mut sum, mut count) = ([0.0; 8], 0.0f64);
        for one in all {
            for (sum, value) in sum.iter_mut().zip(one.fields()) {
                *sum += value;
            }
            count += 1.0;
        }
        Self::from_fields(sum.map(|sum| sum / count.max(1.0)))
    }

    /// How far apart two runs are: the relative error of the wall time, plus what the other
    /// quantities differ by, weighted by how well a scheduler's model can be expected to meet them.
    /// 0 = the same; 0.05 = 5 % of the wall time, all else equal.
    pub fn distance(&self, other: &Self) -> f64 {
        let ratio = |a: f64, b: f64, floor: f64| {
            let apart = ((a + floor) / (b + floor)).ln().abs();
            // What is not known of one of the two does not tell them apart.
            if apart.is_nan() {
                0.0
            } else {
                apart
            }
        };
        // Few switches are chance: a tenth of a millisecond's worth of wall time each does not
        // count.
        let floor = 1.0 + MIN_SWITCH_RATE * self.wall_ns / 1e9;
        ratio(self.wall_ns, other.wall_ns, 1.0)
            + (self.waited_share - other.waited_share).abs()
            + (self.contended_share - other.contended_share).abs()
            + 0.1 * ratio(self.voluntary, other.voluntary, floor)
            + 0.05 * ratio(self.involuntary, other.involuntary, floor)
            + 0.02 * ratio(self.wait_p50_ns, other.wait_p50_ns, 1000.0)
            + 0.02 * ratio(self.wait_p99_ns, other.wait_p99_ns, 1000.0)
    }

    fn fields(&self) -> [f64; 8] {
        [
            self.wall_ns,
            self.contended_share,
            self.waited_share,
            self.voluntary,
            self.involuntary,
            self.wait_p50_ns,
            self.wait_p90_ns,
            self.wait_p99_ns,
        ]
    }

    fn from_fields(fields: [f64; 8]) -> Self {
        let [wall_ns, contended_share, waited_share, voluntary, involuntary, p50, p90, p99] =
            fields;
        Self {
            wall_ns,
            contended_share,
            waited_share,
            voluntary,
            involuntary,
            wait_p50_ns: p50,
            wait_p90_ns: p90,
            wait_p99_ns: p99,
        }
    }
}

/// Recorded and replayed run, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Fidelity {
    /// What was replayed how.
    pub method: Method,
    /// Wall time of the recorded run, nanoseconds.
    pub recorded_ns: f64,
    /// Of the replayed one.
    pub replayed_ns: f64,
    /// All that was compared.
    pub checks: Vec<Check>,
}

/// One quantity of both runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Which.
    pub what: Quantity,
    /// In the recorded run.
    pub recorded: f64,
    /// In the replayed run.
    pub replayed: f64,
    /// By how much they may differ: see [`Quantity`].
    pub tolerance: f64,
    /// They do not differ by more.
    pub ok: bool,
}

/// What is compared, and what its tolerance means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Wall time, nanoseconds; relative.
    Wall,
    /// Share of contended acquisitions, 0..1; absolute.
    ContendedShare,
    /// Share of waited time, 0..1; absolute.
    WaitedShare,
    /// Switches of threads that blocked; relative.
    VoluntarySwitches,
    /// Switches of threads that were preempted; relative.
    InvoluntarySwitches,
    /// Median wait, nanoseconds; a factor.
    WaitP50,
    /// 90th percentile of the waits, nanoseconds; a factor.
    WaitP90,
    /// 99th percentile of the waits, nanoseconds; a factor.
    WaitP99,
}

impl Fidelity {
    /// Compares a replay with the recorded run. `spread` is (max - min) / median of the wall times
    /// of repeated recorded runs, if known: no replay can be asked for more than the program gives.
    pub fn compare(
        method: Method,
        recorded: &Fingerprint,
        replayed: &Fingerprint,
        spread: Option<f64>,
    ) -> Self {
        let spread = spread.unwrap_or(0.0);
        let relative = |what, a: f64, b: f64, tolerance: f64, floor: f64| Check {
            what,
            recorded: a,
            replayed: b,
            tolerance,
            ok: (a - b).abs() <= tolerance * a + floor,
        };
        let share = |what, a: f64, b: f64| Check {
            what,
            recorded: a,
            replayed: b,
            tolerance: SHARE_TOLERANCE,
            ok: (a - b).abs() <= SHARE_TOLERANCE,
        };
        // Without waits on one side there is nothing to compare: the shares say so.
        let factor = |what, a: f64, b: f64| Check {
            what,
            recorded: a,
            replayed: b,
            tolerance: WAIT_FACTOR,
            ok: a == 0.0 || b == 0.0 || (a / b).max(b / a) <= WAIT_FACTOR,
        };
        let wall = WALL_TOLERANCE.max(spread);
        let switches = SWITCH_TOLERANCE.max(spread);
        let few = 1.0 + MIN_SWITCH_RATE * recorded.wall_ns / 1e9;
        use Quantity as Q;
        let (r, p) = (recorded, replayed);
        let checks = vec![
            relative(Q::Wall, r.wall_ns, p.wall_ns, wall, 0.0),
            share(Q::ContendedShare, r.contended_share, p.contended_share),
            share(Q::WaitedShare, r.waited_share, p.waited_share),
            relative(
                Q::VoluntarySwitches,
                r.voluntary,
                p.voluntary,
                switches,
                few,
            ),
            relative(
                Q::InvoluntarySwitches,
                r.involuntary,
                p.involuntary,
                switches,
                few,
            ),
            factor(Q::WaitP50, r.wait_p50_ns, p.wait_p50_ns),
            factor(Q::WaitP90, r.wait_p90_ns, p.wait_p90_ns),
            factor(Q::WaitP99, r.wait_p99_ns, p.wait_p99_ns),
        ];
        let known = |check: &Check| !check.recorded.is_nan() && !check.replayed.is_nan();
        let checks = checks.into_iter().filter(known).collect();
        Self {
            method,
            recorded_ns: r.wall_ns,
            replayed_ns: p.wall_ns,
            checks,
        }
    }

    /// The gate: without the recorded wall time and the share of waited time, no what-if of this
    /// method is worth showing. The other checks say where the replay differs.
    pub fn is_faithful(&self) -> bool {
        let gates = [Quantity::Wall, Quantity::WaitedShare];
        self.checks
            .iter()
            .filter(|check| gates.contains(&check.what))
            .all(|check| check.ok)
    }

    /// What differs by more than it may.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Fingerprint {
        Fingerprint {
            wall_ns: 1e9,
            contended_share: 0.1,
            waited_share: 0.3,
            voluntary: 10_000.0,
            involuntary: 100.0,
            wait_p50_ns: 40_000.0,
            wait_p90_ns: 100_000.0,
            wait_p99_ns: 4e6,
        }
    }

    #[test]
    fn a_run_is_faithful_to_itself() {
        let fidelity = Fidelity::compare(Method::ReplaySimulated, &recorded(), &recorded(), None);
        assert!(fidelity.is_faithful());
        assert_eq!(fidelity.failed().count(), 0);
        assert_eq!(recorded().distance(&recorded()), 0.0);
    }

    #[test]
    fn a_wrong_wall_time_closes_the_gate_unless_the_program_varies_as_much() {
        let replayed = Fingerprint {
            wall_ns: 1.1e9,
            ..recorded()
        };
        let strict = Fidelity::compare(Method::ReplayNative, &recorded(), &replayed, None);
        assert!(!strict.is_faithful());
        assert_eq!(
            strict.failed().next().map(|check| check.what),
            Some(Quantity::Wall)
        );
        assert!(
            Fidelity::compare(Method::ReplayNative, &recorded(), &replayed, Some(0.15))
                .is_faithful()
        );
        assert!((recorded().distance(&replayed) - 0.095).abs() < 0.001);
    }

    #[test]
    fn other_differences_are_shown_but_do_not_close_the_gate() {
        let replayed = Fingerprint {
            voluntary: 20_000.0,
            wait_p99_ns: 1e5,
            ..recorded()
        };
        let fidelity = Fidelity::compare(Method::ReplaySimulated, &recorded(), &replayed, None);
        assert!(fidelity.is_faithful());
        let failed: Vec<Quantity> = fidelity.failed().map(|check| check.what).collect();
        assert_eq!(failed, [Quantity::VoluntarySwitches, Quantity::WaitP99]);
    }

    #[test]
    fn few_switches_are_chance() {
        let quiet = Fingerprint {
            voluntary: 4.0,
            involuntary: 0.0,
            ..recorded()
        };
        let other = Fingerprint {
            voluntary: 15.0,
            involuntary: 9.0,
            ..recorded()
        };
        let fidelity = Fidelity::compare(Method::ReplaySimulated, &quiet, &other, None);
        assert_eq!(fidelity.failed().count(), 0);
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        assert_eq!(Fingerprint::mean([]), Fingerprint::default());
        let half = Fingerprint::mean([recorded(), Fingerprint::default()]);
        assert_eq!(half.wall_ns, 5e8);
    }
}
