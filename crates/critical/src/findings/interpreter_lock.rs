//! Threads of Python that take turns on the interpreter's own lock (GIL): one of them runs, whatever they do. Its waits
//! are those of a condition variable, and no lock of the program's shows them.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Cause, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{GroupId, Model, OffReason, ProcessId, SiteFrame, SiteId, ThreadId, Waker};

use super::excluded::Excluded;
use super::{pool_of_processes, Context};
use crate::gain::{Saving, SWITCH_NS};
use crate::tables::paths::most;
use crate::text::{cause, evidence, time};
use crate::view::View;

/// Share of their lives that threads wait for it from which on it is what limits them.
const WAITED: f64 = 0.05;
/// What processes have of it: they are started, and what they pass on is copied.
const EXPECTED: f64 = 0.7;
const SURE: f64 = 0.2;
/// Share of what the threads run that taking turns may cost: the caches that each finds changed by the other.
const TURNS: f64 = 0.2;
/// Processors that the threads keep busy together, up to which the interpreter is idle at times, and from which on never.
const IDLE: f64 = 0.5;
const BUSY: f64 = 0.9;
const METHOD: &str =
    "waits for the interpreter lock, and for locks whose holders wait for it, gone";

/// Calls in which a thread takes the interpreter lock; the function that waits has no name in most builds.
const TAKERS: [&str; 5] = [
    "_PyEval_EvalFrameDefault",
    "PyEval_RestoreThread",
    "PyEval_AcquireThread",
    "PyEval_AcquireLock",
    "PyGILState_Ensure",
];
const TAKE: &str = "take_gil";
/// Frames of the interpreter around a wait in which these are looked for.
const NEAR: usize = 3;
/// Where a lock of Python's own (threading.Lock, and queues made of it) is waited for.
const LOCKS: [&str; 2] = ["PyThread_acquire_lock_timed", "PyThread_acquire_lock"];

pub(crate) fn findings(cx: &Context) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut processes: BTreeMap<ProcessId, Excluded> = BTreeMap::new();
    let futexes = view
        .sched
        .offs
        .iter()
        .filter(|off| off.reason == OffReason::Futex);
    for off in futexes.filter(|off| waits_in(view.model, off.site) == Some(Wait::Interpreter)) {
        let process = processes.entry(view.process(off.thread)).or_default();
        process.add(view, off);
    }
    let pools = pool_of_processes::that_hand_out(view);
    let convoys = processes
        .into_iter()
        .filter(|(_, waits)| waits.is_a_convoy());
    convoys
        .filter_map(|(id, waits)| finding(view, &waits, pools.contains(&id)))
        .collect()
}

/// Whether the interpreter lock, or a lock of Python's own, is waited for here.
pub(crate) fn is_its_wait(model: &Model, site: SiteId) -> bool {
    waits_in(model, Some(site)).is_some()
}

/// Whether the interpreter lock alone is.
pub(crate) fn is_for_interpreter(model: &Model, site: SiteId) -> bool {
    waits_in(model, Some(site)) == Some(Wait::Interpreter)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Interpreter,
    Lock,
}

fn waits_in(model: &Model, site: Option<SiteId>) -> Option<Wait> {
    kind(&model.site(site?)?.frames)
}

fn kind(frames: &[SiteFrame]) -> Option<Wait> {
    let of_python = |frame: &SiteFrame| {
        let module = frame.module.strip_prefix("lib").unwrap_or(&frame.module);
        module.starts_with("python")
    };
    let at = frames.iter().position(of_python)?;
    // What waits is inlined, and has names of its own in builds that have any.
    let near: Vec<&str> = frames[at..]
        .iter()
        .take(NEAR)
        .map(|frame| frame.function.as_str())
        .collect();
    let unnamed = near[0].is_empty() && near.get(1).is_some_and(|name| TAKERS.contains(name));
    if unnamed || near.contains(&TAKE) {
        return Some(Wait::Interpreter);
    }
    near.iter()
        .any(|name| LOCKS.contains(name))
        .then_some(Wait::Lock)
}

/// Waits of these threads for one another at locks of Python's: their holders wait for the interpreter.
fn at_locks(view: &View, threads: &BTreeSet<ThreadId>) -> f64 {
    let by_them = |waker: &Waker| matches!(waker, Waker::Thread(id, _) if threads.contains(id));
    let wakes = view.sched.wakes.iter().filter(|wake| by_them(&wake.waker));
    wakes
        .filter(|wake| {
            view.sched.off(wake.off).is_some_and(|off| {
                threads.contains(&off.thread) && waits_in(view.model, off.site) == Some(Wait::Lock)
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
fn causes(pool: bool, queue: bool) -> Vec<Cause> {
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
    let lock = cause(
        "interpreter-lock",
        "one thread at a time runs Python's code, whatever locks it takes",
        "processes instead of threads (ProcessPoolExecutor, multiprocessing), a build without the lock (3.13t), or the work in \
         an extension that lets the lock go",
    );
    queue.into_iter().chain([lock]).collect()
}

/// `pool`: they hand out pieces to processes, and read what those give back.
fn finding(view: &View, waits: &Excluded, pool: bool) -> Option<(Vec<GroupId>, Finding)> {
    let rows = || waits.threads.iter().filter_map(|id| view.threads.get(id));
    let runs = || rows().map(|th| th.cpu_work_ns() as f64);
    let running: f64 = runs().sum();
    let threads = waits.threads.len() as f64;
    // Where the interpreter is idle, who waits at a lock waits for something to do.
    let used = running / view.wall;
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
            "they wait for one another at locks of Python's besides",
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
        id: "interpreter-lock",
        subject: Subject::Code(site),
        title: format!(
            "{} of Python take turns on the interpreter lock (GIL), {} of their time: {}",
            plural(waits.threads.len(), "thread"),
            percent(share),
            names.join(", ")
        ),
        evidence: list,
        causes: causes(pool, locks >= all / 2.0),
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "what the threads compute"),
        share_of_thread_time: share,
        caveats: match pool {
            true => Vec::new(),
            false => {
                vec!["processes copy what they pass on: pass large pieces (chunksize)".into()]
            }
        },
    };
    Some((roles, finding))
}
