//! Counters of threads by group, from what the kernel counts for each thread. Of a machine they are
//! also told apart by process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use convoy_live::Thread;

use crate::family::Family;
use crate::selection::Selection;
use crate::store::{Labels, Store, Value};
use crate::totals::{Scope, PROCESS};

/// Sums of a thread at its last reading.
#[derive(Debug, Clone, Copy)]
struct Sums {
    at_ns: u64,
    cpu_ns: Option<u64>,
    run_queue_ns: Option<u64>,
    /// Number of the reading.
    reading: u64,
}

/// A thread that began after the last reading. When exactly is not known: its off-CPU time counts
/// from the next reading on.
const BORN: Sums = Sums {
    at_ns: u64::MAX,
    cpu_ns: Some(0),
    run_queue_ns: Some(0),
    reading: 0,
};

/// What threads did since the first reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadTotals {
    /// By number and start: numbers are used again.
    before: HashMap<(u32, u64), Sums>,
    readings: u64,
    /// Start of the youngest thread at the first reading, clock ticks.
    youngest: u64,
    /// Groups and states that were seen: a state that no thread of a group is in has a 0.
    states: BTreeSet<(Part, &'static str)>,
}

/// Threads that have a series in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    /// The name of their process, where there are several processes.
    process: Option<String>,
    /// Empty = all groups of the process.
    group: String,
}

impl Part {
    fn of(thread: &Thread, scope: Scope) -> Self {
        Self {
            process: (scope == Scope::Machine).then(|| thread.process.clone()),
            group: thread.group.clone(),
        }
    }

    fn labels(&self) -> Labels {
        let process = self.process.iter().map(|name| (PROCESS, name.clone()));
        let is_whole = self.process.is_some() && self.group.is_empty();
        let group = (!is_whole).then(|| ("thread.group", self.group.clone()));
        process.chain(group).collect()
    }
}

/// Readings that a thread may be missing in, and still be the same: a reading may fail.
const MOST_MISSED: u64 = 60;

/// Nanoseconds by part, for each family.
type Increments = BTreeMap<Family, BTreeMap<Part, u64>>;

impl ThreadTotals {
    /// Takes a reading. Threads that are there at the first one begin at zero; of later ones
    /// everything counts.
    pub fn update(
        &mut self,
        store: &mut Store,
        (wanted, scope): (&Selection, Scope),
        now_ns: u64,
        all: &[Thread],
    ) {
        let mut more = Increments::new();
        self.readings += 1;
        if self.readings == 1 {
            self.youngest = all.iter().map(|t| t.start_ticks).max().unwrap_or(0);
        }
        for thread in all {
            let key = (thread.tid, thread.start_ticks);
            let known = self.before.get(&key).copied();
            // One that was there before the first reading, and missing in it, begins now.
            let is_born = self.readings > 1 && thread.start_ticks >= self.youngest;
            let before = known.or(is_born.then_some(BORN));
            let sums = Sums {
                at_ns: now_ns,
                cpu_ns: thread.cpu_ns,
                run_queue_ns: thread.run_queue_ns,
                reading: self.readings,
            };
            match before {
                // What this reading lacks is in the next one.
                Some(before) if lacks(&before, &sums) => {
                    let reading = self.readings;
                    self.before.insert(key, Sums { reading, ..before });
                    continue;
                }
                Some(before) => count(&mut more, (wanted, scope), thread, &before, &sums),
                None => {}
            }
            self.before.insert(key, sums);
        }
        let readings = self.readings;
        self.before
            .retain(|_, sums| readings - sums.reading <= MOST_MISSED);
        for (family, groups) in more {
            let mut groups: Vec<(Part, u64)> = groups.into_iter().collect();
            groups.sort_by_key(|(_, ns)| Reverse(*ns));
            let series = groups.into_iter();
            let series = series.map(|(part, ns)| (part.labels(), Value::Nanoseconds(ns)));
            store.begin(family);
            store.add(family, series.collect());
        }
        count_threads(store, &mut self.states, scope, all);
    }
}

/// Whether a figure is missing that was there before.
fn lacks(before: &Sums, now: &Sums) -> bool {
    let is_missing = |before: Option<u64>, now: Option<u64>| before.is_some() && now.is_none();
    is_missing(before.cpu_ns, now.cpu_ns) || is_missing(before.run_queue_ns, now.run_queue_ns)
}

fn count(
    more: &mut Increments,
    (wanted, scope): (&Selection, Scope),
    thread: &Thread,
    before: &Sums,
    now: &Sums,
) {
    let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    let cpu = since(now.cpu_ns, before.cpu_ns);
    let queue = since(now.run_queue_ns, before.run_queue_ns);
    let elapsed = now.at_ns.saturating_sub(before.at_ns);
    let blocked = cpu.zip(queue).map(|(cpu, queue)| {
        let active = cpu.saturating_add(queue);
        elapsed.saturating_sub(active)
    });
    let all = [
        (Family::ThreadCpu, cpu),
        (Family::ThreadRunQueue, queue),
        (Family::ThreadBlocked, blocked),
    ];
    for (family, ns) in all {
        let Some(ns) = ns.filter(|_| wanted.has_thread(family, &thread.name())) else {
            continue;
        };
        let groups = more.entry(family).or_default();
        let sum = groups.entry(Part::of(thread, scope)).or_default();
        *sum = sum.saturating_add(ns);
    }
}

fn count_threads(
    store: &mut Store,
    states: &mut BTreeSet<(Part, &'static str)>,
    scope: Scope,
    all: &[Thread],
) {
    let mut now: BTreeMap<(Part, &'static str), u64> = BTreeMap::new();
    for thread in all {
        let key = (Part::of(thread, scope), state(thread.state));
        *now.entry(key).or_default() += 1;
    }
    let there: BTreeSet<&Part> = now.keys().map(|(part, _)| part).collect();
    states.retain(|(part, _)| there.contains(part));
    states.extend(now.keys().cloned());
    let count = |seen| now.get(seen).copied().unwrap_or(0);
    let mut counts: Vec<_> = states.iter().map(|seen| (seen, count(seen))).collect();
    counts.sort_by_key(|(_, n)| Reverse(*n));
    let series = counts.into_iter().map(|((part, state), n)| {
        let mut labels = part.labels();
        labels.push(("thread.state", (*state).to_owned()));
        (labels, Value::Count(n))
    });
    store.begin(Family::Threads);
    store.add(Family::Threads, series.collect());
}

/// The states of `proc_pid_stat(5)`.
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "runnable",
        'S' | 'I' => "sleeping",
        'D' => "disk_sleep",
        'T' | 't' => "stopped",
        'Z' | 'X' => "ended",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_live::group_of;

    fn thread(tid: u32, name: &str, cpu_ns: u64) -> Thread {
        Thread {
            tid,
            pid: 1,
            name: name.into(),
            process: "p".into(),
            group: group_of(name),
            start_ticks: u64::from(tid),
            state: 'S',
            cpu_ns: Some(cpu_ns),
            run_queue_ns: Some(0),
            switches: Some(0),
            cmetric_ns: None,
            read_bytes: None,
            write_bytes: None,
        }
    }

    fn cpu(store: &Store) -> BTreeMap<String, u64> {
        let mut families = store.families();
        let found = families.find(|(family, _)| *family == Family::ThreadCpu);
        let series = found.map(|(_, series)| series).unwrap_or_default();
        let pairs = series.into_iter().map(|series| match series.value {
            Value::Nanoseconds(ns) => (series.labels[0].1.clone(), ns),
            other => panic!("{other:?}"),
        });
        pairs.collect()
    }

    #[test]
    fn groups_count_from_the_first_reading_and_keep_what_ended_threads_did() {
        let (mut totals, mut store) = (ThreadTotals::default(), Store::new(1_000));
        let wanted = Selection::cheap(false);
        let mut read = |ns: u64, all: &[Thread]| {
            totals.update(&mut store, (&wanted, Scope::Process), ns, all);
            cpu(&store)
        };
        let first = read(0, &[thread(1, "main", 500), thread(2, "pool-1", 70)]);
        assert!(first.is_empty(), "{first:?}");
        let second = read(1_000, &[thread(1, "main", 510), thread(3, "pool-2", 5)]);
        assert_eq!(second["main"], 10);
        assert_eq!(second["pool-#"], 5, "born since: all of it counts");
        let third = read(2_000, &[thread(1, "main", 510)]);
        assert_eq!(third["pool-#"], 5);
    }

    #[test]
    fn a_state_that_no_thread_is_in_any_more_has_a_zero() {
        let (mut totals, mut store) = (ThreadTotals::default(), Store::new(1_000));
        let wanted = Selection::cheap(false);
        let mut states = |all: &[Thread]| -> BTreeMap<String, u64> {
            totals.update(&mut store, (&wanted, Scope::Process), 0, all);
            let families = store.families();
            let threads = families.filter(|(family, _)| *family == Family::Threads);
            let all = threads.flat_map(|(_, series)| series);
            let number = |value: &Value| match value {
                Value::Count(n) => *n,
                other => panic!("{other:?}"),
            };
            all.map(|s| (s.labels[1].1.clone(), number(&s.value)))
                .collect()
        };
        let mut pool = thread(5, "pool-1", 0);
        assert_eq!(states(&[pool.clone()])["sleeping"], 1);
        pool.state = 'R';
        let now = states(&[pool]);
        assert_eq!((now["sleeping"], now["runnable"]), (0, 1));
        assert!(states(&[]).is_empty());
    }

    #[test]
    fn a_reading_that_lacks_something_moves_no_counter() {
        let (mut totals, mut store) = (ThreadTotals::default(), Store::new(1_000));
        let wanted = Selection::cheap(false);
        let mut read = |ns: u64, all: &[Thread]| {
            totals.update(&mut store, (&wanted, Scope::Process), ns, all);
            cpu(&store).get("main").copied().unwrap_or(0)
        };
        let at = |cpu_ns: u64| thread(5, "main", cpu_ns);
        let mut unknown = at(0);
        (unknown.cpu_ns, unknown.run_queue_ns) = (None, None);
        assert_eq!(read(0, &[at(500)]), 0);
        assert_eq!(read(1_000, &[]), 0);
        assert_eq!(read(2_000, &[at(600)]), 100, "not the 600 since its start");
        assert_eq!(read(3_000, &[unknown]), 100);
        assert_eq!(read(4_000, &[at(800)]), 300, "nothing is lost");
        let older = thread(4, "main", 9_000);
        assert_eq!(
            read(5_000, &[at(800), older]),
            300,
            "it was there all the time"
        );
    }

    #[test]
    fn of_a_machine_threads_are_told_apart_by_process_and_groups_where_they_are_known() {
        let (mut totals, mut store) = (ThreadTotals::default(), Store::new(1_000));
        let wanted = Selection::cheap(false);
        let mut shell = thread(9, "bash", 0);
        (shell.process, shell.group) = ("bash".into(), String::new());
        totals.update(
            &mut store,
            (&wanted, Scope::Machine),
            0,
            &[thread(1, "pool-1", 0), shell],
        );
        let mut families = store.families();
        let (_, series) = families.find(|(f, _)| *f == Family::Threads).unwrap();
        let labels: Vec<Vec<&str>> = series
            .iter()
            .map(|s| s.labels.iter().map(|(_, text)| text.as_str()).collect())
            .collect();
        assert_eq!(
            labels,
            [vec!["bash", "sleeping"], vec!["p", "pool-#", "sleeping"]]
        );
    }

    #[test]
    fn a_thread_s_time_is_divided_into_three_parts() {
        let (mut totals, mut store) = (ThreadTotals::default(), Store::new(1_000));
        let wanted = Selection::cheap(false);
        totals.update(
            &mut store,
            (&wanted, Scope::Process),
            0,
            &[thread(1, "main", 0)],
        );
        let mut later = thread(1, "main", 300);
        later.run_queue_ns = Some(200);
        totals.update(&mut store, (&wanted, Scope::Process), 1_000, &[later]);
        let times = store.families().filter(|(f, _)| *f != Family::Threads);
        let times: Vec<Value> = times.map(|(_, series)| series[0].value.clone()).collect();
        assert_eq!(times, [300, 200, 500].map(Value::Nanoseconds));
    }
}
