//! Looks at the recorded processes from outside now and then: for figures of threads that are killed without
//! warning, and for what only files in /proc tell. The agent opens none, because the descriptor would
//! take a number that a thread of the program counts on.

use std::borrow::Cow;
use std::collections::hash_map::{Entry, HashMap};
use std::path::Path;
use std::time::Duration;

use convoy_inject::Numbers;
use convoy_profile::Process;

use crate::clock::Clock;
use crate::procfs::{self, SchedStat, ThreadFigures};
use crate::session;

/// Polling may take one in so many parts of one processor: with 5,000 threads it becomes rarer, not dearer. (A look at three
/// threads takes 100 us.)
const PART_OF_CPU: u32 = 200;

/// The same where the scheduler's events tell how long each thread ran and waited to run: then the rest is enough.
const PART_BESIDE_EVENTS: u32 = 2000;

/// Between two looks at the scheduler's figures.
const INTERVAL: Duration = Duration::from_millis(20);

/// So many files of threads are kept open, which makes a look at them cheaper.
const OPEN_FILES: usize = 256;

/// Between two looks at all figures, which cost several times as much.
const THOROUGH_INTERVAL: Duration = Duration::from_secs(1);

/// What was seen of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Threads by tid; ended ones stay with their last figures.
    pub threads: HashMap<u32, ThreadFigures>,
    /// It was running at this time.
    pub alive_ns: u64,
    /// It was found gone at this time.
    pub gone_ns: Option<u64>,
    /// Threads that ran before the recording, with their figures at its beginning: those of
    /// `threads` count from there.
    before: HashMap<u32, ThreadFigures>,
    /// Translates the numbers of threads; `None` = the process knows them by the same.
    numbers: Option<Numbers>,
}

/// Above all numbers of threads (PID_MAX_LIMIT): a thread of a container that ended before its
/// number here was looked up has its own one, plus this, and is taken for no other thread.
const UNKNOWN_HERE: u32 = 1 << 22;

/// All processes of a session, by pid.
#[derive(Debug)]
pub(crate) struct Poller {
    pub seen: HashMap<u32, Seen>,
    /// It takes one in so many parts of a processor.
    part_of_cpu: u32,
    /// When the next look at all figures is due.
    thorough_ns: u64,
    /// By pid and tid.
    open: HashMap<(u32, u32), SchedStat>,
}

impl Poller {
    /// Of a recording with scheduler events, or without.
    pub fn new(with_events: bool) -> Self {
        Self {
            seen: HashMap::new(),
            part_of_cpu: match with_events {
                true => PART_BESIDE_EVENTS,
                false => PART_OF_CPU,
            },
            thorough_ns: 0,
            open: HashMap::new(),
        }
    }

    /// Of processes that run already: only what their threads do from now on counts.
    pub fn begin_now(&mut self, pids: &[u32]) {
        for &pid in pids {
            let figures = |tid| Some((tid, procfs::thread(pid, tid)?));
            let threads = procfs::threads(pid).into_iter().filter_map(figures);
            let before = threads.collect();
            let seen = Seen {
                before,
                ..Seen::of(pid)
            };
            self.seen.insert(pid, seen);
        }
    }

    /// Looks at everything once; how long to wait until the next look.
    pub fn poll(&mut self, dir: &Path, clock: &Clock) -> Duration {
        let began_ns = clock.now_ns();
        let cpu_before = cpu_time();
        let thorough = began_ns >= self.thorough_ns;
        for arena in session::arenas(dir) {
            let seen = self.seen.entry(arena.pid).or_default();
            let now_ns = clock.now_ns();
            if !procfs::is_running(arena.pid) {
                seen.gone_ns.get_or_insert(now_ns);
            } else if seen.gone_ns.is_none() {
                seen.alive_ns = now_ns;
            }
            // A zombie still has the figures of its main thread.
            let threads = procfs::threads(arena.pid);
            seen.look_up(&threads);
            for tid in threads {
                seen.look(arena.pid, tid, thorough, &mut self.open);
            }
        }
        // Not by the clock: on a machine without a free processor most of that is waiting for one.
        let cost = cpu_time().saturating_sub(cpu_before);
        if thorough {
            let pause = THOROUGH_INTERVAL.max(cost * self.part_of_cpu);
            self.thorough_ns = began_ns.saturating_add(pause.as_nanos() as u64);
            self.open.clear(); // those of ended threads, too
        }
        INTERVAL.max(cost * self.part_of_cpu)
    }

    /// The last look: all figures.
    pub fn finish(&mut self, dir: &Path, clock: &Clock) {
        self.thorough_ns = 0;
        self.poll(dir, clock);
    }
}

impl Seen {
    /// Begins to look at a process, given by its number here.
    pub fn of(pid: u32) -> Self {
        Self {
            numbers: Some(Numbers::of(pid)).filter(Numbers::differ),
            ..Self::default()
        }
    }

    /// Looks up the numbers of its threads, of which these are alive.
    pub fn look_up(&mut self, threads: &[u32]) {
        if let Some(numbers) = &mut self.numbers {
            numbers.look(&threads.iter().copied().collect());
        }
    }

    /// The figures of its threads by the numbers that it knows them by, as its agent does.
    pub fn threads_by_own_number(&self) -> Cow<'_, HashMap<u32, ThreadFigures>> {
        match &self.numbers {
            None => Cow::Borrowed(&self.threads),
            Some(numbers) => Cow::Owned(
                numbers
                    .known()
                    .filter_map(|(own, here)| Some((own, self.threads.get(&here)?.clone())))
                    .collect(),
            ),
        }
    }

    /// Gives a process that was read from its tables the numbers that it has here.
    pub fn renumber(&self, pid: u32, process: &mut Process) {
        let Some(numbers) = &self.numbers else {
            return;
        };
        process.pid = pid;
        process.ppid = procfs::parent(pid).unwrap_or(0);
        for thread in &mut process.threads {
            for tid in [&mut thread.tid, &mut thread.parent_tid] {
                *tid = match (*tid, numbers.here(*tid)) {
                    (0, _) => 0,
                    (own, 0) => own.saturating_add(UNKNOWN_HERE),
                    (_, here) => here,
                };
            }
        }
    }

    /// Takes the figures of one thread: all of them, or what the scheduler counts.
    pub fn look(
        &mut self,
        pid: u32,
        tid: u32,
        thorough: bool,
        open: &mut HashMap<(u32, u32), SchedStat>,
    ) {
        let before = self.before.get(&tid);
        let Some(figures) = self.threads.get_mut(&tid).filter(|_| !thorough) else {
            if let Some(figures) = procfs::thread(pid, tid) {
                let figures = before.map_or(figures.clone(), |before| figures.since(before));
                self.threads.insert(tid, figures);
            }
            return;
        };
        let kept = open.len();
        let read = match open.entry((pid, tid)) {
            Entry::Occupied(file) => file.get().read(),
            Entry::Vacant(place) => SchedStat::open(pid, tid).and_then(|file| {
                let read = file.read();
                if kept < OPEN_FILES {
                    place.insert(file);
                }
                read
            }),
        };
        if let Some(now) = read {
            let (cpu_before, delay_before) = before.map_or((0, 0), |before| {
                (before.cpu_ns, before.run_delay_ns.unwrap_or(0))
            });
            figures.cpu_ns = now.cpu_ns.saturating_sub(cpu_before);
            figures.run_delay_ns = Some(now.run_queue_ns.saturating_sub(delay_before));
        }
    }
}

/// Of this thread.
pub(crate) fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use convoy_profile::Thread;

    use super::*;

    #[test]
    fn a_process_without_a_namespace_keeps_its_numbers() {
        let pid = std::process::id();
        let mut seen = Seen::of(pid);
        seen.look_up(&[pid]);
        seen.threads.insert(pid, ThreadFigures::default());
        let thread = Thread {
            tid: pid,
            ..Thread::default()
        };
        let mut process = Process {
            pid: 1,
            threads: vec![thread],
            ..Process::default()
        };
        seen.renumber(pid, &mut process);
        assert_eq!((process.pid, process.threads[0].tid), (1, pid));
        assert_eq!(seen.threads_by_own_number().len(), 1);
    }

    #[test]
    fn figures_count_from_the_beginning_of_the_recording() {
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut work = 0u64;
        while cpu_time() < Duration::from_millis(60) {
            work = std::hint::black_box(work + 1);
        }
        let mut poller = Poller::new(false);
        poller.begin_now(&[pid]);
        let seen = poller.seen.get_mut(&pid).unwrap();
        let before_ns = seen.before[&tid].cpu_ns;
        for thorough in [true, false] {
            seen.look(pid, tid, thorough, &mut HashMap::new());
            let now_ns = procfs::thread(pid, tid).unwrap().cpu_ns;
            let counted = seen.threads[&tid].cpu_ns;
            assert!(counted <= now_ns - before_ns, "{counted}");
        }
    }
}
