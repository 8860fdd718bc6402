//! Locks on files, fcntl() and flock(): processes and threads of one program that exclude one another where no agent and
//! no futex sees it.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent, plural};
use convoy_model::{
    FindingId, FunctionKey, GroupId, NameId, OffCpu, OffReason, SchedThread, SiteFrame, SiteId,
    ThreadId,
};

use crate::estimate::saving::{Saving, NO_WORK};
use crate::facts::concurrency::freed;
use crate::facts::lock_waits::Excluded;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::facts::switch_cost::Switching;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Ranges of a file can have a lock each; something is left to wait for.
const EXPECTED: f64 = 0.8;
const SURE: f64 = 0.2;
/// For each wait so many times a file is written through to the disk under the lock, if that is what is done under it.
const SYNCS: f64 = 0.5;
/// Part of what they run outside of it that is left at best: who sleeps after every short piece finds caches and clocks cold, and
/// how much of it is outside is sampled, or counted in ticks.
const LEFT: f64 = 0.8;
/// Samples of the threads from which on a share of them means something.
const SAMPLES: u64 = 30;
const METHOD: &str = "waits for the lock, gone";

/// fcntl() and flock() on x86-64 and on aarch64. Those that have these numbers on the other one wait for something
/// else, and have another reason.
const CALLS: [i16; 4] = [72, 73, 25, 32];

#[derive(Default)]
struct Case {
    waits: Excluded,
    names: BTreeSet<Option<NameId>>,
    wakers: BTreeMap<SiteId, f64>,
    syncs: Syncs,
}

/// Files written through to the disk where the lock is had.
#[derive(Default)]
struct Syncs {
    n: u64,
    sum: f64,
    sites: BTreeMap<SiteId, f64>,
}

/// A finding, the groups that it explains, and where files are written through under the lock, if it says so.
pub(crate) struct Found {
    pub(crate) groups: Vec<GroupId>,
    pub(crate) finding: Finding,
    pub(crate) syncs: BTreeSet<SiteId>,
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<Found> {
    let view = cx.view;
    let is_case = |off: &OffCpu| {
        off.reason == OffReason::Ipc
            && CALLS.contains(&off.nr)
            && (view.workers.contains(&off.thread) || is_for_a_script(view, off.thread))
    };
    // By place, in whichever process: they are one program.
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for off in view.sched.offs.iter().filter(|off| is_case(off)) {
        let case = cases.entry(view.place(off.site)).or_default();
        case.waits.add(view, off);
        case.names.insert(off.name);
    }
    for (wake, off, _, site) in view.sched.ended_by_threads() {
        let Some(site) = site else { continue };
        let case = cases.get_mut(&view.place(off.site));
        if let Some(case) = case.filter(|_| is_case(off)) {
            *case.wakers.entry(site).or_default() += wake.wait_ns as f64;
        }
    }
    let mut locks = of_one_file(cases);
    for case in &mut locks {
        let functions = case.functions(view);
        for off in &view.sched.offs {
            if off.reason == OffReason::Sync && case.is_had_at(view, off, &functions) {
                case.syncs.add(off);
            }
        }
    }
    let found = |case: &Case| {
        Some(Found {
            groups: case.waits.roles(view),
            finding: case.finding(cx)?,
            syncs: match case.is_to_write() {
                true => case.syncs.sites.keys().copied().collect(),
                false => BTreeSet::new(),
            },
        })
    };
    locks.iter().filter_map(found).collect()
}

/// One file has one lock, wherever it is taken; of several files that are locked at one place each may have its own.
fn of_one_file(cases: BTreeMap<String, Case>) -> Vec<Case> {
    let mut files: BTreeMap<NameId, Case> = BTreeMap::new();
    let mut others = Vec::new();
    for case in cases.into_values() {
        // Of some waits the file is not known.
        let mut known = case.names.iter().flatten().copied();
        match (known.next(), known.next()) {
            (Some(file), None) => files.entry(file).or_default().join(case),
            _ => others.push(case),
        }
    }
    files.into_values().chain(others).collect()
}

/// Whether the one that waits is `flock` of util-linux: it does no work, and the script that goes on afterwards waits for it.
fn is_for_a_script(view: &RunView, id: ThreadId) -> bool {
    let process = view.process(id);
    let process = view.process_at(process);
    process.is_some_and(|process| process.name == "flock")
}

impl Syncs {
    fn add(&mut self, off: &OffCpu) {
        self.n = self.n.saturating_add(off.n);
        self.sum += off.sum_ns as f64;
        if let Some(site) = off.site {
            *self.sites.entry(site).or_default() += off.sum_ns as f64;
        }
    }
}

impl Case {
    fn join(&mut self, other: Self) {
        self.waits.join(other.waits);
        self.names.extend(other.names);
        for (site, ns) in other.wakers {
            *self.wakers.entry(site).or_default() += ns;
        }
    }

    fn functions<'a>(&self, view: &RunView<'a>) -> BTreeSet<FunctionKey<'a>> {
        let shown = self.waits.sites.keys().filter_map(|&site| view.shown(site));
        shown.map(SiteFrame::key).collect()
    }

    /// Whether a thread that waits for the lock at other times has it there: the locked file is written through, or it is done in
    /// one of these functions, which take the lock.
    fn is_had_at(&self, view: &RunView, off: &OffCpu, functions: &BTreeSet<FunctionKey>) -> bool {
        let same_file = || off.name.is_some() && self.names.contains(&off.name);
        let shown = || off.site.and_then(|site| view.shown(site));
        let takes_it = || shown().is_some_and(|f| functions.contains(&f.key()));
        self.waits.threads.contains(&off.thread) && (same_file() || takes_it())
    }

    /// Whether the lock is had to write something through, again and again.
    fn is_to_write(&self) -> bool {
        self.syncs.n as f64 >= SYNCS * self.waits.n as f64
    }

    /// Share of what the threads run that is in the functions that take the lock.
    fn share_of_sections(&self, view: &RunView) -> f64 {
        let functions = self.functions(view);
        let (mut all, mut inside) = (0, 0);
        let samples = view.model.samples();
        for (slice, site) in samples.filter(|(of, _)| self.waits.threads.contains(&of.thread)) {
            all += slice.n;
            let mut frames = site.map_or(&[][..], |site| &site.frames).iter();
            if frames.any(|frame| functions.contains(&frame.key())) {
                inside += slice.n;
            }
        }
        match all >= SAMPLES {
            true => (inside as f64 / all as f64).min(NO_WORK),
            false => NO_WORK,
        }
    }

    /// Several sections in one write through once: then the disk, and what the calls take, go with the waits.
    fn saving_of_batches(&self, view: &RunView, alone: Saving) -> Saving {
        let (waits, n) = (&self.waits, self.waits.n as f64 + self.syncs.n as f64);
        let switching = Switching::of(view, &waits.threads, n);
        let rows = || waits.threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows().map(|th| SchedThread::cpu_work_ns(th) as f64).sum();
        // With less to run and fewer returns they wait less for a processor, too.
        let ready: f64 = rows()
            .map(|th| (th.delayed_ns + th.preempted_ns) as f64)
            .sum();
        let inside = switching.most.max(self.share_of_sections(view) * running);
        let most = running - LEFT * (running - inside);
        let threads = waits.threads.len() as f64;
        let each = |cpu: f64| ((waits.sum + self.syncs.sum + cpu) / threads).min(view.wall);
        Saving {
            expected: alone.expected.max(EXPECTED * each(switching.expected)),
            most: alone.most.max(each(most + ready)),
            cpu: (switching.expected, most),
            ..alone
        }
    }

    fn saving(&self, cx: &RunFacts) -> Saving {
        let view = cx.view;
        let waits = &self.waits;
        let switching = Switching::of(view, &waits.threads, waits.n as f64);
        let threads = waits.threads.len() as f64;
        let each = |cpu: f64| ((waits.sum + cpu) / threads).min(view.wall);
        let freed = freed(&waits.meanwhile, &view.sched.working, view.useful);
        let alone = Saving {
            expected: EXPECTED * freed.max(each(switching.expected)),
            most: freed.max(each(switching.most)),
            sure: SURE,
            cpu: (switching.expected, switching.most),
        };
        match self.is_to_write() {
            true => self.saving_of_batches(view, alone),
            false => alone,
        }
    }

    fn finding(&self, cx: &RunFacts) -> Option<Finding> {
        let view = cx.view;
        if !self.waits.is_a_convoy() {
            return None;
        }
        let saving = self.saving(cx);
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let site = most(self.waits.sites.clone())?;
        let place = view.place(Some(site));
        let share = self.waits.share(view);
        let who = match self.waits.processes(view).len() {
            1 => plural(self.waits.threads.len(), "thread"),
            n => format!("{n} processes"),
        };
        let names: Vec<&str> = self
            .names
            .iter()
            .filter_map(|&name| view.file_name(name))
            .collect();
        let lock = match names.as_slice() {
            [one] if self.names.len() == 1 => format!("the lock on {one}"),
            _ => "a lock on a file".to_owned(),
        };
        let mut list = self.waits.evidence();
        if let Some(released) = most(self.wakers.clone()) {
            let of_all = self.wakers.values().sum::<f64>() / self.waits.sum.max(1.0);
            let at = view.place(Some(released));
            let of_all = of_all.min(1.0);
            let text = format!("most was ended at {at}; known of {} of it", percent(of_all));
            list.push(evidence("released_ratio", of_all, text));
        }
        if self.is_to_write() {
            let (n, ns) = (self.syncs.n as f64, self.syncs.sum);
            let text = format!(
                "under it a file is written through to the disk {} times, {} together",
                count(n),
                duration(ns)
            );
            list.push(evidence("sync_ns", ns, text));
        }
        let threads = &self.waits.threads;
        let fix = match threads.iter().all(|&id| is_for_a_script(view, id)) {
            true => "less in the script before the lock is let go: write to a file of one's own, and take the lock only to move or \
                     append it"
                .into(),
            false if self.is_to_write() => format!(
                "do more each time that the lock is taken at {place}, so that one write through to the disk ({}) is for many: several \
                 jobs at once, or one process that writes for all that wait",
                view.place(most(self.syncs.sites.clone()))
            ),
            false => format!(
                "less work under the lock taken at {place}, a lock for each part of the file (a range, a file each), or a mutex \
                 in shared memory"
            ),
        };
        Some(Finding {
            id: FindingId::ContendedFileLock,
            subject: Subject::Code(site),
            title: format!(
                "{who} wait for {lock} {} of their time, at {place}",
                percent(share)
            ),
            evidence: list,
            causes: vec![cause(
                "contended-file-lock",
                "processes or threads exclude one another by a lock on a file (fcntl, flock)",
                fix,
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the section itself"),
            share_of_thread_time: share,
            caveats: Vec::new(),
        })
    }
}
