//! Looks at the recorded processes from outside now and then, so that a program that is killed without
//! warning still has figures for its threads.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::clock::Clock;
use crate::procfs::{self, ThreadFigures};
use crate::session;

/// Polling may take this share of one processor: with 5,000 threads it becomes rarer, not dearer.
const SHARE_OF_CPU: u32 = 100;

/// What was seen of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Threads by tid; ended ones stay with their last figures.
    pub threads: HashMap<u32, ThreadFigures>,
    /// It was running at this time.
    pub alive_ns: u64,
    /// It was found gone at this time.
    pub gone_ns: Option<u64>,
}

/// All processes of a session, by pid.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    pub seen: HashMap<u32, Seen>,
}

impl Poller {
    /// Looks at everything once; how long to wait until the next look.
    pub fn poll(&mut self, dir: &Path, clock: &Clock) -> Duration {
        let began_ns = clock.now_ns();
        for arena in session::arenas(dir) {
            let seen = self.seen.entry(arena.pid).or_default();
            let now_ns = clock.now_ns();
            if !procfs::is_running(arena.pid) {
                seen.gone_ns.get_or_insert(now_ns);
            } else if seen.gone_ns.is_none() {
                seen.alive_ns = now_ns;
            }
            // A zombie still has the figures of its main thread.
            for tid in procfs::threads(arena.pid) {
                if let Some(figures) = procfs::thread(arena.pid, tid) {
                    seen.threads.insert(tid, figures);
                }
            }
        }
        let cost = Duration::from_nanos(clock.now_ns().saturating_sub(began_ns));
        Duration::from_secs(1).max(cost * SHARE_OF_CPU)
    }
}
