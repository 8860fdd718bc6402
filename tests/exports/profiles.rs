//! Stored profiles, from file to text: what is said of them changes only on purpose. Recorded by
//! scripts/golden_profiles.sh; `CONVOY_BLESS=1` accepts the present reports.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, Result};
use libtest_mimic::Trial;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Findings that no stored profile has: with scheduler events serial-code takes their place.
const WITHOUT_PROFILE: [&str; 1] = ["serial-phase"];

fn directory() -> PathBuf {
    root().join("tests/golden/profiles")
}

/// The cases: one for each profile, and one for all of them.
pub fn trials() -> Vec<Trial> {
    let files = fs::read_dir(directory()).into_iter().flatten().flatten();
    let profiles = files.map(|file| file.path());
    let profiles = profiles.filter(|path| path.extension().is_some_and(|end| end == "convoy"));
    let mut profiles: Vec<PathBuf> = profiles.collect();
    profiles.sort();
    let mut trials: Vec<Trial> = profiles
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("profiles/{name}");
            trial(name, None, move |scratch| says_the_same(scratch, &path))
        })
        .collect();
    trials.push(trial(
        "profiles/every-finding",
        None,
        every_finding_has_a_profile,
    ));
    trials
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn says_the_same(scratch: &Scratch, profile: &Path) -> Result<()> {
    // By its bare name, which the report says with how to see more of it.
    let name = profile.file_name().unwrap_or_default();
    fs::copy(profile, scratch.dir().join(name)).map_err(|e| e.to_string())?;
    let mut report = Command::new(convoy::binary()?);
    report.args(["report", "--all"]).arg(name);
    // Bars as on a terminal with Unicode, at the width of no terminal.
    report.env("LC_ALL", "C.UTF-8").env_remove("COLUMNS");
    let outcome = run(&mut report, scratch.dir(), "report", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let said = outcome.stdout;
    let golden = profile.with_extension("txt");
    if std::env::var_os("CONVOY_BLESS").is_some_and(|value| value == "1") {
        fs::write(&golden, said).map_err(|e| format!("{}: {e}", golden.display()))?;
        return Ok(());
    }
    let expected = read(&golden)?;
    let differs = said.lines().zip(expected.lines()).find(|(a, b)| a != b);
    check!(
        said == expected,
        "{}: the first line that differs (now, golden): {differs:?}",
        golden.display()
    );
    Ok(())
}

fn every_finding_has_a_profile(scratch: &Scratch) -> Result<()> {
    let mut list = Command::new(convoy::binary()?);
    let outcome = run(list.arg("findings"), scratch.dir(), "list", TIMEOUT)?;
    let list = outcome.stdout;
    let ids: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    check!(!ids.is_empty(), "`convoy findings` lists nothing: {list}");
    let mut said = String::new();
    let files = fs::read_dir(directory()).into_iter().flatten().flatten();
    for path in files.map(|file| file.path()) {
        if path.extension().is_some_and(|end| end == "txt") {
            let profile = path.with_extension("convoy");
            check!(profile.is_file(), "{}: no such profile", profile.display());
            said += &read(&path)?;
        }
    }
    let missing: Vec<_> = ids
        .iter()
        .filter(|id| !WITHOUT_PROFILE.contains(id) && !said.contains(&format!("[{id}]")))
        .collect();
    check!(missing.is_empty(), "no stored profile has {missing:?}");
    Ok(())
}
