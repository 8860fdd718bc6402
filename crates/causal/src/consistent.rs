//! Estimates of one target at several speed-ups, together: what each says of the others.

use crate::interval::Saved;

/// Makes expected values agree with each other; intervals stay. `speedups` rise.
///
/// For a fixed order of events the time of a run is convex in the durations of its parts (max-plus
/// algebra), so that what is saved by unit of speed-up does not rise: twice the speed-up saves at
/// most twice as much. Where estimates say otherwise it is noise, if their intervals allow that, and
/// their slopes are pooled by weight (antitonic regression by pooling adjacent violators; Ayer et
/// al., 1955).
pub(crate) fn consistent(speedups: &[f64], found: &[Saved]) -> Vec<Saved> {
    let mut pools: Vec<Pool> = Vec::new();
    for (speedup, saved) in speedups.iter().zip(found) {
        pools.push(Pool::of(*speedup, saved));
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
    let at = |((speedup, own), slope): ((&f64, &Saved), f64)| Saved {
        mid: (slope * speedup).clamp(own.low, own.high),
        ..*own
    };
    rows.map(at).collect()
}

/// Speed-ups with one slope.
#[derive(Debug, Clone, Copy)]
struct Pool {
    /// Saved by unit of speed-up.
    slope: f64,
    /// Half of its interval.
    half: f64,
    members: usize,
}

impl Pool {
    fn of(speedup: f64, saved: &Saved) -> Self {
        Self {
            slope: saved.mid / speedup,
            half: (saved.half_width() / speedup).max(f64::EPSILON),
            members: 1,
        }
    }

    /// Both as one, if the other one rises faster by noise.
    fn with_steeper(&self, other: &Self) -> Option<Self> {
        let excess = other.slope - self.slope;
        if excess <= 0.0 || excess > self.half + other.half {
            return None;
        }
        let (of_self, of_other) = (self.half.powi(-2), other.half.powi(-2));
        let weight = of_self + of_other;
        Some(Self {
            slope: (self.slope * of_self + other.slope * of_other) / weight,
            half: weight.sqrt().recip(),
            members: self.members + other.members,
        })
    }
}

/// Standard deviations from the expected value to an end of an interval.
const DEVIATIONS: f64 = 2.0;

/// The expected value, of targets most of which are worth little: nearer to 0 by its noise (the
/// positive part of the estimator of James and Stein, 1961, for one value).
pub(crate) fn shrunk(saved: Saved) -> Saved {
    let towards_0 = match saved.mid > 0.0 {
        true => saved.mid - saved.low,
        false => saved.high - saved.mid,
    };
    let noise = towards_0 / DEVIATIONS;
    let left = 1.0 - (noise / saved.mid).powi(2);
    // Of 0 it is not a number.
    let mid = if left > 0.0 { saved.mid * left } else { 0.0 };
    Saved {
        mid: mid.clamp(saved.low, saved.high),
        ..saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [f64; 2] = [0.25, 0.5];

    fn around(mid: f64, half: f64) -> Saved {
        Saved {
            low: mid - half,
            mid,
            high: mid + half,
        }
    }

    #[test]
    fn estimates_that_agree_stay() {
        // The next bottleneck comes: less than twice as much.
        let found = [around(0.2, 0.05), around(0.3, 0.05)];
        assert_eq!(consistent(&LEVELS, &found), found);
    }

    #[test]
    fn twice_the_speed_up_saves_at_most_twice_as_much() {
        let found = [around(0.1, 0.1), around(0.4, 0.1)];
        let [small, large] = consistent(&LEVELS, &found)[..] else {
            panic!()
        };
        assert!((large.mid - 2.0 * small.mid).abs() < 1e-12, "{large:?}");
        // The slope of 0.5 has four times the weight.
        assert!((small.mid - 0.18).abs() < 1e-12, "{small:?}");
        assert_eq!((large.low, large.high), (found[1].low, found[1].high));
    }

    #[test]
    fn estimates_that_contradict_each_other_stay() {
        let found = [around(0.0, 0.01), around(0.4, 0.01)];
        assert_eq!(consistent(&LEVELS, &found), found);
    }

    #[test]
    fn noise_promises_nothing() {
        assert_eq!(shrunk(around(0.05, 0.12)).mid, 0.0);
        assert_eq!(shrunk(around(-0.05, 0.12)).mid, 0.0);
        let sure = shrunk(around(0.4, 0.04)).mid;
        assert!((0.395..0.4).contains(&sure), "{sure}");
        assert_eq!(shrunk(around(0.0, 0.1)).mid, 0.0);
    }
}
