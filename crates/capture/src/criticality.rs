//! CMetric of threads, sampled: how much of the time in which a process has active threads is each
//! one's (GAPP; Nair and Field, 2020). While n threads are active, each gets 1/n of the time.
//!
//! Scheduler events would give it exactly, and take root. Here the kernel is asked for the state of
//! all threads about a hundred times a second; a thread is active if it is on a CPU or waits for
//! one.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::procfs;

/// From one look to the next on average.
const INTERVAL: Duration = Duration::from_millis(10);

/// A look may take this part of the time: with many threads there are fewer of them.
const SHARE: u32 = 50;

/// Files that stay open: those of further threads are opened for each look.
const MOST_FILES: usize = 256;

/// Looks at the threads of a process until it is dropped.
#[derive(Debug)]
pub struct CriticalitySampler {
    shared: Arc<Shared>,
    looks: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    /// Nanoseconds by thread.
    sums: Mutex<HashMap<u32, f64>>,
}

impl CriticalitySampler {
    /// Begins to look.
    pub fn begin(pid: u32) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        Self {
            shared,
            looks: Some(std::thread::spawn(move || look(pid, &of_thread))),
        }
    }

    /// CMetric of a thread since the beginning, nanoseconds.
    pub fn ns(&self, tid: u32) -> u64 {
        let sums = self.shared.sums.lock();
        let sums = sums.unwrap_or_else(PoisonError::into_inner);
        sums.get(&tid).map_or(0, |ns| *ns as u64)
    }
}

impl Drop for CriticalitySampler {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(looks) = self.looks.take() {
            looks.thread().unpark();
            let _ = looks.join();
        }
    }
}

fn look(pid: u32, shared: &Shared) {
    let mut files: HashMap<u32, File> = HashMap::new();
    let mut random = Random(u64::from(pid) | 1 << 32);
    let mut before = Instant::now();
    while !shared.is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let tids = procfs::threads(pid);
        if tids.is_empty() {
            return;
        }
        files.retain(|tid, _| tids.contains(tid));
        let is_active = |tid: &u32| state(pid, *tid, &mut files) == Some('R');
        let active: Vec<u32> = tids.into_iter().filter(is_active).collect();
        let now = Instant::now();
        let each = (now - before).as_nanos() as f64 / active.len().max(1) as f64;
        before = now;
        let mut sums = shared.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for tid in active {
            *sums.entry(tid).or_default() += each;
        }
        drop(sums);
        let pause = INTERVAL.max(began.elapsed() * SHARE);
        // A program that does something at a fixed rate is not to be met at the same point of it.
        std::thread::park_timeout(pause.mul_f64(random.between(0.5, 1.5)));
    }
}

/// The state of a thread; `None` = it has ended.
fn state(pid: u32, tid: u32, files: &mut HashMap<u32, File>) -> Option<char> {
    let read = |file: &File| {
        let mut text = [0; 64];
        let length = file.read_at(&mut text, 0).ok()?;
        // Behind the name, which may have parentheses and is 15 bytes at most.
        let end = text.get(..length)?.iter().rposition(|byte| *byte == b')')?;
        text.get(end + 2).map(|state| char::from(*state))
    };
    if let Some(file) = files.get(&tid) {
        return read(file);
    }
    let file = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let state = read(&file);
    if files.len() < MOST_FILES {
        files.insert(tid, file);
    }
    state
}

/// xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + (high - low) * (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_active_thread_gets_the_time_that_a_sleeping_one_does_not() {
        let tid = || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            tid.cast_unsigned()
        };
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(tid()).unwrap();
            let _ = ended.recv();
        });
        let sleeping = told.recv().unwrap();
        // It has told its number, and may not sleep yet.
        while state(std::process::id(), sleeping, &mut HashMap::new()) != Some('S') {
            std::thread::yield_now();
        }
        let sampler = CriticalitySampler::begin(std::process::id());
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            std::hint::black_box(0);
        }
        let passed = began.elapsed().as_nanos() as u64;
        assert!(sampler.ns(tid()) > passed / 50, "{}", sampler.ns(tid()));
        assert!(sampler.ns(tid()) <= passed + 100_000_000);
        assert_eq!(sampler.ns(sleeping), 0);
        drop(sampler);
        drop(end);
        sleeper.join().unwrap();
    }

    #[test]
    fn the_sampler_of_a_process_that_is_gone_ends() {
        let mut sampler = CriticalitySampler::begin(u32::MAX);
        sampler.looks.take().unwrap().join().unwrap();
        assert_eq!(sampler.ns(1), 0);
    }

    #[test]
    fn pauses_vary_around_the_interval() {
        let mut random = Random(7);
        let all: Vec<f64> = (0..1000).map(|_| random.between(0.5, 1.5)).collect();
        assert!(all.iter().all(|x| (0.5..1.5).contains(x)));
        let mean = all.iter().sum::<f64>() / 1000.0;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
    }
}
