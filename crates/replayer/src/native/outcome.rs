//! What a native replay gives back.

use serde::{Deserialize, Serialize};

/// One native replay of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NativeOutcome {
    /// From the first thread's first operation to the last thread's last.
    pub wall_ns: u64,
    /// The program's threads.
    pub threads: Vec<ThreadOutcome>,
    /// The program's locks.
    pub locks: Vec<LockOutcome>,
    /// Waits for locks, of all threads.
    pub lock_waits: WaitPercentiles,
    /// Work that the program asked for, CPU nanoseconds of all threads.
    pub work_ns: f64,
    /// Segments of work shorter than this cannot be replayed each by itself; what they take too
    /// long the same thread's later segments are shorter.
    pub floor_ns: f64,
    /// Share of the segments that are.
    pub below_floor_share: f64,
    /// Time of short segments that no later one could make up for, of all threads.
    pub excess_ns: f64,
    /// What had to be changed to replay it.
    pub simplified: Simplified,
    /// Share of all processors' time meanwhile that other programs had, 0..1: above some hundredths
    /// the replay was disturbed. In steps of 10 ms.
    pub others_share: f64,
}

/// One thread of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadOutcome {
    /// From its first operation to its last.
    pub lifetime_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time in waits for locks.
    pub lock_wait_ns: u64,
    /// Time in waits for anything else but sleeps: conditions, barriers, semaphores, joins.
    pub other_wait_ns: u64,
    /// Context switches because it waited or slept.
    pub voluntary: u64,
    /// Context switches because another thread got its processor.
    pub involuntary: u64,
}

/// One lock of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LockOutcome {
    /// Acquisitions, those after waits on condition variables excepted.
    pub acquisitions: u64,
    /// Acquisitions that found it taken.
    pub contended: u64,
    /// What those waited, of all threads.
    pub wait_ns: u64,
    /// A function of the threads of its exclusive sections in order, where that order was enforced;
    /// else 0.
    pub fingerprint: u64,
}

/// Distribution of waits, nanoseconds; zeros without any. Within 6 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct WaitPercentiles {
    pub count: u64,
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p95_ns: f64,
    pub p99_ns: f64,
    pub max_ns: f64,
}

/// Operations that could not be replayed as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simplified {
    /// Acquisitions of a lock that the thread held already: part of the outer section.
    pub recursive: u64,
    /// Releases of locks that the thread did not hold: left out.
    pub unmatched_releases: u64,
    /// Locks held when the thread ended: released there.
    pub unreleased: u64,
    /// Posts that nobody was signalled of: whoever waits is.
    pub silent_posts: u64,
}

impl NativeOutcome {
    /// Voluntary and involuntary context switches of all threads.
    pub fn switches(&self) -> (u64, u64) {
        self.threads.iter().fold((0, 0), |(v, i), thread| {
            (v + thread.voluntary, i + thread.involuntary)
        })
    }

    /// Share of acquisitions that found their lock taken; 0 without acquisitions.
    pub fn contended_share(&self) -> f64 {
        let all: u64 = self.locks.iter().map(|lock| lock.acquisitions).sum();
        let contended: u64 = self.locks.iter().map(|lock| lock.contended).sum();
        contended as f64 / all.max(1) as f64
    }

    /// Share of the threads' time that they waited for locks; 0 without threads.
    pub fn waited_share(&self) -> f64 {
        let waits: u64 = self.threads.iter().map(|thread| thread.lock_wait_ns).sum();
        let lives: u64 = self.threads.iter().map(|thread| thread.lifetime_ns).sum();
        waits as f64 / lives.max(1) as f64
    }
}

/// Why there is no replay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NativeError {
    /// The program contradicts itself.
    #[error("the program cannot be replayed: {0}")]
    Invalid(String),
    /// The timeout passed; what threads waited for.
    #[error("it comes to a standstill: after {after_ms} ms {waits}")]
    Hang {
        /// The timeout, milliseconds.
        after_ms: u64,
        /// What the threads were doing.
        waits: String,
    },
    /// The machine refused a thread.
    #[error("the replay could not start its threads: {0}")]
    Threads(String),
    /// The process of the replay failed.
    #[error("the replay's process failed: {0}")]
    Child(String),
}
