//! Who waits for a lock waits for its holder, and for those that got it before him, and for what they wait for.

use std::collections::BTreeMap;

use convoy_model::{OffId, Wake};

use crate::detectors::holder_off_cpu::awaited;
use crate::facts::lock_recognition::waited_at;
use crate::facts::run_view::RunView;

/// Threads that queue for one lock: so many before this one are followed.
const QUEUE: usize = 8;
/// Smaller shares of a wait explain nothing.
const LEAST: f64 = 1e-3;
/// Share of what is known of the holders that makes their waits the reason.
const LARGE: f64 = 0.3;

/// What those did meanwhile who were waited for.
#[derive(Debug, Clone)]
struct Parts {
    /// Off the processors: in which waits. A hundred thousand rows have one or two of them each, for which a map is large.
    off: Box<[(OffId, f64)]>,
    running: f64,
    /// Ready to run, without a processor.
    delayed: f64,
}

/// The same while it is put together.
#[derive(Debug, Default)]
struct Sum {
    off: BTreeMap<OffId, f64>,
    running: f64,
    delayed: f64,
}

impl Sum {
    fn add(&mut self, wake: &Wake, scale: f64) {
        self.running += wake.waker_running_ns as f64 * scale;
        self.delayed += wake.waker_delayed_ns as f64 * scale;
        for &(id, ns) in &wake.waker_off {
            *self.off.entry(id).or_default() += ns as f64 * scale;
        }
    }

    fn parts(self) -> Parts {
        Parts {
            off: self.off.into_iter().collect(),
            running: self.running,
            delayed: self.delayed,
        }
    }
}

impl Parts {
    /// Puts in the place of waits for the same lock what was done during those.
    fn resolved(&self, view: &RunView, of: OffId, known: &BTreeMap<OffId, Self>) -> Self {
        let mut sum = Sum {
            running: self.running,
            delayed: self.delayed,
            ..Sum::default()
        };
        for &(id, part) in &self.off {
            match known.get(&id).filter(|_| same_lock(view, of, id)) {
                Some(parts) => {
                    sum.running += part * parts.running.min(1.0);
                    sum.delayed += part * parts.delayed.min(1.0);
                    for &(id, share) in parts.off.iter().filter(|(_, share)| *share >= LEAST) {
                        *sum.off.entry(id).or_default() += part * share.min(1.0);
                    }
                }
                None => *sum.off.entry(id).or_default() += part,
            }
        }
        sum.parts()
    }
}

/// Of waits for locks: what those did who were waited for, as shares of the wait.
pub(crate) struct PassedOn {
    by_off: BTreeMap<OffId, Parts>,
}

impl PassedOn {
    pub(crate) fn of(view: &RunView) -> Self {
        let mut sums: BTreeMap<OffId, Sum> = BTreeMap::new();
        let locks = |wake: &&Wake| awaited(view, wake).is_some();
        for wake in view.sched.wakes.iter().filter(locks) {
            if let Some(off) = view.sched.off(wake.off) {
                let share = 1.0 / (off.sum_ns as f64).max(1.0);
                sums.entry(wake.off).or_default().add(wake, share);
            }
        }
        let direct: BTreeMap<OffId, Parts> = sums
            .into_iter()
            .map(|(off, sum)| (off, sum.parts()))
            .collect();
        let mut by_off = direct.clone();
        for _ in 0..QUEUE {
            let resolved =
                |(&off, parts): (&OffId, &Parts)| (off, parts.resolved(view, off, &by_off));
            by_off = direct.iter().map(resolved).collect();
        }
        Self { by_off }
    }

    /// What the holders were in during the waits that one waker ended: nanoseconds, expected and at most.
    ///
    /// Whoever waited needs a processor afterwards, and those behind him wait for that as well: each time that a
    /// holder came back from a wait, and each time that the lock was handed on. The latter are for what holders did,
    /// in proportion. At most, what is a large part of that is why anybody waits at all.
    pub(crate) fn holders_waits(&self, view: &RunView, wake: &Wake) -> Vec<(OffId, f64, f64)> {
        let mut sum = Sum::default();
        sum.add(wake, 1.0);
        let parts = sum.parts().resolved(view, wake.off, &self.by_off);
        let off: f64 = parts.off.iter().map(|(_, ns)| ns).sum();
        let known = (off + parts.running).max(1.0);
        let times = |id: OffId, ns: f64| {
            let row = view.sched.off(id);
            row.map_or(0.0, |row| ns * row.n as f64 / (row.sum_ns as f64).max(1.0))
        };
        let came_back: f64 = parts.off.iter().map(|&(id, ns)| times(id, ns)).sum();
        let each_time = parts.delayed / (came_back + wake.n as f64).max(1.0);
        let handed_on = each_time * wake.n as f64;
        let waited = (wake.wait_ns as f64 - parts.running).max(0.0);
        let one = |&(id, ns): &(OffId, f64)| {
            let expected = ns + each_time * times(id, ns) + handed_on * ns / known;
            let why = off >= LARGE * known;
            let most = if why { waited * ns / off.max(1.0) } else { 0.0 };
            (id, expected, most.max(expected))
        };
        parts.off.iter().map(one).collect()
    }
}

/// The same object; where none is known, the same place.
fn same_lock(view: &RunView, a: OffId, b: OffId) -> bool {
    let (Some(a), Some(b)) = (view.sched.off(a), view.sched.off(b)) else {
        return false;
    };
    let shown = |site| view.shown(site).map(|f| (&f.module, &f.function, f.line));
    match (waited_at(view, a), waited_at(view, b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.site.and_then(shown) == b.site.and_then(shown),
        _ => false,
    }
}
