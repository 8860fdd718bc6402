//! The library itself: its symbols, its thread-local storage, and what it does inside malloc.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::Scratch;
use convoy_harness::run::{run, End};
use convoy_harness::{check, compile, convoy, root, turn, Result};

const TIMEOUT: Duration = Duration::from_secs(60);

/// glibc keeps about 1,664 bytes of static TLS for libraries that are loaded late; an agent that uses much of
/// it could not be attached to a running program, and leaves nothing to others.
const STATIC_TLS_MAX: u64 = 128;

/// Which of the libraries: that of `convoy record`, of `convoy diagnose`, of `convoy record
/// --trace`, or of `convoy causal`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Normal,
    Tracing,
    Events,
    Causal,
}

/// The exported names are exactly those of agent/exports.txt, and for two builds those of
/// agent/exports-diagnose.txt or agent/exports-causal.txt besides: a hook that is missing is a lock
/// that is not seen, one too many is a function of the program's that we replace.
pub fn exports_are_the_map(build: Build) -> Result {
    let found = symbols(build, "--defined-only", |kind| kind != "A")?;
    let mut expected = lines(&root().join("agent/exports.txt"))?;
    let besides = match build {
        Build::Tracing => Some("agent/exports-diagnose.txt"),
        Build::Causal => Some("agent/exports-causal.txt"),
        Build::Normal | Build::Events => None,
    };
    if let Some(besides) = besides {
        expected.append(&mut lines(&root().join(besides))?);
    }
    check!(
        found == expected,
        "lists only: {:?}; library only: {:?}",
        &expected - &found,
        &found - &expected
    );
    Ok(())
}

/// What the library takes from libc is on a list that somebody has thought about, line by line.
pub fn imports_are_allowed(build: Build) -> Result {
    let found = symbols(build, "--undefined-only", |_| true)?;
    let allowed = lines(&root().join("tests/agent/imports.txt"))?;
    let others = &found - &allowed;
    check!(
        others.is_empty(),
        "imports that tests/agent/imports.txt does not allow: {others:?}"
    );
    let unused = &allowed - &found;
    check!(
        unused.is_empty(),
        "tests/agent/imports.txt allows what nobody uses: {unused:?}"
    );
    Ok(())
}

/// Thread-local storage is of the initial-exec kind (`__tls_get_addr` may allocate; it is on no list)
/// and small.
pub fn static_tls_is_small(build: Build) -> Result {
    let output = Command::new("readelf")
        .arg("-lW")
        .arg(agent(build)?)
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tls = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| {
            (words.next() == Some("TLS"))
                .then(|| words.nth(4).map(str::to_owned))
                .flatten()
        });
    let size = tls
        .as_deref()
        .and_then(|s| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok());
    check!(
        size.is_some_and(|s| s <= STATIC_TLS_MAX),
        "TLS of {tls:?} bytes; at most {STATIC_TLS_MAX:#x}"
    );
    Ok(())
}

/// A program whose malloc aborts when it is entered while the thread is inside a synchronization call runs to its end.
pub fn no_allocation_in_a_hook(build: Build, scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let program = compile::compile(
        &root().join("tests/agent/guarded_malloc.c"),
        &["-fno-builtin".into()],
    )?;
    let mut recorder = recorder(build, &scratch.path("run.convoy"))?;
    let outcome = run(recorder.arg(&program), scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "ended with {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(
        outcome.stdout.ends_with("EXIT-SUCCESS\n"),
        "stdout: {}",
        outcome.stdout
    );
    Ok(())
}

fn recorder(build: Build, profile: &Path) -> Result<Command> {
    match build {
        Build::Normal => convoy::record(profile),
        Build::Tracing => convoy::diagnose(&["--every"], profile),
        Build::Events => convoy::record_with(&["--trace=full"], profile),
        Build::Causal => convoy::causal(&[], profile),
    }
}

/// The library that convoy really preloads: the program's own environment tells.
fn agent(build: Build) -> Result<PathBuf> {
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let mut recorder = recorder(build, &scratch.path().join("run.convoy"))?;
    let outcome = run(recorder.arg("env"), scratch.path(), "convoy", TIMEOUT)?;
    let preload = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("LD_PRELOAD="));
    let words = preload.unwrap_or_default().split([' ', ':']);
    let agent = words
        .map(Path::new)
        .find(|path| path.to_string_lossy().contains("convoy"));
    // Only the dynamic loader makes a file of `$PLATFORM`; the library itself lies one folder
    // above.
    let file = |path: &Path| PathBuf::from(path.to_string_lossy().replace("/$PLATFORM/", "/"));
    agent
        .map(file)
        .ok_or_else(|| format!("no agent in LD_PRELOAD={preload:?}: {}", outcome.stderr))
}

/// Dynamic symbols. Of what is defined, the old versions keep theirs: `name@VERSION`.
fn symbols(build: Build, which: &str, wanted: impl Fn(&str) -> bool) -> Result<BTreeSet<String>> {
    let output = Command::new("nm")
        .args(["-D", which])
        .arg(agent(build)?)
        .output()
        .map_err(|e| e.to_string())?;
    check!(
        output.status.success(),
        "nm: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let symbol = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let versioned = words.next()?;
        let kind = words.next()?;
        let old = kind != "U" && kind != "w" && !versioned.contains("@@");
        let name = match versioned.split_once('@') {
            Some((name, _)) if !old => name,
            _ => versioned,
        };
        wanted(kind).then(|| name.to_owned())
    };
    Ok(text.lines().filter_map(symbol).collect())
}

/// A list, one name a line; `#` begins a comment.
fn lines(path: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    Ok(text
        .lines()
        .map(name)
        .filter(|name| !name.is_empty())
        .collect())
}
