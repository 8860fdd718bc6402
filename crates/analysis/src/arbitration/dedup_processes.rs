//! Processes of one program that have the same bottleneck: forked workers, ranks. It is said once.

use std::collections::BTreeMap;

use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::ProcessId;

use crate::facts::life_spans::share_within;
use crate::facts::process_view::{site_with_most, ProcessView};
use crate::words::{evidence, place_of};

/// What makes findings of two processes the same.
pub(crate) type Key<'a> = (FindingId, (&'a str, &'a str), String);

/// A finding about a lock, by what it says, the program and the place where the lock is used most. `None`: of
/// something else, which belongs to its process.
pub(crate) fn key<'a>(view: &ProcessView<'a>, finding: &Finding) -> Option<Key<'a>> {
    let lock = *finding.subject.objects().first()?;
    let site = site_with_most(view.uses_of(lock).iter().copied(), |u| u.wait_ns + u.calls)?;
    let process = view.model.processes.get(view.process.0 as usize)?;
    Some((finding.id, process.program(), place_of(view, Some(site))))
}

/// The findings of one process, each with its key.
pub(crate) struct OfProcess<'a> {
    pub(crate) load: Load,
    pub(crate) findings: Vec<(Option<Key<'a>>, Finding)>,
}

/// When a process lived, and the CPU time that it had. Nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    process: ProcessId,
    start: f64,
    end: f64,
    cpu: f64,
    /// CPUs that it may use.
    cpus: f64,
}

impl Load {
    pub(crate) fn of(view: &ProcessView) -> Self {
        Self {
            process: view.process,
            start: view.start,
            end: view.end,
            cpu: view.cpu(),
            cpus: view.cpus_allowed,
        }
    }
}

/// Part of the gain that is allowed at most beyond that: times are measured, and what waiting costs the CPUs goes with it.
const BEYOND: f64 = 1.25;

/// Keeps of those of different processes that have one key the one that promises most, and says how many there are. A fix
/// is for all of them, and so are the CPUs.
pub(crate) fn once(found: Vec<OfProcess<'_>>) -> Vec<Finding> {
    let loads: Vec<Load> = found.iter().map(|of| of.load).collect();
    let mut findings: Vec<Finding> = Vec::new();
    let mut known: BTreeMap<Key<'_>, Known> = BTreeMap::new();
    for OfProcess { load, findings: of } in found {
        for (key, finding) in of {
            let others = key.as_ref().and_then(|key| known.get_mut(key));
            match others.filter(|known| known.processes.first() != Some(&load.process)) {
                Some(known) => {
                    if known.processes.last() != Some(&load.process) {
                        known.processes.push(load.process);
                    }
                    match findings.get_mut(known.at) {
                        Some(best) if finding.gain.mid > best.gain.mid => *best = finding,
                        _ => {}
                    }
                }
                None => {
                    if let Some(key) = key {
                        known.entry(key).or_insert(Known {
                            processes: vec![load.process],
                            at: findings.len(),
                        });
                    }
                    findings.push(finding);
                }
            }
        }
    }
    for known in known
        .into_values()
        .filter(|known| known.processes.len() > 1)
    {
        if let Some(finding) = findings.get_mut(known.at) {
            let others = known.processes.len() - 1;
            let text = match others {
                1 => "the same in 1 more process of this program".to_owned(),
                n => format!("the same in {n} more processes of this program"),
            };
            let said = evidence("other_processes", others as f64, text);
            finding.evidence.push(said);
            let most = most_of_all(&loads, &known.processes);
            let gain = &mut finding.gain;
            if gain.mid > most {
                gain.limited_by = format!("CPUs: all {} would use them", others + 1);
            }
            gain.mid = gain.mid.min(most);
            gain.high = gain.high.min(1.0 + BEYOND * (most - 1.0)).max(gain.mid);
            gain.low = gain.low.min(gain.mid);
        }
    }
    findings
}

/// How much faster these processes can get together, on what the others leave of the CPUs.
fn most_of_all(loads: &[Load], processes: &[ProcessId]) -> f64 {
    let (these, others): (Vec<&Load>, Vec<&Load>) = loads
        .iter()
        .partition(|load| processes.contains(&load.process));
    let start = these.iter().map(|load| load.start).fold(f64::MAX, f64::min);
    let end = these.iter().map(|load| load.end).fold(0.0, f64::max);
    let there = |load: &&Load| load.cpu * share_within((load.start, load.end), (start, end));
    let taken: f64 = others.iter().map(there).sum();
    let cpus = these.iter().map(|load| load.cpus).fold(0.0, f64::max);
    let own: f64 = these.iter().map(|load| load.cpu).sum();
    ((cpus * (end - start) - taken) / own.max(1.0)).max(1.0)
}

/// A finding that has been kept.
struct Known {
    /// That have it.
    processes: Vec<ProcessId>,
    at: usize,
}
