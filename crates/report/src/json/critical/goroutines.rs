//! What goroutines of Go's programs waited for.

use convoy_model::{bucket_floor, GoProgram, GoState, GoWait, Model};
use serde::Serialize;

#[derive(Serialize)]
pub struct GoroutinesOut<'a> {
    process: u32,
    version: &'a str,
    unknown: &'a str,
    looks_count: u64,
    cost_ns: u64,
    processors_count: u32,
    mean_goroutines: f64,
    running_mean_goroutines: f64,
    runnable_mean_goroutines: f64,
    in_calls_mean_goroutines: f64,
    waits: Vec<GoroutineWaitOut<'a>>,
}

#[derive(Serialize)]
struct GoroutineWaitOut<'a> {
    reason: &'a str,
    stack: Option<u32>,
    mean_goroutines: f64,
    waits_count: u64,
}

/// Of all programs of Go.
pub fn programs(model: &Model) -> Vec<GoroutinesOut<'_>> {
    let programs = model.sched.iter().flat_map(|sched| &sched.goroutines);
    programs.map(one).collect()
}

fn one(program: &GoProgram) -> GoroutinesOut<'_> {
    let looks = (program.looks as f64).max(1.0);
    let mean = |of: &dyn Fn(&GoState) -> u64| {
        let states = program.states.iter();
        let sum = states.fold(0u64, |sum, s| sum.saturating_add(of(s).saturating_mul(s.n)));
        sum as f64 / looks
    };
    GoroutinesOut {
        process: program.process.0,
        version: &program.version,
        unknown: &program.unknown,
        looks_count: program.looks,
        cost_ns: program.cost_ns,
        processors_count: program.states.iter().map(|s| s.procs).max().unwrap_or(0),
        mean_goroutines: program.goroutines as f64 / looks,
        running_mean_goroutines: mean(&|s| u64::from(s.running)),
        runnable_mean_goroutines: mean(&|s| bucket_floor(s.runnable as usize) as u64),
        in_calls_mean_goroutines: mean(&|s| u64::from(s.in_calls)),
        waits: program.waits.iter().map(|row| wait(row, looks)).collect(),
    }
}

fn wait(row: &GoWait, looks: f64) -> GoroutineWaitOut<'_> {
    GoroutineWaitOut {
        reason: &row.reason,
        stack: row.site.map(|id| id.0),
        mean_goroutines: row.n as f64 / looks,
        waits_count: row.waits,
    }
}
