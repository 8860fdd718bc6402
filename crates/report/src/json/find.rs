//! Findings.

use convoy_estimate::{Check, Estimate};
use convoy_model::finding::{Cause, Evidence, Finding};
use serde::Serialize;

use crate::subject;

#[derive(Serialize)]
pub struct FindingOut<'a> {
    rank: usize,
    /// What limits the program: `lock-contention`, ...
    kind: &'static str,
    id: &'static str,
    title: &'a str,
    subject: SubjectOut,
    gain: GainOut<'a>,
    share_of_thread_time_ratio: f64,
    evidence: &'a [Evidence],
    causes: &'a [Cause],
    undecided: &'a str,
    caveats: &'a [String],
}

#[derive(Serialize)]
struct SubjectOut {
    kind: &'static str,
    objects: Vec<u32>,
    stacks: Vec<u32>,
    groups: Vec<u32>,
    threads: Vec<u32>,
    processes: Vec<u32>,
    loops: Vec<u32>,
    names: Vec<u32>,
}

#[derive(Serialize)]
struct GainOut<'a> {
    low_ratio: f64,
    mid_ratio: f64,
    high_ratio: Option<f64>,
    method: &'a str,
    limited_by: &'a str,
    /// What each method says, if more than one does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    estimates: Vec<EstimateOut<'a>>,
}

#[derive(Serialize)]
struct EstimateOut<'a> {
    method: &'static str,
    what_if: String,
    /// `null` = refused.
    low_ratio: Option<f64>,
    /// `null` = refused.
    mid_ratio: Option<f64>,
    /// `null` = nothing bounds it, or refused.
    high_ratio: Option<f64>,
    assumption: &'a str,
    /// Why it does not count; `null` = it does.
    refused: Option<&'a str>,
}

fn estimate(estimate: &Estimate) -> EstimateOut<'_> {
    let gain = estimate.shown();
    EstimateOut {
        method: estimate.method.id(),
        what_if: estimate.what_if.to_string(),
        low_ratio: gain.map(|gain| gain.low),
        mid_ratio: gain.map(|gain| gain.mid),
        high_ratio: gain.and_then(|gain| gain.high),
        assumption: &estimate.assumption,
        refused: match &estimate.check {
            Check::Failed(why) => Some(why),
            Check::None | Check::Passed(_) => None,
        },
    }
}

pub fn findings(findings: &[Finding], first_rank: usize) -> Vec<FindingOut<'_>> {
    findings
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let ids = subject::ids(&f.subject);
            FindingOut {
                rank: first_rank + i,
                kind: f.id.bottleneck().as_str(),
                id: f.id.as_str(),
                title: &f.title,
                subject: SubjectOut {
                    kind: subject::kind(&f.subject),
                    objects: ids.objects.iter().map(|id| id.0).collect(),
                    stacks: ids.sites.iter().map(|id| id.0).collect(),
                    groups: ids.groups.iter().map(|id| id.0).collect(),
                    threads: ids.threads.iter().map(|id| id.0).collect(),
                    processes: ids.processes.iter().map(|id| id.0).collect(),
                    loops: ids.loops.iter().map(|id| id.0).collect(),
                    names: ids.names.iter().map(|id| id.0).collect(),
                },
                gain: GainOut {
                    low_ratio: f.gain.low,
                    mid_ratio: f.gain.mid,
                    high_ratio: f.gain.high.is_finite().then_some(f.gain.high),
                    method: &f.gain.method,
                    limited_by: &f.gain.limited_by,
                    estimates: f.gain.estimates.iter().map(estimate).collect(),
                },
                share_of_thread_time_ratio: f.share_of_thread_time,
                evidence: &f.evidence,
                causes: &f.causes,
                undecided: &f.undecided,
                caveats: &f.caveats,
            }
        })
        .collect()
}
