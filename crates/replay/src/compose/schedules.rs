//! The recorded run under each schedule, replayed several times: what figure 13 compares.

use std::sync::Arc;

use convoy_estimate::Method;

use crate::caveat::Caveat;
use crate::predict::{Baseline, Replayer};
use crate::program::Program;
use crate::simulated::{Order, Simulator};
use crate::study::Study;

/// Orders of acquisitions (PerfPlay, CGO'15, section on replay).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Whoever comes first.
    #[default]
    Orig,
    /// As recorded.
    Elsc,
    /// By deterministic logical time.
    Sync,
}

/// Work after which a thread publishes its logical time under [`Schedule::Sync`], nanoseconds: as
/// often as Kendo's threads do with a chunk of some thousand stores.
const LOGICAL_CHUNK_NS: f64 = 2_000.0;

/// Simulated replays of a schedule: more seeds say no more of its spread.
const MOST_SEEDS: u32 = 20;

impl Schedule {
    const ALL: [Self; 3] = [Self::Orig, Self::Elsc, Self::Sync];

    pub(super) fn order(self, study: &Study<'_>) -> Order {
        match self {
            Self::Orig => Order::Free,
            Self::Elsc => Order::Recorded(Arc::new(study.lock_orders())),
            Self::Sync => Order::LogicalTime(LOGICAL_CHUNK_NS),
        }
    }

    /// As rows of figure 13 have it.
    fn label(self, method: Method) -> String {
        let schedule = match self {
            Self::Orig => "orig",
            Self::Elsc => "elsc",
            Self::Sync => "sync",
        };
        match method {
            Method::ReplayNative => format!("{schedule}, native"),
            _ => format!("{schedule}, simulated"),
        }
    }
}

/// Replays under all schedules.
pub(super) struct Schedules {
    simulated: Vec<(Schedule, Simulator)>,
    native: Vec<(Schedule, Box<dyn Replayer>)>,
    seeds: u32,
    refused: Vec<Caveat>,
}

impl Schedules {
    /// `fitted`: the machine's scheduler is like the recorded one.
    pub(super) fn new(
        study: &Study<'_>,
        fitted: &Simulator,
        native: Option<&(dyn Replayer + '_)>,
        times: u32,
    ) -> Self {
        let under = |schedule: Schedule| fitted.clone().with_order(schedule.order(study));
        let simulated = Schedule::ALL.map(|schedule| (schedule, under(schedule)));
        let enforced = simulated
            .iter()
            .filter(|(schedule, _)| *schedule != Schedule::Orig);
        let native = enforced
            .filter_map(|(schedule, simulator)| Some((*schedule, native?.in_order_of(simulator)?)));
        Self {
            native: native.collect(),
            simulated: simulated.into(),
            seeds: times.clamp(1, MOST_SEEDS),
            refused: Vec::new(),
        }
    }

    /// Run times by schedule and method, nanoseconds. `orig`: the recorded run was replayed
    /// natively before, in a free order.
    pub(super) fn replays(
        &mut self,
        programs: &[Program],
        orig: &[Baseline],
    ) -> Vec<(String, Vec<f64>)> {
        let mut rows = Vec::new();
        for (schedule, simulator) in &self.simulated {
            let walls = simulator.repeated(programs, self.seeds);
            let label = schedule.label(simulator.method());
            rows.extend(row(label, walls, &mut self.refused));
        }
        let native = |of: &&Baseline| of.method == Method::ReplayNative;
        if let Some(orig) = orig.iter().find(native) {
            let walls = Ok(orig.replayed_ns.clone());
            rows.extend(row(
                Schedule::Orig.label(orig.method),
                walls,
                &mut self.refused,
            ));
        }
        for (schedule, replayer) in &mut self.native {
            let walls = replayer.replay(programs).map(|runs| runs.walls_ns);
            let label = schedule.label(replayer.method());
            rows.extend(row(label, walls, &mut self.refused));
        }
        rows
    }

    /// Schedules that were not replayed.
    pub(super) fn refused(self) -> Vec<Caveat> {
        self.refused
    }
}

/// A row of those that ended; a limit, if none did.
fn row(
    label: String,
    walls: Result<Vec<f64>, String>,
    refused: &mut Vec<Caveat>,
) -> Option<(String, Vec<f64>)> {
    match walls {
        Ok(mut walls) => {
            walls.retain(|wall| wall.is_finite());
            (!walls.is_empty()).then_some((label, walls))
        }
        Err(why) => {
            refused.push(Caveat::NoSchedule(label, why));
            None
        }
    }
}
