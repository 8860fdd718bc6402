//! The queue of events: one pending event a processor, and timers.
//!
//! A processor has exactly one thing to wait for: the end of the step that its thread runs. A new
//! one replaces the old one, so that nothing in the queue is ever stale. A winner tree over the
//! processors gives the first event, and on the way to it the second. Timers (ticks, ends of
//! sleeps) are few and live in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::costs::Ps;
use super::costs::NEVER;

/// Number of a thread in the program.
pub(crate) type Tid = u32;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The scheduler's tick of a processor.
    Tick(u32),
    /// A thread's sleep, or the time before its start, ends.
    Wake(Tid),
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The step that this processor runs ends.
    Cpu(Ps, usize),
    /// A timer expires.
    Timer(Ps, Timer),
    /// Nothing will ever happen.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Events {
    /// Winner tree: node `i` has the lesser of its children `2i` and `2i + 1`; the leaves, one for
    /// each processor, are the second half.
    tree: Vec<Ps>,
    timers: BinaryHeap<Reverse<(Ps, u64, Timer)>>,
    sequence: u64,
    /// The earliest other event, see [`Events::is_undisturbed_until`].
    horizon: Ps,
}

impl Events {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            tree: vec![NEVER; 2 * cpus.next_power_of_two()],
            timers: BinaryHeap::new(),
            sequence: 0,
            horizon: 0,
        }
    }

    /// When the step that a processor runs ends.
    pub(crate) fn cpu(&self, cpu: usize) -> Ps {
        self.tree[self.tree.len() / 2 + cpu]
    }

    /// The step that a processor runs ends then.
    pub(crate) fn set_cpu(&mut self, cpu: usize, at: Ps) {
        let mut node = self.tree.len() / 2 + cpu;
        self.tree[node] = at;
        while node > 1 {
            let lesser = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            self.tree[node] = lesser;
        }
        self.horizon = self.horizon.min(at);
    }

    pub(crate) fn set_timer(&mut self, at: Ps, timer: Timer) {
        self.sequence += 1;
        self.timers.push(Reverse((at, self.sequence, timer)));
        self.horizon = self.horizon.min(at);
    }

    /// The next event; that of a processor stays pending until it gets another one.
    ///
    /// Ties go to the processor with the lower number, and to processors before timers.
    pub(crate) fn next(&mut self) -> Next {
        let first = self.tree[1];
        let timer = self.timers.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        if timer < first {
            if let Some(Reverse((at, _, timer))) = self.timers.pop() {
                self.horizon = 0;
                return Next::Timer(at, timer);
            }
        }
        if first == NEVER {
            return Next::Nothing;
        }
        // Down to the winner; the second is the least of those that it won against.
        let (mut node, mut second) = (1, timer);
        while node < self.tree.len() / 2 {
            node *= 2;
            if self.tree[node] != first {
                node += 1;
            }
            second = second.min(self.tree[node ^ 1]);
        }
        self.horizon = second;
        Next::Cpu(first, node - self.tree.len() / 2)
    }

    /// Nothing else happens until then, so that the thread of the processor of the latest event may
    /// run on without a detour through the queue: the simulation's fast path.
    pub(crate) fn is_undisturbed_until(&self, at: Ps) -> bool {
        at < self.horizon
    }

    /// Timers of sleeping threads are pending.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.timers
            .iter()
            .any(|Reverse((_, _, timer))| matches!(timer, Timer::Wake(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time() {
        let mut events = Events::new(2);
        assert_eq!(events.next(), Next::Nothing);
        events.set_cpu(1, 30);
        events.set_cpu(0, 40);
        events.set_timer(35, Timer::Wake(9));
        assert_eq!(events.next(), Next::Cpu(30, 1));
        assert!(events.is_undisturbed_until(34));
        assert!(!events.is_undisturbed_until(35));
        events.set_cpu(1, NEVER);
        assert!(events.has_sleepers());
        assert_eq!(events.next(), Next::Timer(35, Timer::Wake(9)));
        assert!(!events.has_sleepers());
        assert_eq!(events.next(), Next::Cpu(40, 0));
    }

    #[test]
    fn the_horizon_is_the_second_event_of_any_number_of_processors() {
        for cpus in 1..20 {
            let mut events = Events::new(cpus);
            for cpu in 0..cpus {
                events.set_cpu(cpu, 100 + (cpu as Ps * 7) % cpus as Ps);
            }
            let mut times: Vec<Ps> = (0..cpus).map(|cpu| events.cpu(cpu)).collect();
            times.sort_unstable();
            let Next::Cpu(at, cpu) = events.next() else {
                panic!("an event")
            };
            assert_eq!((at, events.cpu(cpu)), (times[0], times[0]));
            let second = times.get(1).copied().unwrap_or(NEVER);
            assert!(!events.is_undisturbed_until(second), "{cpus} processors");
            assert!(events.is_undisturbed_until(second - 1) || second == times[0]);
        }
    }

    #[test]
    fn a_new_event_shortens_the_undisturbed_time() {
        let mut events = Events::new(2);
        events.set_cpu(0, 10);
        assert_eq!(events.next(), Next::Cpu(10, 0));
        assert!(events.is_undisturbed_until(1000));
        events.set_cpu(1, 500);
        assert!(!events.is_undisturbed_until(500));
        events.set_timer(100, Timer::Tick(0));
        assert!(!events.is_undisturbed_until(100));
    }

    #[test]
    fn equal_times_keep_their_order() {
        let mut events = Events::new(1);
        events.set_timer(5, Timer::Wake(2));
        events.set_timer(5, Timer::Wake(1));
        assert_eq!(events.next(), Next::Timer(5, Timer::Wake(2)));
        assert_eq!(events.next(), Next::Timer(5, Timer::Wake(1)));
    }
}
