//! The tests of one fixture: it is found, its twin is clean, and the gain was predicted.

use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, convoy, profile, turn, Result};
use convoy_profile::Profile;
use libtest_mimic::Trial;
use serde_json::Value;

use crate::expect::{loop_lines, Expect};
use crate::finding::{findings, list};
use crate::launch::{launch, Launch};
use crate::{attach, gain, laws};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A finding of a fixed program that promises less is the noise of preempted threads.
const WORTH: f64 = 1.10;

/// The tests of all variants.
pub fn trials(expect: &Expect) -> Vec<Trial> {
    let mut trials = Vec::new();
    for variant in &expect.variants {
        let mut add = |test: &str, body: fn(&Expect, &str, &Scratch) -> Result| {
            let (expect, variant) = (expect.clone(), variant.clone());
            let name = format!("{}/{variant}/{test}", expect.category);
            let needs = expect.missing(&variant);
            trials.push(measured(name, needs, move |scratch| {
                body(&expect, &variant, scratch).map_err(|e| format!("{e}\n({})", expect.title))
            }));
        };
        add("found", found);
        add("exact", exact);
        if expect.twin {
            add("fixed-is-clean", fixed_is_clean);
        }
        if expect.gain.is_some() {
            add("gain", gain::predicted);
        }
        if expect.attach.is_some() {
            add("attach", attach::found);
        }
    }
    trials
}

/// A fixture that ran under a recording.
pub struct Recording {
    /// What the program measured of itself.
    pub truth: Value,
    /// What was recorded.
    pub profile: Profile,
    /// What was made of it.
    pub report: Value,
}

/// The program's JSON line. The run must have been a success.
pub fn truth(command: &mut Command, scratch: &Scratch, tag: &str) -> Result<Value> {
    let outcome = run(command, scratch.dir(), tag, TIMEOUT)?;
    truth_of(&outcome).map_err(|e| format!("{command:?}: {e}"))
}

/// The same of a run that is over.
pub fn truth_of(outcome: &Outcome) -> Result<Value> {
    let ok = outcome.end == End::Status(0) && outcome.stdout.ends_with("EXIT-SUCCESS\n");
    check!(
        ok,
        "{:?}\n{}{}",
        outcome.end,
        outcome.stdout,
        outcome.stderr
    );
    let line = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap_or_default();
    serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))
}

/// A number of the program's own.
pub fn number(truth: &Value, key: &str) -> Result<u64> {
    truth
        .get(key)
        .and_then(Value::as_u64)
        .ok_or_else(|| format!("the program does not say {key}: {truth}"))
}

/// Records a program and reports it.
pub fn record(program: &Launch, scratch: &Scratch) -> Result<Recording> {
    let file = scratch.path("run.convoy");
    let mut command = program.under(convoy::record(&file)?);
    let truth = truth(&mut command, scratch, "convoy")?;
    let recording = Recording {
        truth,
        profile: convoy::read(&file)?,
        report: convoy::report(&file, scratch.dir())?,
    };
    laws::hold(&recording)?;
    Ok(recording)
}

fn found(expect: &Expect, variant: &str, scratch: &Scratch) -> Result {
    let program = launch(expect, variant, false)?;
    let _turn = turn::alone();
    turn::retry(|| {
        let recording = record(&program, scratch)?;
        ranked_first(
            expect,
            expect.finding.as_ref(),
            variant,
            &recording.truth,
            &recording.report,
        )?;
        wait_is_near(expect, &recording)
    })
}

/// The finding `id` comes first, names what it must, and the others are allowed to be there.
pub fn ranked_first(
    expect: &Expect,
    id: Option<&String>,
    variant: &str,
    truth: &Value,
    report: &Value,
) -> Result {
    let all = findings(report)?;
    let (Some(id), Some(culprit)) = (id, &expect.culprit) else {
        return only(&all, &expect.allow);
    };
    // What says the same from the other side may have more gain.
    let at = all
        .iter()
        .position(|f| f.id == *id || !expect.beside.contains(&f.id));
    let first = at
        .and_then(|at| all.get(at))
        .ok_or_else(|| format!("expected {id}, not only:\n{}", list(&all)))?;
    check!(
        first.id == *id,
        "{id} is not the first finding:\n{}",
        list(&all)
    );
    let words = first.words();
    let mut names: Vec<String> = vec![culprit.clone()];
    names.extend(expect.names.iter().cloned());
    for key in &expect.names_truth {
        names.push(number(truth, key)?.to_string());
    }
    for name in names {
        check!(words.contains(&name), "{name} is not named:\n{words}");
    }
    if expect.loop_line {
        let lines = loop_lines(&expect.source(variant))?;
        check!(
            lines.iter().any(|line| words.contains(line.as_str())),
            "none of {lines:?} is named:\n{words}"
        );
    }
    let allowed = [expect.allow.as_slice(), &expect.beside].concat();
    let others: Vec<_> = all
        .iter()
        .filter(|f| f.rank != first.rank)
        .cloned()
        .collect();
    only(&others, &allowed)?;
    match &expect.best {
        Some(best) => assignment_is_offered(best, report),
        None => Ok(()),
    }
}

/// No findings but those allowed.
fn only(findings: &[crate::finding::Finding], allowed: &[String]) -> Result {
    let others: Vec<_> = findings
        .iter()
        .filter(|f| !allowed.contains(&f.id))
        .cloned()
        .collect();
    check!(
        others.is_empty(),
        "findings that should not be there:\n{}",
        list(&others)
    );
    Ok(())
}

/// The assignment with the best throughput has these numbers of threads, whatever the order of the groups.
fn assignment_is_offered(best: &[u32], report: &Value) -> Result {
    let mut options: Vec<(f64, Vec<u64>)> = report["assignments"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|a| a["options"].as_array().into_iter().flatten())
        .map(|o| {
            let counts = o["threads_counts"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .collect();
            (o["throughput_ratio"].as_f64().unwrap_or(0.0), counts)
        })
        .collect();
    options.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut expected: Vec<u64> = best.iter().map(|n| u64::from(*n)).collect();
    expected.sort_unstable();
    let offered = options.iter().any(|(_, counts)| {
        let mut counts = counts.clone();
        counts.sort_unstable();
        counts == expected
    });
    check!(offered, "{best:?} is not among the assignments {options:?}");
    Ok(())
}

fn wait_is_near(expect: &Expect, recording: &Recording) -> Result {
    let Some(wait) = &expect.wait else {
        return Ok(());
    };
    let function = wait
        .function
        .as_deref()
        .or(expect.culprit.as_deref())
        .unwrap_or_default();
    let own = number(&recording.truth, "wait_ns")?;
    let found = profile::waits(&recording.profile, function).sum_ns;
    let tolerance = wait.abs_ns.max((own as f64 * wait.rel) as u64);
    check!(
        found.abs_diff(own) <= tolerance,
        "{function}: waited {own} ns by its own clock, {found} ns by the profile; more than {tolerance} ns apart"
    );
    Ok(())
}

/// Counts do not depend on the schedule: they are right in every run.
fn exact(expect: &Expect, variant: &str, scratch: &Scratch) -> Result {
    let program = launch(expect, variant, false)?;
    let _turn = turn::shared();
    let recording = record(&program, scratch)?;
    for exact in expect
        .exact
        .iter()
        .filter(|e| e.variants.is_empty() || e.variants.iter().any(|v| v == variant))
    {
        let op = profile::op(&exact.op).ok_or_else(|| format!("no operation {}", exact.op))?;
        let calls = profile::calls(&recording.profile, &exact.function, op);
        let own = number(&recording.truth, &exact.truth)? * exact.per_call;
        check!(
            calls.n == own,
            "{}: {} of {own} {} recorded",
            exact.function,
            calls.n,
            exact.op
        );
        if let Some(failed) = &exact.failed {
            let own = number(&recording.truth, failed)?;
            check!(
                calls.failed == own,
                "{}: {} of {own} failures recorded",
                exact.function,
                calls.failed
            );
        }
    }
    Ok(())
}

fn fixed_is_clean(expect: &Expect, variant: &str, scratch: &Scratch) -> Result {
    let program = launch(expect, variant, true)?;
    let _turn = turn::alone();
    turn::retry(|| {
        let mut left = findings(&record(&program, scratch)?.report)?;
        left.retain(|finding| finding.gain.mid_ratio >= WORTH);
        only(&left, &expect.allow_fixed)
    })
}
