//! Vector clocks over locks and other synchronization (Lamport, 1978; Mattern, 1989).

use rustc_hash::FxHashMap;

/// What threads synchronize through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    /// A recorded object.
    Object(u32),
    /// An auxiliary lock.
    Aux(u32),
    /// The start or the end of a thread.
    Thread(u32),
}

type Clock = Vec<u32>;

/// What went through a channel.
#[derive(Default)]
struct Passed {
    /// By those that excluded everybody.
    exclusive: Clock,
    /// By all.
    all: Clock,
}

/// A happens-before relation in the making.
pub(super) struct Order {
    threads: Vec<Clock>,
    channels: FxHashMap<Channel, Passed>,
}

impl Order {
    pub(super) fn new(threads: usize) -> Self {
        let mut order = Self {
            threads: vec![vec![0; threads]; threads],
            channels: FxHashMap::default(),
        };
        for (own, clock) in order.threads.iter_mut().enumerate() {
            clock[own] = 1;
        }
        order
    }

    /// The thread comes after what went into the channel; a reader after what excluded it.
    pub(super) fn receive(&mut self, thread: usize, channel: Channel, shared: bool) {
        if let Some(passed) = self.channels.get(&channel) {
            let from = if shared {
                &passed.exclusive
            } else {
                &passed.all
            };
            join(&mut self.threads[thread], from);
        }
    }

    /// What the thread did so far goes into the channel.
    pub(super) fn send(&mut self, thread: usize, channel: Channel, shared: bool) {
        let clock = &mut self.threads[thread];
        let passed = self.channels.entry(channel).or_default();
        join(&mut passed.all, clock);
        if !shared {
            join(&mut passed.exclusive, clock);
        }
        clock[thread] = clock[thread].saturating_add(1);
    }

    /// The thread's own time.
    pub(super) fn now(&self, thread: usize) -> u32 {
        self.threads[thread][thread]
    }

    /// Whether what another thread did at its time `then` comes before what this one does now.
    pub(super) fn is_after(&self, thread: usize, other: usize, then: u32) -> bool {
        self.threads[thread][other] >= then
    }
}

fn join(into: &mut Clock, from: &Clock) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (mine, other) in into.iter_mut().zip(from) {
        *mine = (*mine).max(*other);
    }
}
