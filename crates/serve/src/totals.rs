//! All counters of a process, and what is rendered of them.

use std::collections::BTreeMap;

use convoy_live::{LockReading, Roster, Session, Thread};

use crate::family::Family;
use crate::functions::FunctionTotals;
use crate::locks::{self, LockTotals};
use crate::selection::Selection;
use crate::store::{Series, Store, Value, MOST_SERIES};
use crate::threads::ThreadTotals;

/// Figures of a whole process at one moment; `None` where the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// CPU time since its start, nanoseconds, ended threads included.
    pub cpu_ns: Option<u64>,
    /// Resident memory, bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, bytes.
    pub virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub descriptors: Option<u64>,
    /// Start, nanoseconds since the Unix epoch.
    pub start_unix_ns: Option<u64>,
}

/// The label that tells processes apart, where there are several.
pub(crate) const PROCESS: &str = "process.executable.name";

/// What is served together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// One process.
    #[default]
    Process,
    /// Processes of a machine: their series have the name of the process as first label, and those
    /// of threads without a group (empty) have no label of a group.
    Machine,
}

/// Series of families at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// By family, in the order of the table.
    pub families: Vec<(Family, Vec<Series>)>,
    /// When the first reading was made, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// When the process began.
    pub process_start_unix_ns: Option<u64>,
    /// When the last reading was made.
    pub time_unix_ns: u64,
}

/// Counters that never decrease, and gauges.
#[derive(Debug, Clone)]
pub struct Totals {
    wanted: Selection,
    scope: Scope,
    store: Store,
    threads: ThreadTotals,
    locks: LockTotals,
    functions: FunctionTotals,
    process_start_unix_ns: Option<u64>,
    start_unix_ns: u64,
    time_unix_ns: u64,
}

impl Totals {
    /// Of what was selected, from this moment on.
    pub fn new(wanted: Selection, start_unix_ns: u64) -> Self {
        Self {
            wanted,
            scope: Scope::Process,
            store: Store::new(MOST_SERIES),
            threads: ThreadTotals::default(),
            locks: LockTotals::default(),
            functions: FunctionTotals::default(),
            process_start_unix_ns: None,
            start_unix_ns,
            time_unix_ns: start_unix_ns,
        }
    }

    /// The same of the processes of a machine.
    pub fn of_machine(wanted: Selection, start_unix_ns: u64) -> Self {
        Self {
            scope: Scope::Machine,
            ..Self::new(wanted, start_unix_ns)
        }
    }

    /// Takes a reading of all threads of a machine, at the moments of [`Self::read_threads`];
    /// `names`: of the processes.
    pub fn read_machine<'a>(
        &mut self,
        now_ns: u64,
        unix_ns: u64,
        names: impl Iterator<Item = &'a str>,
        threads: &[Thread],
    ) {
        self.time_unix_ns = self.time_unix_ns.max(unix_ns);
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        names.for_each(|name| *counts.entry(name).or_default() += 1);
        let series = counts.into_iter().map(|(name, n)| {
            let labels = vec![(PROCESS, name.to_owned())];
            (labels, Value::Count(n))
        });
        self.store.begin(Family::Processes);
        self.store.add(Family::Processes, series.collect());
        self.count_threads(now_ns, threads);
    }

    fn count_threads(&mut self, now_ns: u64, threads: &[Thread]) {
        let wanted = (&self.wanted, self.scope);
        self.threads
            .update(&mut self.store, wanted, now_ns, threads);
    }

    /// Takes readings of the locks of processes, by their names.
    pub fn read_machine_locks(&mut self, readings: &[(String, LockReading)]) {
        let roster = Roster::default();
        locks::begin(&mut self.store);
        for (name, reading) in readings {
            let process = Some(name.as_str());
            self.locks
                .update(&mut self.store, &self.wanted, process, &roster, reading);
        }
    }

    /// Forgets what belongs to a process that has ended. Its counters stay.
    pub fn forget_process(&mut self, pid: u32) {
        self.locks.forget(pid);
    }

    /// Takes a reading of the process and of its threads. `now_ns`: of a clock that never goes
    /// back; `unix_ns`: the same moment since the Unix epoch.
    pub fn read_threads(
        &mut self,
        now_ns: u64,
        unix_ns: u64,
        process: &ProcessFigures,
        threads: &[Thread],
    ) {
        self.time_unix_ns = self.time_unix_ns.max(unix_ns);
        self.process_start_unix_ns = process.start_unix_ns.or(self.process_start_unix_ns);
        let start = process.start_unix_ns.map(|ns| ns as f64 / 1e9);
        let figures = [
            (Family::ProcessCpu, process.cpu_ns.map(Value::Nanoseconds)),
            (
                Family::ProcessResident,
                process.resident_bytes.map(Value::Count),
            ),
            (
                Family::ProcessVirtual,
                process.virtual_bytes.map(Value::Count),
            ),
            (
                Family::ProcessDescriptors,
                process.descriptors.map(Value::Count),
            ),
            (Family::ProcessStart, start.map(Value::Number)),
        ];
        for (family, value) in figures {
            match value {
                Some(value) => self.store.set(family, value),
                // A gauge that is not known has no value; a counter stays.
                None => self.store.begin(family),
            }
        }
        self.count_threads(now_ns, threads);
    }

    /// Takes a reading of the locks.
    pub fn read_locks(&mut self, roster: &Roster, reading: &LockReading) {
        locks::begin(&mut self.store);
        self.locks
            .update(&mut self.store, &self.wanted, None, roster, reading);
    }

    /// Takes what the probes of a session have counted by now.
    pub fn read_functions(&mut self, session: &Session) {
        self.functions.update(&mut self.store, session);
        if session.curves().next().is_some() {
            let cost = Value::Number(session.cost_share());
            self.store.set(Family::ProbeCost, cost);
        }
    }

    /// Takes convoy's own CPU time, nanoseconds.
    pub fn read_own_cpu(&mut self, cpu_ns: u64) {
        self.store
            .set(Family::ConvoyCpu, Value::Nanoseconds(cpu_ns));
    }

    /// All series.
    pub fn snapshot(&self) -> Snapshot {
        let folded = Series {
            labels: Vec::new(),
            value: Value::Count(self.store.folded() as u64),
        };
        let mut families: Vec<(Family, Vec<Series>)> = self.store.families().collect();
        families.push((Family::FoldedSeries, vec![folded]));
        Snapshot {
            families,
            start_unix_ns: self.start_unix_ns,
            process_start_unix_ns: self.process_start_unix_ns,
            time_unix_ns: self.time_unix_ns,
        }
    }
}
