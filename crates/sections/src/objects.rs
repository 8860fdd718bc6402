//! Memory that sections were handed out, by its address.

use std::collections::HashMap;

/// Objects of a process that are kept, of some 20 bytes each: of those beyond it is not known where they were allocated.
const OBJECTS: usize = 1 << 14;

/// Where memory that begins at an address was asked for.
#[derive(Debug, Default)]
pub(crate) struct Objects(HashMap<u64, Asked>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// By the call instruction of a section's own code that this block ends with.
    By(u32),
    /// By one after the other.
    BySeveral,
}

impl Objects {
    /// Memory at `address` was handed out to the call that the block `from` ends with.
    pub(crate) fn add(&mut self, address: u64, from: u32) {
        let room = self.0.len() < OBJECTS;
        match self.0.get_mut(&address) {
            Some(asked) if *asked == Asked::By(from) => {}
            Some(asked) => *asked = Asked::BySeveral,
            None if room && address != 0 => {
                self.0.insert(address, Asked::By(from));
            }
            None => {}
        }
    }

    /// The block that ends with the one call that asked for the memory which begins there.
    pub(crate) fn asked_by(&self, address: u64) -> Option<u32> {
        match self.0.get(&address)? {
            Asked::By(from) => Some(*from),
            Asked::BySeveral => None,
        }
    }
}

/// Where an object begins, of which this word was accessed with this offset from a register. What is handed out is aligned to
/// words.
pub(crate) fn begin(word: u64, field: i32) -> u64 {
    (word << 3).wrapping_sub(i64::from(field & !7) as u64)
}

#[cfg(test)]
mod tests {
    use super::{begin, Objects, OBJECTS};

    #[test]
    fn memory_that_two_lines_ask_for_in_turn_is_of_neither() {
        let mut objects = Objects::default();
        objects.add(0x5000, 3);
        objects.add(0x5000, 3);
        objects.add(0x6000, 3);
        objects.add(0x6000, 4);
        objects.add(0, 3);
        let asked = [0x5000, 0x6000, 0, 0x7000].map(|address| objects.asked_by(address));
        assert_eq!(asked, [Some(3), None, None, None]);
        for address in 1..100_000 {
            objects.add(address << 4, 5);
        }
        assert_eq!(objects.0.len(), OBJECTS);
        assert_eq!(objects.asked_by(0x5000), None, "5 asked as well");
    }

    #[test]
    fn objects_begin_before_their_fields() {
        assert_eq!(begin(0x5018 >> 3, 0x1c), 0x5000);
        assert_eq!(begin(0x5018 >> 3, 0x18), 0x5000);
        assert_eq!(begin(0x5018 >> 3, -8), 0x5020);
    }
}
