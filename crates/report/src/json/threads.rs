//! Threads, their groups, and how many of each would be best.

use convoy_analysis::counters::{Analysis, Assignment, GroupRow};
use convoy_model::Model;
use serde::Serialize;

use super::frame::{frame, FrameOut};
use crate::names;

#[derive(Serialize)]
pub struct GroupOut<'a> {
    id: u32,
    process: u32,
    name: String,
    name_pattern: &'a str,
    start: Option<FrameOut<'a>>,
    create_stack: Option<u32>,
    threads: Vec<u32>,
    life_ns: u64,
    cpu_ns: u64,
    run_delay_ns: Option<u64>,
    compute_ns: u64,
    busy_ns: u64,
    busy_ratio: f64,
    lock_wait_ns: u64,
    event_wait_ns: u64,
    idle_wait_ns: u64,
    thread_busy_min_ns: u64,
    thread_busy_max_ns: u64,
    top_waits: Vec<TopWaitOut>,
    linked_groups: Vec<u32>,
}

#[derive(Serialize)]
struct TopWaitOut {
    object: u32,
    wait_ns: u64,
}

pub fn groups<'a>(model: &'a Model, analysis: &Analysis) -> Vec<GroupOut<'a>> {
    let one = |row: &GroupRow| {
        let group = model.groups.get(row.group.0 as usize)?;
        Some(GroupOut {
            id: row.group.0,
            process: group.process.0,
            name: names::group(group),
            name_pattern: &group.name_pattern,
            start: group.start.as_ref().map(frame),
            create_stack: group.create_site.map(|id| id.0),
            threads: group.threads.iter().map(|id| id.0).collect(),
            life_ns: row.life_ns,
            cpu_ns: row.cpu_ns,
            run_delay_ns: row.run_delay_ns,
            compute_ns: row.compute_ns,
            busy_ns: row.busy_ns,
            busy_ratio: row.busy_ratio,
            lock_wait_ns: row.lock_wait_ns,
            event_wait_ns: row.event_wait_ns,
            idle_wait_ns: row.idle_wait_ns,
            thread_busy_min_ns: row.thread_busy_min_ns,
            thread_busy_max_ns: row.thread_busy_max_ns,
            top_waits: row
                .top_waits
                .iter()
                .map(|(id, ns)| TopWaitOut {
                    object: id.0,
                    wait_ns: *ns,
                })
                .collect(),
            linked_groups: row.linked.iter().map(|id| id.0).collect(),
        })
    };
    analysis.groups.iter().filter_map(one).collect()
}

#[derive(Serialize)]
pub struct AssignmentOut<'a> {
    process: u32,
    groups: Vec<u32>,
    threads_now_counts: &'a [u32],
    threads_ideal_counts: &'a [f64],
    options: Vec<OptionOut<'a>>,
    limited_by: &'a str,
}

#[derive(Serialize)]
struct OptionOut<'a> {
    threads_counts: &'a [u32],
    throughput_ratio: f64,
}

pub fn assignments(analysis: &Analysis) -> Vec<AssignmentOut<'_>> {
    fn one(a: &Assignment) -> AssignmentOut<'_> {
        AssignmentOut {
            process: a.process.0,
            groups: a.groups.iter().map(|id| id.0).collect(),
            threads_now_counts: &a.now,
            threads_ideal_counts: &a.ideal,
            options: a
                .options
                .iter()
                .map(|o| OptionOut {
                    threads_counts: &o.threads,
                    throughput_ratio: o.throughput,
                })
                .collect(),
            limited_by: &a.limited_by,
        }
    }
    analysis.assignments.iter().map(one).collect()
}

#[derive(Serialize)]
pub struct ThreadOut<'a> {
    id: usize,
    process: u32,
    group: u32,
    tid: u32,
    name: &'a str,
    main: bool,
    start_ns: u64,
    end_ns: u64,
    cpu_ns: u64,
    sys_ns: u64,
    compute_ns: u64,
    run_delay_ns: Option<u64>,
    voluntary_switches_count: u64,
    involuntary_switches_count: u64,
    waits: Vec<KindWaitOut>,
}

#[derive(Serialize)]
struct KindWaitOut {
    kind: &'static str,
    wait_ns: u64,
}

pub fn threads(model: &Model) -> Vec<ThreadOut<'_>> {
    let origin_ns = model.meta.start_ns;
    model
        .threads
        .iter()
        .enumerate()
        .map(|(id, t)| thread(id, t, origin_ns))
        .collect()
}

fn thread(id: usize, t: &convoy_model::Thread, origin_ns: u64) -> ThreadOut<'_> {
    ThreadOut {
        id,
        process: t.process.0,
        group: t.group.0,
        tid: t.tid,
        name: &t.name,
        main: t.main,
        start_ns: t.start_ns.saturating_sub(origin_ns),
        end_ns: t.end_ns.saturating_sub(origin_ns),
        cpu_ns: t.cpu_ns,
        sys_ns: t.sys_ns,
        compute_ns: t.compute_ns(),
        run_delay_ns: t.run_delay_ns,
        voluntary_switches_count: t.voluntary_switches,
        involuntary_switches_count: t.involuntary_switches,
        waits: t
            .wait_ns
            .iter()
            .map(|(kind, ns)| KindWaitOut {
                kind: names::kind(*kind),
                wait_ns: *ns,
            })
            .collect(),
    }
}
