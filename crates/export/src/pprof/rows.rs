//! Sums by call stack and labels, over one recording or several.

use std::collections::BTreeMap;

use convoy_model::SiteFrame;

/// Most rows that are kept; what comes later is added up in one.
const MOST_ROWS: usize = 20_000;

/// The value of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

/// Names and values.
pub type Labels = Vec<(&'static str, Label)>;

/// A text as a label.
pub(super) fn text(key: &'static str, value: impl Into<String>) -> (&'static str, Label) {
    (key, Label::Text(value.into()))
}

/// How often, and how long in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub count: u64,
    pub ns: u64,
}

/// Call stack, leaf first, and labels.
type Key = (Vec<SiteFrame>, Labels);

/// Samples of a pprof profile, by call stack and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows(BTreeMap<Key, Sum>);

impl Rows {
    pub(crate) fn add(&mut self, frames: &[SiteFrame], labels: Labels, sum: Sum) {
        self.add_to((frames.to_vec(), labels), sum);
    }

    fn add_to(&mut self, key: Key, sum: Sum) {
        let key = match self.0.len() >= MOST_ROWS && !self.0.contains_key(&key) {
            true => (vec![super::pseudo("[other]")], Vec::new()),
            false => key,
        };
        let all = self.0.entry(key).or_default();
        all.count = all.count.saturating_add(sum.count);
        all.ns = all.ns.saturating_add(sum.ns);
    }

    /// Adds those of another recording.
    pub fn merge(&mut self, more: Self) {
        for (key, sum) in more.0 {
            self.add_to(key, sum);
        }
    }

    /// What came since an earlier reading of the same sums.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let rows = self.0.iter().map(|(key, now)| {
            let before = before.0.get(key).copied().unwrap_or_default();
            let sum = Sum {
                count: now.count.saturating_sub(before.count),
                ns: now.ns.saturating_sub(before.ns),
            };
            (key.clone(), sum)
        });
        Self(rows.filter(|(_, sum)| *sum != Sum::default()).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[SiteFrame], &Labels, Sum)> {
        let rows = self.0.iter();
        rows.map(|((frames, labels), sum)| (frames.as_slice(), labels, *sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(functions: &[(&str, u64)]) -> Rows {
        let mut rows = Rows::default();
        for (function, ns) in functions {
            let sum = Sum { count: 1, ns: *ns };
            rows.add(&[super::super::pseudo(function)], Vec::new(), sum);
        }
        rows
    }

    fn total(rows: &Rows) -> u64 {
        rows.iter().map(|(_, _, sum)| sum.ns).sum()
    }

    #[test]
    fn sums_of_recordings_add_up_and_differences_take_apart() {
        let mut all = rows(&[("a", 5), ("b", 1)]);
        let before = all.clone();
        all.merge(rows(&[("a", 2), ("c", 4)]));
        assert_eq!(total(&all), 12);
        assert_eq!(all.since(&before), rows(&[("a", 2), ("c", 4)]));
        assert_eq!(all.since(&all), Rows::default());
    }

    #[test]
    fn rows_beyond_the_limit_are_one() {
        let mut all = Rows::default();
        for n in 0..MOST_ROWS + 10 {
            all.merge(rows(&[(&n.to_string(), 1)]));
        }
        assert_eq!(all.0.len(), MOST_ROWS + 1);
        assert_eq!(total(&all), (MOST_ROWS + 10) as u64, "nothing is lost");
    }
}
