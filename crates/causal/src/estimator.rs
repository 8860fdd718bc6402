//! From times per unit of progress to the share of the run that a faster target would save.
//!
//! Both estimators lengthen code in place, on the CPU, instead of pausing other threads as Coz does
//! (SOSP'15, section 3.4): a paused thread gives its CPU away, and a thread that waits for a CPU
//! pays for the pause twice, so that pauses are wrong as soon as threads outnumber CPUs.

use serde::Serialize;

use crate::plan::LEVELS;

/// A way to measure what a faster target would save.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Estimator {
    /// **D.** Everything but the target takes 1/(1-x) of its time; measured times are multiplied by
    /// 1-x. A virtual speed-up of the target by x that keeps the CPUs as busy as a real one would.
    ///
    /// Assumes that all that matters runs in the program: clients, timeouts, devices and memory
    /// bandwidth do not become slower with it. Sees the next bottleneck.
    Dilate,
    /// **S.** The target takes 1+k of its time; the slope over k is the saving.
    ///
    /// Assumes nothing about the rest of the world: code that is really slower. For a fixed order
    /// of events the time of a run is convex in the durations of its parts (max-plus algebra), so
    /// that the slope upwards is an upper bound of the saving downwards. Does not see the next
    /// bottleneck.
    Slow,
    /// **F.** As S, with all targets in the same windows: each has its own random bit, 1 = slowed; a
    /// least-squares fit tells what each adds.
    ///
    /// Assumes what S does, and that slowed targets do not change each other's effect much: what is
    /// found is the mean effect over the settings of the others. So it is for many targets at once.
    Factorial,
    /// **X.** Threads wait for the target's mutexes by another algorithm; what is saved is measured
    /// as it is.
    ///
    /// Assumes that a window is long enough for the program to settle in the new way.
    Exchange,
}

impl Estimator {
    /// Speed-ups of a target that are tried.
    pub fn levels(self) -> &'static [f64] {
        match self {
            Self::Dilate | Self::Slow | Self::Factorial => &LEVELS,
            Self::Exchange => &[1.0],
        }
    }

    /// Additional time, as a share of what is lengthened, that stands for a target which is faster
    /// by `speedup` (0 to 1).
    pub fn factor(self, speedup: f64) -> f64 {
        match self {
            Self::Dilate => speedup / (1.0 - speedup),
            Self::Slow | Self::Factorial => speedup,
            Self::Exchange => 0.0,
        }
    }

    /// Additional time, as a share of what the windows of a speed-up did not lengthen though they
    /// should have: calls into the kernel that wake others, or put the thread to sleep.
    pub(crate) fn owed(self, speedup: f64) -> f64 {
        match self {
            Self::Dilate => self.factor(speedup),
            Self::Slow | Self::Factorial | Self::Exchange => 0.0,
        }
    }

    /// Saved share of the run, from the time per unit of progress in windows of this level over
    /// that of the baseline.
    pub fn saved(self, speedup: f64, ratio: f64) -> f64 {
        match self {
            Self::Dilate => 1.0 - (1.0 - speedup) * ratio,
            Self::Slow | Self::Factorial => ratio - 1.0,
            Self::Exchange => 1.0 - ratio,
        }
    }

    /// Whether the result is only a bound of the gain.
    pub fn is_upper_bound(self) -> bool {
        self == Self::Slow
    }

    /// Whether a window without a target must show that nothing is saved.
    pub fn has_null(self) -> bool {
        matches!(self, Self::Dilate | Self::Factorial)
    }

    /// Whether what the null experiment predicts is a bias that estimates share.
    pub(crate) fn is_biased(self) -> bool {
        self == Self::Dilate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A serial program: `target` of its time in the target, the rest elsewhere.
    fn ratio(estimator: Estimator, target: f64, speedup: f64) -> f64 {
        let k = 1.0 + estimator.factor(speedup);
        match estimator {
            Estimator::Dilate => target + (1.0 - target) * k,
            Estimator::Slow | Estimator::Factorial => target * k + 1.0 - target,
            Estimator::Exchange => 1.0 - target * speedup,
        }
    }

    #[test]
    fn serial_program_saves_what_its_target_saves() {
        for estimator in [Estimator::Dilate, Estimator::Slow, Estimator::Exchange] {
            for (target, speedup) in [(0.3, 0.25), (0.8, 0.5), (1.0, 0.5)] {
                let saved = estimator.saved(speedup, ratio(estimator, target, speedup));
                assert!((saved - target * speedup).abs() < 1e-12, "{estimator:?}");
            }
        }
    }

    #[test]
    fn null_saves_nothing() {
        let ratio = 1.0 + Estimator::Dilate.factor(0.5);
        assert!(Estimator::Dilate.saved(0.5, ratio).abs() < 1e-12);
    }

    #[test]
    fn dilation_sees_the_next_bottleneck() {
        // Two stages of a pipeline in parallel, 1.0 and 0.8 long: the slower one sets the pace.
        let saved = Estimator::Dilate.saved(0.5, f64::max(1.0, 0.8 * 2.0));
        assert!((saved - 0.2).abs() < 1e-12);
        assert!(
            (Estimator::Slow.saved(0.5, 1.5) - 0.5).abs() < 1e-12,
            "a bound"
        );
    }
}
