//! What the run time cannot fall below, whatever is fixed.

use std::collections::BTreeMap;

use convoy_model::upper_bound::Work;
use convoy_model::{GroupId, ObjectId, ThreadId};

use super::predict::{Change, HIGH};
use crate::facts::life_spans;
use crate::facts::operations::Role;
use crate::facts::process_view::ProcessView;
use crate::params::Params;
use crate::tables::locks::Sum;

/// A lock that others would queue for if the one in question were gone.
#[derive(Debug, Clone)]
pub(crate) struct Station {
    pub object: ObjectId,
    /// Exclusive holds of all threads together, nanoseconds.
    pub hold: f64,
    /// Exclusive acquisitions.
    pub calls: f64,
    /// Waits of all threads together, nanoseconds.
    pub wait: f64,
}

/// A thread with this share of the acquisitions has the lock to itself, if nobody waits for it.
const ONE_TAKER: f64 = 0.99;
/// Share of the run waited for a lock that is nothing.
const NO_WAIT: f64 = 0.001;

/// Locks that matter as a next limit, at most eight: held for 5 % of the run, or waited for.
pub(crate) fn stations(view: &ProcessView, t: &Params) -> Vec<Station> {
    let mut all = Vec::new();
    for uses in view.uses().chunk_by(|a, b| a.object == b.object) {
        let object = uses[0].object;
        if !view.locks.contains(object) {
            continue;
        }
        let mut exclusive = Sum::default();
        let mut wait = 0.0;
        let mut takers: BTreeMap<ThreadId, f64> = BTreeMap::new();
        for u in uses {
            if matches!(view.role(u), Some(Role::Acquire | Role::AcquireShared)) {
                wait += u.wait_ns as f64;
            }
            if matches!(view.role(u), Some(Role::Acquire | Role::Try)) {
                exclusive.add(view, u);
                *takers.entry(u.thread).or_default() += u.calls as f64;
            }
        }
        // Nobody queues for what one thread has to itself, like the mutex of a connection: its holds, and what it waits for
        // meanwhile, are that thread's own time.
        let most = takers.values().copied().fold(0.0, f64::max);
        if most >= ONE_TAKER * takers.values().sum::<f64>() && wait < NO_WAIT * view.wall() {
            continue;
        }
        let stats = exclusive.finish(view, t);
        let hold = stats.hold_total_ns;
        let calls = stats.taken() as f64;
        if hold > 0.05 * view.wall() {
            // More than the whole run is an error of the hold samples.
            all.push(Station {
                object,
                hold: hold.min(view.wall()),
                calls,
                wait,
            });
        }
    }
    all.sort_by(|a, b| b.hold.total_cmp(&a.hold).then(a.object.cmp(&b.object)));
    all.truncate(8);
    all
}

/// What the threads of one group do during the time in question, all threads together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    pub group: GroupId,
    /// Life within the time in question.
    pub life: f64,
    /// Share of the time in question in which any of them lives. A thread that sorts for a moment at the end takes no more
    /// of the run than that moment, however much of it it loses.
    pub covered: f64,
    pub cpu: f64,
    pub run_delay: f64,
    /// Waits for other groups.
    pub elastic: f64,
    /// Taken away by the change: waiting, of which on CPU, and overhead (low, mid, high).
    pub wait: f64,
    pub spin: f64,
    pub overhead: [f64; 3],
    /// Waiting and overhead together (system calls to park are in both), and the delays in the run queues that end with
    /// the CPU time.
    pub lost: [f64; 3],
    /// CPU time that becomes sleeping.
    pub freed: f64,
    /// Queueing for a CPU that goes with what is taken away, low, mid, high.
    pub queue: [f64; 3],
    /// Share of the time taken away from the thread that loses most of those that live longest.
    pub longest_loss: f64,
}

impl Load {
    /// Share of the time in question that it loses.
    pub(crate) fn loss(&self, variant: usize) -> f64 {
        self.of_window(self.lost[variant].min(self.life))
    }

    /// Share of the time in question that it is there and does not wait for other groups.
    pub(crate) fn active(&self) -> f64 {
        self.of_window(self.life - self.elastic)
    }

    /// What all its threads do together for so long, as a share of the time in question.
    pub(crate) fn of_window(&self, ns: f64) -> f64 {
        self.covered * ns / self.life
    }
}

/// The time in question: while any thread that the change touches is alive.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Length, nanoseconds.
    pub length: f64,
    pub loads: Vec<Load>,
}

impl Window {
    pub(crate) fn of(view: &ProcessView, change: &Change) -> Self {
        let touched = |i: usize| change.deltas[i].size() > 0.0005 * view.threads[i].life;
        let lives = view.threads.iter().enumerate();
        let lives = lives.filter(|(i, _)| touched(*i));
        let union = life_spans::union(lives.map(|(_, t)| t.span()));
        let mut this = Self {
            length: life_spans::length(&union),
            loads: Vec::new(),
        };
        for g in view.groups() {
            let mut load = Load {
                group: g,
                ..Default::default()
            };
            let longest = view.group_threads(g).map(|t| t.life).fold(0.0, f64::max);
            let mut lives = Vec::new();
            for (i, t) in view
                .threads
                .iter()
                .enumerate()
                .filter(|(_, t)| t.group == g)
            {
                let first = union.partition_point(|(_, b)| *b <= t.start);
                let before = lives.len();
                let pieces = union[first..].iter().take_while(|(a, _)| *a < t.end);
                lives.extend(pieces.map(|(a, b)| (a.max(t.start), b.min(t.end))));
                let inside = life_spans::length(&lives[before..]);
                let part = inside / t.life;
                if part <= 0.0 {
                    continue;
                }
                let d = &change.deltas[i];
                load.life += inside;
                load.cpu += part * t.cpu;
                load.run_delay += part * t.run_delay;
                load.elastic += part * t.elastic;
                load.wait += d.wait;
                load.spin += d.spin;
                load.freed += d.freed;
                for (v, x) in d.overhead.into_iter().enumerate() {
                    load.overhead[v] += x;
                    load.queue[v] += d.queue[v];
                    load.lost[v] += (d.wait + x + d.queue[v]).min(t.life);
                }
                if t.life >= 0.95 * longest {
                    load.longest_loss = load
                        .longest_loss
                        .max(((d.wait + d.overhead[2] + d.queue[2]) / t.life).min(1.0));
                }
            }
            if load.life > 0.0 {
                let covered = life_spans::length(&life_spans::union(lives.into_iter()));
                load.covered = (covered / this.length).min(1.0);
                this.loads.push(load);
            }
        }
        this.shorten_queues(view.cpus_allowed);
        this
    }

    /// Threads that queue for a CPU queue less by the share of the CPUs' time that nobody wants any more.
    fn shorten_queues(&mut self, cpus: f64) {
        let used: f64 = self.loads.iter().map(|l| l.cpu).sum();
        let offered = used.max(cpus * self.length);
        for v in 0..3 {
            let gone: f64 = self.loads.iter().map(|l| l.spin + l.overhead[v]).sum();
            let relief = if offered > 0.0 { gone / offered } else { 0.0 };
            for l in &mut self.loads {
                // A wait has queueing for a CPU in it.
                let outside = (l.life - l.cpu - (l.wait - l.spin)).max(0.0);
                let queues = (l.run_delay.min(outside) - l.queue[v]).max(0.0);
                let delay = relief.min(1.0) * queues;
                l.lost[v] = (l.lost[v] + delay).min(l.life);
                if v == HIGH {
                    l.longest_loss = (l.longest_loss + delay / l.life).min(1.0);
                }
            }
        }
    }

    /// CPU time today without busy waiting, and what goes of it at best. When how many threads run
    /// is not known: as many as on average, but one at least.
    pub(crate) fn work(&self, cpus: f64) -> Work {
        let sum = |of: fn(&Load) -> f64| self.loads.iter().map(of).sum::<f64>();
        let all = sum(|l| (l.cpu - l.spin - l.freed).max(0.0));
        Work {
            all,
            goes: sum(|l| l.overhead[HIGH]),
            at_once: (all / self.length).min(cpus).max(1.0),
        }
    }

    /// CPU time after the change.
    pub(crate) fn cpu_after(&self, variant: usize) -> f64 {
        self.loads
            .iter()
            .map(|l| (l.cpu - l.spin - l.freed - l.overhead[variant]).max(0.0))
            .sum()
    }

    /// Nobody gets faster than by what is taken away, once from each group (their waits for one
    /// another may hide one another's losses), nor than the work of its busiest group allows.
    pub(crate) fn best_case(&self, linked: impl Fn(GroupId) -> bool) -> f64 {
        if self.loads.iter().any(|l| l.freed > 0.0) {
            // What spinners wait for comes sooner with their CPUs: only their own work is left.
            let own = |l: &Load| l.of_window(l.cpu - l.freed);
            return self.loads.iter().map(own).fold(0.0, f64::max);
        }
        let loss = |l: &Load| l.loss(HIGH).max(l.covered * l.longest_loss);
        let all: f64 = self.loads.iter().map(loss).sum();
        let floor = self
            .loads
            .iter()
            .filter(|l| linked(l.group))
            .map(|l| l.active() - loss(l))
            .fold(0.0, f64::max);
        (1.0 - all).max(floor).max(0.0)
    }
}
