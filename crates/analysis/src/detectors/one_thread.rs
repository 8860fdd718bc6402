//! One thread that does all the work of a program that can have more of them: a setting (`-T`, `-j`, a number of workers), or
//! work that nobody has divided.

pub(crate) mod event_loop;

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{duration, percent};
use convoy_model::{
    runs, FindingId, OffCpu, OffId, OffReason, Process, ProcessId, Runs, SiteId, ThreadId, Waker,
};
use convoy_profile::ObjectKind;

use crate::detectors::thread_count::of_others;
use crate::estimate::saving::Saving;
use crate::facts::hot_function::hottest;
use crate::facts::lock_recognition::lets_go;
use crate::facts::request_queue::{self, Queue};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::facts::uneven_tasks;
use crate::knowledge::programs::{divides_requests, with_threads};
use crate::words::{cause, evidence};

/// It is at work for this share of the run...
const BUSY: f64 = 0.85;
/// ... or for this one, if requests of others are all that it has to do, or for this one if they are seen to queue...
const ALWAYS: f64 = 0.95;
const QUEUED: f64 = 0.5;
const WAITS: u64 = 20;
/// ... and runs this share of all that is run.
const ALONE: f64 = 0.95;
/// ... or this share, of a process to which another one hands tasks or requests, which takes some time itself.
const HANDED_TASKS: f64 = 0.85;
/// Part of the work that is expected to be divided among all processors, if it can be at all. Nine programs with a setting for it
/// (compressors, encoders, sort) were 1.5 to 1.95 times as fast with two threads on two of them.
pub(crate) const EXPECTED: f64 = 0.75;
/// The same of a program that was never seen to have a second thread: that it can have some does not say that it can have them for this.
const NEVER_SEEN: f64 = 0.5;
/// A request that takes as long may be worth dividing. Nanoseconds.
const LONG_REQUEST_NS: f64 = 250e6;
/// Times that others wake the one for a task, and that it wakes others when it has done one (or taken one from a full queue): so many
/// tasks are no chance, and may as well go to another one.
const TASKS: (f64, f64) = (2.0, 20.0);
/// Of tasks that are handed to a process there usually are more: two programs were 1.97 and 2.04 times as fast with a second process.
const OF_PROCESSES: f64 = 0.9;
/// Share of its life that the first thread of who made a process waits for the end of that, if it has it do something and nothing else.
const FOR_ITS_END: f64 = 0.5;
/// Share of the run that a main thread waits which has nothing else to do, and how often at least.
const WAITED: f64 = 0.8;
const AGAIN: u64 = 3;
const METHOD: &str = "the work of one thread on all CPUs (Amdahl)";

/// What says that there could be more of them, and what that would buy.
pub(crate) struct More {
    /// Part of the work.
    pub(crate) expected: f64,
    pub(crate) seen: String,
    why: &'static str,
    pub(crate) fix: String,
    pub(crate) caveat: &'static str,
}

/// `None` where other threads work, or where nothing says that the program can have more of them.
pub(crate) fn finding(cx: &RunFacts) -> Option<Finding> {
    let view = cx.view;
    let busiest = view.threads.iter();
    let (&id, busiest) = busiest.max_by_key(|(_, th)| th.cpu_work_ns())?;
    let ran = busiest.cpu_work_ns() as f64;
    let works = busiest.working_ns() as f64;
    let process = view.process_at(view.process(id))?;
    let runs = runs(&process.name);
    let queue = Queue::of(cx, view.role(id), works);
    let divided = long_requests(view, id, process, works);
    let alone = match (runs, &queue, &divided) {
        (None, None, None) => ALONE,
        _ => HANDED_TASKS,
    };
    // One that waits for work again and again has none to spare then, whoever waits for it.
    let queued = queue.is_some() && waits_for_work(view, id) < WAITS;
    let busy = if queued { QUEUED } else { BUSY };
    let is_alone = ran >= alone * view.cpu_work && works >= busy * view.wall;
    if !is_alone || !view.cpus.is_finite() || view.cpus < 2.0 {
        return None;
    }
    // Who asks for one thing at a time has nothing more to ask: but that may be divided.
    if divided.is_none() && process.listens && cx.askers.take_turns(view, view.role(id)) {
        return None;
    }
    let more = divided.or_else(|| match (queue, runs) {
        (queue, Some(Runs::EventLoop)) => event_loop::more(cx, id, process, queue),
        (Some(queue), _) => Some(servers(
            view,
            process,
            request_queue::EXPECTED,
            queue.seen(),
        )),
        (_, Some(Runs::OneAtATime)) => {
            processes(view, id, process).or_else(|| full(view, id, process, works))
        }
        (_, Some(Runs::Threads)) => parts_of_a_stream(view, id),
        (_, None) => full(view, id, process, works).or_else(|| threads(view, id, process)),
    })?;
    let most = works * (1.0 - 1.0 / view.cpus_left()).max(0.0);
    let saving = Saving {
        expected: more.expected * most,
        most,
        ..Saving::default()
    };
    let share = (works / view.wall).min(1.0);
    Some(Finding {
        id: FindingId::TooFewThreads,
        subject: Subject::Run,
        title: format!(
            "{} does {} the work, {} of the run, on one of {:.0} CPUs{}",
            view.group_name(view.role(id)),
            if ran >= ALONE * view.cpu_work {
                "all"
            } else {
                "nearly all"
            },
            percent(share),
            view.cpus,
            of_others(view)
        ),
        evidence: vec![
            evidence(
                "busy_ratio",
                share,
                format!(
                    "it ran {} of all that was run",
                    percent((ran / view.cpu_work).min(1.0))
                ),
            ),
            evidence("cpus", view.cpus, more.seen),
        ],
        causes: vec![cause("too-few-threads", more.why, more.fix)],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "how much of the work can be divided"),
        share_of_thread_time: share,
        caveats: vec![more.caveat.into()],
    })
}

/// It is given tasks, or is the only thread of a program that calls for what makes them.
fn threads(view: &RunView, id: ThreadId, process: &Process) -> Option<More> {
    let alone = is_alone_there(view, id);
    let instead = with_threads(process).filter(|_| alone);
    let (expected, seen) = match alone {
        true if instead.is_some() => (EXPECTED, format!("{} has one thread", process.name)),
        true if process.makes_threads => (
            NEVER_SEEN,
            format!(
                "{} can have more threads: its code calls for what makes them",
                process.name
            ),
        ),
        false if is_handed_tasks(view, id) => (
            EXPECTED,
            "other threads hand it tasks, one after another".into(),
        ),
        false if is_waited_for(view, id) => (
            NEVER_SEEN,
            "the main thread has it do that, and waits meanwhile".into(),
        ),
        _ => return None,
    };
    let place = match hottest(view, |slice| slice.thread == id) {
        Some(of) => format!("the work at {}", view.place(Some(of.site))),
        None => "its work".into(),
    };
    Some(More {
        expected,
        seen,
        why: "one thread cannot use more than one CPU",
        fix: match instead {
            Some(instead) => instead.into(),
            None => format!(
                "{:.0} threads, if there is a setting for their number{}; or {place} divided among several",
                view.cpus,
                if alone {
                    ""
                } else {
                    " (and smaller parts, blocks or chunks, if there is one for their size)"
                }
            ),
        },
        caveat: "whether its work can be divided is not known",
    })
}

/// Other programs ask it, more than one at a time.
fn servers(view: &RunView, process: &Process, expected: f64, seen: String) -> More {
    More {
        expected,
        seen,
        why: request_queue::WHY,
        fix: request_queue::fix(process, view.cpus),
        caveat: request_queue::CAVEAT,
    }
}

/// It serves requests that take long, and could divide one.
fn long_requests(view: &RunView, id: ThreadId, process: &Process, works: f64) -> Option<More> {
    let (fix, server) = divides_requests(process).filter(|_| is_alone_there(view, id))?;
    let is_in = |site: Option<SiteId>, functions: &[&str]| {
        let site = site.and_then(|id| view.model.site(id));
        site.is_some_and(|site| site.has_function(|name| functions.contains(&name)))
    };
    let offs = view.sched.offs.iter().filter(|off| off.thread == id);
    let requests: u64 = offs
        .filter(|off| is_in(off.site, &[server.waits]))
        .map(|off| off.n)
        .sum();
    let one_ns = works / requests as f64;
    let whole = hottest(view, |slice| slice.thread == id)
        .is_some_and(|of| is_in(Some(of.site), server.keeps_whole));
    (requests > 0 && one_ns >= LONG_REQUEST_NS && !whole).then(|| More {
        expected: NEVER_SEEN,
        seen: format!(
            "it waited {requests} times for a request, and worked {} on each",
            duration(one_ns)
        ),
        why: "a request of one connection is worked on by one process, unless it can be divided",
        fix: fix.into(),
        caveat: "whether the request can be divided is not known",
    })
}

/// The threads that would share the parts are there, and got none worth mentioning.
fn parts_of_a_stream(view: &RunView, id: ThreadId) -> Option<More> {
    uneven_tasks::are_what_it_does(view, id).then(|| More {
        expected: uneven_tasks::EXPECTED,
        seen: "what it does are parts of a parallel stream, which a pool's threads could share"
            .into(),
        why: uneven_tasks::WHY,
        fix: uneven_tasks::FIX.into(),
        caveat: "how evenly the work can be divided is not known",
    })
}

/// Others can connect to it, and it has no other threads to serve them. One who asks, and waits for the answer, leaves a server some
/// time between two requests, and is seen to do so unless it is on another machine.
fn full(view: &RunView, id: ThreadId, process: &Process, works: f64) -> Option<More> {
    let serves = process.listens && is_alone_there(view, id);
    let busy = works >= ALWAYS * view.wall;
    (serves && busy).then(|| servers(view, process, NEVER_SEEN, seen_to_listen(process)))
}

/// How often a thread waits for events or at sockets.
fn waits_for_work(view: &RunView, id: ThreadId) -> u64 {
    let waits = view.sched.offs.iter().filter(|off| {
        off.thread == id && matches!(off.reason, OffReason::Poll | OffReason::Socket)
    });
    waits.map(|off| off.n).sum()
}

/// What says that there may be requests that nobody sees.
fn seen_to_listen(process: &Process) -> String {
    format!(
        "others can connect to {}, and it hardly ever waits for a request",
        process.name
    )
}

/// Whether it is the only thread of its process.
pub(crate) fn is_alone_there(view: &RunView, id: ThreadId) -> bool {
    view.of_process(view.process(id)).count() == 1
}

/// Another process of the same interpreter hands it tasks.
fn processes(view: &RunView, id: ThreadId, process: &Process) -> Option<More> {
    let is_given = is_given_work(view, view.process(id));
    is_given.then(|| More {
        expected: OF_PROCESSES,
        seen: format!("process {} made it, and does next to nothing meanwhile", process.ppid),
        why: "one process of an interpreter cannot use more than one CPU",
        fix: format!(
            "{:.0} processes that share its tasks (max_workers of ProcessPoolExecutor, processes of multiprocessing.Pool, --workers of \
             gunicorn, pm.max_children of PHP-FPM)",
            view.cpus
        ),
        caveat: "whether there are several tasks at a time is not known",
    })
}

/// Whether a process was made by another one of its program to do tasks for it: who only waits for its end has had it do one thing.
fn is_given_work(view: &RunView, process: ProcessId) -> bool {
    let Some(maker) = view.maker(process) else {
        return false;
    };
    let awaits_end =
        |off: &&OffCpu| off.reason == OffReason::Child && view.process(off.thread) == maker;
    let ends = view.sched.offs.iter().filter(awaits_end);
    let longest = ends.map(|off| off.sum_ns as f64 / view.life(off.thread).max(1.0));
    longest.fold(0.0, f64::max) < FOR_ITS_END
}

/// Whether the main thread of its process waits for this one, again and again, for nearly the whole run: not once for its end, or for
/// its only result, as who needs a larger stack does. Of goroutines it is not the main one that the main thread runs.
fn is_waited_for(view: &RunView, id: ThreadId) -> bool {
    let process = view.process(id);
    let mut waits: BTreeMap<OffId, Waits> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let Some(off) = view.sched.off(wake.off) else {
            continue;
        };
        let main = view.thread(off.thread).is_some_and(|th| th.main);
        let own = main && off.thread != id && view.process(off.thread) == process;
        if !own || off.reason != OffReason::Futex || awaits_end(view, off) {
            continue;
        }
        let waits = waits.entry(wake.off).or_default();
        waits.ns += wake.wait_ns as f64;
        waits.n = waits.n.saturating_add(wake.n);
        match wake.waker {
            Waker::Thread(by, _) if by == id => waits.for_it = true,
            Waker::Interrupt => {} // who looks up now and then waits on
            _ => waits.for_others = true,
        }
    }
    let for_it = waits
        .values()
        .filter(|of| of.for_it && !of.for_others && of.n >= AGAIN);
    let waited: f64 = for_it.map(|of| of.ns).sum();
    !view.roles.is_go(view.role(id)) && waited >= WAITED * view.wall
}

/// At one place.
#[derive(Default)]
struct Waits {
    ns: f64,
    n: u64,
    for_it: bool,
    for_others: bool,
}

/// Whether somebody waits for a thread to end.
fn awaits_end(view: &RunView, off: &OffCpu) -> bool {
    let site = off.site.and_then(|id| view.model.site(id));
    let mut frames = site.iter().flat_map(|site| &site.frames);
    view.object_kind(off.object) == Some(ObjectKind::Thread)
        || frames
            .any(|frame| frame.function.contains("pthread_") && frame.function.contains("join"))
}

/// Whether other threads of its process wake a thread for tasks, and are woken when it has done some; of locks that is no sign.
fn is_handed_tasks(view: &RunView, id: ThreadId) -> bool {
    let process = view.process(id);
    let (mut given, mut done) = (0.0, 0.0);
    for (wake, off, waker, site) in view.sched.ended_by_threads() {
        let own = view.process(off.thread) == process && view.process(waker) == process;
        if !own || off.thread == waker || lets_go(view, off, site) {
            continue;
        }
        given += if off.thread == id { wake.n as f64 } else { 0.0 };
        done += if waker == id { wake.n as f64 } else { 0.0 };
    }
    given >= TASKS.0 && done >= TASKS.1
}
