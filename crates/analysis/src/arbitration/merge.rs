//! One list of what both rooms say. What says the same is said once, with the other room's word as evidence.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{rank, Finding, Subject};
use convoy_model::{GroupId, Model, OffReason, Site, SiteId, SpinKind, SyncCode, ThreadId, Use};
use convoy_profile::ObjectKind;

use crate::detectors::busy_waiting::is_inside;
use crate::detectors::interpreter_lock::is_its_wait;
use crate::facts::subject::{groups, process};
use crate::params::Params;
use crate::tables::paths::most;
use crate::tables::scheduler::Analysis;
use crate::words::evidence;

/// Share of serial code's time that waits for one lock must explain to be that lock's.
const EXPLAINED: f64 = 0.5;
/// Share of their time that threads lose at cache lines, from which on the differences between
/// their ends may be due to that.
const UNEVEN_BY_FIGHT: f64 = 0.15;
/// Evidence of a folded finding that comes along: places and files.
const CARRIED: usize = 2;

/// Joins the findings of `detect` (cross-checked or not) with those of an analysis. Returns those worth a
/// person's time and the others, each most gain first.
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
        let related = |theirs: &Finding| relation(model, critical, theirs, ours);
        let Some((at, relation)) = (0..found.len()).find_map(|at| Some((at, related(&found[at])?)))
        else {
            match revived(&mut rest, ours, |theirs| {
                related(theirs) == Some(Relation::Spins)
            }) {
                Some(lock) => found.push(lock),
                None => own.push(ours.clone()),
            }
            continue;
        };
        match relation {
            Relation::Spins => with_spinning(&mut found[at], ours),
            Relation::Folded => fold(&mut found[at], ours),
            Relation::Agrees => {
                fold(&mut found[at], ours);
                leave_to_the_device(model, &mut found[at], ours);
                // Why is told by ours, and so is what it can buy at most.
                let high = &mut found[at].gain.high;
                *high = high.max(ours.gain.high);
                own.push(agreed(ours, &found[at]));
            }
            Relation::Replaces => {
                let theirs = found.remove(at);
                own.push(agreed(ours, &theirs));
                rest.push(theirs);
            }
        }
    }
    // That one thread does it all is what is left to say where nothing is wrong with what it does.
    let one_works = critical.parallelism.workers_at_once < 2 && !found.is_empty();
    let (alone, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|f: &Finding| {
        one_works && f.id == "too-few-threads" && f.subject == Subject::Run
    });
    rest.extend(alone);
    found.extend(own);
    rest.extend(critical.dismissed.iter().cloned());
    (rank(found, |_| true).0, rank(rest, |_| true).0)
}

/// How a finding of ours stands to one of theirs that is about the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// Theirs says all of it: ours is its evidence.
    Folded,
    /// The same: theirs is a lock, and ours the loop in which those look again who want it.
    Spins,
    /// Both stay: ours says why, or how many threads.
    Agrees,
    /// Ours has the same with its code: theirs is dismissed.
    Replaces,
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

/// A lock that was dismissed, as its waits alone are no matter, if what threads spin for it is one.
fn revived(
    dismissed: &mut Vec<Finding>,
    ours: &Finding,
    spins_for: impl Fn(&Finding) -> bool,
) -> Option<Finding> {
    let is_worth = ours.id == "busy-waiting" && ours.gain.mid >= Params::default().gain_mid;
    let at = is_worth.then(|| dismissed.iter().position(spins_for))??;
    let mut lock = dismissed.remove(at);
    with_spinning(&mut lock, ours);
    Some(lock)
}

/// What threads spin for a lock goes with it, and may be more than what they sleep for it.
fn with_spinning(lock: &mut Finding, spinning: &Finding) {
    fold(lock, spinning);
    let (gain, other) = (&mut lock.gain, &spinning.gain);
    if other.mid > gain.mid {
        // That the waits alone buy nothing is no objection any more.
        let limited_by = std::mem::replace(&mut gain.limited_by, other.limited_by.clone());
        lock.caveats.retain(|text| !text.ends_with(&limited_by));
    }
    gain.low = gain.low.max(other.low);
    gain.mid = gain.mid.max(other.mid);
    gain.high = gain.high.max(other.high);
}

/// A lock whose holder waits for a file: that the others no longer wait for the lock makes no device faster. Of the waits that
/// are due to it only as much is promised as ours does.
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
    // Where it is written through less often, other waits for the lock are in what that buys already.
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
    theirs.evidence.extend(carried.take(CARRIED).cloned());
}

/// `None` if they are about different things.
fn relation(
    model: &Model,
    critical: &Analysis,
    theirs: &Finding,
    ours: &Finding,
) -> Option<Relation> {
    let in_process = || {
        let of_theirs = process(model, &theirs.subject);
        of_theirs.is_some() && of_theirs == process(model, &ours.subject)
    };
    let (is, relation) = match (ours.id, theirs.id) {
        ("holder-off-cpu", _) => {
            let ids = theirs.subject.objects();
            let same = ours.subject.objects().iter().any(|id| ids.contains(id));
            (same, Relation::Agrees)
        }
        ("small-writes", _) => {
            let ids = theirs.subject.objects();
            let same = ours.subject.objects().iter().any(|id| ids.contains(id));
            (same, Relation::Replaces)
        }
        ("limiting-stage" | "too-few-threads", "load-imbalance" | "slow-stage") => {
            let of_theirs = groups(model, &theirs.subject);
            let of_ours = groups(model, &ours.subject);
            let same = of_ours.iter().any(|group| of_theirs.contains(group));
            // That those who only ask could be fewer is no advice: what is missing is threads that work.
            let relation = match (ours.id, theirs.id) {
                ("too-few-threads", "load-imbalance") => Relation::Replaces,
                // What handing over costs is no work of a stage's: the scheduler knows it apart.
                (_, "slow-stage") => Relation::Replaces,
                _ => Relation::Agrees,
            };
            (same, relation)
        }
        ("thread-imbalance", "straggler" | "barrier-imbalance") => (in_process(), Relation::Folded),
        // A thread that loses more of the fight ends later: the fight hides how even the work is.
        ("false-sharing" | "contended-line" | "contended-atomic", "straggler") => (
            in_process() && ours.share_of_thread_time >= UNEVEN_BY_FIGHT,
            Relation::Replaces,
        ),
        // Most of what is handed over so is nothing: what is left of it shows without that.
        ("lock-step", "futile-wakeups") => (
            in_process() && wait_at(model, theirs, &groups(model, &ours.subject)),
            Relation::Folded,
        ),
        ("busy-waiting", "trylock-spin" | "contended-lock" | "asymmetric-contention") => {
            let inside = in_process() && spins_inside(model, theirs, ours);
            let for_a_lock = || in_process() && spins_for_a_lock(model, ours);
            let is = match theirs.id {
                "trylock-spin" => for_a_lock(),
                "contended-lock" => inside || (for_a_lock() && is_spin_lock(model, theirs)),
                _ => inside,
            };
            let relation = match inside {
                true => Relation::Spins,
                false => Relation::Folded,
            };
            (is, relation)
        }
        // More threads would wait for the same tokens.
        ("blocking-calls" | "sleep-polling", "small-pool") => (
            in_process() && wait_at(model, theirs, &blocked_at(model, ours)),
            Relation::Folded,
        ),
        ("contended-futex", "contended-lock") => (
            in_process() && at_the_same_place(model, theirs, ours),
            Relation::Folded,
        ),
        ("serial-code", "serial-phase") => (in_process(), Relation::Replaces),
        ("serial-code", "slow-stage") => (is_the_stage(model, theirs, ours), Relation::Replaces),
        ("serial-code", _) => (
            under_the_lock(model, critical, theirs, ours),
            // One thread alone that waits for it waits for the end of the others: Python joins so.
            if theirs.id == "small-pool" && waiters(model, theirs) < 2 {
                Relation::Replaces
            } else {
                Relation::Folded
            },
        ),
        _ => (false, Relation::Folded),
    };
    is.then_some(relation)
}

/// Whether threads of these groups wait for the objects of a finding.
fn wait_at(model: &Model, theirs: &Finding, groups: &[GroupId]) -> bool {
    let group = |id: ThreadId| model.threads.get(id.0 as usize).map(|th| th.group);
    waits(model, theirs).any(|u| group(u.thread).is_some_and(|g| groups.contains(&g)))
}

/// Groups of the threads that block where a finding is.
fn blocked_at(model: &Model, finding: &Finding) -> Vec<GroupId> {
    let Subject::Code(site) = finding.subject else {
        return Vec::new();
    };
    let offs = model.sched.iter().flat_map(|sched| &sched.offs);
    let here = offs.filter(|off| off.site == Some(site));
    let threads = here.filter_map(|off| model.threads.get(off.thread.0 as usize));
    threads.map(|th| th.group).collect()
}

/// Whether code is what one of the stages works on.
fn is_the_stage(model: &Model, theirs: &Finding, ours: &Finding) -> bool {
    let Subject::Code(site) = ours.subject else {
        return false;
    };
    let stages = groups(model, &theirs.subject);
    group_at(model, site).is_some_and(|group| stages.contains(&group))
}

/// Waits for a futex in the function that waits for the lock: the word may be another one than the lock's
/// address (OpenMP's critical sections, locks that are made of several words).
fn at_the_same_place(model: &Model, theirs: &Finding, ours: &Finding) -> bool {
    let Subject::Code(site) = ours.subject else {
        return false;
    };
    function(model, site).is_some_and(|name| waiting_functions(model, theirs).contains(name))
}

/// Functions of the program that wait for the objects of a finding.
fn waiting_functions<'a>(model: &'a Model, finding: &Finding) -> BTreeSet<&'a str> {
    let sites = waits(model, finding).map(|u| u.site);
    sites.filter_map(|site| function(model, site)).collect()
}

/// Uses that waited for the objects of a finding.
fn waits<'a>(model: &'a Model, finding: &Finding) -> impl Iterator<Item = &'a Use> {
    let ids: BTreeSet<_> = finding.subject.objects().iter().copied().collect();
    let waits = move |u: &&Use| u.waits > 0 && ids.contains(&u.object);
    model.uses.iter().filter(waits)
}

fn function(model: &Model, site: SiteId) -> Option<&str> {
    shown(model.site(site)?)
}

fn shown(site: &Site) -> Option<&str> {
    let name = site.shown_frame()?.function.as_str();
    Some(name).filter(|name| !name.is_empty())
}

/// Whether the loop is the lock's own: those who take it wait on the processor for a while before they sleep.
fn spins_inside(model: &Model, theirs: &Finding, ours: &Finding) -> bool {
    let Subject::Loop(id) = ours.subject else {
        return false;
    };
    let takers = waiting_functions(model, theirs);
    let by_taker = |site: &Site| {
        site.sync == Some(SyncCode::Lock) && shown(site).is_some_and(|name| takers.contains(name))
    };
    !takers.is_empty() && is_inside(model, id, by_taker)
}

fn spins_for_a_lock(model: &Model, finding: &Finding) -> bool {
    let Subject::Loop(id) = finding.subject else {
        return false;
    };
    let loops = model.sched.as_ref().map(|s| &s.loops);
    let spin = loops.and_then(|loops| loops.get(id.0 as usize));
    spin.is_some_and(|spin| {
        matches!(
            spin.kind,
            SpinKind::Lock | SpinKind::Yield | SpinKind::KnownFunction
        )
    })
}

fn is_spin_lock(model: &Model, finding: &Finding) -> bool {
    finding
        .subject
        .objects()
        .iter()
        .filter_map(|id| model.objects.get(id.0 as usize))
        .any(|object| matches!(object.kind, ObjectKind::Spin | ObjectKind::OmpLock))
}

/// Code that runs alone because it holds a lock that the others wait for.
fn under_the_lock(model: &Model, critical: &Analysis, theirs: &Finding, ours: &Finding) -> bool {
    let (Some(sched), Subject::Code(site)) = (&model.sched, &ours.subject) else {
        return false;
    };
    let ids = theirs.subject.objects();
    let Some(group) = group_at(model, *site).filter(|_| !ids.is_empty()) else {
        return false;
    };
    let alone = ours
        .evidence
        .iter()
        .find(|e| e.key == "low_cmetric_ns")
        .map_or(f64::INFINITY, |e| e.value);
    let below = critical.parallelism.low_below;
    let mut waited: BTreeMap<_, f64> = BTreeMap::new();
    let takers = waiting_functions(model, theirs);
    for wake in &sched.wakes {
        let Some(off) = sched.off(wake.off) else {
            continue;
        };
        let by_group = matches!(wake.waker, convoy_model::Waker::Thread(id, _)
            if model.threads.get(id.0 as usize).is_some_and(|th| th.group == group));
        // The word may be another one than the lock's address, as of OpenMP's critical sections.
        let taker = || {
            off.site
                .and_then(|at| function(model, at))
                .is_some_and(|name| takers.contains(name))
        };
        let waits = off.reason == OffReason::Futex && off.object.is_none() && taker();
        if by_group && (waits || off.object.is_some_and(|id| ids.contains(&id))) {
            let histogram = crate::tables::waits::meanwhile(off);
            let low = crate::facts::concurrency::low_or_none(histogram, below)
                / (off.sum_ns as f64).max(1.0);
            *waited.entry(off.thread).or_default() += wake.wait_ns as f64 * low.min(1.0);
        }
    }
    explained(waited.values().copied()) >= EXPLAINED * alone
}

/// Time in which one thread worked and another one waited, at least. `waited`: by thread,
/// meanwhile. Where they take turns nobody waits all of it; but of those that wait, one works at
/// any time.
fn explained(waited: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut most, mut threads) = (0.0, 0.0_f64, 0.0_f64);
    for of_thread in waited {
        sum += of_thread;
        most = most.max(of_thread);
        threads += 1.0;
    }
    most.max(sum / (threads - 1.0).max(1.0))
}

/// Locks of Python's own whose holders wait for the interpreter lock: that is what is said.
fn of_an_interpreter(model: &Model, critical: &Analysis, theirs: &Finding) -> bool {
    let of_theirs = process(model, &theirs.subject);
    let mut said = critical
        .findings
        .iter()
        .filter(|f| f.id == "interpreter-lock");
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

/// Threads that the scheduler saw waiting for the objects of a finding.
fn waiters(model: &Model, theirs: &Finding) -> usize {
    let ids = theirs.subject.objects();
    let offs = model.sched.iter().flat_map(|sched| &sched.offs);
    let waited = offs.filter(|off| off.object.is_some_and(|id| ids.contains(&id)));
    waited.map(|off| off.thread).collect::<BTreeSet<_>>().len()
}

/// The group that was active with this call stack most.
fn group_at(model: &Model, site: SiteId) -> Option<GroupId> {
    let mut groups: BTreeMap<GroupId, f64> = BTreeMap::new();
    for slice in &model.sched.as_ref()?.slices {
        if slice.site == Some(site) {
            let thread = model.threads.get(slice.thread.0 as usize)?;
            *groups.entry(thread.group).or_default() += slice.cm_ns;
        }
    }
    most(groups)
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn threads_that_take_turns_explain_together_what_none_of_them_does() {
        assert_eq!(explained([90.0, 75.0].into_iter()), 165.0);
        assert_eq!(explained([100.0, 100.0, 100.0].into_iter()), 150.0);
        assert_eq!(explained([120.0, 1.0, 1.0].into_iter()), 120.0);
        assert_eq!(explained([40.0].into_iter()), 40.0);
        assert_eq!(explained([].into_iter()), 0.0);
    }
}
