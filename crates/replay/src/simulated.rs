//! The simulator as a replayer: variations of what the calibration is not sure of, and seeds.

use std::sync::Arc;

use convoy_estimate::Method;

use crate::fidelity::Fingerprint;
use crate::machine::Machine;
use crate::predict::{Replayed, Replayer};
use crate::program::{LockIx, Program, SectionId, ThreadIx};
use crate::sim::{self, calibrate_rules, Options, Range, Rules, Schedule};
use crate::standstill;

/// Replays by simulation.
#[derive(Debug, Clone)]
pub struct Simulator {
    machine: Machine,
    rules: Rules,
    order: Order,
    seeds: Vec<u64>,
    cpus: Option<u32>,
}

/// By program and lock of the recorded run, the sections in the order in which they acquired it.
pub type RecordedOrders = Arc<Vec<Vec<Vec<SectionId>>>>;

/// The order in which locks are acquired, in each of the programs that are replayed together.
#[derive(Debug, Clone, Default)]
pub enum Order {
    /// ORIG: whoever comes first.
    #[default]
    Free,
    /// ELSC: as recorded.
    Recorded(RecordedOrders),
    /// SYNC: by deterministic logical time, in chunks of so many nanoseconds.
    LogicalTime(f64),
}

/// How busy everything is, as shares of the wall time of all programs together, 0..1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Utilization {
    /// By lock: held.
    pub locks: Vec<f64>,
    /// By program and thread: on a CPU.
    pub threads: Vec<Vec<f64>>,
    /// All CPUs.
    pub cpus: f64,
}

/// How a program keeps to the order of a simulator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ordered {
    /// Whose acquisitions of locks, ends of waits on condition variables and decrements of
    /// semaphores come one after the other.
    pub turns: Vec<ThreadIx>,
    /// Share of the run time in which a thread that could run had no CPU, 0..1.
    pub crowded: f64,
}

impl Order {
    fn schedule(&self, program: usize) -> Schedule<'_> {
        match self {
            Self::Free => Schedule::Orig,
            Self::Recorded(orders) => orders
                .get(program)
                .map_or(Schedule::Orig, |of| Schedule::Elsc(of)),
            Self::LogicalTime(chunk_ns) => Schedule::Sync {
                chunk_ns: *chunk_ns,
            },
        }
    }
}

impl Simulator {
    /// With the scheduler's rules under which the recorded programs come closest to the recorded run.
    /// `times`: seeds of each variation of the machine.
    pub fn fitted(
        machine: &Machine,
        recorded: &[Program],
        fingerprint: &Fingerprint,
        times: u32,
    ) -> Self {
        let mut simulator = Self {
            machine: machine.clone(),
            rules: Rules::default(),
            order: Order::Free,
            seeds: (1..=u64::from(times.max(1))).collect(),
            cpus: None,
        };
        // The rules are those of the machine's scheduler: the largest window tells most of them.
        let largest = recorded.iter().max_by_key(|program| program.op_count());
        if let Some(program) = largest {
            let share = program.op_count() as f64
                / recorded.iter().map(Program::op_count).sum::<usize>().max(1) as f64;
            let of_it = Fingerprint {
                wall_ns: fingerprint.wall_ns * share.clamp(0.0, 1.0),
                ..*fingerprint
            };
            let options = simulator.options(0, 1);
            let target = if recorded.len() == 1 {
                fingerprint
            } else {
                &of_it
            };
            if let Ok(fit) = calibrate_rules(program, machine, &options, target, &[1]) {
                simulator.rules = fit.rules;
            }
        }
        simulator
    }

    /// The same machine with other CPUs.
    pub fn on_cpus(&self, cpus: u32) -> Self {
        Self {
            cpus: Some(cpus),
            ..self.clone()
        }
    }

    /// Enforces an order of acquisitions.
    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// How the program of this number among those replayed together is run, for one seed.
    pub fn options(&self, program: usize, seed: u64) -> Options<'_> {
        Options {
            schedule: self.order.schedule(program),
            seed,
            rules: self.rules,
            cpus: self.cpus,
            sections: false,
            order: false,
            max_ops: None,
        }
    }

    /// The order that is enforced.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// How a program runs in the order that is enforced. Under SYNC the turns at locks are the same
    /// whatever the machine's costs and the seed.
    ///
    /// # Errors
    ///
    /// The program does not end in this order, for people.
    pub fn ordered(&self, number: usize, program: &Program) -> Result<Ordered, String> {
        let options = Options {
            order: true,
            ..self.options(number, 1)
        };
        let outcome =
            sim::run(program, &self.machine, &options).map_err(|error| error.to_string())?;
        match outcome.stuck {
            Some(_) => Err(self.standstill(number, program)),
            None => Ok(Ordered {
                crowded: outcome.queued_ns / outcome.wall_ns.max(1.0),
                turns: outcome.order,
            }),
        }
    }

    /// Run times of the programs one after another, nanoseconds, with so many seeds and nothing
    /// else varied.
    ///
    /// # Errors
    ///
    /// A program does not end, for people.
    pub fn repeated(&self, programs: &[Program], seeds: u32) -> Result<Vec<f64>, String> {
        let wall = |seed: u32| {
            let mut wall_ns = 0.0;
            for (number, program) in programs.iter().enumerate() {
                let options = self.options(number, seed.into());
                let outcome = sim::run(program, &self.machine, &options);
                let outcome = outcome.map_err(|error| error.to_string())?;
                if outcome.stuck.is_some() {
                    return Err(self.standstill(number, program));
                }
                wall_ns += outcome.wall_ns;
            }
            Ok(wall_ns)
        };
        (1..=seeds).map(wall).collect()
    }

    /// Why a program does not end: what its threads wait for then.
    fn standstill(&self, number: usize, program: &Program) -> String {
        let outcome = sim::run(program, &self.machine, &self.options(number, 1)).ok();
        let stuck = outcome
            .and_then(|outcome| outcome.stuck)
            .unwrap_or_default();
        let waits = stuck.threads.iter().filter_map(|(thread, op)| {
            let ops = &program.threads.get(*thread as usize)?.ops;
            ops.get(*op as usize).map(standstill::waits_for)
        });
        format!("{}: {}", standstill::PREFIX, standstill::told(waits))
    }

    /// Waits for each lock, nanoseconds, in a run of these programs; `None` = one does not end.
    pub fn lock_waits(&self, programs: &[Program]) -> Option<Vec<(LockIx, f64)>> {
        let mut sums: Vec<f64> = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            let outcome = sim::run(program, &self.machine, &self.options(number, 1)).ok()?;
            sums.resize(sums.len().max(outcome.locks.len()), 0.0);
            for (sum, lock) in sums.iter_mut().zip(&outcome.locks) {
                *sum += lock.waited_ns;
            }
        }
        Some((0..).zip(sums).collect())
    }

    /// How busy everything is in a run of these programs; `None` = one does not end.
    pub fn utilization(&self, programs: &[Program]) -> Option<Utilization> {
        let mut of = Utilization::default();
        let mut wall_ns = 0.0;
        let mut cpu_ns = 0.0;
        for (number, program) in programs.iter().enumerate() {
            let outcome = sim::run(program, &self.machine, &self.options(number, 1)).ok()?;
            if outcome.stuck.is_some() {
                return None;
            }
            wall_ns += outcome.wall_ns;
            of.locks
                .resize(of.locks.len().max(outcome.locks.len()), 0.0);
            for (sum, lock) in of.locks.iter_mut().zip(&outcome.locks) {
                *sum += lock.hold_ns;
            }
            let threads: Vec<f64> = outcome.threads.iter().map(|thread| thread.cpu_ns).collect();
            cpu_ns += threads.iter().sum::<f64>();
            of.threads.push(threads);
        }
        let share = |ns: &mut f64| *ns /= f64::max(wall_ns, 1.0);
        of.locks.iter_mut().for_each(share);
        of.threads.iter_mut().flatten().for_each(share);
        let cpus = f64::from(self.cpus.unwrap_or(self.machine.cpus).max(1));
        of.cpus = cpu_ns / f64::max(wall_ns * cpus, 1.0);
        Some(of)
    }

    /// Wall time of these programs with all variations, nanoseconds; `None` = one does not end.
    pub fn wall_range(&self, programs: &[Program]) -> Option<Range> {
        let mut sum = Range {
            low: 0.0,
            mid: 0.0,
            high: 0.0,
        };
        for (number, program) in programs.iter().enumerate() {
            let options = self.options(number, 0);
            let range = sim::wall_range(program, &self.machine, &options, &self.seeds).ok()??;
            sum.low += range.low;
            sum.mid += range.mid;
            sum.high += range.high;
        }
        Some(sum)
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Replayer for Simulator {
    fn method(&self) -> Method {
        Method::ReplaySimulated
    }

    fn replay(&mut self, programs: &[Program]) -> Result<Replayed, String> {
        let mut walls_ns: Vec<f64> = Vec::new();
        let mut fingerprints = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            let options = self.options(number, 0);
            let walls = sim::varied_walls(program, &self.machine, &options, &self.seeds)
                .map_err(|error| error.to_string())?;
            let walls: Vec<f64> = walls.into_iter().flatten().collect();
            if walls.iter().all(|wall| wall.is_nan()) {
                return Err(self.standstill(number, program));
            }
            walls_ns.resize(walls.len(), 0.0);
            for (sum, wall) in walls_ns.iter_mut().zip(walls) {
                *sum += wall;
            }
            let runs = sim::run_many(program, &self.machine, &options, &self.seeds[..1])
                .map_err(|error| error.to_string())?;
            fingerprints.push(runs.fingerprint);
        }
        let mut fingerprint = Fingerprint::mean(fingerprints.iter().copied());
        fingerprint.wall_ns = fingerprints.iter().map(|one| one.wall_ns).sum();
        fingerprint.voluntary = fingerprints.iter().map(|one| one.voluntary).sum();
        fingerprint.involuntary = fingerprints.iter().map(|one| one.involuntary).sum();
        Ok(Replayed {
            walls_ns,
            paired: true,
            fingerprint: Some(fingerprint),
        })
    }
}
