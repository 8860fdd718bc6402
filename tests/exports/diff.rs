//! `convoy diff` of the same program before and after its fix.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::missing;
use convoy_harness::run::{run, End, Outcome};
use convoy_harness::{check, convoy, root, Result};
use convoy_profile::Profile;
use libtest_mimic::Trial;
use serde_json::Value;

use crate::formats::{python, read, record, record_source};

const FIXED: &[&str] = &["-DFX_FIXED"];

/// The cases.
pub fn trials() -> Vec<Trial> {
    let cpus = || missing(&["cpus-2".to_owned()]);
    vec![
        trial("diff/fix", cpus(), fix),
        trial("diff/rebuilt", cpus(), rebuilt),
        trial("diff/sarif", python(), sarif),
        trial("diff/not-judged", python(), not_judged),
        trial("diff/different-programs", cpus(), different),
        trial("diff/nothing-to-compare", None, nothing),
    ]
}

fn diff(scratch: &Scratch, arguments: &[&str], files: &[&[PathBuf]; 2]) -> Result<Outcome> {
    let mut command = Command::new(convoy::binary()?);
    command.arg("diff").args(arguments);
    command.args(files[0]).arg("--").args(files[1]);
    run(&mut command, scratch.dir(), "diff", Duration::from_secs(60))
}

fn json(scratch: &Scratch, files: &[&[PathBuf]; 2]) -> Result<Value> {
    let outcome = diff(scratch, &["--format", "json"], files)?;
    check!(outcome.end == End::Status(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).map_err(|e| e.to_string())
}

fn runs(scratch: &Scratch, side: &str, flags: &[&str]) -> Result<Vec<PathBuf>> {
    (0..3)
        .map(|n| record(scratch, &format!("{side}-{n}.convoy"), flags, &[]))
        .collect()
}

/// The lock of the program, of all rows.
fn part(document: &Value) -> Result<&Value> {
    let locks = document["locks"].as_array().into_iter().flatten();
    locks
        .into_iter()
        .find(|lock| lock["name"] == "part")
        .ok_or_else(|| format!("the lock is not there: {}", document["locks"]))
}

fn fix(scratch: &Scratch) -> Result {
    let before = runs(scratch, "before", &[])?;
    let after = runs(scratch, "after", FIXED)?;
    let both = [before.as_slice(), after.as_slice()];
    let document = json(scratch, &both)?;
    let went = document["findings"].as_array().into_iter().flatten();
    let went: Vec<_> = went.filter(|f| f["status"] == "went").collect();
    check!(
        went.iter().any(|f| f["id"] == "contended-lock"),
        "the finding did not go: {}",
        document["findings"]
    );
    let lock = part(&document)?;
    check!(
        lock["wait_ratio"]["before_mean"].as_f64() > lock["wait_ratio"]["after_mean"].as_f64(),
        "its waits did not fall: {lock}"
    );
    let interval = document["speed_interval_ratio"].as_array();
    let bounds: Vec<f64> = interval
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    let speed = document["speed_ratio"].as_f64().unwrap_or(0.0);
    check!(
        bounds.len() == 2 && bounds[0] <= speed && speed <= bounds[1],
        "{speed} is not in {bounds:?}"
    );
    let text = document["sentence"].as_str().unwrap_or_default();
    check!(text.contains("waits on part fell"), "{text}");

    // Forwards the gate is open, backwards it is shut.
    let gate = [
        "--fail-on",
        "lock.wait_share>+5pp",
        "--fail-on",
        "findings.new>0",
    ];
    let forwards = diff(scratch, &gate, &both)?;
    check!(forwards.end == End::Status(0), "{}", forwards.stdout);
    let backwards = diff(scratch, &gate, &[&after, &before])?;
    check!(
        backwards.end == End::Status(1)
            && backwards
                .stdout
                .contains("limit lock.wait_share>+5pp: part"),
        "{:?}: {}",
        backwards.end,
        backwards.stdout
    );
    for format in ["markdown", "sarif"] {
        let outcome = diff(scratch, &["--format", format], &both)?;
        check!(
            outcome.end == End::Status(0) && outcome.stdout.contains("part"),
            "{format}: {}",
            outcome.stderr
        );
    }
    Ok(())
}

/// The document is what its schema asks for, with the limits that do not hold as errors.
fn sarif(scratch: &Scratch) -> Result {
    let before = [record(scratch, "before.convoy", FIXED, &[])?];
    let after = [record(scratch, "after.convoy", &[], &[])?];
    let gate = ["--format", "sarif", "--fail-on", "findings.new>0"];
    let outcome = diff(scratch, &gate, &[&before, &after])?;
    check!(outcome.end == End::Status(1), "{}", outcome.stderr);
    let file = scratch.path("out.sarif");
    std::fs::write(&file, &outcome.stdout).map_err(|e| e.to_string())?;
    let found = read(scratch, "read_sarif.py", &file)?;
    let results = found["results"].as_array().into_iter().flatten();
    let results: Vec<_> = results
        .map(|row| (row["level"].as_str(), row["baselineState"].as_str()))
        .collect();
    check!(
        results.contains(&(Some("warning"), Some("new"))),
        "the finding that came is missing: {results:?}"
    );
    check!(
        results.iter().any(|row| row.0 == Some("error")),
        "the limit is missing: {results:?}"
    );
    Ok(())
}

/// Limits that the runs cannot answer: status 2 and why, in every format; a limit that is exceeded counts before.
fn not_judged(scratch: &Scratch) -> Result {
    let whole = record(scratch, "whole.convoy", &[], &[])?;
    let bytes = std::fs::read(&whole).map_err(|e| e.to_string())?;
    let cut = scratch.path("cut.convoy");
    std::fs::write(&cut, &bytes[..bytes.len() - 40]).map_err(|e| e.to_string())?;
    let (whole, cut) = ([whole], [cut]);
    let ends = |after: &[PathBuf], limits: &[&str], code: i32, why: &str| -> Result {
        for format in ["text", "markdown", "json", "sarif"] {
            let mut arguments = vec!["--format", format];
            limits
                .iter()
                .for_each(|limit| arguments.extend(["--fail-on", limit]));
            let outcome = diff(scratch, &arguments, &[&whole, after])?;
            check!(
                outcome.end == End::Status(code)
                    && outcome.stdout.contains(why)
                    && outcome.stderr.contains(why),
                "{format} {limits:?}: {:?}: {} {}",
                outcome.end,
                outcome.stdout,
                outcome.stderr
            );
            if format == "sarif" {
                let file = scratch.path("out.sarif");
                std::fs::write(&file, &outcome.stdout).map_err(|e| e.to_string())?;
                let problems = &read(scratch, "read_sarif.py", &file)?["problems"];
                check!(problems.as_array().is_some_and(Vec::is_empty), "{problems}");
            }
        }
        Ok(())
    };
    let nosuch = "lock[nosuch].wait>1ms";
    ends(
        &whole,
        &[nosuch],
        2,
        "no lock of either side is called nosuch",
    )?;
    ends(&whole, &[nosuch, "wall>1ns"], 1, "called nosuch")?;
    ends(&cut, &["findings.new>0"], 2, "cut.convoy is not whole")?;
    let known = diff(scratch, &["--fail-on", "wall>3600s"], &[&whole, &cut])?;
    check!(
        known.end == End::Status(0) && known.stdout.contains("cut.convoy is not whole"),
        "{:?}: {}",
        known.end,
        known.stdout
    );
    Ok(())
}

/// The program rebuilt under another name is the same program; another one is not, and causes nothing.
fn different(scratch: &Scratch) -> Result {
    let source = |name: &str, text: &str| -> Result<PathBuf> {
        let path = scratch.path(name);
        std::fs::write(&path, text).map_err(|e| e.to_string())?;
        Ok(path)
    };
    let path = root().join("fixtures/hot-mutex/hot_mutex.c");
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let before = [record(scratch, "before.convoy", &[], &[])?];
    // What is compiled is called after its source and its options.
    let copy = source("hot_mutex.c", &text)?;
    let copy = [record_source(scratch, &copy, "copy.convoy", FIXED, &[])?];
    let program = "int main(void) { return 0; }";
    let other = [record_source(
        scratch,
        &source("other.c", program)?,
        "other.convoy",
        &[],
        &[],
    )?];
    for (after, same) in [(&copy, true), (&other, false)] {
        let document = json(scratch, &[&before, after])?;
        let sentence = document["sentence"].as_str().unwrap_or_default();
        check!(
            document["same_program"] == same
                && sentence.starts_with("These are different programs") != same
                && (same || !sentence.contains("because")),
            "{after:?}: {sentence} {}",
            document["remarks"]
        );
    }
    Ok(())
}

/// The same code three lines further down, from another directory, with other options: other addresses, another
/// build-id, the same locks and sites.
fn rebuilt(scratch: &Scratch) -> Result {
    let source = root().join("fixtures/hot-mutex/hot_mutex.c");
    let text = std::fs::read_to_string(&source).map_err(|e| e.to_string())?;
    let moved = scratch.path("hot_mutex.c");
    std::fs::write(&moved, format!("\n\n\n{text}")).map_err(|e| e.to_string())?;
    let before = [record(scratch, "before.convoy", &[], &[])?];
    let flags = ["-fno-pie", "-no-pie", "-falign-functions=64"];
    let after = [record_source(scratch, &moved, "after.convoy", &flags, &[])?];
    let document = json(scratch, &[&before, &after])?;
    let lock = part(&document)?;
    let sites: Vec<_> = lock["sites"].as_array().into_iter().flatten().collect();
    check!(!sites.is_empty(), "no sites: {lock}");
    for site in sites {
        let line = |side: &str| site[side]["line"].as_u64();
        check!(
            line("before")
                .zip(line("after"))
                .is_some_and(|(a, b)| a + 3 == b),
            "not the same place: {site}"
        );
    }
    let findings = document["findings"].as_array().into_iter().flatten();
    let lost: Vec<_> = findings
        .filter(|f| {
            f["id"] == "contended-lock" && f["status"] != "same" && f["status"] != "changed"
        })
        .collect();
    check!(
        lost.is_empty(),
        "a finding came or went for the build alone: {lost:?}"
    );
    check!(
        document["speed_interval_ratio"].is_null(),
        "an interval of one run: {}",
        document["speed_interval_ratio"]
    );
    Ok(())
}

/// Files without anything in them, or that are none: status 2, and why.
fn nothing(scratch: &Scratch) -> Result {
    let write = |name: &str, bytes: &[u8]| -> Result<PathBuf> {
        let path = scratch.path(name);
        std::fs::write(&path, bytes).map_err(|e| e.to_string())?;
        Ok(path)
    };
    let head = write("head.convoy", b"CONVOY\0\x01")?;
    let text = write("text.convoy", b"hello")?;
    let refused = |a: &Path, b: &Path, why: &str| -> Result {
        let sides = [&[a.to_path_buf()][..], &[b.to_path_buf()][..]];
        let outcome = diff(scratch, &[], &sides)?;
        check!(
            outcome.end == End::Status(2) && outcome.stderr.contains(why),
            "{:?}: {}",
            outcome.end,
            outcome.stderr
        );
        Ok(())
    };
    let bytes = Profile::default().to_bytes().map_err(|e| e.to_string())?;
    let empty = write("empty.convoy", &bytes)?;
    refused(&empty, &empty, "no process was recorded")?;
    refused(&head, &empty, "without one intact section")?;
    refused(&text, &head, "text.convoy")?;
    refused(&scratch.path("none.convoy"), &head, "no such file")?;
    let mut command = Command::new(convoy::binary()?);
    command.args(["diff", "--fail-on", "speed>1", "a", "b"]);
    let outcome = run(&mut command, scratch.dir(), "diff", Duration::from_secs(60))?;
    check!(
        outcome.end == End::Status(2) && outcome.stderr.contains("one of: wall"),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    Ok(())
}
