//! Files that are written through to the disk again and again: a commit for each record, or each request. With one for several
//! of them most of it goes, and not only the waits: what the calls run, and the other calls of a commit. Where it is much data
//! that is written each time, it does not go, but the program need not wait for it.

mod amount;
mod repeated;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Cause, Evidence, Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{FindingId, OffCpu, OffId, OffReason, ProcessId, SchedThread, SiteId, ThreadId};

use self::amount::Amount;
use self::writer::Writer;
use crate::detectors::blocking_io;
use crate::estimate::saving::{Saving, SWITCH_NS};
use crate::facts::concurrency::{add, freed, none};
use crate::facts::own_wait::Blocked;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::waits::{low_ns, meanwhile};
use crate::words::{cause, evidence};

/// Of what commits take, the part that goes with larger ones: five in one.
const EXPECTED: f64 = 0.8;
/// Of what writing much data takes, the part that can be overlapped with work; and that goes where it may be much.
const OVERLAPPED: f64 = 0.5;
/// Samples of the threads from which on a share of them means something.
const SAMPLES: f64 = 30.0;
/// Share of the run that is worth a word.
const SHARE: f64 = 0.1;
/// Share of its life that a thread has nothing to do, if it is all that the program waits for.
const IDLE: f64 = 0.2;
/// Share of the time that nobody works that may be between two tries.
const RETRIES: f64 = 0.25;
const METHOD: &str = "time that few threads worked while files were written through, with the CPU time of these calls, gone; at most, \
                      all calls of a commit";

/// What the user has to decide.
pub(crate) const LOST: &str = "what is not yet written through is lost when the machine crashes: how much that may be is for you to decide";

/// What the processes of one program write through.
#[derive(Debug, Default)]
pub(crate) struct WriteThrough {
    /// Waits in calls that write through.
    sync: Blocked,
    /// They, and the other waits of the same threads in calls that write to files, make and delete them: by the number of
    /// threads that worked meanwhile.
    sync_meanwhile: Vec<u64>,
    all_meanwhile: Vec<u64>,
    /// Sleep of the same threads, in the same way.
    sleep_meanwhile: Vec<u64>,
    /// Of all waits for files, which, how many and how long.
    all_ids: Vec<OffId>,
    all_n: u64,
    all_ns: f64,
    cpu: CallCpu,
    /// How much it is each time.
    amount: Amount,
    saving: Saving,
    /// Who writes for all others, if it is one.
    writer: Option<Writer>,
    /// Share of the run in it.
    share: f64,
}

/// What the threads run in such calls, as shares of all that they run.
#[derive(Debug, Default, Clone, Copy)]
struct CallCpu {
    sync: f64,
    /// In all calls of a commit.
    all: f64,
    /// The same at most.
    most: f64,
}

/// By program, those that do it again and again. Its first process stands for all of them.
#[derive(Debug, Default)]
pub(crate) struct WrittenThrough {
    programs: BTreeMap<ProcessId, ProcessId>,
    of: BTreeMap<ProcessId, WriteThrough>,
}

impl WrittenThrough {
    pub(crate) fn of(cx: &RunFacts) -> Self {
        let programs = programs(cx.view);
        let of = by_program(cx, &programs);
        Self { programs, of }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &WriteThrough> {
        self.of.values()
    }

    /// What the program of this process writes through, and the process that stands for it.
    pub(crate) fn by(&self, process: ProcessId) -> Option<(ProcessId, &WriteThrough)> {
        let first = *self.programs.get(&process)?;
        Some((first, self.of.get(&first)?))
    }

    /// Whether a wait is told with those for what is written through.
    pub(crate) fn has(&self, view: &RunView, off: &OffCpu) -> bool {
        let of = self.by(view.process(off.thread));
        is_of_a_commit(off) && of.is_some_and(|(_, of)| of.sync.in_it.contains_key(&off.thread))
    }
}

/// Of each process, the first one that runs the same program.
fn programs(view: &RunView) -> BTreeMap<ProcessId, ProcessId> {
    let mut first: BTreeMap<(&str, &str), ProcessId> = BTreeMap::new();
    let processes = (0..).map(ProcessId).zip(&view.model.processes);
    processes
        .map(|(id, process)| match process.program() {
            ("", _) => (id, id),
            program => (id, *first.entry(program).or_insert(id)),
        })
        .collect()
}

fn by_program(
    cx: &RunFacts,
    programs: &BTreeMap<ProcessId, ProcessId>,
) -> BTreeMap<ProcessId, WriteThrough> {
    let view = cx.view;
    let program = |off: &OffCpu| {
        let process = view.process(off.thread);
        programs.get(&process).copied().unwrap_or(process)
    };
    let mut found: BTreeMap<ProcessId, WriteThrough> = BTreeMap::new();
    let offs = || (0..).map(OffId).zip(&view.sched.offs);
    for (id, off) in offs().filter(|(_, off)| off.reason == OffReason::Sync) {
        let of = found.entry(program(off)).or_default();
        of.sync.add(cx, id, off);
        add(&mut of.sync_meanwhile, meanwhile(off));
    }
    found.retain(|_, of| {
        let commits = repeated::commits(view, &of.sync);
        of.amount = Amount::of(view, &of.sync, commits.unwrap_or(0));
        commits.is_some()
    });
    for (id, off) in offs() {
        let of = found.get_mut(&program(off));
        if let Some(of) = of.filter(|of| of.sync.in_it.contains_key(&off.thread)) {
            of.add(id, off);
        }
    }
    for of in found.values_mut() {
        of.cpu = CallCpu::of(cx, &of.threads(), of.amount);
        of.writer = Writer::of(view, of).filter(|_| !of.is_much());
        (of.saving, of.share) = of.computed(cx);
    }
    found
}

/// Whether somebody waits for a file who does not read: what is written, and files that are made and deleted, are for the commit.
fn is_of_a_commit(off: &OffCpu) -> bool {
    /// read(), pread64(), readv() and preadv() on x86-64 and on aarch64. Those that have these numbers on the other one wait for no
    /// file.
    const READS: [i16; 8] = [0, 17, 19, 295, 63, 67, 65, 69];
    match off.reason {
        OffReason::Sync => true,
        OffReason::File | OffReason::Disk => !READS.contains(&off.nr),
        _ => false,
    }
}

impl CallCpu {
    /// By samples; nothing where there are too few.
    fn of(cx: &RunFacts, threads: &BTreeSet<ThreadId>, amount: Amount) -> Self {
        let view = cx.view;
        let to_files = view.sched.writes.iter().filter(|row| {
            let name = view.file_name(row.name);
            !row.reads && name.is_some_and(|name| name.starts_with('/'))
        });
        let to_files: BTreeSet<SiteId> = to_files.filter_map(|row| row.site).collect();
        let (mut n, mut sync, mut others) = (0.0, 0.0, 0.0);
        for (slice, _) in view
            .model
            .samples()
            .filter(|(of, _)| threads.contains(&of.thread))
        {
            let samples = slice.n as f64;
            n += samples;
            let Some(site) = slice.site else { continue };
            if cx.in_call.is_sync(view, site) {
                sync += samples;
            } else if to_files.contains(&site) || cx.in_call.is_of_a_commit(view, site) {
                others += samples;
            }
        }
        if n < SAMPLES {
            return Self::default();
        }
        let outside = n - sync - others;
        let luck = 2.0 * outside.sqrt();
        Self {
            sync: sync / n,
            // A thread may write more than what it commits.
            all: match amount {
                Amount::Much => (sync + others) / n,
                Amount::Little | Amount::Unknown => (sync + others.min(sync)) / n,
            },
            // No call, no luck.
            most: match sync + others > 0.0 {
                true => 1.0 - (outside - luck).max(0.0) / n,
                false => 0.0,
            },
        }
    }
}

impl WriteThrough {
    fn is_much(&self) -> bool {
        self.amount == Amount::Much
    }

    fn threads(&self) -> BTreeSet<ThreadId> {
        self.sync.in_it.keys().copied().collect()
    }

    fn add(&mut self, id: OffId, off: &OffCpu) {
        if is_of_a_commit(off) {
            self.all_ids.push(id);
            add(&mut self.all_meanwhile, meanwhile(off));
            self.all_n = self.all_n.saturating_add(off.n);
            self.all_ns += off.sum_ns as f64;
        } else if off.reason == OffReason::Sleep {
            add(&mut self.sleep_meanwhile, meanwhile(off));
        }
    }

    /// Waits for all files. Who sleeps while others write through tries again then, and sleeps on when they are done: if that is
    /// little of the time that nobody works, it is no schedule.
    fn with_retries(&self, view: &RunView) -> Vec<u64> {
        let mut all = self.all_meanwhile.clone();
        let idle = none(&view.sched.working);
        let rest = (idle - none(&all)).max(0.0);
        if let Some(at_none) = all.first_mut().filter(|_| rest <= RETRIES * idle) {
            *at_none = at_none.saturating_add(rest.min(none(&self.sleep_meanwhile)) as u64);
        }
        all
    }

    /// What goes with larger commits; nothing where it is much data that is written.
    pub(crate) fn saving(&self) -> Option<Saving> {
        (!self.is_much()).then_some(self.saving)
    }

    /// Whether most of what is waited for is at these places.
    pub(crate) fn is_mostly_at(&self, is_there: impl Fn(SiteId) -> bool) -> bool {
        let at = self.sync.sites.iter().filter(|(site, _)| is_there(**site));
        let all: f64 = self.sync.sites.values().sum();
        2.0 * at.map(|(_, ns)| ns).sum::<f64>() >= all
    }

    /// Whether it is the only thread that works that writes through, which hardly ever has nothing to do: whoever waits for the
    /// program waits for that. A thread that others give what it writes may be for the background alone.
    fn is_alone(&self, view: &RunView) -> bool {
        let serves = |id: ThreadId| {
            let polls = |off: &OffCpu| off.thread == id && off.reason == OffReason::Poll;
            view.thread(id).is_some_and(|th| th.main) || view.sched.offs.iter().any(polls)
        };
        let is_busy = |id: ThreadId| {
            let files: f64 = self.sync.in_it.get(&id).copied().unwrap_or(0.0);
            let offs = view.sched.offs.iter().filter(|off| off.thread == id);
            let file_waits = offs.filter(|off| is_of_a_commit(off));
            let in_files: f64 = file_waits.map(|off| off.sum_ns as f64).sum();
            let idle = view.threads.get(&id).map_or(0.0, |th| th.blocked_ns as f64) - in_files;
            files >= SHARE * view.wall && idle <= IDLE * view.life(id)
        };
        view.workers_at_once < 2
            && !self.is_much()
            && self
                .threads()
                .into_iter()
                .any(|id| view.workers.contains(&id) && serves(id) && is_busy(id))
    }

    fn is_critical(&self, cx: &RunFacts) -> bool {
        // One thread alone has nothing to overlap it with.
        let goes = !self.is_much() || cx.view.workers_at_once > 1;
        self.is_alone(cx.view)
            || self.writer.is_some()
            || (goes && self.sync.on_the_critical_path(cx))
    }

    /// What goes, and which share of the run is in these calls.
    fn computed(&self, cx: &RunFacts) -> (Saving, f64) {
        let view = cx.view;
        let threads = self.threads();
        let rows = || threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows().map(|th| SchedThread::cpu_work_ns(th) as f64).sum();
        let active: f64 = rows().map(|th| th.active_ns() as f64).sum();
        let cm: f64 = rows().map(|th| th.cm_working_ns).sum();
        let slices: f64 = rows().map(|th| th.slices as f64).sum();
        let delayed: f64 = rows().map(|th| th.delayed_ns as f64).sum();
        let waits: f64 = self.sync.in_it.values().sum();
        let useful = view.useful.max(1.0);
        let of_waits = |histogram: &[u64]| freed(histogram, &view.sched.working, useful);
        // Each of those that are in it, with what it waits for the others that are, and what it waits for a processor after both.
        let at_once = match self.sync.themselves(cx) {
            true => self.sync.workers(cx).len().min(view.workers_at_once).max(1) as f64,
            false => f64::INFINITY,
        };
        let (waited_low, waited) = self.waited_for_others(cx, &threads);
        // Who does not wait need not get back on a processor.
        let in_calls = |n: f64, cpu: f64| {
            let back = delayed * (n / slices.max(1.0)).min(1.0);
            back + (active - back) * cpu
        };
        let each =
            |own: f64, waited: f64, n: f64, cpu: f64| (own + waited + in_calls(n, cpu)) / at_once;
        let of_cm = |n: f64, cpu: f64| in_calls(n, cpu) / active.max(1.0) * cm;
        let (n, n_all) = (self.sync.n as f64, self.all_n as f64);
        let sync = of_waits(&self.sync_meanwhile);
        let all = of_waits(&self.all_meanwhile);
        let waits_of_commits = match self.is_much() {
            true => all,
            false => all.min(2.0 * sync),
        };
        let commits = waits_of_commits + of_cm(n, self.cpu.all);
        // Others gain no more than what they wait for it, unless all are in it.
        let waited_for = cx.waited_for.offs(&self.all_ids) / self.all_ns.max(1.0);
        let gains = match self.is_alone(view) || self.sync.themselves(cx) {
            true => commits.max(each(waits, waited_low, n, self.cpu.all)),
            false => commits * waited_for.min(1.0),
        };
        let of_writer = |waits: fn(&Writer) -> f64, cpu: f64, switch_ns: f64| {
            let writer = self.writer.as_ref();
            writer.map_or(0.0, |writer| writer.saved(waits(writer), cpu, switch_ns))
        };
        let gains = gains.max(of_writer(|writer| writer.sync, self.cpu.all, 0.0));
        let most = of_waits(&self.with_retries(view)) + of_cm(n_all, self.cpu.most);
        let most = most.max(each(self.all_ns, waited, n_all, self.cpu.most));
        let most = most.max(of_writer(|writer| writer.all, self.cpu.most, SWITCH_NS.1));
        let (part, goes) = match self.amount {
            Amount::Little => (EXPECTED, gains),
            Amount::Unknown => (OVERLAPPED, gains),
            // The disk is as long at it, and whoever writes behind; the rest of the run passes meanwhile.
            Amount::Much => (OVERLAPPED, gains.min(view.wall - gains).max(0.0)),
        };
        // Whoever need not wait for the writer need not be woken.
        let woken = |each: f64| self.writer.as_ref().map_or(0.0, |of| of.switching(each));
        let saving = Saving {
            expected: part * goes.min(view.wall),
            most: most.min(view.wall),
            sure: 0.0,
            cpu: match self.is_much() {
                true => (0.0, 0.0),
                false => (
                    part * (self.cpu.all * running + woken(SWITCH_NS.0)),
                    self.cpu.most * running + woken(SWITCH_NS.1),
                ),
            },
        };
        let share = (gains / view.wall).min(1.0);
        (saving, share)
    }

    /// What these threads waited for others of them that were in a file, and for these to get back on a processor: while parallelism
    /// was low; and at most, however parallel it was, if that is why anybody waited.
    fn waited_for_others(&self, cx: &RunFacts, threads: &BTreeSet<ThreadId>) -> (f64, f64) {
        let view = cx.view;
        let ids: BTreeSet<OffId> = self.all_ids.iter().copied().collect();
        let ended = view.sched.ended_by_threads();
        let by_others = ended.filter(|(wake, off, waker, _)| {
            off.reason == OffReason::Futex
                && *waker != off.thread
                && threads.contains(&off.thread)
                && wake.waker_off.iter().any(|(id, _)| ids.contains(id))
        });
        by_others.fold((0.0, 0.0), |sum, (wake, off, ..)| {
            let low = (low_ns(view, off) / (off.sum_ns as f64).max(1.0)).min(1.0);
            let waits = cx.passed_on.holders_waits(view, wake).into_iter();
            let theirs = waits.filter(|(id, ..)| ids.contains(id));
            let (expected, most) = theirs.fold((0.0, 0.0), |sum, (_, expected, most)| {
                (sum.0 + expected, sum.1 + most)
            });
            (sum.0 + low * expected, sum.1 + most)
        })
    }

    pub(crate) fn finding(&self, cx: &RunFacts) -> Option<Finding> {
        let view = cx.view;
        if self.share < SHARE
            || self.saving.bound(view) < view.t.gain_mid
            || !self.is_critical(cx)
            || cx.nobody_asks
        {
            return None;
        }
        let site = self.sync.site()?;
        let place = view.place(Some(site));
        let file = self.sync.main_name();
        let what = blocking_io::what(view, &self.sync);
        Some(Finding {
            id: FindingId::BlockingIo,
            subject: match file.filter(|_| view.file_name(file).is_some()) {
                Some(name) => Subject::File(name, site),
                None => Subject::Code(site),
            },
            title: match &self.writer {
                Some(writer) => format!(
                    "the others wait for {}, because {what} written through to the disk at {place} for {} of the run",
                    view.group_name(writer.group),
                    percent(self.share)
                ),
                None => format!(
                    "{} of the run few threads work because {what} written through to the disk at {place}",
                    percent(self.share)
                ),
            },
            evidence: self.evidence(cx),
            causes: vec![self.cause(&place)],
            undecided: String::new(),
            gain: self.saving.gain(view, METHOD, "the disk, and what is left to be written"),
            share_of_thread_time: self.share,
            caveats: self.caveats(),
        })
    }

    fn caveats(&self) -> Vec<String> {
        const MUCH: &str = "I/O can be overlapped, but it does not go away: the expected gain assumes half of what fits beside the rest of the run";
        const UNKNOWN: &str = "how much is written each time is not known: if it is much, the disk needs the time in however few calls";
        let of = match self.amount {
            Amount::Little => vec![LOST],
            Amount::Unknown => vec![LOST, UNKNOWN],
            Amount::Much => vec![MUCH],
        };
        of.into_iter().map(str::to_owned).collect()
    }

    fn cause(&self, place: &str) -> Cause {
        match self.is_much() {
            true => cause(
                "blocking-io",
                "threads wait for one that writes much data through to the disk (fsync), whose throughput is the limit",
                format!("write behind at {place}: a thread of its own that writes and syncs a copy while the others go on"),
            ),
            false => cause(
                "write-through",
                "threads wait until the disk has what they wrote, for a little at a time (fsync)",
                format!(
                    "one fsync for several writes at {place}: a transaction for many rows, a group commit for all that wait, or a setting \
                     that writes through less often; or a thread of its own for it"
                ),
            ),
        }
    }

    fn evidence(&self, cx: &RunFacts) -> Vec<Evidence> {
        let mut list = self.sync.evidence("io_wait_ns", "io_wait_low_ns");
        if self.cpu.sync > 0.0 {
            list.push(evidence(
                "call_ratio",
                self.cpu.all,
                format!(
                    "{} of what these threads run is in calls of a commit, {} in those that write through",
                    percent(self.cpu.all),
                    percent(self.cpu.sync)
                ),
            ));
        }
        list.extend(blocking_io::waited_for(cx, &self.sync));
        list.extend(blocking_io::files(cx.view, &self.sync));
        list
    }
}
