//! Which lock of one build is which of another.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::Place;
use crate::summary::{LockKey, Summary};

/// Names of locks after, by their names before, where they differ.
pub type Renamed = BTreeMap<LockKey, LockKey>;

/// Locks whose names match are the same. Of the rest, those of one kind are that are used by the same
/// functions: a lock that has no name of its own is called after the place that waits for it most, which may be
/// another one in another run.
pub fn renamed(before: &[Summary], after: &[Summary]) -> Renamed {
    // Less than half of the functions in common is another lock.
    const ALIKE: f64 = 0.5;
    let (old, new) = (functions(before), functions(after));
    let mut candidates = Vec::new();
    for (a, of_a) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
        for (b, of_b) in new.iter().filter(|(key, _)| !old.contains_key(key)) {
            let common = of_a.intersection(of_b).count() as f64;
            let alike = common / of_a.union(of_b).count().max(1) as f64;
            if (a.lock, a.kind) == (b.lock, b.kind) && alike >= ALIKE {
                candidates.push((alike, a, b));
            }
        }
    }
    candidates.sort_by(|x, y| {
        y.0.total_cmp(&x.0)
            .then_with(|| (x.1, x.2).cmp(&(y.1, y.2)))
    });
    let (mut renamed, mut taken) = (Renamed::new(), BTreeSet::new());
    for (_, a, b) in candidates {
        if !renamed.contains_key(a) && taken.insert(b) {
            renamed.insert(a.clone(), b.clone());
        }
    }
    renamed
}

/// The functions that use each lock.
fn functions(runs: &[Summary]) -> BTreeMap<LockKey, BTreeSet<(String, String)>> {
    let mut all: BTreeMap<LockKey, BTreeSet<_>> = BTreeMap::new();
    for (key, numbers) in runs.iter().flat_map(|run| &run.locks) {
        let named = numbers
            .sites
            .keys()
            .filter(|place| !place.function.is_empty());
        all.entry(key.clone())
            .or_default()
            .extend(named.map(Place::code));
    }
    all
}

/// Places of two builds that are the same: of each, the one before and the one after.
pub fn places<'a>(
    before: &BTreeSet<&'a Place>,
    after: &BTreeSet<&'a Place>,
) -> Vec<(Option<&'a Place>, Option<&'a Place>)> {
    let mut functions: BTreeMap<_, (Vec<&Place>, Vec<&Place>)> = BTreeMap::new();
    for &place in before {
        functions.entry(place.code()).or_default().0.push(place);
    }
    for &place in after {
        functions.entry(place.code()).or_default().1.push(place);
    }
    functions
        .into_values()
        .flat_map(|(old, new)| in_function(old, new))
        .collect()
}

/// As many places as before: they are the same ones, in order, whatever their lines are now. Else those on
/// the same line are, and the rest in order.
fn in_function<'a>(
    mut old: Vec<&'a Place>,
    mut new: Vec<&'a Place>,
) -> Vec<(Option<&'a Place>, Option<&'a Place>)> {
    let mut pairs = Vec::new();
    old.sort_by_key(|p| p.spot());
    new.sort_by_key(|p| p.spot());
    if old.len() != new.len() {
        old.retain(|a| match new.iter().position(|b| b.spot() == a.spot()) {
            Some(at) => {
                pairs.push((Some(*a), Some(new.remove(at))));
                false
            }
            None => true,
        });
    }
    let longest = old.len().max(new.len());
    pairs.extend((0..longest).map(|i| (old.get(i).copied(), new.get(i).copied())));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, line: u32) -> Place {
        Place {
            function: function.into(),
            file: "a.c".into(),
            line,
            ..Place::default()
        }
    }

    fn lines(before: &[Place], after: &[Place]) -> Vec<(Option<u32>, Option<u32>)> {
        let pairs = places(&before.iter().collect(), &after.iter().collect());
        let line = |p: Option<&Place>| p.map(|p| p.line);
        pairs.into_iter().map(|(a, b)| (line(a), line(b))).collect()
    }

    #[test]
    fn lines_that_moved_are_the_same_places() {
        let (f, g) = (place("f", 10), place("f", 20));
        assert_eq!(
            lines(&[f.clone(), g.clone()], &[place("f", 13), place("f", 23)]),
            [(Some(10), Some(13)), (Some(20), Some(23))]
        );
        assert_eq!(
            lines(&[f.clone(), g], &[place("f", 20)]),
            [(Some(20), Some(20)), (Some(10), None)]
        );
        assert_eq!(
            lines(&[f], &[place("g", 10)]),
            [(Some(10), None), (None, Some(10))]
        );
    }
}
