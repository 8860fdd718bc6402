//! `convoy causal`: the slow stage of a pipeline comes first, hot code that others wait for anyway
//! is worth nothing, and the program stays what it is.

use std::path::PathBuf;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("causal/pipeline", None, slow_stage_comes_first),
        trial(
            "causal/decoy",
            None,
            code_off_the_critical_path_is_worth_nothing,
        ),
        trial(
            "causal/short",
            None,
            a_short_program_is_told_how_long_it_must_run,
        ),
        trial("causal/status", None, output_and_status_are_the_program_s),
    ]
}

fn program(name: &str) -> Result<PathBuf> {
    compile(&root().join("bench/programs").join(name), &[])
}

/// Runs a program under experiments; its end and the report.
fn experiment(
    scratch: &Scratch,
    options: &[&str],
    program: &PathBuf,
    arguments: &[&str],
) -> Result<(Outcome, Value)> {
    let file = scratch.path("report.json");
    let mut command = convoy::causal(options, &file)?;
    command.arg(program).args(arguments);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    let text = std::fs::read_to_string(&file)
        .map_err(|e| format!("{}: {e}; {}", file.display(), outcome.stderr))?;
    let report = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    Ok((outcome, report))
}

fn targets(report: &Value) -> &[Value] {
    report["targets"].as_array().map_or(&[], Vec::as_slice)
}

/// What a target that is half as fast again saves: bounds of the share of the run.
fn saved(report: &Value, name: &str) -> Result<(f64, f64)> {
    let row = targets(report).iter().find(|row| row["name"] == name);
    let row = row.ok_or_else(|| format!("no target {name}: {report}"))?;
    let bound = |bound: &str| row["at"][1]["saved_share"][bound].as_f64();
    match (bound("low"), bound("high")) {
        (Some(low), Some(high)) => Ok((low, high)),
        _ => Err(format!("no number for {name}: {report}")),
    }
}

fn slow_stage_comes_first(scratch: &Scratch) -> Result {
    let program = program("stages.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--budget", "4s", "--target", "fn:read_item"];
        let options = [&options[..], &["--target", "fn:transform_item"]].concat();
        let (outcome, report) = experiment(scratch, &options, &program, &["items=60000"])?;
        check!(outcome.end == End::Status(0), "{:?}", outcome.end);
        let (low, _) = saved(&report, "transform_item")?;
        check!(low > 0.1, "it decides the pace: {report}");
        check!(
            targets(&report)[0]["name"] == "transform_item",
            "not the first: {report}"
        );
        Ok(())
    })
}

fn code_off_the_critical_path_is_worth_nothing(scratch: &Scratch) -> Result {
    let program = program("decoy.c")?;
    let _turn = turn::alone();
    turn::retry(|| {
        let options = ["--budget", "4s", "--target", "fn:light_work"];
        let (_, report) = experiment(scratch, &options, &program, &["rounds=25000"])?;
        let (low, _) = saved(&report, "light_work")?;
        check!(low <= 0.05, "promised for nothing: {report}");
        Ok(())
    })
}

fn a_short_program_is_told_how_long_it_must_run(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let (outcome, report) = experiment(
        scratch,
        &[],
        &program("critical_section.c")?,
        &["rounds=1000"],
    )?;
    check!(outcome.end == End::Status(0), "{:?}", outcome.end);
    let reason = report["reason"].as_str().unwrap_or_default();
    check!(
        reason.starts_with("the program ended after") && reason.contains("need about"),
        "{report}"
    );
    Ok(())
}

/// Samples, sleeps and spins reach a program that prints, fails and has a handler of its own.
fn output_and_status_are_the_program_s(scratch: &Scratch) -> Result {
    let program = compile(&root().join("tests/live/programs/interrupted.c"), &[])?;
    let _turn = turn::shared();
    let options = ["--budget", "2s", "--target", "fn:compute"];
    let (outcome, report) = experiment(scratch, &options, &program, &[])?;
    check!(
        outcome.end == End::Status(3),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(
        outcome.stdout == "interrupted 0\nsum ok\n",
        "{}",
        outcome.stdout
    );
    check!(
        report["windows"].as_u64() > Some(0),
        "no experiment was made: {report}"
    );
    Ok(())
}
