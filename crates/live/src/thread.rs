//! Threads as the kernel shows them, with births and deaths between readings.

use std::collections::BTreeMap;

use crate::focus::ThreadName;

/// A thread at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// The number of its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The name of its process.
    pub process: String,
    /// Its group: threads that do the same job.
    pub group: String,
    /// Start in clock ticks since boot: numbers are used again.
    pub start_ticks: u64,
    /// State as in /proc/PID/stat: R, S, D, T, Z.
    pub state: char,
    /// CPU time since its start, nanoseconds; `None` where the kernel does not say.
    pub cpu_ns: Option<u64>,
    /// Time that it was runnable without a CPU, nanoseconds.
    pub run_queue_ns: Option<u64>,
    /// Times that it was given a CPU.
    pub switches: Option<u64>,
    /// Its share of the time in which the process has active threads, nanoseconds; `None` = not
    /// asked for.
    pub cmetric_ns: Option<u64>,
    /// Bytes that its system calls have read; `None` = not known, or not asked for.
    pub read_bytes: Option<u64>,
    /// Bytes that they have written.
    pub write_bytes: Option<u64>,
}

impl Thread {
    /// What it is called, for a focus.
    pub fn name(&self) -> ThreadName<'_> {
        ThreadName {
            tid: self.tid,
            name: &self.name,
            group: &self.group,
            pid: self.pid,
            process: &self.process,
        }
    }
}

/// The group of a thread that only its name is known of: digits do not tell groups apart.
pub fn group_of(name: &str) -> String {
    let mut group = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if group.ends_with('#') => {}
            true => group.push('#'),
            false => group.push(c),
        }
    }
    group
}

/// The threads of a process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Those that are there.
    pub threads: Vec<Thread>,
    /// CPU time of the process since its start, nanoseconds: that of threads that have ended, too.
    pub process_cpu_ns: Option<u64>,
}

impl From<Vec<Thread>> for Snapshot {
    fn from(threads: Vec<Thread>) -> Self {
        Self {
            threads,
            process_cpu_ns: None,
        }
    }
}

/// All threads that were seen, those that have ended included.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    /// CPU time of the process at the last two readings.
    process_cpu_ns: [Option<u64>; 2],
    known: BTreeMap<u32, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    now: Thread,
    before: Option<Thread>,
    is_alive: bool,
}

/// Threads that began and ended between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Threads that are new.
    pub born: Vec<Thread>,
    /// Threads that are gone.
    pub ended: Vec<Thread>,
}

/// Threads that have ended are kept as long as there are no more than that.
const MOST_ENDED: usize = 10_000;

impl Roster {
    /// Takes a reading of all threads that are there.
    pub fn update(&mut self, reading: Snapshot) -> Changes {
        self.process_cpu_ns = [self.process_cpu_ns[1], reading.process_cpu_ns];
        let threads = reading.threads;
        let is_first = self.known.is_empty();
        let mut changes = Changes::default();
        let mut seen: BTreeMap<u32, Thread> = threads.into_iter().map(|t| (t.tid, t)).collect();
        for (tid, entry) in &mut self.known {
            let same = seen.get(tid).map(|t| t.start_ticks) == Some(entry.now.start_ticks);
            match seen.remove(tid) {
                Some(thread) if same => {
                    entry.is_alive = true;
                    entry.before = Some(std::mem::replace(&mut entry.now, thread));
                }
                Some(thread) => {
                    changes.ended.push(entry.now.clone());
                    changes.born.push(thread.clone());
                    *entry = Entry::new(thread);
                }
                None if entry.is_alive => {
                    entry.is_alive = false;
                    entry.before = None;
                    changes.ended.push(entry.now.clone());
                }
                None => entry.before = None,
            }
        }
        for (tid, thread) in seen {
            if !is_first {
                changes.born.push(thread.clone());
            }
            self.known.insert(tid, Entry::new(thread));
        }
        self.forget();
        changes
    }

    fn forget(&mut self) {
        let ended = self.known.iter().filter(|(_, entry)| !entry.is_alive);
        let ended: Vec<u32> = ended.map(|(tid, _)| *tid).collect();
        let too_many = ended.len().saturating_sub(MOST_ENDED);
        for tid in &ended[..too_many] {
            self.known.remove(tid);
        }
    }

    /// A thread by its number, also one that has ended.
    pub fn get(&self, tid: u32) -> Option<&Thread> {
        self.known.get(&tid).map(|entry| &entry.now)
    }

    /// Threads that are there.
    pub fn alive(&self) -> impl Iterator<Item = &Thread> {
        let alive = self.known.values().filter(|entry| entry.is_alive);
        alive.map(|entry| &entry.now)
    }

    /// All threads that were seen, those that have ended included.
    pub fn all(&self) -> impl Iterator<Item = &Thread> {
        self.known.values().map(|entry| &entry.now)
    }

    /// Threads that were there at both last readings: the earlier one, the later one.
    pub fn pairs(&self) -> impl Iterator<Item = (&Thread, &Thread)> {
        let both = self.known.values();
        both.filter_map(|entry| Some((entry.before.as_ref()?, &entry.now)))
    }

    /// CPU time of all threads between the last two readings, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let known = || {
            let pairs = self.pairs();
            let threads = pairs.filter_map(|(before, now)| now.cpu_ns?.checked_sub(before.cpu_ns?));
            threads.fold(0, u64::saturating_add)
        };
        self.process_cpu_ns().unwrap_or_else(known)
    }

    /// CPU time of the process between the last two readings, nanoseconds: that of threads that
    /// have ended meanwhile, too.
    pub(crate) fn process_cpu_ns(&self) -> Option<u64> {
        let [before, now] = self.process_cpu_ns;
        now?.checked_sub(before?)
    }
}

impl Entry {
    fn new(now: Thread) -> Self {
        Self {
            now,
            before: None,
            is_alive: true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn thread(tid: u32, name: &str, cpu_ns: u64) -> Thread {
        Thread {
            tid,
            pid: 1,
            name: name.into(),
            process: "p".into(),
            group: group_of(name),
            start_ticks: 1,
            state: 'S',
            cpu_ns: Some(cpu_ns),
            run_queue_ns: Some(0),
            switches: Some(0),
            cmetric_ns: None,
            read_bytes: None,
            write_bytes: None,
        }
    }

    #[test]
    fn digits_do_not_tell_groups_apart() {
        assert_eq!(group_of("pool-12/3"), "pool-#/#");
        assert_eq!(group_of("main"), "main");
    }

    #[test]
    fn births_and_deaths_are_differences_of_readings() {
        let mut roster = Roster::default();
        let first = roster.update(vec![thread(1, "main", 5), thread(2, "a", 5)].into());
        assert_eq!(first, Changes::default(), "they were there before");
        let changes = roster.update(vec![thread(1, "main", 9), thread(3, "b", 1)].into());
        assert_eq!(changes.born.len(), 1);
        assert_eq!(changes.ended[0].name, "a");
        assert_eq!(roster.cpu_ns(), 4, "of thread 3 only one reading is known");
        assert_eq!(roster.get(2).unwrap().name, "a", "its cells keep a name");
        assert_eq!(roster.alive().count(), 2);
    }

    #[test]
    fn threads_that_lived_between_two_readings_are_in_the_sum_of_their_process() {
        let mut roster = Roster::default();
        let reading = |cpu_ns: u64, process_cpu_ns: u64| Snapshot {
            threads: vec![thread(1, "main", cpu_ns)],
            process_cpu_ns: Some(process_cpu_ns),
        };
        roster.update(reading(5, 10));
        roster.update(reading(6, 30));
        assert_eq!(roster.cpu_ns(), 20);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_thread() {
        let mut roster = Roster::default();
        roster.update(vec![thread(2, "a", 100)].into());
        let again = Thread {
            start_ticks: 2,
            ..thread(2, "b", 7)
        };
        let changes = roster.update(vec![again].into());
        assert_eq!((changes.born.len(), changes.ended.len()), (1, 1));
        assert_eq!(roster.cpu_ns(), 0);
    }
}
