//! Time that no source explains: CPU time in the kernel, context switches and blocked threads beyond the waits that were
//! seen. The agent does not see locks inside the C library, nor inlined ones; what they cost shows here.

use convoy_model::finding::Evidence;
use convoy_model::{kernel_share, Model, Sources, SyncCode};

use crate::tables::counters::GroupRow;
use crate::words::{count, evidence, percent};

/// CPU time in the kernel over all CPU time. A program that computes has a few per cent.
const KERNEL_SHARE: f64 = 0.2;
/// CPU time over run time below which nobody asks what it was spent on.
const MIN_CPU_SHARE: f64 = 0.05;
/// Voluntary context switches a second that no wait explains.
const SWITCHES_HZ: f64 = 1000.0;
/// Share of them that no wait explains.
const SWITCHES_SHARE: f64 = 0.5;
/// A wait gives up the CPU for itself, and often once more for the lock inside of it (condition variables).
const SWITCHES_A_WAIT: f64 = 2.0;
/// Time blocked outside of waits that were seen, over the life spans of the threads.
const BLOCKED_SHARE: f64 = 0.1;
/// CPU time of a group's threads over that of the busiest group's, from which on it does the work.
const WORKERS_SHARE: f64 = 0.1;
/// Samples in functions that lock, over all samples.
const LOCK_CODE_SHARE: f64 = 0.05;
/// Samples from which on a share of them means something.
const MIN_SAMPLES: u64 = 30;

/// Empty where the sources see why threads wait.
pub(crate) fn unexplained(model: &Model, groups: &[GroupRow], sources: Sources) -> Vec<Evidence> {
    let wall = model.meta.end_ns.saturating_sub(model.meta.start_ns) as f64;
    let cpu: f64 = model.threads.iter().map(|t| t.cpu_ns as f64).sum();
    if sources.see_reasons() || wall <= 0.0 || cpu < MIN_CPU_SHARE * wall {
        return Vec::new();
    }
    let kernel = kernel_share(model).filter(|share| *share >= KERNEL_SHARE);
    let kernel = kernel.map(|share| {
        let text = format!("{} of the CPU time in the kernel", percent(share));
        evidence("kernel_cpu_ratio", share, text)
    });
    [
        kernel,
        lock_code(model),
        switches(model, wall),
        blocked(groups),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Locks that are seen have their waits; these samples are of the others too.
fn lock_code(model: &Model) -> Option<Evidence> {
    let (mut all, mut locking) = (0, 0);
    for (slice, site) in model.samples() {
        all += slice.n;
        if site.is_some_and(|site| site.sync == Some(SyncCode::Lock)) {
            locking += slice.n;
        }
    }
    let share = locking as f64 / all.max(1) as f64;
    (all >= MIN_SAMPLES && share >= LOCK_CODE_SHARE).then(|| {
        let text = format!("{} of the CPU time in lock functions", percent(share));
        evidence("lock_code_ratio", share, text)
    })
}

fn switches(model: &Model, wall: f64) -> Option<Evidence> {
    let switches: u64 = model.threads.iter().map(|t| t.voluntary_switches).sum();
    let waits: u64 = model.uses.iter().map(|u| u.waits).sum();
    let rest = switches as f64 - SWITCHES_A_WAIT * waits as f64;
    let rate = rest / wall * 1e9;
    (rate >= SWITCHES_HZ && rest >= SWITCHES_SHARE * switches as f64).then(|| {
        let text = format!("{} context switches a second", count(rate));
        evidence("context_switches_hz", rate, text)
    })
}

/// Of the groups that do the work: a main thread that waits for a signal keeps nobody waiting.
fn blocked(groups: &[GroupRow]) -> Option<Evidence> {
    let each = |row: &GroupRow| row.cpu_ns as f64 / row.threads.max(1) as f64;
    let most = groups.iter().map(each).fold(0.0, f64::max);
    let workers = || {
        groups
            .iter()
            .filter(|row| each(row) >= WORKERS_SHARE * most)
    };
    let threads: usize = workers().map(|row| row.threads).sum();
    let off: u64 = workers().map(blocked_ns).sum();
    let time: u64 = workers().map(|row| row.life_ns).sum();
    let share = off as f64 / time.max(1) as f64;
    (threads > 1 && share >= BLOCKED_SHARE).then(|| {
        let text = format!("threads blocked {} of their time", percent(share));
        evidence("blocked_ratio", share, text)
    })
}

/// Outside of waits that were seen, and not for a CPU.
fn blocked_ns(row: &GroupRow) -> u64 {
    let seen = [row.lock_wait_ns, row.idle_wait_ns, row.event_wait_ns];
    let rest = row.life_ns.saturating_sub(row.cpu_ns);
    let rest = rest.saturating_sub(row.run_delay_ns.unwrap_or(rest));
    seen.iter().fold(rest, |rest, ns| rest.saturating_sub(*ns))
}
