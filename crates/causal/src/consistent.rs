//! Estimates of one target at several speed-ups, together: what each says of the others.

use crate::interval::Saved;

/// Estimate of what a target would save, with its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub saved: Saved,
    /// Standard deviation of `saved.mid`: noise, and what is not known of the null experiment.
    pub deviation: f64,
}

impl Estimate {
    /// The expected value of targets most of which are worth little: nearer to 0 by its deviation
    /// (the positive part of the estimator of James and Stein, 1961, for one value).
    pub fn shrunk(self) -> Self {
        let mid = self.saved.mid;
        let left = 1.0 - (self.deviation / mid).powi(2);
        // `left` is no number if `mid` and the deviation are 0.
        let mid = if left > 0.0 { mid * left } else { 0.0 };
        Self {
            saved: self.saved.with_mid(mid),
            ..self
        }
    }
}

/// Makes expected values agree with each other; intervals stay. `speedups` rise.
///
/// For a fixed order of events the time of a run is convex in the durations of its parts (max-plus
/// algebra), so that what is saved by unit of speed-up does not rise: twice the speed-up saves at
/// most twice as much. Where estimates say otherwise it is noise, if their intervals allow that, and
/// their slopes are pooled by weight (antitonic regression by pooling adjacent violators; Ayer et
/// al., 1955).
pub(crate) fn consistent(speedups: &[f64], found: &[Estimate]) -> Vec<Saved> {
    let mut pools: Vec<Pool> = Vec::new();
    for (speedup, estimate) in speedups.iter().zip(found) {
        pools.push(Pool::of(*speedup, estimate));
        while let [.., before, last] = &pools[..] {
            let Some(both) = before.with_steeper(last) else {
                break;
            };
            pools.truncate(pools.len() - 2);
            pools.push(both);
        }
    }
    let slopes = pools.iter();
    let slopes = slopes.flat_map(|pool| std::iter::repeat_n(pool.slope, pool.members));
    let rows = speedups.iter().zip(found).zip(slopes);
    rows.map(|((speedup, estimate), slope)| estimate.saved.with_mid(slope * speedup))
        .collect()
}

/// Speed-ups with one slope.
#[derive(Debug, Clone, Copy)]
struct Pool {
    /// Saved by unit of speed-up.
    slope: f64,
    /// Its standard deviation.
    deviation: f64,
    /// Half of its interval.
    half: f64,
    members: usize,
}

impl Pool {
    fn of(speedup: f64, estimate: &Estimate) -> Self {
        Self {
            slope: estimate.saved.mid / speedup,
            deviation: (estimate.deviation / speedup).max(f64::EPSILON),
            half: estimate.saved.half_width() / speedup,
            members: 1,
        }
    }

    /// Both as one, if the other one rises faster by noise.
    fn with_steeper(&self, other: &Self) -> Option<Self> {
        let excess = other.slope - self.slope;
        if excess <= 0.0 || excess > self.half + other.half {
            return None;
        }
        let (of_self, of_other) = (self.deviation.powi(-2), other.deviation.powi(-2));
        let weight = of_self + of_other;
        Some(Self {
            slope: (self.slope * of_self + other.slope * of_other) / weight,
            deviation: weight.sqrt().recip(),
            half: self.half.min(other.half),
            members: self.members + other.members,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [f64; 2] = [0.25, 0.5];

    /// With an interval of two standard deviations on each side.
    fn around(mid: f64, half: f64) -> Estimate {
        Estimate {
            saved: Saved {
                low: mid - half,
                mid,
                high: mid + half,
            },
            deviation: half / 2.0,
        }
    }

    fn mids(found: &[Estimate]) -> Vec<f64> {
        consistent(&LEVELS, found).iter().map(|s| s.mid).collect()
    }

    #[test]
    fn estimates_that_agree_stay() {
        // The next bottleneck comes: less than twice as much.
        let found = [around(0.2, 0.05), around(0.3, 0.05)];
        assert_eq!(consistent(&LEVELS, &found), found.map(|e| e.saved));
    }

    #[test]
    fn twice_the_speed_up_saves_at_most_twice_as_much() {
        let found = [around(0.1, 0.1), around(0.4, 0.1)];
        let [small, large] = mids(&found)[..] else {
            panic!()
        };
        assert!((large - 2.0 * small).abs() < 1e-12, "{large}");
        // The slope of 0.5 has four times the weight.
        assert!((small - 0.18).abs() < 1e-12, "{small}");
        let shrunk = found.map(Estimate::shrunk);
        let [small, large] = mids(&shrunk)[..] else {
            panic!()
        };
        assert!((large - 2.0 * small).abs() < 1e-12, "also of shrunk ones");
    }

    #[test]
    fn estimates_that_contradict_each_other_stay() {
        let found = [around(0.0, 0.01), around(0.4, 0.01)];
        assert_eq!(consistent(&LEVELS, &found), found.map(|e| e.saved));
    }

    #[test]
    fn noise_promises_nothing() {
        let shrunk = |mid, half| around(mid, half).shrunk().saved.mid;
        assert_eq!(shrunk(0.05, 0.12), 0.0);
        assert_eq!(shrunk(-0.05, 0.12), 0.0);
        assert_eq!(shrunk(0.0, 0.1), 0.0);
        assert!(
            (shrunk(0.1, 0.1) - 0.075).abs() < 1e-12,
            "one deviation of two"
        );
        let sure = shrunk(0.4, 0.04);
        assert!((0.395..0.4).contains(&sure), "{sure}");
    }
}
