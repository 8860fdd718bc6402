//! Counts how often windows met each target: a target that they never met has no number, however
//! narrow its interval around zero is.

use convoy_capture::causal::Counts;
use convoy_causal::{note, reason, Algorithm, Arm, Kind, Mechanism, Subject, TargetRow};

/// Samples from which on it says something that none of them met the target: of a target that takes
/// 3 % of them, the least that is one without being asked for, all of so many miss it one time in
/// 20,000.
const SAMPLES_LEAST: u64 = 300;

/// Counts of a target's own windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Waits by another algorithm.
    waits: u64,
    /// Samples of windows in which it was the only target, and those of them that met it.
    samples: u64,
    hits: u64,
    /// Sleeps of any thread in them: those of a target's threads are lengthened without a sample.
    sleeps: u64,
}

impl Reached {
    /// Adds a window that tried `arm`, by the counts at its beginning and its end.
    pub fn add(all: &mut [Self], arm: &Arm, first: &Counts, last: &Counts) {
        let since = |of: fn(&Counts) -> u64| of(last).saturating_sub(of(first));
        // A sample does not say which target it met where several are slowed at once.
        let is_alone = arm.targets.numbers().count() == 1 && arm.mechanism == Mechanism::Sampled;
        for target in arm.targets.numbers() {
            let Some(reached) = all.get_mut(target) else {
                continue;
            };
            reached.waits += since(|counts| counts.tried);
            if is_alone {
                reached.samples += since(|counts| counts.samples);
                reached.hits += since(|counts| counts.hits);
                reached.sleeps += since(|counts| counts.sleeps);
            }
        }
    }

    /// Why the windows have told nothing of an algorithm; `None` = threads waited by it.
    pub fn without_waits(self, way: Algorithm) -> Option<String> {
        (self.waits == 0).then(|| match way.may_corrupt() {
            true => reason::not_entered(),
            false => reason::not_tried(),
        })
    }

    /// Why the windows have told nothing of code; `None` = samples met it, or too few were taken.
    pub fn without_hits(self, subject: &Subject) -> Option<String> {
        let is_of_samples =
            subject.mechanism == Mechanism::Sampled && subject.target.kind.is_code();
        let may_sleep = subject.target.kind == Kind::Threads && self.sleeps > 0;
        let is_missed = self.samples >= SAMPLES_LEAST && self.hits == 0 && !may_sleep;
        (is_of_samples && is_missed).then(|| reason::never_met(subject.target.kind, self.samples))
    }

    /// How many samples met a target whose share the look before the experiments cannot tell.
    pub fn hits(self, row: &TargetRow) -> Option<String> {
        let is_asked = row.kind.is_of_agent() && row.reason.is_none();
        let is_known = self.samples >= SAMPLES_LEAST;
        (is_asked && is_known).then(|| note::hits(row, self.hits, self.samples))
    }
}

#[cfg(test)]
mod tests {
    use convoy_causal::{Target, TargetSet};

    use super::*;

    fn counts(samples: u64, hits: u64) -> Counts {
        Counts {
            samples,
            hits,
            ..Counts::default()
        }
    }

    /// Two targets after a window that had these, with 400 samples.
    fn after(targets: TargetSet, hits: u64) -> [Reached; 2] {
        let mut all = [Reached::default(); 2];
        let arm = Arm {
            targets,
            speedup: 0.5,
            mechanism: Mechanism::Sampled,
        };
        Reached::add(&mut all, &arm, &counts(100, 7), &counts(500, 7 + hits));
        all
    }

    fn subject(mechanism: Mechanism, kind: Kind) -> Subject {
        Subject {
            target: Target::new(kind, "outer>inner"),
            mechanism,
            sample_share: None,
            algorithm: None,
            locks: Vec::new(),
        }
    }

    #[test]
    fn a_path_that_no_sample_met_has_no_number() {
        let [missed, _] = after(TargetSet::one(0), 0);
        let path = subject(Mechanism::Sampled, Kind::Path);
        let reason = missed.without_hits(&path).unwrap();
        assert!(
            reason.contains("400") && reason.contains("inlined"),
            "{reason}"
        );
        let [met, other] = after(TargetSet::one(0), 3);
        assert_eq!(met.without_hits(&path), None);
        assert_eq!(other.without_hits(&path), None, "no window of its own");
    }

    #[test]
    fn windows_of_several_targets_tell_of_none_of_them() {
        let all = after(TargetSet(0b11), 0);
        assert_eq!(all, [Reached::default(); 2]);
    }

    #[test]
    fn sections_and_sleeps_are_met_by_hooks() {
        let [missed, _] = after(TargetSet::one(0), 0);
        for subject in [
            subject(Mechanism::Measured, Kind::Lock),
            subject(Mechanism::Sampled, Kind::Wait),
        ] {
            assert_eq!(missed.without_hits(&subject), None);
        }
    }
}
