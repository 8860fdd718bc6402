//! Threads that wait on the processor.

mod waits;

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::words::{duration, percent, plural};
use convoy_model::{
    passes_on, BesideSync, FindingId, FunctionKey, GroupId, LoopId, Model, OffReason, ProcessId,
    SchedThread, Site, SiteFrame, SpinKind, SpinLoop, SyncCode, ThreadId,
};

use crate::detectors::thread_count::Turns;
use crate::estimate::saving::{Saving, NO_WORK};
use crate::facts::lock_cost::LockCode;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::facts::spin_displacement::{loss, Loss};
use crate::knowledge::programs::{is_openblas, is_openmp};
use crate::tables::scheduler::LoopRow;
use crate::words::{cause, evidence};

/// CPU time burnt that is worth a line: share of all that was used.
const SHARE: f64 = 0.05;
/// And share of the run: who runs next to nothing spins next to nothing, while its threads begin together, say.
const OF_THE_RUN: f64 = 0.02;
/// Share of a loop's samples in functions of a lock above which it is the lock's own.
const INSIDE: f64 = 0.8;
/// Part of what fighting for a lock takes that is left with several locks.
const LEFT_WITH_SEVERAL: f64 = 0.1;
const METHOD_OF_LOCKS: &str = "time in the functions of the lock, by samples";
const METHOD: &str =
    "the work of the time in which CPUs were short, without the threads that spun in it";

pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let loss = loss(cx.view);
    let burnt = cx.rows.loops.iter().map(|row| row.running_ns as f64).sum();
    let least = OF_THE_RUN * cx.view.wall;
    let is_worth = |s: &Spinners| s.row.share >= SHARE && s.row.running_ns as f64 >= least;
    let found = spinners(cx).into_iter().filter(is_worth);
    waits::together(cx.view, found.collect())
        .iter()
        .filter_map(|spinners| finding(cx, spinners, burnt, &loss))
        .collect()
}

/// Threads that wait in the same code, or for one another.
struct Spinners {
    /// All of them, with the loop and the group of most: rows come in that order.
    row: LoopRow,
    /// Threads of each group; one may be in several loops.
    threads: BTreeMap<(ProcessId, GroupId), usize>,
    /// Where else they wait, most first; what is the same wait, but not the same code.
    elsewhere: Vec<LoopRow>,
}

/// What makes loops the same code: one loop in all processes of a program, or all loops of a library with functions that
/// are known to poll.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Code<'a> {
    Library((&'a str, &'a str), &'a str),
    Loop((&'a str, &'a str), &'a str, u64),
    Unknown(LoopId),
}

fn spinners(cx: &RunFacts) -> Vec<Spinners> {
    let polled: BTreeSet<Code> = cx
        .rows
        .loops
        .iter()
        .filter_map(|row| library(cx.view, row))
        .collect();
    let mut by_code: BTreeMap<Code, Spinners> = BTreeMap::new();
    for row in &cx.rows.loops {
        let code = code(cx.view, row, &polled).unwrap_or(Code::Unknown(row.spin));
        match by_code.entry(code) {
            Entry::Vacant(new) => {
                new.insert(Spinners {
                    row: row.clone(),
                    threads: BTreeMap::from([((row.process, row.group), row.threads)]),
                    elsewhere: Vec::new(),
                });
            }
            Entry::Occupied(known) => known.into_mut().add(row),
        }
    }
    let mut all: Vec<Spinners> = by_code.into_values().collect();
    all.sort_by_key(|spinners| Reverse(spinners.row.running_ns));
    all
}

/// The library of a function that is known to poll.
fn library<'a>(view: &RunView<'a>, row: &LoopRow) -> Option<Code<'a>> {
    let spin = view.sched.loops.get(row.spin.0 as usize)?;
    let program = view.process_at(row.process)?.program();
    let shown = spin.frames.get(spin.shown)?;
    let polls = spin.kind == SpinKind::KnownFunction && !passes_on(shown);
    polls.then_some(Code::Library(program, &shown.module))
}

/// Of a library in `polled` all is one; of a program each loop is its own.
fn code<'a>(view: &RunView<'a>, row: &LoopRow, polled: &BTreeSet<Code<'a>>) -> Option<Code<'a>> {
    let spin = view.sched.loops.get(row.spin.0 as usize)?;
    let process = view.process_at(row.process)?;
    let module = &spin.frames.first()?.module;
    let same = Code::Library(process.program(), module);
    let shared = !process.exe.ends_with(module.as_str()) && polled.contains(&same);
    let known = !module.is_empty();
    library(view, row)
        .or_else(|| shared.then_some(same))
        .or_else(|| known.then(|| Code::Loop(process.program(), module, spin.lo)))
}

impl Spinners {
    fn add(&mut self, row: &LoopRow) {
        let sum = &mut self.row;
        sum.samples = sum.samples.saturating_add(row.samples);
        sum.running_ns = sum.running_ns.saturating_add(row.running_ns);
        sum.active_ns = sum.active_ns.saturating_add(row.active_ns);
        sum.share += row.share;
        sum.cm_ns += row.cm_ns;
        let threads = self.threads.entry((row.process, row.group)).or_default();
        *threads = (*threads).max(row.threads);
        sum.threads = self.threads.values().sum();
    }

    fn names(&self, view: &RunView) -> String {
        let process = view.process_at(self.row.process);
        let processes: BTreeSet<ProcessId> = self.threads.keys().map(|(id, _)| *id).collect();
        match process.filter(|_| processes.len() > 1) {
            Some(process) => {
                let (threads, n) = (plural(self.row.threads, "thread"), processes.len());
                format!("{threads} of {n} processes of {}", process.name)
            }
            None => {
                let mut groups = vec![self.row.group];
                for row in &self.elsewhere {
                    if !groups.contains(&row.group) {
                        groups.push(row.group);
                    }
                }
                let names = groups.into_iter().map(|group| view.group_name(group));
                names.collect::<Vec<_>>().join(" and ")
            }
        }
    }
}

fn finding(cx: &RunFacts, spinners: &Spinners, burnt: f64, loss: &Loss) -> Option<Finding> {
    let row = &spinners.row;
    let view = cx.view;
    let spin = view.sched.loops.get(row.spin.0 as usize)?;
    let lock = lock_taker(view, row);
    let place = lock
        .map(SiteFrame::label)
        .unwrap_or_else(|| waits::places(view, spinners, place(view, row, spin)));
    let mut saving = saving(view, row, burnt, loss);
    if row.threads as f64 > view.cpus {
        without_turns(cx, &mut saving);
    }
    let shortage = saving.expected_ratio(view);
    if is_monitor(spin) {
        without_monitor(view, row, &mut saving);
    } else if lock.is_some() {
        without_fights(view, row, &mut saving);
    }
    let method = match saving.expected_ratio(view) > shortage {
        true => METHOD_OF_LOCKS,
        false => METHOD,
    };
    let short = saving.bound(view) >= view.t.gain_mid;
    let gain = if short {
        saving.gain(view, method, "the threads that work")
    } else {
        Gain::none(
            METHOD,
            "CPUs are not short: threads that spin take them from nobody, but they burn power and would on a \
             machine with less to spare",
        )
    };
    let name = spinners.names(view);
    let mut list = vec![
        evidence(
            "spinning_ns",
            row.running_ns as f64,
            format!(
                "{} of CPU time burnt by {}",
                duration(row.running_ns as f64),
                plural(row.threads, "thread")
            ),
        ),
        evidence(
            "delayed_ns",
            loss.delayed,
            format!("threads waited {} for a CPU", duration(loss.delayed)),
        ),
    ];
    let waited_for: Vec<String> = row
        .waits_for
        .iter()
        .filter_map(|&ix| cx.rows.paths.get(ix))
        .map(|path| {
            format!(
                "{} ({})",
                view.place(path.site),
                view.group_name(path.group)
            )
        })
        .collect();
    if !waited_for.is_empty() {
        list.push(evidence(
            "waits_for",
            waited_for.len() as f64,
            format!("working meanwhile: {}", waited_for.join(", ")),
        ));
    }
    if !spin.evidence.is_empty() {
        list.push(evidence(
            "samples",
            row.samples as f64,
            format!(
                "{}{}: {}",
                plural(row.samples as usize, "sample"),
                if spinners.elsewhere.is_empty() {
                    " in the loop"
                } else {
                    " in all; of the first loop"
                },
                spin.evidence
            ),
        ));
    }
    list.extend(spinners.elsewhere.iter().filter_map(|row| {
        let spin = view.sched.loops.get(row.spin.0 as usize)?;
        Some(evidence(
            "elsewhere_ns",
            row.running_ns as f64,
            format!(
                "{} of it in {} ({}): {}",
                duration(row.running_ns as f64),
                self::place(view, row, spin),
                view.group_name(row.group),
                spin.evidence
            ),
        ))
    }));
    Some(Finding {
        id: FindingId::BusyWaiting,
        subject: Subject::Loop(row.spin),
        title: format!(
            "busy-waiting {} {place} takes {} of the CPU time, in {name}",
            if lock.is_some() {
                "for the lock at"
            } else {
                "in"
            },
            percent(row.share)
        ),
        evidence: list,
        causes: vec![match lock {
            Some(_) => cause(
                "busy-waiting",
                "threads look again and again whether the lock is free before they sleep",
                format!("shorter sections at {place}, or one lock per part of the data"),
            ),
            None => cause("busy-waiting", why(spin), fix(view, spin, &place)),
        }],
        undecided: String::new(),
        gain,
        share_of_thread_time: row.share,
        caveats: Vec::new(),
    })
}

/// What goes if the threads of one loop leave their CPUs. As soon as none is short, the others' loops cost nothing
/// either: whoever is waited for in them has its CPU.
fn saving(view: &RunView, row: &LoopRow, burnt: f64, loss: &Loss) -> Saving {
    let spinning = row.active_ns as f64 / view.wall;
    let enough = if loss.without > 0.0 {
        (spinning / loss.without).min(1.0)
    } else {
        0.0
    };
    let relief = enough.max(row.running_ns as f64 / burnt.max(1.0));
    let all = Saving {
        expected: loss.expected * relief,
        most: loss.most * relief,
        sure: 0.0,
        cpu: (0.0, loss.luck * relief),
    };
    let least = Saving {
        expected: loss.least * relief,
        ..all
    };
    let gained = |saving: &Saving| saving.gain(view, "", "").mid - 1.0;
    Saving {
        sure: (gained(&least) / gained(&all).max(f64::MIN_POSITIVE)).min(1.0),
        ..all
    }
}

fn place(view: &RunView, row: &LoopRow, spin: &SpinLoop) -> String {
    match spin.frames.get(spin.shown) {
        Some(frame) => frame.label(),
        None => view.place(row.site),
    }
}

/// Whether nearly all samples of a loop are in such call stacks.
pub(crate) fn is_inside(model: &Model, id: LoopId, is: impl Fn(&Site) -> bool) -> bool {
    let (mut all, mut inside) = (0.0, 0.0);
    for (slice, site) in model.samples().filter(|(slice, _)| slice.spin == Some(id)) {
        all += slice.n as f64;
        if site.is_some_and(&is) {
            inside += slice.n as f64;
        }
    }
    inside > INSIDE * all
}

/// Where the lock is taken whose own functions have the loop: of a library, what it is and how long it turns is given.
fn lock_taker<'a>(view: &RunView<'a>, row: &LoopRow) -> Option<&'a SiteFrame> {
    let locks = |site: &Site| site.sync == Some(SyncCode::Lock);
    let site = view.model.site(row.site?).filter(|site| locks(site))?;
    let taker = site.shown_frame().filter(|frame| !passes_on(frame))?;
    is_inside(view.model, row.spin, locks).then_some(taker)
}

/// Whether a finding is of the loop in which threads spin for the lock that this function takes.
pub(crate) fn is_for_the_lock_of(cx: &RunFacts, found: &Finding, taker: &FunctionKey) -> bool {
    let Subject::Loop(id) = found.subject else {
        return false;
    };
    let mut rows = cx.rows.loops.iter().filter(|row| row.spin == id);
    rows.any(|row| lock_taker(cx.view, row).is_some_and(|frame| frame.key() == *taker))
}

/// Whether a finding is of the loop in which the Java virtual machine spins for monitors.
pub(crate) fn is_of_monitors(view: &RunView, found: &Finding) -> bool {
    let Subject::Loop(id) = found.subject else {
        return false;
    };
    view.sched.loops.get(id.0 as usize).is_some_and(is_monitor)
}

/// Whether the Java virtual machine spins there for a monitor (`synchronized`) that another thread has.
fn is_monitor(spin: &SpinLoop) -> bool {
    let mut frames = spin.frames.iter();
    frames.any(|frame| frame.function.contains("ObjectMonitor::"))
}

/// A monitor that threads fight for costs more than the loop: it goes from processor to processor with what it guards,
/// and a thread that has spun for nothing sleeps. Nobody knows how much of what the threads run is left without, but part of what
/// they run in the virtual machine's functions for monitors is not.
fn without_monitor(view: &RunView, row: &LoopRow, saving: &mut Saving) {
    let users = Users::of(view, row);
    let code = LockCode::of_monitors(view, &users.ids);
    users.save(view, code.shares(view, &users.ids).expected, saving);
    saving.most = saving.most.max(users.at_best(view, NO_WORK * users.work));
    saving.cpu.1 = NO_WORK * users.work;
}

/// What threads run in the lock's functions where it is fought for goes with a lock for each part of the data, but for
/// [`LEFT_WITH_SEVERAL`] of it. At best what it guards stays where it is as well.
fn without_fights(view: &RunView, row: &LoopRow, saving: &mut Saving) {
    let users = Users::of(view, row);
    let samples = view.model.samples();
    let theirs = samples.filter(|(slice, _)| users.ids.contains(&slice.thread));
    let beside = BesideSync::of(view.model.samples().filter_map(|(_, site)| site));
    let (mut all, mut by_taker) = (0.0, BTreeMap::<FunctionKey, InLock>::new());
    for (slice, site) in theirs {
        let n = slice.n as f64;
        all += n;
        let taker = site.and_then(|site| Some((site, site.shown_frame()?.key())));
        if let Some((site, taker)) = taker {
            let of = by_taker.entry(taker).or_default();
            of.fights += if site.sync == Some(SyncCode::Lock) {
                n
            } else {
                0.0
            };
            of.fast += if site.fast_path { n } else { 0.0 };
            of.beside += if beside.has(site) { n } else { 0.0 };
            of.in_loop |= slice.spin == Some(row.spin);
        }
    }
    let there = || by_taker.values().filter(|of| of.in_loop);
    let price: f64 = there()
        .map(|of| SyncCode::price_of_fights(of.fights, of.fast))
        .sum();
    let at_best: f64 = there()
        .map(|of| SyncCode::price_with_guarded(of.fights, of.fast, of.beside))
        .sum();
    let share = price / f64::max(all, 1.0);
    let at_best = at_best / f64::max(all, 1.0);
    users.save(view, (1.0 - LEFT_WITH_SEVERAL) * share, saving);
    saving.most = saving
        .most
        .max(users.at_best(view, at_best * users.running));
    saving.cpu.1 = saving.cpu.1.max(users.of_work(at_best));
}

/// Samples in the functions of locks that one function takes.
#[derive(Default)]
struct InLock {
    fights: f64,
    fast: f64,
    /// Right beside where they are called.
    beside: f64,
    /// Some of them in the loop that waits.
    in_loop: bool,
}

/// The threads of a loop's group.
struct Users {
    ids: BTreeSet<ThreadId>,
    /// CPU time of all together, and that of it that is not busy waiting.
    running: f64,
    work: f64,
    /// They could run and had no processor.
    ready: f64,
    /// Off the processors, nobody knows why: where wake-ups are not seen, those who spun for nothing sleep here.
    unknown: f64,
}

impl Users {
    fn of(view: &RunView, row: &LoopRow) -> Self {
        let members = view.members(row.group);
        let sum = |of: fn(&SchedThread) -> u64| members.iter().map(|th| of(th) as f64).sum();
        let ids: BTreeSet<ThreadId> = members.iter().map(|th| th.thread).collect();
        let offs = view.sched.offs.iter();
        let unknown =
            offs.filter(|off| off.reason == OffReason::Unknown && ids.contains(&off.thread));
        Self {
            running: sum(|th| th.running_ns),
            work: sum(SchedThread::cpu_work_ns),
            ready: sum(|th| th.delayed_ns + th.preempted_ns),
            unknown: unknown.map(|off| off.sum_ns as f64).sum(),
            ids,
        }
    }

    fn n(&self) -> f64 {
        self.ids.len().max(1) as f64
    }

    /// This share of what they run, of one of them.
    fn each(&self, view: &RunView, share: f64) -> f64 {
        (share * self.running / self.n()).min(view.wall)
    }

    /// What one of them has less at best, with so much less to run: the waits go as well.
    fn at_best(&self, view: &RunView, running: f64) -> f64 {
        ((running + self.ready + self.unknown) / self.n()).min(view.wall)
    }

    /// Of this share of what they run, what is work: the first of it is what they spin.
    fn of_work(&self, share: f64) -> f64 {
        (share * self.running - (self.running - self.work)).max(0.0)
    }

    /// This share of what they run goes. What is sure of the gain stays as it is.
    fn save(&self, view: &RunView, share: f64, saving: &mut Saving) {
        let sure = saving.sure * (saving.expected_ratio(view) - 1.0);
        let of_work = self.of_work(share);
        saving.expected = saving.expected.max(self.each(view, share));
        saving.cpu.0 = saving.cpu.0.max(of_work);
        saving.cpu.1 = saving.cpu.1.max(of_work);
        let gained = (saving.expected_ratio(view) - 1.0).max(f64::MIN_POSITIVE);
        saving.sure = (sure / gained).min(1.0);
    }
}

/// Who spins for a moment before it sleeps switches as well; of as many threads as CPUs nobody would do either.
fn without_turns(cx: &RunFacts, saving: &mut Saving) {
    let Some(turns) = Turns::of(cx) else {
        return;
    };
    let at_best = turns.at_best.max(turns.cpu.1);
    saving.expected += turns.cpu.0 / cx.view.cpus;
    saving.most += at_best / cx.view.cpus;
    saving.cpu.0 += turns.cpu.0;
    saving.cpu.1 += at_best;
}

fn fix(view: &RunView, spin: &SpinLoop, place: &str) -> String {
    match is_monitor(spin) {
        true => "shorter synchronized sections, or a monitor for each part of the data (as java.util.concurrent has)".into(),
        false if is_in(spin, is_openmp) => format!(
            "{:.0} threads, as many as CPUs (OMP_NUM_THREADS), or threads that sleep (OMP_WAIT_POLICY=passive); longer parallel regions",
            view.cpus
        ),
        false if is_in(spin, is_openblas) => format!(
            "at most {:.0} threads of OpenBLAS in all: OPENBLAS_NUM_THREADS=1 where several processes or threads call it",
            view.cpus
        ),
        false => format!("block after a few tries (futex, condition variable), or have fewer threads wait at {place}"),
    }
}

/// Whether the loop is in such a library, whose threads wait for the others of their team, or for the next call.
fn is_in(spin: &SpinLoop, library: fn(&str) -> bool) -> bool {
    let innermost = spin.frames.first();
    innermost.is_some_and(|frame| library(&frame.module))
}

fn why(spin: &SpinLoop) -> &'static str {
    if is_monitor(spin) {
        return "threads try for a Java monitor that another one has, before they sleep";
    }
    match spin.kind {
        SpinKind::Polling => "a loop looks at memory until it changes, and does nothing else",
        SpinKind::Pause => "a loop with a pause instruction looks at memory until it changes",
        SpinKind::Lock => "a loop tries to take a lock until it gets it",
        SpinKind::Yield => "a loop asks the time or gives way between looks at memory",
        SpinKind::KnownFunction => "a function of a runtime that is known to poll",
        SpinKind::Sleep => "a loop sleeps between looks at memory",
    }
}
