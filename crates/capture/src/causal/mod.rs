//! The means of causal experiments: windows in which the agent lengthens code, and what the program
//! gets done in them. Which windows, and what follows from them, is `crates/causal`.

mod file;
mod sampler;
mod signal;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use convoy_abi as abi;

use crate::clock::process_cpu_ns;
use crate::error::Trouble;
use crate::machine::cpus_of_threads;
use crate::others::Busy;
use crate::procfs;
use file::ExperimentFile;
use sampler::Sampler;

/// Addresses of a target, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First address.
    pub lo: u64,
    /// Behind the last one.
    pub hi: u64,
    /// Number of the target, below [`TARGETS_MOST`].
    pub target: u32,
    /// Its function's place in a call path, 1 = outermost; 0 = the target is no call path.
    pub step: u32,
}

/// Targets of code: they have five bits for their number.
pub const TARGETS_MOST: usize = abi::CV_CAUSAL_TARGETS;
/// Ranges of all targets.
pub const RANGES_MOST: usize = abi::CV_CAUSAL_RANGES;
/// Locks that one target may have.
pub const LOCKS_MOST: usize = abi::CV_CAUSAL_LOCKS;

/// A window's effect on the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing: samples may be taken.
    Nothing,
    /// Lengthens everything but the subject.
    LengthenOthers,
    /// Lengthens the subject.
    LengthenSubject,
    /// Lets threads wait for the subject's mutexes in another way.
    Wait(Waiting),
}

/// Ways to wait for a mutex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Spins about as long as spinning has helped before, as `PTHREAD_MUTEX_ADAPTIVE_NP` does.
    Adaptive,
    /// Spins for so long before it sleeps, nanoseconds.
    Spin(u32),
    /// In the order in which threads came; each spins for so long before it sleeps, nanoseconds.
    Fifo(u32),
    /// Readers hold it together: sections that the subject's code enters, or all if it has none. Each
    /// spins for so long before it sleeps, nanoseconds.
    Shared(u32),
    /// Not at all: sections run together.
    Unlocked,
}

/// The code and objects that a window experiments with; by default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Code of these targets, one bit each.
    pub code: u32,
    /// Which of these are call paths: the target, and how many functions its path has.
    pub paths: Vec<(u32, u8)>,
    /// Threads of these targets, one bit each.
    pub groups: u32,
    /// Critical sections of the locks at these addresses.
    pub locks: Vec<u64>,
    /// Relative sleeps.
    pub sleeps: bool,
}

impl Subject {
    /// Both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.code |= other.code;
        self.paths.extend(&other.paths);
        self.groups |= other.groups;
        self.locks.extend(&other.locks);
        self.sleeps |= other.sleeps;
        self
    }

    fn write(&self, control: &mut abi::CausalControl) {
        let parts = [
            (self.code != 0, abi::CV_CAUSAL_CODE),
            (self.groups != 0, abi::CV_CAUSAL_GROUP),
            (!self.locks.is_empty(), abi::CV_CAUSAL_LOCK),
            (self.sleeps, abi::CV_CAUSAL_SLEEP),
        ];
        let parts = parts.iter().filter(|(is_part, _)| *is_part);
        control.subject = parts.fold(0, |all, (_, part)| all | part);
        control.targets = self.code;
        control.groups = self.groups;
        control.locks = self.locks.len().min(abi::CV_CAUSAL_LOCKS) as u32;
        for (place, lock) in control.lock.iter_mut().zip(&self.locks) {
            *place = *lock;
        }
        for (target, steps) in &self.paths {
            if let Some(place) = control.steps.get_mut(*target as usize) {
                *place = *steps;
            }
        }
    }
}

/// How code is measured that is lengthened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// By samples.
    Sampled,
    /// By the clock, from one lock operation to the next.
    Measured,
}

/// An order to the agent, which holds until the next one, or until its time is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Time until the next order.
    pub length: Duration,
    /// Its effect on the program.
    pub treatment: Treatment,
    /// The subject of the experiment.
    pub subject: Subject,
    /// How code is measured.
    pub mechanism: Mechanism,
    /// Additional time as a share of the time of what is lengthened.
    pub factor: f64,
    /// CPU time between two samples of a thread, nanoseconds; 0 = no samples.
    pub period_ns: u32,
    /// Samples are kept.
    pub record: bool,
}

/// What the program has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks released.
    pub releases: u64,
    /// Conditions signalled, semaphores posted.
    pub wakes: u64,
    /// Arrivals at barriers.
    pub arrivals: u64,
    /// Samples in windows.
    pub samples: u64,
    /// Of these, in the subject.
    pub hits: u64,
    /// Waits for a mutex by another algorithm.
    pub tried: u64,
    /// By which code was lengthened, nanoseconds.
    pub added_ns: u64,
    /// CPU time of the process, nanoseconds.
    pub cpu_ns: u64,
    /// CPU time in hooked calls of windows where hooks measure, nanoseconds.
    pub calls_ns: u64,
    /// Relative sleeps.
    pub sleeps: u64,
    /// System calls that a sample has broken off.
    pub broken: u64,
    /// Progress points of coz.h: name and visits.
    pub points: Vec<(String, u64)>,
    /// Latency points of coz.h.
    pub latencies: Vec<Latency>,
}

/// A latency point of coz.h: visits of its two ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency {
    /// Its name.
    pub name: String,
    /// Visits of `COZ_BEGIN`.
    pub begun: u64,
    /// Visits of `COZ_END`.
    pub ended: u64,
}

impl Counts {
    /// Takes in a point of coz.h.
    fn add_point(&mut self, point: &abi::CausalPoint) {
        const THROUGHPUT: u32 = 1;
        const BEGIN: u32 = 2;
        let end = point.name.iter().position(|byte| *byte == 0);
        let name = point.name.get(..end.unwrap_or_default());
        let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
        if name.is_empty() {
            return;
        }
        if point.kind == THROUGHPUT {
            self.points.push((name, point.count));
            return;
        }
        let known = self
            .latencies
            .iter()
            .position(|latency| latency.name == name);
        let at = known.unwrap_or(self.latencies.len());
        if known.is_none() {
            self.latencies.push(Latency {
                name,
                ..Latency::default()
            });
        }
        match point.kind {
            BEGIN => self.latencies[at].begun = point.count,
            _ => self.latencies[at].ended = point.count,
        }
    }
}

/// How samples are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sampling {
    /// By perf events.
    Perf,
    /// By CPU-time timers, which the kernel checks at its tick, for this reason.
    Timers(String),
    /// Not at all, for this reason.
    Unavailable(String),
}

/// CPU time of the machine, for the share that others had of it.
#[derive(Debug)]
pub struct Machine {
    busy: Busy,
    at_ns: u64,
    program_ns: u64,
}

/// The experiments with one process.
#[derive(Debug)]
pub struct Laboratory {
    file: ExperimentFile,
    sampler: Sampler,
    sampling: Sampling,
    /// Number of the signal that a sample sends; 0 = none.
    signal: u32,
    signal_cost_ns: u32,
    windows: u32,
    ranges: u32,
    /// End of the window at hand.
    until_ns: u64,
    /// At the latest look, and at both of the latest two.
    blocked_now: usize,
    blocked_threads: usize,
}

/// CPU time between two signals of a timer, nanoseconds: a tick of most kernels.
const TIMER_NS: u32 = 4_000_000;

/// The agent ends a window by itself so long after its time: convoy may be gone.
const GRACE: Duration = Duration::from_millis(100);

/// CPU time between two samples that ask for the signal, nanoseconds.
const LEAVING_SAMPLE_NS: u64 = 1_000_000;

/// The agent gives its signal back within this, if a thread runs.
const LEAVING: Duration = Duration::from_millis(300);

impl Laboratory {
    /// Processes of a session that can be experimented with.
    pub fn processes(dir: &Path) -> Vec<u32> {
        let mut pids: Vec<u32> = file::all_in(dir).iter().map(|of| of.pid).collect();
        pids.dedup();
        pids.retain(|pid| procfs::is_running(*pid));
        pids
    }

    /// Opens that of a process: its latest image. `None` = its agent is not ready.
    pub fn open(dir: &Path, pid: u32) -> Option<Self> {
        let all = file::all_in(dir);
        let latest = all.iter().rev().find(|of| of.pid == pid)?;
        let file = ExperimentFile::open(&latest.path, pid)?;
        let head = file.head()?;
        let usable = signal::usable(pid, head.signal);
        let signal = usable.as_ref().map_or(0, |signal| *signal);
        let mut laboratory = Self {
            sampler: Sampler::new(signal),
            file,
            sampling: usable.map_or_else(Sampling::Unavailable, |_| Sampling::Perf),
            signal,
            signal_cost_ns: signal::cost_ns(),
            windows: 0,
            ranges: 0,
            until_ns: 0,
            blocked_now: 0,
            blocked_threads: 0,
        };
        laboratory.follow_threads();
        Some(laboratory)
    }

    /// Process.
    pub fn pid(&self) -> u32 {
        self.file.pid
    }

    /// Whether it still runs this program.
    pub fn is_running(&self) -> bool {
        procfs::is_running(self.file.pid)
    }

    /// CPU time of the process so far, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        process_cpu_ns(self.file.pid).unwrap_or_default()
    }

    /// CPUs that the process may use.
    pub fn cpus(&self) -> u32 {
        cpus_of_threads(self.file.pid)
    }

    /// How samples are taken.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Threads that block the signal and so are not sampled.
    pub fn blocked_threads(&self) -> usize {
        self.blocked_threads
    }

    /// Stops all samples if the program wants their signal for itself: it waits for that. True = it
    /// does, since just now.
    pub fn yield_signal(&mut self) -> bool {
        let head = self.file.head().filter(|_| self.signal != 0);
        let is_taken = head.is_some_and(|head| head.flags & abi::CV_CAUSAL_SIGNAL_TAKEN != 0);
        if is_taken {
            self.sampling = Sampling::Unavailable(format!(
                "the program has installed its own handler for signal {}",
                self.signal
            ));
            self.signal = 0;
            self.close_window();
            self.sampler = Sampler::new(0);
        }
        is_taken
    }

    /// Takes up threads that are new since the last time.
    pub fn follow_threads(&mut self) {
        self.yield_signal();
        let Some(head) = self.file.head() else {
            return;
        };
        if self.sampling != Sampling::Perf {
            return;
        }
        let all = procfs::threads(self.file.pid);
        let records = self.file.threads(&head);
        // In the handler of a sample the signal is blocked, for that long.
        let handling = records.iter().filter(|t| t.handling != 0);
        let handling: HashSet<u32> = handling.map(|t| t.tid).collect();
        let may = |tid: &u32| {
            handling.contains(tid) || !signal::is_blocked(self.file.pid, *tid, self.signal)
        };
        let tids: Vec<u32> = all.iter().copied().filter(may).collect();
        // While it makes or ends a thread, the C library blocks all signals for a moment.
        let blocked = all.len() - tids.len();
        self.blocked_threads = blocked.min(self.blocked_now);
        self.blocked_now = blocked;
        if let Err(error) = self.sampler.follow(&tids) {
            let why = format!("perf_event_open: {error}");
            self.sampling = Sampling::Timers(why);
            self.sampler = Sampler::new(self.signal);
        }
    }

    /// Whether a queue in front of a mutex stood still, and was given up.
    pub fn has_broken_queue(&self) -> bool {
        let head = self.file.head();
        head.is_some_and(|head| head.flags & abi::CV_CAUSAL_FIFO_BROKEN != 0)
    }

    /// Whether threads wait on a condition with a mutex that was to be shared or left out.
    pub fn has_condition(&self) -> bool {
        let head = self.file.head();
        head.is_some_and(|head| head.flags & abi::CV_CAUSAL_CONDITION != 0)
    }

    /// Threads that are sampled.
    pub fn sampled_threads(&self) -> usize {
        self.sampler.threads()
    }

    /// Tells the agent of which targets its threads are. `targets`: of a thread with this name, one bit
    /// each.
    pub fn set_groups(&self, targets: impl Fn(&str) -> u32) {
        let Some(head) = self.file.head() else {
            return;
        };
        for (number, thread) in self.file.threads(&head).iter().enumerate() {
            let groups = procfs::thread_name(self.file.pid, thread.tid).map_or(0, |n| targets(&n));
            if u64::from(groups) != thread.groups {
                // A thread whose record cannot be written is none of the subject.
                let _ = self.file.write_groups(number, groups.into());
            }
        }
    }

    /// Puts down the addresses of targets: sorted, the first of those that overlap wins, as many as
    /// there is room for.
    pub fn set_ranges(&mut self, ranges: &[Range]) -> Result<(), Trouble> {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        let mut rows: Vec<abi::CausalRange> = Vec::new();
        for range in sorted {
            let lo = range.lo.max(rows.last().map_or(0, |row| row.hi));
            if lo < range.hi && rows.len() < abi::CV_CAUSAL_RANGES {
                rows.push(abi::CausalRange {
                    lo,
                    hi: range.hi,
                    target: range.target,
                    step: range.step,
                });
            }
        }
        self.close_window();
        self.ranges = rows.len() as u32;
        self.file.write_ranges(&rows).map_err(|e| unwritten(&e))
    }

    /// Begins a window.
    pub fn open_window(&mut self, window: &Window) -> Result<(), Trouble> {
        self.windows = self.windows.wrapping_add(1).max(1);
        let most_ns = (window.length + GRACE).as_nanos() as u64;
        self.until_ns = crate::clock::monotonic_ns().saturating_add(most_ns);
        let mut control = abi::CausalControl {
            until_ns: self.until_ns,
            signal_cost_ns: self.signal_cost_ns,
            window: self.windows,
            estimator: match window.treatment {
                Treatment::Nothing => abi::CV_CAUSAL_NONE,
                Treatment::LengthenOthers => abi::CV_CAUSAL_DILATE,
                Treatment::LengthenSubject => abi::CV_CAUSAL_SLOW,
                Treatment::Wait(_) => abi::CV_CAUSAL_TRY,
            },
            mechanism: match window.mechanism {
                Mechanism::Sampled => abi::CV_CAUSAL_SAMPLED,
                Mechanism::Measured => abi::CV_CAUSAL_MEASURED,
            },
            factor: (window.factor * 65_536.0).round() as u32,
            record: window.record.into(),
            period_ns: window.period_ns,
            ranges: self.ranges,
            ..abi::CausalControl::default()
        };
        if let Treatment::Wait(how) = window.treatment {
            (control.algorithm, control.spin_ns) = match how {
                Waiting::Adaptive => (abi::CV_CAUSAL_ADAPTIVE, 0),
                Waiting::Spin(ns) => (abi::CV_CAUSAL_SPIN, ns),
                Waiting::Fifo(ns) => (abi::CV_CAUSAL_FIFO, ns),
                Waiting::Shared(ns) => (abi::CV_CAUSAL_SHARED, ns),
                Waiting::Unlocked => (abi::CV_CAUSAL_UNLOCKED, 0),
            };
        }
        window.subject.write(&mut control);
        match self.sampling {
            Sampling::Perf => self.sampler.set_period(window.period_ns.into()),
            Sampling::Timers(_) if window.period_ns > 0 => {
                control.timers = TIMER_NS;
                control.period_ns = control.period_ns.max(TIMER_NS);
            }
            Sampling::Timers(_) | Sampling::Unavailable(_) => {}
        }
        self.file.write_control(&control).map_err(|e| unwritten(&e))
    }

    /// Lets the program run as it is.
    pub fn close_window(&mut self) {
        self.sampler.set_period(0);
        // If it cannot be written now, it could not be opened before.
        let _ = self.file.write_control(&abi::CausalControl::default());
    }

    /// Whether the agent has not ended the window by itself: convoy may have got no CPU for long.
    pub fn is_in_time(&self) -> bool {
        crate::clock::monotonic_ns() < self.until_ns
    }

    /// Leaves a program that goes on: the agent gives its signal back, as far as threads run that
    /// can be told to by a sample. One that is not ignored by default stays: a late sample would
    /// end the program.
    pub fn leave(mut self) {
        self.close_window();
        self.follow_threads();
        let is_ignored = self.signal == libc::SIGURG as u32;
        if !is_ignored || !matches!(self.sampling, Sampling::Perf | Sampling::Timers(_)) {
            return;
        }
        let order = abi::CausalControl {
            leave: 1,
            ..abi::CausalControl::default()
        };
        if self.file.write_control(&order).is_err() {
            return;
        }
        self.sampler.set_period(LEAVING_SAMPLE_NS);
        let began = Instant::now();
        while signal::is_caught(self.file.pid, self.signal) && began.elapsed() < LEAVING {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What the program has done so far; `None` if its file is damaged.
    pub fn counts(&self) -> Option<Counts> {
        let head = self.file.head()?;
        let mut all = Counts {
            cpu_ns: self.cpu_ns(),
            ..Counts::default()
        };
        for t in self.file.threads(&head) {
            all.releases = all.releases.wrapping_add(t.releases);
            all.wakes = all.wakes.wrapping_add(t.wakes);
            all.arrivals = all.arrivals.wrapping_add(t.arrivals);
            all.samples = all.samples.wrapping_add(t.samples);
            all.hits = all.hits.wrapping_add(t.hits);
            all.tried = all.tried.wrapping_add(t.tried);
            all.added_ns = all.added_ns.wrapping_add(t.added_ns);
            all.calls_ns = all.calls_ns.wrapping_add(t.calls_ns);
            all.sleeps = all.sleeps.wrapping_add(t.sleeps);
            all.broken = all.broken.wrapping_add(t.broken);
        }
        self.file
            .points(&head)
            .iter()
            .for_each(|point| all.add_point(point));
        Some(all)
    }

    /// Number of the next recorded sample.
    pub fn next_sample(&self) -> u64 {
        self.file.head().map_or(0, |head| head.samples)
    }

    /// Instruction pointers of recorded samples, from this number on.
    pub fn samples(&self, since: u64) -> Vec<u64> {
        let head = self.file.head();
        head.map_or_else(Vec::new, |head| self.file.samples(&head, since))
    }

    /// CPU time up to now.
    pub fn machine(&self) -> Machine {
        Machine {
            busy: Busy::now(),
            at_ns: crate::clock::monotonic_ns(),
            program_ns: process_cpu_ns(self.file.pid).unwrap_or_default(),
        }
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        self.close_window();
    }
}

impl Machine {
    /// Share of the CPUs that other programs had since `start`, 0 to 1.
    pub fn foreign_share(&self, start: &Self) -> f64 {
        let program = self.program_ns.saturating_sub(start.program_ns);
        let wall = self.at_ns.saturating_sub(start.at_ns) as f64;
        self.busy.others_share(&start.busy, program, wall)
    }
}

fn unwritten(error: &std::io::Error) -> Trouble {
    Trouble::new(
        format!("the experiment file cannot be written: {error}"),
        "no experiment is made; the program goes on as it is",
        "give the session directory room: --session-dir",
    )
}
