//! Findings narrowed by the trace of their profile: what a simulated replay says of the change that
//! each calls for.

use std::collections::BTreeSet;

use convoy_analysis::counters::{Analysis, Assignment};
use convoy_estimate::WhatIf;
use convoy_model::finding::{rank, Finding, Subject};
use convoy_model::{FindingId, GroupId, Model};
use convoy_profile::Profile;
use convoy_replay::fixes::{self, Fix};
use convoy_replay::study::Names;
use convoy_trace::{Kind, ObjectIx, ThreadIx};

use super::traced::Traced;

/// Threads of each group as they should be spread.
type Spread = Vec<(GroupId, u32)>;

/// The best assignment, if it is not the present one.
fn spread(of: &Assignment) -> Option<Spread> {
    let best = of.options.first().filter(|best| best.threads != of.now)?;
    let groups = of.groups.iter().copied();
    Some(groups.zip(best.threads.iter().copied()).collect())
}

/// Findings that are replayed, at most: each takes a second at worst.
const MOST: usize = 5;

/// A trace that is to narrow findings, taken from a profile before the model takes that over.
#[derive(Debug)]
pub struct Trace(Traced);

impl Trace {
    /// `None` = there is none, or it was recorded on a machine whose costs are not in the profile.
    pub fn of(profile: &Profile) -> Option<Self> {
        Traced::with_costs(profile).map(Self)
    }

    /// Lets the replay speak of the findings about locks, and ranks them anew.
    pub fn refine(&self, model: &Model, analysis: &mut Analysis) {
        let spread: Vec<Spread> = analysis.assignments.iter().filter_map(spread).collect();
        self.ask(model, &mut analysis.findings, &spread);
        // A finding that the replay takes the gain from stays where it is read, with its reason.
        let all = std::mem::take(&mut analysis.findings);
        (analysis.findings, _) = rank(all, |_| true);
        let refined = analysis
            .findings
            .first()
            .filter(|f| !f.gain.estimates.is_empty());
        if let Some(first) = refined {
            analysis.verdict = convoy_analysis::counters::headline(first);
        }
    }

    fn ask(&self, model: &Model, findings: &mut [Finding], spread: &[Spread]) {
        let mut asked: Vec<(&mut Finding, Fix)> = findings
            .iter_mut()
            .filter_map(|f| {
                let fix = self.fix(model, f, spread)?;
                Some((f, fix))
            })
            .take(MOST)
            .collect();
        if asked.is_empty() {
            return;
        }
        let names = Names::default();
        let study = self.0.study(&names);
        let fixes: Vec<Fix> = asked.iter().map(|(_, fix)| fix.clone()).collect();
        let answers = fixes::ask(&study, &self.0.machine, &fixes);
        for ((finding, fix), answer) in asked.iter_mut().zip(answers) {
            let (what_if, assumption) = match fix {
                Fix::Remove(_) => (
                    WhatIf::LockRemoved,
                    "a replay of the recorded order without the lock",
                ),
                Fix::Blocking(_) => (
                    WhatIf::Query("blocking".into()),
                    "a replay in which tries wait for the lock",
                ),
                Fix::Balance(_) => (
                    WhatIf::Query("balance".into()),
                    "a replay in which the threads share the work before the barrier evenly",
                ),
                Fix::Permits(_) => (
                    WhatIf::Query("permits".into()),
                    "a replay in which no thread waits for a permit",
                ),
                Fix::Threads(_) => (
                    WhatIf::Query("threads".into()),
                    "a replay of the recorded work by threads spread otherwise",
                ),
            };
            finding.gain.refine(answer.estimates(&what_if, assumption));
        }
    }

    /// The change that a finding calls for; `None` = replay has none.
    fn fix(&self, model: &Model, finding: &Finding, spread: &[Spread]) -> Option<Fix> {
        let objects = || Some(self.objects(model, finding)).filter(|of| !of.is_empty());
        match finding.id {
            FindingId::ContendedLock
            | FindingId::AsymmetricContention
            | FindingId::StarvedThread => objects().map(Fix::Remove),
            FindingId::BarrierImbalance => objects().map(Fix::Balance),
            FindingId::Straggler => {
                let Subject::Thread(thread) = finding.subject else {
                    return None;
                };
                let barriers = self.barriers(model.threads.get(thread.0 as usize)?);
                (!barriers.is_empty()).then_some(Fix::Balance(barriers))
            }
            FindingId::SmallPool => objects().map(Fix::Permits),
            FindingId::TrylockSpin => objects().map(Fix::Blocking),
            FindingId::LoadImbalance => {
                let Subject::Groups(groups) = &finding.subject else {
                    return None;
                };
                let of_it = spread
                    .iter()
                    .find(|of| of.iter().map(|(g, _)| g).eq(groups))?;
                let groups = of_it.iter().map(|(g, n)| (self.threads(model, *g), *n));
                Some(Fix::Threads(groups.collect()))
            }
            _ => None,
        }
    }

    /// The recorded threads of a group.
    fn threads(&self, model: &Model, group: GroupId) -> Vec<ThreadIx> {
        let of_it = |tid: u32| {
            let mut threads = model.threads.iter();
            let own = |th: &&convoy_model::Thread| th.process.0 == self.0.recording.process;
            threads.any(|th| own(&th) && th.tid == tid && th.group == group)
        };
        let threads = self.0.recording.threads.iter().zip(0..);
        threads
            .filter(|(th, _)| of_it(th.tid))
            .map(|(_, ix)| ix)
            .collect()
    }

    /// The recorded barriers that a thread meets others at.
    fn barriers(&self, thread: &convoy_model::Thread) -> Vec<ObjectIx> {
        let recording = &self.0.recording;
        if thread.process.0 != recording.process {
            return Vec::new();
        }
        let own = recording.threads.iter().filter(|th| th.tid == thread.tid);
        let events = own.flat_map(|th| &th.events);
        let met = events.filter(|e| e.kind == Kind::BarrierArrive);
        let met: BTreeSet<ObjectIx> = met.map(|e| e.object).collect();
        met.into_iter().collect()
    }

    /// The recorded objects that a finding is about.
    fn objects(&self, model: &Model, finding: &Finding) -> Vec<ObjectIx> {
        let of_it = finding.subject.objects().iter();
        let addresses: Vec<u64> = of_it
            .filter_map(|id| model.objects.get(id.0 as usize))
            .filter(|object| object.process.0 == self.0.recording.process)
            .map(|object| object.addr)
            .collect();
        let objects = self.0.recording.objects.iter().enumerate();
        objects
            .filter(|(_, object)| addresses.contains(&object.addr))
            .map(|(ix, _)| ix as ObjectIx)
            .collect()
    }
}
