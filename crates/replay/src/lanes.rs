//! Lanes: what every thread did when, in the recording and without unnecessary contention.

use std::collections::HashMap;

use convoy_trace::ObjectIx;

use crate::analysis::{Doing, Lane, Lanes, LockRow};
use crate::program::Program;
use crate::sim::{self, Options};
use crate::simulated::Simulator;
use crate::study::Study;

/// Intervals of a lane at most: more cannot be told apart on a page.
const MOST_INTERVALS: usize = 2_000;

/// The first replayed window as lanes: recorded, replayed, and without unnecessary contention. `free`: the
/// ULCP-free programs, none = sets are not known.
pub(crate) fn lanes(
    study: &Study<'_>,
    locks: &[(ObjectIx, LockRow)],
    free: &[Program],
    simulator: &Simulator,
) -> Vec<Lanes> {
    let Some((extraction, window)) = study.extractions.first().zip(study.windows.first()) else {
        return Vec::new();
    };
    let row_of: HashMap<ObjectIx, u32> = locks
        .iter()
        .enumerate()
        .map(|(row, (object, _))| (*object, row as u32))
        .collect();
    let mut all = vec![recorded(study, *window, &row_of)];
    all.extend(simulated(
        "replayed",
        study,
        &extraction.program,
        &row_of,
        simulator,
    ));
    if let Some(free) = free.first() {
        let title = "without unnecessary contention";
        all.extend(simulated(title, study, free, &row_of, simulator));
    }
    all
}

fn recorded(study: &Study<'_>, window: u32, row_of: &HashMap<ObjectIx, u32>) -> Lanes {
    let bounds = study.recording.windows[window as usize];
    let mut threads: Vec<Lane> = study
        .names
        .threads
        .iter()
        .map(|name| Lane {
            thread: name.clone(),
            intervals: Vec::new(),
        })
        .collect();
    let since = |at_ns: u64| at_ns.saturating_sub(bounds.start_ns) as f64;
    for section in study.sections.all.iter().filter(|s| s.window == window) {
        let (Some(lane), Some(row)) = (
            threads.get_mut(section.thread as usize),
            row_of.get(&section.lock),
        ) else {
            continue;
        };
        let times = [
            section.requested_ns,
            section.acquired_ns,
            section.released_ns,
        ]
        .map(since);
        push(lane, times, *row);
    }
    finish(
        "recorded",
        bounds.end_ns.saturating_sub(bounds.start_ns) as f64,
        threads,
    )
}

fn simulated(
    title: &str,
    study: &Study<'_>,
    program: &Program,
    row_of: &HashMap<ObjectIx, u32>,
    simulator: &Simulator,
) -> Option<Lanes> {
    let options = Options {
        sections: true,
        ..simulator.options(0, 1)
    };
    let outcome = sim::run(program, simulator.machine(), &options).ok()?;
    if outcome.stuck.is_some() {
        return None;
    }
    let mut threads: Vec<Lane> = program
        .threads
        .iter()
        .map(|thread| Lane {
            thread: study
                .names
                .threads
                .get(thread.recorded as usize)
                .cloned()
                .unwrap_or_default(),
            intervals: Vec::new(),
        })
        .collect();
    for section in &outcome.sections {
        let lock = program.locks.get(section.lock as usize);
        let row = lock.and_then(|lock| row_of.get(&lock.recorded));
        let (Some(lane), Some(row)) = (threads.get_mut(section.thread as usize), row) else {
            continue;
        };
        push(
            lane,
            [
                section.requested_ns,
                section.acquired_ns,
                section.released_ns,
            ],
            *row,
        );
    }
    for lane in &mut threads {
        lane.intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Some(finish(title, outcome.wall_ns, threads))
}

fn push(lane: &mut Lane, [requested, acquired, released]: [f64; 3], row: u32) {
    if acquired > requested {
        lane.intervals
            .push((requested, acquired, Doing::Waits(row)));
    }
    if released > acquired {
        lane.intervals
            .push((acquired, released, Doing::Section(row)));
    }
}

/// Lanes of threads that do something, disjoint and cut to what a page can show.
fn finish(title: &str, length_ns: f64, mut threads: Vec<Lane>) -> Lanes {
    for lane in &mut threads {
        // A section inside of another one is part of it here.
        let mut end = 0.0;
        lane.intervals.retain(|(from, to, _)| {
            let keep = *from >= end;
            if keep {
                end = *to;
            }
            keep
        });
        lane.intervals.truncate(MOST_INTERVALS);
    }
    threads.retain(|lane| !lane.intervals.is_empty());
    // All lanes end where the first one is cut, so that they can be compared.
    let cut = threads
        .iter()
        .filter(|lane| lane.intervals.len() == MOST_INTERVALS)
        .filter_map(|lane| lane.intervals.last())
        .map(|(_, to, _)| *to)
        .fold(length_ns, f64::min);
    for lane in &mut threads {
        lane.intervals.retain(|(from, ..)| *from < cut);
    }
    Lanes {
        title: title.to_owned(),
        length_ns: cut,
        threads,
    }
}
