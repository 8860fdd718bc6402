//! Threads that write a file a few bytes at a time: each call costs nearly as much as one that writes a page, and whoever
//! waits for the lock that it is made under waits for that, too.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{
    FunctionKey, NameId, ObjectId, OffReason, ProcessId, SiteId, SyncCode, ThreadId, WriteSamples,
};

use super::Context;
use crate::gain::Saving;
use crate::tables::paths::most;
use crate::text::{cause, evidence, time};
use crate::view::View;

/// A call that writes fewer bytes than 2 to this is small.
const SMALL_BITS: u8 = 10;
/// What writing costs beside what is written, in bytes that could be written meanwhile: about a page.
const CALL_BYTES: f64 = 4096.0;
/// Samples that a finding needs, and share of the threads' CPU time.
const SAMPLES: f64 = 20.0;
const SHARE: f64 = 0.1;
/// Writes that take longer, or shorter, than a lock of the same function is held, over how long that is, are not what it is held for.
const HELD: std::ops::Range<f64> = 0.3..1.5;
/// Writes under a lock that are so much of what it is held for are what its sections do.
const MOSTLY: f64 = 0.5;
/// Share of their lives that threads are at work, or kept from it, where it is they who limit.
const BUSY: f64 = 0.5;
/// Where lines are gathered in a buffer, something is left to be done for each of them.
const EXPECTED: f64 = 0.9;
/// Share of the expected gain that is sure: the file may be slower than what writes to it.
const SURE: f64 = 0.3;
const METHOD: &str = "time in the calls but for what is written, and waits for the lock that they are made under, gone";

/// Calls of one function that write to one file.
#[derive(Debug, Default)]
struct Place {
    /// Samples of each thread.
    of_thread: BTreeMap<ThreadId, f64>,
    sites: BTreeMap<SiteId, f64>,
    /// Bytes of the calls, summed over the samples.
    bytes: f64,
    all: f64,
}

impl Place {
    fn add(&mut self, row: &WriteSamples, site: SiteId) {
        let n = row.n as f64;
        *self.of_thread.entry(row.thread).or_default() += n;
        *self.sites.entry(site).or_default() += n;
        self.bytes += n * bytes(row.size_class);
        self.all += n;
    }

    /// The calls are a matter of the lines, not of their bytes.
    fn goes(&self) -> f64 {
        let mean = self.bytes / self.all.max(1.0);
        1.0 - mean / (mean + CALL_BYTES)
    }
}

/// In the middle of what has so many bits.
fn bytes(size_class: u8) -> f64 {
    0.75 * f64::from(size_class).exp2()
}

/// CPU time of the threads, by samples.
struct Cpu<'a> {
    view: &'a View<'a>,
    /// All samples of each thread.
    all: BTreeMap<ThreadId, f64>,
    /// Those in functions of locks, by the functions that called them.
    locking: BTreeMap<FunctionKey<'a>, BTreeMap<ThreadId, f64>>,
}

impl<'a> Cpu<'a> {
    fn of(view: &'a View<'a>) -> Self {
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
    fn time(&self, samples: &BTreeMap<ThreadId, f64>) -> Time {
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
struct Time {
    /// On a processor.
    cpu: f64,
    /// There, or waiting for one.
    active: f64,
}

/// The lock that calls are made under.
struct Lock {
    /// `None`: concluded from who waits for whom in the same function.
    id: Option<ObjectId>,
    /// Of the time that it is held, the part that the calls take.
    part: f64,
    /// Who waited for it, and how long together.
    waiters: BTreeSet<ThreadId>,
    waited: f64,
    /// Taking it and giving it back.
    locking: Time,
}

impl Lock {
    /// Its sections do nothing else that is worth a word: with a buffer for each thread it is hardly taken any more.
    fn is_for_them(&self) -> bool {
        self.part >= MOSTLY
    }
}

/// `locks`: the places of locks that were concluded from who waits for whom.
pub(crate) fn findings(cx: &Context, locks: &BTreeSet<FunctionKey>) -> Vec<Finding> {
    let view = cx.view;
    let mut places: BTreeMap<(ProcessId, NameId, FunctionKey), Place> = BTreeMap::new();
    let small = |row: &&WriteSamples| (1..=SMALL_BITS).contains(&row.size_class);
    for row in view.sched.writes.iter().filter(small) {
        let (Some(name), Some(site)) = (row.name, row.site) else {
            continue;
        };
        if !is_file(view, name) || is_synced(view, name) {
            continue;
        }
        let function = view.shown(site).map(|frame| frame.key());
        let key = (view.process(row.thread), name, function.unwrap_or_default());
        places.entry(key).or_default().add(row, site);
    }
    let cpu = Cpu::of(view);
    let places = places.into_iter();
    places
        .filter_map(|((_, name, _), place)| place.finding(&cpu, name, locks))
        .collect()
}

/// A file on a disk: to a pipe or a socket, what is sent may be waited for.
fn is_file(view: &View, name: NameId) -> bool {
    let name = view.file_name(Some(name));
    name.is_some_and(|name| name.starts_with('/') && !name.starts_with("/dev/"))
}

/// Whether the program waits until it is on the disk: then it is a journal, and each record has to be there.
fn is_synced(view: &View, name: NameId) -> bool {
    let mut offs = view.sched.offs.iter();
    offs.any(|off| off.reason == OffReason::Sync && off.name == Some(name))
}

impl Place {
    fn finding(&self, cpu: &Cpu, name: NameId, locks: &BTreeSet<FunctionKey>) -> Option<Finding> {
        let view = cpu.view;
        let writing = cpu.time(&self.of_thread);
        let of_threads: f64 = self.of_thread.keys().filter_map(|id| cpu.all.get(id)).sum();
        let share = self.all / of_threads.max(1.0);
        if self.all < SAMPLES || share < SHARE {
            return None;
        }
        let lock = self
            .lock(cpu, writing)
            .or_else(|| self.concluded(cpu, locks));
        let blocked = self.blocked(view);
        let saving = self.saving(view, writing, blocked, lock.as_ref());
        let gain = saving.gain(view, METHOD, "the work between the writes");
        if gain.mid < view.t.gain_mid {
            return None;
        }
        let site = most(self.sites.clone())?;
        let (place, file) = (view.place(Some(site)), view.file_name(Some(name))?);
        let short = file.rsplit('/').next().unwrap_or(file);
        let size = self.bytes / self.all;
        let under = lock.as_ref().filter(|lock| lock.is_for_them());
        let lock_name = under.map(|lock| {
            let name = lock.id.and_then(|id| view.object_name(id));
            name.unwrap_or("a lock")
        });
        let under_it = lock_name.map_or_else(String::new, |name| format!(", under {name}"));
        Some(Finding {
            id: "small-writes",
            subject: match under.and_then(|lock| lock.id) {
                Some(id) => Subject::Site(id, site),
                None => Subject::Code(site),
            },
            title: format!(
                "{} {} some {size:.0} bytes at a time to {short} at {place}{under_it}: {} of their CPU time",
                plural(self.of_thread.len(), "thread"),
                if self.of_thread.len() == 1 { "writes" } else { "write" },
                percent(share),
            ),
            evidence: self.evidence(writing, lock.as_ref(), file, of_threads),
            causes: vec![cause(
                "write-per-item",
                "a call that writes a line costs nearly as much as one that writes a page",
                format!(
                    "gather what is written at {place} in a buffer of each thread and write some 64 KB at once{} (stdio: setvbuf() and no fflush(); C++: '\\n' instead of std::endl)",
                    if under.is_some() { ", the lock taken only then" } else { "" }
                ),
            )],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: vec!["what is still in a buffer is lost if the program is killed".into()],
        })
    }

    /// Each thread no longer waits for the others' calls, and does not make its own.
    fn saving(&self, view: &View, writing: Time, blocked: f64, lock: Option<&Lock>) -> Saving {
        let (waited, locking) = match lock {
            Some(lock) if lock.is_for_them() => (lock.waited, lock.locking),
            Some(lock) => (lock.part * lock.waited, Time::default()),
            None => (0.0, Time::default()),
        };
        let waiters = lock.into_iter().flat_map(|lock| &lock.waiters);
        let threads: BTreeSet<_> = self.of_thread.keys().chain(waiters).collect();
        let at_once = threads.len().min(view.workers_at_once).max(1) as f64;
        let goes = self.goes();
        let around = locking.active + waited + blocked;
        // Who waits for work most of the time gets no more of it, but leaves the processors to the others.
        let busy = self.is_busy(view, waited + blocked);
        let (each, sure) = match busy {
            true => ((goes * writing.active + around) / at_once, SURE),
            false => (goes * writing.cpu * view.share_busy() / view.cpus, 0.0),
        };
        Saving {
            expected: EXPECTED * each,
            most: (writing.active + around) / at_once,
            sure,
            cpu: (
                EXPECTED * (goes * writing.cpu + locking.cpu),
                writing.cpu + locking.cpu,
            ),
        }
    }

    /// Whether the threads that write are at work, or kept from it by the calls, for most of their lives.
    fn is_busy(&self, view: &View, waited: f64) -> bool {
        let rows = || self.of_thread.keys().filter_map(|id| view.threads.get(id));
        let active: f64 = rows().map(|th| th.active_ns() as f64).sum();
        let lives: f64 = rows().map(|th| th.life_ns() as f64).sum();
        active + waited >= BUSY * lives
    }

    /// What the calls wait for one another in the kernel: one at a time changes a file.
    fn blocked(&self, view: &View) -> f64 {
        let offs = view.sched.offs.iter().filter(|off| {
            let here = off.site.is_some_and(|site| self.sites.contains_key(&site));
            here && off.reason == OffReason::File
        });
        offs.map(|off| off.sum_ns as f64).sum()
    }

    /// Of the locks that a function on these call stacks takes, the one that is waited for most.
    fn lock(&self, cpu: &Cpu, writing: Time) -> Option<Lock> {
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
    fn concluded(&self, cpu: &Cpu, locks: &BTreeSet<FunctionKey>) -> Option<Lock> {
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

    fn evidence(
        &self,
        writing: Time,
        lock: Option<&Lock>,
        file: &str,
        of_threads: f64,
    ) -> Vec<Evidence> {
        let mut list = vec![
            evidence(
                "write_samples",
                self.all,
                format!(
                    "{:.0} of {of_threads:.0} samples of these threads were in calls that write less than {} bytes to {file}",
                    self.all,
                    1 << SMALL_BITS
                ),
            ),
            time("write_ns", writing.cpu, "of CPU time in them"),
        ];
        if let Some(lock) = lock {
            list.push(evidence(
                "held_ratio",
                lock.part,
                format!(
                    "{} of what the lock is held are these calls",
                    percent(lock.part)
                ),
            ));
            list.push(time(
                "lock_wait_ns",
                lock.waited,
                "is what threads waited for it",
            ));
        }
        list
    }
}
