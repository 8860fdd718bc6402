//! Upper bounds of gains: what may be left of a run once a fix took away all that it can.

/// Bounds are made from measured times: this much of the gain is allowed for their error.
const MODEL_ERROR: f64 = 1.1;
/// A gain that may be above this has no bound: hardly anything of what is measured would be left.
const BOUNDED: f64 = 50.0;

/// CPU time of a run, or of a stretch of it, nanoseconds. Busy waiting is no work, and left out.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// All of it today.
    pub all: f64,
    /// The part that a fix takes away at most.
    pub goes: f64,
    /// CPUs that it is on, on average while there is any: fewer than one where other programs have
    /// them.
    pub at_once: f64,
}

impl Work {
    /// Returns what is left at least of a run that would be `left` nanoseconds long if the work
    /// that stays took as long as today. It was timed beside what goes, with caches that others
    /// emptied and a pipeline that waited for theirs: the more goes, the faster the rest may be
    /// alone. In eight programs of four languages (reference counts, read locks, channels, pools of
    /// processes, garbage, a hot lock) it took 0.75 of its time where q = 0.6 of all went, 0.4
    /// where 0.8 went and 0.1 where 0.95 went: (1 - q)^q is below all of these.
    pub fn least_left(&self, left: f64) -> f64 {
        let all = self.all.max(1.0);
        let goes = self.goes.clamp(0.0, all);
        let q = goes / all;
        let stays = ((all - goes) / self.at_once.max(f64::MIN_POSITIVE)).min(left);
        left - stays * (1.0 - (1.0 - q).powf(q))
    }
}

/// The bound of a gain that follows from measured times, with room for their error; infinite where
/// they bound nothing.
pub fn gain_at_most(ratio: f64) -> f64 {
    if ratio > BOUNDED {
        f64::INFINITY
    } else {
        with_error(ratio)
    }
}

/// The same for a bound that is a count, of CPUs or threads, and no small remainder.
pub fn with_error(ratio: f64) -> f64 {
    1.0 + MODEL_ERROR * (ratio - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(goes: f64, at_once: f64, left: f64) -> f64 {
        let work = Work {
            all: 100.0,
            goes,
            at_once,
        };
        work.least_left(left)
    }

    #[test]
    fn work_beside_which_nothing_goes_takes_as_long_as_today() {
        assert_eq!(left(0.0, 1.0, 100.0), 100.0);
    }

    #[test]
    fn the_rest_takes_less_the_more_goes() {
        // Measured: 0.75, 0.4 and 0.1 of its time.
        for (goes, at_most) in [(60.0, 0.75), (80.0, 0.4), (95.0, 0.1)] {
            let rest = 100.0 - goes;
            let factor = left(goes, 1.0, rest) / rest;
            assert!(
                factor < at_most && factor > at_most / 2.0,
                "{goes}: {factor}"
            );
        }
    }

    #[test]
    fn waits_that_stay_take_as_long_as_today() {
        let (rest, waits) = (20.0, 30.0);
        let alone = left(80.0, 1.0, rest);
        assert!((left(80.0, 1.0, rest + waits) - alone - waits).abs() < 1e-9);
        // On two CPUs half of the run is this work.
        assert!(left(80.0, 2.0, rest) > alone);
    }

    #[test]
    fn a_bound_of_hardly_anything_is_none() {
        assert_eq!(gain_at_most(60.0), f64::INFINITY);
        assert!((gain_at_most(11.0) - 12.0).abs() < 1e-9);
        assert!((with_error(101.0) - 111.0).abs() < 1e-9);
    }
}
