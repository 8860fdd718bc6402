//! What ran, with which limits it was judged, and how far to trust it.

use convoy_analysis::counters::{Analysis, Parallelism};
use convoy_analysis::Params;
use convoy_model::finding::Evidence;
use convoy_model::{kernel_share, Model, SchedSource};
use convoy_profile::Exit;
use serde::Serialize;

use crate::quality::Quality;

#[derive(Serialize)]
pub struct Run<'a> {
    convoy_version: &'a str,
    started_unix_ns: u64,
    wall_ns: u64,
    command: &'a [String],
    cwd: &'a str,
    exit: ExitOut,
    cpu_user_ns: u64,
    cpu_sys_ns: u64,
    kernel_cpu_ratio: Option<f64>,
    stolen_ns: u64,
    machine: MachineOut<'a>,
    sample_period: u32,
    collectors: Vec<CollectorOut<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct ExitOut {
    kind: &'static str,
    value: Option<i32>,
}

#[derive(Serialize)]
struct MachineOut<'a> {
    kernel: &'a str,
    arch: &'a str,
    cpu_model: &'a str,
    cpus_online: u32,
    cpus_allowed: u32,
    memory_bytes: u64,
    libc: &'a str,
    mutex_pair_ns: f64,
}

#[derive(Serialize)]
struct CollectorOut<'a> {
    name: &'a str,
    active: bool,
    lost: &'a str,
    enable: &'a str,
}

pub fn run(model: &Model) -> Run<'_> {
    let meta = &model.meta;
    let (kind, value) = match meta.exit {
        Exit::Unknown => ("unknown", None),
        Exit::Status(status) => ("status", Some(status)),
        Exit::Signal(signal) => ("signal", Some(signal)),
        Exit::Running => ("running", None),
    };
    let m = &meta.machine;
    Run {
        convoy_version: &meta.convoy_version,
        started_unix_ns: meta.started_unix_ns,
        wall_ns: meta.end_ns.saturating_sub(meta.start_ns),
        command: &meta.command,
        cwd: &meta.cwd,
        exit: ExitOut { kind, value },
        cpu_user_ns: meta.cpu_user_ns,
        cpu_sys_ns: meta.cpu_sys_ns,
        kernel_cpu_ratio: kernel_share(model),
        stolen_ns: meta.stolen_ns,
        machine: MachineOut {
            kernel: &m.kernel,
            arch: &m.arch,
            cpu_model: &m.cpu_model,
            cpus_online: m.cpus_online,
            cpus_allowed: m.cpus_allowed,
            memory_bytes: m.memory_bytes,
            libc: &m.libc,
            mutex_pair_ns: m.mutex_pair_ns,
        },
        sample_period: meta.sample_period,
        collectors: meta
            .collectors
            .iter()
            .map(|c| CollectorOut {
                name: &c.name,
                active: c.active,
                lost: &c.lost,
                enable: &c.enable,
            })
            .collect(),
        notes: &meta.notes,
    }
}

/// What the recording could not see.
#[derive(Serialize)]
pub struct NotSeenOut<'a> {
    agent: bool,
    scheduler: Option<&'static str>,
    blind_spots: Vec<BlindSpotOut>,
    unexplained: &'a [Evidence],
    remedy: &'static str,
}

#[derive(Serialize)]
struct BlindSpotOut {
    id: &'static str,
    text: &'static str,
}

pub fn not_seen(analysis: &Analysis) -> NotSeenOut<'_> {
    let sources = analysis.sources;
    let spot = |spot: &convoy_model::BlindSpot| BlindSpotOut {
        id: spot.id(),
        text: spot.text(),
    };
    NotSeenOut {
        agent: sources.agent,
        scheduler: sources.scheduler.map(|source| match source {
            SchedSource::Bpf => "bpf",
            SchedSource::Perf => "perf",
        }),
        blind_spots: sources.blind_spots().iter().map(spot).collect(),
        unexplained: &analysis.unexplained,
        remedy: match sources.see_reasons() {
            true => "",
            false => sources.remedy.text(),
        },
    }
}

#[derive(Serialize)]
pub struct Limits {
    contention_ratio: f64,
    frequency_hz: f64,
    asymmetry_ratio: f64,
    asymmetry_min_waits: u64,
    trylock_failure_ratio: f64,
    imbalance_ratio: f64,
    waited_ratio: f64,
    gain_mid_ratio: f64,
    gain_high_ratio: f64,
}

pub fn limits(t: &Params) -> Limits {
    Limits {
        contention_ratio: t.contention_ratio,
        frequency_hz: t.frequency_hz,
        asymmetry_ratio: t.asymmetry_ratio,
        asymmetry_min_waits: t.asymmetry_min_waits,
        trylock_failure_ratio: t.trylock_failure_ratio,
        imbalance_ratio: t.imbalance_ratio,
        waited_ratio: t.waited_ratio,
        gain_mid_ratio: t.gain_mid,
        gain_high_ratio: t.gain_high,
    }
}

#[derive(Serialize)]
pub struct ProcessOut<'a> {
    id: usize,
    pid: u32,
    ppid: u32,
    name: &'a str,
    exe: &'a str,
    wall_ns: u64,
    without_agent: bool,
    threads: Vec<u32>,
    drops: Vec<DropOut<'a>>,
    parallelism: Option<ParallelismOut>,
}

#[derive(Serialize)]
struct DropOut<'a> {
    reason: &'a str,
    count: u64,
}

#[derive(Serialize)]
struct ParallelismOut {
    wall_ns: u64,
    threads_count: usize,
    threads_max_count: usize,
    cpus_count: Option<u32>,
    cpus_busy_mean: f64,
    cpu_ratio: Option<f64>,
    cpu_ns: u64,
    thread_time_ns: u64,
    run_delay_ns: Option<u64>,
    lock_wait_ns: u64,
    event_wait_ns: u64,
    idle_wait_ns: u64,
    off_cpu_ns: u64,
}

fn parallelism(p: &Parallelism) -> ParallelismOut {
    let known = p.cpus > 0;
    ParallelismOut {
        wall_ns: p.wall_ns,
        threads_count: p.threads,
        threads_max_count: p.threads_max,
        cpus_count: known.then_some(p.cpus),
        cpus_busy_mean: p.cpus_busy,
        cpu_ratio: known.then_some(p.cpu_ratio),
        cpu_ns: p.cpu_ns,
        thread_time_ns: p.thread_time_ns,
        run_delay_ns: p.run_delay_ns,
        lock_wait_ns: p.lock_wait_ns,
        event_wait_ns: p.event_wait_ns,
        idle_wait_ns: p.idle_wait_ns,
        off_cpu_ns: p.off_cpu_ns,
    }
}

pub fn processes<'a>(model: &'a Model, analysis: &Analysis) -> Vec<ProcessOut<'a>> {
    let process = |(id, p): (usize, &'a convoy_model::Process)| ProcessOut {
        id,
        pid: p.pid,
        ppid: p.ppid,
        name: &p.name,
        exe: &p.exe,
        wall_ns: p.wall_ns,
        without_agent: p.without_agent,
        threads: p.threads.iter().map(|t| t.0).collect(),
        drops: p
            .drops
            .iter()
            .map(|(reason, count)| DropOut {
                reason,
                count: *count,
            })
            .collect(),
        parallelism: analysis
            .parallelism
            .iter()
            .find(|row| row.process.0 as usize == id)
            .map(parallelism),
    };
    model.processes.iter().enumerate().map(process).collect()
}

#[derive(Serialize)]
pub struct QualityOut {
    losses: Vec<LossOut>,
    cost: CostOut,
    stacks: StacksOut,
}

#[derive(Serialize)]
struct LossOut {
    reason: String,
    count: u64,
    meaning: &'static str,
    numbers_are_missing: bool,
}

#[derive(Serialize)]
struct CostOut {
    calls_count: u64,
    stacks_count: u64,
    cpu_ns: f64,
    cpu_ratio: f64,
}

#[derive(Serialize)]
struct StacksOut {
    sites_count: usize,
    without_frames_count: usize,
    unnamed_count: usize,
    without_line_count: usize,
    unnamed: Vec<UnnamedOut>,
}

#[derive(Serialize)]
struct UnnamedOut {
    module: String,
    reason: String,
    sites_count: usize,
}

pub fn quality(quality: &Quality) -> QualityOut {
    let loss = |loss: &crate::quality::Loss| LossOut {
        reason: loss.reason.clone(),
        count: loss.count,
        meaning: loss.meaning,
        numbers_are_missing: loss.numbers_are_missing,
    };
    let unnamed = |(module, reason, sites): &(String, String, usize)| UnnamedOut {
        module: module.clone(),
        reason: reason.clone(),
        sites_count: *sites,
    };
    QualityOut {
        losses: quality.losses.iter().map(loss).collect(),
        cost: CostOut {
            calls_count: quality.cost.calls,
            stacks_count: quality.cost.stacks,
            cpu_ns: quality.cost.cpu_ns,
            cpu_ratio: quality.cost.cpu_ratio,
        },
        stacks: StacksOut {
            sites_count: quality.stacks.sites,
            without_frames_count: quality.stacks.without_frames,
            unnamed_count: quality.stacks.unnamed,
            without_line_count: quality.stacks.without_line,
            unnamed: quality
                .stacks
                .unnamed_by_module
                .iter()
                .map(unnamed)
                .collect(),
        },
    }
}
