//! Time series by family and labels, and the limit of their number.

use std::collections::BTreeMap;

use crate::family::{Family, Kind, FAMILIES};
use crate::prometheus::BOUNDS;

/// Most time series that are served: lines of Prometheus' text.
pub const MOST_SERIES: usize = 1_000;

/// The value of every label of the series that stands for those beyond the limit.
pub const OTHER: &str = "other";

/// Names and values of labels. Names are attributes of OpenTelemetry: `thread.group`.
pub type Labels = Vec<(&'static str, String)>;

/// Bins of durations: bin `i` counts durations of [2^i, 2^(i+1)) ns.
pub const BINS: usize = 64;

/// Durations by powers of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durations {
    /// Counts.
    pub bins: [u64; BINS],
    /// Sum, nanoseconds.
    pub sum_ns: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            bins: [0; BINS],
            sum_ns: 0,
        }
    }
}

impl Durations {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.bins.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Events, things.
    Count(u64),
    /// Time, nanoseconds; rendered as seconds.
    Nanoseconds(u64),
    /// Anything else.
    Number(f64),
    /// Observations of which only number and sum (nanoseconds) are known.
    Sum {
        /// Number.
        count: u64,
        /// Sum, nanoseconds.
        sum_ns: u64,
    },
    /// Observations by size.
    Durations(Box<Durations>),
}

impl Value {
    /// Adds another value of the same family.
    pub(crate) fn add(&mut self, more: Self) {
        match (self, more) {
            (Self::Count(a), Self::Count(b)) | (Self::Nanoseconds(a), Self::Nanoseconds(b)) => {
                *a = a.saturating_add(b);
            }
            (Self::Number(a), Self::Number(b)) => *a += b,
            (
                Self::Sum { count, sum_ns },
                Self::Sum {
                    count: n,
                    sum_ns: ns,
                },
            ) => {
                *count = count.saturating_add(n);
                *sum_ns = sum_ns.saturating_add(ns);
            }
            (Self::Durations(all), Self::Durations(more)) => {
                all.sum_ns = all.sum_ns.saturating_add(more.sum_ns);
                for (bin, n) in all.bins.iter_mut().zip(more.bins) {
                    *bin = bin.saturating_add(n);
                }
            }
            // A family has values of one kind.
            (this, more) => *this = more,
        }
    }
}

/// A series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its labels; empty where the family has none.
    pub labels: Labels,
    /// Its value.
    pub value: Value,
}

/// All series. Label sets that come when there is no room are added up in one series per family.
///
/// A label set keeps its series: one that moved to `other` would make a counter decrease.
#[derive(Debug, Clone)]
pub struct Store {
    most: usize,
    families: BTreeMap<Family, BTreeMap<Labels, Value>>,
    used: usize,
    /// By family, at the last reading.
    folded: BTreeMap<Family, usize>,
}

impl Store {
    /// Room for so many series; those of `other` are always there.
    pub fn new(most: usize) -> Self {
        let others = FAMILIES.iter().map(|row| match row.has_labels {
            true => lines(row.kind),
            false => 0,
        });
        Self {
            most: most.saturating_sub(others.sum()),
            families: BTreeMap::new(),
            used: 0,
            folded: BTreeMap::new(),
        }
    }

    /// Begins a reading of a family: gauges are read anew, and those that are not known any more
    /// have no series.
    pub fn begin(&mut self, family: Family) {
        self.folded.remove(&family);
        if family.describe().kind != Kind::Gauge {
            return;
        }
        let series = self.families.remove(&family).unwrap_or_default();
        let is_other = |labels: &Labels| {
            let mut labels = labels.iter();
            labels.len() > 0 && labels.all(|(_, text)| text == OTHER)
        };
        // Room for `other` is set apart.
        let counted = series.keys().filter(|labels| !is_other(labels)).count();
        self.used = self.used.saturating_sub(counted * lines(Kind::Gauge));
    }

    /// Adds to series of a family, the most important ones first: they get the room.
    pub fn add(&mut self, family: Family, all: Vec<(Labels, Value)>) {
        for (labels, value) in all {
            self.add_one(family, labels, value);
        }
    }

    /// Sets the value of a series without labels.
    pub fn set(&mut self, family: Family, value: Value) {
        let series = self.families.entry(family).or_default();
        if series.insert(Vec::new(), value).is_none() {
            self.used += lines(family.describe().kind);
        }
    }

    fn add_one(&mut self, family: Family, mut labels: Labels, value: Value) {
        let series = self.families.entry(family).or_default();
        if let Some(old) = series.get_mut(&labels) {
            old.add(value);
            return;
        }
        let lines = lines(family.describe().kind);
        if self.used + lines > self.most {
            *self.folded.entry(family).or_default() += 1;
            labels
                .iter_mut()
                .for_each(|(_, text)| OTHER.clone_into(text));
            match series.get_mut(&labels) {
                Some(other) => other.add(value),
                None => {
                    series.insert(labels, value);
                }
            }
            return;
        }
        self.used += lines;
        series.insert(labels, value);
    }

    /// Label sets that `other` stands for, at the last reading.
    pub fn folded(&self) -> usize {
        self.folded.values().sum()
    }

    /// All series by family, in the order of [`FAMILIES`].
    pub fn families(&self) -> impl Iterator<Item = (Family, Vec<Series>)> + '_ {
        let known = FAMILIES.iter().filter_map(|row| {
            let series = self.families.get(&row.family)?;
            Some((row.family, series))
        });
        known.map(|(family, series)| {
            let series = series.iter().map(|(labels, value)| Series {
                labels: labels.clone(),
                value: value.clone(),
            });
            (family, series.collect())
        })
    }
}

/// Lines of Prometheus' text for one label set: its price.
fn lines(kind: Kind) -> usize {
    match kind {
        Kind::Counter | Kind::Gauge => 1,
        Kind::Summary => 2,
        // Buckets, the infinite one, sum and count.
        Kind::Histogram => BOUNDS.len() + 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Labels {
        vec![("thread.group", name.to_owned())]
    }

    fn numbers(store: &Store, family: Family) -> BTreeMap<String, u64> {
        let mut families = store.families();
        let found = families.find(|(f, _)| *f == family);
        let series = found.map(|(_, series)| series).unwrap_or_default();
        let pairs = series.into_iter().map(|series| match series.value {
            Value::Count(n) | Value::Nanoseconds(n) => (series.labels[0].1.clone(), n),
            other => panic!("{other:?}"),
        });
        pairs.collect()
    }

    #[test]
    fn series_beyond_the_limit_are_added_up_and_counted() {
        let mut store = Store::new(MOST_SERIES);
        for _ in 0..2 {
            store.begin(Family::ThreadCpu);
            let all = (0..5_000).map(|n| (group(&format!("g{n}x")), Value::Nanoseconds(1)));
            store.add(Family::ThreadCpu, all.collect());
        }
        let series = numbers(&store, Family::ThreadCpu);
        assert!(series.len() <= MOST_SERIES && series.len() > MOST_SERIES / 2);
        assert_eq!(series.values().sum::<u64>(), 10_000, "nothing is lost");
        assert_eq!(series["g0x"], 2);
        assert_eq!(store.folded(), 5_000 - (series.len() - 1));
        assert_eq!(series[OTHER], 2 * store.folded() as u64);
    }

    #[test]
    fn full_families_leave_room_for_the_others_of_all() {
        let mut store = Store::new(MOST_SERIES);
        for row in FAMILIES.iter().filter(|row| row.has_labels) {
            let value = match row.kind {
                Kind::Counter | Kind::Gauge => Value::Count(1),
                Kind::Summary => Value::Sum {
                    count: 1,
                    sum_ns: 1,
                },
                Kind::Histogram => Value::Durations(Box::default()),
            };
            let all = (0..2_000).map(|n| (group(&n.to_string()), value.clone()));
            store.add(row.family, all.collect());
        }
        let lines: usize = store
            .families()
            .map(|(family, series)| series.len() * lines(family.describe().kind))
            .sum();
        assert!(lines <= MOST_SERIES, "{lines}");
    }

    #[test]
    fn gauges_are_read_anew_and_counters_go_on() {
        let mut store = Store::new(MOST_SERIES);
        for family in [Family::Threads, Family::ThreadCpu] {
            for _ in 0..3 {
                store.begin(family);
                store.add(family, vec![(group("a"), Value::Count(2))]);
            }
        }
        assert_eq!(numbers(&store, Family::Threads)["a"], 2);
        assert_eq!(numbers(&store, Family::ThreadCpu)["a"], 6);
    }

    #[test]
    fn gauges_that_are_not_known_any_more_leave_and_give_their_room_back() {
        let mut store = Store::new(MOST_SERIES);
        for _ in 0..3 {
            store.begin(Family::Threads);
            let all = (0..5_000).map(|n| (group(&format!("g{n}x")), Value::Count(1)));
            store.add(Family::Threads, all.collect());
        }
        let full = numbers(&store, Family::Threads);
        assert_eq!(full.values().sum::<u64>(), 5_000);
        store.begin(Family::Threads);
        assert!(numbers(&store, Family::Threads).is_empty());
        let all = (0..full.len() as u64 - 1).map(|n| (group(&format!("h{n}x")), Value::Count(1)));
        store.add(Family::Threads, all.collect());
        assert_eq!(store.folded(), 0, "there is room for as many as before");
    }
}
