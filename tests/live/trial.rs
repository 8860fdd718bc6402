//! `convoy try` and `convoy investigate`: mutexes keep their semantics while threads wait for them
//! in other ways, and a program that is run several times is the user's once.

use std::path::PathBuf;
use std::time::Duration;

use convoy_harness::case::{measured, trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        measured("try/plain", None, plain_mutexes_are_tried_in_all_ways),
        trial("try/recursive", None, recursive_mutexes_are_left_alone),
        trial(
            "try/handed",
            None,
            a_mutex_may_be_released_by_another_thread,
        ),
        measured(
            "try/readers",
            None,
            readers_gain_by_holding_a_mutex_together,
        ),
        trial("try/corrupted", None, a_corrupted_program_is_told),
        trial("try/condition", None, a_mutex_of_a_condition_is_left_alone),
        trial("try/refused", None, what_may_corrupt_needs_to_be_allowed),
        measured(
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

/// The report of a change that may corrupt a program, which prints this and ends with status 3.
fn corrupting(scratch: &Scratch, way: &[&str], arguments: &[&str], prints: &str) -> Result<Value> {
    let program = compile(&root().join("tests/live/programs/shared_table.c"), &[])?;
    let file = scratch.path("report.json");
    let options = ["--lock", "table_lock", "--budget", "3s", "--may-corrupt"];
    let mut command = convoy::experiments("try", &[&options[..], way].concat(), &file)?;
    command.arg(program).args(arguments);
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    check!(outcome.end == End::Status(3), "{outcome:?}");
    // That of the run as it is, once.
    check!(outcome.stdout.ends_with(prints), "{}", outcome.stdout);
    check!(outcome.stdout.lines().count() == 2, "{}", outcome.stdout);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{e}; {}", outcome.stderr))?;
    serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))
}

fn readers_gain_by_holding_a_mutex_together(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    turn::retry(|| {
        let way = ["--as", "rwlock", "--reads", "look_up"];
        let report = corrupting(scratch, &way, &["mixed", "600000"], "counted 75000\n")?;
        let low = rows(&report)
            .first()
            .and_then(|row| row["at"][0]["saved_share"]["low"].as_f64());
        check!(low > Some(0.05), "two threads read at once: {report}");
        check!(report["comparison"]["output"] == "same", "{report}");
        check!(report["comparison"]["end"] == "status 3", "{report}");
        Ok(())
    })
}

fn a_corrupted_program_is_told(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    turn::retry(|| {
        let arguments = ["write", "4000000"];
        let report = corrupting(scratch, &["--as", "none"], &arguments, "counted 8000000\n")?;
        let comparison = &report["comparison"];
        check!(comparison["output"] == "differs", "{report}");
        check!(comparison["first_line"] == 2, "{report}");
        Ok(())
    })
}

/// Without the mutex a waiter would miss its wake-up, and hang.
fn a_mutex_of_a_condition_is_left_alone(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    let report = corrupting(
        scratch,
        &["--as", "none"],
        &["wait", "300000"],
        "counted 0\n",
    )?;
    let reason = rows(&report).first().and_then(|row| row["reason"].as_str());
    check!(
        reason.is_some_and(|reason| reason.contains("condition variable")),
        "{report}"
    );
    check!(
        report["comparison"].is_null(),
        "nothing was tried: {report}"
    );
    Ok(())
}

fn what_may_corrupt_needs_to_be_allowed(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    for way in ["rwlock", "none"] {
        let file = scratch.path("report.json");
        let mut command = convoy::experiments("try", &["--as", way], &file)?;
        command.arg("/bin/echo").arg("started");
        let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
        check!(outcome.end == End::Status(125), "{outcome:?}");
        check!(outcome.stdout.is_empty() && !file.exists(), "{outcome:?}");
        for part in ["--as", way, "nothing was started", "--may-corrupt"] {
            check!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
    }
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
