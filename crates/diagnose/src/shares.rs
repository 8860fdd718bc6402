//! What share of the sections does what.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Region, SectionSample, SectionWord, Sections, Sharing, Touch};

/// Share of the words written by an instruction that others touch, from which on it writes shared data: of many objects each is
/// seen so seldom that it may be by chance that one thread alone was seen there.
const WRITES_SHARED: f64 = 0.1;

/// How a section's words are looked at.
pub(crate) struct SharingView<'a> {
    pub(crate) sections: &'a Sections,
    /// The sections hand out memory: words that threads only overwrite may be the same memory in other hands.
    pub(crate) allocates: bool,
}

impl<'a> SharingView<'a> {
    pub(crate) fn word(&self, ix: u32) -> Option<&'a SectionWord> {
        self.sections.words.get(ix as usize)
    }

    /// How a word is shared; `None` for a lock's own words.
    pub(crate) fn sharing(&self, word: &SectionWord) -> Option<Sharing> {
        if matches!(word.region, Region::Lock) {
            return None;
        }
        let recycled = self.allocates || word.seen.allocator;
        match word.sharing() {
            Sharing::Overwritten if recycled && word.region == Region::Heap => Some(Sharing::Local),
            sharing => Some(sharing),
        }
    }

    /// Whether threads exchange data through it, or may.
    pub(crate) fn is_shared(&self, ix: u32) -> bool {
        let sharing = self.word(ix).and_then(|word| self.sharing(word));
        matches!(
            sharing,
            Some(Sharing::Shared | Sharing::Overwritten | Sharing::Rare)
        )
    }

    /// The touches of shared words.
    pub(crate) fn shared<'s>(
        &'s self,
        sample: &'s SectionSample,
    ) -> impl Iterator<Item = &'s Touch> {
        let touches = sample.touches.iter();
        touches.filter(|touch| self.is_shared(touch.word))
    }

    /// Instructions that write what others touch, by their index.
    pub(crate) fn writers(&self, samples: &[&SectionSample]) -> BTreeSet<u32> {
        let mut words: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for sample in samples {
            for touch in sample.touches.iter().filter(|touch| touch.writes > 0) {
                let Some(code) = touch.written_by else {
                    continue;
                };
                let (all, shared) = words.entry(code).or_default();
                *all += sample.weight;
                *shared += if self.is_shared(touch.word) {
                    sample.weight
                } else {
                    0
                };
            }
        }
        words.retain(|_, (all, shared)| *shared as f64 >= WRITES_SHARED * *all as f64);
        words.into_keys().collect()
    }

    /// It writes nothing that others touch; `writers` are the instructions that do.
    pub(crate) fn reads_only(&self, sample: &SectionSample, writers: &BTreeSet<u32>) -> bool {
        let writes = |touch: &Touch| {
            let shares = touch.written_by.is_some_and(|code| writers.contains(&code));
            touch.writes > 0 && (shares || self.is_shared(touch.word))
        };
        sample.untold == 0 && !sample.touches.iter().any(writes)
    }

    pub(crate) fn touches_nothing_shared(&self, sample: &SectionSample) -> bool {
        sample.untold == 0 && self.shared(sample).next().is_none()
    }

    /// The one shared word of a section that reads, writes or changes it once.
    pub(crate) fn one_word<'s>(&'s self, sample: &'s SectionSample) -> Option<&'s Touch> {
        let mut shared = self.shared(sample);
        let (first, more) = (shared.next()?, shared.next());
        let once = more.is_none() && sample.untold == 0 && first.writes <= 1 && first.reads <= 2;
        let code = first.written_by.or(first.read_by);
        let size = code
            .and_then(|ix| self.sections.code.get(ix as usize))
            .map_or(8, |row| row.size);
        (once && size <= 8).then_some(first)
    }
}
