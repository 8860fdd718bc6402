//! What must hold of every recording, however noisy: times that contain others are not shorter.

use convoy_harness::{check, Result};
use convoy_profile::{ObjectKind, Process};
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
    check!(
        !known || contended <= all,
        "{contended:?} contended of {all:?}"
    );
    Ok(())
}
