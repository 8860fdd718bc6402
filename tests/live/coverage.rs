//! Every primitive is seen: `fixtures/coverage` calls each an odd number of times in a function of its
//! own and says so, line by line; the profile must say the same.

use std::path::PathBuf;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, profile, root, turn, Result};
use convoy_profile::Profile;
use libtest_mimic::Trial;
use serde::Deserialize;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Program, flags, and the fewest lines that it must say: a program that says nothing proves nothing.
const PROGRAMS: [(&str, &[&str], usize); 5] = [
    ("locks.c", &[], 24),
    ("events.c", &[], 21),
    ("threads.c", &[], 11),
    ("cxx.cpp", &[], 14),
    ("omp.c", &["-fopenmp"], 14),
];

/// A line of a coverage program.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Calls {
        function: String,
        op: String,
        n: u64,
        failed: u64,
        compare: Compare,
    },
    Threads {
        thread: String,
        name: String,
        n: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Compare {
    Exact,
    AtLeast,
}

/// One test per program.
pub fn trials() -> Vec<Trial> {
    let one = |(file, flags, lines): (&'static str, &'static [&'static str], usize)| {
        measured(format!("coverage/{file}"), None, move |scratch| {
            covered(file, flags, lines, scratch)
        })
    };
    PROGRAMS.into_iter().map(one).collect()
}

fn covered(file: &str, flags: &[&str], least: usize, scratch: &Scratch) -> Result {
    let source: PathBuf = root().join("fixtures/coverage").join(file);
    let flags: Vec<String> = flags.iter().map(|f| (*f).to_owned()).collect();
    let program = compile(&source, &flags)?;
    let _turn = turn::shared();
    let output = scratch.path("run.convoy");
    let outcome = run(
        convoy::record(&output)?.arg(program),
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let lines = lines(&outcome.stdout)?;
    check!(
        lines.len() >= least,
        "only {} of {least} lines",
        lines.len()
    );
    let profile = convoy::read(&output)?;
    let wrong: Vec<String> = lines
        .iter()
        .filter_map(|line| wrong(&profile, line).err())
        .collect();
    check!(
        wrong.is_empty(),
        "{} of {} not seen as they are:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n")
    );
    Ok(())
}

/// The program's lines. A function that ran several times said so each time: the numbers add up.
fn lines(stdout: &str) -> Result<Vec<Line>> {
    let mut sums: Vec<Line> = Vec::new();
    for line in stdout.lines().filter(|line| line.starts_with('{')) {
        let line = serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?;
        if !sums.iter_mut().any(|sum| sum.absorb(&line)) {
            sums.push(line);
        }
    }
    Ok(sums)
}

impl Line {
    /// Adds a line about the same function and operation.
    fn absorb(&mut self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Calls {
                    function,
                    op,
                    n,
                    failed,
                    ..
                },
                Self::Calls {
                    function: f,
                    op: o,
                    n: more,
                    failed: more_failed,
                    ..
                },
            ) if function == f && op == o => {
                *n += more;
                *failed += more_failed;
                true
            }
            _ => false,
        }
    }
}

fn wrong(profile: &Profile, line: &Line) -> Result {
    match line {
        Line::Calls {
            function,
            op,
            n,
            failed,
            compare,
        } => {
            let known = profile::op(op).ok_or_else(|| format!("no operation {op}"))?;
            let calls = profile::calls(profile, function, known);
            let right = match compare {
                Compare::Exact => calls.n == *n && calls.failed == *failed,
                // The call itself may be in a function of the library's.
                Compare::AtLeast => calls.n.max(profile::waits(profile, function).n) >= *n,
            };
            check!(
                right,
                "{function}: {op} {calls:?}, expected {n} and {failed} failed ({compare:?})"
            );
        }
        Line::Threads { thread, name, n } => {
            let threads = profile::threads(profile, thread, name);
            check!(
                threads == *n,
                "{thread}: {threads} threads called {name}, expected {n}"
            );
        }
    }
    Ok(())
}
