//! The scaling curve: speed-ups at other numbers of CPUs and threads.

use std::collections::BTreeMap;

use super::asking::Asking;
use super::Questions;
use crate::analysis::CurvePoint;
use crate::caveat::Caveat;
use crate::program::Program;
use crate::simulated::Simulator;
use crate::whatif::quoted;

impl Asking<'_, '_> {
    /// The points that were asked for, and the reasons of those that there are not.
    pub(super) fn curve(&mut self, questions: &Questions) -> (Vec<CurvePoint>, Vec<Caveat>) {
        let here = self.study.recording.cpus.max(1);
        let cpus = match questions.cpus.as_slice() {
            [] => vec![here],
            asked => asked.to_vec(),
        };
        let threads: Vec<Option<(&str, u32)>> = match &questions.threads {
            Some((group, numbers)) => numbers.iter().map(|n| Some((group.as_str(), *n))).collect(),
            None if questions.cpus.is_empty() => return Default::default(),
            None => vec![None],
        };
        let mut curve = Vec::new();
        let mut missing: BTreeMap<String, usize> = BTreeMap::new();
        for group in threads {
            for &cpus in &cpus {
                match self.point(cpus, group, here) {
                    Ok(point) => curve.push(point),
                    Err(why) => *missing.entry(why).or_default() += 1,
                }
            }
        }
        let missing = missing.into_iter();
        let missing = missing.map(|(why, points)| Caveat::NoPoints(points, why));
        (curve, missing.collect())
    }

    /// `Err` = there is no such point, and why.
    fn point(
        &self,
        cpus: u32,
        group: Option<(&str, u32)>,
        here: u32,
    ) -> Result<CurvePoint, String> {
        let programs = match group {
            Some((group, n)) => {
                let query = format!("threads {}={n}", quoted(group));
                self.change(&query)?.programs
            }
            None => self.programs.to_vec(),
        };
        let mut on = self.simulator.on_cpus(cpus);
        // By the gate, and with the errors of any other answer.
        let recorded = &self.study.fingerprint;
        let answer = self.predictor.ask_other(&mut on, &programs, recorded);
        let saved = answer.saved().ok_or_else(|| answer.reason())?;
        let speedup = |saved: f64| 1.0 / (1.0 - saved).max(f64::EPSILON);
        Ok(CurvePoint {
            cpus,
            threads: group.map(|(_, n)| n),
            speedup: (speedup(saved.low), speedup(saved.mid), speedup(saved.high)),
            limited_by: self.limit_of(&on, &programs, group.map(|(name, _)| name)),
            extrapolated: cpus > here,
        })
    }

    /// What is busy most of the time: all CPUs, the busiest thread of a group, or a lock. `group`:
    /// whose threads are dealt out anew, so that some are in no recording.
    fn limit_of(
        &self,
        on: &Simulator,
        programs: &[Program],
        group: Option<&str>,
    ) -> Option<(String, f64)> {
        let busy = on.utilization(programs)?;
        let mut threads: BTreeMap<&str, f64> = BTreeMap::new();
        for (of_program, names) in busy.threads.iter().zip(self.names) {
            let mut busiest: BTreeMap<&str, f64> = BTreeMap::new();
            for (thread, share) in (0..).zip(of_program) {
                let of = |(_, threads): &&(String, Vec<u32>)| threads.contains(&thread);
                let known = names.groups.iter().find(of).map(|(name, _)| name.as_str());
                if let Some(name) = known.or(group) {
                    let most = busiest.entry(name).or_default();
                    *most = most.max(*share);
                }
            }
            for (name, share) in busiest {
                *threads.entry(name).or_default() += share;
            }
        }
        let locks = (0..)
            .zip(&busy.locks)
            .map(|(lock, share)| (self.lock_name(lock), *share));
        let threads = threads
            .into_iter()
            .map(|(name, share)| (format!("threads of {name}"), share));
        let all = locks
            .chain(threads)
            .chain([("all CPUs".to_owned(), busy.cpus)]);
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
