//! Counters of locks, from the agent's sums.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use convoy_live::{Lock, LockReading, LockSums, Roster};

use crate::family::Family;
use crate::selection::Selection;
use crate::store::{Labels, Store, Value};
use crate::totals::PROCESS;

const FAMILIES: [Family; 4] = [
    Family::LockAcquisitions,
    Family::LockContentions,
    Family::LockWait,
    Family::LockHold,
];

/// What threads did to locks since the agent began to count.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockTotals {
    /// By process, address and thread.
    before: HashMap<(u32, u64, u32), LockSums>,
}

/// Begins a reading of the locks of all processes.
pub(crate) fn begin(store: &mut Store) {
    FAMILIES.iter().for_each(|family| store.begin(*family));
}

impl LockTotals {
    /// Takes a reading of a process, whose name is a label where there are several.
    pub fn update(
        &mut self,
        store: &mut Store,
        wanted: &Selection,
        process: Option<&str>,
        roster: &Roster,
        reading: &LockReading,
    ) {
        let mut now: HashMap<(u32, u64, u32), LockSums> = HashMap::new();
        for (ix, tid, sums) in &reading.uses {
            if let Some(lock) = reading.locks.get(*ix) {
                let all = now.entry((lock.pid, lock.address, *tid)).or_default();
                all.add(*sums);
            }
        }
        let locks: HashMap<(u32, u64), &Lock> = reading
            .locks
            .iter()
            .map(|l| ((l.pid, l.address), l))
            .collect();
        let mut more: BTreeMap<Family, BTreeMap<(&str, &str), LockSums>> = BTreeMap::new();
        for (key @ (pid, address, tid), sums) in &now {
            let Some(lock) = locks.get(&(*pid, *address)) else {
                continue;
            };
            let change = since(self.before.get(key), *sums);
            let thread = roster.get(*tid).map(|thread| thread.name());
            for family in FAMILIES {
                if wanted.has_lock(family, lock, thread.as_ref()) {
                    let locks = more.entry(family).or_default();
                    let all = locks.entry((&lock.name, &lock.kind)).or_default();
                    all.add(change);
                }
            }
        }
        for (family, locks) in more {
            let mut locks: Vec<_> = locks.into_iter().collect();
            locks.sort_by_key(|(_, sums)| Reverse((sums.wait_ns, sums.acquisitions)));
            let series = locks.into_iter();
            let series = series.map(|(lock, sums)| (labels(process, lock), value(family, &sums)));
            store.add(family, series.collect());
        }
        // A lock that this reading lacks goes on from there in a later one.
        self.before.extend(now);
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, pid: u32) {
        self.before.retain(|(of, _, _), _| *of != pid);
    }
}

/// A lock at the address of an earlier one begins anew.
fn since(before: Option<&LockSums>, now: LockSums) -> LockSums {
    let before = before.filter(|b| b.acquisitions <= now.acquisitions);
    now.since(before.copied().unwrap_or_default())
}

fn labels(process: Option<&str>, (name, kind): (&str, &str)) -> Labels {
    let process = process.map(|name| (PROCESS, name.to_owned()));
    let lock = [
        ("lock.name", name.to_owned()),
        ("lock.kind", kind.to_owned()),
    ];
    process.into_iter().chain(lock).collect()
}

fn value(family: Family, sums: &LockSums) -> Value {
    match family {
        Family::LockAcquisitions => Value::Count(sums.acquisitions),
        Family::LockContentions => Value::Count(sums.contended),
        Family::LockWait => Value::Nanoseconds(sums.wait_ns),
        _ => Value::Sum {
            count: sums.holds,
            sum_ns: sums.hold_ns,
        },
    }
}

#[cfg(test)]
mod tests {
    use convoy_live::Role;

    use super::*;

    fn reading(locks: &[(&str, u64, u64)]) -> LockReading {
        let mut all = LockReading::default();
        for (ix, (name, address, acquisitions)) in locks.iter().enumerate() {
            all.locks.push(Lock {
                pid: 1,
                address: *address,
                kind: "mutex".into(),
                role: Role::Lock,
                has_holder: true,
                name: (*name).into(),
                sites: Vec::new(),
            });
            let sums = LockSums {
                acquisitions: *acquisitions,
                ..LockSums::default()
            };
            all.uses.push((ix, 7, sums));
        }
        all
    }

    fn acquisitions(store: &Store) -> BTreeMap<String, u64> {
        let found = store
            .families()
            .find(|(f, _)| *f == Family::LockAcquisitions);
        let series = found.map(|(_, series)| series).unwrap_or_default();
        let pairs = series.into_iter().map(|series| match series.value {
            Value::Count(n) => (series.labels[0].1.clone(), n),
            other => panic!("{other:?}"),
        });
        pairs.collect()
    }

    #[test]
    fn locks_of_one_name_are_one_series_that_never_decreases() {
        let (mut totals, mut store) = (LockTotals::default(), Store::new(1_000));
        let (wanted, roster) = (Selection::cheap(true), Roster::default());
        let mut read = |locks: &[(&str, u64, u64)]| {
            totals.update(&mut store, &wanted, None, &roster, &reading(locks));
            acquisitions(&store)
        };
        assert_eq!(read(&[("cache", 1, 10), ("cache", 2, 5)])["cache"], 15);
        assert_eq!(read(&[("cache", 1, 11), ("cache", 2, 5)])["cache"], 16);
        let reused = read(&[("cache", 1, 3), ("cache", 2, 5)]);
        assert_eq!(reused["cache"], 19, "another lock at the same address");
    }

    #[test]
    fn a_reading_that_lacks_a_lock_moves_no_counter() {
        let (mut totals, mut store) = (LockTotals::default(), Store::new(1_000));
        let (wanted, roster) = (Selection::cheap(true), Roster::default());
        let mut read = |locks: &[(&str, u64, u64)]| {
            totals.update(&mut store, &wanted, None, &roster, &reading(locks));
            acquisitions(&store)
        };
        assert_eq!(read(&[("cache", 1, 10)])["cache"], 10);
        assert_eq!(read(&[])["cache"], 10);
        assert_eq!(read(&[("cache", 1, 12)])["cache"], 12);
    }

    #[test]
    fn locks_of_several_processes_are_told_apart_and_a_new_process_begins_anew() {
        let (mut totals, mut store) = (LockTotals::default(), Store::new(1_000));
        let (wanted, roster) = (Selection::cheap(true), Roster::default());
        let mut read = |process: &str, n: u64| {
            let all = reading(&[("cache", 1, n)]);
            totals.update(&mut store, &wanted, Some(process), &roster, &all);
            totals.forget(1);
            acquisitions(&store)
        };
        read("a", 10);
        read("a", 12);
        let all = read("b", 5);
        assert_eq!(all, BTreeMap::from([("a".into(), 22), ("b".into(), 5)]));
    }

    #[test]
    fn a_request_for_one_lock_serves_that_one() {
        let (mut totals, mut store) = (LockTotals::default(), Store::new(1_000));
        let request = r#"acquisitions{lock="cache"}"#.parse().unwrap();
        let wanted = Selection::new(vec![request]);
        let all = reading(&[("cache", 1, 10), ("queue", 2, 5)]);
        totals.update(&mut store, &wanted, None, &Roster::default(), &all);
        assert_eq!(acquisitions(&store), BTreeMap::from([("cache".into(), 10)]));
    }
}
