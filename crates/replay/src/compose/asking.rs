//! Answers about changes of a study's programs.

use std::collections::BTreeMap;

use convoy_trace::ObjectIx;

use super::queries::{fix_of, waited};
use crate::analysis::{LockRow, PlanRow, Region, SourceLine, WhatIfRow};
use crate::cost::RegionPair;
use crate::machine::Machine;
use crate::plan::plan;
use crate::predict::{Answer, Predictor};
use crate::program::{LockIx, Program};
use crate::rows::{class_id, places, source_lines};
use crate::sets::{Assignment, SectionSets};
use crate::simulated::Simulator;
use crate::study::Study;
use crate::unnecessary::Unnecessary;
use crate::whatif::{self, quoted, Knowledge, Names, WhatIf};

/// Regions that are shown, at most.
const MOST_REGIONS: usize = 5;
/// A step of the plan must save this share more than the one before it.
const WORTH: f64 = 0.02;

/// Asks the replays about changes of the study's programs.
pub(super) struct Asking<'a, 'p> {
    pub(super) study: &'a Study<'a>,
    pub(super) machine: &'a Machine,
    pub(super) programs: &'a [Program],
    pub(super) names: &'a [Names],
    pub(super) sets: Option<(&'a SectionSets, &'a Assignment)>,
    pub(super) simulator: &'a Simulator,
    pub(super) predictor: Predictor<'p>,
}

/// The changed programs, with what the reader has to know of them.
pub(super) struct Changed {
    pub(super) programs: Vec<Program>,
    cpus: Option<u32>,
    notes: Vec<String>,
}

impl Asking<'_, '_> {
    /// Every window's program, changed. `Err` = it cannot be, and why.
    pub(super) fn change(&self, query: &str) -> Result<Changed, String> {
        let mut changed = Changed {
            programs: Vec::new(),
            cpus: None,
            notes: Vec::new(),
        };
        let knowledge = Knowledge {
            machine: self.machine,
            sets: self.sets,
            seed: 1,
        };
        for (program, names) in self.programs.iter().zip(self.names) {
            let what_ifs = whatif::parse(query, names).map_err(|e| e.to_string())?;
            let applied =
                whatif::apply(program, &what_ifs, &knowledge).map_err(|e| e.to_string())?;
            changed.programs.push(applied.program);
            changed.cpus = applied.cpus.or(changed.cpus);
            for note in applied.notes {
                let text = note.to_string();
                if !changed.notes.contains(&text) {
                    changed.notes.push(text);
                }
            }
        }
        Ok(changed)
    }

    pub(super) fn ask(&mut self, query: &str) -> (Answer, Vec<String>) {
        match self.change(query) {
            Ok(changed) => (self.ask_changed(&changed), changed.notes),
            Err(why) => {
                let baselines = self.predictor.baselines().iter();
                let refused = baselines.map(|b| (b.method, why.clone())).collect();
                let answer = Answer {
                    refused,
                    ..Answer::default()
                };
                (answer, Vec::new())
            }
        }
    }

    fn ask_changed(&mut self, changed: &Changed) -> Answer {
        match changed.cpus {
            // Only the simulator has other CPUs than this machine.
            Some(cpus) => {
                let recorded = &self.study.fingerprint;
                let mut other = self.simulator.on_cpus(cpus);
                self.predictor
                    .ask_other(&mut other, &changed.programs, recorded)
            }
            None => self.predictor.ask(&changed.programs),
        }
    }

    pub(super) fn row(&mut self, query: &str) -> Option<WhatIfRow> {
        let answer = self.ask(query);
        self.answered(query, answer)
    }

    /// The simulator's answer alone.
    pub(super) fn dialled(&mut self, query: &str) -> Option<WhatIfRow> {
        let changed = self.change(query).ok()?;
        let recorded = &self.study.fingerprint;
        let mut simulator = self.simulator.clone();
        let answer = self
            .predictor
            .ask_other(&mut simulator, &changed.programs, recorded);
        self.answered(query, (answer, changed.notes))
    }

    fn answered(&self, query: &str, (answer, notes): (Answer, Vec<String>)) -> Option<WhatIfRow> {
        let what_ifs = whatif::parse(query, self.names.first()?).ok()?;
        let titles: Vec<String> = what_ifs.iter().map(WhatIf::description).collect();
        let mut assumptions: Vec<String> =
            what_ifs.iter().map(|w| w.assumption().to_owned()).collect();
        assumptions.extend(notes);
        Some(WhatIfRow {
            query: query.to_owned(),
            title: titles.join(" "),
            assumption: assumptions.join("; "),
            answer,
            verified: None,
            is_asked: false,
        })
    }

    pub(super) fn plan(&mut self, locks: &[(ObjectIx, LockRow)]) -> Vec<PlanRow> {
        const MOST: usize = 4;
        let queries: Vec<String> = waited(self.study, locks)
            .take(MOST)
            .map(|row| format!("remove {}", quoted(&row.name)))
            .collect();
        if queries.len() < 2 || !self.predictor.is_open() {
            return Vec::new();
        }
        let together = |fixes: &[usize]| {
            let parts: Vec<&str> = fixes.iter().map(|fix| queries[*fix].as_str()).collect();
            parts.join(" + ")
        };
        let steps = plan(queries.len(), WORTH, |fixes| {
            let changed = self.change(&together(fixes));
            changed.map_or(0.0, |changed| self.predictor.quick(&changed.programs))
        });
        let mut chosen: Vec<usize> = Vec::new();
        let mut rows = Vec::new();
        for step in steps {
            let limited_by = match chosen.as_slice() {
                [] => String::new(),
                before => self.limit(&together(before)).unwrap_or_default(),
            };
            chosen.extend(&step.fixes);
            rows.push(PlanRow {
                queries: step.fixes.iter().map(|fix| queries[*fix].clone()).collect(),
                answer: self.ask(&together(&chosen)).0,
                alone: step.alone,
                limited_by,
            });
        }
        rows
    }

    /// The lock of most waits once a change is made.
    fn limit(&self, query: &str) -> Option<String> {
        let changed = self.change(query).ok()?;
        let waits = self.simulator.lock_waits(&changed.programs)?;
        let (lock, waited) = waits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (waited > 0.0).then(|| self.lock_name(lock))
    }

    pub(super) fn lock_name(&self, lock: LockIx) -> String {
        let objects = self.study.extractions.first().map(|e| &e.objects);
        let object = objects.and_then(|objects| objects.recorded(lock));
        object.map_or_else(String::new, |object| self.study.object_name(object))
    }

    pub(super) fn regions(&mut self, found: &Unnecessary) -> Vec<Region> {
        let pairs = found.regions.pairs.iter().filter(|pair| pair.p > 0.0);
        let mut answers: BTreeMap<String, Answer> = BTreeMap::new();
        let shown: Vec<&RegionPair> = pairs.take(MOST_REGIONS).collect();
        shown
            .into_iter()
            .map(|pair| {
                let lock = pair
                    .locks
                    .first()
                    .map_or_else(String::new, |lock| self.study.object_name(*lock));
                let class = pair.cost.kind();
                let query = fix_of(class, &lock);
                let answer = match answers.get(&query) {
                    Some(answer) => answer.clone(),
                    None => self.ask(&query).0,
                };
                answers.insert(query.clone(), answer.clone());
                Region {
                    lock,
                    sites: places(found, pair),
                    kind: class_id(class),
                    pairs: pair.cost.pairs,
                    p: pair.p,
                    answer,
                    query,
                    fix: String::new(),
                    source: self.source(found, pair),
                }
            })
            .collect()
    }

    fn source(&self, found: &Unnecessary, pair: &RegionPair) -> Vec<SourceLine> {
        let region = found.regions.regions.get(pair.regions.0);
        let known = self.sets.zip(region);
        known.map_or_else(Vec::new, |((sets, _), region)| source_lines(sets, region))
    }
}
