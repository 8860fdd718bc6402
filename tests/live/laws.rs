//! What must hold of every recording, however noisy: times that contain others are not shorter.

use convoy_harness::{check, Result};
use convoy_profile::{ObjectKind, Process, Sched};
use serde_json::Value;

use crate::fixture::Recording;

/// Clocks of CPU time tick, and a wait includes the calls that begin and end it.
const SLACK_NS: u64 = 10_000_000;

/// All laws.
pub fn hold(recording: &Recording) -> Result {
    for process in &recording.profile.processes {
        threads_fit_their_lives(process)?;
        holds_do_not_overlap(process)?;
        pairs_are_part_of_waits(process)?;
    }
    if let Some(sched) = &recording.profile.sched {
        metric_is_the_active_time(sched)?;
        parallelism_fills_the_run(sched)?;
        threads_are_somewhere(sched)?;
    }
    let locks = recording.report["locks"]
        .as_array()
        .ok_or("no table of locks")?;
    locks
        .iter()
        .map(|lock| &lock["stats"])
        .try_for_each(ratios_are_ratios)
}

/// A thread does not wait, nor run, for longer than it lives.
fn threads_fit_their_lives(process: &Process) -> Result {
    for (index, thread) in process
        .threads
        .iter()
        .enumerate()
        .filter(|(_, t)| t.start_ns > 0 && t.lives <= 1)
    {
        let life = thread.end_ns.saturating_sub(thread.start_ns) + SLACK_NS;
        let details = process
            .details
            .iter()
            .filter(|d| d.thread as usize == index);
        let waited: u64 = details
            .filter_map(|d| d.wait.as_ref())
            .map(|w| w.sum_ns)
            .sum();
        check!(
            waited <= life,
            "thread {} waited {waited} ns of {life}",
            thread.name
        );
        check!(
            thread.cpu_ns <= life,
            "thread {} ran {} ns of {life}",
            thread.name,
            thread.cpu_ns
        );
        let delay = thread.run_delay_ns.unwrap_or(0);
        let off = thread.cpu_ns + delay;
        check!(
            off <= life + life / 20,
            "thread {} ran or was runnable for {off} ns of {life}",
            thread.name
        );
    }
    Ok(())
}

/// A mutex has one holder at a time: the holds that were timed fit into the life of the process.
fn holds_do_not_overlap(process: &Process) -> Result {
    let life = process.end_ns.saturating_sub(process.start_ns) + SLACK_NS;
    let mut held = vec![0u64; process.objects.len()];
    for detail in &process.details {
        if let Some(sum) = held.get_mut(detail.object as usize) {
            *sum += detail.hold_sum_ns;
        }
    }
    let exclusive = |kind| {
        matches!(
            kind,
            ObjectKind::Mutex | ObjectKind::Spin | ObjectKind::OmpCritical
        )
    };
    for (object, sum) in process
        .objects
        .iter()
        .zip(held)
        .filter(|(o, _)| exclusive(o.kind))
    {
        check!(
            sum <= life,
            "a {:?} was held for {sum} ns of {life}",
            object.kind
        );
    }
    Ok(())
}

/// Waits by peer are some of the waits.
fn pairs_are_part_of_waits(process: &Process) -> Result {
    let mut rest = vec![(0u64, 0u64); process.objects.len()];
    for detail in &process.details {
        if let (Some(sums), Some(wait)) = (rest.get_mut(detail.object as usize), &detail.wait) {
            sums.0 += wait.n;
            sums.1 += wait.sum_ns;
        }
    }
    for pair in &process.pairs {
        if let Some(sums) = rest.get_mut(pair.object as usize) {
            let left = sums
                .0
                .checked_sub(pair.n)
                .zip(sums.1.checked_sub(pair.wait_sum_ns));
            *sums = left.ok_or_else(|| format!("more waits by peer than waits: {pair:?}"))?;
        }
    }
    Ok(())
}

/// Relative error that sums of the scheduler's times may have.
const SCHED_SLACK: f64 = 0.001;

fn agree(what: &str, a: f64, b: f64, slack: f64) -> Result {
    check!(
        (a - b).abs() <= slack * a.max(b),
        "{what}: {a:.0} ns and {b:.0} ns"
    );
    Ok(())
}

/// GAPP's CMetric divides each moment with an active thread among those that are active: over all
/// threads it is the time with at least one.
fn metric_is_the_active_time(sched: &Sched) -> Result {
    let of_threads: f64 = sched.threads.iter().map(|t| t.cm_ns).sum();
    let of_slices: f64 = sched.slices.iter().map(|s| s.cm_ns).sum();
    let active: u64 = sched.active.iter().skip(1).sum();
    agree(
        "CMetric of threads, time active",
        of_threads,
        active as f64,
        SCHED_SLACK,
    )?;
    agree(
        "CMetric of slices, time active",
        of_slices,
        active as f64,
        SCHED_SLACK,
    )?;
    let of_working: f64 = sched.threads.iter().map(|t| t.cm_working_ns).sum();
    let working: u64 = sched.working.iter().skip(1).sum();
    agree(
        "working CMetric, time working",
        of_working,
        working as f64,
        SCHED_SLACK,
    )
}

/// At every moment some number of threads is active, working and running.
fn parallelism_fills_the_run(sched: &Sched) -> Result {
    let run = sched.end_ns.saturating_sub(sched.start_ns) as f64;
    for (what, times) in [
        ("active", &sched.active),
        ("working", &sched.working),
        ("running", &sched.running),
    ] {
        let sum: u64 = times.iter().sum();
        agree(
            &format!("{what} by number, length of the run"),
            sum as f64,
            run,
            SCHED_SLACK,
        )?;
    }
    Ok(())
}

/// A thread runs, waits for a processor, or is blocked, as long as it is seen.
fn threads_are_somewhere(sched: &Sched) -> Result {
    for t in &sched.threads {
        let sum = t.running_ns + t.delayed_ns + t.preempted_ns + t.blocked_ns;
        let seen = t.end_ns.saturating_sub(t.start_ns);
        agree(
            &format!("states of {:?}, seen", t.thread),
            sum as f64,
            seen as f64,
            SCHED_SLACK,
        )?;
        check!(
            t.spinning_ns <= t.running_ns,
            "{:?} spun {} ns of {} on a processor",
            t.thread,
            t.spinning_ns,
            t.running_ns
        );
    }
    Ok(())
}

/// Threads of a runtime that may wait for one lock when the process ends.
const UNFINISHED: u64 = 4;

fn ratios_are_ratios(stats: &Value) -> Result {
    for key in ["contention_ratio", "waited_ratio"] {
        let value = stats[key].as_f64().unwrap_or(0.0);
        check!((0.0..=1.0).contains(&value), "{key} is {value}");
    }
    let (contended, all) = (
        stats["contended_count"].as_u64(),
        stats["acquisitions_count"].as_u64(),
    );
    let known = stats["contention_ratio"].is_number();
    // A thread that still waits at the end of the process has contended, and not acquired.
    check!(
        !known || contended.unwrap_or(0) <= all.unwrap_or(0) + UNFINISHED,
        "{contended:?} contended of {all:?}"
    );
    Ok(())
}
