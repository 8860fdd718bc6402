//! Composition of an analysis: what is asked of a study, in which order, and by which method.

mod asking;
mod curve;
mod queries;
mod schedules;
#[cfg(test)]
mod tests;

use self::asking::Asking;
use self::queries::{default_queries, dials, query_names};
pub use self::schedules::Schedule;
use self::schedules::Schedules;
use crate::analysis::{Analysis, WhatIfRow};
use crate::caveat::Caveat;
use crate::compared::{analyzed, unanalyzed};
use crate::lanes;
use crate::limits::limits;
use crate::machine::Machine;
use crate::predict::Replayer;
use crate::rows::{count_pairs, race_rows};
use crate::sets::{RunKeys, SectionSets};
use crate::study::Study;
use crate::tables::Analyzed;
use crate::ulcp::BenignOracle;
use crate::unnecessary::unnecessary;
use crate::whatif::{self, Names, ParseError};

/// What is asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Questions {
    /// Queries; none = the locks of most waits are asked about.
    pub what_ifs: Vec<String>,
    /// Numbers of CPUs to simulate.
    pub cpus: Vec<u32>,
    /// A thread group, and numbers of threads to simulate.
    pub threads: Option<(String, Vec<u32>)>,
    /// Seeds of each variation of the simulation.
    pub times: u32,
    /// The order in which locks are acquired.
    pub schedule: Schedule,
    /// Also replay the recorded run so many times under each schedule, for figure 13.
    pub repeats: Option<u32>,
    /// Also what a page has dials for: the most waited for lock with more shards and shorter
    /// sections, by simulation alone.
    pub dials: bool,
}

/// Read and write sets of the program's critical sections.
pub struct Sets<'a> {
    /// As they were sampled.
    pub sets: &'a SectionSets,
    /// Identities of the recorded process.
    pub keys: &'a RunKeys,
    /// Decides which conflicts are benign.
    pub oracle: &'a dyn BenignOracle,
}

impl std::fmt::Debug for Sets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sets").finish_non_exhaustive()
    }
}

/// Answers the questions about a study. `sets`: `Err` = they are not known, and why. `native`:
/// `None` = predictions are the simulator's alone.
///
/// # Errors
///
/// A query that cannot be read, a group of threads that is not there.
pub fn analyze(
    study: &Study<'_>,
    machine: &Machine,
    sets: Result<Sets<'_>, String>,
    native: Option<Box<dyn Replayer + '_>>,
    questions: &Questions,
) -> Result<Analysis, ParseError> {
    let programs = study.programs();
    let names: Vec<Names> = study
        .extractions
        .iter()
        .map(|e| query_names(study, e))
        .collect();
    for query in &questions.what_ifs {
        names
            .first()
            .map(|names| whatif::parse(query, names))
            .transpose()?;
    }
    if let (Some((group, _)), Some(names)) = (&questions.threads, names.first()) {
        names.group(group)?;
    }
    let times = questions.times.max(1);
    let fitted = study.simulator(machine, &programs, times);
    let simulator = fitted.clone().with_order(questions.schedule.order(study));
    let found = sets
        .as_ref()
        .ok()
        .map(|s| unnecessary(study, s.sets, s.keys, s.oracle, &simulator));
    let mut replayers: Vec<Box<dyn Replayer + '_>> = vec![Box::new(simulator.clone())];
    let mut free: Vec<Box<dyn Replayer + '_>> = vec![Box::new(fitted.clone())];
    let schedules = questions
        .repeats
        .map(|times| Schedules::new(study, &fitted, native.as_deref(), times));
    match (questions.schedule, native) {
        (Schedule::Orig, native) => replayers.extend(native),
        (_, Some(native)) => {
            replayers.extend(native.in_order_of(&simulator));
            free.push(native);
        }
        (_, None) => {}
    }
    let mut asking = Asking {
        study,
        machine,
        programs: &programs,
        names: &names,
        sets: sets
            .as_ref()
            .ok()
            .zip(found.as_ref())
            .map(|(s, f)| (s.sets, &f.assignment)),
        simulator: &simulator,
        predictor: study.predictor(replayers, &programs),
    };
    let mut orig = asking.predictor.baselines().to_vec();
    if questions.schedule != Schedule::Orig {
        // The recorded run had no enforced order: only ORIG can be compared with it.
        let free = study.predictor(free, &programs);
        asking.predictor.trust_as(free.baselines());
        orig = free.baselines().to_vec();
    }
    let mut locks = study.locks();
    let mut analysis = Analysis {
        recorded: study.recorded(),
        ..Analysis::default()
    };
    let known = sets.as_ref().ok().map(|s| (s.sets, s.keys));
    analysis.caveats = limits(study, &locks, known);
    match (&found, sets) {
        (Some(found), Ok(sets)) => {
            count_pairs(found, &mut locks, &mut analysis.ulcp);
            analysis.ulcp.races = race_rows(study, found, sets.sets);
            analysis.ulcp_free = Some(asking.predictor.ask(&found.free));
            analysis.regions = asking.regions(found);
        }
        (_, Err(why)) => analysis.ulcp.unknown_because = Some(why),
        (None, Ok(_)) => {}
    }
    let queries = match questions.what_ifs.as_slice() {
        [] => default_queries(study, &locks),
        asked => asked.to_vec(),
    };
    let rows = queries.iter().filter_map(|q| asking.row(q));
    let is_asked = !questions.what_ifs.is_empty();
    analysis.what_ifs = rows.map(|row| WhatIfRow { is_asked, ..row }).collect();
    if questions.dials {
        let more = dials(study, &locks);
        let asked = |q: &String| !queries.contains(q);
        let rows = more
            .iter()
            .filter(|q| asked(q))
            .filter_map(|q| asking.dialled(q));
        analysis.what_ifs.extend(rows.collect::<Vec<_>>());
    }
    analysis.plan = asking.plan(&locks);
    let (curve, missing) = asking.curve(questions);
    analysis.curve = curve;
    analysis.caveats.extend(missing);
    if analysis.curve.iter().any(|point| point.extrapolated) {
        let beyond =
            "The scaling curve goes beyond the CPUs of this machine: measure there before \
                      you rely on it.";
        analysis.caveats.push(Caveat::Other(beyond.into()));
    }
    let free = found.as_ref().map_or(&[][..], |found| &found.free);
    analysis.lanes = lanes::lanes(study, &locks, free, &simulator);
    analysis.baselines = asking.predictor.baselines().to_vec();
    let mut own = match &found {
        Some(found) => analyzed(study, found, &analysis.baselines),
        None => unanalyzed(study),
    };
    if let Some(mut schedules) = schedules {
        // After all others: native replays together have a limit.
        own.replays = schedules.replays(study.as_recorded(&programs), &orig);
        analysis.caveats.extend(schedules.refused());
    }
    analysis.compared.push(own);
    analysis.locks = locks.into_iter().map(|(_, row)| row).collect();
    Ok(analysis)
}

/// Another recording of the program, for comparison: its unnecessary contention, by simulation
/// alone. `sets`: `None` = they are not known.
pub fn compare(study: &Study<'_>, machine: &Machine, sets: Option<&Sets<'_>>) -> Analyzed {
    let programs = study.programs();
    let simulator = study.simulator(machine, &programs, 1);
    let found = sets.map(|s| unnecessary(study, s.sets, s.keys, s.oracle, &simulator));
    let replayers: Vec<Box<dyn Replayer>> = vec![Box::new(simulator)];
    let predictor = study.predictor(replayers, &programs);
    match found {
        Some(found) => analyzed(study, &found, predictor.baselines()),
        None => unanalyzed(study),
    }
}
