//! Assignment of sampled read and write sets to the sections of a recording.
//!
//! A section that was not looked into gets the set of a sampled one of the same lock, acquire site and
//! thread, drawn by weight; where there is none, of the same lock and site, or of the same site. The draw
//! keeps what makes sections conflict or not: which thread works on which data, and how often.

use std::collections::{BTreeMap, HashMap};

use convoy_trace::{ObjectIx, Recording, SiteIx};

use super::{ClassIx, CodePlace, LockKey, RunKeys, SampleIx, SectionSets, NO_SAMPLE};
use crate::random::{below, mix};
use crate::sections::Sections;

/// Samples of one lock and site that are drawn from, at most.
const MAX_POOL: usize = 256;

/// Which sample's sets each section has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// By section; [`NO_SAMPLE`] = nothing is known of it.
    pub samples: Vec<SampleIx>,
    /// How many sections have them from where.
    pub coverage: Coverage,
}

/// Where a section has its sets from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The section itself was looked into.
    Observed,
    /// A section of the same lock, site and thread.
    SameThread,
    /// A section of the same lock and site.
    SameLock,
    /// A section of the same site.
    SameSite,
}

/// Sections by the basis of their sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// [`Basis::Observed`].
    pub observed: u64,
    /// [`Basis::SameThread`].
    pub same_thread: u64,
    /// [`Basis::SameLock`].
    pub same_lock: u64,
    /// [`Basis::SameSite`].
    pub same_site: u64,
    /// Nothing is known: no section of the site was looked into.
    pub none: u64,
}

impl Coverage {
    /// Share of the sections whose sets are known or inferred, 0..1; 0 of no sections.
    pub fn share(&self) -> f64 {
        let known = self.observed + self.same_thread + self.same_lock + self.same_site;
        known as f64 / (known + self.none).max(1) as f64
    }

    fn count(&mut self, basis: Option<Basis>) {
        *match basis {
            Some(Basis::Observed) => &mut self.observed,
            Some(Basis::SameThread) => &mut self.same_thread,
            Some(Basis::SameLock) => &mut self.same_lock,
            Some(Basis::SameSite) => &mut self.same_site,
            None => &mut self.none,
        } += 1;
    }
}

impl Assignment {
    /// Of sections that were all looked into, or of which nothing is known ([`NO_SAMPLE`]).
    pub fn observed(samples: Vec<SampleIx>) -> Self {
        let mut coverage = Coverage::default();
        for sample in &samples {
            coverage.count((*sample != NO_SAMPLE).then_some(Basis::Observed));
        }
        Self { samples, coverage }
    }

    /// Of the sections of a recording; `keys` are those of its process. Another seed draws anew: the
    /// spread over seeds is what the sampling leaves open.
    pub fn draw(
        recording: &Recording,
        sections: &Sections,
        keys: &RunKeys,
        sets: &SectionSets,
        seed: u64,
    ) -> Self {
        let pools = Pools::of(sets);
        let sources = sources(recording, sections, keys, sets, &pools);
        let threads = matched_threads(recording, keys, sets);
        let mut coverage = Coverage::default();
        let samples = sections.all.iter().enumerate().map(|(ix, section)| {
            let source = sources.get(&(section.lock, section.acquire_site));
            let Some(&(pool, basis)) = source else {
                coverage.count(None);
                return NO_SAMPLE;
            };
            let thread = threads.get(section.thread as usize).copied().flatten();
            let (sample, of_thread) = pools.draw(pool, thread, mix(seed, ix as u64));
            let basis = match basis {
                Basis::SameLock if of_thread => Basis::SameThread,
                basis => basis,
            };
            coverage.count((sample != NO_SAMPLE).then_some(basis));
            sample
        });
        Self {
            samples: samples.collect(),
            coverage,
        }
    }
}

/// Samples to draw from, ascending by the weight of those before them and their own.
#[derive(Debug, Clone, Default)]
struct Weighted {
    samples: Vec<(u64, SampleIx)>,
}

impl Weighted {
    fn push(&mut self, sample: SampleIx, weight: u64) {
        let before = self.samples.last().map_or(0, |(sum, _)| *sum);
        let sum = before.saturating_add(weight.max(1));
        self.samples.push((sum, sample));
    }

    fn draw(&self, mixed: u64) -> Option<SampleIx> {
        let all = self.samples.last()?.0;
        let drawn = below(mixed, all);
        let at = self.samples.partition_point(|(sum, _)| *sum <= drawn);
        self.samples.get(at).map(|(_, sample)| *sample)
    }
}

/// The samples of one class and lock.
#[derive(Debug, Clone, Default)]
struct Pool {
    all: Weighted,
    by_thread: BTreeMap<u32, Weighted>,
}

/// Index into [`Pools::pools`].
type PoolIx = usize;

/// The samples of all classes, by lock.
struct Pools {
    pools: Vec<Pool>,
    /// By class: address of the lock, pool.
    of_class: Vec<BTreeMap<u64, PoolIx>>,
}

impl Pools {
    fn of(sets: &SectionSets) -> Self {
        let mut pools: Vec<Pool> = Vec::new();
        let mut of_class = Vec::with_capacity(sets.classes.len());
        for class in &sets.classes {
            let mut by_lock: BTreeMap<u64, Vec<SampleIx>> = BTreeMap::new();
            for ix in class.samples.clone() {
                if let Some(sample) = sets.sample(ix) {
                    by_lock.entry(sample.lock_addr).or_default().push(ix);
                }
            }
            let pools_of_class = by_lock.into_iter().map(|(lock, samples)| {
                let mut pool = Pool::default();
                let step = samples.len().div_ceil(MAX_POOL).max(1);
                for ix in samples.into_iter().step_by(step) {
                    let Some(sample) = sets.sample(ix) else {
                        continue;
                    };
                    pool.all.push(ix, sample.weight);
                    let of_thread = pool.by_thread.entry(sample.thread).or_default();
                    of_thread.push(ix, sample.weight);
                }
                pools.push(pool);
                (lock, pools.len() - 1)
            });
            of_class.push(pools_of_class.collect());
        }
        Self { pools, of_class }
    }

    /// A sample, and whether it is of that thread.
    fn draw(&self, pool: PoolIx, thread: Option<u32>, mixed: u64) -> (SampleIx, bool) {
        let Some(pool) = self.pools.get(pool) else {
            return (NO_SAMPLE, false);
        };
        let of_thread = thread.and_then(|thread| pool.by_thread.get(&thread));
        match of_thread.and_then(|own| own.draw(mixed)) {
            Some(sample) => (sample, true),
            None => (pool.all.draw(mixed).unwrap_or(NO_SAMPLE), false),
        }
    }
}

/// The pool of each lock and site of a recording.
fn sources(
    recording: &Recording,
    sections: &Sections,
    keys: &RunKeys,
    sets: &SectionSets,
    pools: &Pools,
) -> HashMap<(ObjectIx, SiteIx), (PoolIx, Basis)> {
    let sites = ClassesBySite::of(sets);
    let mut used: BTreeMap<ObjectIx, BTreeMap<SiteIx, &[ClassIx]>> = BTreeMap::new();
    for section in &sections.all {
        let of_lock = used.entry(section.lock).or_default();
        of_lock.entry(section.acquire_site).or_insert_with(|| {
            let site = recording.sites.get(section.acquire_site as usize);
            site.map_or(&[], |site| sites.at(&keys.place(site.frame)))
        });
    }
    let mut sources = HashMap::new();
    let mut strangers = 0;
    for (lock, sites) in used {
        let object = recording.objects.get(lock as usize);
        let key = object.and_then(|object| {
            let ix = object.profile_object?;
            keys.locks.get(ix as usize)?.as_ref()
        });
        let mut left: Vec<(SiteIx, &[ClassIx])> = Vec::new();
        let mut same = None;
        for (site, classes) in sites {
            match key.and_then(|key| pool_of_lock(sets, pools, classes, key)) {
                Some((addr, pool)) => {
                    same = Some(addr);
                    sources.insert((lock, site), (pool, Basis::SameLock));
                }
                None => left.push((site, classes)),
            }
        }
        // All sites of the lock take their sets from one lock of the other run: sections of two locks
        // would never conflict.
        let Some(twin) = same.or_else(|| twin(pools, &left, strangers)) else {
            continue;
        };
        strangers += 1;
        for (site, classes) in left {
            let of_twin = |class: &ClassIx| pools.of_class.get(*class as usize)?.get(&twin);
            if let Some(pool) = classes.iter().find_map(of_twin) {
                sources.insert((lock, site), (*pool, Basis::SameSite));
            }
        }
    }
    sources
}

fn pool_of_lock(
    sets: &SectionSets,
    pools: &Pools,
    classes: &[ClassIx],
    key: &LockKey,
) -> Option<(u64, PoolIx)> {
    let is_same = |class: &&ClassIx| {
        let class = sets.classes.get(**class as usize);
        class.is_some_and(|class| class.lock.as_ref() == Some(key))
    };
    let class = classes.iter().find(is_same)?;
    let pools = pools.of_class.get(*class as usize)?;
    pools.iter().next().map(|(addr, pool)| (*addr, *pool))
}

/// The lock of the other run that is taken at most of these sites; of several, the `turn`-th.
fn twin(pools: &Pools, sites: &[(SiteIx, &[ClassIx])], turn: usize) -> Option<u64> {
    let mut taken_at: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, classes) in sites {
        let of_class = |class: &ClassIx| pools.of_class.get(*class as usize);
        let locks = classes.iter().filter_map(of_class).flat_map(BTreeMap::keys);
        let mut locks: Vec<u64> = locks.copied().collect();
        locks.sort_unstable();
        locks.dedup();
        for lock in locks {
            *taken_at.entry(lock).or_default() += 1;
        }
    }
    let most = *taken_at.values().max()?;
    let best = taken_at.iter().filter(|(_, n)| **n == most);
    let best: Vec<u64> = best.map(|(lock, _)| *lock).collect();
    best.get(turn % best.len()).copied()
}

/// Classes by their acquire site.
struct ClassesBySite {
    by_offset: HashMap<(String, u64), Vec<ClassIx>>,
    /// For a program that was built anew between the two runs.
    by_line: HashMap<(String, String, u32), Vec<ClassIx>>,
}

impl ClassesBySite {
    fn of(sets: &SectionSets) -> Self {
        let mut by_offset: HashMap<_, Vec<ClassIx>> = HashMap::new();
        let mut by_line: HashMap<_, Vec<ClassIx>> = HashMap::new();
        for (ix, class) in sets.classes.iter().enumerate() {
            let site = &class.site;
            let offset = (site.module.clone(), site.offset);
            by_offset.entry(offset).or_default().push(ix as ClassIx);
            if let Some(line) = line_of(site) {
                by_line.entry(line).or_default().push(ix as ClassIx);
            }
        }
        Self { by_offset, by_line }
    }

    fn at(&self, place: &CodePlace) -> &[ClassIx] {
        let at_offset = self.by_offset.get(&(place.module.clone(), place.offset));
        let at_line = || self.by_line.get(&line_of(place)?);
        at_offset.or_else(at_line).map_or(&[], Vec::as_slice)
    }
}

fn line_of(place: &CodePlace) -> Option<(String, String, u32)> {
    let is_known = !place.function.is_empty() && place.line > 0;
    is_known.then(|| (place.file.clone(), place.function.clone(), place.line))
}

/// The thread of the other run for each recorded thread: the n-th of a kind for the n-th.
fn matched_threads(recording: &Recording, keys: &RunKeys, sets: &SectionSets) -> Vec<Option<u32>> {
    let mut of_kind: HashMap<&str, Vec<u32>> = HashMap::new();
    for (ix, name) in sets.threads.iter().enumerate() {
        of_kind.entry(name).or_default().push(ix as u32);
    }
    let mut turns: HashMap<&str, usize> = HashMap::new();
    let threads = recording.threads.iter().map(|thread| {
        let kind = keys.threads.get(thread.profile_thread as usize)?.as_str();
        let others = of_kind.get(kind)?;
        let turn = turns.entry(kind).or_default();
        let other = others.get(*turn % others.len()).copied();
        *turn += 1;
        other
    });
    threads.collect()
}
