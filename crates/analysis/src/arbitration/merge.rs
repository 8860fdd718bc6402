//! One list of the findings of counters and scheduler: two about the same thing are reported once,
//! with the other one as evidence.

use convoy_model::finding::{rank, Finding, Subject};
use convoy_model::{FindingId, Model};

use super::overlap::{waits, Pair};
use super::rules::{decide, Then};
use crate::detectors::interpreter_lock::is_its_wait;
use crate::facts::subject::process;
use crate::params::Params;
use crate::tables::scheduler::Analysis;
use crate::words::evidence;

/// Pieces of evidence of an absorbed finding that come along: places and files.
const MAX_CARRIED: usize = 2;

/// Joins the findings of the counters (cross-checked or not) with those of the scheduler. Returns
/// those worth a person's time and the others, each most gain first.
pub fn merge(
    model: &Model,
    critical: &Analysis,
    found: Vec<Finding>,
    dismissed: Vec<Finding>,
) -> (Vec<Finding>, Vec<Finding>) {
    let of_pythons = |f: &Finding| of_an_interpreter(model, critical, f);
    let (explained, mut found): (Vec<_>, Vec<_>) = found.into_iter().partition(of_pythons);
    let mut rest = dismissed;
    rest.extend(explained);
    let mut own = Vec::new();
    for ours in &critical.findings {
        let related = |theirs: &Finding| {
            decide(&Pair {
                model,
                critical,
                scheduler: ours,
                counters: theirs,
            })
        };
        let Some((at, then)) = (0..found.len()).find_map(|at| Some((at, related(&found[at])?)))
        else {
            match revived(&mut rest, ours, |theirs| {
                related(theirs) == Some(Then::AbsorbGain)
            }) {
                Some(lock) => found.push(lock),
                None => own.push(ours.clone()),
            }
            continue;
        };
        match then {
            Then::AbsorbGain => with_spinning(&mut found[at], ours),
            Then::Absorb => fold(&mut found[at], ours),
            Then::KeepBoth => {
                fold(&mut found[at], ours);
                leave_to_the_device(model, &mut found[at], ours);
                // Why is told by ours, and so is what it can buy at most.
                let high = &mut found[at].gain.high;
                *high = high.max(ours.gain.high);
                own.push(agreed(ours, &found[at]));
            }
            Then::Replace => {
                let theirs = found.remove(at);
                own.push(agreed(ours, &theirs));
                rest.push(theirs);
            }
        }
    }
    // A single worker is the reason only where its work has no other finding.
    let one_works = critical.parallelism.workers_at_once < 2 && !found.is_empty();
    let (alone, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|f: &Finding| {
        one_works && f.id == FindingId::TooFewThreads && f.subject == Subject::Run
    });
    rest.extend(alone);
    found.extend(own);
    rest.extend(critical.dismissed.iter().cloned());
    (rank(found, |_| true).0, rank(rest, |_| true).0)
}

fn agreed(ours: &Finding, theirs: &Finding) -> Finding {
    let mut ours = ours.clone();
    ours.evidence.push(evidence(
        "detect_gain",
        theirs.gain.mid,
        format!("detect agrees: {}", theirs.title),
    ));
    ours
}

/// Takes back a lock that was dismissed for its waits alone, if the spinning for it is worth a fix.
fn revived(
    dismissed: &mut Vec<Finding>,
    ours: &Finding,
    spins_for: impl Fn(&Finding) -> bool,
) -> Option<Finding> {
    let is_worth = ours.id == FindingId::BusyWaiting && ours.gain.mid >= Params::default().gain_mid;
    let at = is_worth.then(|| dismissed.iter().position(spins_for))??;
    let mut lock = dismissed.remove(at);
    with_spinning(&mut lock, ours);
    Some(lock)
}

/// Adds the spinning for a lock to its finding: threads may spin longer than they sleep.
fn with_spinning(lock: &mut Finding, spinning: &Finding) {
    fold(lock, spinning);
    let (gain, other) = (&mut lock.gain, &spinning.gain);
    if other.mid > gain.mid {
        // The caveat that the waits alone gain nothing no longer holds.
        let limited_by = std::mem::replace(&mut gain.limited_by, other.limited_by.clone());
        lock.caveats.retain(|text| !text.ends_with(&limited_by));
    }
    gain.low = gain.low.max(other.low);
    gain.mid = gain.mid.max(other.mid);
    gain.high = gain.high.max(other.high);
}

/// Limits the gain of a lock whose holder waits for a file: a fix of the lock makes no device faster.
/// The waits that are due to it gain only what the scheduler's finding promises.
fn leave_to_the_device(model: &Model, lock: &mut Finding, ours: &Finding) {
    let value = |key: &str| ours.evidence.iter().find(|e| e.key == key);
    let (Some(waited), Some(_)) = (value("waited_for_ns"), value("file_wait_ns")) else {
        return;
    };
    let all: f64 = waits(model, lock).map(|u| u.wait_ns as f64).sum();
    let others = 1.0 - (waited.value / all.max(1.0)).min(1.0);
    let saved = |gain: f64| 1.0 - 1.0 / gain.max(1.0);
    let less = |theirs: f64, ours: f64| {
        let kept = others * saved(theirs) + saved(ours);
        (1.0 / (1.0 - kept.min(saved(theirs)))).max(1.0)
    };
    // The gain of fewer writes through already has the other waits for the lock in it.
    let waits_alone = value("waits_gain").map_or(ours.gain.mid, |e| e.value);
    let gain = &mut lock.gain;
    gain.mid = less(gain.mid, waits_alone);
    gain.low = less(gain.low, ours.gain.low).min(gain.mid);
}

fn fold(theirs: &mut Finding, ours: &Finding) {
    theirs.evidence.push(evidence(
        "scheduler_gain",
        ours.gain.mid,
        format!("the scheduler agrees: {}", ours.title),
    ));
    const TELLING: [&str; 4] = ["place_ratio", "file_wait_ns", "peer_wait_ns", "samples"];
    let telling = |key: &str| TELLING.contains(&key);
    let carried = ours.evidence.iter().filter(|e| telling(e.key));
    theirs.evidence.extend(carried.take(MAX_CARRIED).cloned());
}

/// Locks of Python's own whose holders wait for the interpreter lock: that is what is said.
fn of_an_interpreter(model: &Model, critical: &Analysis, theirs: &Finding) -> bool {
    let of_theirs = process(model, &theirs.subject);
    let mut said = critical
        .findings
        .iter()
        .filter(|f| f.id == FindingId::InterpreterLock);
    if of_theirs.is_none() || !said.any(|ours| process(model, &ours.subject) == of_theirs) {
        return false;
    }
    let mut waits = waits(model, theirs).peekable();
    let blocks = theirs
        .causes
        .iter()
        .any(|c| c.id == "blocking-inside-section");
    !blocks && waits.peek().is_some() && waits.all(|u| is_its_wait(model, u.site))
}
