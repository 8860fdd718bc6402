//! Every format of a program with one hot lock. The numbers are those of `convoy report`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::{missing, Missing};
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, convoy, root, target, Result};
use libtest_mimic::Trial;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The cases.
pub fn trials() -> Vec<Trial> {
    let go = || missing(&["go".to_owned(), "cpus-2".to_owned()]);
    vec![
        trial("exports/pprof", go(), pprof),
        trial("exports/perfetto", python(), perfetto),
        trial("exports/trace-processor", python(), trace_processor),
        trial("exports/firefox", python(), firefox),
        trial("exports/profiler", python(), profiler),
        trial("exports/no-timeline", python(), no_timeline),
        trial("exports/truncated", python(), truncated),
        trial("exports/nothing", python(), nothing),
        trial("exports/misuse", None, misuse),
    ]
}

/// The readers need packages, which `scripts/setup.sh test` puts where they disturb nobody.
pub fn interpreter() -> PathBuf {
    target().join("test-venv/bin/python")
}

pub fn python() -> Option<Missing> {
    let there = interpreter().is_file();
    (!there).then(|| Missing("needs Python packages: scripts/setup.sh test".into()))
}

/// The program with one lock that is held too long, recorded.
pub fn record(scratch: &Scratch, name: &str, flags: &[&str], options: &[&str]) -> Result<PathBuf> {
    let source = root().join("fixtures/hot-mutex/hot_mutex.c");
    record_source(scratch, &source, name, flags, options)
}

/// The same of any source.
pub fn record_source(
    scratch: &Scratch,
    source: &Path,
    name: &str,
    flags: &[&str],
    options: &[&str],
) -> Result<PathBuf> {
    let include = format!("-I{}", root().join("fixtures/hot-mutex").display());
    let flags = flags.iter().map(|f| (*f).to_owned()).chain([include]);
    let program = compile(source, &flags.collect::<Vec<_>>())?;
    let profile = scratch.path(name);
    let mut command = convoy::record_with(options, &profile)?;
    let outcome = run(command.arg(program), scratch.dir(), "record", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{}", outcome.stderr);
    Ok(profile)
}

fn export(scratch: &Scratch, profile: &Path, format: &str) -> Result<(PathBuf, Outcome)> {
    let out = scratch.path(&format!("out.{format}"));
    let mut command = Command::new(convoy::binary()?);
    command.args(["export", "--format", format, "-o"]);
    command.arg(&out).arg(profile);
    let outcome = run(&mut command, scratch.dir(), "export", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{format}: {}",
        outcome.stderr
    );
    Ok((out, outcome))
}

/// What a reader found, which must be no problem.
pub fn read(scratch: &Scratch, reader: &str, file: &Path) -> Result<Value> {
    let script = root().join("tests/exports/readers").join(reader);
    let mut command = Command::new(interpreter());
    command.arg(script).arg(file);
    let outcome = run(&mut command, scratch.dir(), "reader", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{reader}: {}",
        outcome.stderr
    );
    let found: Value = serde_json::from_str(&outcome.stdout).map_err(|e| e.to_string())?;
    check!(
        found["problems"].as_array().is_some_and(Vec::is_empty),
        "{reader}: {}",
        found["problems"]
    );
    Ok(found)
}

fn pprof(scratch: &Scratch) -> Result {
    let profile = record(scratch, "run.convoy", &[], &[])?;
    let report = convoy::report(&profile, scratch.dir())?;
    let sum = |table: &str, key: &str| -> u64 {
        let rows = report[table].as_array().into_iter().flatten();
        rows.filter_map(|row| row.pointer(key)?.as_u64()).sum()
    };
    let locks = (
        sum("locks", "/stats/contended_count"),
        sum("locks", "/stats/wait_ns"),
    );
    check!(locks.0 > 0, "no lock was contended: {}", report["locks"]);
    let (mutex, _) = export(scratch, &profile, "pprof-mutex")?;
    let mutex = raw(scratch, &mutex)?;
    check!(
        mutex.sums == locks,
        "mutex {:?}, report {locks:?}",
        mutex.sums
    );
    check!(
        mutex.text.contains("hot_lock_region") && mutex.text.contains("hot_mutex.c"),
        "{}",
        mutex.text
    );
    let (block, _) = export(scratch, &profile, "pprof-block")?;
    let block = raw(scratch, &block)?;
    let all = (
        locks.0 + sum("events", "/waits_count"),
        locks.1 + sum("events", "/wait_ns"),
    );
    check!(block.sums == all, "block {:?}, report {all:?}", block.sums);
    Ok(())
}

/// What pprof says is in a file.
struct Raw {
    text: String,
    sums: (u64, u64),
}

fn raw(scratch: &Scratch, file: &Path) -> Result<Raw> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof", "-raw"]).arg(file);
    let outcome = run(&mut command, scratch.dir(), "pprof", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "pprof: {}", outcome.stderr);
    let text = outcome.stdout;
    check!(
        text.contains("contentions/count delay/nanoseconds"),
        "not Go's shape: {text}"
    );
    // "        12     345678: 1 2 3", up to the table of locations.
    let samples = text.lines().take_while(|line| *line != "Locations");
    let mut sums = (0, 0);
    for line in samples {
        let words: Vec<_> = line.split_whitespace().collect();
        let numbers = (
            words.first(),
            words.get(1).and_then(|w| w.strip_suffix(':')),
        );
        if let (Some(count), Some(delay)) = numbers {
            if let (Ok(count), Ok(delay)) = (count.parse::<u64>(), delay.parse::<u64>()) {
                sums = (sums.0 + count, sums.1 + delay);
            }
        }
    }
    Ok(Raw { text, sums })
}

/// About the same: a few intervals begin or end with the recording.
fn about(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e4 + 0.0002 * b
}

fn perfetto(scratch: &Scratch) -> Result {
    let profile = record(scratch, "run.convoy", &[], &[])?;
    let report = convoy::report(&profile, scratch.dir())?;
    let (trace, _) = export(scratch, &profile, "perfetto")?;
    let found = read(scratch, "read_perfetto.py", &trace)?;
    check!(
        found["findings"].to_string().contains("thread time")
            || found["findings"].to_string().contains("of their time"),
        "the finding is missing: {}",
        found["findings"]
    );
    let Some(threads) = with_wakers(&report) else {
        return Ok(());
    };
    for (tid, running_ns) in threads {
        let ours = found["threads"][tid.to_string()].as_f64().unwrap_or(0.0);
        check!(
            about(ours, running_ns),
            "thread {tid} ran {ours} ns in the trace, {running_ns} ns in the report"
        );
    }
    let by_thread = found["wakings_by_thread"].as_u64().unwrap_or(0);
    check!(by_thread > 0, "nobody woke anybody: {found}");
    Ok(())
}

/// Perfetto's own processor finds what the trace says, and walks its critical path along our wake-ups.
fn trace_processor(scratch: &Scratch) -> Result {
    let profile = record(scratch, "run.convoy", &[], &[])?;
    let report = convoy::report(&profile, scratch.dir())?;
    let (trace, _) = export(scratch, &profile, "perfetto")?;
    let found = read(scratch, "read_trace_processor.py", &trace)?;
    let number = |query: &str, column: &str| found[query][0][column].as_u64().unwrap_or(0);
    check!(
        number("unfinished", "n") == 0,
        "slices without an end: {found}"
    );
    let titles = |table: &Value, key: &str| -> Vec<String> {
        let rows = table.as_array().into_iter().flatten();
        rows.filter_map(|row| Some(row[key].as_str()?.to_owned()))
            .collect()
    };
    let (theirs, ours) = (
        titles(&found["findings"], "name"),
        titles(&report["findings"], "title"),
    );
    check!(
        theirs == ours,
        "findings {theirs:?}, in the report {ours:?}"
    );
    let Some(threads) = with_wakers(&report) else {
        return Ok(());
    };
    for (tid, running_ns) in threads {
        let rows = found["threads"].as_array().into_iter().flatten();
        let of_thread = rows.filter(|row| row["tid"].as_u64() == Some(tid));
        let ns: f64 = of_thread.filter_map(|row| row["ns"].as_f64()).sum();
        check!(
            about(ns, running_ns),
            "thread {tid} ran {ns} ns for Perfetto, {running_ns} ns in the report"
        );
    }
    check!(number("wakings", "n") > 0, "nobody woke anybody: {found}");
    check!(number("flows", "n") > 0, "no arrows: {found}");
    check!(
        number("critical_path", "threads") > 1,
        "the critical path stays in one thread: {}",
        found["critical_path"]
    );
    Ok(())
}

/// Threads by id with their time on a CPU, if there are switches with wakers.
fn with_wakers(report: &Value) -> Option<Vec<(u64, f64)>> {
    let critical = report.get("critical").filter(|c| c.is_object())?;
    if critical["quality"]["source"] != "bpf" {
        return None;
    }
    let threads = critical["threads"].as_array()?.iter().filter_map(|row| {
        let id = row["thread"].as_u64()? as usize;
        Some((
            report["threads"][id]["tid"].as_u64()?,
            row["running_ns"].as_f64()?,
        ))
    });
    Some(threads.collect())
}

fn firefox(scratch: &Scratch) -> Result {
    let profile = record(scratch, "run.convoy", &[], &[])?;
    let report = convoy::report(&profile, scratch.dir())?;
    let (file, _) = export(scratch, &profile, "firefox")?;
    let found = read(scratch, "read_firefox.py", &file)?;
    let findings = report["findings"].as_array().map_or(0, Vec::len) as u64;
    check!(
        found["markers"]["Finding"].as_u64().unwrap_or(0) == findings,
        "{findings} findings: {found}"
    );
    let Some(threads) = with_wakers(&report) else {
        return Ok(());
    };
    check!(found["flows"].as_u64() > Some(0), "no wake-ups: {found}");
    for (tid, running_ns) in threads {
        let all = found["threads"].as_array().into_iter().flatten();
        let of_thread = all.filter(|t| t["tid"].as_u64() == Some(tid));
        let ms: f64 = of_thread.filter_map(|t| t["ms"].as_f64()).sum();
        check!(
            ms * 1e6 >= running_ns * 0.98,
            "thread {tid} has samples of {ms} ms and ran {running_ns} ns"
        );
    }
    Ok(())
}

/// The Firefox Profiler's own importer takes it, and its times are those of the report.
fn profiler(scratch: &Scratch) -> Result {
    let profile = record(scratch, "run.convoy", &[], &[])?;
    let report = convoy::report(&profile, scratch.dir())?;
    let (file, _) = export(scratch, &profile, "firefox")?;
    let found = read(scratch, "read_profiler.py", &file)?;
    let findings = found["findings"].as_array().map_or(0, Vec::len);
    let ours = report["findings"].as_array().map_or(0, Vec::len);
    check!(findings == ours, "{ours} findings: {}", found["findings"]);
    let Some(threads) = with_wakers(&report) else {
        return Ok(());
    };
    for (tid, running_ns) in threads {
        let all = found["threads"].as_array().into_iter().flatten();
        let of_thread: Vec<_> = all.filter(|t| t["tid"].as_u64() == Some(tid)).collect();
        let ms: f64 = of_thread.iter().filter_map(|t| t["cpu_ms"].as_f64()).sum();
        check!(
            about(ms * 1e6, running_ns),
            "thread {tid} ran {ms} ms for the Profiler, {running_ns} ns in the report"
        );
    }
    let all = found["threads"].as_array().into_iter().flatten();
    let wakes: u64 = all.filter_map(|t| t["markers"]["wakes"].as_u64()).sum();
    check!(wakes > 0, "nobody wakes anybody: {found}");
    Ok(())
}

fn no_timeline(scratch: &Scratch) -> Result {
    let options = ["--timeline-events", "0"];
    let profile = record(scratch, "run.convoy", &[], &options)?;
    for (format, reader) in [
        ("perfetto", "read_perfetto.py"),
        ("firefox", "read_firefox.py"),
    ] {
        let (file, outcome) = export(scratch, &profile, format)?;
        check!(
            outcome.stderr.contains("no timeline"),
            "{format} does not say what is missing: {}",
            outcome.stderr
        );
        read(scratch, reader, &file)?;
    }
    Ok(())
}

/// Half of a file: what is there is written, and what is missing is said.
fn truncated(scratch: &Scratch) -> Result {
    let profile = record(scratch, "run.convoy", &[], &[])?;
    let bytes = std::fs::read(&profile).map_err(|e| e.to_string())?;
    let half = scratch.path("half.convoy");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).map_err(|e| e.to_string())?;
    for (format, reader) in [
        ("perfetto", "read_perfetto.py"),
        ("firefox", "read_firefox.py"),
    ] {
        let (file, outcome) = export(scratch, &half, format)?;
        check!(
            outcome.stderr.contains("fix:"),
            "{format}: {}",
            outcome.stderr
        );
        read(scratch, reader, &file)?;
    }
    for format in ["pprof-mutex", "pprof-block", "csv", "jsonl", "folded-waits"] {
        export(scratch, &half, format)?;
    }
    Ok(())
}

/// A program without an agent, and no scheduler events: the files open, and why they are empty is said.
fn nothing(scratch: &Scratch) -> Result {
    let options = ["--scheduler", "off"];
    let source = root().join("fixtures/parallel-clean/parallel_clean.c");
    let profile = record_source(scratch, &source, "run.convoy", &["-static"], &options)?;
    for format in ["pprof-mutex", "pprof-block", "folded-waits", "firefox"] {
        let (file, outcome) = export(scratch, &profile, format)?;
        let why = if format == "firefox" {
            "no thread was recorded"
        } else {
            "for want of the agent"
        };
        check!(outcome.stderr.contains(why), "{format}: {}", outcome.stderr);
        if format == "firefox" {
            read(scratch, "read_firefox.py", &file)?;
            read(scratch, "read_profiler.py", &file)?;
        }
    }
    Ok(())
}

fn misuse(scratch: &Scratch) -> Result {
    let none = scratch.path("none.convoy");
    for (arguments, why) in [
        (
            vec!["export", "--format", "csv", "none.convoy"],
            "no such file",
        ),
        (
            vec!["export", "--format", "xml", "none.convoy"],
            "invalid value",
        ),
        (vec!["export", "none.convoy"], "--format"),
    ] {
        let mut command = Command::new(convoy::binary()?);
        let outcome = run(command.args(&arguments), scratch.dir(), "misuse", TIMEOUT)?;
        check!(
            outcome.end == End::Status(2) && outcome.stderr.contains(why),
            "{arguments:?}: {:?}: {}",
            outcome.end,
            outcome.stderr
        );
    }
    check!(!none.exists(), "an export made its own input");
    Ok(())
}
