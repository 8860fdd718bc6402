//! Threads that read or write files a few bytes at a time: each call costs nearly as much as one that moves a page, and whoever
//! waits for the lock that it is made under waits for that, too.

pub(crate) mod messages;
mod place;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Cause, Evidence, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{
    CallSamples, FindingId, FunctionKey, GroupId, NameId, ObjectId, OffReason, ProcessId, Slice,
    ThreadId,
};

pub(crate) use self::place::bytes;
use self::place::{Cpu, Entering, Lock, Place, Time};
use crate::detectors::serial_code;
use crate::estimate::saving::Saving;
use crate::facts::concurrency::{all, low_cm};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence, time};

/// A call for fewer bytes than 2 to this is small.
const SMALL_BITS: u8 = 10;
/// Samples that a finding needs, and share of the threads' CPU time.
const SAMPLES: f64 = 20.0;
const SHARE: f64 = 0.1;
/// Share of their lives that threads are at work, or kept from it, where it is they who limit.
const BUSY: f64 = 0.5;
/// Where lines are gathered in a buffer, something is left to be done for each of them: some 20 ns, where a call takes 400.
const EXPECTED: f64 = 0.95;
/// A call leaves caches and predictions cold for what runs after it. At most so much of what the calls take.
const COLD: f64 = 0.02;
/// Places that are told with their samples.
const PLACES: usize = 4;
/// Share of the expected gain that is sure: the file may be slower than what writes to it.
const SURE: f64 = 0.3;
const METHOD: &str = "time in the calls but for what they move, and waits for the lock that they are made under, gone";

/// A place, with what goes when its calls do.
struct Part<'a> {
    place: Place,
    /// The function that it is in.
    function: FunctionKey<'a>,
    calls: Time,
    lock: Option<Lock>,
    /// What the calls wait for one another in the kernel.
    blocked: f64,
}

impl Part<'_> {
    /// The lock, if it is for the calls.
    fn under(&self) -> Option<&Lock> {
        self.lock.as_ref().filter(|lock| lock.is_for_them())
    }

    /// What its threads wait for the calls of others, and what taking the lock costs.
    fn around(&self) -> (f64, Time) {
        let (waited, locking) = match &self.lock {
            Some(lock) if lock.is_for_them() => (lock.waited, lock.locking),
            Some(lock) => (lock.part * lock.waited, Time::default()),
            None => (0.0, Time::default()),
        };
        (waited + self.blocked, locking)
    }

    fn weight(&self) -> f64 {
        let (waited, locking) = self.around();
        self.calls.active + waited + locking.active
    }
}

/// Places whose threads are of one kind: they do the same work, and that is what has so many calls.
struct Parts<'a>(Vec<Part<'a>>);

/// The functions that a finding is about.
#[derive(Debug)]
pub(crate) struct Functions<'a> {
    /// What is waited for there goes with the writes.
    pub(crate) writes: BTreeSet<FunctionKey<'a>>,
    /// The lock there is had for them.
    pub(crate) locks: BTreeSet<FunctionKey<'a>>,
}

/// What is said, and the functions that it is about. `locks`: the places of locks that were concluded from who waits for whom.
pub(crate) fn findings<'a>(
    cx: &RunFacts<'a>,
    locks: &BTreeSet<FunctionKey>,
) -> Vec<(Functions<'a>, Finding)> {
    let view = cx.view;
    let mut places: BTreeMap<(ProcessId, bool, FunctionKey), Place> = BTreeMap::new();
    let small = |row: &&CallSamples| (1..=SMALL_BITS).contains(&row.size_class);
    for row in view.sched.writes.iter().filter(small) {
        let (Some(name), Some(site)) = (row.name, row.site) else {
            continue;
        };
        if !is_file(view, name) || is_synced(view, name) {
            continue;
        }
        let function = view.shown(site).map(|frame| frame.key());
        let key = (
            view.process(row.thread),
            row.reads,
            function.unwrap_or_default(),
        );
        places.entry(key).or_default().add(row, site, name);
    }
    let cpu = Cpu::of(view);
    let entering = Entering::of(view);
    let mut kinds: BTreeMap<(ProcessId, GroupId), Vec<Part>> = BTreeMap::new();
    for ((process, _, function), mut place) in places {
        place.grow(entering.factor(view, &place));
        let Some(role) = place.thread().map(|id| view.role(id)) else {
            continue;
        };
        let part = Part::of(&cpu, place, function, locks);
        kinds.entry((process, role)).or_default().push(part);
    }
    let parts = kinds.into_values().map(Parts::of);
    parts
        .filter_map(|parts| Some((parts.functions(), parts.finding(cx, &cpu)?)))
        .collect()
}

/// A file on a disk: to a pipe or a socket, what is sent may be waited for, and what the kernel makes up as it is asked costs
/// that, not the call.
fn is_file(view: &RunView, name: NameId) -> bool {
    let name = view.file_name(Some(name));
    let made_up = |name: &str| {
        ["/dev/", "/proc/", "/sys/"]
            .iter()
            .any(|of| name.starts_with(of))
    };
    name.is_some_and(|name| name.starts_with('/') && !made_up(name))
}

/// Whether the program waits until it is on the disk: then it is a journal, and each record has to be there.
fn is_synced(view: &RunView, name: NameId) -> bool {
    let mut offs = view.sched.offs.iter();
    offs.any(|off| off.reason == OffReason::Sync && off.name == Some(name))
}

impl<'a> Part<'a> {
    fn of(
        cpu: &Cpu<'a>,
        place: Place,
        function: FunctionKey<'a>,
        locks: &BTreeSet<FunctionKey>,
    ) -> Self {
        let calls = cpu.time(&place.of_thread);
        let lock = place.lock(cpu, calls);
        Self {
            lock: lock.or_else(|| place.concluded(cpu, locks)),
            // Who reads waits for the disk, and still does.
            blocked: if place.reads {
                0.0
            } else {
                place.blocked(cpu.view)
            },
            function,
            calls,
            place,
        }
    }
}

impl<'a> Parts<'a> {
    /// Those with most first. What is waited for one lock counts once.
    fn of(mut parts: Vec<Part<'a>>) -> Self {
        parts.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
        let mut seen: BTreeSet<(Option<ObjectId>, FunctionKey)> = BTreeSet::new();
        for part in &mut parts {
            // One that was concluded is known by where it is taken.
            let key = part.lock.as_ref().map(|lock| match lock.id {
                Some(id) => (Some(id), FunctionKey::default()),
                None => (None, part.function),
            });
            if key.is_some_and(|key| !seen.insert(key)) {
                part.lock = None;
            }
        }
        Self(parts)
    }

    /// Where it writes what blocks it, trifles aside, and where it takes a lock for that.
    fn functions(&self) -> Functions<'a> {
        let first = self.0.first().map_or(0.0, |part| part.calls.cpu);
        let writes = |part: &&Part| !part.place.reads && part.calls.cpu >= SHARE * first;
        let functions =
            |parts: &mut dyn Iterator<Item = &Part<'a>>| parts.map(|part| part.function).collect();
        Functions {
            writes: functions(&mut self.0.iter().filter(writes)),
            locks: functions(&mut self.0.iter().filter(|part| part.under().is_some())),
        }
    }

    fn threads(&self) -> BTreeSet<ThreadId> {
        let threads = self.0.iter().flat_map(|part| part.place.of_thread.keys());
        threads.copied().collect()
    }

    fn finding(&self, cx: &RunFacts, cpu: &Cpu) -> Option<Finding> {
        let view = cx.view;
        let threads = self.threads();
        let of_threads: f64 = threads.iter().filter_map(|id| cpu.all.get(id)).sum();
        let samples: f64 = self.0.iter().map(|part| part.place.all).sum();
        let share = (samples / of_threads.max(1.0)).min(1.0);
        if samples < SAMPLES || share < SHARE {
            return None;
        }
        let gain = self
            .saving(cx, &threads)
            .gain(view, METHOD, "the work between the calls");
        if gain.mid < view.t.gain_mid {
            return None;
        }
        let (first, others) = self.0.split_first()?;
        let site = most(first.place.sites.clone())?;
        let lock = first.under();
        let lock_name = lock.map(|lock| {
            let name = lock.id.and_then(|id| view.object_name(id));
            name.unwrap_or("a lock")
        });
        let under_it = lock_name.map_or_else(String::new, |name| format!(", under {name}"));
        let one = threads.len() == 1;
        // The second, if it is no trifle beside the first.
        let second = others
            .first()
            .filter(|part| part.calls.cpu >= SHARE * first.calls.cpu);
        let second = second.and_then(|part| part.place.said(view, one));
        let second = second.map_or_else(String::new, |said| format!("; and {said}"));
        Some(Finding {
            id: FindingId::SmallWrites,
            subject: match lock.and_then(|lock| lock.id) {
                Some(id) => Subject::Site(id, site),
                None => Subject::Code(site),
            },
            title: format!(
                "{} {}{under_it}{second}: {} of their CPU time",
                plural(threads.len(), "thread"),
                first.place.said(view, one)?,
                percent(share),
            ),
            evidence: self.evidence(view, of_threads),
            causes: vec![self.cause(view, lock.is_some())],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: self.caveats(),
        })
    }

    fn cause(&self, view: &RunView, under_a_lock: bool) -> Cause {
        let at = |reads: bool| {
            let parts = self.0.iter().filter(|part| part.place.reads == reads);
            let places: Vec<_> = parts
                .map(|part| view.place(most(part.place.sites.clone())))
                .take(2)
                .collect();
            (!places.is_empty()).then(|| places.join(" and at "))
        };
        let write = at(false).map(|at| {
            format!(
                "gather what is written at {at} in a buffer of each thread and write some 64 KB at once{} (stdio: setvbuf() and no fflush(); C++: '\\n' instead of std::endl)",
                if under_a_lock { ", the lock taken only then" } else { "" }
            )
        });
        let read = at(true).map(|at| {
            format!("read some 64 KB at once where {at} reads, and take the pieces from there (stdio, BufReader, mmap())")
        });
        let (id, text) = match write {
            Some(_) => (
                "write-per-item",
                "a call that writes a line costs nearly as much as one that writes a page",
            ),
            None => (
                "read-per-item",
                "a call that reads a few bytes costs nearly as much as one that reads a page",
            ),
        };
        let fixes: Vec<_> = write.into_iter().chain(read).collect();
        cause(id, text, fixes.join("; "))
    }

    fn caveats(&self) -> Vec<String> {
        let any = |reads: bool| self.0.iter().any(|part| part.place.reads == reads);
        let mut list = Vec::new();
        if any(false) {
            list.push("what is still in a buffer is lost if the program is killed".into());
        }
        if any(true) {
            list.push("what is read here and there, not from the beginning to the end, needs mmap() instead of a buffer".into());
        }
        list
    }

    /// Each thread no longer waits for the others' calls, and does not make its own.
    fn saving(&self, cx: &RunFacts, threads: &BTreeSet<ThreadId>) -> Saving {
        let view = cx.view;
        let sum = |of: &dyn Fn(&Part) -> f64| self.0.iter().map(of).sum::<f64>();
        let locks = self.0.iter().filter_map(|part| part.lock.as_ref());
        let waiters = locks.flat_map(|lock| &lock.waiters);
        let at_once: BTreeSet<_> = threads.iter().chain(waiters).collect();
        let at_once = at_once.len().min(view.workers_at_once).max(1) as f64;
        let waited = sum(&|part| part.around().0);
        let around = waited + sum(&|part| part.around().1.active);
        let locking = sum(&|part| part.around().1.cpu);
        let goes = sum(&|part| part.place.goes() * part.calls.cpu);
        let all = sum(&|part| part.calls.cpu);
        let whole = (sum(&|part| part.calls.active) + around) / at_once;
        // Who waits for work most of the time gets no more of it, but leaves the processors to the others; what all wait for
        // is over sooner.
        let (each, sure) = match is_busy(view, threads, waited) {
            true => {
                let active = sum(&|part| part.place.goes() * part.calls.active);
                ((active + around) / at_once, SURE)
            }
            false => {
                let alone = sum(&|part| part.place.goes() * part.calls.active * alone(cx, part));
                let cpu = goes * view.share_busy() / view.cpus;
                (alone.min(whole).max(cpu), 0.0)
            }
        };
        Saving {
            expected: EXPECTED * each,
            most: (1.0 + COLD) * whole,
            sure,
            cpu: (EXPECTED * (goes + locking), (1.0 + COLD) * all + locking),
        }
    }

    fn evidence(&self, view: &RunView, of_threads: f64) -> Vec<Evidence> {
        let mut list = Vec::new();
        for Part {
            place, calls, lock, ..
        } in self.0.iter().take(PLACES)
        {
            let file = view
                .file_name(most(place.files.clone()))
                .unwrap_or_default();
            list.push(evidence(
                if place.reads { "read_samples" } else { "write_samples" },
                place.all,
                format!(
                    "{:.0} of {of_threads:.0} samples of these threads were in calls that {} less than {} bytes {} {file}{}",
                    place.all,
                    if place.reads { "read" } else { "write" },
                    1 << SMALL_BITS,
                    if place.reads { "of" } else { "to" },
                    if place.files.len() > 1 { " and others" } else { "" },
                ),
            ));
            let key = if place.reads { "read_ns" } else { "write_ns" };
            list.push(time(key, calls.cpu, "of CPU time in them"));
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
        }
        list
    }
}

/// Share of what runs in the part's function that is the run's, because nobody else works meanwhile who could: its CMetric at low parallelism.
fn alone(cx: &RunFacts, part: &Part) -> f64 {
    let view = cx.view;
    let Some(group) = part.place.thread().map(|id| view.role(id)) else {
        return 0.0;
    };
    if serial_code::keeps_a_rate(view, group) || cx.waited_for.only_by_servers(view, group, 0.0) {
        return 0.0;
    }
    let (mut of_group, mut low_there, mut there) = (0.0, 0.0, 0.0);
    let of_it = |slice: &&Slice| view.role(slice.thread) == group;
    for slice in serial_code::code(cx).filter(of_it) {
        let low = low_cm(&slice.by_working, view.low_below);
        of_group += low;
        let function = slice.site.and_then(|site| view.shown(site));
        if function.map(|frame| frame.key()).unwrap_or_default() == part.function {
            low_there += low;
            there += all(&slice.by_working);
        }
    }
    low_there / there.max(1.0) * serial_code::counts(cx, group, of_group)
}

/// Whether the threads that write are at work, or kept from it by the calls, for most of their lives.
fn is_busy(view: &RunView, threads: &BTreeSet<ThreadId>, waited: f64) -> bool {
    let rows = || threads.iter().filter_map(|id| view.threads.get(id));
    let active: f64 = rows().map(|th| th.active_ns() as f64).sum();
    let lives: f64 = rows().map(|th| th.life_ns() as f64).sum();
    active + waited >= BUSY * lives
}
