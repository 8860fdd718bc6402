//! What the scheduler showed: every row of the room `critical`.

mod activity;
mod goroutines;
mod waits;

use convoy_analysis::scheduler::{Analysis, Parallelism, Quality};
use convoy_model::Model;
use serde::Serialize;

use crate::sched_names;

#[derive(Serialize)]
pub struct CriticalOut<'a> {
    verdict: &'a str,
    parallelism: ParallelismOut,
    timeline: Vec<activity::MomentOut>,
    threads: Vec<activity::ThreadOut>,
    groups: Vec<activity::GroupOut>,
    paths: Vec<activity::PathOut<'a>>,
    reasons: Vec<waits::ReasonOut>,
    waits: Vec<waits::WaitOut<'a>>,
    edges: Vec<waits::EdgeOut>,
    loops: Vec<waits::LoopOut<'a>>,
    goroutines: Vec<goroutines::GoroutinesOut<'a>>,
    names: &'a [String],
    quality: QualityOut<'a>,
}

/// `None` if nobody listened to the scheduler.
pub fn critical<'a>(model: &'a Model, analysis: Option<&'a Analysis>) -> Option<CriticalOut<'a>> {
    let a = analysis?;
    Some(CriticalOut {
        verdict: &a.verdict,
        parallelism: parallelism(&a.parallelism),
        timeline: a.timeline.iter().map(activity::moment).collect(),
        threads: a.threads.iter().map(activity::thread).collect(),
        groups: a.groups.iter().map(activity::group).collect(),
        paths: a.paths.iter().map(activity::path).collect(),
        reasons: a.reasons.iter().map(waits::reason).collect(),
        waits: a.waits.iter().map(waits::wait).collect(),
        edges: a.edges.iter().map(waits::edge).collect(),
        loops: a
            .loops
            .iter()
            .map(|row| waits::spin_loop(model, row))
            .collect(),
        goroutines: goroutines::programs(model),
        names: model.sched.as_ref().map_or(&[][..], |s| &s.names),
        quality: quality(model, &a.quality),
    })
}

#[derive(Serialize)]
struct ParallelismOut {
    wall_ns: u64,
    threads_count: usize,
    workers_count: usize,
    workers_at_once_count: usize,
    cpus_count: Option<u32>,
    useful_threads: f64,
    n_min_threads: f64,
    low_below_threads: f64,
    levels: Vec<LevelOut>,
    active_mean_threads: f64,
    working_mean_threads: f64,
    running_mean_threads: f64,
    idle_ns: u64,
    low_active_ns: u64,
    low_ns: u64,
    only_spinning_ns: u64,
}

#[derive(Serialize)]
struct LevelOut {
    threads_count: usize,
    active_ns: u64,
    working_ns: u64,
    running_ns: u64,
}

fn parallelism(p: &Parallelism) -> ParallelismOut {
    let level = |l: &convoy_analysis::scheduler::Level| LevelOut {
        threads_count: l.threads,
        active_ns: l.active_ns,
        working_ns: l.working_ns,
        running_ns: l.running_ns,
    };
    ParallelismOut {
        wall_ns: p.wall_ns,
        threads_count: p.threads,
        workers_count: p.workers,
        workers_at_once_count: p.workers_at_once,
        cpus_count: (p.cpus > 0).then_some(p.cpus),
        useful_threads: p.useful,
        n_min_threads: p.n_min,
        low_below_threads: p.low_below,
        levels: p.levels.iter().map(level).collect(),
        active_mean_threads: p.active_mean,
        working_mean_threads: p.working_mean,
        running_mean_threads: p.running_mean,
        idle_ns: p.idle_ns,
        low_active_ns: p.low_active_ns,
        low_ns: p.low_ns,
        only_spinning_ns: p.only_spinning_ns,
    }
}

#[derive(Serialize)]
struct QualityOut<'a> {
    source: &'static str,
    events_count: u64,
    lost_events_count: u64,
    lost_ns: u64,
    lost_stacks_count: u64,
    lost: Vec<LostOut>,
    contradictions_count: u64,
    dropped_rows_count: u64,
    sample_period_ns: u64,
    code_from_sample_ratio: f64,
    code_from_stack_top_ratio: f64,
    code_unknown_ratio: f64,
    cm_check_ratio: f64,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct LostOut {
    from_ns: u64,
    to_ns: u64,
    count: u64,
    stacks: bool,
}

fn quality<'a>(model: &Model, q: &'a Quality) -> QualityOut<'a> {
    let origin_ns = model.sched.as_ref().map_or(0, |s| s.start_ns);
    let lost = |l: &convoy_model::Lost| LostOut {
        from_ns: l.from_ns.saturating_sub(origin_ns),
        to_ns: l.to_ns.saturating_sub(origin_ns),
        count: l.events,
        stacks: l.stacks,
    };
    let [sample, stack_top, unknown] = q.code_from;
    QualityOut {
        source: sched_names::source_id(q.source),
        events_count: q.events,
        lost_events_count: q.lost_events,
        lost_ns: q.lost_ns,
        lost_stacks_count: q.lost_stacks,
        lost: model.sched.iter().flat_map(|s| &s.lost).map(lost).collect(),
        contradictions_count: q.contradictions,
        dropped_rows_count: q.dropped_rows,
        sample_period_ns: q.sample_period_ns,
        code_from_sample_ratio: sample,
        code_from_stack_top_ratio: stack_top,
        code_unknown_ratio: unknown,
        cm_check_ratio: q.cm_check,
        remarks: &q.remarks,
    }
}
