//! Choice of the scheduler's rules by the recorded run: the baseline is replayed first.

use super::run_many;
use super::Options;
use super::Rules;
use super::Runs;
use super::SimError;
use crate::fidelity::Fingerprint;
use crate::machine::Machine;
use crate::program::Program;

/// Rules that replay the baseline best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The rules.
    pub rules: Rules,
    /// Distance of the replayed baseline from the recorded one, see [`Fingerprint::distance`].
    pub residual: f64,
    /// The replayed baseline.
    pub replayed: Fingerprint,
}

/// Good enough: below the spread of recorded runs, a better fit would be one of noise.
const MIN_RESIDUAL: f64 = 0.02;
/// Operations of a run at most: the beginning of a longer program stands for all of it.
const MAX_OPS: u64 = 2_000_000;

/// Chooses the rules under which the *recorded* program comes closest to the recorded run. What-ifs
/// are then replayed with these, unseen. One rule at a time is varied, two rounds at most: some 25
/// runs a seed, and one a seed where threads never wait for a CPU.
///
/// # Errors
///
/// As [`super::run`]; a program that comes to a standstill gives an infinite residual.
pub fn calibrate_rules(
    program: &Program,
    machine: &Machine,
    options: &Options<'_>,
    recorded: &Fingerprint,
    seeds: &[u64],
) -> Result<Calibration, SimError> {
    let max_ops = options.max_ops.unwrap_or(MAX_OPS);
    let ops = program.op_count() as f64;
    let attempt = |rules: Rules| -> Result<(Calibration, Runs), SimError> {
        let options = Options {
            rules,
            max_ops: Some(max_ops),
            ..*options
        };
        let runs = run_many(program, machine, &options, seeds)?;
        let part = runs.median.ops as f64 / ops;
        let replayed = match runs.median.is_cut {
            true => runs.fingerprint.scaled(1.0 / part),
            false => runs.fingerprint,
        };
        let residual = match runs.walls_ns.is_empty() {
            true => f64::INFINITY,
            false => recorded.distance(&replayed),
        };
        Ok((
            Calibration {
                rules,
                residual,
                replayed,
            },
            runs,
        ))
    };
    let (mut best, runs) = attempt(options.rules)?;
    if runs.median.queued == 0 {
        return Ok(best);
    }
    for _ in 0..2 {
        let before = best.residual;
        for rules in best.rules.candidates() {
            if best.residual <= MIN_RESIDUAL {
                return Ok(best);
            }
            let (other, _) = attempt(rules)?;
            if other.residual < best.residual {
                best = other;
            }
        }
        if best.residual >= before {
            break;
        }
    }
    Ok(best)
}
