//! Threads of Python or Ruby that take turns on the interpreter's own lock (GIL, GVL): one of them runs, whatever they do. Its waits
//! are those of a condition variable, and no lock of the program's shows them.

mod languages;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Cause, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{FindingId, GroupId, Model, OffReason, ProcessId, SiteId, ThreadId, Waker};

use self::languages::{Language, Wait};
use crate::detectors::pool_of_processes;
use crate::estimate::saving::{Saving, SWITCH_NS};
use crate::facts::lock_waits::Excluded;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence, time};

/// Share of their lives that threads wait for it from which on it is what limits them.
const WAITED: f64 = 0.05;
/// What processes have of it: they are started, and what they pass on is copied.
const EXPECTED: f64 = 0.7;
const SURE: f64 = 0.2;
/// Share of what the threads run that taking turns may cost: the caches that each finds changed by the other.
const TURNS: f64 = 0.2;
/// Share of these waits in which at least one thread works: who has the interpreter does, or would if there were a processor for it.
const HELD: f64 = 0.5;
/// Processors that the threads of one interpreter keep busy together at most, with what they do without it: those of several (Ractors) wait at
/// the same places.
const OF_ONE: f64 = 1.5;
/// Processors that the threads keep busy together, up to which the interpreter is idle at times, and from which on never.
const IDLE: f64 = 0.5;
const BUSY: f64 = 0.9;
const METHOD: &str =
    "waits for the interpreter lock, and for locks whose holders wait for it, gone";

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut processes: BTreeMap<ProcessId, (Excluded, &Language)> = BTreeMap::new();
    let futexes = view
        .sched
        .offs
        .iter()
        .filter(|off| off.reason == OffReason::Futex);
    for off in futexes {
        if let Some((language, Wait::Interpreter)) = waits_in(view.model, off.site) {
            let process = processes.entry(view.process(off.thread));
            let (waits, _) = process.or_insert_with(|| (Excluded::default(), language));
            waits.add(view, off);
        }
    }
    let pools = pool_of_processes::that_hand_out(view);
    let convoys = processes
        .into_iter()
        .filter(|(_, (waits, _))| waits.is_a_convoy());
    convoys
        .filter_map(|(id, (waits, of))| finding(view, &waits, of, pools.contains(&id)))
        .collect()
}

/// Whether the interpreter lock, or a lock of the language's own, is waited for here.
pub(crate) fn is_its_wait(model: &Model, site: SiteId) -> bool {
    waits_in(model, Some(site)).is_some()
}

/// Whether the interpreter lock alone is.
pub(crate) fn is_for_interpreter(model: &Model, site: SiteId) -> bool {
    matches!(waits_in(model, Some(site)), Some((_, Wait::Interpreter)))
}

fn waits_in(model: &Model, site: Option<SiteId>) -> Option<(&'static Language, Wait)> {
    languages::wait(&model.site(site?)?.frames)
}

/// Waits of these threads for one another at locks of the language's: their holders wait for the interpreter.
fn at_locks(view: &RunView, threads: &BTreeSet<ThreadId>) -> f64 {
    let by_them = |waker: &Waker| matches!(waker, Waker::Thread(id, _) if threads.contains(id));
    let wakes = view.sched.wakes.iter().filter(|wake| by_them(&wake.waker));
    wakes
        .filter(|wake| {
            view.sched.off(wake.off).is_some_and(|off| {
                let wait = waits_in(view.model, off.site);
                threads.contains(&off.thread) && matches!(wait, Some((_, Wait::Lock)))
            })
        })
        .map(|wake| {
            // A holder that waits for something else, a disk or a peer, would without the interpreter lock, too.
            let elsewhere = wake.waker_off.iter().filter(|(id, _)| {
                let off = view.sched.off(*id);
                off.is_none_or(|off| waits_in(view.model, off.site).is_none())
            });
            let elsewhere: u64 = elsewhere.map(|(_, ns)| *ns).sum();
            wake.wait_ns.saturating_sub(elsewhere) as f64
        })
        .sum()
}

/// `queue`: each piece that goes through one takes the interpreter from one thread to the other.
fn causes(language: &Language, pool: bool, queue: bool) -> Vec<Cause> {
    let lock = cause("interpreter-lock", language.why, language.fix);
    if !language.hands_out {
        return vec![lock];
    }
    if pool {
        return vec![cause(
            "fine-grained-tasks",
            "the threads hand out pieces to processes and read what those give back: each piece takes the interpreter several times",
            "hand out larger pieces (chunksize of Pool.map, imap and ProcessPoolExecutor.map)",
        )];
    }
    let queue = queue.then(|| {
        cause(
            "fine-grained-tasks",
            "the threads pass on work piece by piece (queue.Queue), and each time wait for the interpreter as well",
            "pass on lists of some hundred pieces; in processes instead of threads single pieces would cost more still",
        )
    });
    queue.into_iter().chain([lock]).collect()
}

/// `pool`: they hand out pieces to processes, and read what those give back.
fn finding(
    view: &RunView,
    waits: &Excluded,
    language: &Language,
    pool: bool,
) -> Option<(Vec<GroupId>, Finding)> {
    let rows = || waits.threads.iter().filter_map(|id| view.threads.get(id));
    let runs = || rows().map(|th| th.cpu_work_ns() as f64);
    let running: f64 = runs().sum();
    let threads = waits.threads.len() as f64;
    // Where the interpreter is idle, who waits at a lock waits for something to do.
    let used = running / view.wall;
    let idle = waits.meanwhile.first().copied().unwrap_or(0) as f64;
    if idle > (1.0 - HELD) * waits.sum || (language.has_several && used > OF_ONE) {
        return None;
    }
    let busy = ((used - IDLE) / (BUSY - IDLE)).clamp(0.0, 1.0);
    let locks = busy * at_locks(view, &waits.threads);
    let (n, all) = (waits.n as f64, waits.sum + locks);
    let turns = (n * SWITCH_NS.0, n * SWITCH_NS.1 + TURNS * running);
    // What one of them computes stays.
    let longest = runs().fold(0.0, f64::max);
    let can_go = (view.wall - longest).max(0.0);
    let saving = Saving {
        expected: (EXPECTED * all / threads).min(can_go),
        most: ((all + turns.1) / threads).min(can_go + TURNS * longest),
        sure: SURE,
        cpu: (
            turns.0.min(TURNS * running),
            turns.1.min(2.0 * TURNS * running),
        ),
    };
    let share = waits.share(view);
    if share < WAITED || saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let site = most(waits.sites.clone())?;
    let mut list = waits.evidence();
    if locks > 0.0 {
        list.push(time(
            "lock_wait_ns",
            locks,
            &format!("of waits for other locks of {}", language.name),
        ));
    }
    list.push(evidence(
        "cpus_used",
        used,
        format!("together they keep {used:.1} processors busy"),
    ));
    let roles = waits.roles(view);
    let names: Vec<String> = roles.iter().map(|role| view.group_name(*role)).collect();
    let finding = Finding {
        id: FindingId::InterpreterLock,
        subject: Subject::Code(site),
        title: format!(
            "{} of {} contend for the interpreter lock ({}), {} of their time: {}",
            plural(waits.threads.len(), "thread"),
            language.name,
            language.lock,
            percent(share),
            names.join(", ")
        ),
        evidence: list,
        causes: causes(language, pool, locks >= all / 2.0),
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "what the threads compute"),
        share_of_thread_time: share,
        caveats: match pool && language.hands_out {
            true => Vec::new(),
            false => vec![language.but.into()],
        },
    };
    Some((roles, finding))
}
