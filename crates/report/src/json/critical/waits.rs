//! What did not run: time off the processors, who ended it, and waiting on the processor.

use convoy_analysis::scheduler::{EdgeRow, Link, LoopRow, ReasonRow, WaitRow};
use convoy_model::{Model, Waker};
use serde::Serialize;

use crate::json::frame::{frame, FrameOut};
use crate::{sched_names, subject};

#[derive(Serialize)]
pub struct ReasonOut {
    reason: &'static str,
    waits_count: u64,
    wait_ns: u64,
    low_ns: f64,
    threads_count: usize,
}

pub fn reason(row: &ReasonRow) -> ReasonOut {
    ReasonOut {
        reason: sched_names::reason_id(row.reason),
        waits_count: row.n,
        wait_ns: row.sum_ns,
        low_ns: row.low_ns,
        threads_count: row.threads,
    }
}

#[derive(Serialize)]
pub struct WaitOut<'a> {
    process: u32,
    reason: &'static str,
    system_call: Option<i16>,
    stack: Option<u32>,
    object: Option<u32>,
    futex_address: Option<String>,
    name: Option<u32>,
    kernel_functions: &'a [String],
    group: u32,
    threads_count: usize,
    waits_count: u64,
    wait_ns: u64,
    wait_max_ns: u64,
    unfinished_ns: u64,
    low_ns: f64,
    idle_ns: u64,
    critical_ns: f64,
}

pub fn wait(row: &WaitRow) -> WaitOut<'_> {
    WaitOut {
        process: row.process.0,
        reason: sched_names::reason_id(row.reason),
        system_call: (row.nr >= 0).then_some(row.nr),
        stack: row.site.map(|id| id.0),
        object: row.object.map(|id| id.0),
        futex_address: (row.address > 0).then(|| format!("0x{:x}", row.address)),
        name: row.name.map(|id| id.0),
        kernel_functions: &row.kernel_stack,
        group: row.group.0,
        threads_count: row.threads,
        waits_count: row.n,
        wait_ns: row.sum_ns,
        wait_max_ns: row.max_ns,
        unfinished_ns: row.unfinished_ns,
        low_ns: row.low_ns,
        idle_ns: row.idle_ns,
        critical_ns: row.critical_ns,
    }
}

#[derive(Serialize)]
pub struct EdgeOut {
    process: u32,
    group: u32,
    stack: Option<u32>,
    reason: &'static str,
    object: Option<u32>,
    waker: WakerOut,
    waits_count: u64,
    wait_ns: u64,
    wait_max_ns: u64,
    low_ns: f64,
    waker_running_ns: u64,
    waker_delayed_ns: u64,
    waker_off_ns: u64,
    chain: Vec<LinkOut>,
}

#[derive(Serialize)]
struct WakerOut {
    kind: &'static str,
    thread: Option<u32>,
    stack: Option<u32>,
    group: Option<u32>,
    tid: Option<u32>,
}

#[derive(Serialize)]
struct LinkOut {
    thread: u32,
    stack: Option<u32>,
    reason: &'static str,
    object: Option<u32>,
    name: Option<u32>,
    share_ratio: f64,
}

pub fn edge(row: &EdgeRow) -> EdgeOut {
    EdgeOut {
        process: row.process.0,
        group: row.group.0,
        stack: row.site.map(|id| id.0),
        reason: sched_names::reason_id(row.reason),
        object: row.object.map(|id| id.0),
        waker: waker(row),
        waits_count: row.n,
        wait_ns: row.wait_ns,
        wait_max_ns: row.max_ns,
        low_ns: row.low_ns,
        waker_running_ns: row.waker_running_ns,
        waker_delayed_ns: row.waker_delayed_ns,
        waker_off_ns: row.waker_off_ns,
        chain: row.chain.iter().map(link).collect(),
    }
}

fn waker(row: &EdgeRow) -> WakerOut {
    let (kind, thread, stack, tid) = match row.waker {
        Waker::Unknown => ("unknown", None, None, None),
        Waker::Interrupt => ("interrupt", None, None, None),
        Waker::Outside(tid) => ("outside", None, None, Some(tid)),
        Waker::Thread(thread, site) => ("thread", Some(thread.0), site.map(|id| id.0), None),
    };
    WakerOut {
        kind,
        thread,
        stack,
        group: row.waker_group.map(|id| id.0),
        tid,
    }
}

fn link(row: &Link) -> LinkOut {
    LinkOut {
        thread: row.thread.0,
        stack: row.site.map(|id| id.0),
        reason: sched_names::reason_id(row.reason),
        object: row.object.map(|id| id.0),
        name: row.name.map(|id| id.0),
        share_ratio: row.share,
    }
}

#[derive(Serialize)]
pub struct LoopOut<'a> {
    id: u32,
    process: u32,
    kind: &'static str,
    evidence: &'a str,
    frames: Vec<FrameOut<'a>>,
    first_offset: u64,
    last_offset: u64,
    stack: Option<u32>,
    group: u32,
    threads_count: usize,
    samples_count: u64,
    running_ns: u64,
    cpu_ratio: f64,
    active_ns: u64,
    cm_ns: f64,
    waits_for: &'a [usize],
}

pub fn spin_loop<'a>(model: &'a Model, row: &'a LoopRow) -> LoopOut<'a> {
    let spin = subject::spin_loop(model, row.spin);
    LoopOut {
        id: row.spin.0,
        process: row.process.0,
        kind: sched_names::spin_id(row.kind),
        evidence: spin.map_or("", |s| &s.evidence),
        frames: spin
            .map_or(&[][..], |s| &s.frames)
            .iter()
            .map(frame)
            .collect(),
        first_offset: spin.map_or(0, |s| s.lo),
        last_offset: spin.map_or(0, |s| s.hi),
        stack: row.site.map(|id| id.0),
        group: row.group.0,
        threads_count: row.threads,
        samples_count: row.samples,
        running_ns: row.running_ns,
        cpu_ratio: row.share,
        active_ns: row.active_ns,
        cm_ns: row.cm_ns,
        waits_for: &row.waits_for,
    }
}
