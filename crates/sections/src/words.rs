//! Who touched which word: 16 bytes for each, at most 25 with the gaps of the table.

use crate::random::mix;

const READ: u64 = 1;
const WRITTEN: u64 = 1 << 1;
const SEVERAL: u64 = 1 << 2;
const WRITERS: u64 = 1 << 3;
const FLOW: u64 = 1 << 4;
const ATOMIC: u64 = 1 << 5;
const ALLOCATOR: u64 = 1 << 6;
const OWN_STACK: u64 = 1 << 7;
const THREAD_BITS: u32 = 24;
const THREAD: u64 = (1 << THREAD_BITS) - 1;
const FIRST_SHIFT: u32 = 8;
const WRITER_SHIFT: u32 = FIRST_SHIFT + THREAD_BITS;
/// In place of the thread that wrote a word last: a function that hands out memory did, or took it back. What was in it
/// before is no longer there to be read.
const HANDED_OUT: u64 = THREAD;
const SECTIONS_SHIFT: u32 = WRITER_SHIFT + THREAD_BITS;

/// What is known of a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen(u64);

/// What one section did with a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) thread: u32,
    pub(crate) read_first: bool,
    pub(crate) read: bool,
    pub(crate) written: bool,
    pub(crate) atomic: bool,
    pub(crate) own_stack: bool,
}

impl Seen {
    fn flag(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    pub(crate) fn only(self) -> Option<u32> {
        (!self.flag(SEVERAL)).then_some((self.0 >> FIRST_SHIFT & THREAD) as u32)
    }
    /// Sections that touched it, at most 255.
    pub(crate) fn sections(self) -> u8 {
        (self.0 >> SECTIONS_SHIFT) as u8
    }
    pub(crate) fn read(self) -> bool {
        self.flag(READ)
    }
    pub(crate) fn written(self) -> bool {
        self.flag(WRITTEN)
    }
    pub(crate) fn writers(self) -> bool {
        self.flag(WRITERS)
    }
    pub(crate) fn flow(self) -> bool {
        self.flag(FLOW)
    }
    pub(crate) fn atomic(self) -> bool {
        self.flag(ATOMIC)
    }
    pub(crate) fn allocator(self) -> bool {
        self.flag(ALLOCATOR)
    }
    pub(crate) fn own_stack(self) -> bool {
        self.flag(OWN_STACK)
    }

    fn first(thread: u64) -> Self {
        Self(thread << FIRST_SHIFT)
    }

    fn add(&mut self, by: &Use) {
        let thread = u64::from(by.thread) & THREAD;
        let first = self.0 >> FIRST_SHIFT & THREAD;
        let was_written = self.flag(WRITTEN);
        if first != thread && by.own_stack && self.flag(OWN_STACK) {
            // A stack that was given to another thread after the first one had ended.
            *self = Self::first(thread);
        } else if first != thread {
            self.0 |= SEVERAL;
        }
        if self.sections() < u8::MAX {
            self.0 += 1 << SECTIONS_SHIFT;
        }
        let writer = self.0 >> WRITER_SHIFT & THREAD;
        let handed_out = writer == HANDED_OUT;
        let others = was_written && self.flag(WRITTEN) && writer != thread;
        if by.read_first && others && !handed_out {
            self.0 |= FLOW;
        }
        if by.read {
            self.0 |= READ;
        }
        if by.written {
            if others && (!handed_out || self.flag(SEVERAL)) {
                self.0 |= WRITERS;
            }
            self.0 = self.0 & !(THREAD << WRITER_SHIFT) | thread << WRITER_SHIFT | WRITTEN;
        }
        if by.atomic {
            self.0 |= ATOMIC;
        }
        if by.own_stack {
            self.0 |= OWN_STACK;
        }
    }
}

/// An open-addressed table, cut into pieces so that growing one needs little more memory than there is.
#[derive(Debug)]
pub(crate) struct Words {
    pieces: Vec<Piece>,
    len: usize,
}

#[derive(Debug, Default)]
struct Piece {
    /// Number of the word plus one, 0 = free; what is known of it.
    slots: Vec<(u64, Seen)>,
    len: usize,
}

const PIECES: usize = 64;

impl Words {
    pub(crate) fn new() -> Self {
        Self {
            pieces: (0..PIECES).map(|_| Piece::default()).collect(),
            len: 0,
        }
    }

    /// Distinct words.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes a use in; `room`: whether a new word may enter. False = it was not known and did not.
    pub(crate) fn add(&mut self, word: u64, by: &Use, room: bool) -> bool {
        let hash = mix(word);
        let piece = &mut self.pieces[(hash >> 58) as usize];
        match piece.find(word, hash) {
            Some(at) if piece.slots[at].0 != 0 => piece.slots[at].1.add(by),
            _ if !room => return false,
            _ => {
                let mut seen = Seen::first(u64::from(by.thread) & THREAD);
                seen.add(by);
                piece.insert(word, hash, seen);
                self.len += 1;
            }
        }
        true
    }

    /// A function that hands out memory wrote it.
    pub(crate) fn hand_out(&mut self, word: u64) {
        let hash = mix(word);
        let piece = &mut self.pieces[(hash >> 58) as usize];
        if let Some(at) = piece.find(word, hash) {
            if piece.slots[at].0 != 0 {
                piece.slots[at].1 .0 |= ALLOCATOR | HANDED_OUT << WRITER_SHIFT;
            }
        }
    }

    pub(crate) fn get(&self, word: u64) -> Option<Seen> {
        let hash = mix(word);
        let piece = &self.pieces[(hash >> 58) as usize];
        let at = piece.find(word, hash)?;
        (piece.slots[at].0 != 0).then_some(piece.slots[at].1)
    }
}

impl Piece {
    /// Where the word is or would be; `None` = there is no table yet.
    fn find(&self, word: u64, hash: u64) -> Option<usize> {
        let n = self.slots.len();
        if n == 0 {
            return None;
        }
        let mut at = start(hash, n);
        loop {
            let key = self.slots[at].0;
            if key == 0 || key == word + 1 {
                return Some(at);
            }
            at = if at + 1 == n { 0 } else { at + 1 };
        }
    }

    fn insert(&mut self, word: u64, hash: u64, seen: Seen) {
        // At most four fifths full, so that chains stay short; at least 64 % after growing.
        if self.len * 5 >= self.slots.len() * 4 {
            let n = (self.slots.len() * 5 / 4).max(16);
            let old = std::mem::replace(&mut self.slots, vec![(0, Seen::default()); n]);
            for (key, seen) in old.into_iter().filter(|&(key, _)| key != 0) {
                self.put(key - 1, mix(key - 1), seen);
            }
        }
        self.put(word, hash, seen);
        self.len += 1;
    }

    fn put(&mut self, word: u64, hash: u64, seen: Seen) {
        if let Some(at) = self.find(word, hash) {
            self.slots[at] = (word + 1, seen);
        }
    }
}

/// Spreads the low bits of a hash over a table of any size; the highest ones have chosen the piece.
fn start(hash: u64, n: usize) -> usize {
    ((u128::from(hash << 6) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(thread: u32, read_first: bool, written: bool) -> Use {
        Use {
            thread,
            read_first,
            read: read_first,
            written,
            atomic: false,
            own_stack: false,
        }
    }

    fn after(uses: &[Use]) -> Seen {
        let mut words = Words::new();
        for by in uses {
            assert!(words.add(7, by, true));
        }
        words.get(7).unwrap()
    }

    #[test]
    fn flow_is_reading_what_another_wrote() {
        let seen = after(&[by(1, true, true), by(2, true, true)]);
        assert!(seen.flow() && seen.writers() && seen.only().is_none());
        // Written before it is read: nothing of the first thread's arrives.
        let seen = after(&[by(1, true, true), by(2, false, true)]);
        assert!(!seen.flow() && seen.writers());
        let seen = after(&[by(1, true, false), by(2, true, false)]);
        assert!(!seen.flow() && !seen.written() && seen.only().is_none());
        let seen = after(&[by(3, true, true), by(3, true, true)]);
        assert_eq!(
            (seen.only(), seen.flow(), seen.sections()),
            (Some(3), false, 2)
        );
        assert_eq!(after(&[by(3, true, true); 300]).sections(), 255);
    }

    #[test]
    fn a_stack_that_is_used_again_is_not_shared() {
        let own = |thread| Use {
            own_stack: true,
            ..by(thread, true, true)
        };
        let seen = after(&[own(1), own(2)]);
        assert_eq!((seen.only(), seen.flow()), (Some(2), false));
        // A local variable that is given to another thread is.
        let seen = after(&[own(1), by(2, true, true)]);
        assert!(seen.flow() && seen.own_stack());
    }

    #[test]
    fn memory_that_was_handed_out_again_brings_nothing_along() {
        let mut words = Words::new();
        words.add(7, &by(1, false, true), true);
        words.hand_out(7);
        words.add(7, &by(2, true, true), true);
        let seen = words.get(7).unwrap();
        assert!(seen.allocator() && !seen.flow() && seen.writers() && seen.only().is_none());
        // From there on it is a word like any other.
        words.add(7, &by(1, true, false), true);
        assert!(words.get(7).unwrap().flow());
        // One thread's memory stays its own.
        words.add(8, &by(1, true, true), true);
        words.hand_out(8);
        words.add(8, &by(1, true, true), true);
        let seen = words.get(8).unwrap();
        assert_eq!(
            (seen.only(), seen.flow(), seen.writers()),
            (Some(1), false, false)
        );
    }

    #[test]
    fn many_words_are_found_again_in_little_memory() {
        let mut words = Words::new();
        let n = 300_000;
        for word in 0..n {
            words.add(word * 3, &by((word % 5) as u32, true, false), true);
        }
        assert_eq!(words.len(), n as usize);
        for word in 0..n {
            let seen = words.get(word * 3).unwrap();
            assert_eq!(seen.only(), Some((word % 5) as u32));
            assert_eq!(words.get(word * 3 + 1), None);
        }
        let slots: usize = words.pieces.iter().map(|p| p.slots.capacity()).sum();
        assert!(slots * 16 < n as usize * 32, "{slots}");
    }
}
