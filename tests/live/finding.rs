//! Findings as `convoy report --format json` has them.

use convoy_harness::{check, Result};
use serde::Deserialize;
use serde_json::Value;

/// The part of a finding that the tests look at.
#[derive(Debug, Clone, Deserialize)]
pub struct Finding {
    pub rank: usize,
    pub id: String,
    pub title: String,
    pub gain: Gain,
    pub share_of_thread_time_ratio: f64,
    pub evidence: Vec<Evidence>,
    pub causes: Vec<Cause>,
    subject: Subject,
    /// The call stacks that the subject is about: function, file and line of each frame.
    #[serde(skip)]
    places: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Subject {
    stacks: Vec<usize>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Gain {
    pub low_ratio: f64,
    pub mid_ratio: f64,
    #[serde(deserialize_with = "convoy_harness::convoy::bound")]
    pub high_ratio: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Evidence {
    pub text: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Cause {
    pub text: String,
    pub fix: String,
}

impl Finding {
    /// Everything that a reader of the finding sees.
    pub fn words(&self) -> String {
        let evidence = self.evidence.iter().map(|e| e.text.as_str());
        let causes = self
            .causes
            .iter()
            .flat_map(|c| [c.text.as_str(), c.fix.as_str()]);
        std::iter::once(self.title.as_str())
            .chain(evidence)
            .chain(causes)
            .chain(self.places.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The ranked findings of a report, first one first.
pub fn findings(report: &Value) -> Result<Vec<Finding>> {
    let findings = report.get("findings").cloned().unwrap_or_default();
    let mut findings: Vec<Finding> =
        serde_json::from_value(findings).map_err(|e| format!("findings: {e}"))?;
    for finding in &mut findings {
        let stacks = finding.subject.stacks.iter();
        finding.places = stacks.flat_map(|&stack| frames(report, stack)).collect();
    }
    for (i, finding) in findings.iter().enumerate() {
        check!(
            finding.rank == i + 1,
            "rank {} in place {}",
            finding.rank,
            i + 1
        );
        let Gain {
            low_ratio: low,
            mid_ratio: mid,
            high_ratio: high,
        } = finding.gain;
        check!(
            low <= mid && mid <= high,
            "{}: gain {low} to {high} around {mid}",
            finding.id
        );
        let share = finding.share_of_thread_time_ratio;
        check!(
            (0.0..=1.0).contains(&share),
            "{}: {share} of the thread time",
            finding.id
        );
    }
    Ok(findings)
}

/// The frames of a call stack.
fn frames(report: &Value, stack: usize) -> Vec<String> {
    let frames = report["stacks"][stack]["frames"].as_array();
    let text = |frame: &Value| {
        let word = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
        let file = word("file");
        let file = file.rsplit('/').next().unwrap_or_default();
        format!("{} {file}:{}", word("function"), frame["line"])
    };
    frames.into_iter().flatten().map(text).collect()
}

/// For messages.
pub fn list(findings: &[Finding]) -> String {
    let line = |f: &Finding| {
        format!(
            "  {} {}: {} ({:.2}..{:.2})\n",
            f.rank, f.id, f.title, f.gain.low_ratio, f.gain.high_ratio
        )
    };
    findings.iter().map(line).collect()
}
