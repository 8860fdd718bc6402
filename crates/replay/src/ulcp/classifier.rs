//! Classes of pairs of sections, each pair of sets classified once.

use super::{classify, BenignOracle, Class};
use crate::sections::SectionIx;
use crate::sets::{Assignment, SampleIx, SectionSets, NO_SAMPLE};

/// Samples of one lock whose pairs are remembered, at most: a byte a pair.
const MAX_REMEMBERED: usize = 4096;
/// Not classified yet.
const OPEN: u8 = u8::MAX;
const NOT_LOCAL: u32 = u32::MAX;

/// Classifies pairs of sections of one lock at a time.
pub struct Classifier<'a> {
    sets: &'a SectionSets,
    assignment: &'a Assignment,
    oracle: &'a dyn BenignOracle,
    /// By sample: its number among those of the lock.
    local: Vec<u32>,
    samples: Vec<SampleIx>,
    /// By pair of local numbers.
    classes: Vec<u8>,
}

impl std::fmt::Debug for Classifier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Classifier").finish_non_exhaustive()
    }
}

impl<'a> Classifier<'a> {
    /// For sections that have these sets.
    pub fn new(
        sets: &'a SectionSets,
        assignment: &'a Assignment,
        oracle: &'a dyn BenignOracle,
    ) -> Self {
        Self {
            sets,
            assignment,
            oracle,
            local: vec![NOT_LOCAL; sets.samples.len()],
            samples: Vec::new(),
            classes: Vec::new(),
        }
    }

    /// The sets.
    pub fn sets(&self) -> &'a SectionSets {
        self.sets
    }

    /// The oracle for conflicts.
    pub fn oracle(&self) -> &'a dyn BenignOracle {
        self.oracle
    }

    /// The sample whose sets a section has; [`NO_SAMPLE`] = not known.
    pub fn sample_of(&self, section: SectionIx) -> SampleIx {
        let samples = &self.assignment.samples;
        samples.get(section as usize).copied().unwrap_or(NO_SAMPLE)
    }

    /// Makes room for the sections of one lock: pairs of them are remembered until the next call.
    pub fn focus(&mut self, of_lock: &[SectionIx]) {
        for sample in self.samples.drain(..) {
            self.local[sample as usize] = NOT_LOCAL;
        }
        for &section in of_lock {
            let sample = self.sample_of(section);
            let Some(local) = self.local.get_mut(sample as usize) else {
                continue;
            };
            if *local == NOT_LOCAL && self.samples.len() < MAX_REMEMBERED {
                *local = self.samples.len() as u32;
                self.samples.push(sample);
            }
        }
        self.classes.clear();
        self.classes.resize(self.samples.len().pow(2), OPEN);
    }

    /// The samples of the lock in focus.
    pub fn samples(&self) -> &[SampleIx] {
        &self.samples
    }

    /// A section's number among the samples of the lock in focus; `None` = its sets are not known, or
    /// there are too many samples.
    pub(crate) fn local_of(&self, section: SectionIx) -> Option<u32> {
        let local = self.local.get(self.sample_of(section) as usize).copied();
        local.filter(|local| *local != NOT_LOCAL)
    }

    /// Whether a sample must exclude each of those of the lock in focus, both by their local numbers.
    pub(crate) fn exclusions(&mut self, local: u32) -> Vec<bool> {
        let samples = self.samples.clone();
        let Some(&sample) = samples.get(local as usize) else {
            return Vec::new();
        };
        let mut must = |other: &SampleIx| !self.class_of_samples(sample, *other).is_unnecessary();
        samples.iter().map(&mut must).collect()
    }

    /// The class of two sections of the lock in focus.
    pub fn class(&mut self, first: SectionIx, second: SectionIx) -> Class {
        let (a, b) = (self.sample_of(first), self.sample_of(second));
        self.class_of_samples(a, b)
    }

    /// The class of two samples of the lock in focus.
    pub fn class_of_samples(&mut self, a: SampleIx, b: SampleIx) -> Class {
        let local = |sample: SampleIx| {
            let local = self.local.get(sample as usize).copied();
            local.filter(|local| *local != NOT_LOCAL)
        };
        let (Some(i), Some(j)) = (local(a), local(b)) else {
            return classify(self.sets, self.oracle, a, b);
        };
        let n = self.samples.len();
        let at = i as usize * n + j as usize;
        if let Some(class) = Class::ALL.get(usize::from(self.classes[at])) {
            return *class;
        }
        let class = classify(self.sets, self.oracle, a, b);
        self.classes[at] = class as u8;
        self.classes[j as usize * n + i as usize] = class as u8;
        class
    }
}
