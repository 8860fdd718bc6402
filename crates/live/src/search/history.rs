//! What threads and locks did in each of the last intervals: what can be tested without a probe.

use crate::focus::{Focus, Key};
use crate::lock::{Lock, Role};
use crate::session::Session;
use crate::thread::Thread;

/// A kind of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// On a CPU.
    Cpu,
    /// Runnable without one.
    RunQueue,
    /// Waiting for locks.
    LockWait,
    /// Waiting for other objects: conditions, barriers, joins, semaphores.
    EventWait,
    /// From start to end: one second per second and thread.
    Life,
}

#[derive(Debug, Clone)]
struct OfThread {
    thread: Thread,
    cpu: f64,
    run_queue: f64,
}

#[derive(Debug, Clone)]
struct Wait {
    object: Lock,
    thread: Option<Thread>,
    wait: f64,
}

#[derive(Debug, Clone)]
struct Interval {
    threads: Vec<OfThread>,
    /// Of the process, threads that have ended included.
    cpu: f64,
    /// `None` = the agent is not there, or was read for the first time.
    waits: Option<Vec<Wait>>,
}

/// Intervals, the latest last.
#[derive(Debug, Clone, Default)]
pub struct History {
    intervals: Vec<Interval>,
}

impl History {
    /// Takes what a session has just sampled.
    pub fn note(&mut self, session: &Session, has_locks: bool) {
        let seconds = session.interval();
        if seconds <= 0.0 {
            return;
        }
        let per_second = |ns: u64| ns as f64 / 1e9 / seconds;
        let roster = session.threads();
        let threads = roster.pairs().filter_map(|(before, now)| {
            let cpu = now.cpu_ns?.checked_sub(before.cpu_ns?)?;
            let run_queue = now.run_queue_ns.zip(before.run_queue_ns);
            let run_queue = run_queue.map_or(0, |(now, before)| now.saturating_sub(before));
            Some(OfThread {
                thread: now.clone(),
                cpu: per_second(cpu),
                run_queue: per_second(run_queue),
            })
        });
        let threads: Vec<OfThread> = threads.collect();
        let locks = session.locks();
        let uses = locks
            .latest
            .uses
            .iter()
            .filter(|(_, _, sums)| sums.wait_ns > 0);
        let waits = uses.filter_map(|(ix, tid, sums)| {
            Some(Wait {
                object: locks.latest.locks.get(*ix)?.clone(),
                thread: roster.get(*tid).cloned(),
                wait: per_second(sums.wait_ns),
            })
        });
        self.intervals.push(Interval {
            threads,
            cpu: per_second(roster.cpu_ns()),
            waits: (has_locks && locks.is_known).then(|| waits.collect()),
        });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.intervals.clear();
    }

    /// Number of intervals.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// A time of the part of the program that a focus names, per second, by interval; `None` = it
    /// was not measured then.
    pub fn series(&self, time: Time, focus: &Focus) -> Vec<Option<f64>> {
        let values = self.intervals.iter();
        values.map(|interval| interval.value(time, focus)).collect()
    }

    /// The latest interval's time of the whole program.
    pub fn latest(&self, time: Time) -> Option<f64> {
        self.intervals.last()?.value(time, &Focus::new())
    }

    /// The threads that were there, by number.
    pub fn threads(&self) -> Vec<&Thread> {
        let all = self.intervals.iter().flat_map(|interval| &interval.threads);
        let mut threads: Vec<&Thread> = all.map(|of| &of.thread).collect();
        threads.sort_by_key(|thread| thread.tid);
        threads.dedup_by_key(|thread| thread.tid);
        threads
    }

    /// Objects that were waited for.
    pub fn objects(&self, excludes: bool) -> Vec<&Lock> {
        let waits = self.intervals.iter().flat_map(|interval| &interval.waits);
        let objects = waits.flatten().map(|wait| &wait.object);
        let mut objects: Vec<&Lock> = objects
            .filter(|o| (o.role == Role::Lock) == excludes)
            .collect();
        objects.sort_by_key(|object| (object.pid, object.address));
        objects.dedup_by_key(|object| (object.pid, object.address));
        objects
    }
}

impl Interval {
    fn value(&self, time: Time, focus: &Focus) -> Option<f64> {
        let whole = !focus.selects_threads();
        let sum = |of: fn(&OfThread) -> f64| {
            let threads = self.threads.iter();
            let threads = threads.filter(|t| focus.holds(&t.thread.name()));
            threads.map(of).fold(0.0, |sum, x| sum + x)
        };
        match time {
            Time::Cpu if whole => Some(self.cpu),
            Time::Cpu => Some(sum(|t| t.cpu)),
            Time::RunQueue => Some(sum(|t| t.run_queue)),
            Time::Life => Some(sum(|_| 1.0)),
            Time::LockWait | Time::EventWait => {
                let excludes = time == Time::LockWait;
                let waits = self.waits.as_ref()?.iter().filter(|wait| {
                    let is_in = match &wait.thread {
                        Some(thread) => focus.holds(&thread.name()),
                        None => whole,
                    };
                    let lock = focus.get(Key::Lock);
                    is_in
                        && (wait.object.role == Role::Lock) == excludes
                        && lock.is_none_or(|pattern| wait.object.answers_to(pattern))
                });
                Some(waits.fold(0.0, |sum, wait| sum + wait.wait))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::governor::{Governor, Prices};
    use crate::lock::{LockReading, LockSums};
    use crate::probe::Probes;
    use crate::thread::tests::thread;
    use convoy_probes::{Counts, Inserted, Probe, Refusal};

    struct NoProbes;

    impl Probes for NoProbes {
        fn insert(&mut self, _: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
            Ok(Vec::new())
        }
        fn now_ms(&self) -> u64 {
            0
        }
        fn remove(&mut self, _: &[u32]) -> Result<(), Refusal> {
            Ok(())
        }
        fn read(&mut self) -> Result<Counts, Refusal> {
            Err(Refusal::new("no probe is in", ""))
        }
    }

    fn locks(wait_ns: u64) -> LockReading {
        let object = |address: u64, excludes: bool| Lock {
            pid: 1,
            address,
            role: if excludes {
                Role::Lock
            } else {
                Role::Condition
            },
            ..Lock::default()
        };
        let sums = LockSums {
            wait_ns,
            ..LockSums::default()
        };
        LockReading {
            locks: vec![object(0x40, true), object(0x80, false)],
            uses: vec![(0, 2, sums), (1, 1, sums), (1, 2, sums)],
        }
    }

    /// One thread computes half of the time, and waits for a lock and, as another one does, for a
    /// condition a quarter of it.
    pub(crate) fn history(intervals: u64, has_locks: bool) -> History {
        let mut session = Session::new(Governor {
            budget: 0.03,
            prices: Prices::default(),
        });
        let mut history = History::default();
        for t in 0..=intervals {
            let busy = t * 500_000_000;
            let threads = vec![thread(1, "main", 0), thread(2, "pool-1", busy)];
            let locks = has_locks.then(|| locks(t * 250_000_000));
            session
                .sample(&mut NoProbes, t * 1000, threads.into(), locks)
                .unwrap();
            history.note(&session, has_locks);
        }
        history
    }

    #[test]
    fn times_are_told_apart_by_kind_thread_and_object() {
        let history = history(2, true);
        assert_eq!(history.len(), 2, "the first reading begins an interval");
        let pool = Focus::new().with(Key::Group, "pool-#");
        let series = |time, focus: &Focus| history.series(time, focus);
        assert_eq!(series(Time::Cpu, &Focus::new()), [Some(0.5); 2]);
        assert_eq!(series(Time::Cpu, &pool), [Some(0.5); 2]);
        assert_eq!(series(Time::Life, &Focus::new()), [Some(2.0); 2]);
        assert_eq!(series(Time::LockWait, &Focus::new()), [Some(0.25); 2]);
        assert_eq!(series(Time::EventWait, &Focus::new()), [Some(0.5); 2]);
        assert_eq!(series(Time::EventWait, &pool), [Some(0.25); 2]);
        let other = Focus::new().with(Key::Lock, "0x80");
        assert_eq!(series(Time::LockWait, &other), [Some(0.0); 2]);
        assert_eq!(history.objects(true)[0].address, 0x40);
        assert_eq!(history.threads().len(), 2);
    }

    #[test]
    fn waits_without_the_agent_are_unknown() {
        let history = history(1, false);
        assert_eq!(history.series(Time::LockWait, &Focus::new()), [None]);
    }
}
