//! A calibrated machine as text: one `name=value` a line, for profiles and for other processes.

use std::fmt::Write;

use convoy_replay::extract::Empty;
use convoy_replay::machine::{Machine, WakeLatency};

/// Why a text is not a calibrated machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not `name=value`, or not a non-negative number.
    #[error("line {0} of the calibration is not a name and a non-negative number")]
    Line(usize),
    /// A cost is missing: the text was cut, or another version wrote it.
    #[error("the calibration lacks {0}: calibrate again")]
    Missing(&'static str),
}

const CPUS: &str = "cpus";
const WAKE_LATENCY: &str = "wake_latency";
const EMPTY_SECTION: &str = "empty_section_ns";
const EMPTY_GAP: &str = "empty_gap_ns";

/// Every single cost with its name.
pub(super) fn scalars(machine: &Machine) -> [(&'static str, f64); 15] {
    [
        ("atomic_local_ns", machine.atomic_local_ns),
        ("atomic_remote_ns", machine.atomic_remote_ns),
        ("lock_pair_ns", machine.lock_pair_ns),
        ("rdlock_pair_ns", machine.rdlock_pair_ns),
        ("futex_check_ns", machine.futex_check_ns),
        ("futex_eagain_ns", machine.futex_eagain_ns),
        ("futex_block_ns", machine.futex_block_ns),
        ("futex_wake_none_ns", machine.futex_wake_none_ns),
        ("futex_wake_ns", machine.futex_wake_ns),
        ("futex_wake_ipi_ns", machine.futex_wake_ipi_ns),
        ("switch_ns", machine.switch_ns),
        ("tick_ns", machine.tick_ns),
        ("slice_ns", machine.slice_ns),
        ("spawn_ns", machine.spawn_ns),
        ("clock_ns", machine.clock_ns),
    ]
}

/// A machine as text. [`from_text`] gives back exactly the same.
pub fn to_text(machine: &Machine) -> String {
    let mut text = format!("{CPUS}={}\n", machine.cpus);
    // Writing to a string does not fail.
    for (name, value) in scalars(machine) {
        let _ = writeln!(text, "{name}={value}");
    }
    for row in &machine.wake_latency {
        let _ = writeln!(
            text,
            "{WAKE_LATENCY}={} {} {} {} {}",
            row.idle_ns, row.p10_ns, row.p50_ns, row.p90_ns, row.ipi_share
        );
    }
    text
}

/// What the recorder made of nothing, as text for the same profile.
pub fn empty_to_text(empty: &Empty) -> String {
    let Empty { section_ns, gap_ns } = empty;
    format!("{EMPTY_SECTION}={section_ns}\n{EMPTY_GAP}={gap_ns}\n")
}

/// Reads what [`empty_to_text`] wrote; `None` = it is not there.
pub fn empty_from_text(text: &str) -> Option<Empty> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        cost(lines.find(|(known, _)| *known == name)?.1)
    };
    Some(Empty {
        section_ns: value(EMPTY_SECTION)?,
        gap_ns: value(EMPTY_GAP)?,
    })
}

/// Reads what [`to_text`] wrote. Names that it does not know are skipped.
///
/// # Errors
///
/// A line that is no name and number, or a cost that is missing.
pub fn from_text(text: &str) -> Result<Machine, ParseError> {
    let mut values: Vec<(&str, f64)> = Vec::new();
    let mut wake_latency = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let bad = || ParseError::Line(number + 1);
        let (name, value) = line.split_once('=').ok_or_else(bad)?;
        if name == WAKE_LATENCY {
            let row: Option<Vec<f64>> = value.split(' ').map(cost).collect();
            wake_latency.push(row.as_deref().and_then(latency).ok_or_else(bad)?);
        } else {
            values.push((name, cost(value).ok_or_else(bad)?));
        }
    }
    if wake_latency.is_empty() {
        return Err(ParseError::Missing(WAKE_LATENCY));
    }
    wake_latency.sort_by(|a, b| a.idle_ns.total_cmp(&b.idle_ns));
    let get = |name: &'static str| {
        let found = values.iter().find(|(known, _)| *known == name);
        found
            .map(|&(_, value)| value)
            .ok_or(ParseError::Missing(name))
    };
    Ok(Machine {
        cpus: get(CPUS)? as u32,
        atomic_local_ns: get("atomic_local_ns")?,
        atomic_remote_ns: get("atomic_remote_ns")?,
        lock_pair_ns: get("lock_pair_ns")?,
        rdlock_pair_ns: get("rdlock_pair_ns")?,
        futex_check_ns: get("futex_check_ns")?,
        futex_eagain_ns: get("futex_eagain_ns")?,
        futex_block_ns: get("futex_block_ns")?,
        futex_wake_none_ns: get("futex_wake_none_ns")?,
        futex_wake_ns: get("futex_wake_ns")?,
        futex_wake_ipi_ns: get("futex_wake_ipi_ns")?,
        switch_ns: get("switch_ns")?,
        tick_ns: get("tick_ns")?,
        slice_ns: get("slice_ns")?,
        spawn_ns: get("spawn_ns")?,
        clock_ns: get("clock_ns")?,
        wake_latency,
    })
}

fn cost(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

fn latency(row: &[f64]) -> Option<WakeLatency> {
    let &[idle_ns, p10_ns, p50_ns, p90_ns, ipi_share] = row else {
        return None;
    };
    Some(WakeLatency {
        idle_ns,
        p10_ns,
        p50_ns,
        p90_ns,
        ipi_share,
    })
}

#[cfg(test)]
pub(super) fn example() -> Machine {
    let row = |idle_ns: f64| WakeLatency {
        idle_ns,
        p10_ns: 2700.25,
        p50_ns: 3000.1,
        p90_ns: 3200.0,
        ipi_share: 0.3,
    };
    Machine {
        cpus: 2,
        atomic_local_ns: 5.1,
        atomic_remote_ns: 17.0,
        lock_pair_ns: 12.3,
        rdlock_pair_ns: 22.2,
        futex_check_ns: 220.0,
        futex_eagain_ns: 330.0,
        futex_block_ns: 900.0,
        futex_wake_none_ns: 290.0,
        futex_wake_ns: 900.0,
        futex_wake_ipi_ns: 9000.0,
        switch_ns: 1200.0,
        tick_ns: 4e6,
        slice_ns: 3e6,
        wake_latency: vec![row(0.0), row(20_000.0)],
        spawn_ns: 30_000.0,
        clock_ns: 10.0 / 3.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gives_back_the_same_machine() {
        let machine = example();
        assert_eq!(from_text(&to_text(&machine)), Ok(machine));
    }

    #[test]
    fn unknown_names_are_skipped_and_missing_ones_named() {
        let text = to_text(&example());
        assert_eq!(from_text(&format!("{text}new_cost_ns=1\n")), Ok(example()));
        let cut = text.replace("switch_ns=1200\n", "");
        assert_eq!(from_text(&cut), Err(ParseError::Missing("switch_ns")));
        assert_eq!(from_text(""), Err(ParseError::Missing("wake_latency")));
    }

    #[test]
    fn what_the_recorder_made_of_nothing_is_beside_the_costs() {
        let empty = Empty {
            section_ns: 13.5,
            gap_ns: 61.0,
        };
        let text = to_text(&example()) + &empty_to_text(&empty);
        assert_eq!(empty_from_text(&text), Some(empty));
        assert_eq!(from_text(&text), Ok(example()));
        assert_eq!(empty_from_text(&to_text(&example())), None);
    }

    #[test]
    fn rejects_lines_that_are_no_costs() {
        for line in ["cpus", "cpus=-1", "cpus=NaN", "cpus=x", "wake_latency=1 2"] {
            assert_eq!(from_text(line), Err(ParseError::Line(1)), "{line}");
        }
    }
}
