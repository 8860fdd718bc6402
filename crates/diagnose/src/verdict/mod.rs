//! From what a site's sections touch to the row of Table 1.

mod rules;

pub(crate) use rules::inner_verdict;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{
    Model, ObjectId, SectionSample, SectionSite, SectionTotals, Sections, Sharing, SiteId, Use,
};

use crate::calls::calls;
use crate::data::{data, regions};
use crate::groups::Group;
use crate::inside::Inside;
use crate::lines::lines;
use crate::partition::{together, Together};
use crate::rows::{CallRow, LineRow, SiteRow};
use crate::shares::SharingView;
use crate::stats::{Share, Spread};
use crate::Thresholds;

/// One group of sites, looked at.
pub(crate) struct Case<'a> {
    pub(crate) model: &'a Model,
    pub(crate) sections: &'a Sections,
    pub(crate) group: &'a Group,
    pub(crate) t: &'a Thresholds,
    pub(crate) eyes: SharingView<'a>,
    pub(crate) samples: Vec<&'a SectionSample>,
    pub(crate) whole: SectionTotals,
    pub(crate) wholes: u64,
    pub(crate) lines: Vec<LineRow>,
    pub(crate) calls: Vec<CallRow>,
    pub(crate) read_only: Share,
    pub(crate) one_word: Share,
    pub(crate) nothing_shared: Share,
    pub(crate) blocking: Share,
}

/// What is known of a lock from all places where it is taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockFacts {
    pub(crate) together: Together,
    /// Share of the sections that only read.
    pub(crate) read_only: f64,
    /// Share that touches one shared word or none.
    pub(crate) one_word: f64,
    /// Sections in the sample.
    pub(crate) sampled: usize,
    /// Of these, of other threads than the one with most.
    pub(crate) others: usize,
}

/// Locks by the first one of a group.
pub(crate) struct Locks {
    facts: BTreeMap<Option<ObjectId>, LockFacts>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        model: &'a Model,
        sections: &'a Sections,
        group: &'a Group,
        t: &'a Thresholds,
    ) -> Self {
        let rows = || group.rows(sections);
        let mut whole = SectionTotals::default();
        rows().for_each(|site| sum(&mut whole, &site.whole));
        let eyes = SharingView {
            sections,
            allocates: whole.allocator > 0,
        };
        let samples = group.samples(sections);
        let writers = eyes.writers(&samples);
        let lines = lines(model, &eyes, group);
        let calls = calls(model, sections, group);
        let share = |is: &dyn Fn(&SectionSample) -> bool| {
            Share::of(samples.iter().map(|sample| (is(sample), sample.weight)))
        };
        let blocking_calls: f64 = calls
            .iter()
            .filter(|call| call.blocking)
            .map(|call| call.sections)
            .fold(0.0, f64::max);
        let n = samples.len();
        let blocks = (blocking_calls.min(1.0) * n as f64).round() as usize;
        Self {
            read_only: share(&|sample| eyes.reads_only(sample, &writers)),
            one_word: share(&|sample| eyes.one_word(sample).is_some()),
            nothing_shared: share(&|sample| eyes.touches_nothing_shared(sample)),
            blocking: Share::of((0..n).map(|ix| (ix < blocks, 1))),
            wholes: rows().map(SectionSite::whole).sum(),
            model,
            sections,
            group,
            t,
            samples,
            whole,
            lines,
            calls,
            eyes,
        }
    }

    pub(crate) fn instructions(&self) -> f64 {
        self.whole.instructions as f64 / self.wholes.max(1) as f64
    }

    /// Instructions of a section, or the words that it touches if they are more: one instruction may copy thousands.
    pub(crate) fn effort(&self) -> f64 {
        let most = self.whole.instructions.max(self.whole.words);
        most as f64 / self.wholes.max(1) as f64
    }

    /// Sections that ran.
    pub(crate) fn run(&self) -> u64 {
        let rows = self.group.rows(self.sections);
        rows.map(|site| crate::inside::acquisitions(self.model, site))
            .sum()
    }

    /// What was counted of its locks.
    pub(crate) fn uses(&self) -> impl Iterator<Item = &'a Use> + '_ {
        let locks = self.group.locks.iter();
        locks.flat_map(|lock| self.model.uses_of(*lock))
    }

    pub(crate) fn movable(&self) -> f64 {
        let movable = self.lines.iter().filter(|line| line.movable);
        movable
            .map(|line| line.share)
            .fold(0.0, |sum, share| sum + share)
    }

    fn spread(&self, of: impl Fn(&SectionTotals) -> u64) -> Spread {
        let samples = self.samples.iter();
        let values = samples.map(|sample| (of(&sample.totals) as f64, sample.weight as f64));
        let rows = self.group.rows(self.sections);
        let largest = rows.map(|site| of(&site.largest)).max().unwrap_or(0);
        Spread::of(values).with(of(&self.whole), self.wholes, largest)
    }

    fn shared(&self) -> Spread {
        Spread::of(self.samples.iter().map(|sample| {
            let touches = self.eyes.shared(sample);
            let accesses = touches.map(|touch| u64::from(touch.reads) + u64::from(touch.writes));
            (accesses.sum::<u64>() as f64, sample.weight as f64)
        }))
    }

    fn distinct(&self) -> (u64, [f64; 5]) {
        let mut by = [0.0; 5];
        let (mut all, mut known) = (0, 0.0);
        for site in self.group.rows(self.sections) {
            // Several call stacks of one place touch much the same: the most, not the sum.
            all = all.max(site.distinct_words);
            for word in site.words.iter().filter_map(|&ix| self.eyes.word(ix)) {
                let sharing = self.eyes.sharing(word).unwrap_or(Sharing::Local);
                by[sharing as usize] += 1.0;
                known += 1.0;
            }
        }
        (all, by.map(|n| if known > 0.0 { n / known } else { 0.0 }))
    }

    /// Mean hold outside of tracing: of the samples that the agent took of the same call stacks.
    fn hold_ns(&self) -> Option<f64> {
        let rows = self.group.rows(self.sections);
        let here: BTreeSet<SiteId> = rows.map(|site| site.site).collect();
        let (mut n, mut ns) = (0, 0);
        for row in self.uses().filter(|row| here.contains(&row.site)) {
            n += row.hold_sampled_n + row.hold_contended_n;
            ns += row.hold_sampled_ns + row.hold_contended_ns;
        }
        (n > 0).then(|| ns as f64 / n as f64)
    }

    /// The row, with its verdict.
    pub(crate) fn row(&self, locks: &Locks, inside: &Inside) -> SiteRow {
        let rows = || self.group.rows(self.sections);
        let mut ends = [0; 9];
        for site in rows() {
            ends.iter_mut()
                .zip(site.ends)
                .for_each(|(sum, n)| *sum += n);
        }
        let facts = locks.of_case(self);
        let (distinct_words, distinct_by_sharing) = self.distinct();
        let instructions = self.whole.instructions.max(1) as f64;
        SiteRow {
            locks: self.group.locks.clone(),
            lock_count: self.group.lock_count,
            site: self.group.site,
            op: rows().find_map(|site| site.op),
            threads: rows().map(|site| site.threads).max().unwrap_or(0),
            run: self.run(),
            traced: rows().map(SectionSite::traced).sum(),
            whole: self.wholes,
            sampled: self.samples.len() as u64,
            waited: rows().map(|site| site.waited).sum(),
            ends,
            instructions: self.spread(|t| t.instructions),
            accesses: self.spread(|t| t.accesses),
            reads: self.spread(|t| t.reads),
            writes: self.spread(|t| t.writes),
            shared: self.shared(),
            words: self.spread(|t| t.words),
            bytes: self.spread(|t| t.bytes),
            traced_ns: self.spread(|t| t.traced_ns),
            hold_ns: self.hold_ns(),
            allocator: self.whole.allocator_instructions as f64 / instructions,
            distinct_words,
            distinct_by_sharing,
            regions: regions(&self.eyes, &self.samples),
            data: data(&self.eyes, &self.samples, |_| true),
            lines: self.lines.clone(),
            calls: self.calls.clone(),
            read_only: self.read_only,
            one_word: self.one_word,
            nothing_shared: self.nothing_shared,
            blocking: self.blocking,
            conflicts: facts.together.conflicts,
            partition: facts.together.partition.clone(),
            movable: self.movable(),
            verdict: rules::verdict(self, &facts, inside),
        }
    }
}

fn sum(to: &mut SectionTotals, of: &SectionTotals) {
    to.traced_ns += of.traced_ns;
    to.instructions += of.instructions;
    to.accesses += of.accesses;
    to.implicit += of.implicit;
    to.reads += of.reads;
    to.writes += of.writes;
    to.allocator += of.allocator;
    to.allocator_instructions += of.allocator_instructions;
    to.syscalls += of.syscalls;
    to.words += of.words;
    to.bytes += of.bytes;
}

impl Locks {
    pub(crate) fn of(cases: &[Case<'_>]) -> Self {
        let mut by_lock: BTreeMap<Option<ObjectId>, Vec<&Case<'_>>> = BTreeMap::new();
        for case in cases {
            by_lock
                .entry(case.group.locks.first().copied())
                .or_default()
                .push(case);
        }
        let facts = by_lock
            .into_iter()
            .map(|(lock, cases)| (lock, facts(&cases)));
        Self {
            facts: facts.collect(),
        }
    }

    fn of_case(&self, case: &Case<'_>) -> LockFacts {
        let lock = case.group.locks.first().copied();
        self.facts.get(&lock).cloned().unwrap_or_default()
    }
}

fn facts(cases: &[&Case<'_>]) -> LockFacts {
    let Some(first) = cases.first() else {
        return LockFacts::default();
    };
    let all: u64 = cases.iter().map(|case| case.run()).sum();
    let mean = |of: fn(&Case<'_>) -> f64| {
        let sum: f64 = cases.iter().map(|case| of(case) * case.run() as f64).sum();
        sum / all.max(1) as f64
    };
    // In proportion to how often they run, whatever was traced of them.
    let mut samples: Vec<SectionSample> = Vec::new();
    for case in cases {
        let traced: u64 = case.samples.iter().map(|sample| sample.weight).sum();
        let scale = case.run() as f64 / traced.max(1) as f64;
        for sample in &case.samples {
            let mut sample = (*sample).clone();
            sample.weight = ((sample.weight as f64 * scale * 16.0).round() as u64).max(1);
            samples.push(sample);
        }
    }
    let samples: Vec<&SectionSample> = samples.iter().collect();
    let mut by_thread = BTreeMap::new();
    for sample in &samples {
        *by_thread.entry(sample.thread).or_insert(0usize) += 1;
    }
    let most = by_thread.values().copied().max().unwrap_or(0);
    let eyes = SharingView {
        sections: first.sections,
        allocates: cases.iter().any(|case| case.eyes.allocates),
    };
    LockFacts {
        together: together(&eyes, &samples),
        sampled: samples.len(),
        others: samples.len() - most,
        read_only: mean(|case| case.read_only.share),
        one_word: mean(|case| (case.one_word.share + case.nothing_shared.share).min(1.0)),
    }
}
