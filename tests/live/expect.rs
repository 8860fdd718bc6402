//! What each fixture expects: `fixtures/<category>/expect.toml`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use convoy_harness::case::measured;
use convoy_harness::{check, root, Result};
use libtest_mimic::Trial;
use serde::Deserialize;

use crate::replay::Replay;

/// One category of bottleneck.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The folder's name.
    #[serde(skip)]
    pub category: String,
    /// In a few words.
    pub title: String,
    /// The finding that must come first; none: there must be none at all.
    pub finding: Option<String>,
    /// The function that the finding must name.
    pub culprit: Option<String>,
    /// What else it must name: a file, the thread, the code of the one that is waited for.
    #[serde(default)]
    pub names: Vec<String>,
    /// Keys of the program's JSON line whose values it must name: a process id.
    #[serde(default)]
    pub names_truth: Vec<String>,
    /// It must name a line of the source that is marked with "spins here".
    #[serde(default)]
    pub loop_line: bool,
    /// The finding that must come first, at the same culprit, when the program is attached to while it
    /// runs, where there is no agent.
    pub attach: Option<String>,
    /// Languages: extensions of the source, or implementations of MPI (`launch.rs`).
    #[serde(default = "only_c")]
    pub variants: Vec<String>,
    /// What it needs of the machine, besides two processors (`tests/harness/src/needs.rs`).
    #[serde(default)]
    pub needs: Vec<String>,
    /// Further flags for the compiler.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Other findings that may be there as well.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Findings that say the same from the other side, and so may come before it.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Findings that may remain in the fixed program.
    #[serde(default)]
    pub allow_fixed: Vec<String>,
    /// There is a fixed program (the same source with FX_FIXED).
    #[serde(default = "yes")]
    pub twin: bool,
    /// The predicted gain must agree with what the fixed program gains.
    pub gain: Option<Gain>,
    /// Threads per group that must be among the assignments offered, in order of the groups.
    pub best: Option<Vec<u32>>,
    /// Numbers of the program's own that the profile must have exactly.
    #[serde(default)]
    pub exact: Vec<Exact>,
    /// The waits that the program timed must be near those of the profile.
    pub wait: Option<Wait>,
    /// What `convoy replay` must find, and what each fix must be worth.
    pub replay: Option<Replay>,
}

/// How far a predicted interval may miss the measured speed-up.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// Relative: 0.35 lets an interval of 1.8 to 2.0 pass for 1.33 to 2.7.
    pub slack: f64,
}

/// A key of the program's JSON line, and where the profile has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exact {
    /// Key of the number of acquisitions or calls.
    pub truth: String,
    /// Key of the number of failed ones.
    pub failed: Option<String>,
    /// Where they are called.
    pub function: String,
    /// What is called.
    pub op: String,
    /// Operations per unit of the truth.
    #[serde(default = "one")]
    pub per_call: u64,
    /// Languages for which it holds; empty: all.
    #[serde(default)]
    pub variants: Vec<String>,
}

/// Tolerance of wait times.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The function that waits, where it is not the culprit.
    pub function: Option<String>,
    /// Relative.
    pub rel: f64,
    /// Absolute.
    pub abs_ns: u64,
}

fn only_c() -> Vec<String> {
    vec!["c".to_owned()]
}

fn yes() -> bool {
    true
}

fn one() -> u64 {
    1
}

/// Every folder of `fixtures` with an expect.toml, by name.
pub fn all() -> Result<Vec<Expect>> {
    let folder = root().join("fixtures");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path().join("expect.toml"))
        .filter(|f| f.is_file())
        .collect();
    files.sort();
    files.iter().map(read).collect()
}

fn read(file: &PathBuf) -> Result<Expect> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut expect: Expect =
        toml::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let folder = file
        .parent()
        .and_then(|f| f.file_name())
        .unwrap_or_default();
    expect.category = folder.to_string_lossy().into_owned();
    check!(
        expect.finding.is_some() == expect.culprit.is_some(),
        "{}: a finding and its culprit belong together",
        file.display()
    );
    check!(
        expect.culprit.is_some()
            || (expect.attach.is_none() && expect.names.is_empty() && !expect.loop_line),
        "{}: names, loop_line and attach are about a finding, and there is none",
        file.display()
    );
    if let Some(replay) = &expect.replay {
        replay
            .check()
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(expect)
}

impl Expect {
    /// The source of a variant.
    pub fn source(&self, variant: &str) -> PathBuf {
        let extension = match variant {
            "mpich" | "openmpi" | "openmpi-yield" => "c",
            other => other,
        };
        let file = format!("{}.{extension}", self.category.replace('-', "_"));
        root().join("fixtures").join(&self.category).join(file)
    }
}

/// `<file>:<line>` of the lines of a source on which its loop waits.
pub fn loop_lines(source: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(source).map_err(|e| format!("{}: {e}", source.display()))?;
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    let marked = text.lines().enumerate();
    let lines: Vec<String> = marked
        .filter(|(_, line)| line.contains("spins here"))
        .map(|(i, _)| format!("{file}:{}", i + 1))
        .collect();
    check!(!lines.is_empty(), "{}: no line is marked", source.display());
    Ok(lines)
}

/// docs/findings.md documents no finding (a heading with its id) that no fixture provokes, unless it
/// says so.
pub fn every_finding_has_a_fixture(fixtures: &[Expect]) -> Trial {
    // With the agent, detect's finding may have one of the kernel's side as its evidence.
    let provoked: BTreeSet<String> = fixtures
        .iter()
        .flat_map(|f| [f.finding.clone(), f.attach.clone()])
        .flatten()
        .collect();
    measured("findings/have-fixtures", None, move |_| {
        let file = root().join("docs/findings.md");
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        // Root causes follow, with headings of the same rank.
        let findings = text.split("\n## Root causes").next().unwrap_or_default();
        let ids: BTreeSet<String> = findings
            .split("\n### ")
            .skip(1)
            .filter(|section| !section.contains("No fixture ranks it first"))
            .filter_map(|section| Some(section.lines().next()?.to_owned()))
            .collect();
        check!(!ids.is_empty(), "{}: no headings with ids", file.display());
        let missing: Vec<_> = ids.difference(&provoked).collect();
        check!(missing.is_empty(), "no fixture for {missing:?}");
        let unknown: Vec<_> = provoked.difference(&ids).collect();
        check!(unknown.is_empty(), "not in {}: {unknown:?}", file.display());
        Ok(())
    })
}
