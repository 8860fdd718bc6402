//! The native replay as a replayer: each program runs in a process of its own.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use convoy_estimate::Method;
use convoy_replay::analysis::Analysis;
use convoy_replay::fidelity::Fingerprint;
use convoy_replay::predict::{Replayed, Replayer};
use convoy_replay::program::Program;
use convoy_replay::simulated::Simulator;
use convoy_replayer::child::{self, Runs, Times};
use convoy_replayer::native::{NativeError, NativeOptions, NativeOutcome, Schedule};

use super::order;

/// Replays with real threads and locks.
#[derive(Debug, Clone)]
pub struct Native {
    exe: PathBuf,
    times: u32,
    recorded: Duration,
    /// Locks have to be acquired in the order that it enforces.
    ordered: Option<Simulator>,
    /// For all replays together, those of the recorded run first.
    limit: Duration,
    spent: Rc<Cell<Duration>>,
}

/// The reason of replays that were not done, since those before took all the time that there was.
pub const OUT_OF_TIME: &str = "the native replays before it took all the time that they may";

/// Time of segments that are too short for a spin loop to stand for: above this share of the time
/// that threads run, a native replay says more about itself than about the program.
const MOST_EXCESS: f64 = 0.1;

impl Native {
    /// `exe`: convoy itself. `recorded`: length of the recorded windows. `limit`: time for all
    /// replays together.
    pub fn new(exe: PathBuf, times: u32, recorded: Duration, limit: Duration) -> Self {
        Self {
            exe,
            times,
            recorded,
            ordered: None,
            limit,
            spent: Rc::default(),
        }
    }

    /// `number`: of the program among those that are replayed together.
    fn runs(&mut self, number: usize, program: &Program) -> Result<Runs, String> {
        let left = self.limit.saturating_sub(self.spent.get());
        if left.is_zero() {
            return Err(OUT_OF_TIME.into());
        }
        let schedule = match &self.ordered {
            Some(simulator) => order::enforced(simulator, number, program)?,
            None => Schedule::Free,
        };
        let wanted = NativeOptions {
            schedule,
            ..NativeOptions::for_run_of(self.recorded)
        };
        let options = wanted.clone().within(left / self.times.max(1));
        let times = Times::exactly(self.times);
        let begin = Instant::now();
        let runs = child::spawn(&self.exe, program, &options, &times);
        self.spent.set(self.spent.get() + begin.elapsed());
        let runs = runs.map_err(|error| match error {
            NativeError::Hang { .. } if options.timeout < wanted.timeout => OUT_OF_TIME.to_owned(),
            other => other.to_string(),
        })?;
        match runs.median().filter(|median| too_short(median)) {
            Some(median) => Err(format!(
                "{:.0} % of the segments are shorter than the {:.0} ns that a loop can replay",
                100.0 * median.below_floor_share,
                median.floor_ns
            )),
            None => Ok(runs),
        }
    }
}

/// Whether replays of the recorded run or of a change were not done for lack of time.
pub fn ran_out_of_time(analysis: &Analysis) -> bool {
    let of_regions = analysis.regions.iter().map(|region| &region.answer);
    let of_what_ifs = analysis.what_ifs.iter().map(|row| &row.answer);
    let of_plan = analysis.plan.iter().map(|row| &row.answer);
    let all = analysis.ulcp_free.iter().chain(of_regions);
    let mut refused = all
        .chain(of_what_ifs)
        .chain(of_plan)
        .flat_map(|of| &of.refused);
    refused.any(|(_, why)| why == OUT_OF_TIME)
}

fn too_short(outcome: &NativeOutcome) -> bool {
    let ran_ns: u64 = outcome.threads.iter().map(|thread| thread.cpu_ns).sum();
    outcome.excess_ns > MOST_EXCESS * ran_ns as f64
}

impl Replayer for Native {
    fn method(&self) -> Method {
        Method::ReplayNative
    }

    fn replay(&mut self, programs: &[Program]) -> Result<Replayed, String> {
        let mut walls_ns = vec![0.0; self.times as usize];
        let mut parts = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            let runs = self.runs(number, program)?;
            let mut walls: Vec<f64> = runs.outcomes.iter().map(|o| o.wall_ns as f64).collect();
            walls.resize(walls_ns.len(), f64::NAN);
            for (sum, wall) in walls_ns.iter_mut().zip(walls) {
                *sum += wall;
            }
            parts.extend(runs.median().map(fingerprint));
        }
        let mut all = Fingerprint::mean(parts.iter().copied());
        all.wall_ns = parts.iter().map(|part| part.wall_ns).sum();
        all.voluntary = parts.iter().map(|part| part.voluntary).sum();
        all.involuntary = parts.iter().map(|part| part.involuntary).sum();
        Ok(Replayed {
            walls_ns,
            paired: false,
            fingerprint: (!parts.is_empty()).then_some(all),
        })
    }

    fn in_order_of(&self, simulator: &Simulator) -> Option<Box<dyn Replayer>> {
        Some(Box::new(Self {
            ordered: Some(simulator.clone()),
            ..self.clone()
        }))
    }
}

fn fingerprint(outcome: &NativeOutcome) -> Fingerprint {
    let lifetime: u64 = outcome.threads.iter().map(|t| t.lifetime_ns).sum();
    let waited: u64 = outcome.locks.iter().map(|lock| lock.wait_ns).sum();
    let acquisitions: u64 = outcome.locks.iter().map(|lock| lock.acquisitions).sum();
    let contended: u64 = outcome.locks.iter().map(|lock| lock.contended).sum();
    let (voluntary, involuntary) = outcome.switches();
    Fingerprint {
        wall_ns: outcome.wall_ns as f64,
        contended_share: contended as f64 / acquisitions.max(1) as f64,
        waited_share: waited as f64 / lifetime.max(1) as f64,
        voluntary: voluntary as f64,
        involuntary: involuntary as f64,
        wait_p50_ns: outcome.lock_waits.p50_ns,
        wait_p90_ns: outcome.lock_waits.p90_ns,
        wait_p99_ns: outcome.lock_waits.p99_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_replay::analysis::WhatIfRow;

    #[test]
    fn no_replay_begins_when_the_time_is_used_up() {
        let second = Duration::from_secs(1);
        let mut native = Native::new("/nonexistent".into(), 3, second, Duration::ZERO);
        let why = native.replay(&[Program::default()]).unwrap_err();
        assert_eq!(why, OUT_OF_TIME);
        let mut row = WhatIfRow::default();
        row.answer.refused.push((Method::ReplayNative, why));
        let mut analysis = Analysis::default();
        assert!(!ran_out_of_time(&analysis));
        analysis.what_ifs.push(row);
        assert!(ran_out_of_time(&analysis));
    }
}
