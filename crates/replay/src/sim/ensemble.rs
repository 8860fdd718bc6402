//! Several runs of a program: how stable its time is, and how much it depends on what the
//! calibration does not know for sure.

use super::run;
use super::Options;
use super::Outcome;
use super::SimError;
use crate::fidelity::Fingerprint;
use crate::machine::Machine;
use crate::parallel;
use crate::program::Program;

/// Runs of one program that differ by their seeds (the paper's figure 13).
#[derive(Debug, Clone, PartialEq)]
pub struct Runs {
    /// Wall time of each run that ended, nanoseconds, ascending.
    pub walls_ns: Vec<f64>,
    /// Runs that did not end: see [`Outcome::stuck`].
    pub stuck: usize,
    /// The run with the median wall time; if none ended, the first.
    pub median: Outcome,
    /// Mean fingerprint of the runs that ended.
    pub fingerprint: Fingerprint,
}

impl Runs {
    /// (max - min) / median of the wall times: 0 for one run, or none.
    pub fn spread(&self) -> f64 {
        match self.walls_ns[..] {
            [first, .., last] if self.median.wall_ns > 0.0 => (last - first) / self.median.wall_ns,
            _ => 0.0,
        }
    }
}

/// Runs a program once for each seed; `options.seed` is not used.
///
/// # Errors
///
/// As [`run`]; and [`SimError::NoSeed`].
pub fn run_many(
    program: &Program,
    machine: &Machine,
    options: &Options<'_>,
    seeds: &[u64],
) -> Result<Runs, SimError> {
    let mut ended: Vec<Outcome> = Vec::new();
    let mut first_stuck = None;
    let mut stuck = 0;
    for &seed in seeds {
        let outcome = run(program, machine, &Options { seed, ..*options })?;
        if outcome.stuck.is_some() {
            stuck += 1;
            first_stuck.get_or_insert(outcome);
        } else {
            ended.push(outcome);
        }
    }
    ended.sort_by(|a, b| a.wall_ns.total_cmp(&b.wall_ns));
    let fingerprint = Fingerprint::mean(ended.iter().map(Fingerprint::of));
    let walls_ns: Vec<f64> = ended.iter().map(|outcome| outcome.wall_ns).collect();
    let median = match ended.len() {
        0 => first_stuck.ok_or(SimError::NoSeed)?,
        count => ended.swap_remove(count / 2),
    };
    Ok(Runs {
        walls_ns,
        stuck,
        median,
        fingerprint,
    })
}

/// Low, mid, high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least of all variations.
    pub low: f64,
    /// Median of the runs without a variation.
    pub mid: f64,
    /// The most of all variations.
    pub high: f64,
}

/// What the calibration may be wrong about, one thing at a time; the first is the machine as it is,
/// with the rule for preemption by woken threads.
///
/// System calls are measured without contention, but used where several CPUs work on the same futex
/// bucket and cache lines: how long they take decides between a failed wait and a parked thread.
fn variations(machine: &Machine, options: &Options<'_>) -> Vec<(Machine, f64)> {
    let preemption = options.rules.wakeup_preemption;
    let mut all = vec![(machine.clone(), preemption)];
    let mut vary = |factors: [f64; 2], change: fn(&mut Machine, f64)| {
        for factor in factors {
            let mut varied = machine.clone();
            change(&mut varied, factor);
            all.push((varied, preemption));
        }
    };
    vary([0.7, 1.4], |machine, factor| {
        for row in &mut machine.wake_latency {
            row.p10_ns *= factor;
            row.p50_ns *= factor;
            row.p90_ns *= factor;
        }
    });
    vary([0.5, 2.0], |machine, factor| {
        let varied = machine.atomic_remote_ns * factor;
        machine.atomic_remote_ns = varied.max(machine.atomic_local_ns);
    });
    vary([0.6, 1.6], |machine, factor| {
        machine.futex_check_ns *= factor;
        machine.futex_eagain_ns *= factor;
        machine.futex_wake_none_ns *= factor;
    });
    vary([0.5, 2.0], |machine, factor| {
        machine.futex_block_ns *= factor
    });
    for other in [preemption - 0.2, preemption + 0.2] {
        all.push((machine.clone(), other.clamp(0.0, 1.0)));
    }
    all
}

/// Wall time of each variation (see [`wall_range`]; the first is none) and seed, nanoseconds; NaN
/// where the run did not end.
///
/// # Errors
///
/// As [`run`].
pub fn varied_walls(
    program: &Program,
    machine: &Machine,
    options: &Options<'_>,
    seeds: &[u64],
) -> Result<Vec<Vec<f64>>, SimError> {
    let variations = variations(machine, options);
    let walls = parallel::map(variations.len() * seeds.len(), |number| {
        let (machine, wakeup_preemption) = &variations[number / seeds.len()];
        let mut options = Options {
            seed: seeds[number % seeds.len()],
            ..*options
        };
        options.rules.wakeup_preemption = *wakeup_preemption;
        let outcome = run(program, machine, &options)?;
        Ok(match outcome.stuck {
            Some(_) => f64::NAN,
            None => outcome.wall_ns,
        })
    });
    let walls: Vec<f64> = walls.into_iter().collect::<Result<_, SimError>>()?;
    Ok(walls
        .chunks(seeds.len().max(1))
        .map(<[f64]>::to_vec)
        .collect())
}

/// `None` if no run without a variation ended.
fn range_of(values: &[Vec<f64>]) -> Option<Range> {
    let mut unvaried: Vec<f64> = values
        .first()?
        .iter()
        .copied()
        .filter(|v| !v.is_nan())
        .collect();
    unvaried.sort_by(f64::total_cmp);
    let mid = *unvaried.get(unvaried.len() / 2)?;
    // min and max leave out what is no number.
    let all = values.iter().flatten().copied();
    let (low, high) = all.fold((mid, mid), |(low, high), v| (low.min(v), high.max(v)));
    Some(Range { low, mid, high })
}

/// Range of the wall time, nanoseconds, when wake-ups take 0.7 to 1.4 times, remote atomic
/// operations 0.5 to 2 times, futex calls 0.6 to 1.6 times, blocking 0.5 to 2 times as long as
/// calibrated, and woken threads preempt 0.2 less or more often. `None` if the program comes to a
/// standstill. Eleven runs a seed.
///
/// # Errors
///
/// As [`run`].
pub fn wall_range(
    program: &Program,
    machine: &Machine,
    options: &Options<'_>,
    seeds: &[u64],
) -> Result<Option<Range>, SimError> {
    Ok(range_of(&varied_walls(program, machine, options, seeds)?))
}

/// Range of the share of the wall time that a what-if saves, negative where it costs: both programs
/// under the same variations and seeds. 22 runs a seed.
///
/// # Errors
///
/// As [`run`].
pub fn saved_range(
    base: &Program,
    what_if: &Program,
    machine: &Machine,
    options: &Options<'_>,
    seeds: &[u64],
) -> Result<Option<Range>, SimError> {
    let base = varied_walls(base, machine, options, seeds)?;
    let what_if = varied_walls(what_if, machine, options, seeds)?;
    // Medians of a variation, not pairs of runs: seeds are no pairs.
    let saved = base.iter().zip(&what_if).map(|(base, what_if)| {
        let base = range_of(std::slice::from_ref(base))?;
        let what_if = range_of(std::slice::from_ref(what_if))?;
        Some(1.0 - what_if.mid / base.mid)
    });
    let saved: Vec<Vec<f64>> = saved.map(|saved| vec![saved.unwrap_or(f64::NAN)]).collect();
    Ok(range_of(&saved))
}
