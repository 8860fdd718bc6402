//! The rules, in the order in which they are tried: what needs no lock at all comes before what needs another one.

use convoy_model::finding::{Cause, Evidence};
use convoy_model::{Region, SectionSample, Sharing, SiteFrame, Touch};
use convoy_profile::Op;

use super::{Case, LockFacts};
use crate::inside::Inside;
use crate::partition::Together;
use crate::rows::{LineRow, PartitionBy, Verdict};
use crate::stats::Share;
use crate::text::{cause, evidence, frame, line_list, percent, place};

/// Lines that a fix names.
const LINES: usize = 8;
/// Share of a section's words that may be seen too rarely to say, without a doubt about the others.
const FEW: f64 = 0.05;
/// Between the release and the next acquire of the same lock: nobody else needs more. Nanoseconds.
const SMALL_GAP_NS: f64 = 2000.0;

pub(super) fn verdict(case: &Case<'_>, facts: &LockFacts, inside: &Inside) -> Verdict {
    let judge = Judge {
        case,
        facts,
        inside,
        here: place(case.model, case.group.site),
    };
    let mut verdict = judge.too_few().unwrap_or_else(|| judge.judge());
    let mut all = judge.sample_evidence();
    all.append(&mut verdict.evidence);
    verdict.evidence = all;
    verdict
}

struct Judge<'a> {
    case: &'a Case<'a>,
    facts: &'a LockFacts,
    inside: &'a Inside,
    here: String,
}

fn decided(cause: Cause, evidence: Vec<Evidence>) -> Verdict {
    Verdict {
        causes: vec![cause],
        evidence,
        ..Verdict::default()
    }
}

fn undecided(causes: Vec<Cause>, why: impl Into<String>) -> Verdict {
    Verdict {
        causes,
        undecided: why.into(),
        ..Verdict::default()
    }
}

impl Judge<'_> {
    fn judge(&self) -> Verdict {
        let rules: [fn(&Self) -> Option<Verdict>; 10] = [
            Self::already_exclusive,
            Self::common_lock,
            Self::blocking,
            Self::one_sided,
            Self::local_data,
            Self::one_word,
            Self::read_only,
            Self::several_small,
            Self::too_large_or_too_many,
            Self::small,
        ];
        let found = rules.iter().find_map(|rule| rule(self));
        found.unwrap_or_else(|| self.needed())
    }

    fn nearly_all(&self, share: &Share) -> bool {
        share.share >= self.case.t.nearly_all && share.low >= self.case.t.at_least
    }

    fn sample_evidence(&self) -> Vec<Evidence> {
        let case = self.case;
        let run = case.run();
        let n = case.wholes;
        let instructions = case.instructions();
        vec![
            evidence(
                "sections_traced",
                n as f64,
                format!("{n} whole sections traced of {run} run"),
            ),
            evidence(
                "instructions_mean",
                instructions,
                format!("{instructions:.0} instructions in a section (mean)"),
            ),
        ]
    }

    /// Says nothing where there is too little to see.
    fn too_few(&self) -> Option<Verdict> {
        let case = self.case;
        let (n, needed) = (
            case.wholes.min(case.samples.len() as u64),
            case.t.min_sections,
        );
        (n < needed).then(|| {
            undecided(
                Vec::new(),
                format!(
                    "only {n} whole sections were traced at {}, and {needed} are needed",
                    self.here
                ),
            )
        })
    }

    /// Another lock is always held already.
    fn already_exclusive(&self) -> Option<Verdict> {
        let [lock] = self.case.group.locks[..] else {
            return None;
        };
        let outer = self.inside.always(lock)?;
        Some(inner_verdict(self.case.model, outer, &self.here))
    }

    /// Its sections hold other locks that nobody takes without it.
    fn common_lock(&self) -> Option<Verdict> {
        let [lock] = self.case.group.locks[..] else {
            return None;
        };
        let below = self.inside.below(lock);
        let runs = self.run();
        let inner: f64 = below.iter().map(|row| row.acquisitions).sum();
        if below.len() < 2 || inner < 0.5 * runs {
            return None;
        }
        let names: Vec<&str> = below
            .iter()
            .filter_map(|row| self.case.model.objects.get(row.inner.0 as usize))
            .map(|object| object.name.as_str())
            .take(4)
            .collect();
        let n = below.len();
        Some(decided(
            cause(
                "serialized-by-common-lock",
                format!("{n} other locks are only ever taken while this one is held: it makes them exclude each other"),
                format!("take only {} where their data are used, and not the lock at {}", names.join(", "), self.here),
            ),
            vec![evidence(
                "locks_inside",
                n as f64,
                format!("taken inside, and nowhere else: {}", names.join(", ")),
            )],
        ))
    }

    /// Threads leave the processor while they hold it.
    fn blocking(&self) -> Option<Verdict> {
        let case = self.case;
        if case.blocking.share < case.t.blocking {
            return None;
        }
        let worst = case
            .calls
            .iter()
            .filter(|call| call.blocking)
            .max_by(|a, b| a.sections.total_cmp(&b.sections))?;
        let what = crate::called_name(case.model, worst.what);
        let at = worst
            .frame
            .as_ref()
            .map_or_else(|| self.here.clone(), frame);
        Some(Verdict {
            lines: worst.frame.clone().into_iter().collect(),
            ..decided(
                cause(
                    "blocking-inside-section",
                    format!("the section calls {what}, which may block, while it holds the lock"),
                    format!("call {what} at {at} outside of the section: under the lock only take what it needs"),
                ),
                vec![evidence(
                    "blocking_ratio",
                    worst.sections,
                    format!("{} of the sections call {what} at {at}", percent(worst.sections)),
                )],
            )
        })
    }

    /// Nearly all that was traced ran in one thread, and others take the lock as well: who shares what is not seen.
    fn one_sided(&self) -> Option<Verdict> {
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

    /// Nothing that it touches is anybody else's.
    fn local_data(&self) -> Option<Verdict> {
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
    fn one_word(&self) -> Option<Verdict> {
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
    fn read_only(&self) -> Option<Verdict> {
        let case = self.case;
        let op = case.group.rows(case.sections).find_map(|site| site.op);
        let shared_already = matches!(op, Some(Op::RwlockRd | Op::RwlockTimedrd));
        let of_lock = self.facts.read_only;
        if shared_already || case.read_only.share < 0.5 || of_lock < case.t.mostly_reads {
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

    fn too_large_or_too_many(&self) -> Option<Verdict> {
        let case = self.case;
        let movable = case.movable();
        let large = movable >= case.t.movable && case.instructions() > case.t.small_instructions;
        let together = &self.facts.together;
        let apart = self.apart(together);
        match (large, apart) {
            (true, Some((_, conflicts))) if 1.0 - conflicts > movable => {
                self.too_many(together, conflicts, Some(movable))
            }
            (true, _) => Some(self.too_large(movable)),
            (false, Some((_, conflicts))) => self.too_many(together, conflicts, None),
            (false, None) => self.between(together),
        }
    }

    /// The share of conflicting pairs, if it is low enough for finer locks: with or without the common words.
    fn apart(&self, together: &Together) -> Option<(bool, f64)> {
        let limit = self.case.t.conflicts;
        // The sections of locks of one kind exclude only those of the same lock: nothing was compared then.
        let plain = together
            .conflicts
            .filter(|share| share.share <= limit && share.high <= 2.0 * limit);
        let apart = together
            .apart_from_common
            .filter(|share| share.share <= limit && share.high <= 2.0 * limit);
        plain
            .map(|share| (false, share.share))
            .or(apart.map(|share| (true, share.share)))
            .filter(|_| {
                together
                    .partition
                    .as_ref()
                    .is_some_and(|parts| parts.parts > 1)
            })
    }

    /// Some conflict: neither one nor the other.
    fn between(&self, together: &Together) -> Option<Verdict> {
        let share = together.conflicts?;
        let t = self.case.t;
        let parts = together.partition.as_ref().is_some_and(|p| p.parts > 1);
        (share.share > t.conflicts && share.share < t.conflicts_shared && parts).then(|| Verdict {
            evidence: vec![self.conflict_evidence(share.share)],
            ..undecided(
                vec![self.many(None), needed_cause(&self.here)],
                format!(
                    "{} of the pairs of sections touch the same data: finer locks would let the others pass, and how many depends on how the data are divided",
                    percent(share.share)
                ),
            )
        })
    }

    fn too_large(&self, movable: f64) -> Verdict {
        let case = self.case;
        let mut lines: Vec<&LineRow> = case.lines.iter().filter(|line| line.movable).collect();
        lines.sort_by(|a, b| b.share.total_cmp(&a.share));
        lines.truncate(LINES);
        let shares: Vec<String> = lines
            .iter()
            .map(|line| format!("{} ({})", line_list(&[&line.frame]), percent(line.share)))
            .collect();
        let mut frames: Vec<SiteFrame> = lines.iter().map(|line| line.frame.clone()).collect();
        frames.sort();
        let list = line_list(&frames.iter().collect::<Vec<_>>());
        let left = case.instructions() * (1.0 - movable);
        Verdict {
            lines: frames.clone(),
            waits_saved: Some(movable),
            ..decided(
                cause(
                    "too-large-critical-section",
                    format!("{} of the section's instructions belong to lines that touch nothing shared", percent(movable)),
                    format!("move {list} out of the section at {}, as far as its order allows: {left:.0} of {:.0} instructions stay", self.here, case.instructions()),
                ),
                vec![evidence(
                    "movable_ratio",
                    movable,
                    format!("lines that touch nothing shared, with their share of the instructions: {}", shares.join(", ")),
                )],
            )
        }
    }

    fn many(&self, together: Option<&Together>) -> Cause {
        let partition = together.and_then(|together| together.partition.as_ref());
        let fix = match partition.map(|parts| parts.by) {
            Some(PartitionBy::Place) => format!("a lock of its own for each of these parts, at {} and the other places", self.here),
            _ => format!("one lock per element or bucket (or a few, chosen by its hash) instead of the one at {}", self.here),
        };
        let common = partition.filter(|parts| !parts.common.is_empty());
        let fix = match common {
            Some(parts) => {
                let names: Vec<&str> = parts.common.iter().map(|row| row.name.as_str()).collect();
                format!(
                    "{fix}; what all use ({}) as atomics or per thread",
                    names.join(", ")
                )
            }
            None => fix,
        };
        cause(
            "too-many-data-under-one-lock",
            "one lock guards data that sections use independently of each other",
            fix,
        )
    }

    fn conflict_evidence(&self, conflicts: f64) -> Evidence {
        evidence(
            "conflict_ratio",
            conflicts,
            format!("{} of the pairs of sections of different threads touch the same data, one of them writing", percent(conflicts)),
        )
    }

    fn too_many(
        &self,
        together: &Together,
        conflicts: f64,
        movable: Option<f64>,
    ) -> Option<Verdict> {
        let partition = together.partition.as_ref()?;
        let parts: Vec<String> = partition
            .largest
            .iter()
            .map(|part| format!("{} ({} of the sections)", part.name, percent(part.sections)))
            .collect();
        let by = match partition.by {
            PartitionBy::Element => "the same lines use different elements",
            PartitionBy::Place => "different places use different data",
        };
        let mut all = vec![
            self.conflict_evidence(conflicts),
            evidence(
                "parts",
                partition.parts as f64,
                format!(
                    "{} parts that no sampled section uses together ({by}): {}",
                    partition.parts,
                    parts.join(", ")
                ),
            ),
        ];
        if let Some(movable) = movable {
            all.push(evidence(
                "movable_ratio",
                movable,
                format!(
                    "besides, {} of the instructions belong to lines that touch nothing shared",
                    percent(movable)
                ),
            ));
        }
        Some(Verdict {
            waits_saved: Some(1.0 - conflicts),
            ..decided(self.many(Some(together)), all)
        })
    }

    /// Sections of one function that follow one another at once.
    fn several_small(&self) -> Option<Verdict> {
        let case = self.case;
        if case.instructions() > 2.0 * case.t.small_instructions {
            return None;
        }
        let (n, gap, others) = self.followed();
        let share = n as f64 / case.wholes.max(1) as f64;
        if share < 0.5 {
            return None;
        }
        let function = crate::groups::shown(case.model, case.group.site)?
            .function
            .clone();
        let mut places: Vec<&SiteFrame> = others.iter().collect();
        places.sort();
        places.dedup();
        let list = line_list(&places);
        let ratio = evidence(
            "followed_ratio",
            share,
            format!("{} of the sections are followed by another one of the same thread and function, {gap:.0} ns later (mean)", percent(share)),
        );
        let itself = others
            .iter()
            .all(|other| Some(other) == crate::groups::shown(case.model, case.group.site));
        let found = match itself {
            true => cause(
                "lock-too-fine",
                format!("{function} takes it again and again, with nothing in between"),
                format!(
                    "hold it once around the loop at {list}, or work on a private copy and merge"
                ),
            ),
            false => cause(
                "several-small-sections",
                format!("{function} takes it at several places, one right after the other"),
                format!(
                    "one section around {list} in {function}, or the changes of all of them in one"
                ),
            ),
        };
        Some(decided(found, vec![ratio]))
    }

    /// Sections of this site that are followed at once in the same function, the mean gap, and the places.
    fn followed(&self) -> (u64, f64, Vec<SiteFrame>) {
        let case = self.case;
        let shown = |site: u32| {
            let row = case.sections.sites.get(site as usize)?;
            crate::groups::shown(case.model, row.site)
        };
        let here = crate::groups::shown(case.model, case.group.site);
        let here = here.map_or("", |frame| frame.function.as_str());
        let (mut n, mut gap, mut places) = (0, 0, Vec::new());
        for follow in &case.sections.follows {
            let (Some(a), Some(b)) = (shown(follow.first), shown(follow.then)) else {
                continue;
            };
            let near = follow.gap_ns as f64 <= SMALL_GAP_NS * follow.n as f64;
            if !near || here.is_empty() || a.function != here || b.function != here {
                continue;
            }
            places.extend([a.clone(), b.clone()]);
            let ours = [follow.first, follow.then];
            if ours.iter().any(|site| case.group.sites.contains(site)) {
                n += follow.n;
                gap += follow.gap_ns;
            }
        }
        (n, gap as f64 / n.max(1) as f64, places)
    }

    fn small_cause(&self) -> Cause {
        cause(
            "small-section",
            "the section is so short that parking and waking cost more than it does",
            format!(
                "a spin or adaptive lock at {}, or several steps per acquisition",
                self.here
            ),
        )
    }

    fn small(&self) -> Option<Verdict> {
        let case = self.case;
        (case.instructions() <= case.t.small_instructions).then(|| {
            let conflicts = self.facts.together.conflicts;
            let all = conflicts.map(|share| self.conflict_evidence(share.share));
            decided(self.small_cause(), all.into_iter().collect())
        })
    }

    /// No row of the table: the lock does what locks are for.
    fn needed(&self) -> Verdict {
        let together = &self.facts.together;
        let all = together
            .conflicts
            .map(|share| self.conflict_evidence(share.share));
        match together.conflicts {
            Some(_) => decided(needed_cause(&self.here), all.into_iter().collect()),
            None => undecided(
                vec![self.many(None), needed_cause(&self.here)],
                "too few sections of different threads were traced to say whether they use the same data",
            ),
        }
    }

    fn run(&self) -> f64 {
        self.case.run() as f64
    }

    fn traced_threads(&self) -> usize {
        let mut threads: Vec<_> = self
            .case
            .samples
            .iter()
            .map(|sample| sample.thread)
            .collect();
        threads.sort_unstable();
        threads.dedup();
        threads.len()
    }

    /// Threads that take the lock, as the agent counted.
    fn users(&self) -> usize {
        let uses = self.case.model.uses.iter();
        let mut threads: Vec<_> = uses
            .filter(|row| row.calls > 0 && self.case.group.locks.contains(&row.object))
            .map(|row| row.thread)
            .collect();
        threads.sort_unstable();
        threads.dedup();
        threads.len()
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
        format!("no lock at {here}"),
    )
}

fn needed_cause(here: &str) -> Cause {
    cause(
        "truly-shared-data",
        "sections do use the same data, and little of them can be moved out",
        format!("fewer or shorter sections at {here}: work on per-thread copies and merge, or another data structure"),
    )
}

/// For a lock that is always taken inside another one.
pub(crate) fn inner_verdict(
    model: &convoy_model::Model,
    row: &crate::rows::InsideRow,
    here: &str,
) -> Verdict {
    let outer = model.objects.get(row.outer.0 as usize);
    let outer = outer.map_or("another lock", |object| object.name.as_str());
    let at = place(model, row.outer_site);
    Verdict {
        waits_saved: None,
        ..decided(
            cause(
                "already-exclusive",
                format!("{outer} is held whenever it is taken, and excludes all that it excludes"),
                format!("no lock at {here}, or {outer} not around it: one of the two is enough"),
            ),
            vec![evidence(
                "inside_ratio",
                row.share,
                format!(
                    "{} of its acquisitions are inside sections of {outer} at {at}",
                    percent(row.share)
                ),
            )],
        )
    }
}
