//! Fixtures whose sections are one row of Table 1 each, traced: the right verdict, and another one or none once the
//! program is fixed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What a fixture's `verdict.toml` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    /// What is wrong with the program.
    title: String,
    /// The function that takes the lock.
    function: String,
    /// The root cause.
    verdict: String,
    #[serde(skip)]
    name: String,
}

/// The tests of all fixtures in C.
pub fn trials() -> Vec<Trial> {
    let fixtures = match all() {
        Ok(fixtures) => fixtures,
        Err(message) => {
            return vec![trial("diagnose/fixtures", None, move |_| {
                Err(message.clone())
            })]
        }
    };
    let mut trials = Vec::new();
    for fixture in fixtures {
        for (test, fixed) in [("found", false), ("fixed-is-not", true)] {
            let fixture = fixture.clone();
            let name = format!("diagnose/{}/{test}", fixture.name);
            let needs = missing(&["cpus-2".to_owned()]);
            trials.push(trial(name, needs, move |scratch| {
                judge(&fixture, fixed, scratch)
            }));
        }
    }
    trials
}

fn all() -> Result<Vec<Fixture>> {
    let folder = root().join("fixtures");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let files = entries.flatten().map(|e| e.path().join("verdict.toml"));
    let mut files: Vec<PathBuf> = files.filter(|file| file.is_file()).collect();
    files.sort();
    check!(!files.is_empty(), "no fixture with a verdict.toml");
    files.iter().map(read).collect()
}

fn read(file: &PathBuf) -> Result<Fixture> {
    let of = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let text = std::fs::read_to_string(file).map_err(|e| of(&e))?;
    let mut fixture: Fixture = toml::from_str(&text).map_err(|e| of(&e))?;
    let folder = file.parent().and_then(|folder| folder.file_name());
    fixture.name = folder.unwrap_or_default().to_string_lossy().into_owned();
    Ok(fixture)
}

fn judge(fixture: &Fixture, fixed: bool, scratch: &Scratch) -> Result {
    let source = format!(
        "fixtures/{0}/{1}.c",
        fixture.name,
        fixture.name.replace('-', "_")
    );
    let flags: &[String] = if fixed {
        &["-DFX_FIXED".to_owned()]
    } else {
        &[]
    };
    let program = compile(&root().join(source), flags)?;
    turn::retry(|| said_or_not(fixture, fixed, &program, scratch))
}

/// As they are, these fixtures may be over before convoy has looked at the program's modules (docs/limits.md).
const SCALE: &str = "8";

fn said_or_not(fixture: &Fixture, fixed: bool, program: &Path, scratch: &Scratch) -> Result {
    let profile = scratch.path("run.convoy");
    let mut command = convoy::diagnose(&["--every"], &profile)?;
    command.arg(program).env("CONVOY_FX_SCALE", SCALE);
    let outcome = run(&mut command, scratch.dir(), "diagnose", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0) && outcome.stdout.ends_with("EXIT-SUCCESS\n"),
        "{outcome:?}"
    );
    let report = convoy::report(&profile, scratch.dir())?;
    let said = verdicts(&report, &fixture.function);
    let is_said = said.contains(&fixture.verdict);
    check!(
        is_said != fixed,
        "{}: {} {} of {}; said: {said:?}",
        fixture.title,
        fixture.verdict,
        if fixed { "is said" } else { "is not said" },
        fixture.function
    );
    Ok(())
}

/// What is decided of the sections that begin in a function.
fn verdicts(report: &Value, function: &str) -> Vec<String> {
    let none = Vec::new();
    let places = report["sections"]["places"].as_array().unwrap_or(&none);
    let begins_in = |place: &&Value| {
        let stack = place["stack"].as_u64().unwrap_or(u64::MAX) as usize;
        let stack = &report["stacks"][stack];
        let shown = stack["shown"].as_u64().unwrap_or(0) as usize;
        stack["frames"][shown]["function"] == function
    };
    let decided = |place: &Value| {
        let verdict = &place["verdict"];
        let id = verdict["causes"][0]["id"].as_str()?;
        verdict["decided"].as_bool()?.then(|| id.to_owned())
    };
    let mut said: Vec<String> = places
        .iter()
        .filter(begins_in)
        .filter_map(decided)
        .collect();
    // A lock that is always inside another one has no sections of its own.
    let inside = report["sections"]["inside"].as_array().unwrap_or(&none);
    if inside.iter().any(|row| row["always"] == true) {
        said.push("already-exclusive".into());
    }
    said
}
