//! The threads of a process at one moment, for readings once a second.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::clock;
use crate::procfs::{self, IoFigures, SchedStat};

/// A thread at one moment; sums are since its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadReading {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
    /// State as in /proc/PID/stat.
    pub state: char,
    /// CPU time, nanoseconds; `None` where the kernel does not say exactly.
    pub cpu_ns: Option<u64>,
    /// Runnable without a CPU, nanoseconds.
    pub run_queue_ns: Option<u64>,
    /// Times that it was given a CPU.
    pub switches: Option<u64>,
    /// Bytes that its system calls moved; `None` = not known, or not asked for.
    pub io: Option<IoFigures>,
}

/// Reads the threads of a process again and again.
#[derive(Debug)]
pub struct ThreadReader {
    pid: u32,
    start_ticks: Option<u64>,
    figures: HashMap<(u32, u64), SchedStat>,
    most_files: usize,
    with_io: bool,
}

/// Files that a reader keeps open: half of what the process may have. Those of further threads are
/// opened at each reading.
fn most_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX) / 2;
    usize::try_from(soft).unwrap_or(usize::MAX)
}

impl ThreadReader {
    /// A reader of this process's threads.
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            start_ticks: procfs::running_since(pid),
            figures: HashMap::new(),
            most_files: most_files(),
            with_io: false,
        }
    }

    /// The same without files that stay open: for readers of many processes.
    pub fn without_files(pid: u32) -> Self {
        Self {
            most_files: 0,
            ..Self::new(pid)
        }
    }

    /// Also reads what threads' system calls move, from now on.
    pub fn read_io(&mut self) {
        self.with_io = true;
    }

    /// Whether the process still runs; another one may have got its number.
    pub fn is_running(&self) -> bool {
        self.start_ticks
            .is_some_and(|start| !procfs::has_ended(self.pid, start))
    }

    /// CPU time of the process since its start, nanoseconds: that of threads that have ended, too.
    pub fn process_cpu_ns(&self) -> Option<u64> {
        clock::process_cpu_ns(self.pid)
    }

    /// All threads that are there; none if the process has ended.
    pub fn read(&mut self) -> Vec<ThreadReading> {
        if !self.is_running() {
            return Vec::new();
        }
        let tids = procfs::threads(self.pid);
        let all: Vec<ThreadReading> = tids
            .into_iter()
            .filter_map(|tid| self.read_one(tid))
            .collect();
        let alive: HashSet<(u32, u64)> = all.iter().map(|t| (t.tid, t.start_ticks)).collect();
        self.figures.retain(|key, _| alive.contains(key));
        all
    }

    fn read_one(&mut self, tid: u32) -> Option<ThreadReading> {
        let path = format!("/proc/{}/task/{tid}/stat", self.pid);
        let stat = procfs::stat(&fs::read_to_string(path).ok()?)?;
        let key = (tid, stat.start_ticks);
        let figures = match self.figures.get(&key) {
            Some(file) => file.read(),
            None => {
                let file = SchedStat::open(self.pid, tid);
                let figures = file.as_ref().and_then(SchedStat::read);
                if self.figures.len() < self.most_files {
                    self.figures.extend(file.map(|file| (key, file)));
                }
                figures
            }
        };
        Some(ThreadReading {
            tid,
            name: stat.name,
            start_ticks: stat.start_ticks,
            state: stat.state,
            cpu_ns: figures.map(|of| of.cpu_ns),
            run_queue_ns: figures.map(|of| of.run_queue_ns),
            switches: figures.and_then(|of| of.switches),
            io: self.with_io.then(|| procfs::io(self.pid, tid)).flatten(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_this_process_are_read() {
        let mut reader = ThreadReader::new(std::process::id());
        assert!(reader.is_running());
        let threads = reader.read();
        let own = threads.iter().find(|t| t.tid == std::process::id());
        assert!(own.is_some_and(|t| t.cpu_ns.is_some()));
        let sum = threads.iter().filter_map(|t| t.cpu_ns).sum::<u64>();
        assert!(reader.process_cpu_ns().is_some_and(|all| all >= sum));
        let mut reader = ThreadReader::without_files(std::process::id());
        let threads = reader.read();
        let own = threads.iter().find(|t| t.tid == std::process::id());
        assert!(
            own.is_some_and(|t| t.cpu_ns.is_some()),
            "without an open file"
        );
        assert!(reader.figures.is_empty());
        assert!(own.is_some_and(|t| t.switches > Some(0) && t.io.is_none()));
        reader.read_io();
        // Other threads of the test may end meanwhile.
        let tid = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned();
        let read = |reader: &mut ThreadReader| {
            let all = reader.read();
            let own = all.iter().find(|t| t.tid == tid);
            own.and_then(|t| t.io).unwrap().read_bytes
        };
        let before = read(&mut reader);
        let text = fs::read("/proc/self/maps").unwrap();
        assert!(read(&mut reader) >= before + text.len() as u64);
        assert!(!ThreadReader::new(u32::MAX).is_running());
        assert!(ThreadReader::new(u32::MAX).process_cpu_ns().is_none());
        assert!(ThreadReader::new(u32::MAX).read().is_empty());
    }
}
