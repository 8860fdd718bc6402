//! Every case of the test program, natively, single-stepped and translated: the results are the same, and the
//! translator has written down what each single step shows, instruction by instruction.
#![cfg(target_arch = "x86_64")]

#[path = "../common/mod.rs"]
mod build;
mod expected;
mod files;
mod recorded;

use std::process::Command;

use files::Section;

#[test]
fn translator_and_stepper_record_the_same() {
    let cases = ["asm.c", "asm_cases.S", "cases.c", "cxx.cpp", "libraries.c"];
    let host = build::program(
        "oracle-host",
        &["host.c", "play.c"],
        &cases,
        &["-lz", "-lsqlite3"],
    );
    let listed = Command::new(&host)
        .arg("--list")
        .output()
        .expect("the test program runs");
    let names = String::from_utf8(listed.stdout).expect("names");
    let only = std::env::var("CASE").ok();
    let mut bad = Vec::new();
    let mut instructions = 0;
    for name in names
        .lines()
        .filter(|name| only.as_deref().is_none_or(|only| only == *name))
    {
        // The kernel sets the clock now and then, which the code that reads it in the midst of it sees.
        let tries = if name == "clocks" { 5 } else { 1 };
        let both = || check(&host, name, false).and_then(|_| check(&host, name, true));
        let mut result = both();
        for _ in 1..tries {
            if result.is_err() {
                result = both();
            }
        }
        match result {
            Ok(count) => instructions += count,
            Err(message) => bad.push(format!("{name}: {message}")),
        }
    }
    println!("{instructions} instructions compared");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(
        only.is_some() || instructions > 100_000,
        "too few instructions: {instructions}"
    );
}

/// Number of instructions, or how the two differ. With `values` the record has those that are
/// loaded as well.
fn check(host: &std::path::Path, name: &str, values: bool) -> Result<usize, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(host);
    if values {
        command.env("VALUES", "1");
    }
    let out = command
        .arg(name)
        .arg(dir.path())
        .output()
        .expect("the test program runs");
    if !out.status.success() {
        return Err(format!(
            "{} {}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        ));
    }
    let section = Section::read(dir.path());
    let compared = compare(&section)?;
    if section.native != section.translated {
        let at = section
            .native
            .iter()
            .zip(&section.translated)
            .position(|(a, b)| a != b);
        return Err(format!("the results differ, first at {at:?}"));
    }
    Ok(compared)
}

fn compare(section: &Section) -> Result<usize, String> {
    if section.end != 0 {
        return Err(format!(
            "it ended with {} ({:#x})",
            section.end, section.detail
        ));
    }
    let recorded = recorded::instructions(section)?;
    let mut steps = section.steps.iter().peekable();
    let mut count = 0;
    let mut hidden = false;
    for found in &recorded {
        if hidden && steps.peek().is_some_and(|step| !found.is(step)) {
            hidden = false;
            continue;
        }
        let Some(step) = steps.next() else {
            return Err(format!(
                "more than the {count} instructions of the stepper: at {:#x}",
                found.ip
            ));
        };
        let mut done = 1;
        if expected::repeats(step) {
            // The stepper sees each repetition.
            while steps
                .next_if(|next| next.rip == step.rip && expected::goes_on(step, next))
                .is_some()
            {
                done += 1;
            }
        }
        let wanted = expected::accesses(step, done);
        if !found.is(step) || found.accesses != wanted {
            return Err(format!(
                "instruction {count} at {:#x} {:02x?}\n  stepper:    {wanted:x?}\n  translator: {found:x?}",
                step.rip, step.code
            ));
        }
        let (field, result) = (expected::field(step), expected::result(step));
        if found.field != field || found.result != result {
            return Err(format!(
                "instruction {count} at {:#x} {:02x?}: field {field:x?}, result {result:x?}, translator: {found:x?}",
                step.rip, step.code
            ));
        }
        hidden = expected::hides_the_next(step);
        count += 1;
    }
    match steps.next() {
        Some(step) => Err(format!("the stepper goes on at {:#x}", step.rip)),
        None => Ok(count),
    }
}
