//! Fixtures under `convoy replay`: the kinds of unnecessary contention, and each what-if against the
//! twin that has this fix, measured in the same test.

use std::fs;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, turn, Result};
use libtest_mimic::Trial;
use serde::Deserialize;

use crate::expect::Expect;
use crate::fixture::{number, truth, truth_of};
use crate::launch::{launch, Launch};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs of the fixture and of its twin, in turn. Even: the halves show how far the truth itself varies.
const PAIRS: usize = 8;

/// The expected kinds of pairs make up this share of all pairs at least.
const MIN_CLASS_SHARE: f64 = 0.5;

/// Kinds of pairs of critical sections.
const CLASSES: [&str; 5] = [
    "null-lock",
    "read-read",
    "disjoint-write",
    "benign",
    "true-contention",
];

/// `[replay]` of a fixture's `expect.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The lock's symbol.
    pub lock: String,
    /// Kinds that must be found and together be the majority of all pairs, see [`CLASSES`].
    #[serde(default)]
    pub classes: Vec<String>,
    /// No number may be shown for the what-ifs.
    #[serde(default)]
    pub refused: bool,
    /// Fixes and their twins.
    #[serde(rename = "what_if")]
    pub what_ifs: Vec<WhatIf>,
}

/// A what-if and the program that has this fix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// As `--what-if` takes it.
    pub query: String,
    /// Flags of the compiler that make the twin.
    #[serde(default = "fixed")]
    pub twin: Vec<String>,
    /// How far the predicted share of the run's time may miss the measured one, in percentage points; the
    /// truth's own spread, where that is larger.
    #[serde(default = "twenty")]
    pub points: f64,
}

fn fixed() -> Vec<String> {
    vec!["-DFX_FIXED".to_owned()]
}

fn twenty() -> f64 {
    20.0
}

/// The part of `convoy replay --format json` that the tests look at.
#[derive(Debug, Clone, Deserialize)]
struct Answer {
    fidelity: Vec<Fidelity>,
    ulcp: Ulcp,
    locks: Vec<Lock>,
    regions: Vec<Region>,
    what_ifs: Vec<Predicted>,
}

/// The recorded run, and the same run replayed unchanged.
#[derive(Debug, Clone, Deserialize)]
struct Fidelity {
    method: String,
    recorded_ns: f64,
    /// `None`: refused.
    replayed_ns: Option<f64>,
}

/// A lock of the trace.
#[derive(Debug, Clone, Deserialize)]
struct Lock {
    name: String,
    /// `None`: its sections were not looked into.
    ulcp: Option<Ulcp>,
}

/// Pairs of critical sections by kind.
#[derive(Debug, Clone, Deserialize)]
struct Ulcp {
    acquisitions: u64,
    null_lock: u64,
    read_read: u64,
    disjoint_write: u64,
    benign: u64,
    true_contention: u64,
}

/// A code region with unnecessary contention.
#[derive(Debug, Clone, Deserialize)]
struct Region {
    /// Share of all regions' possible gain (eq. 2).
    p: f64,
}

/// One method's answer to a what-if.
#[derive(Debug, Clone, Deserialize)]
struct Predicted {
    query: String,
    method: String,
    /// `None`: refused.
    saved_share: Option<Share>,
}

/// A share of the run's wall time.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Share {
    low: f64,
    mid: f64,
    /// `None`: nothing bounds it.
    high: Option<f64>,
}

impl Replay {
    /// The table asks for something that can fail.
    pub fn check(&self) -> Result {
        check!(
            !self.what_ifs.is_empty(),
            "[replay] needs at least one [[replay.what_if]]"
        );
        check!(
            self.refused || !self.classes.is_empty(),
            "[replay] needs classes, or refused = true"
        );
        let names_lock = |what_if: &WhatIf| what_if.query.contains(&self.lock);
        check!(
            self.what_ifs.iter().any(names_lock),
            "no what-if is about {}",
            self.lock
        );
        let unknown = self.classes.iter().find(|c| !CLASSES.contains(&c.as_str()));
        check!(unknown.is_none(), "no such class: {unknown:?}");
        Ok(())
    }
}

impl Ulcp {
    fn of(&self, class: &str) -> u64 {
        match class {
            "null-lock" => self.null_lock,
            "read-read" => self.read_read,
            "disjoint-write" => self.disjoint_write,
            "benign" => self.benign,
            _ => self.true_contention,
        }
    }

    fn pairs(&self) -> u64 {
        CLASSES.iter().map(|class| self.of(class)).sum()
    }
}

/// One test for each variant of a fixture with a `[replay]` table.
/// What is about the command itself.
pub fn of_the_command() -> Trial {
    measured(
        "replay/once",
        None,
        a_program_without_locks_is_not_run_again,
    )
}

/// It has no critical sections to look into.
fn a_program_without_locks_is_not_run_again(scratch: &Scratch) -> Result {
    let mut command = Command::new(convoy::binary()?);
    command.args(["replay", "--report-to", "report", "--"]);
    command.args(["sh", "-c", "echo ran >> runs"]);
    let outcome = run(&mut command, scratch.dir(), "replay", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}\n{}",
        outcome.end,
        outcome.stderr
    );
    let runs = fs::read_to_string(scratch.path("runs")).map_err(|e| e.to_string())?;
    check!(runs == "ran\n", "it ran {} times", runs.lines().count());
    let report = fs::read_to_string(scratch.path("report")).map_err(|e| e.to_string())?;
    check!(report.contains("Verdict"), "no verdict:\n{report}");
    Ok(())
}

pub fn trials(expect: &Expect) -> Vec<Trial> {
    let Some(replay) = &expect.replay else {
        return Vec::new();
    };
    let variants = expect.variants.iter();
    let one = |variant: &String| {
        let (expect, replay, variant) = (expect.clone(), replay.clone(), variant.clone());
        let name = format!("{}/{variant}/replay", expect.category);
        let needs = expect.missing(&variant);
        measured(name, needs, move |scratch| {
            let _turn = turn::alone();
            turn::retry(|| judge(&expect, &replay, &variant, scratch))
                .map_err(|e| format!("{e}\n({})", expect.title))
        })
    };
    variants.map(one).collect()
}

fn judge(expect: &Expect, replay: &Replay, variant: &str, scratch: &Scratch) -> Result {
    let base = launch(expect, variant, false)?;
    let answer = ask(&base, replay, scratch)?;
    if !replay.refused {
        has_classes(replay, &answer)?;
    }
    for what_if in &replay.what_ifs {
        let predicted = combined(&answer, &what_if.query);
        if replay.refused {
            check!(
                predicted.is_none(),
                "{}: must be refused, not {predicted:?}",
                what_if.query
            );
            continue;
        }
        let Some(predicted) = predicted else {
            // A recorded run that no replay gives back, on a machine that others use: no number is
            // right.
            continue;
        };
        let mut expect = expect.clone();
        expect.flags.extend(what_if.twin.iter().cloned());
        let twin = launch(&expect, variant, false)?;
        agrees(what_if, predicted, Saved::measure(&base, &twin, scratch)?)?;
    }
    Ok(())
}

/// Runs the fixture under `convoy replay` with all its what-ifs.
fn ask(base: &Launch, replay: &Replay, scratch: &Scratch) -> Result<Answer> {
    let report = scratch.path("replay.json");
    let mut command = Command::new(convoy::binary()?);
    command.args(["replay", "--quiet", "--format", "json", "--report-to"]);
    command.arg(&report);
    command.arg("-o").arg(scratch.path("run.convoy"));
    for what_if in &replay.what_ifs {
        command.args(["--what-if", &what_if.query]);
    }
    command.arg("--");
    let outcome = run(&mut base.under(command), scratch.dir(), "replay", TIMEOUT)?;
    truth_of(&outcome)?;
    let text = fs::read_to_string(&report).map_err(|e| format!("{}: {e}", report.display()))?;
    let answer: Answer =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", report.display()))?;
    check!(!answer.fidelity.is_empty(), "no fidelity: {answer:?}");
    for f in &answer.fidelity {
        check!(
            f.recorded_ns > 0.0 && f.replayed_ns.is_none_or(|ns| ns > 0.0),
            "fidelity of {}: {f:?}",
            f.method
        );
    }
    for (i, row) in answer.what_ifs.iter().enumerate() {
        let same = |other: &Predicted| other.query == row.query && other.method == row.method;
        let is_repeated = answer.what_ifs[..i].iter().any(same);
        check!(!is_repeated, "two answers of one method: {row:?}");
    }
    Ok(answer)
}

fn has_classes(replay: &Replay, answer: &Answer) -> Result {
    let lock = answer.locks.iter().find(|lock| lock.name == replay.lock);
    let of_lock = lock.and_then(|lock| lock.ulcp.as_ref());
    let Some(ulcp) = of_lock else {
        return Err(format!("no pairs of {}: {answer:?}", replay.lock));
    };
    check!(
        ulcp.acquisitions <= answer.ulcp.acquisitions,
        "more acquisitions of {} than of all locks: {answer:?}",
        replay.lock
    );
    check!(ulcp.acquisitions > 0, "no acquisitions: {ulcp:?}");
    let mut expected = 0;
    for class in &replay.classes {
        check!(ulcp.of(class) > 0, "no pairs of kind {class}: {ulcp:?}");
        expected += ulcp.of(class);
    }
    let share = expected as f64 / ulcp.pairs() as f64;
    check!(
        share >= MIN_CLASS_SHARE,
        "{:?} are {share:.2} of the pairs: {ulcp:?}",
        replay.classes
    );
    let ranked = answer.regions.windows(2).all(|two| two[0].p >= two[1].p);
    check!(ranked, "regions are not ranked: {:?}", answer.regions);
    Ok(())
}

/// All methods together. `None`: no number.
fn combined(answer: &Answer, query: &str) -> Option<Share> {
    let mut rows = answer.what_ifs.iter();
    rows.find(|w| w.query == query && w.method == "combined")?
        .saved_share
}

/// What a fix saves, measured: shares of the run's wall time.
#[derive(Debug, Clone, Copy)]
struct Saved {
    share: f64,
    /// Difference between two halves of the pairs.
    spread: f64,
}

impl Saved {
    fn measure(base: &Launch, twin: &Launch, scratch: &Scratch) -> Result<Self> {
        let (mut slow, mut fast) = (Vec::new(), Vec::new());
        let wall = |program: &Launch, tag: &str| {
            number(&truth(&mut program.bare(), scratch, tag)?, "wall_ns")
        };
        for pair in 0..PAIRS {
            // In alternating order: what one leaves behind is the next one's.
            if pair % 2 == 0 {
                slow.push(wall(base, "broken")?);
                fast.push(wall(twin, "twin")?);
            } else {
                fast.push(wall(twin, "twin")?);
                slow.push(wall(base, "broken")?);
            }
        }
        let saved = |of: fn(usize) -> bool| {
            let part = |all: &[u64]| median(all.iter().enumerate().filter(|(i, _)| of(*i)));
            1.0 - part(&fast) / part(&slow)
        };
        Ok(Self {
            share: saved(|_| true),
            spread: (saved(|i| i < PAIRS / 2) - saved(|i| i >= PAIRS / 2)).abs(),
        })
    }
}

fn median<'a>(values: impl Iterator<Item = (usize, &'a u64)>) -> f64 {
    let mut values: Vec<u64> = values.map(|(_, v)| *v).collect();
    values.sort_unstable();
    let middle = values.len() / 2;
    (values[(values.len() - 1) / 2] + values[middle]) as f64 / 2.0
}

fn agrees(what_if: &WhatIf, predicted: Share, measured: Saved) -> Result {
    let allowed = (what_if.points / 100.0).max(measured.spread);
    let error = predicted.mid - measured.share;
    check!(
        error.abs() <= allowed,
        "{}: predicted {predicted:?}, measured {measured:?}: off by {error:.3}",
        what_if.query
    );
    let high = predicted.high.unwrap_or(1.0);
    check!(
        (predicted.low - allowed..=high + allowed).contains(&measured.share),
        "{}: {predicted:?} does not hold {measured:?}",
        what_if.query
    );
    Ok(())
}
