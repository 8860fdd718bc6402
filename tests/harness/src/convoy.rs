//! The `convoy` binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoy_profile::Profile;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::run::{run, End};
use crate::{check, profile_dir, Result};

/// Reports are made from files: they take no longer on a slow machine than this.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// `$CONVOY_BIN`, or the binary that was built with these tests.
pub fn binary() -> Result<PathBuf> {
    let binary =
        std::env::var_os("CONVOY_BIN").map_or_else(|| profile_dir().join("convoy"), PathBuf::from);
    check!(
        binary.is_file(),
        "{}: no such binary; build it (`cargo build -p convoy`) or set CONVOY_BIN",
        binary.display()
    );
    Ok(binary)
}

/// The upper bound of a gain in a JSON report: null says that nothing bounds it.
pub fn bound<'de, D: Deserializer<'de>>(json: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(json)?.unwrap_or(f64::INFINITY))
}

/// `convoy record --quiet -o <profile> --`, to be followed by the command.
pub fn record(profile: &Path) -> Result<Command> {
    record_with(&[], profile)
}

/// The same with more options.
pub fn record_with(options: &[&str], profile: &Path) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command
        .args(["record", "--quiet"])
        .args(options)
        .arg("-o")
        .arg(profile)
        .arg("--");
    Ok(command)
}

/// `convoy diagnose --quiet --report-to /dev/null -o <profile> --`, to be followed by the command.
pub fn diagnose(options: &[&str], profile: &Path) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command
        .args(["diagnose", "--quiet", "--report-to", "/dev/null"])
        .args(options)
        .arg("-o")
        .arg(profile)
        .arg("--");
    Ok(command)
}

/// `convoy causal --quiet --format json --report-to <report> --`, to be followed by the command.
pub fn causal(options: &[&str], report: &Path) -> Result<Command> {
    experiments("causal", options, report)
}

/// The same for any verb that experiments.
pub fn experiments(verb: &str, options: &[&str], report: &Path) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command
        .args([verb, "--quiet", "--format", "json"])
        .args(options)
        .arg("--report-to")
        .arg(report)
        .arg("--");
    Ok(command)
}

/// `convoy record --quiet -o <profile> -p <pid> --for <time>`: with the agent, where it may go in.
pub fn attach(profile: &Path, pid: u32, time: Duration) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command
        .args(["record", "--quiet", "-o"])
        .arg(profile)
        .arg("-p")
        .arg(pid.to_string())
        .arg("--for")
        .arg(format!("{}s", time.as_secs_f64()));
    Ok(command)
}

/// Reads a profile that must be whole.
pub fn read(profile: &Path) -> Result<Profile> {
    let bytes = std::fs::read(profile).map_err(|e| format!("{}: {e}", profile.display()))?;
    let (data, warnings) =
        Profile::read(&bytes).map_err(|e| format!("{}: {e}", profile.display()))?;
    check!(warnings.is_empty(), "{}: {warnings:?}", profile.display());
    Ok(data)
}

/// `convoy report --format json <profile>`.
pub fn report(profile: &Path, dir: &Path) -> Result<Value> {
    let mut command = Command::new(binary()?);
    command.args(["report", "--format", "json"]).arg(profile);
    let outcome = run(&mut command, dir, "report", REPORT_TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{command:?}: {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    serde_json::from_str(&outcome.stdout).map_err(|e| format!("{command:?}: not JSON: {e}"))
}
