//! `convoy live` on a running program: exact rates, foci, refusals, and the program as it was.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End, Outcome, Running};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;

pub const TIMEOUT: Duration = Duration::from_secs(240);

/// Calls of `inner` for each call of `outer` (programs/steady_calls.c).
pub const INNER: f64 = 100.0;

/// The tests.
pub fn trials() -> Vec<Trial> {
    let root = || missing(&["root".to_owned()]);
    vec![
        measured("live/rates", root(), rates_of_calls_are_exact),
        measured("live/foci", root(), groups_and_threads_add_up),
        measured("live/runtime", root(), runtime_and_kernel_are_counted),
        measured("live/refusals", root(), what_is_not_there_is_refused),
        measured("live/end", root(), a_program_that_ends_is_no_failure),
        measured("live/command", root(), a_command_keeps_output_and_status),
        measured("live/interrupt", root(), an_interrupt_leaves_every_byte),
    ]
}

/// A program that runs until the test ends.
pub fn program<'a>(scratch: &'a Scratch, milliseconds: Option<u32>) -> Result<Running<'a>> {
    started(scratch, command(milliseconds)?)
}

fn started(scratch: &Scratch, mut command: Command) -> Result<Running<'_>> {
    let mut running = start(&mut command, scratch.dir(), "program")?;
    running.wait_for("ready", TIMEOUT)?;
    Ok(running)
}

fn command(milliseconds: Option<u32>) -> Result<Command> {
    let program = compile(&root().join("tests/live/programs/steady_calls.c"), &[])?;
    let mut command = Command::new(program);
    command.args(milliseconds.map(|n| n.to_string()));
    Ok(command)
}

pub fn end(program: Running<'_>) -> Result {
    program.signal(Signal::TERM)?;
    let outcome = program.finish(TIMEOUT)?;
    check!(outcome.end == End::Signal(15), "{:?}", outcome.end);
    Ok(())
}

pub fn live(pid: u32, metrics: &[&str], rest: &[&str]) -> Result<Command> {
    // As from a terminal: tests that run in the background ignore SIGINT, and convoy would, too.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT");
    command.arg(convoy::binary()?);
    command.args(["live", &pid.to_string(), "--budget", "100%"]);
    for metric in metrics {
        command.args(["--metric", metric]);
    }
    command.args(rest);
    Ok(command)
}

/// Sum of the values of each metric and focus, over the times at which all of them are known, the
/// first one apart: probes go in one after another. The unknown must have a reason.
pub fn sums(outcome: &Outcome) -> Result<BTreeMap<String, f64>> {
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let mut by_time: BTreeMap<u64, Vec<(String, Option<f64>)>> = BTreeMap::new();
    for line in outcome.stdout.lines() {
        let json: Value = serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?;
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let value = json["value"].as_f64();
        check!(value.is_some() || !text("gap").is_empty(), "{line}");
        check!(
            json["cost_share"].as_f64().is_some_and(|c| c >= 0.0),
            "{line}"
        );
        let at = by_time.entry(json["t_ms"].as_u64().ok_or("no time")?);
        let what = text("metric") + &text("focus");
        at.or_default().push((what, value));
    }
    let mut known = by_time.into_values();
    known.find(|values| values.iter().all(|(_, value)| value.is_some()));
    let mut sums = BTreeMap::new();
    for values in known {
        let all: Option<Vec<f64>> = values.iter().map(|(_, value)| *value).collect();
        for ((what, _), value) in values.iter().zip(all.unwrap_or_default()) {
            *sums.entry(what.clone()).or_default() += value;
        }
    }
    Ok(sums)
}

fn measure(scratch: &Scratch, metrics: &[&str]) -> Result<Vec<f64>> {
    measure_of(program(scratch, None)?, scratch, metrics)
}

pub fn measure_of(program: Running<'_>, scratch: &Scratch, metrics: &[&str]) -> Result<Vec<f64>> {
    let rest = [
        "--for",
        "4s",
        "--every",
        "500ms",
        "--format",
        "json",
        "--agent=auto",
    ];
    let outcome = run(
        &mut live(program.id(), metrics, &rest)?,
        scratch.dir(),
        "live",
        TIMEOUT,
    );
    end(program)?;
    let sums = sums(&outcome?)?;
    let value = |metric: &&str| {
        // Without a focus it is written as an empty one.
        let found = sums.get(*metric).or(sums.get(&format!("{metric}{{}}")));
        found.copied().ok_or(format!("no {metric}: {sums:?}"))
    };
    metrics.iter().map(value).collect()
}

pub fn is_near(what: &str, value: f64, expected: f64) -> Result {
    let off = (value / expected - 1.0).abs();
    check!(off < 0.05, "{what}: {value}, expected {expected}");
    Ok(())
}

/// What the C library, the C++ runtime and the kernel do for a program, in the proportions of
/// programs/runtime_events.cpp.
fn runtime_and_kernel_are_counted(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = compile(&root().join("tests/live/programs/runtime_events.cpp"), &[])?;
    let program = started(scratch, Command::new(program))?;
    let values = measure_of(
        program,
        scratch,
        &[
            "exceptions",
            "allocations",
            "write_bytes",
            "condition_wait",
            "switches",
            "run_queue_mean",
        ],
    )?;
    let [exceptions, allocations, written, waited, switches, queue] = values[..] else {
        return Err(format!("{values:?}"));
    };
    check!(exceptions > 0.0, "nothing was thrown");
    is_near("allocations", allocations, 5.0 * exceptions)?;
    is_near("write_bytes", written, 4096.0 * exceptions)?;
    // Both threads are given a CPU once for each exception, or more often if they are preempted.
    check!(switches > 1.5 * exceptions, "{switches} switches");
    check!(queue > 0.0, "no latency: {values:?}");
    // Sums of some samples, of one thread that waits nearly all the time.
    check!(waited > 3.0 && waited < 8.0, "waited {waited} s/s in all");
    Ok(())
}

fn rates_of_calls_are_exact(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let values = measure(
        scratch,
        &[
            r#"calls{function="outer"}"#,
            r#"calls{function="inner"}"#,
            r#"wall{function="outer"}"#,
            r#"duration_mean{function="outer"}"#,
        ],
    )?;
    let [outer, inner, wall, mean] = values[..] else {
        return Err(format!("{values:?}"));
    };
    check!(outer > 0.0, "never called");
    is_near("calls of inner for one of outer", inner / outer, INNER)?;
    check!(wall > 0.0 && mean > 0.0, "no time: {values:?}");
    // Eight samples of three threads, and what was begun before.
    check!(wall < 8.0 * 3.0 * 1.5, "more time than there is: {wall}");
    Ok(())
}

fn groups_and_threads_add_up(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let values = measure(
        scratch,
        &[
            r#"calls{function="inner"}"#,
            r#"calls{function="inner", group="pool-#"}"#,
            r#"calls{function="inner", thread="lone"}"#,
            r#"calls{function="inner", thread="pool-1"}"#,
            r#"calls{function="inner", in="outer"}"#,
        ],
    )?;
    let [all, pool, lone, one, inside] = values[..] else {
        return Err(format!("{values:?}"));
    };
    check!(lone > 0.0 && one > 0.0, "{values:?}");
    is_near("pool and lone", pool + lone, all)?;
    check!(one < pool, "a thread is less than its group: {values:?}");
    check!(
        inside > 0.0 && inside <= all * 1.05,
        "all calls are made in outer: {values:?}"
    );
    Ok(())
}

fn what_is_not_there_is_refused(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program(scratch, None)?;
    let cases = [
        (r#"calls{function="inner_"}"#, "did you mean inner"),
        (
            r#"calls{function="inner", module="nowhere.so"}"#,
            "no file nowhere.so",
        ),
        (r#"calls{lock="x"}"#, "makes no sense for a lock"),
        (r#"acquisitions{lock="x"}"#, "--agent=auto"),
        ("cals", "did you mean calls?"),
    ];
    let mut results = Vec::new();
    for (metric, _) in cases {
        let mut command = live(program.id(), &[metric], &["--for", "1s"])?;
        results.push(run(&mut command, scratch.dir(), "refused", TIMEOUT)?);
    }
    end(program)?;
    for ((metric, expected), outcome) in cases.iter().zip(results) {
        check!(outcome.end == End::Status(2), "{metric}: {outcome:?}");
        check!(
            outcome.stderr.contains(expected),
            "{metric}: {}",
            outcome.stderr
        );
    }
    let mut command = live(u32::MAX, &["cpu"], &[])?;
    let outcome = run(&mut command, scratch.dir(), "nobody", TIMEOUT)?;
    check!(outcome.end == End::Status(2), "{outcome:?}");
    Ok(())
}

fn a_program_that_ends_is_no_failure(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program(scratch, Some(8000))?;
    let mut command = live(
        program.id(),
        &[r#"calls{function="inner"}"#],
        &["--format", "json"],
    )?;
    let outcome = run(&mut command, scratch.dir(), "live", TIMEOUT)?;
    let own = program.finish(TIMEOUT)?;
    check!(own.end == End::Status(7), "the program: {own:?}");
    check!(outcome.end == End::Status(0), "{outcome:?}");
    check!(outcome.stderr.contains("has ended"), "{outcome:?}");
    Ok(())
}

fn a_command_keeps_output_and_status(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = command(Some(8000))?;
    let mut live = Command::new(convoy::binary()?);
    live.args(["live", "--budget", "100%", "--format", "json", "-q"])
        .args(["--metric", r#"calls{function="outer"}"#, "--"])
        .arg(program.get_program())
        .args(program.get_args());
    let outcome = run(&mut live, scratch.dir(), "live", TIMEOUT)?;
    check!(outcome.end == End::Status(7), "{outcome:?}");
    check!(outcome.stdout == "ready\n", "{outcome:?}");
    check!(
        outcome.stderr.contains(r#""metric":"calls""#),
        "{outcome:?}"
    );
    Ok(())
}

/// The program's own code, as it is in memory.
fn code(pid: u32) -> Result<Vec<u8>> {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
    let exe = exe.map_err(|e| format!("process {pid}: {e}"))?;
    code_of(pid, &exe.to_string_lossy())
}

/// The code of a file whose path ends so, as it is in a process's memory.
pub fn code_of(pid: u32, file: &str) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| format!("process {pid}: {e}");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(failed)?;
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(failed)?;
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.ends_with(file)) {
        let (range, rest) = line.split_once(' ').ok_or("no range")?;
        let (lo, hi) = range.split_once('-').ok_or("no range")?;
        let address = |hex: &str| u64::from_str_radix(hex, 16).map_err(|e| e.to_string());
        if rest.starts_with("r-x") {
            let (lo, hi) = (address(lo)?, address(hi)?);
            let mut bytes = vec![0; (hi - lo) as usize];
            memory.read_exact_at(&mut bytes, lo).map_err(failed)?;
            all.append(&mut bytes);
        }
    }
    check!(!all.is_empty(), "process {pid} has no code");
    Ok(all)
}

fn an_interrupt_leaves_every_byte(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = program(scratch, None)?;
    let before = code(program.id())?;
    for (signal, tag) in [
        (Signal::INT, "int"),
        (Signal::TERM, "term"),
        (Signal::KILL, "kill"),
    ] {
        let metrics = [r#"wall{function="outer"}"#, r#"calls{function="inner"}"#];
        let mut command = live(program.id(), &metrics, &["--every", "200ms"])?;
        let mut measuring = start(&mut command, scratch.dir(), tag)?;
        measuring.wait_for("inner", TIMEOUT)?;
        check!(code(program.id())? != before, "no probe is in");
        measuring.signal(signal)?;
        let outcome = measuring.finish(TIMEOUT)?;
        let is_right = match signal {
            Signal::KILL => outcome.end == End::Signal(9),
            _ => outcome.end == End::Status(0),
        };
        check!(is_right, "{tag}: {outcome:?}");
        // After a kill the process that holds the probes takes them out by itself.
        let mut is_whole = code(program.id())? == before;
        for _ in 0..100 {
            if is_whole || signal != Signal::KILL {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            is_whole = code(program.id())? == before;
        }
        check!(is_whole, "{tag}: probes are still in");
    }
    end(program)
}
