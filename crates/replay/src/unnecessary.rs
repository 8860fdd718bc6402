//! Unnecessary lock contention of a recording: counted, taken out, and priced.

use convoy_estimate::Method;

use crate::cost::{fuse, pair_costs, Overall, Regions, ReplayTimes, SectionSpan};
use crate::predict::Replayer;
use crate::program::Program;
use crate::races::{races, Races};
use crate::sets::{Assignment, CodePlace, RunKeys, SectionSets};
use crate::sim::{self, Options, Outcome};
use crate::simulated::Simulator;
use crate::study::Study;
use crate::transform::{ulcp_free, LockPlan, Scheme};
use crate::ulcp::{count, BenignOracle, Classifier, UlcpCounts};

/// What is unnecessary, and what is left without it.
#[derive(Debug)]
pub struct Unnecessary {
    /// Pairs by class, lock and pair of sites.
    pub counts: UlcpCounts,
    /// Sampled sets of the sections.
    pub assignment: Assignment,
    /// The locks that take the place of the recorded ones.
    pub plan: LockPlan,
    /// The ULCP-free program of each replayed window.
    pub free: Vec<Program>,
    /// Code regions, by what they cost (eq. 2). Empty where the simulation did not end.
    pub regions: Regions,
    /// What the removed locks ordered besides their own sections.
    pub races: Races,
    /// T_pd and T_rw, by simulation; `None` where it did not end.
    pub overall: Option<Overall>,
}

/// Finds it. `keys`: the identities of the recorded process.
pub fn unnecessary(
    study: &Study<'_>,
    sets: &SectionSets,
    keys: &RunKeys,
    oracle: &dyn BenignOracle,
    simulator: &Simulator,
) -> Unnecessary {
    const SEED: u64 = 1;
    let assignment = Assignment::draw(study.recording, &study.sections, keys, sets, SEED);
    let mut classifier = Classifier::new(sets, &assignment, oracle);
    let counts = count(&study.sections, &mut classifier);
    let plan = LockPlan::of(&study.sections, &mut classifier, Scheme::ByData);
    let free: Vec<Program> = study
        .extractions
        .iter()
        .map(|e| ulcp_free(&e.program, &plan))
        .collect();
    let programs = study.programs();
    let times = simulated(study, &programs, simulator).zip(simulated(study, &free, simulator));
    let races = races(study.recording, &study.sections, &mut classifier, &plan);
    let mut found = Unnecessary {
        counts,
        races,
        plan,
        free,
        regions: Regions::default(),
        overall: None,
        assignment: Assignment::default(),
    };
    if let Some((original, without)) = times {
        let costs = pair_costs(&study.sections, &mut classifier, &original, &without);
        let place = |site: convoy_trace::SiteIx| -> CodePlace {
            let site = study.recording.sites.get(site as usize);
            let place = site.and_then(|site| keys.places.get(site.frame as usize));
            place.cloned().unwrap_or_default()
        };
        found.regions = fuse(&study.sections, &costs, &place);
        found.overall = Some(Overall::of(&original, &without, &costs));
    }
    found.assignment = assignment;
    found
}

/// When each section runs; windows follow one another. `None` = a window does not end.
fn simulated(
    study: &Study<'_>,
    programs: &[Program],
    simulator: &Simulator,
) -> Option<ReplayTimes> {
    debug_assert_eq!(simulator.method(), Method::ReplaySimulated);
    let unreached = SectionSpan {
        requested_ns: f64::NAN,
        acquired_ns: f64::NAN,
        released_ns: f64::NAN,
    };
    let mut times = ReplayTimes {
        wall_ns: 0.0,
        threads: study.recording.threads.len() as u32,
        sections: vec![unreached; study.sections.all.len()],
    };
    for (number, program) in programs.iter().enumerate() {
        let options = Options {
            sections: true,
            ..simulator.options(number, 1)
        };
        let outcome = sim::run(program, simulator.machine(), &options).ok()?;
        if outcome.stuck.is_some() {
            return None;
        }
        take_over(&outcome, times.wall_ns, &mut times.sections);
        times.wall_ns += outcome.wall_ns;
    }
    Some(times)
}

fn take_over(outcome: &Outcome, since_ns: f64, sections: &mut [SectionSpan]) {
    for (of, section) in sections.iter_mut().zip(&outcome.sections) {
        if section.acquired_ns.is_finite() && section.thread != u32::MAX {
            *of = SectionSpan {
                requested_ns: since_ns + section.requested_ns,
                acquired_ns: since_ns + section.acquired_ns,
                released_ns: since_ns + section.released_ns,
            };
        }
    }
}
