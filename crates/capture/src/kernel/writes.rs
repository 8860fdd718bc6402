//! Who was found reading or writing which file, and how much at a time.
//!
//! A call that writes a line costs nearly as much as one that writes a page. Samples in the kernel tell how much the call was
//! to write, and so whether the time goes into what is written or into the calls. The same is true of reading.

use std::collections::HashMap;

use convoy_profile::{CallSamples, NameIx, StackIx, ThreadRef};

use super::reason::Moved;

/// Different rows that are kept: a program that writes at more places, or to more files, writes everywhere.
const ROWS: usize = 65_536;

/// Samples of one thread at one place in calls that read, or write, about as much of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    thread: ThreadRef,
    stack: StackIx,
    name: NameIx,
    size_class: u8,
    reads: bool,
}

/// All of a recording. Threads and stacks are those of their images.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    rows: HashMap<Key, u64>,
}

impl Writes {
    /// A thread was found in such a call.
    pub(super) fn of_sample(
        &mut self,
        thread: ThreadRef,
        stack: StackIx,
        name: NameIx,
        moved: Moved,
    ) {
        let key = Key {
            thread,
            stack,
            name,
            size_class: size_class(moved.length),
            reads: moved.reads,
        };
        if self.rows.len() < ROWS || self.rows.contains_key(&key) {
            *self.rows.entry(key).or_default() += 1;
        }
    }

    /// The rows, in order.
    pub(super) fn into_rows(self) -> Vec<CallSamples> {
        let mut rows: Vec<_> = self.rows.into_iter().collect();
        rows.sort_unstable();
        rows.into_iter()
            .map(|(key, n)| CallSamples {
                thread: key.thread,
                stack: key.stack,
                name: Some(key.name),
                size_class: key.size_class,
                reads: key.reads,
                n,
            })
            .collect()
    }
}

/// Bits of the length.
fn size_class(length: u32) -> u8 {
    (u32::BITS - length.leading_zeros()) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_kept_by_their_bits() {
        let classes = [0, 1, 2, 3, 44, 4095, 4096, u32::MAX].map(size_class);
        assert_eq!(classes, [0, 1, 2, 2, 6, 12, 13, 32]);
    }

    #[test]
    fn samples_of_the_same_thread_place_file_length_and_way_are_one_row() {
        let mut writes = Writes::default();
        let thread = |thread| ThreadRef { process: 0, thread };
        for (by, length, reads) in [
            (2, 40, false),
            (1, 50, false),
            (1, 60, false),
            (1, 60, true),
            (1, 8192, false),
        ] {
            writes.of_sample(thread(by), 7, 0, Moved { length, reads });
        }
        let rows = writes.into_rows();
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.thread.thread, row.size_class, row.reads, row.n))
            .collect();
        assert_eq!(
            rows,
            [
                (1, 6, false, 2),
                (1, 6, true, 1),
                (1, 14, false, 1),
                (2, 6, false, 1)
            ]
        );
    }
}
