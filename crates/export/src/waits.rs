//! Waits, told apart by what they were for.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Model, ObjectId, OffCpu, OffReason, SiteId, ThreadId};
use convoy_report::{names, Report};

/// Waits of one thread at one call stack.
#[derive(Debug, Clone, Copy)]
pub struct Waited<'a> {
    /// Who.
    pub thread: ThreadId,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// What for; `None` = only the address of a futex is known.
    pub object: Option<ObjectId>,
    /// The kernel's word on it, where there is no agent's.
    pub off: Option<&'a OffCpu>,
    /// Times.
    pub count: u64,
    /// Sum, nanoseconds.
    pub wait_ns: u64,
}

/// Every wait for synchronization: the agent's of processes that carried it, the scheduler's futex waits of the
/// others.
pub fn all<'a>(report: &Report<'a>) -> Vec<Waited<'a>> {
    let model = report.model;
    let waits_at = waiting_objects(report);
    let counted = model
        .uses
        .iter()
        .filter(|u| (u.waits > 0 || u.wait_ns > 0) && waits_at.contains(&u.object))
        .filter(|u| u.op.is_some_and(waits_in));
    let counted = counted.map(|u| Waited {
        thread: u.thread,
        site: Some(u.site),
        object: Some(u.object),
        off: None,
        count: u.waits,
        wait_ns: u.wait_ns,
    });
    let offs = model.sched.iter().flat_map(|sched| &sched.offs);
    let seen = offs
        .filter(|off| off.reason == OffReason::Futex && without_agent(model, off.thread))
        .map(|off| Waited {
            thread: off.thread,
            site: off.site,
            object: off.object,
            off: Some(off),
            count: off.n,
            wait_ns: off.sum_ns,
        });
    counted.chain(seen).collect()
}

/// Objects that the report has a row of.
fn waiting_objects(report: &Report<'_>) -> BTreeSet<ObjectId> {
    let locks = report.analysis.locks.iter().map(|row| row.object);
    let events = report.analysis.events.iter().map(|row| row.object);
    locks.chain(events).collect()
}

/// Calls that wait until they get what they want; a failed try does not wait.
fn waits_in(op: convoy_profile::Op) -> bool {
    use convoy_profile::Op;
    !matches!(
        op,
        Op::MutexTrylock
            | Op::RwlockTryrd
            | Op::RwlockTrywr
            | Op::SpinTrylock
            | Op::SemTrywait
            | Op::OmpTrylock
            | Op::CondSignal
            | Op::CondBroadcast
            | Op::SemPost
            | Op::FutexWake
    )
}

/// Whether a thread's process carried no agent.
pub fn without_agent(model: &Model, thread: ThreadId) -> bool {
    crate::stacks::thread(model, thread)
        .and_then(|thread| model.processes.get(thread.process.0 as usize))
        .is_some_and(|process| process.without_agent)
}

/// What the waits at each object were, in a word: `lock`, `idle`, `straggler`, ...
#[derive(Debug)]
pub struct Classes(BTreeMap<ObjectId, &'static str>);

impl Classes {
    /// As the report has them.
    pub fn of(report: &Report<'_>) -> Self {
        let locks = report.analysis.locks.iter().map(|row| (row.object, "lock"));
        let events = report
            .analysis
            .events
            .iter()
            .map(|row| (row.object, row.class.id()));
        Self(events.chain(locks).collect())
    }

    /// Of one object.
    pub fn get(&self, object: Option<ObjectId>) -> &'static str {
        object
            .and_then(|id| self.0.get(&id).copied())
            .unwrap_or("unknown")
    }
}

/// What is waited for, as a pseudo frame: `[mutex cache_lock]`, `[futex 0x7f10]`.
pub fn object_frame(model: &Model, waited: &Waited<'_>) -> String {
    match (waited.object, waited.off) {
        (Some(id), _) => format!("[{}]", object_name(model, id)),
        (None, Some(off)) if off.address != 0 => format!("[futex 0x{:x}]", off.address),
        _ => "[futex]".to_owned(),
    }
}

/// `mutex cache_lock`: kind and name of an object.
pub fn object_name(model: &Model, id: ObjectId) -> String {
    let Some(object) = model.objects.get(id.0 as usize) else {
        return "unknown object".to_owned();
    };
    let (kind, name) = (names::kind(object.kind), names::object(object));
    if name.starts_with(kind) {
        name
    } else {
        format!("{kind} {name}")
    }
}

/// Why a thread was off the processors, as a pseudo frame: `[mutex cache_lock]`, `[file data.db]`, `[sleep]`.
pub fn off_frame(model: &Model, off: &OffCpu) -> String {
    let sched = model.sched.as_ref();
    if let Some(id) = off.object {
        return format!("[{}]", object_name(model, id));
    }
    let reason = convoy_report::reason_id(off.reason);
    match off.name.and_then(|id| sched?.name(id)) {
        Some(name) => format!("[{reason} {name}]"),
        None => format!("[{reason}]"),
    }
}
