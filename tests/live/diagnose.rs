//! Fixtures whose sections are one row of Table 1 each, traced: the right verdict, and another one or none once the
//! program is fixed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
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
    /// Libraries that it is linked with.
    #[serde(default)]
    linked: Vec<String>,
    /// A library whose path is the program's argument.
    #[serde(default)]
    loaded: Option<String>,
    #[serde(skip)]
    folder: PathBuf,
}

/// A fixture's program in one language.
#[derive(Debug, Clone)]
struct Program {
    fixture: Fixture,
    source: PathBuf,
}

/// The tests of all fixtures.
pub fn trials() -> Vec<Trial> {
    let fixtures = match all() {
        Ok(fixtures) => fixtures,
        Err(message) => {
            return vec![measured("diagnose/fixtures", None, move |_| {
                Err(message.clone())
            })]
        }
    };
    let mut trials = Vec::new();
    for program in fixtures.into_iter().flat_map(programs) {
        for (test, fixed) in [("found", false), ("fixed-is-not", true)] {
            let program = program.clone();
            let name = format!("diagnose/{}/{test}", program.name());
            let needs = missing(&["cpus-2".to_owned()]);
            trials.push(measured(name, needs, move |scratch| {
                judge(&program, fixed, scratch)
            }));
        }
    }
    trials
}

/// In C, in C++, or in both.
fn programs(fixture: Fixture) -> Vec<Program> {
    let stem = fixture.name().replace('-', "_");
    let sources = ["c", "cpp"].map(|extension| fixture.folder.join(format!("{stem}.{extension}")));
    let there = sources.into_iter().filter(|source| source.is_file());
    there
        .map(|source| Program {
            fixture: fixture.clone(),
            source,
        })
        .collect()
}

impl Fixture {
    fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Program {
    fn name(&self) -> String {
        match self.source.extension() {
            Some(extension) if extension == "cpp" => format!("{}-cpp", self.fixture.name()),
            _ => self.fixture.name(),
        }
    }

    /// The command that runs it, compiled with its libraries.
    fn command(&self, fixed: bool) -> Result<Vec<PathBuf>> {
        let library = |name: &String| {
            let flags = ["-shared", "-fPIC"].map(str::to_owned);
            compile(&self.fixture.folder.join(name), &flags)
        };
        // Some linkers drop what the program, which comes after its libraries, does not yet need.
        let mut flags = vec!["-Wl,--no-as-needed".to_owned()];
        for name in &self.fixture.linked {
            flags.push(library(name)?.display().to_string());
        }
        if fixed {
            flags.push("-DFX_FIXED".to_owned());
        }
        let mut command = vec![compile(&self.source, &flags)?];
        if let Some(name) = &self.fixture.loaded {
            command.push(library(name)?);
        }
        Ok(command)
    }
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
    fixture.folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(fixture)
}

fn judge(program: &Program, fixed: bool, scratch: &Scratch) -> Result {
    let command = program.command(fixed)?;
    turn::retry(|| said_or_not(&program.fixture, fixed, &command, scratch))
}

/// As they are, these fixtures may be over before convoy has looked at the program's modules (docs/limits.md).
const SCALE: &str = "8";

fn said_or_not(fixture: &Fixture, fixed: bool, program: &[PathBuf], scratch: &Scratch) -> Result {
    let profile = scratch.path("run.convoy");
    let mut command = convoy::diagnose(&["--every"], &profile)?;
    command.args(program).env("CONVOY_FX_SCALE", SCALE);
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
        let name = stack["frames"][shown]["function"].as_str();
        name.is_some_and(|name| is_named(name, function))
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

/// `(anonymous namespace)::f(int)` is f.
fn is_named(name: &str, function: &str) -> bool {
    let name = name.replace("(anonymous namespace)::", "");
    name.split('(').next() == Some(function)
}
