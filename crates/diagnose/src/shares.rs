//! What share of the sections does what.

use convoy_model::{Region, SectionSample, SectionWord, Sections, Sharing, Touch};

/// How a section's words are looked at.
pub(crate) struct Eyes<'a> {
    pub(crate) sections: &'a Sections,
    /// The sections hand out memory: words that threads only overwrite may be the same memory in other hands.
    pub(crate) allocates: bool,
}

impl<'a> Eyes<'a> {
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

    /// It writes nothing that others touch.
    pub(crate) fn reads_only(&self, sample: &SectionSample) -> bool {
        sample.untold == 0 && self.shared(sample).all(|touch| touch.writes == 0)
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
