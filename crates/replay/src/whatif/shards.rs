//! Division of a lock: by the data of its sections where they are known, else by chance.

use std::collections::{BTreeMap, BTreeSet};

use super::apply::{Change, Knowledge, Note, Refusal};
use super::{locks, Target};
use crate::program::{LockIx, Op, SectionId, NO_SECTION};
use crate::random::{below, mix};
use crate::sets::WordIx;

/// A word that this share of the sections touches joins parts that are apart otherwise: a counter, a
/// size, which sharding has to divide as well.
const COMMON_SHARE: f64 = 0.5;

/// Locks of a program, at most.
const MAX_LOCKS: usize = 1 << 22;

pub(super) fn shard(
    change: &mut Change,
    target: &Target,
    ways: u32,
    knowledge: &Knowledge<'_>,
) -> Result<(), Refusal> {
    let whole = change.locks_of(target);
    if whole.len().saturating_mul(ways as usize) > MAX_LOCKS {
        return Err(Refusal::TooManyLocks(target.name.clone()));
    }
    locks::note_conditions(change, &whole);
    for lock in whole {
        let Some(&recorded) = change.program.locks.get(lock as usize) else {
            continue;
        };
        let sections = sections_of(change, lock);
        let parts = Parts::of(&sections, knowledge);
        match parts.parts {
            _ if !parts.is_known => change.note(Note::ShardsByChance),
            0 | 1 => change.note(Note::OnePart),
            _ => {}
        }
        let mut shards = vec![lock];
        for _ in 1..ways {
            shards.push(change.program.locks.len() as LockIx);
            change.program.locks.push(recorded);
        }
        let choose = |section: SectionId, nth: u64| {
            let part = parts
                .part_of(section, knowledge)
                .filter(|_| parts.parts > 1);
            let number = match part {
                Some(part) => mix(knowledge.seed, u64::from(part)),
                None => mix(!knowledge.seed, nth),
            };
            shards[below(number, shards.len() as u64) as usize]
        };
        redirect(change, lock, choose);
        // Those that were the lock's before are now divided further.
        let known = change
            .shards
            .values_mut()
            .find(|known| known.contains(&lock));
        match known {
            Some(known) => known.extend(&shards[1..]),
            None => {
                change.shards.insert(lock, shards);
            }
        }
    }
    Ok(())
}

fn sections_of(change: &Change, lock: LockIx) -> Vec<SectionId> {
    let ops = change.program.threads.iter().flat_map(|thread| &thread.ops);
    let of = |op: &Op| match op {
        Op::Acquire {
            lock: of, section, ..
        }
        | Op::TryAcquire { lock: of, section }
            if *of == lock =>
        {
            Some(*section)
        }
        _ => None,
    };
    ops.filter_map(of).collect()
}

/// Lets each section take one of the shards, and everything inside of it with it.
fn redirect(change: &mut Change, whole: LockIx, choose: impl Fn(SectionId, u64) -> LockIx) {
    let mut nth = 0;
    for thread in &mut change.program.threads {
        let mut held = whole;
        for op in &mut thread.ops {
            match op {
                Op::Acquire { lock, section, .. } | Op::TryAcquire { lock, section }
                    if *lock == whole =>
                {
                    nth += 1;
                    held = choose(*section, nth);
                    *lock = held;
                }
                Op::Release { lock } | Op::Await { lock, .. } if *lock == whole => *lock = held,
                Op::TryFail { lock } if *lock == whole => {
                    nth += 1;
                    *lock = choose(NO_SECTION, nth);
                }
                _ => {}
            }
        }
    }
}

/// Parts into which the data of a lock's sections fall: words that one section touches are in one part.
#[derive(Default)]
struct Parts {
    of_word: BTreeMap<WordIx, WordIx>,
    parts: usize,
    /// The sets of some sections are known.
    is_known: bool,
}

impl Parts {
    fn of(sections: &[SectionId], knowledge: &Knowledge<'_>) -> Self {
        let mut sets: BTreeMap<u32, f64> = BTreeMap::new();
        for section in sections {
            let sample = knowledge
                .sets
                .and_then(|(_, assignment)| assignment.samples.get(*section as usize).copied());
            if let Some(sample) = sample.filter(|_| knowledge.sample(*section).is_some()) {
                *sets.entry(sample).or_default() += 1.0;
            }
        }
        let Some((all, _)) = knowledge.sets else {
            return Self::default();
        };
        let words = |sample: &u32| {
            let sample = all.sample(*sample);
            sample.into_iter().flat_map(|sample| &sample.accesses)
        };
        let total: f64 = sets.values().sum();
        let mut touched: BTreeMap<WordIx, f64> = BTreeMap::new();
        let mut written: BTreeSet<WordIx> = BTreeSet::new();
        for (sample, n) in &sets {
            for access in words(sample) {
                *touched.entry(access.word).or_default() += n;
                if access.written {
                    written.insert(access.word);
                }
            }
        }
        // What is only read belongs to every part.
        let is_common = |word: &WordIx| {
            touched
                .get(word)
                .is_some_and(|n| *n >= COMMON_SHARE * total)
                || !written.contains(word)
        };
        let mut parents: BTreeMap<WordIx, WordIx> = BTreeMap::new();
        for sample in sets.keys() {
            let own = words(sample).map(|access| access.word);
            let mut own = own.filter(|word| !is_common(word));
            let Some(first) = own.next() else {
                continue;
            };
            let root = root(&mut parents, first);
            for word in own {
                let other = self::root(&mut parents, word);
                parents.insert(other, root);
            }
        }
        let words: Vec<WordIx> = parents.keys().copied().collect();
        let of_word: BTreeMap<WordIx, WordIx> = words
            .into_iter()
            .map(|word| (word, root(&mut parents, word)))
            .collect();
        let roots: BTreeSet<WordIx> = of_word.values().copied().collect();
        Self {
            parts: roots.len(),
            of_word,
            is_known: !sets.is_empty(),
        }
    }

    fn part_of(&self, section: SectionId, knowledge: &Knowledge<'_>) -> Option<WordIx> {
        let sample = knowledge.sample(section)?;
        let mut words = sample.accesses.iter();
        words
            .find_map(|access| self.of_word.get(&access.word))
            .copied()
    }
}

fn root(parents: &mut BTreeMap<WordIx, WordIx>, word: WordIx) -> WordIx {
    let mut at = word;
    loop {
        let up = *parents.entry(at).or_insert(at);
        if up == at {
            break;
        }
        at = up;
    }
    parents.insert(word, at);
    at
}
