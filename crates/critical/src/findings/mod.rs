//! What is said of a recording. Every finding asks the same: what of the run would be gone without it?

mod awaits;
mod blocked;
mod blocking_calls;
pub(crate) mod busy_waiting;
mod contended_futex;
mod excluded;
mod file_lock;
mod garbage;
mod go_processors;
mod goroutine_lock;
mod goroutine_pool;
mod goroutine_sleep;
mod goroutine_stage;
mod goroutines;
mod hand_over;
mod holder_off_cpu;
mod idle;
mod imbalance;
pub(crate) mod interpreter_lock;
mod io;
mod kept_off;
mod library_calls;
mod limiting_stage;
mod lock_calls;
mod lock_code;
mod lock_places;
mod lock_step;
mod memory;
mod musl_lock;
mod one_thread;
mod passed_on;
mod pool_of_processes;
mod serial_code;
mod serial_jobs;
mod served;
mod servers_lock;
mod shared_lines;
mod short_processes;
mod sleeping;
mod small_calls;
mod small_writes;
mod tasks;
mod thread_count;
mod told;
mod uneven_tasks;
mod write_through;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::{FunctionKey, ProcessId, SiteId};

use self::goroutines::Kinds;
use self::passed_on::PassedOn;
use self::served::Askers;
use self::write_through::WrittenThrough;
use crate::in_call::InCall;
use crate::rows::Analysis;
use crate::subject;
use crate::view::View;
use crate::waited_for::WaitedFor;
use crate::worth;

/// What all findings are made from.
pub(crate) struct Context<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) rows: &'a Analysis,
    pub(crate) waited_for: WaitedFor,
    pub(crate) in_call: InCall,
    pub(crate) passed_on: PassedOn,
    pub(crate) askers: Askers,
    pub(crate) goroutines: BTreeMap<ProcessId, Kinds<'a>>,
    pub(crate) written_through: WrittenThrough,
    /// The program is idle most of the time, as nobody asks for anything.
    pub(crate) nobody_asks: bool,
}

impl<'a> Context<'a> {
    fn of(view: &'a View<'a>, rows: &'a Analysis) -> Self {
        let mut cx = Self {
            view,
            rows,
            waited_for: WaitedFor::of(view),
            in_call: InCall::of(view),
            passed_on: PassedOn::of(view),
            askers: Askers::of(view),
            goroutines: goroutines::by_start(view),
            written_through: WrittenThrough::default(),
            nobody_asks: idle::nobody_asks(view),
        };
        cx.written_through = WrittenThrough::of(&cx);
        cx
    }

    /// Whether it is worth its fix. What is not, leaves the low parallelism to be explained otherwise.
    fn is_worth(&self, finding: &Finding) -> bool {
        finding.gain.mid >= self.view.t.gain_mid
    }

    fn process(&self, finding: &Finding) -> Option<ProcessId> {
        subject::process(self.view.model, &finding.subject)
    }

    fn function(&self, site: SiteId) -> Option<FunctionKey<'a>> {
        self.view.shown(site).map(|frame| frame.key())
    }
}

/// Everything that could be said, in no particular order.
pub(crate) fn all(view: &View, rows: &Analysis) -> Vec<Finding> {
    let cx = Context::of(view, rows);
    if view.workers_at_once < 2 {
        return where_one_works(&cx);
    }
    told::all(&cx)
}

/// One thread is not parallel whatever it does, unless others wait for it, it waits for others all the time, or there could be more.
fn where_one_works(cx: &Context) -> Vec<Finding> {
    let stages = limiting_stage::findings(cx).into_iter();
    let of_groups = stages
        .chain(blocking_calls::finding(cx))
        .chain(awaits::findings(cx))
        .chain(go_processors::findings(cx))
        .chain(short_processes::findings(cx));
    let mut found: Vec<Finding> = of_groups.map(|(_, finding)| finding).collect();
    let shared = goroutine_pool::findings(cx).into_iter();
    found.extend(shared.map(|f| f.finding));
    add_sleepers(cx, &mut found);
    let written = cx.written_through.all();
    found.extend(written.filter_map(|of| of.finding(cx)));
    // What the report dismisses explains nothing.
    if !found.iter().any(|f| worth(f, cx.view.t)) {
        found.extend(one_thread::finding(cx).or_else(|| serial_jobs::finding(cx)));
    }
    found
}

/// Goroutines that sleep, of programs that nothing else is said of: who waits for a pool or a lock may sleep while it has it.
fn add_sleepers(cx: &Context, findings: &mut Vec<Finding>) {
    let told = findings.iter().filter(|f| cx.is_worth(f));
    let told: BTreeSet<ProcessId> = told.filter_map(|f| cx.process(f)).collect();
    let asleep = goroutine_sleep::findings(cx).into_iter();
    findings.extend(
        asleep
            .filter(|(id, _)| !told.contains(id))
            .map(|(_, finding)| finding),
    );
}

/// Where a finding is.
fn site(subject: &Subject) -> Option<SiteId> {
    match subject {
        Subject::Code(site) | Subject::Site(_, site) | Subject::File(_, site) => Some(*site),
        _ => None,
    }
}
