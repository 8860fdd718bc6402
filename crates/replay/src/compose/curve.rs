//! The scaling curve: speed-ups at other numbers of CPUs and threads.

use super::asking::Asking;
use super::queries::quoted;
use super::Questions;
use crate::analysis::CurvePoint;

impl Asking<'_, '_> {
    pub(super) fn curve(&mut self, questions: &Questions) -> Vec<CurvePoint> {
        let here = self.study.recording.cpus.max(1);
        let cpus = match questions.cpus.as_slice() {
            [] => vec![here],
            asked => asked.to_vec(),
        };
        let threads: Vec<Option<(&str, u32)>> = match &questions.threads {
            Some((group, numbers)) => numbers.iter().map(|n| Some((group.as_str(), *n))).collect(),
            None if questions.cpus.is_empty() => return Vec::new(),
            None => vec![None],
        };
        let mut curve = Vec::new();
        for group in threads {
            for &cpus in &cpus {
                curve.extend(self.point(cpus, group, here));
            }
        }
        curve
    }

    fn point(&self, cpus: u32, group: Option<(&str, u32)>, here: u32) -> Option<CurvePoint> {
        let programs = match group {
            Some((group, n)) => {
                let query = format!("threads {}={n}", quoted(group));
                self.change(&query).ok()?.programs
            }
            None => self.programs.to_vec(),
        };
        let on = self.simulator.on_cpus(cpus);
        let base = self.simulator.wall_range(self.programs)?;
        let wall = on.wall_range(&programs)?;
        Some(CurvePoint {
            cpus,
            threads: group.map(|(_, n)| n),
            speedup: (
                base.mid / wall.high,
                base.mid / wall.mid,
                base.mid / wall.low,
            ),
            limited_by: on
                .busiest_lock(&programs)
                .map(|(lock, share)| (self.lock_name(lock), share)),
            extrapolated: cpus > here,
        })
    }
}
