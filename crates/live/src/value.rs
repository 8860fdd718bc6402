//! Values of metrics: rates, sums, means and quantiles of what came between two readings.

use std::collections::BTreeMap;

use crate::focus::{Focus, Key};
use crate::histogram::Histogram;
use crate::lock::{Lock, LockChanges, LockSums, Role};
use crate::metric::Metric;
use crate::row::{Change, Row};
use crate::thread::{Roster, Thread};

/// A value, in all and by thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measured {
    pub value: Option<f64>,
    /// Why it is not known.
    pub gap: Option<String>,
    pub by_thread: Vec<(u32, f64)>,
    pub histogram: Option<Histogram>,
}

/// What is said where a focus names no thread that was ever seen, or none that is there.
pub(crate) const NO_THREAD: &str = "no such thread is there";

impl Measured {
    /// Something is left out of it.
    pub fn incomplete(mut self, why: String) -> Self {
        self.gap = self.gap.or(Some(why));
        self
    }

    pub fn gap(why: impl Into<String>) -> Self {
        Self {
            gap: Some(why.into()),
            ..Self::default()
        }
    }
}

/// Sums over rows; times are already per second.
#[derive(Debug, Clone)]
struct Sums {
    calls: u64,
    rate: f64,
    bytes: f64,
    wall: f64,
    own_wall: f64,
    cpu: Option<f64>,
    own_cpu: Option<f64>,
    /// Of calls that have returned.
    returned_ns: u64,
    is_inside: bool,
    skipped: u64,
    histogram: Histogram,
}

impl Default for Sums {
    /// Nobody called it: that is known.
    fn default() -> Self {
        Self {
            calls: 0,
            rate: 0.0,
            bytes: 0.0,
            wall: 0.0,
            own_wall: 0.0,
            cpu: Some(0.0),
            own_cpu: Some(0.0),
            returned_ns: 0,
            is_inside: false,
            skipped: 0,
            histogram: Histogram::default(),
        }
    }
}

impl Sums {
    fn add(&mut self, change: &Change, seconds: f64) {
        let per_second = |ns: u64| ns as f64 / 1e9 / seconds;
        let plus = |sum: Option<f64>, ns: Option<u64>| Some(sum? + per_second(ns?));
        self.cpu = plus(self.cpu, change.cpu_ns);
        self.own_cpu = plus(self.own_cpu, change.own_cpu_ns);
        self.calls = self.calls.saturating_add(change.calls);
        self.rate += change.calls as f64 / seconds;
        self.bytes += change.bytes as f64 / seconds;
        self.wall += per_second(change.wall_ns);
        self.own_wall += per_second(change.own_wall_ns);
        self.returned_ns = self.returned_ns.saturating_add(change.returned_ns);
        self.is_inside |= change.inside > 0;
        self.skipped = self.skipped.saturating_add(change.skipped);
        self.histogram.merge(&change.histogram);
    }

    fn value(&self, metric: Metric) -> Option<f64> {
        let returned = self.histogram.count();
        match metric {
            Metric::Calls | Metric::Allocations | Metric::Exceptions => Some(self.rate),
            Metric::AllocatedBytes => Some(self.bytes),
            Metric::Wall => Some(self.wall),
            Metric::WallExclusive => Some(self.own_wall),
            Metric::Cpu => self.cpu,
            Metric::CpuExclusive => self.own_cpu,
            Metric::Inside => Some(f64::from(u8::from(self.is_inside))),
            Metric::DurationMean => {
                (returned > 0).then(|| self.returned_ns as f64 / returned as f64)
            }
            Metric::DurationP50 => self.histogram.quantile(0.5),
            Metric::DurationP99 => self.histogram.quantile(0.99),
            _ => None,
        }
    }
}

/// Of functions, each with the seconds since its last sample.
pub(crate) fn of_rows<'a>(
    metric: Metric,
    focus: &Focus,
    roster: &Roster,
    rows: impl Iterator<Item = (&'a Row, f64)>,
) -> Measured {
    let mut all = Sums::default();
    let mut threads: BTreeMap<u32, Sums> = BTreeMap::new();
    let selects = focus.selects_threads();
    let mut is_any_unknown = false;
    for (row, seconds) in rows {
        for (tid, change) in row.changes() {
            let is_in = match roster.get(tid) {
                Some(thread) => focus.holds(&thread.name()),
                None => {
                    // It ended before its name was read.
                    is_any_unknown |= selects && change.calls > 0;
                    !selects
                }
            };
            if is_in {
                all.add(&change, seconds);
                if tid != 0 {
                    threads.entry(tid).or_default().add(&change, seconds);
                }
            }
        }
    }
    let by_thread = threads.iter();
    let by_thread = by_thread.filter_map(|(tid, sums)| Some((*tid, sums.value(metric)?)));
    let value = match metric {
        // The threads, however many calls of how many functions each is in.
        Metric::Inside => Some(threads.values().filter(|t| t.is_inside).count() as f64),
        _ => all.value(metric),
    };
    let gap = match value {
        Some(_) => None,
        None if all.histogram.count() == 0 => Some("no call returned".to_owned()),
        None => Some("no CPU clock without a system call is available in the process".to_owned()),
    };
    let gap = gap.or_else(|| {
        let partly = "threads ended before their names could be read: some calls are left out";
        is_any_unknown.then(|| partly.to_owned())
    });
    let measured = Measured {
        value,
        gap,
        by_thread: by_thread.collect(),
        histogram: metric.needs_timer().then_some(all.histogram),
    };
    match all.skipped {
        0 => measured,
        n => measured.incomplete(format!(
            "{n} calls were not measured: they were nested too deeply, or made by a signal \
             handler that interrupted a probe"
        )),
    }
}

/// Whether a metric can be of an object that is named.
fn fits(metric: Metric, lock: &Lock) -> bool {
    metric.role().is_none_or(|role| role == lock.role)
}

/// Of locks.
pub(crate) fn of_locks(
    metric: Metric,
    focus: &Focus,
    roster: &Roster,
    locks: &LockChanges,
    seconds: f64,
) -> Measured {
    if !locks.is_known {
        return Measured::gap("known after the second reading");
    }
    let wanted = focus.get(Key::Lock);
    let is_meant: Vec<bool> = locks
        .latest
        .locks
        .iter()
        .map(|lock| match wanted {
            Some(pattern) => lock.answers_to(pattern),
            None => lock.role == metric.role().unwrap_or(Role::Lock),
        })
        .collect();
    if let (Some(name), false) = (wanted, is_meant.contains(&true)) {
        return Measured::gap(format!("no lock answers to {name} so far"));
    }
    let others = locks.latest.locks.iter().zip(&is_meant);
    let mut others = others.filter(|(lock, is_meant)| **is_meant && !fits(metric, lock));
    if let Some((lock, _)) = others.next() {
        return Measured::gap(format!("{} is a {}: ask for wait", lock.name, lock.kind));
    }
    let mut all = LockSums::default();
    let mut threads: BTreeMap<u32, LockSums> = BTreeMap::new();
    for (lock, tid, sums) in &locks.latest.uses {
        let is_in = match roster.get(*tid) {
            Some(thread) => focus.holds(&thread.name()),
            None => !focus.selects_threads(),
        };
        if is_in && is_meant.get(*lock).copied().unwrap_or(false) {
            all.add(*sums);
            threads.entry(*tid).or_default().add(*sums);
        }
    }
    let value = |sums: &LockSums| match metric {
        Metric::Acquisitions => Some(sums.acquisitions as f64 / seconds),
        Metric::Contended => Some(sums.contended as f64 / seconds),
        Metric::Wait | Metric::ConditionWait | Metric::BarrierWait | Metric::SemaphoreWait => {
            Some(sums.wait_ns as f64 / 1e9 / seconds)
        }
        Metric::Hold => (sums.holds > 0).then(|| sums.hold_ns as f64 / sums.holds as f64),
        _ => None,
    };
    let by_thread = threads.iter();
    Measured {
        value: value(&all),
        gap: value(&all)
            .is_none()
            .then(|| "no hold was timed".to_owned()),
        by_thread: by_thread
            .filter_map(|(tid, sums)| Some((*tid, value(sums)?)))
            .collect(),
        histogram: None,
    }
}

/// Why no thread of a focus has a value though some were read twice.
fn unknown_of_threads(metric: Metric, focus: &Focus, roster: &Roster) -> &'static str {
    let mut held = roster
        .pairs()
        .filter(|(_, now)| focus.holds(&now.name()))
        .peekable();
    if held.peek().is_none() {
        return NO_THREAD;
    }
    let mut now = held.map(|(_, now)| now);
    match metric {
        Metric::CMetric => "known after the second reading",
        Metric::RunQueueMean if now.any(|t| t.switches.is_some()) => "no thread was given a CPU",
        _ if metric.needs_io() && now.any(|t| t.read_bytes.is_some()) => {
            "known after the second reading"
        }
        _ if metric.needs_io() => {
            "the kernel does not say: their I/O may be read by root or their own user"
        }
        _ => "the kernel does not say",
    }
}

/// Of threads.
pub(crate) fn of_threads(metric: Metric, focus: &Focus, roster: &Roster, seconds: f64) -> Measured {
    let mut by_thread = Vec::new();
    // A mean is a sum over all threads divided by another.
    let mut mean = (0.0, 0.0);
    let pairs = roster.pairs();
    for (before, now) in pairs.filter(|(_, now)| focus.holds(&now.name())) {
        let change =
            |of: fn(&Thread) -> Option<u64>| Some(of(now)?.checked_sub(of(before)?)? as f64);
        let share = |of| Some(change(of)? / 1e9 / seconds);
        let rate = |of| Some(change(of)? / seconds);
        let cpu = share(|t| t.cpu_ns);
        let run_queue = share(|t| t.run_queue_ns);
        let value = match metric {
            Metric::Cpu => cpu,
            Metric::RunQueue => run_queue,
            Metric::Blocked => cpu
                .zip(run_queue)
                .map(|(cpu, queue)| (1.0 - cpu - queue).max(0.0)),
            Metric::CMetric => share(|t| t.cmetric_ns),
            Metric::Switches => rate(|t| t.switches),
            Metric::ReadBytes => rate(|t| t.read_bytes),
            Metric::WriteBytes => rate(|t| t.write_bytes),
            Metric::RunQueueMean => {
                let queue_ns = change(|t| t.run_queue_ns);
                let times = change(|t| t.switches);
                queue_ns.zip(times).and_then(|(ns, times)| {
                    mean = (mean.0 + ns, mean.1 + times);
                    (times > 0.0).then(|| ns / times)
                })
            }
            _ => None,
        };
        by_thread.extend(value.map(|value| (now.tid, value)));
    }
    let gap = match (by_thread.is_empty(), roster.pairs().next().is_some()) {
        (false, _) => None,
        (true, false) => Some("known after the second reading".to_owned()),
        (true, true) => Some(unknown_of_threads(metric, focus, roster).to_owned()),
    };
    // Threads that ended between two readings are in the sum of their process only.
    let whole = match metric {
        Metric::Cpu if !focus.selects_threads() => roster.process_cpu_ns(),
        _ => None,
    };
    let value = || match whole {
        Some(ns) => ns as f64 / 1e9 / seconds,
        None if metric == Metric::RunQueueMean => mean.0 / mean.1,
        None => by_thread.iter().map(|(_, v)| v).sum(),
    };
    Measured {
        value: gap.is_none().then(value),
        gap,
        by_thread,
        histogram: None,
    }
}
