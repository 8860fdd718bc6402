//! Which allocated words lie amid one thread's own. Allocators give each thread pages of its own: what that thread touches
//! there only now and then, the buffer of a long string, nobody else is likely to use.

use std::collections::HashMap;

use crate::{Region, SectionWord, ThreadId};

/// Memory whose words speak for each other.
const PAGE_BYTES: u64 = 4096;

/// Sections from which on a word speaks for those around it: of two threads that use it at random the same one would come
/// so often in a row one time in 128.
const TELLING_FOR_OTHERS: u8 = 8;

/// Notes it for all of them.
pub(super) fn note(words: &mut [SectionWord]) {
    let page = |word: &SectionWord| (word.process, word.address / PAGE_BYTES);
    let mut pages: HashMap<_, Page> = HashMap::new();
    for word in words.iter() {
        pages.entry(page(word)).or_default().add(word);
    }
    for word in words.iter_mut() {
        let is_own = pages.get(&page(word)).is_some_and(Page::is_of_one);
        word.amid_own = is_own && word.region == Region::Heap;
    }
}

/// What was seen of one page.
#[derive(Debug, Default)]
struct Page {
    only: Option<ThreadId>,
    several: bool,
    often: usize,
    rarely: usize,
    speaks: bool,
}

impl Page {
    fn add(&mut self, word: &SectionWord) {
        let only = *self.only.get_or_insert(word.only.unwrap_or_default());
        self.several |= word.only != Some(only);
        match word.is_told() {
            true => self.often += 1,
            false => self.rarely += 1,
        }
        self.speaks |= word.seen.sections >= TELLING_FOR_OTHERS;
    }

    fn is_of_one(&self) -> bool {
        !self.several && self.speaks && self.often >= self.rarely
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sharing, WordSeen};

    fn word(address: u64, thread: Option<u32>, sections: u8) -> SectionWord {
        SectionWord {
            address,
            only: thread.map(ThreadId),
            seen: WordSeen {
                sections,
                written: true,
                ..WordSeen::default()
            },
            ..SectionWord::default()
        }
    }

    fn sharing(mut words: Vec<SectionWord>) -> Vec<Sharing> {
        note(&mut words);
        words.iter().map(SectionWord::sharing).collect()
    }

    #[test]
    fn what_is_seen_rarely_is_judged_by_the_page_around_it() {
        let words = vec![
            word(0x1000, Some(1), 9),
            word(0x1ff8, Some(1), 1),
            word(0x2000, Some(1), 1),
        ];
        let expected = [Sharing::Local, Sharing::Local, Sharing::Rare];
        assert_eq!(sharing(words), expected);
    }

    #[test]
    fn a_page_of_several_threads_says_nothing() {
        for other in [Some(2), None] {
            let words = vec![
                word(0x1000, Some(1), 9),
                word(0x1008, Some(1), 1),
                word(0x1010, other, 9),
            ];
            assert_eq!(sharing(words)[1], Sharing::Rare);
        }
    }

    #[test]
    fn a_few_words_speak_for_as_few() {
        let rare = |n: u64| (0..n).map(|i| word(0x1008 + 8 * i, Some(1), 3));
        let told = |sections| std::iter::once(word(0x1000, Some(1), sections));
        assert_eq!(sharing(told(9).chain(rare(1)).collect())[1], Sharing::Local);
        assert_eq!(sharing(told(9).chain(rare(2)).collect())[1], Sharing::Rare);
        assert_eq!(sharing(told(7).chain(rare(1)).collect())[1], Sharing::Rare);
    }

    #[test]
    fn variables_are_not_allocated_by_threads() {
        let mut words = vec![word(0x1000, Some(1), 9), word(0x1008, Some(1), 1)];
        words
            .iter_mut()
            .for_each(|word| word.region = Region::Global);
        assert_eq!(sharing(words)[1], Sharing::Rare);
    }
}
