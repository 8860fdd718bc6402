//! Processes of one program that have the same bottleneck: forked workers, ranks. It is said once.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::{ObjectId, ProcessId};

use crate::text::{evidence, place_of};
use crate::view::{site_with_most, View};

/// What makes findings of two processes the same.
pub(crate) type Key<'a> = (&'static str, (&'a str, &'a str), String);

/// A finding about a lock, by what it says, the program and the place where the lock is used most. `None`: of
/// something else, which belongs to its process.
pub(crate) fn key<'a>(view: &View<'a>, finding: &Finding) -> Option<Key<'a>> {
    let lock: ObjectId = match &finding.subject {
        Subject::Object(id) | Subject::Site(id, _) => *id,
        Subject::Objects(ids) => *ids.first()?,
        _ => return None,
    };
    let site = site_with_most(view.uses_of(lock).iter().copied(), |u| u.wait_ns + u.calls)?;
    let process = view.model.processes.get(view.process.0 as usize)?;
    Some((finding.id, process.program(), place_of(view, Some(site))))
}

/// The findings of one process, each with its key.
pub(crate) type OfProcess<'a> = Vec<(Option<Key<'a>>, Finding)>;

/// Keeps of those of different processes that have one key the one that promises most, and says how many there are.
pub(crate) fn once(found: Vec<(ProcessId, OfProcess<'_>)>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut known: BTreeMap<Key<'_>, Known> = BTreeMap::new();
    for (process, of_process) in found {
        for (key, finding) in of_process {
            let others = key.as_ref().and_then(|key| known.get_mut(key));
            match others.filter(|known| known.first != process) {
                Some(known) => {
                    known.others += u64::from(known.latest != process);
                    known.latest = process;
                    match findings.get_mut(known.at) {
                        Some(best) if finding.gain.mid > best.gain.mid => *best = finding,
                        _ => {}
                    }
                }
                None => {
                    if let Some(key) = key {
                        let at = findings.len();
                        known.entry(key).or_insert(Known {
                            first: process,
                            latest: process,
                            at,
                            others: 0,
                        });
                    }
                    findings.push(finding);
                }
            }
        }
    }
    for known in known.into_values().filter(|known| known.others > 0) {
        if let Some(finding) = findings.get_mut(known.at) {
            let text = match known.others {
                1 => "the same in 1 more process of this program".to_owned(),
                n => format!("the same in {n} more processes of this program"),
            };
            let said = evidence("other_processes", known.others as f64, text);
            finding.evidence.push(said);
        }
    }
    findings
}

/// A finding that has been kept.
struct Known {
    first: ProcessId,
    latest: ProcessId,
    at: usize,
    /// Processes that have it, too.
    others: u64,
}
