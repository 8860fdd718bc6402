//! The words of one section, each once.

use crate::random::mix;

/// No instruction.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What a section did with a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawTouch {
    /// Address / 8.
    pub(crate) word: u64,
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    /// Numbers of the site's accesses.
    pub(crate) read_by: u32,
    pub(crate) written_by: u32,
    pub(crate) bytes: u8,
    pub(crate) read_first: bool,
    pub(crate) atomic: bool,
    pub(crate) own_stack: bool,
    /// A function that hands out memory wrote it, and the section did not since.
    pub(crate) handed_out: bool,
}

/// A table that is emptied by a new number, not by writing it over.
#[derive(Debug)]
pub(crate) struct Touches {
    list: Vec<RawTouch>,
    /// Section that filled the slot, and the place in `list`.
    slots: Vec<(u32, u32)>,
    section: u32,
    untold: u64,
}

/// Distinct words that are followed in one section; what comes beyond is counted.
const LIMIT: usize = 1 << 20;

/// How a word is accessed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) by: u32,
    pub(crate) bytes: u8,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) atomic: bool,
    pub(crate) own_stack: bool,
}

impl Touches {
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            slots: vec![(0, 0); 256],
            section: 0,
            untold: 0,
        }
    }

    /// For the next section.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.untold = 0;
        self.section = self.section.wrapping_add(1);
        if self.section == 0 || self.slots.len() > 1 << 16 {
            // After a huge section small ones shall not run through a huge table.
            self.slots = vec![(0, 0); 256];
            self.section = 1;
        }
    }

    /// In order of the first access.
    pub(crate) fn list(&self) -> &[RawTouch] {
        &self.list
    }

    /// Accesses to words beyond the limit.
    pub(crate) fn untold(&self) -> u64 {
        self.untold
    }

    /// Where the word is in the list; or its free slot.
    fn find(&self, word: u64) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = mix(word) as usize & mask;
        loop {
            let (section, ix) = self.slots[at];
            if section != self.section {
                return Err(at);
            }
            if self.list[ix as usize].word == word {
                return Ok(ix as usize);
            }
            at = (at + 1) & mask;
        }
    }

    /// A function that hands out memory writes the word.
    pub(crate) fn hand_out(&mut self, word: u64) {
        if let Ok(ix) = self.find(word) {
            self.list[ix].handed_out = true;
        }
    }

    pub(crate) fn add(&mut self, word: u64, hit: &Hit) {
        let at = match self.find(word) {
            Ok(ix) => return self.list[ix].again(hit),
            Err(at) => at,
        };
        if self.list.len() >= LIMIT {
            self.untold += 1;
            return;
        }
        self.slots[at] = (self.section, self.list.len() as u32);
        self.list.push(RawTouch::first(word, hit));
        if self.list.len() * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let n = self.slots.len() * 2;
        self.slots = vec![(0, 0); n];
        self.section = 1;
        for (ix, touch) in self.list.iter().enumerate() {
            let mut at = mix(touch.word) as usize & (n - 1);
            while self.slots[at].0 != 0 {
                at = (at + 1) & (n - 1);
            }
            self.slots[at] = (1, ix as u32);
        }
    }
}

impl RawTouch {
    fn first(word: u64, hit: &Hit) -> Self {
        let mut touch = Self {
            word,
            reads: 0,
            writes: 0,
            read_by: NOBODY,
            written_by: NOBODY,
            bytes: 0,
            read_first: hit.reads,
            atomic: false,
            own_stack: hit.own_stack,
            handed_out: false,
        };
        touch.again(hit);
        touch
    }

    fn again(&mut self, hit: &Hit) {
        if hit.reads {
            self.reads = self.reads.saturating_add(1);
            if self.read_by == NOBODY {
                self.read_by = hit.by;
            }
        }
        if hit.writes {
            self.handed_out = false;
            self.writes = self.writes.saturating_add(1);
            if self.written_by == NOBODY {
                self.written_by = hit.by;
            }
        }
        self.bytes = self.bytes.max(hit.bytes);
        self.atomic |= hit.atomic;
    }
}
