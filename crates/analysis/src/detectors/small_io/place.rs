//! Where such calls are made, how long they take, and the lock that they are made under.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::words::plural;
use convoy_model::{
    CallSamples, FunctionKey, NameId, ObjectId, OffReason, Site, SiteId, SyncCode, ThreadId,
};

use crate::facts::run_view::RunView;
use crate::tables::paths::most;

/// What a call costs beside what it moves, in bytes that could be moved meanwhile: about a page.
const CALL_BYTES: f64 = 4096.0;
/// Writes that take longer, or shorter, than a lock of the same function is held, over how long that is, are not what it is held for.
const HELD: std::ops::Range<f64> = 0.3..1.5;
/// Writes under a lock that are so much of what it is held for are what its sections do.
const MOSTLY: f64 = 0.5;

/// What entering the kernel and leaving it takes beside the call itself, at most a quarter of it.
const ON_THE_WAY: f64 = 1.25;

/// Calls of one function that read files, or write to them.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) reads: bool,
    /// Samples of each thread.
    pub(super) of_thread: BTreeMap<ThreadId, f64>,
    pub(super) sites: BTreeMap<SiteId, f64>,
    pub(super) files: BTreeMap<NameId, f64>,
    /// Bytes of the calls, summed over the samples.
    bytes: f64,
    pub(super) all: f64,
}

impl Place {
    pub(super) fn add(&mut self, row: &CallSamples, site: SiteId, name: NameId) {
        let n = row.n as f64;
        self.reads = row.reads;
        *self.of_thread.entry(row.thread).or_default() += n;
        *self.sites.entry(site).or_default() += n;
        *self.files.entry(name).or_default() += n;
        self.bytes += n * bytes(row.size_class);
        self.all += n;
    }

    /// So many times as many samples.
    pub(super) fn grow(&mut self, times: f64) {
        self.of_thread.values_mut().for_each(|n| *n *= times);
        self.sites.values_mut().for_each(|n| *n *= times);
        self.bytes *= times;
        self.all *= times;
    }

    pub(super) fn mean_bytes(&self) -> f64 {
        self.bytes / self.all.max(1.0)
    }

    /// The calls are a matter of the lines, not of their bytes.
    pub(super) fn goes(&self) -> f64 {
        let mean = self.mean_bytes();
        1.0 - mean / (mean + CALL_BYTES)
    }

    /// The thread that is in them most.
    pub(super) fn thread(&self) -> Option<ThreadId> {
        most(self.of_thread.clone())
    }

    /// What is done there, for a sentence: "write some 12 bytes at a time to app.log at log_line() log.c:31".
    pub(super) fn said(&self, view: &RunView, one: bool) -> Option<String> {
        let file = view.file_name(most(self.files.clone()))?;
        let short = file.rsplit('/').next().unwrap_or(file);
        let (verb, to) = match self.reads {
            true => ("read", "of"),
            false => ("write", "to"),
        };
        let others = match self.files.len() - 1 {
            0 => String::new(),
            n => format!(" and {}", plural(n, "other file")),
        };
        Some(format!(
            "{verb}{} some {:.0} bytes at a time {to} {short}{others} at {}",
            if one { "s" } else { "" },
            self.bytes / self.all,
            view.place(most(self.sites.clone())),
        ))
    }
}

/// In the middle of what has so many bits.
pub(crate) fn bytes(size_class: u8) -> f64 {
    0.75 * f64::from(size_class).exp2()
}

/// By the function that a call is made in and the one that makes it: samples in the kernel, which tell the call, and all, as the way
/// there and back belongs to it.
pub(super) struct Entering<'a>(BTreeMap<(FunctionKey<'a>, FunctionKey<'a>), (f64, f64)>);

impl<'a> Entering<'a> {
    pub(super) fn of(view: &RunView<'a>) -> Self {
        let mut of: BTreeMap<_, (f64, f64)> = BTreeMap::new();
        for row in &view.sched.writes {
            if let Some(key) = row.site.and_then(|site| called_in(view.model.site(site)?)) {
                of.entry(key).or_default().0 += row.n as f64;
            }
        }
        for (slice, site) in view.model.samples() {
            if let Some(known) = site.and_then(called_in).and_then(|key| of.get_mut(&key)) {
                known.1 += slice.n as f64;
            }
        }
        Self(of)
    }

    /// How many times as many samples belong to the calls of a place as tell it.
    pub(super) fn factor(&self, view: &RunView<'a>, place: &Place) -> f64 {
        let sites = place.sites.keys().filter_map(|id| view.model.site(*id));
        let keys: BTreeSet<_> = sites.filter_map(called_in).collect();
        let known = keys.iter().filter_map(|key| self.0.get(key));
        let (told, all) = known.fold((0.0, 0.0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
        (all / f64::max(told, 1.0)).clamp(1.0, ON_THE_WAY)
    }
}

/// The function that shows where a call is made, and the one that makes it.
fn called_in(site: &Site) -> Option<(FunctionKey<'_>, FunctionKey<'_>)> {
    Some((site.shown_frame()?.key(), site.frames.first()?.key()))
}

/// CPU time of the threads, by samples.
pub(super) struct Cpu<'a> {
    pub(super) view: &'a RunView<'a>,
    /// All samples of each thread.
    pub(super) all: BTreeMap<ThreadId, f64>,
    /// Those in functions of locks, by the functions that called them.
    locking: BTreeMap<FunctionKey<'a>, BTreeMap<ThreadId, f64>>,
}

impl<'a> Cpu<'a> {
    pub(super) fn of(view: &'a RunView<'a>) -> Self {
        let (mut all, mut locking): (BTreeMap<_, f64>, BTreeMap<_, BTreeMap<_, f64>>) =
            (BTreeMap::new(), BTreeMap::new());
        for (slice, site) in view.model.samples() {
            let n = slice.n as f64;
            *all.entry(slice.thread).or_default() += n;
            let locks = site.filter(|site| site.sync == Some(SyncCode::Lock));
            if let Some(frame) = locks.and_then(|site| site.shown_frame()) {
                let of: &mut BTreeMap<_, f64> = locking.entry(frame.key()).or_default();
                *of.entry(slice.thread).or_default() += n;
            }
        }
        Self { view, all, locking }
    }

    /// What so many samples of each thread stand for.
    pub(super) fn time(&self, samples: &BTreeMap<ThreadId, f64>) -> Time {
        let mut time = Time::default();
        for (id, n) in samples {
            let all = self.all.get(id).copied().unwrap_or(0.0);
            let share = (n / all.max(1.0)).min(1.0);
            if let Some(thread) = self.view.threads.get(id) {
                time.cpu += share * thread.running_ns as f64;
                // Who needs a processor for less time waits less for one.
                time.active += share * thread.active_ns() as f64;
            }
        }
        time
    }
}

/// Of several threads together, nanoseconds.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Time {
    /// On a processor.
    pub(super) cpu: f64,
    /// There, or waiting for one.
    pub(super) active: f64,
}

/// The lock that calls are made under.
pub(super) struct Lock {
    /// `None`: concluded from who waits for whom in the same function.
    pub(super) id: Option<ObjectId>,
    /// Of the time that it is held, the part that the calls take.
    pub(super) part: f64,
    /// Who waited for it, and how long together.
    pub(super) waiters: BTreeSet<ThreadId>,
    pub(super) waited: f64,
    /// Taking it and giving it back.
    pub(super) locking: Time,
}

impl Lock {
    /// Its sections do nothing else that is worth a word: with a buffer for each thread it is hardly taken any more.
    pub(super) fn is_for_them(&self) -> bool {
        self.part >= MOSTLY
    }
}

impl Place {
    /// What the calls wait for one another in the kernel: one at a time changes a file.
    pub(super) fn blocked(&self, view: &RunView) -> f64 {
        let offs = view.sched.offs.iter().filter(|off| {
            let here = off.site.is_some_and(|site| self.sites.contains_key(&site));
            here && off.reason == OffReason::File
        });
        offs.map(|off| off.sum_ns as f64).sum()
    }

    /// Of the locks that a function on these call stacks takes, the one that is waited for most.
    pub(super) fn lock(&self, cpu: &Cpu, writing: Time) -> Option<Lock> {
        let model = cpu.view.model;
        let sites = self.sites.keys().filter_map(|id| model.site(*id));
        let functions: BTreeSet<FunctionKey> = sites
            .flat_map(|site| &site.frames)
            .map(|frame| frame.key())
            .collect();
        let called_by = |site: SiteId| {
            let frame = model.site(site)?.shown_frame()?;
            functions.get(&frame.key()).copied()
        };
        let mut held: BTreeMap<ObjectId, (f64, BTreeSet<FunctionKey>)> = BTreeMap::new();
        for used in &model.uses {
            if let Some(function) = called_by(used.site).filter(|_| used.hold_total_ns() > 0.0) {
                let (ns, of) = held.entry(used.object).or_default();
                *ns += used.hold_total_ns();
                of.insert(function);
            }
        }
        let lock = |(id, (ns, of)): (ObjectId, (f64, BTreeSet<FunctionKey>))| {
            let part = Some(writing.cpu / ns).filter(|part| HELD.contains(part))?;
            let waits = model.uses_of(id).iter().filter(|used| used.wait_ns > 0);
            let locking = of.iter().filter_map(|function| cpu.locking.get(function));
            let locking = locking.map(|samples| cpu.time(samples));
            Some(Lock {
                id: Some(id),
                part: part.min(1.0),
                waited: waits.clone().map(|used| used.wait_ns as f64).sum(),
                waiters: waits.map(|used| used.thread).collect(),
                locking: locking.fold(Time::default(), |sum, time| Time {
                    cpu: sum.cpu + time.cpu,
                    active: sum.active + time.active,
                }),
            })
        };
        let waits = |lock: &Lock| lock.part * lock.waited;
        held.into_iter()
            .filter_map(lock)
            .max_by(|a, b| waits(a).total_cmp(&waits(b)))
    }

    /// A lock that was concluded in a function on these call stacks: it is held for what that function runs.
    pub(super) fn concluded(&self, cpu: &Cpu, locks: &BTreeSet<FunctionKey>) -> Option<Lock> {
        let view = cpu.view;
        let shown = |site: Option<SiteId>| view.shown(site?).map(|frame| frame.key());
        let mut sites = self.sites.keys();
        let function = sites.find_map(|&site| shown(Some(site)).filter(|of| locks.contains(of)))?;
        let samples = view.model.samples().filter(|(_, site)| {
            let frame = site.and_then(|site| site.shown_frame());
            frame.is_some_and(|frame| frame.key() == function)
        });
        let held = samples.filter(|(_, site)| site.is_some_and(|site| site.sync.is_none()));
        let held: f64 = held.map(|(slice, _)| slice.n as f64).sum();
        let part = Some(self.all / held.max(1.0)).filter(|part| HELD.contains(part))?;
        let waits = view.sched.offs.iter().filter(|off| {
            off.reason == OffReason::Futex && shown(off.site).is_some_and(|of| of == function)
        });
        Some(Lock {
            id: None,
            part: part.min(1.0),
            waited: waits
                .clone()
                .map(|off| off.sum_ns as f64 + view.back_on_cpu(off.thread, off.n as f64))
                .sum(),
            waiters: waits.map(|off| off.thread).collect(),
            locking: cpu
                .locking
                .get(&function)
                .map_or_else(Time::default, |samples| cpu.time(samples)),
        })
    }
}
