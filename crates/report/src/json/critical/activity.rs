//! What ran: pieces of the run, threads, groups, call paths.

use convoy_analysis::scheduler::{FunctionRow, GroupRow, LineRow, Moment, PathRow, ThreadRow};
use serde::Serialize;

use crate::sched_names;

#[derive(Serialize)]
pub struct MomentOut {
    from_ns: u64,
    width_ns: u64,
    active_mean_threads: f64,
    working_mean_threads: f64,
    running_mean_threads: f64,
    idle_ratio: f64,
    thread: Option<u32>,
    stack: Option<u32>,
}

pub fn moment(m: &Moment) -> MomentOut {
    MomentOut {
        from_ns: m.from_ns,
        width_ns: m.width_ns,
        active_mean_threads: m.active,
        working_mean_threads: m.working,
        running_mean_threads: m.running,
        idle_ratio: m.idle,
        thread: m.thread.map(|id| id.0),
        stack: m.site.map(|id| id.0),
    }
}

#[derive(Serialize)]
pub struct ThreadOut {
    thread: u32,
    group: u32,
    life_ns: u64,
    cm_ns: f64,
    cm_working_ns: f64,
    cm_ratio: f64,
    running_ns: u64,
    delayed_ns: u64,
    preempted_ns: u64,
    spinning_ns: u64,
    blocked_ns: u64,
    worker: bool,
}

pub fn thread(row: &ThreadRow) -> ThreadOut {
    ThreadOut {
        thread: row.thread.0,
        group: row.group.0,
        life_ns: row.life_ns,
        cm_ns: row.cm_ns,
        cm_working_ns: row.cm_working_ns,
        cm_ratio: row.share,
        running_ns: row.running_ns,
        delayed_ns: row.delayed_ns,
        preempted_ns: row.preempted_ns,
        spinning_ns: row.spinning_ns,
        blocked_ns: row.blocked_ns,
        worker: row.worker,
    }
}

#[derive(Serialize)]
pub struct GroupOut {
    group: u32,
    threads_count: usize,
    life_ns: u64,
    cm_ns: f64,
    cm_working_ns: f64,
    cm_ratio: f64,
    running_ns: u64,
    delayed_ns: u64,
    preempted_ns: u64,
    spinning_ns: u64,
    blocked_ns: u64,
    thread_working_min_ns: u64,
    thread_working_max_ns: u64,
    woken_by: Vec<WokenByOut>,
}

#[derive(Serialize)]
struct WokenByOut {
    group: u32,
    waits_count: u64,
    wait_ns: u64,
}

pub fn group(row: &GroupRow) -> GroupOut {
    let woken_by = |(group, waits, ns): &(convoy_model::GroupId, u64, u64)| WokenByOut {
        group: group.0,
        waits_count: *waits,
        wait_ns: *ns,
    };
    GroupOut {
        group: row.group.0,
        threads_count: row.threads,
        life_ns: row.life_ns,
        cm_ns: row.cm_ns,
        cm_working_ns: row.cm_working_ns,
        cm_ratio: row.share,
        running_ns: row.running_ns,
        delayed_ns: row.delayed_ns,
        preempted_ns: row.preempted_ns,
        spinning_ns: row.spinning_ns,
        blocked_ns: row.blocked_ns,
        thread_working_min_ns: row.thread_working_min_ns,
        thread_working_max_ns: row.thread_working_max_ns,
        woken_by: row.woken_by.iter().map(woken_by).collect(),
    }
}

#[derive(Serialize)]
pub struct PathOut<'a> {
    process: u32,
    stack: Option<u32>,
    known_from: &'static str,
    hits_count: u64,
    active_ns: u64,
    running_ns: u64,
    cm_ns: f64,
    cm_working_ns: f64,
    low_active_ns: f64,
    low_cm_ns: f64,
    low_cm_ratio: f64,
    threads_count: usize,
    group: u32,
    functions: Vec<FunctionOut<'a>>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    function: &'a str,
    module: &'a str,
    hits_count: u64,
    low_cm_ns: f64,
    lines: Vec<LineOut<'a>>,
}

#[derive(Serialize)]
struct LineOut<'a> {
    file: &'a str,
    line: Option<u32>,
    hits_count: u64,
    low_cm_ns: f64,
    known_from: &'static str,
}

pub fn path(row: &PathRow) -> PathOut<'_> {
    PathOut {
        process: row.process.0,
        stack: row.site.map(|id| id.0),
        known_from: sched_names::from_id(row.from),
        hits_count: row.n,
        active_ns: row.active_ns,
        running_ns: row.running_ns,
        cm_ns: row.cm_ns,
        cm_working_ns: row.cm_working_ns,
        low_active_ns: row.low_active_ns,
        low_cm_ns: row.low_cm_ns,
        low_cm_ratio: row.share,
        threads_count: row.threads,
        group: row.group.0,
        functions: row.functions.iter().map(function).collect(),
    }
}

fn function(row: &FunctionRow) -> FunctionOut<'_> {
    FunctionOut {
        function: &row.function,
        module: &row.module,
        hits_count: row.n,
        low_cm_ns: row.low_cm_ns,
        lines: row.lines.iter().map(line).collect(),
    }
}

fn line(row: &LineRow) -> LineOut<'_> {
    LineOut {
        file: &row.file,
        line: (row.line > 0).then_some(row.line),
        hits_count: row.n,
        low_cm_ns: row.low_cm_ns,
        known_from: sched_names::from_id(row.from),
    }
}
