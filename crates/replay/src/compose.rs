//! Composition of an analysis: what is asked of a study, in which order, and by which method.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_trace::ObjectIx;

use crate::analysis::{Analysis, CurvePoint, LockRow, PlanRow, Region, SourceLine, WhatIfRow};
use crate::caveat::Caveat;
use crate::compared::analyzed;
use crate::cost::RegionPair;
use crate::lanes;
use crate::limits::limits;
use crate::machine::Machine;
use crate::plan::plan;
use crate::predict::{Answer, Predictor, Replayer};
use crate::program::{LockIx, Program};
use crate::rows::{class_id, count_pairs, places, race_rows, source_lines};
use crate::sets::{Assignment, RunKeys, SectionSets};
use crate::simulated::{Order, Simulator};
use crate::study::Study;
use crate::tables::Analyzed;
use crate::ulcp::{BenignOracle, Class};
use crate::unnecessary::{unnecessary, Unnecessary};
use crate::whatif::{self, Knowledge, Names, ParseError, WhatIf};

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
    /// Also replay the recorded run under each schedule, for figure 13.
    pub all_schedules: bool,
    /// Also what a page has dials for: the most waited for lock with more shards and shorter
    /// sections, by simulation alone.
    pub dials: bool,
}

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

/// Work after which a thread publishes its logical time under [`Schedule::Sync`], nanoseconds: as often as
/// Kendo's threads do with a chunk of some thousand stores.
const LOGICAL_CHUNK_NS: f64 = 2_000.0;

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

/// Locks that are asked about without having been named, at most.
const MOST_LOCKS: usize = 3;
/// ... if their waits are at least this share of the threads' time.
const MIN_WAIT_SHARE: f64 = 0.01;
/// Regions that are shown, at most.
const MOST_REGIONS: usize = 5;
/// Parts into which a lock is divided where nobody asked for a number: more than most machines' threads
/// need to seldom meet.
const SHARDS: u32 = 8;
/// A step of the plan must save this share more than the one before it.
const WORTH: f64 = 0.02;
/// A lock is worth a reader-writer lock if this share of its pairs only read.
const READ_SHARE: f64 = 0.3;

/// Answers the questions about a study. `sets`: `Err` = they are not known, and why. `native`: `None` =
/// predictions are the simulator's alone.
///
/// # Errors
///
/// A query that cannot be read.
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
    let times = questions.times.max(1);
    let simulator = Simulator::fitted(machine, &programs, &study.fingerprint, times);
    let simulator = simulator.with_order(match questions.schedule {
        Schedule::Orig => Order::Free,
        Schedule::Elsc => Order::Recorded(Arc::new(study.lock_orders())),
        Schedule::Sync => Order::LogicalTime(LOGICAL_CHUNK_NS),
    });
    let found = sets
        .as_ref()
        .ok()
        .map(|s| unnecessary(study, s.sets, s.keys, s.oracle, &simulator));
    let mut replayers: Vec<Box<dyn Replayer + '_>> = vec![Box::new(simulator.clone())];
    replayers.extend(native);
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
        [] => asking.default_queries(&locks),
        asked => asked.to_vec(),
    };
    analysis.what_ifs = queries.iter().filter_map(|q| asking.row(q)).collect();
    if questions.dials {
        let more = asking.dials(&locks);
        let asked = |q: &String| !queries.contains(q);
        let rows = more
            .iter()
            .filter(|q| asked(q))
            .filter_map(|q| asking.dialled(q));
        analysis.what_ifs.extend(rows.collect::<Vec<_>>());
    }
    analysis.plan = asking.plan(&locks);
    analysis.curve = asking.curve(questions);
    if analysis.curve.iter().any(|point| point.extrapolated) {
        let beyond = "the scaling curve goes beyond the CPUs of this machine: it is computed, \
                      not measured";
        analysis.caveats.push(Caveat::Other(beyond.into()));
    }
    let free = found.as_ref().map_or(&[][..], |found| &found.free);
    analysis.lanes = lanes::lanes(study, &locks, free, &simulator);
    analysis.baselines = asking.predictor.baselines().to_vec();
    let rows = found
        .iter()
        .map(|found| analyzed(study, found, &analysis.baselines));
    analysis.compared = rows.collect();
    if questions.all_schedules {
        if let Some(of) = analysis.compared.first_mut() {
            of.replays
                .extend(under_all_schedules(study, &simulator, &programs));
        }
    }
    analysis.locks = locks.into_iter().map(|(_, row)| row).collect();
    Ok(analysis)
}

/// Run times of the recorded run with enforced orders of acquisitions.
fn under_all_schedules(
    study: &Study<'_>,
    simulator: &Simulator,
    programs: &[Program],
) -> Vec<(String, Vec<f64>)> {
    let orders = [
        (
            "elsc, simulated",
            Order::Recorded(Arc::new(study.lock_orders())),
        ),
        ("sync, simulated", Order::LogicalTime(LOGICAL_CHUNK_NS)),
    ];
    let replayed = orders.into_iter().filter_map(|(name, order)| {
        let mut under = simulator.clone().with_order(order);
        let mut walls = under.replay(programs).ok()?.walls_ns;
        walls.retain(|wall| wall.is_finite());
        Some((name.to_owned(), walls))
    });
    replayed.collect()
}

/// Asks the replays about changes of the study's programs.
struct Asking<'a, 'p> {
    study: &'a Study<'a>,
    machine: &'a Machine,
    programs: &'a [Program],
    names: &'a [Names],
    sets: Option<(&'a SectionSets, &'a Assignment)>,
    simulator: &'a Simulator,
    predictor: Predictor<'p>,
}

/// The changed programs, with what the reader has to know of them.
struct Changed {
    programs: Vec<Program>,
    cpus: Option<u32>,
    notes: Vec<String>,
}

impl Asking<'_, '_> {
    /// Every window's program, changed. `Err` = it cannot be, and why.
    fn change(&self, query: &str) -> Result<Changed, String> {
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

    fn ask(&mut self, query: &str) -> (Answer, Vec<String>) {
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

    fn row(&mut self, query: &str) -> Option<WhatIfRow> {
        let answer = self.ask(query);
        self.answered(query, answer)
    }

    /// Queries of the most waited for lock that differ in one number.
    fn dials(&self, locks: &[(ObjectIx, LockRow)]) -> Vec<String> {
        const SHARDS: [u32; 4] = [2, 4, 8, 16];
        const SHORTER: [u32; 3] = [25, 50, 75];
        let Some(row) = self.waited(locks).next() else {
            return Vec::new();
        };
        let lock = quoted(&row.name);
        let shards = SHARDS.iter().map(|ways| format!("{lock} / {ways}"));
        let shorter = SHORTER
            .iter()
            .map(|share| format!("shorten {lock} {share}%"));
        shards.chain(shorter).collect()
    }

    /// The simulator's answer alone.
    fn dialled(&mut self, query: &str) -> Option<WhatIfRow> {
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
        })
    }

    /// Locks with waits that are worth asking about.
    fn waited<'r>(&self, locks: &'r [(ObjectIx, LockRow)]) -> impl Iterator<Item = &'r LockRow> {
        let thread_ns: f64 = self
            .study
            .extractions
            .iter()
            .map(|e| e.opaque.thread_ns)
            .sum();
        let rows = locks.iter().map(|(_, row)| row);
        rows.filter(move |row| row.waited_ns >= MIN_WAIT_SHARE * thread_ns && row.threads > 1)
    }

    fn default_queries(&self, locks: &[(ObjectIx, LockRow)]) -> Vec<String> {
        let mut queries = Vec::new();
        for row in self.waited(locks).take(MOST_LOCKS) {
            let lock = quoted(&row.name);
            queries.push(format!("remove {lock}"));
            queries.push(format!("{lock} / {SHARDS}"));
            queries.push(format!("shorten {lock} 50%"));
            let reads = row
                .ulcp
                .map_or(0.0, |c| c.read_read as f64 / c.pairs().max(1) as f64);
            if reads >= READ_SHARE {
                queries.push(format!("rwlock {lock}"));
            }
        }
        queries
    }

    fn plan(&mut self, locks: &[(ObjectIx, LockRow)]) -> Vec<PlanRow> {
        const MOST: usize = 4;
        let queries: Vec<String> = self
            .waited(locks)
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

    fn lock_name(&self, lock: LockIx) -> String {
        let objects = self.study.extractions.first().map(|e| &e.objects);
        let object = objects.and_then(|objects| objects.recorded(lock));
        object.map_or_else(String::new, |object| self.study.object_name(object))
    }

    fn regions(&mut self, found: &Unnecessary) -> Vec<Region> {
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

    fn curve(&mut self, questions: &Questions) -> Vec<CurvePoint> {
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

/// What queries may name in one window's program.
fn query_names(study: &Study<'_>, extraction: &crate::extract::Extraction) -> Names {
    let mut locks: BTreeMap<String, Vec<LockIx>> = BTreeMap::new();
    for (lock, of) in extraction.program.locks.iter().enumerate() {
        let name = study.object_name(of.recorded);
        locks.entry(name).or_default().push(lock as LockIx);
    }
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (thread, of) in extraction.program.threads.iter().enumerate() {
        if let Some(group) = study.names.groups.get(of.recorded as usize) {
            groups.entry(group.clone()).or_default().push(thread as u32);
        }
    }
    Names {
        locks: locks.into_iter().collect(),
        groups: groups.into_iter().collect(),
    }
}

/// A name as a query may have it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_.+:-[]".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{name}\"")
    }
}

/// The what-if that each class of unnecessary contention calls for.
fn fix_of(class: Class, lock: &str) -> String {
    let lock = quoted(lock);
    match class {
        Class::ReadRead => format!("rwlock {lock}"),
        Class::DisjointWrite => format!("{lock} / {SHARDS}"),
        _ => format!("remove {lock}"),
    }
}

/// Another recording of the program, for comparison: its unnecessary contention, by simulation
/// alone. `sets`: `None` = they are not known.
pub fn compare(study: &Study<'_>, machine: &Machine, sets: Option<&Sets<'_>>) -> Analyzed {
    let programs = study.programs();
    let simulator = Simulator::fitted(machine, &programs, &study.fingerprint, 1);
    let found = sets.map(|s| unnecessary(study, s.sets, s.keys, s.oracle, &simulator));
    let replayers: Vec<Box<dyn Replayer>> = vec![Box::new(simulator)];
    let predictor = study.predictor(replayers, &programs);
    match found {
        Some(found) => analyzed(study, &found, predictor.baselines()),
        None => Analyzed {
            threads: study.recorded().threads as u32,
            recorded_ns: study.recorded().replayed_ns,
            ..Analyzed::default()
        },
    }
}
