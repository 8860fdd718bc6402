//! Goroutines that look for work, sleep for a while, and look again. No thread sleeps with them; looks at the goroutines tell.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{FindingId, GoProgram, GoState, GoWait, ProcessId, SiteFrame, SiteId};

use crate::detectors::goroutine_lock::CpuTime;
use crate::estimate::saving::Saving;
use crate::facts::concurrency::{self, none};
use crate::facts::goroutines::{began, is_own, Kinds};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// How the runtime calls a sleep.
const SLEEP: &str = "sleep";
/// Looks at sleepers: fewer are a start.
const LOOKS: u64 = 20;
/// So many of them are seen in a sleep of their own, not in that of the look before: longer ones are a schedule.
const SHORT: f64 = 0.5;
/// Sleepers at a time: one alone has nobody to wait for.
const SLEEPERS: f64 = 1.5;
/// Goroutines that began in the same function run this share of all samples: who only sleeps stands for something else (a call, a timer).
const WORK: f64 = 0.3;
/// What requests are served in: the standard library's goroutine of a connection, and that of gRPC.
const SERVERS: [&str; 5] = [
    "net/http.(*conn).",
    "net/http.(*http2serverConn).",
    "golang.org/x/net/http2.(*serverConn).",
    "net/rpc.(*",
    "google.golang.org/grpc.(*Server).",
];
/// Share of the run in which nothing can run from which on it is worth a word.
const IDLE: f64 = 0.1;
/// Whether what was slept for had happened by then is not seen. Two programs gained all that their processors allowed.
const EXPECTED: f64 = 0.8;
const METHOD: &str = "processors that are idle while goroutines sleep, in use";

/// With the process that each is about.
pub(crate) fn findings(cx: &RunFacts) -> Vec<(ProcessId, Finding)> {
    let programs = cx.view.go_programs();
    let found = programs.filter_map(|program| {
        let kinds = cx.goroutines.get(&program.process)?;
        Some((program.process, of_program(cx.view, program, kinds)?))
    });
    found.collect()
}

fn of_program(view: &RunView, program: &GoProgram, kinds: &Kinds) -> Option<Finding> {
    let samples: u64 = kinds.values().map(|kind| kind.samples).sum();
    let works = |wait: &GoWait| {
        let kind = start(view, wait).and_then(|first| kinds.get(first.function.as_str()));
        kind.is_some_and(|kind| kind.works() as f64 >= WORK * samples.max(1) as f64)
    };
    let sleeps = program.waits.iter().filter(|wait| wait.reason == SLEEP);
    let sleeps: Vec<&GoWait> = sleeps.filter(|wait| works(wait)).collect();
    let n: u64 = sleeps.iter().map(|wait| wait.n).sum();
    let different: u64 = sleeps.iter().map(|wait| wait.waits).sum();
    let at_a_time = n as f64 / program.looks as f64;
    if n < LOOKS || (different as f64) < SHORT * n as f64 || at_a_time < SLEEPERS {
        return None;
    }
    let (none, beside) = unused(view, program, at_a_time);
    if none < IDLE {
        return None;
    }
    let life = view.life_of(program.process);
    // Going to sleep and back to look is the scheduler's work.
    let looks = CpuTime::of(view, program.process).in_scheduler;
    let saving = Saving {
        expected: EXPECTED * (life * (none + beside) + looks / view.useful.max(1.0)),
        most: life * (none + beside) + looks,
        cpu: (EXPECTED * looks, looks),
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let mut sites: BTreeMap<SiteId, f64> = BTreeMap::new();
    for (site, n) in sleeps.iter().filter_map(|wait| Some((wait.site?, wait.n))) {
        *sites.entry(site).or_default() += n as f64;
    }
    let site = most(sites)?;
    let place = view.place(Some(site));
    Some(Finding {
        id: FindingId::SleepPolling,
        subject: Subject::Code(site),
        title: format!(
            "{at_a_time:.1} goroutines are asleep at a time, most at {place}, and nothing can run for {} of the run",
            percent(none)
        ),
        evidence: vec![
            evidence(
                "sleepers",
                at_a_time,
                format!("{n} times a goroutine was seen asleep, at {} looks, in {different} different sleeps", program.looks),
            ),
            evidence("idle_ratio", none, format!("no thread was working for {} of the run", percent(none))),
        ],
        causes: vec![cause(
            "sleep-polling",
            "a loop sleeps, looks whether there is something to do, and sleeps again: work waits until it looks",
            format!("wait for the event itself at {place}: a channel, a sync.Cond, a WaitGroup, a context"),
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the work of these goroutines"),
        share_of_thread_time: none.min(1.0),
        caveats: vec![
            "if they sleep to keep a rate (a limit, a retry), or in place of a call, there is nothing to gain".into(),
        ],
    })
}

/// Share of the run that nothing runs, and processors that nothing runs on meanwhile otherwise, which so many sleepers could use. What
/// threads do tells it exactly, but not of which process.
fn unused(view: &RunView, program: &GoProgram, sleepers: f64) -> (f64, f64) {
    let mut workers = view.workers.iter();
    if workers.all(|&id| view.process(id) == program.process) {
        let working = &view.sched.working;
        return (
            none(working) / view.wall,
            concurrency::unused(working, view.useful, sleepers) / view.wall,
        );
    }
    let looks: u64 = program.states.iter().map(|state| state.n).sum();
    let share = |unused: &dyn Fn(&GoState) -> f64| {
        let sum: f64 = program.states.iter().map(|s| unused(s) * s.n as f64).sum();
        sum / looks.max(1) as f64
    };
    let beside = |state: &GoState| match busy(state) {
        0.0 => 0.0,
        busy => concurrency::unused_at(busy, f64::from(state.procs), sleepers),
    };
    let none = |state: &GoState| f64::from(busy(state) == 0.0);
    (share(&none), share(&beside))
}

/// Processors that have a goroutine, or could have one.
fn busy(state: &GoState) -> f64 {
    f64::from(state.running) + f64::from(state.in_calls) + f64::from(state.runnable)
}

/// What the goroutine began in. Not a request's: who sleeps while it serves one stands for a call.
fn start<'a>(view: &RunView<'a>, wait: &GoWait) -> Option<&'a SiteFrame> {
    let serves = |name: &str| SERVERS.iter().any(|of| name.starts_with(of));
    began(view, wait).filter(|frame| is_own(&frame.function) && !serves(&frame.function))
}
