//! Metrics of a part of a function's calls, and of what calls do to files and memory:
//! programs/gated_calls.c says how often each happens.

use std::process::Command;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, Running};
use convoy_harness::{check, root, turn, Result};
use libtest_mimic::Trial;

use crate::metrics::{end, is_near, live, measure_of, TIMEOUT};

/// The tests.
pub fn trials() -> Vec<Trial> {
    let root = || missing(&["root".to_owned()]);
    vec![
        measured("live/holding", root(), calls_while_a_lock_is_held),
        measured("live/caller", root(), calls_from_one_place),
        measured("live/files", root(), files_and_memory_are_counted),
        measured(
            "live/gates-refused",
            root(),
            gates_without_effect_are_refused,
        ),
    ]
}

const SOURCE: &str = "tests/live/programs/gated_calls.c";

fn program(scratch: &Scratch) -> Result<Running<'_>> {
    let program = compile(&root().join(SOURCE), &["-g".to_owned()])?;
    let mut command = Command::new(program);
    command.arg(scratch.path("records.log"));
    let mut running = start(&mut command, scratch.dir(), "program")?;
    running.wait_for("ready", TIMEOUT)?;
    Ok(running)
}

const ITERATIONS: &str = r#"calls{function="iterate"}"#;

fn calls_while_a_lock_is_held(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let values = measure_of(
        program(scratch)?,
        scratch,
        &[
            ITERATIONS,
            r#"calls{function="work"}"#,
            r#"calls{function="work", holding="cache_lock"}"#,
            r#"calls{function="work", holding="other_lock", group="pool-#"}"#,
            r#"calls{function="work", holding="table"}"#,
            r#"cpu{function="work"}"#,
            r#"cpu{function="work", holding="other_lock"}"#,
        ],
    )?;
    let [iterations, all, cache, other, table, cpu, held_cpu] = values[..] else {
        return Err(format!("{values:?}"));
    };
    check!(iterations > 0.0, "never called");
    is_near("all calls", all, 7.0 * iterations)?;
    is_near("with cache_lock", cache, iterations)?;
    is_near("with other_lock", other, 2.0 * iterations)?;
    is_near("with table, acquired twice", table, iterations)?;
    let share = held_cpu / cpu;
    check!(share > 0.2 && share < 0.37, "2 of 7 calls take {share}");
    Ok(())
}

fn calls_from_one_place(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let source = std::fs::read_to_string(root().join(SOURCE)).map_err(|e| e.to_string())?;
    let line = source.lines().position(|line| line.contains("the third"));
    let line = line.ok_or("no such line")? + 1;
    let third = format!(r#"calls{{function="work", caller="gated_calls.c:{line}"}}"#);
    let values = measure_of(
        program(scratch)?,
        scratch,
        &[
            ITERATIONS,
            r#"calls{function="work", caller="compute"}"#,
            &third,
            r#"calls{function="work", caller="get", in="iterate"}"#,
        ],
    )?;
    let [iterations, compute, third, get] = values[..] else {
        return Err(format!("{values:?}"));
    };
    check!(iterations > 0.0, "never called");
    is_near("from compute", compute, 3.0 * iterations)?;
    is_near("from one line of it", third, iterations)?;
    is_near("from get inside of iterate", get, 2.0 * iterations)
}

fn files_and_memory_are_counted(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let values = measure_of(
        program(scratch)?,
        scratch,
        &[
            ITERATIONS,
            r#"write_bytes{file="records.log", group="pool-#"}"#,
            r#"read_bytes{file="/dev/zero"}"#,
            r#"io_wait{file="pipe: unnamed", thread="receiver"}"#,
            r#"io_wait{file="/dev/zero"}"#,
            "allocations",
            "allocated_bytes",
            r#"allocated_bytes{caller="serve"}"#,
            "cmetric",
        ],
    )?;
    let [iterations, written, read, pipe, zero, allocations, bytes, elsewhere, cmetric] =
        values[..]
    else {
        return Err(format!("{values:?}"));
    };
    check!(iterations > 0.0, "never called");
    is_near("written", written, 100.0 * iterations)?;
    is_near("read", read, 512.0 * iterations)?;
    // realloc without old memory is a malloc as well, whose bytes count once.
    is_near("allocations", allocations, 4.0 * iterations)?;
    is_near("allocated", bytes, 350.0 * iterations)?;
    check!(elsewhere == 0.0, "serve asks for no memory: {elsewhere}");
    // Sums of some samples: one thread waits nearly all the time, and the others never.
    check!(pipe > 3.0 && pipe < 8.5, "waited {pipe} s/s in all");
    check!(zero < 0.5, "waited {zero} s/s for a device that has all");
    check!(cmetric > 0.0 && cmetric < 8.5, "{cmetric} s/s active");
    Ok(())
}

fn gates_without_effect_are_refused(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program(scratch)?;
    let cases = [
        (r#"cpu{function="work", lock="table"}"#, "holding=\"LOCK\""),
        (r#"wait{holding="table"}"#, "holding has no effect"),
        (r#"calls{function="work", holding="table"}"#, "--agent=auto"),
        (
            r#"calls{function="work", caller="computes"}"#,
            "did you mean compute",
        ),
        (
            r#"calls{function="work", caller="gated_calls.c:1"}"#,
            "no instruction",
        ),
        (r#"cpu{file="x"}"#, "metrics of a file: read_bytes"),
    ];
    let mut results = Vec::new();
    for (metric, _) in cases {
        let mut command = live(program.id(), &[metric], &["--for", "1s"])?;
        results.push(run(&mut command, scratch.dir(), "refused", TIMEOUT)?);
    }
    end(program)?;
    for ((metric, expected), outcome) in cases.iter().zip(results) {
        let is_told = outcome.stderr.contains(expected);
        check!(is_told, "{metric}: {}", outcome.stderr);
    }
    Ok(())
}
