//! What it costs to take a lock over from another CPU, from the recording itself.
//!
//! The time before an acquisition and the time in its section hold the transfer of cache lines: of
//! the lock's word, and of what the lock guards. They are no work: without the lock, or with a lock
//! for each part of the data, they are gone. How long they take depends on what a section touches
//! and on what the processor computes meanwhile, so no calibration knows it. The recording does:
//! the same code between the same two call sites runs with a lock that was last used on this CPU,
//! and with one that was not.

use std::collections::BTreeMap;

use convoy_trace::{Event, Kind, Recording, SiteIx, Window, NO_CPU};
use rustc_hash::{FxHashMap, FxHashSet};

use super::ObjectMap;
use crate::program::{LockIx, Transfer};

/// Pieces of code of either kind between two call sites, from which on their medians are compared.
const SAMPLES: usize = 30;

/// Transfers of all locks in one window.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// By lock; `None` = there was nothing to compare.
    pub of_lock: Vec<Option<Transfer>>,
    /// Events that found the lock's word on another CPU: thread and index.
    remote: FxHashSet<(u32, u32)>,
}

/// What is compared: durations in nanoseconds, by lock and the call sites around, of one's own lock
/// and of one that comes from another CPU.
type Samples = BTreeMap<(LockIx, SiteIx, SiteIx), [Vec<f32>; 2]>;

/// An event on a lock.
#[derive(Clone, Copy)]
struct Use {
    at_ns: u64,
    thread: u32,
    event: u32,
    lock: LockIx,
}

impl Transfers {
    pub(super) fn of(recording: &Recording, window: Window, objects: &ObjectMap) -> Self {
        let mut uses = uses(recording, window, objects);
        uses.sort_unstable_by_key(|of| (of.at_ns, of.thread, of.event));
        let mut last: FxHashMap<LockIx, u32> = FxHashMap::default();
        let mut transfers = Self::default();
        let (mut before, mut inside) = (Samples::new(), Samples::new());
        for of in uses {
            let events = &recording.threads[of.thread as usize].events;
            let ix = of.event as usize;
            let event = &events[ix];
            let cpu = match event.cpu {
                NO_CPU => u32::MAX - of.thread,
                cpu => u32::from(cpu),
            };
            let is_remote = last
                .insert(of.lock, cpu)
                .is_some_and(|before| before != cpu);
            if is_remote {
                transfers.remote.insert((of.thread, of.event));
            }
            if event.kind != Kind::Acquired {
                continue;
            }
            let kind = usize::from(is_remote);
            if let Some(previous) = ix.checked_sub(1).map(|ix| &events[ix]) {
                if previous.kind == Kind::Released {
                    add(
                        &mut before,
                        (of.lock, previous.site, event.site),
                        kind,
                        previous,
                        event,
                    );
                }
            }
            if let Some(next) = events.get(ix + 1) {
                if next.kind == Kind::Released && next.object == event.object {
                    add(
                        &mut inside,
                        (of.lock, event.site, next.site),
                        kind,
                        event,
                        next,
                    );
                }
            }
        }
        let (word, data) = (difference(before), difference(inside));
        let locks = word
            .keys()
            .chain(data.keys())
            .max()
            .map_or(0, |lock| lock + 1);
        transfers.of_lock = (0..locks)
            .map(|lock| {
                word.get(&lock).map(|word| Transfer {
                    word_ns: *word,
                    data_ns: data.get(&lock).copied().unwrap_or(0.0),
                })
            })
            .collect();
        transfers
    }

    /// What an event's thread paid, if the lock came from another CPU and that was measured.
    pub(super) fn paid(&self, thread: u32, event: usize, lock: LockIx) -> Option<Transfer> {
        let of_lock = self.of_lock.get(lock as usize).copied().flatten()?;
        self.remote
            .contains(&(thread, event as u32))
            .then_some(of_lock)
    }
}

fn uses(recording: &Recording, window: Window, objects: &ObjectMap) -> Vec<Use> {
    let mut all = Vec::new();
    for (thread, of) in recording.threads.iter().enumerate() {
        let within = of.in_window(window);
        let begin = within.start;
        for (ix, event) in of.events[within].iter().enumerate() {
            let touches = matches!(
                event.kind,
                Kind::Acquired
                    | Kind::AcquiredAfterWait
                    | Kind::Request
                    | Kind::Released
                    | Kind::Woke
            );
            if let (true, Some(lock)) = (touches, objects.lock(event.object)) {
                all.push(Use {
                    at_ns: event.at_ns,
                    thread: thread as u32,
                    event: (begin + ix) as u32,
                    lock,
                });
            }
        }
    }
    all
}

fn add(to: &mut Samples, key: (LockIx, SiteIx, SiteIx), kind: usize, from: &Event, until: &Event) {
    let ns = until.at_ns.saturating_sub(from.at_ns) as f32;
    to.entry(key).or_default()[kind].push(ns);
}

/// By lock: how much longer the median takes when the lock comes from another CPU, over all pairs
/// of call sites that have enough of both.
fn difference(samples: Samples) -> BTreeMap<LockIx, f32> {
    let mut sums: BTreeMap<LockIx, (f32, f32)> = BTreeMap::new();
    for ((lock, ..), [own, other]) in samples {
        let n = other.len() as f32;
        if own.len().min(other.len()) < SAMPLES {
            continue;
        }
        let longer = (median(other) - median(own)).max(0.0);
        let sum = sums.entry(lock).or_default();
        *sum = (sum.0 + n * longer, sum.1 + n);
    }
    sums.into_iter()
        .map(|(lock, (sum, n))| (lock, sum / n))
        .collect()
}

fn median(mut of: Vec<f32>) -> f32 {
    let middle = of.len() / 2;
    let (_, median, _) = of.select_nth_unstable_by(middle, f32::total_cmp);
    *median
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::recording;

    /// Two threads, each on its own CPU, take a lock in turns of four sections: 100 ns before each
    /// acquisition and 20 ns in each section, `word` and `data` more for the first of each turn.
    fn in_turns(turns: u64, word: u64, data: u64) -> Recording {
        let mut of_thread = [String::from("thread a\n"), String::from("thread b\n")];
        let mut now = 0;
        for turn in 0..turns {
            let lines = &mut of_thread[(turn % 2) as usize];
            for round in 0..4 {
                let first = u64::from(round == 0);
                now += 100 + first * word;
                lines.push_str(&format!("{now} lock L @1\n"));
                now += 20 + first * data;
                lines.push_str(&format!("{now} unlock L @2\n"));
            }
        }
        recording(&of_thread.concat())
    }

    fn transfers(recording: &Recording) -> Transfers {
        Transfers::of(recording, recording.windows[0], &ObjectMap::of(recording))
    }

    #[test]
    fn data_cost_what_sections_last_longer_after_another_cpu_had_the_lock() {
        let of = transfers(&in_turns(200, 80, 30));
        assert_eq!(of.of_lock[0].unwrap().data_ns, 30.0);
        let paid = |event| of.paid(1, event, 0).is_some();
        assert!(paid(0) && !paid(2) && paid(8));
    }

    #[test]
    fn few_sections_and_own_locks_tell_nothing() {
        assert!(transfers(&in_turns(20, 80, 30)).of_lock.is_empty());
        let alone = in_turns(1, 80, 30);
        assert!(transfers(&alone).of_lock.is_empty());
        assert!(transfers(&alone).paid(0, 0, 0).is_none());
    }
}
