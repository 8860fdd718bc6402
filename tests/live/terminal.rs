//! The report of a run on a terminal: short, with the rest on demand.

use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Lines of a terminal of usual size.
const LINES: usize = 30;

/// One test per place where the report can go.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("terminal/brief", None, a_terminal_shows_the_first_finding),
        trial("terminal/last", None, no_run_was_kept),
    ]
}

fn a_terminal_shows_the_first_finding(scratch: &Scratch) -> Result {
    let program = compile(&root().join("bench/programs/sleep_under_lock.c"), &[])?;
    let _turn = turn::shared();
    let convoy = convoy::binary()?;
    let line = format!(
        "{} --color never -- {} rounds=300",
        convoy.display(),
        program.display()
    );
    // util-linux' script gives a terminal.
    let mut on_a_terminal = Command::new("script");
    on_a_terminal.args(["-qec", &line, "/dev/null"]);
    on_a_terminal.env("TMPDIR", scratch.dir());
    let outcome = run(&mut on_a_terminal, scratch.dir(), "terminal", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{:?}", outcome.end);
    let brief = &outcome.stdout;
    for part in ["Verdict", "now  ", "fixed", " 1  ", "convoy report --last"] {
        check!(brief.contains(part), "no {part:?}: {brief}");
    }
    check!(brief.lines().count() <= LINES, "{brief}");

    let mut last = Command::new(convoy);
    last.args(["report", "--last"]);
    last.env("TMPDIR", scratch.dir());
    let whole = run(&mut last, scratch.dir(), "last", TIMEOUT)?;
    check!(whole.end == End::Status(0), "{:?}", whole.end);
    let verdict = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("Verdict"));
        line.map(|line| line.trim_end().to_owned())
    };
    check!(
        verdict(&whole.stdout).is_some() && verdict(brief) == verdict(&whole.stdout),
        "{}",
        whole.stdout
    );
    Ok(())
}

fn no_run_was_kept(scratch: &Scratch) -> Result {
    let mut last = Command::new(convoy::binary()?);
    last.args(["report", "--last"]);
    last.env("TMPDIR", scratch.dir());
    let outcome = run(&mut last, scratch.dir(), "last", TIMEOUT)?;
    check!(outcome.end == End::Status(2), "{:?}", outcome.end);
    check!(
        outcome.stderr.contains("no run was kept"),
        "{}",
        outcome.stderr
    );
    Ok(())
}
