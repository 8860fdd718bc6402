//! Counts of pairs by class, per lock and per pair of acquire sites.

use convoy_trace::{ObjectIx, SiteIx};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{for_each_pair, is_contended, Class, Classifier, Share};
use crate::sections::{SectionIx, Sections};
use crate::sets::{SampleIx, NO_SAMPLE};

/// Pairs by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// [`Class::NullLock`].
    pub null_lock: u64,
    /// [`Class::ReadRead`].
    pub read_read: u64,
    /// [`Class::DisjointWrite`].
    pub disjoint_write: u64,
    /// [`Class::Benign`].
    pub benign: u64,
    /// [`Class::TrueContention`] and [`Class::Undecided`].
    pub true_contention: u64,
    /// Of `true_contention`, [`Class::Undecided`].
    pub undecided: u64,
    /// [`Class::Unknown`].
    pub unknown: u64,
}

/// Pairs of one lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockRow {
    /// The lock.
    pub lock: ObjectIx,
    /// Its sections.
    pub acquisitions: u64,
    /// All pairs.
    pub all: PairCounts,
    /// Pairs whose second section waited for the first.
    pub contended: PairCounts,
}

/// Pairs of one lock and two acquire sites.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SitePairRow {
    /// The lock.
    pub lock: ObjectIx,
    /// The two acquire sites, the smaller number first; whichever section was first.
    pub sites: (SiteIx, SiteIx),
    /// All pairs.
    pub all: PairCounts,
    /// Pairs whose second section waited for the first.
    pub contended: PairCounts,
    /// Distinct sampled sections that the sets are from: the smaller number of the two sites.
    pub samples: u32,
    /// Share of the pairs of known class that are unnecessary; the interval is that of `samples` draws.
    pub unnecessary: Share,
}

/// Counts of all pairs of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UlcpCounts {
    /// By lock.
    pub locks: Vec<LockRow>,
    /// By lock and pair of sites.
    pub site_pairs: Vec<SitePairRow>,
}

impl PairCounts {
    /// One more pair.
    pub fn add(&mut self, class: Class) {
        *match class {
            Class::Unknown => &mut self.unknown,
            Class::NullLock => &mut self.null_lock,
            Class::ReadRead => &mut self.read_read,
            Class::DisjointWrite => &mut self.disjoint_write,
            Class::Benign => &mut self.benign,
            Class::Undecided | Class::TrueContention => &mut self.true_contention,
        } += 1;
        self.undecided += u64::from(class == Class::Undecided);
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.null_lock += other.null_lock;
        self.read_read += other.read_read;
        self.disjoint_write += other.disjoint_write;
        self.benign += other.benign;
        self.true_contention += other.true_contention;
        self.undecided += other.undecided;
        self.unknown += other.unknown;
    }

    /// ULCPs.
    pub fn unnecessary(&self) -> u64 {
        self.null_lock + self.read_read + self.disjoint_write + self.benign
    }

    /// All pairs.
    pub fn total(&self) -> u64 {
        self.unnecessary() + self.true_contention + self.unknown
    }
}

impl UlcpCounts {
    /// Sums over all locks.
    pub fn total(&self) -> LockRow {
        let mut total = LockRow::default();
        for row in &self.locks {
            total.acquisitions += row.acquisitions;
            total.all.merge(&row.all);
            total.contended.merge(&row.contended);
        }
        total
    }
}

/// Counts the pairs of all locks.
pub fn count(sections: &Sections, classifier: &mut Classifier<'_>) -> UlcpCounts {
    let mut counts = UlcpCounts::default();
    for (lock, of_lock) in sections.by_lock().iter() {
        count_lock(sections, classifier, lock, of_lock, &mut counts);
    }
    counts
}

#[derive(Default)]
struct Cell {
    all: PairCounts,
    contended: PairCounts,
}

fn count_lock(
    sections: &Sections,
    classifier: &mut Classifier<'_>,
    lock: ObjectIx,
    of_lock: &[SectionIx],
    counts: &mut UlcpCounts,
) {
    classifier.focus(of_lock);
    let mut cells: FxHashMap<(SiteIx, SiteIx), Cell> = FxHashMap::default();
    for_each_pair(sections, of_lock, |first, second| {
        let (a, b) = (first.section, second.section);
        let class = classifier.class(first.ix, second.ix);
        let sites = (
            a.acquire_site.min(b.acquire_site),
            a.acquire_site.max(b.acquire_site),
        );
        let cell = cells.entry(sites).or_default();
        cell.all.add(class);
        if is_contended(a, b) {
            cell.contended.add(class);
        }
    });
    let mut of_site: FxHashMap<SiteIx, FxHashSet<SampleIx>> = FxHashMap::default();
    for &ix in of_lock {
        let sample = classifier.sample_of(ix);
        if let Some(section) = sections.get(ix).filter(|_| sample != NO_SAMPLE) {
            of_site
                .entry(section.acquire_site)
                .or_default()
                .insert(sample);
        }
    }
    let samples = |site: SiteIx| of_site.get(&site).map_or(0, |samples| samples.len() as u32);
    let mut row = LockRow {
        lock,
        acquisitions: of_lock.len() as u64,
        ..LockRow::default()
    };
    let mut cells: Vec<_> = cells.into_iter().collect();
    cells.sort_unstable_by_key(|(sites, _)| *sites);
    for (sites, cell) in cells {
        row.all.merge(&cell.all);
        row.contended.merge(&cell.contended);
        let samples = samples(sites.0).min(samples(sites.1));
        let known = cell.all.total() - cell.all.unknown;
        let share = cell.all.unnecessary() as f64 / known.max(1) as f64;
        counts.site_pairs.push(SitePairRow {
            lock,
            sites,
            all: cell.all,
            contended: cell.contended,
            samples,
            unnecessary: Share::of_draws(share, f64::from(samples)),
        });
    }
    counts.locks.push(row);
}
