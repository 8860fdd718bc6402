//! Data that need no lock, or another kind of it.

use std::collections::BTreeMap;

use convoy_model::finding::Cause;
use convoy_model::{ObjectId, Region, SectionSample, Sharing, ThreadId, Touch};
use convoy_profile::Op;

use super::{decided, distinct, undecided, Judge};
use crate::rows::Verdict;
use crate::text::{cause, evidence, frame, percent};

/// Share of a section's words that may be seen too rarely to say, without a doubt about the others.
const FEW: f64 = 0.05;
/// Share of a lock's acquisitions by one thread from which on it excludes nobody.
const ONE_USER: f64 = 0.999;

impl Judge<'_> {
    /// Nearly all that was traced ran in one thread, and others take the lock as well: who shares what is not seen.
    pub(super) fn one_sided(&self) -> Option<Verdict> {
        /// Sections of other threads than the one with most.
        const OTHERS: usize = 8;
        let (all, others) = (self.facts.sampled, self.facts.others);
        (self.users() > 1 && others < OTHERS).then(|| {
            undecided(
                Vec::new(),
                format!(
                    "{} of {all} traced sections of the lock ran in one thread, and other threads take it as well: what they share was not seen",
                    all - others
                ),
            )
        })
    }

    /// Nobody else takes the lock, or hardly anybody: nobody is excluded.
    pub(super) fn one_user(&self) -> Option<Verdict> {
        let mut calls: BTreeMap<ObjectId, BTreeMap<ThreadId, u64>> = BTreeMap::new();
        for row in self.case.uses() {
            let of_lock = calls.entry(row.object).or_default();
            *of_lock.entry(row.thread).or_default() += row.calls;
        }
        let all: u64 = calls.values().flat_map(BTreeMap::values).sum();
        let by_most = calls.values().filter_map(|threads| threads.values().max());
        let share = by_most.sum::<u64>() as f64 / all.max(1) as f64;
        (all > 0 && share >= ONE_USER).then(|| Verdict {
            waits_saved: Some(1.0),
            ..decided(
                cause(
                    "local-data",
                    "one thread takes the lock, and hardly another one: it excludes nobody",
                    format!("no lock at {}, if no other run shares the data", self.here),
                ),
                vec![evidence(
                    "one_thread_ratio",
                    share,
                    format!(
                        "{} of the acquisitions of a lock are one thread's",
                        percent(share)
                    ),
                )],
            )
        })
    }

    /// Nothing that it touches is anybody else's.
    pub(super) fn local_data(&self) -> Option<Verdict> {
        let case = self.case;
        let words = case.group.rows(case.sections).flat_map(|site| &site.words);
        let mut sharing: Vec<Sharing> = words
            .filter_map(|&ix| case.eyes.word(ix))
            .filter_map(|word| case.eyes.sharing(word))
            .collect();
        sharing.sort_unstable();
        let touched = case.samples.iter().flat_map(|sample| &sample.touches);
        let touched = touched.filter_map(|touch| case.eyes.word(touch.word));
        let in_samples = touched.filter_map(|word| case.eyes.sharing(word)).max();
        let most = sharing
            .last()
            .copied()
            .max(in_samples)
            .unwrap_or(Sharing::Local);
        let rare = sharing.iter().filter(|s| **s == Sharing::Rare).count();
        let few_rare = (rare as f64) <= FEW * sharing.len() as f64
            && case.nothing_shared.share >= case.t.nearly_all;
        if most > Sharing::Rare || (most == Sharing::Rare && !few_rare) {
            let may_be = most < Sharing::Shared && sharing.len() > 1 && !self.names_globals();
            return may_be.then(|| self.local_or_not(most));
        }
        let ratio = evidence(
            "nothing_shared_ratio",
            case.nothing_shared.share,
            format!(
                "no traced section touches memory that another thread writes (in at least {} of all sections, with 95 % confidence)",
                percent(case.nothing_shared.low)
            ),
        );
        if most >= Sharing::ReadOnly && self.only_reads() {
            return Some(Verdict {
                waits_saved: Some(1.0),
                ..decided(
                    cause(
                        "read-only-section",
                        "sections read shared data that no traced section ever writes, and exclude each other",
                        format!("no lock at {} if nobody writes while threads run; else a reader-writer lock or RCU", self.here),
                    ),
                    vec![ratio],
                )
            });
        }
        Some(Verdict {
            waits_saved: Some(1.0),
            ..decided(local(&self.here), vec![ratio])
        })
    }

    /// Most sections write nothing, and read data that others read too. Words of no variable in a module are the
    /// linker's tables of functions, or constants.
    fn only_reads(&self) -> bool {
        let case = self.case;
        let word = |touch: &Touch| case.eyes.word(touch.word);
        let is_data = |touch: &&Touch| {
            word(touch).is_some_and(|word| {
                let named = word.region != Region::Global || word.symbol.is_some();
                named && case.eyes.sharing(word) == Some(Sharing::ReadOnly)
            })
        };
        let reads = |sample: &&&SectionSample| sample.touches.iter().any(|touch| is_data(&touch));
        // Words of its own stack are not among the touches.
        let writes = |sample: &&&SectionSample| sample.totals.writes > 0;
        let n = case.samples.len();
        self.traced_threads() > 1
            && 2 * case.samples.iter().filter(reads).count() > n
            && 2 * case.samples.iter().filter(writes).count() < n
    }

    /// Memory that threads only overwrite may be anything.
    fn local_or_not(&self, most: Sharing) -> Verdict {
        if most == Sharing::Rare {
            return undecided(
                vec![local(&self.here), self.many(None)],
                "most of the memory was touched by so few of the traced sections that nothing says who else uses it",
            );
        }
        undecided(
            vec![local(&self.here), self.many(None)],
            "several threads write the same memory without reading what another wrote: it may have been given back and \
             handed out again, or be read outside of sections",
        )
    }

    fn names_globals(&self) -> bool {
        let case = self.case;
        let words = case.group.rows(case.sections).flat_map(|site| &site.words);
        words
            .filter_map(|&ix| case.eyes.word(ix))
            .any(|word| word.symbol.is_some() && case.eyes.sharing(word) > Some(Sharing::ReadOnly))
    }

    /// One word, once: what an atomic operation does.
    pub(super) fn one_word(&self) -> Option<Verdict> {
        let case = self.case;
        if !self.nearly_all(&case.one_word) || case.instructions() > case.t.small_instructions {
            return None;
        }
        let touches: Vec<&Touch> = case
            .samples
            .iter()
            .filter_map(|sample| case.eyes.one_word(sample))
            .collect();
        let mut written = touches.iter().filter(|touch| touch.written_by.is_some());
        // Where few write it is a section that only reads.
        let telling = written.next()?;
        if (written.count() + 1) * 2 < touches.len() {
            return None;
        }
        let row = telling
            .written_by
            .and_then(|ix| case.sections.code.get(ix as usize))?;
        let at = crate::lines::line_of(
            case.model,
            case.sections,
            case.group,
            Some(row.from.unwrap_or(row.place)),
        );
        let at_text = at.map_or_else(|| self.here.clone(), frame);
        let name = self.word_name(telling.word);
        let (how, with) = match (telling.read_first, telling.reads) {
            (true, 1) => ("changes", "an atomic operation (fetch_add and its kin)"),
            (true, _) => (
                "reads and perhaps changes",
                "an atomic compare-and-exchange loop",
            ),
            (false, _) => ("writes", "an atomic store"),
        };
        let ratio = evidence(
            "one_word_ratio",
            case.one_word.share,
            format!(
                "{} of the sections access one shared word, once: {name}",
                percent(case.one_word.share)
            ),
        );
        let atomic = cause(
            "small-integer-section",
            format!("the section {how} one shared word of {} bytes ({name}) and nothing else that is shared", row.size),
            format!("{with} on it at {at_text} instead of the lock; per thread where the value is rarely read"),
        );
        if self.facts.one_word < case.t.nearly_all {
            let rest = percent(1.0 - self.facts.one_word);
            return Some(Verdict {
                lines: at.cloned().into_iter().collect(),
                evidence: vec![ratio],
                ..undecided(
                    vec![atomic, self.small_cause()],
                    format!("{rest} of the lock's sections use more than one shared word: if {name} is among these, an atomic operation here would break them"),
                )
            });
        }
        Some(Verdict {
            lines: at.cloned().into_iter().collect(),
            waits_saved: Some(1.0),
            ..decided(atomic, vec![ratio])
        })
    }

    /// Readers that exclude each other.
    pub(super) fn read_only(&self) -> Option<Verdict> {
        let case = self.case;
        let op = case.group.rows(case.sections).find_map(|site| site.op);
        let shared_already = matches!(op, Some(Op::RwlockRd | Op::RwlockTimedrd));
        let of_lock = self.facts.read_only;
        if shared_already || case.read_only.low < 0.5 || of_lock < case.t.mostly_reads {
            return None;
        }
        let small = case.instructions() <= case.t.small_instructions;
        let ratio = evidence(
            "read_only_ratio",
            of_lock,
            format!(
                "{} of the sections here, and {} of all sections of the lock, write nothing that others touch",
                percent(case.read_only.share),
                percent(of_lock)
            ),
        );
        let fix = match small {
            true => format!("a copy that readers need not lock (RCU, sequence lock, atomic pointer) at {}: a reader-writer lock costs more than so short a section", self.here),
            false => format!("a reader-writer lock, taken shared at {}; RCU if writers are rare", self.here),
        };
        Some(Verdict {
            // Two readers meet with the square of their share.
            waits_saved: Some(of_lock * of_lock),
            ..decided(
                cause(
                    "read-only-section",
                    "sections that only read exclude each other",
                    fix,
                ),
                vec![ratio],
            )
        })
    }

    fn traced_threads(&self) -> usize {
        distinct(self.case.samples.iter().map(|sample| sample.thread))
    }

    /// Threads that take the lock, as the agent counted.
    fn users(&self) -> usize {
        let ours = self.case.uses().filter(|row| row.calls > 0);
        distinct(ours.map(|row| row.thread))
    }

    fn word_name(&self, ix: u32) -> String {
        let rows = crate::data::data(&self.case.eyes, &self.case.samples, |word| word == ix);
        rows.first()
            .map_or_else(|| "unknown".into(), |row| row.name.clone())
    }
}

fn local(here: &str) -> Cause {
    cause(
        "local-data",
        "no other thread touches what the section writes",
        format!("no lock at {here}, if no other run shares the data"),
    )
}
