//! `convoy try` and `convoy investigate`: mutexes keep their semantics while threads wait for them
//! in other ways, and a program that is run several times is the user's once.

use std::path::PathBuf;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("try/plain", None, plain_mutexes_are_tried_in_all_ways),
        trial("try/recursive", None, recursive_mutexes_are_left_alone),
        trial(
            "try/handed",
            None,
            a_mutex_may_be_released_by_another_thread,
        ),
        trial(
            "investigate",
            None,
            all_methods_are_used_and_the_first_run_is_the_user_s,
        ),
    ]
}

/// The report of the program in a mode.
fn attempt(scratch: &Scratch, mode: &str) -> Result<Value> {
    report(
        scratch,
        "try",
        &["--lock", "shared", "--budget", "2s"],
        mode,
    )
}

fn report(scratch: &Scratch, verb: &str, options: &[&str], mode: &str) -> Result<Value> {
    let program: PathBuf = compile(&root().join("tests/live/programs/waited.c"), &[])?;
    let file = scratch.path("report.json");
    let mut command = convoy::experiments(verb, options, &file)?;
    command.arg(program).arg(mode);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        outcome.end == End::Status(5),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(outcome.stdout == "excluded\n", "{}", outcome.stdout);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{e}; {}", outcome.stderr))?;
    serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))
}

fn rows(report: &Value) -> &[Value] {
    report["targets"].as_array().map_or(&[], Vec::as_slice)
}

fn plain_mutexes_are_tried_in_all_ways(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    turn::retry(|| {
        let report = attempt(scratch, "plain")?;
        for algorithm in ["adaptive", "spin-then-park", "ticket"] {
            let row = rows(&report)
                .iter()
                .find(|row| row["algorithm"] == algorithm);
            let saved = row.and_then(|row| row["at"][0]["saved_share"]["mid"].as_f64());
            check!(saved.is_some(), "{algorithm} was not tried: {report}");
        }
        Ok(())
    })
}

fn recursive_mutexes_are_left_alone(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    let report = attempt(scratch, "recursive")?;
    for row in rows(&report) {
        let reason = row["reason"].as_str().unwrap_or_default();
        check!(reason.contains("recursive"), "{report}");
        check!(row["at"].as_array().is_some_and(Vec::is_empty), "{report}");
    }
    check!(rows(&report).len() == 3, "{report}");
    Ok(())
}

/// What is wrong with such a program is not ours to show: it must go on.
fn a_mutex_may_be_released_by_another_thread(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    let report = attempt(scratch, "handed")?;
    check!(
        report["windows"].as_u64() > Some(0),
        "no experiment was made: {report}"
    );
    Ok(())
}

fn all_methods_are_used_and_the_first_run_is_the_user_s(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    turn::retry(|| {
        // Output that appears once, and the status of the first run, are checked by `report`.
        let report = report(scratch, "investigate", &["--budget", "18s"], "plain")?;
        let steps = report["steps"].as_array().map_or(&[][..], Vec::as_slice);
        let is_of = |step: &Value, verb: &str| {
            let command = step["command"].as_str().unwrap_or_default();
            command.starts_with(&format!("convoy {verb} "))
        };
        check!(
            steps.first().is_some_and(|step| is_of(step, "record")),
            "{report}"
        );
        check!(steps.len() > 1, "one step decided nothing: {report}");
        for step in steps {
            let took = step["seconds"].as_f64();
            check!(took.is_some_and(|s| s > 0.0), "no time: {step}");
        }
        Ok(())
    })
}
