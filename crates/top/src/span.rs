//! Two readings of one program, and what lies between them.
//!
//! A reading holds sums since the start. What goes on now is the difference of two. Their indices differ, so that
//! what is compared is found by what it is: an object by its address, a thread by its tid and start. Sums never
//! shrink, save where a program has overwritten them or was replaced by another; then nothing is taken off.

use convoy_model::{Model, Object, ObjectId, ProcessId, Thread, ThreadId, Use};
use convoy_profile::Op;
use rustc_hash::FxHashMap;

use crate::grid::Key;

/// A reading and, if there was one, the reading before it.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// The later one.
    pub now: &'a Model,
    /// The earlier one; `None` = there is only one: nothing is known of "now".
    pub before: Option<&'a Model>,
}

/// What happened to an object, at one site or everywhere, by one thread or all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Calls that acquire or wait; of tries those that got the lock.
    pub calls: u64,
    /// Calls that had to wait.
    pub waits: u64,
    /// Their sum.
    pub wait_ns: u64,
    /// The longest since the start.
    pub wait_max_ns: u64,
    /// Threads that wait at this moment.
    pub waiting: u64,
    /// Holds that were timed.
    pub holds: u64,
    /// Their sum.
    pub hold_ns: u64,
}

impl Sums {
    /// Adds what one thread did at one site.
    pub fn add(&mut self, row: &Use) {
        let calls = match row.op {
            Some(Op::CondSignal | Op::CondBroadcast | Op::SemPost | Op::FutexWake) => 0,
            Some(
                Op::MutexTrylock
                | Op::RwlockTryrd
                | Op::RwlockTrywr
                | Op::SpinTrylock
                | Op::SemTrywait
                | Op::OmpTrylock,
            ) => row.calls.saturating_sub(row.failed),
            _ => row.calls,
        };
        self.calls = self.calls.saturating_add(calls);
        self.waits = self.waits.saturating_add(row.waits);
        self.wait_ns = self.wait_ns.saturating_add(row.wait_ns);
        self.wait_max_ns = self.wait_max_ns.max(row.wait_max_ns);
        self.waiting += u64::from(row.unfinished_ns > 0);
        self.holds = self
            .holds
            .saturating_add(row.hold_contended_n)
            .saturating_add(row.hold_sampled_n);
        self.hold_ns = self
            .hold_ns
            .saturating_add(row.hold_contended_ns)
            .saturating_add(row.hold_sampled_ns);
    }

    /// What came since an earlier reading. What is no sum stays as it is.
    pub fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            waits: self.waits.saturating_sub(before.waits),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            holds: self.holds.saturating_sub(before.holds),
            hold_ns: self.hold_ns.saturating_sub(before.hold_ns),
            ..self
        }
    }
}

/// Time of threads, nanoseconds, and switches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// That they lived.
    pub life_ns: u64,
    /// On a CPU.
    pub cpu_ns: u64,
    /// Runnable without a CPU, as far as known.
    pub ready_ns: u64,
    /// Waiting for synchronization.
    pub wait_ns: u64,
}

impl Times {
    /// Of one thread since its start.
    pub fn of(thread: &Thread) -> Self {
        Self {
            life_ns: thread.wall_ns(),
            cpu_ns: thread.cpu_ns,
            ready_ns: thread.run_delay_ns.unwrap_or(0),
            wait_ns: thread.waited_ns(),
        }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            life_ns: self.life_ns.saturating_add(other.life_ns),
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            ready_ns: self.ready_ns.saturating_add(other.ready_ns),
            wait_ns: self.wait_ns.saturating_add(other.wait_ns),
        }
    }

    /// What came since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            life_ns: self.life_ns.saturating_sub(before.life_ns),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            ready_ns: self.ready_ns.saturating_sub(before.ready_ns),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
        }
    }
}

impl<'a> Span<'a> {
    /// From the earlier reading to the later, seconds; `None` with one reading.
    pub fn seconds(&self) -> Option<f64> {
        let before = self.before?;
        let ns = self.now.meta.end_ns.saturating_sub(before.meta.end_ns);
        (ns > 0).then_some(ns as f64 / 1e9)
    }

    /// From the start of the recording to the later reading, seconds.
    pub fn age_seconds(&self) -> f64 {
        let meta = &self.now.meta;
        meta.end_ns.saturating_sub(meta.start_ns) as f64 / 1e9
    }

    /// How much of a thread's life lies in the span, nanoseconds.
    pub fn overlap_ns(&self, thread: &Thread) -> u64 {
        let from = self.before.map_or(0, |before| before.meta.end_ns);
        thread.end_ns.saturating_sub(thread.start_ns.max(from))
    }

    /// The threads of the earlier reading by what they are.
    pub fn threads_before(&self) -> FxHashMap<Key, Times> {
        let before = self.before.into_iter();
        before
            .flat_map(|model| {
                model
                    .threads
                    .iter()
                    .map(|t| (thread_key(model, t), Times::of(t)))
            })
            .collect()
    }
}

/// Uses object by object: rows of one object stand together.
pub fn by_object(model: &Model) -> impl Iterator<Item = (ObjectId, &[Use])> {
    model
        .uses
        .chunk_by(|a, b| a.object == b.object)
        .filter_map(|rows| Some((rows.first()?.object, rows)))
}

/// The rows of one object.
pub fn uses_of(model: &Model, object: ObjectId) -> &[Use] {
    let from = model.uses.partition_point(|row| row.object < object);
    let to = model.uses.partition_point(|row| row.object <= object);
    model.uses.get(from..to).unwrap_or_default()
}

/// What an object is.
pub fn object_key(model: &Model, object: &Object) -> Key {
    Key::Object(pid(model, object.process), object.addr)
}

/// Which thread it is.
pub fn thread_key(model: &Model, thread: &Thread) -> Key {
    Key::Thread(pid(model, thread.process), thread.tid, thread.start_ns)
}

/// The object with this key.
pub fn find_object(model: &Model, key: &Key) -> Option<ObjectId> {
    let Key::Object(pid, addr) = key else {
        return None;
    };
    let mut all = model.objects.iter();
    let at = all.position(|o| o.addr == *addr && self::pid(model, o.process) == *pid)?;
    Some(ObjectId(at as u32))
}

/// The number of a process.
pub fn pid(model: &Model, process: ProcessId) -> u32 {
    let process = model.processes.get(process.0 as usize);
    process.map_or(0, |process| process.pid)
}

/// A thread of a model.
pub fn thread(model: &Model, id: ThreadId) -> Option<&Thread> {
    model.threads.get(id.0 as usize)
}
