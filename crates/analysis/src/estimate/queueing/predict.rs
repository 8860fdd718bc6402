//! From what a change takes away to how much faster the program gets.

use std::collections::BTreeSet;

use convoy_model::finding::Gain;
use convoy_model::upper_bound::gain_at_most;
use convoy_model::{GroupId, ObjectId};

use super::bounds::{Station, Window};
use super::queue::solve;
use crate::facts::idle_wait::Links;
use crate::facts::process_view::ProcessView;

/// What a thread loses by a change. Nanoseconds over its life.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delta {
    /// Waiting that ends, spinning included.
    pub wait: f64,
    /// Of `wait`, on a CPU.
    pub spin: f64,
    /// CPU time that the lock costs besides waits: pessimistic, expected, optimistic.
    pub overhead: [f64; 3],
    /// Spinning that turns into sleeping: the thread gets no faster, but a CPU is free.
    pub freed: f64,
    /// Queueing for a CPU behind what goes: pessimistic, expected, optimistic.
    pub queue: [f64; 3],
}

impl Delta {
    pub(crate) fn size(&self) -> f64 {
        self.wait + self.overhead[2] + self.freed
    }
}

/// A change of the program, to be priced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Change {
    /// One per thread of the view.
    pub deltas: Vec<Delta>,
    /// Locks that no longer serialize.
    pub removed: BTreeSet<ObjectId>,
    /// Share of the gain that a fix of this kind keeps at least, 0..1.
    pub sure: f64,
}

impl Change {
    pub(crate) fn none(view: &ProcessView) -> Self {
        Self {
            deltas: vec![Delta::default(); view.threads.len()],
            removed: BTreeSet::new(),
            sure: 0.5,
        }
    }
}

/// Indices of the variants in [`Delta::overhead`].
const LOW: usize = 0;
const MID: usize = 1;
pub(super) const HIGH: usize = 2;

/// A group whose share of life not spent waiting for other groups is this near to the highest one
/// is on the critical path.
const CRITICAL: f64 = 0.8;

/// Prices a change. `links`: which groups wake which.
pub(crate) fn predict(
    view: &ProcessView,
    stations: &[Station],
    links: &Links,
    change: &Change,
) -> Gain {
    let wall = view.wall();
    let window = Window::of(view, change);
    if wall <= 0.0 || window.length <= 0.0 {
        return Gain::none("nothing to take away", "");
    }
    let p = Prediction {
        view,
        stations,
        links,
        change,
        window: &window,
    };
    let outside = (wall - window.length).max(0.0);
    let after = |left: f64| (wall / (outside + left).max(1.0)).max(1.0);
    let ratio = |x: f64| after(window.length * x);

    let (x_mid, limited_by) = p.expected();
    let mid = ratio(x_mid);
    let high = gain_at_most(after(p.least_left())).max(mid);
    let low = 1.0 + change.sure * (ratio(p.worst_case().max(x_mid)) - 1.0);
    let limited_by = if outside > 0.2 * wall {
        format!(
            "{limited_by}; {:.0} % of the run is outside of it",
            100.0 * outside / wall
        )
    } else {
        limited_by
    };
    Gain {
        low: low.min(mid),
        mid,
        high,
        method: "time accounting of the threads concerned, bounded by CPUs, other locks and other threads (queueing model)".into(),
        limited_by,
        estimates: Vec::new(),
    }
}

struct Prediction<'a> {
    view: &'a ProcessView<'a>,
    stations: &'a [Station],
    links: &'a Links,
    change: &'a Change,
    window: &'a Window,
}

impl Prediction<'_> {
    /// Run time of the window after the change over before, if everything goes right.
    fn best_case(&self) -> f64 {
        let linked = self.linked_to_change();
        let cpus = self.window.cpu_after(HIGH) / (self.view.cpus_allowed * self.window.length);
        self.window.best_case(|g| linked.contains(&g)).max(cpus)
    }

    /// The same in nanoseconds, with work that runs faster once the rest is gone.
    fn least_left(&self) -> f64 {
        let work = self.window.work(self.view.cpus_allowed);
        work.least_left(self.window.length * self.best_case())
    }

    /// The same, as expected, and what limits it.
    fn expected(&self) -> (f64, String) {
        let w = self.window;
        let linked = self.linked_to_change();
        let most_active = w.loads.iter().map(|l| l.active()).fold(0.0, f64::max);
        let critical: Vec<_> = w
            .loads
            .iter()
            .filter(|l| l.active() >= CRITICAL * most_active && linked.contains(&l.group))
            .collect();
        let life: f64 = critical.iter().map(|l| l.life).sum();
        if life <= 0.0 {
            return (
                1.0,
                "the threads concerned wait for others most of the time".into(),
            );
        }
        let sum = |f: &dyn Fn(&super::bounds::Load) -> f64| {
            critical.iter().map(|l| f(l)).sum::<f64>() / life
        };

        // Mean thread of the critical groups, in shares of its life.
        let threads = (life / w.length).max(1.0);
        let cpu = sum(&|l| l.cpu);
        let run_delay = sum(&|l| l.run_delay);
        let wait = sum(&|l| l.wait - l.spin);
        let gone_cpu = sum(&|l| l.spin + l.freed + l.overhead[MID]);
        let freed = sum(&|l| l.freed);
        let queue = sum(&|l| l.queue[MID]);
        let delay = (1.0 - cpu - run_delay).max(0.0);
        let others_cpu =
            (w.cpu_after(MID) / w.length - threads * (cpu - gone_cpu).max(0.0)).max(0.0);
        let cpus = self.view.cpus;

        // Other hot locks: what threads queue for them today, and how that grows.
        let next: Vec<&Station> = self
            .stations
            .iter()
            .filter(|s| !self.change.removed.contains(&s.object))
            .collect();
        let holds: Vec<f64> = next.iter().map(|s| s.hold / w.length / threads).collect();
        let held: f64 = holds.iter().sum();
        let held_on_cpu = held.min(0.95 * cpu);
        let waits: f64 = next.iter().map(|s| s.wait / w.length / threads).sum();

        let on_cpu = |cpu: f64| (cpu - held_on_cpu).max(0.0);
        let off_lock = |delay: f64| (delay - waits - (held - held_on_cpu)).max(0.0);
        let free_cpus = |x: f64| (cpus - others_cpu / x).max(cpus / 10.0).max(1.0);
        let before = solve(
            threads,
            free_cpus(1.0),
            off_lock(delay),
            on_cpu(cpu),
            &holds,
        );
        let mut x = 1.0;
        // The others' share of the CPUs grows as the run shrinks: a fixed point, reached quickly.
        for _ in 0..4 {
            let after = solve(
                threads,
                free_cpus(x),
                off_lock(delay - wait) + freed,
                on_cpu((cpu - gone_cpu).max(0.0)),
                &holds,
            );
            let run_delay_after =
                after.cpu_delay + (run_delay - before.cpu_delay - queue).clamp(0.0, run_delay);
            let lock_waits: f64 = next
                .iter()
                .enumerate()
                .map(|(i, s)| {
                    let now = s.wait / w.length / threads;
                    let growth = if before.lock_delays[i] > 1e-9 {
                        after.lock_delays[i] / before.lock_delays[i]
                    } else {
                        1.0
                    };
                    now * growth.clamp(1.0, 10.0)
                })
                .sum();
            x = (delay - wait - waits).max(0.0)
                + freed
                + (cpu - gone_cpu).max(0.0)
                + run_delay_after
                + lock_waits;
            x = x.clamp(0.01, 1.0);
        }

        // Of their lives; of the time in question where they do not live all of it.
        let covered = sum(&|l| l.covered * l.life);
        let x = 1.0 - covered * (1.0 - x);
        let mut limits = vec![(x, self.what_remains(wait, delay, freed))];
        if cpus.is_finite() {
            let busy = w.cpu_after(MID) / (cpus * w.length);
            limits.push((
                busy,
                format!(
                    "CPUs: {} of them would be busy all the time",
                    round_cpus(cpus)
                ),
            ));
        }
        for s in next {
            let held = s.hold / w.length * cpu / (cpu + run_delay).max(1e-9);
            // A lock that is nearly always wanted is handed over from waiter to waiter.
            let full = if held > 0.5 * x {
                held + 0.5 * s.calls * self.handover() / w.length
            } else {
                held
            };
            limits.push((
                full,
                format!(
                    "{} is held {:.0} % of the time",
                    self.view.object_name(s.object),
                    100.0 * held
                ),
            ));
        }
        if cpus.is_finite() {
            // Several threads may do it at once then, but somebody has to.
            let inside = self.removed().map(|s| s.hold).sum::<f64>() / w.length;
            let on_cpu = cpu / (cpu + run_delay + (delay - wait).max(0.0)).max(1e-9);
            limits.push((
                inside * on_cpu / cpus,
                format!(
                    "what is done while it is held, on {} CPUs",
                    round_cpus(cpus)
                ),
            ));
        }
        for l in &w.loads {
            let own = l.active() - l.loss(MID);
            // A group that waits for nobody and loses nothing sets the pace of those linked to it.
            // One that spins gets its own time back as those that it waits for get CPUs.
            let paces = linked.contains(&l.group) && l.freed <= 0.0;
            if paces && l.active() >= CRITICAL * most_active {
                let own = if l.active() >= 0.9 {
                    1.0 - l.loss(MID)
                } else {
                    own
                };
                limits.push((
                    own,
                    format!("{}: no time to spare", self.view.group_name(l.group)),
                ));
            }
        }
        let (x, why) = limits
            .into_iter()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((1.0, String::new()));
        (x.clamp(0.01, 1.0), why)
    }

    /// The same, if the threads turn out to wait for something else instead.
    fn worst_case(&self) -> f64 {
        let w = self.window;
        let loss = w
            .loads
            .iter()
            .filter(|l| l.loss(LOW) > 0.0)
            // Idle time of the losers may just grow: somebody else sets the pace.
            .map(|l| (l.loss(LOW) - l.of_window(l.elastic)).max(0.0))
            .fold(0.0, f64::max);
        let cpus = w.cpu_after(LOW) / (self.view.cpus * w.length);
        let serial = self
            .stations
            .iter()
            .filter(|s| !self.change.removed.contains(&s.object))
            .map(|s| (s.hold + s.calls * self.handover()) / w.length)
            .fold(0.0, f64::max);
        let freed = w.loads.iter().map(|l| l.freed).sum::<f64>() > 0.0;
        (1.0 - loss)
            .max(if freed { 1.0 } else { cpus })
            .max(serial)
            .min(1.0)
    }

    /// Time from a release until the next waiter holds, where the lock in question is wanted all the
    /// time: what its holds leave of the run, per acquisition. The next lock will have it as well.
    fn handover(&self) -> f64 {
        self.removed()
            .filter(|s| s.wait > self.window.length && s.calls > 0.0)
            .map(|s| (self.window.length - s.hold).max(0.0) / s.calls)
            .fold(0.0, f64::max)
    }

    /// The locks in question, as far as they are held for long.
    fn removed(&self) -> impl Iterator<Item = &Station> {
        let removed = &self.change.removed;
        self.stations.iter().filter(|s| removed.contains(&s.object))
    }

    /// Groups that exchange wake-ups with one that the change touches, themselves included.
    fn linked_to_change(&self) -> BTreeSet<GroupId> {
        let loss = |l: &super::bounds::Load| l.of_window(l.lost[HIGH] + l.freed);
        let most = self.window.loads.iter().map(loss).fold(0.0, f64::max);
        // A group that loses next to nothing is touched as the holder: its pace is its own affair.
        let mut set: BTreeSet<GroupId> = self
            .window
            .loads
            .iter()
            .filter(|l| loss(l) > 0.2 * most)
            .map(|l| l.group)
            .collect();
        loop {
            let more: Vec<GroupId> = self
                .links
                .iter()
                .filter(|(_, (waits, _))| *waits >= 10)
                .flat_map(|((a, b), _)| {
                    [
                        (set.contains(a) && !set.contains(b)).then_some(*b),
                        (set.contains(b) && !set.contains(a)).then_some(*a),
                    ]
                })
                .flatten()
                .collect();
            if more.is_empty() {
                return set;
            }
            set.extend(more);
        }
    }

    fn what_remains(&self, wait: f64, delay: f64, freed: f64) -> String {
        if delay - wait + freed > 0.3 {
            "other waits, I/O and sleep of these threads".into()
        } else {
            "the work of these threads themselves".into()
        }
    }
}

fn round_cpus(cpus: f64) -> String {
    if (cpus - cpus.round()).abs() < 0.05 {
        format!("{cpus:.0}")
    } else {
        format!("{cpus:.1}")
    }
}
