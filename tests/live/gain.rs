//! The gain that was predicted from the broken program, against the one that the fixed program has.

use convoy_harness::case::Scratch;
use convoy_harness::{check, turn, Result};

use crate::expect::Expect;
use crate::finding::{findings, Gain};
use crate::fixture::{number, record, truth};
use crate::launch::{launch, Launch};

/// Runs of each program: broken and fixed in turn, so that a slow minute of the machine hits both.
const PAIRS: usize = 3;

/// The interval, widened by the fixture's slack, contains the measured speed-up.
pub fn predicted(expect: &Expect, variant: &str, scratch: &Scratch) -> Result {
    let (broken, fixed) = (
        launch(expect, variant, false)?,
        launch(expect, variant, true)?,
    );
    let slack = expect.gain.map_or(0.0, |g| g.slack);
    let _turn = turn::alone();
    turn::retry(|| {
        let gain = prediction(expect, &broken, scratch)?;
        let measured = speed_up(&broken, &fixed, scratch)?;
        agrees(&gain, measured, slack)
    })
}

fn prediction(expect: &Expect, broken: &Launch, scratch: &Scratch) -> Result<Gain> {
    let findings = findings(&record(broken, scratch)?.report)?;
    let first = findings
        .into_iter()
        .find(|f| Some(&f.id) == expect.finding.as_ref());
    first
        .map(|f| f.gain)
        .ok_or_else(|| "not found at all".to_owned())
}

fn agrees(gain: &Gain, measured: f64, slack: f64) -> Result {
    let (low, high) = (
        gain.low_ratio / (1.0 + slack),
        gain.high_ratio * (1.0 + slack),
    );
    check!(
        low <= measured && measured <= high,
        "measured {measured:.2}, predicted {:.2} to {:.2} (expected {:.2})",
        gain.low_ratio,
        gain.high_ratio,
        gain.mid_ratio
    );
    Ok(())
}

/// Median over pairs of the ratio of the programs' own wall times.
fn speed_up(broken: &Launch, fixed: &Launch, scratch: &Scratch) -> Result<f64> {
    let mut ratios = Vec::new();
    for _ in 0..PAIRS {
        let slow = number(&truth(&mut broken.bare(), scratch, "broken")?, "wall_ns")?;
        let fast = number(&truth(&mut fixed.bare(), scratch, "fixed")?, "wall_ns")?;
        ratios.push(slow as f64 / fast.max(1) as f64);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[PAIRS / 2])
}
