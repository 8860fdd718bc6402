//! The sentence at the head of the report.

use convoy_model::finding::Finding;

use crate::rows::{LockRow, Parallelism};
use crate::text::{count, percent, plural};
use crate::Thresholds;

/// CPUs busy for this share of the run are what limits a program.
const CPU_BOUND: f64 = 0.9;

/// Gains below this are written as none: they would be 0 % more.
const NOTHING: f64 = 1.005;

/// Says what limits the program, or that nothing that Convoy sees does.
pub(crate) fn verdict(
    findings: &[Finding],
    locks: &[LockRow],
    parallelism: &[Parallelism],
    t: &Thresholds,
) -> String {
    let Some(main) = parallelism.iter().max_by_key(|p| p.thread_time_ns) else {
        return "No thread was seen to run: there is nothing to judge.".into();
    };
    if let Some(f) = findings.first().filter(|f| f.gain.mid >= t.gain_mid) {
        return headline(f);
    }
    let acquisitions: u64 = locks.iter().map(|l| l.stats.acquisitions).sum();
    let contended = locks.iter().filter(|l| l.stats.contended > 0).count();
    let waited: u64 = locks.iter().map(|l| l.stats.wait_ns).sum();
    let seen = if locks.is_empty() {
        "No lock was seen".to_string()
    } else {
        format!(
            "{contended} contended of {}, {} acquisitions, waits {} of thread time",
            plural(locks.len(), "lock"),
            count(acquisitions as f64),
            percent(waited as f64 / (main.thread_time_ns.max(1)) as f64)
        )
    };
    let limit = limit(main);
    if main.threads_max <= 1 {
        return format!("{seen}; {limit}.");
    }
    format!("{seen}: no lock that was seen limits this program; {limit}. {NOT_SEEN}")
}

/// What the agent does not see: a verdict must not rule it out. With the scheduler's events the sentence
/// is the other room's.
const NOT_SEEN: &str = "Not seen without scheduler events: locks inside libc, inlined locks \
                        (Rust, C++20, Go), spinning, I/O. Run with sudo.";

/// A finding as the sentence at the head: what is wrong, and what fixing it would buy.
pub fn headline(f: &Finding) -> String {
    let (title, low, high) = (&f.title, f.gain.low, f.gain.high);
    if f.gain.mid < NOTHING {
        return format!("{title}. Fixing it: nothing expected (at most {high:.2}x).");
    }
    let mid = gain(f.gain.mid);
    format!("{title}. Fixing it: {mid} (at least {low:.2}x, at most {high:.2}x).")
}

fn gain(mid: f64) -> String {
    if mid >= 1.995 {
        format!("{mid:.1} times the throughput expected")
    } else {
        format!("{:.0} % more throughput expected", 100.0 * (mid - 1.0))
    }
}

/// What does limit it, as far as that can be told.
fn limit(p: &Parallelism) -> String {
    let time = p.thread_time_ns.max(1) as f64;
    if p.cpu_ratio >= CPU_BOUND {
        return format!(
            "its {} CPUs were busy {} of the time",
            p.cpus,
            percent(p.cpu_ratio)
        );
    }
    if p.threads_max <= 1 {
        return format!(
            "it has one thread, on a CPU {} of the time",
            percent(p.cpus_busy.min(1.0))
        );
    }
    let idle = p.idle_wait_ns as f64 / time;
    let off = p.off_cpu_ns as f64 / time;
    let used = if p.cpus > 0 {
        format!("{:.1} of {} CPUs were busy", p.cpus_busy, p.cpus)
    } else {
        format!("{:.1} CPUs were busy", p.cpus_busy)
    };
    if off > 0.5 {
        format!(
            "{used}, threads spent {} of their time in I/O, sleep or other waits in the kernel",
            percent(off)
        )
    } else if idle > 0.5 {
        format!(
            "{used}, threads had nothing to do {} of their time",
            percent(idle)
        )
    } else {
        used
    }
}
