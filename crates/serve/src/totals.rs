//! All counters of a process, and what is rendered of them.

use convoy_live::{LockReading, Roster, Session, Thread};

use crate::family::Family;
use crate::functions::FunctionTotals;
use crate::locks::LockTotals;
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
            store: Store::new(MOST_SERIES),
            threads: ThreadTotals::default(),
            locks: LockTotals::default(),
            functions: FunctionTotals::default(),
            process_start_unix_ns: None,
            start_unix_ns,
            time_unix_ns: start_unix_ns,
        }
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
        self.threads
            .update(&mut self.store, &self.wanted, now_ns, threads);
    }

    /// Takes a reading of the locks.
    pub fn read_locks(&mut self, roster: &Roster, reading: &LockReading) {
        self.locks
            .update(&mut self.store, &self.wanted, roster, reading);
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
