//! Threads and locks of a process, as sessions take them.

use std::path::{Path, PathBuf};

use convoy_capture::{CriticalitySampler, ThreadReader, Watch};
use convoy_live::{group_of, Lock, LockReading, LockSums, Role, Snapshot, Thread};
use convoy_model::{is_lock_by_type, FutexOf, Model, Object, ObjectId};
use convoy_profile::{ObjectKind, Op};
use convoy_report::names;
use convoy_top::Source;

/// Reads threads.
#[derive(Debug)]
pub struct Threads {
    pid: u32,
    process: String,
    reader: ThreadReader,
    criticality: Option<CriticalitySampler>,
}

impl Threads {
    /// Of a process.
    pub fn of(pid: u32) -> Self {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self {
            pid,
            process: comm.trim_end().to_owned(),
            reader: ThreadReader::new(pid),
            criticality: None,
        }
    }

    /// The same without files that stay open: for readers of many processes.
    pub fn without_files(pid: u32) -> Self {
        Self {
            reader: ThreadReader::without_files(pid),
            ..Self::of(pid)
        }
    }

    /// The name of the process.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// Whether the process still runs.
    pub fn is_running(&self) -> bool {
        self.reader.is_running()
    }

    /// Reads what the kernel counts of their I/O from now on: another file of each thread.
    pub fn read_io(&mut self) {
        self.reader.read_io();
    }

    /// Samples the states of all threads from now on, for their CMetric.
    pub fn sample_criticality(&mut self) {
        let begin = || CriticalitySampler::begin(self.pid);
        self.criticality.get_or_insert_with(begin);
    }

    /// Threads that are there now.
    pub fn read(&mut self) -> Snapshot {
        let readings = self.reader.read().into_iter();
        let threads = readings.map(|reading| Thread {
            tid: reading.tid,
            pid: self.pid,
            group: group_of(&reading.name),
            name: reading.name,
            process: self.process.clone(),
            start_ticks: reading.start_ticks,
            state: reading.state,
            cpu_ns: reading.cpu_ns,
            run_queue_ns: reading.run_queue_ns,
            switches: reading.switches,
            cmetric_ns: self.criticality.as_ref().map(|c| c.ns(reading.tid)),
            read_bytes: reading.io.map(|io| io.read_bytes),
            write_bytes: reading.io.map(|io| io.write_bytes),
        });
        Snapshot {
            threads: threads.collect(),
            process_cpu_ns: self.reader.process_cpu_ns(),
        }
    }
}

/// Reads the agent's tables.
#[derive(Debug)]
pub struct Locks {
    /// Where its tables are.
    dir: PathBuf,
    source: convoy_top::Live,
}

impl Locks {
    /// Of a process with the agent.
    pub fn new(watch: Watch) -> Self {
        Self {
            dir: watch.dir().to_owned(),
            source: convoy_top::Live::new(watch),
        }
    }

    /// The directory of the agent's tables.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All locks, and what their threads did since the start.
    pub fn read(&mut self) -> LockReading {
        reading(&self.read_model())
    }

    /// Everything that the agent has counted since the start.
    pub fn read_model(&mut self) -> Model {
        self.source.read().model
    }
}

fn reading(model: &Model) -> LockReading {
    let objects = (0u32..).zip(&model.objects);
    let mut all = LockReading::default();
    for (ix, object) in objects {
        let uses = model.uses_of(ObjectId(ix));
        let lock = all.locks.len();
        let mut sites: Vec<String> = Vec::new();
        sites.extend(object.init_site.and_then(|id| place(model, id)));
        for row in uses {
            sites.extend(place(model, row.site));
            let thread = model.threads.get(row.thread.0 as usize);
            let Some(thread) = thread else { continue };
            all.uses.push((lock, thread.tid, sums(row)));
        }
        sites.sort_unstable();
        sites.dedup();
        all.locks.push(Lock {
            pid: pid(model, object),
            address: object.addr,
            kind: names::kind(object.kind).into(),
            role: role(object),
            has_holder: has_holder(object.kind),
            name: names::object(object),
            sites,
        });
    }
    all
}

/// Whether the agent sees who acquires and releases it: futexes are seen by their waits only.
fn has_holder(kind: ObjectKind) -> bool {
    use ObjectKind::{Mutex, OmpCritical, OmpLock, RwLock, Spin};

    matches!(kind, Mutex | RwLock | Spin | OmpLock | OmpCritical)
}

fn role(object: &Object) -> Role {
    use FutexOf::{CxxBarrier, CxxLatch, CxxSemaphore, GlibCond, ParkingLotCondvar, RustCondvar};

    match (object.kind, object.futex_of) {
        (ObjectKind::Cond, _) => Role::Condition,
        (_, Some(RustCondvar | ParkingLotCondvar | GlibCond)) => Role::Condition,
        (ObjectKind::Barrier | ObjectKind::OmpBarrier | ObjectKind::OmpRegion, _) => Role::Barrier,
        (_, Some(CxxBarrier | CxxLatch)) => Role::Barrier,
        (ObjectKind::Sem, _) | (_, Some(CxxSemaphore)) => Role::Semaphore,
        _ if is_lock_by_type(object) => Role::Lock,
        _ => Role::Other,
    }
}

fn pid(model: &Model, object: &Object) -> u32 {
    let process = model.processes.get(object.process.0 as usize);
    process.map_or(0, |process| process.pid)
}

/// `file:line` of a call stack.
fn place(model: &Model, id: convoy_model::SiteId) -> Option<String> {
    let frame = model.site(id)?.shown_frame()?;
    let file = frame.file.rsplit('/').next().filter(|f| !f.is_empty())?;
    Some(format!("{file}:{}", frame.line))
}

/// Calls that wake others acquire nothing, and neither do tries that fail.
fn sums(row: &convoy_model::Use) -> LockSums {
    let acquisitions = match row.op {
        Some(Op::CondSignal | Op::CondBroadcast | Op::SemPost | Op::FutexWake) => 0,
        _ => row.calls.saturating_sub(row.failed),
    };
    LockSums {
        acquisitions,
        contended: row.waits,
        wait_ns: row.wait_ns,
        holds: row.hold_contended_n.saturating_add(row.hold_sampled_n),
        hold_ns: row.hold_contended_ns.saturating_add(row.hold_sampled_ns),
    }
}
