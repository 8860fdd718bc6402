//! Findings narrowed by the trace of their profile: what a simulated replay says of the same change.

use convoy_detect::Analysis;
use convoy_estimate::WhatIf;
use convoy_model::finding::{rank, Finding};
use convoy_model::Model;
use convoy_profile::Profile;
use convoy_replay::compose::remove_locks;
use convoy_replay::study::{Names, Study};
use convoy_replayer::calibrate;
use convoy_trace::{ObjectIx, Recording};

/// Findings whose gain is that of nobody waiting for the lock any more.
const OF_WAITS: [&str; 3] = ["contended-lock", "asymmetric-contention", "starved-thread"];
/// Findings that are replayed, at most: each takes a second at worst.
const MOST: usize = 5;

/// A trace that is to narrow findings, taken from a profile before the model takes that over.
#[derive(Debug)]
pub struct Trace {
    recording: Recording,
    machine: convoy_replay::machine::Machine,
    switches: Option<(f64, f64)>,
}

impl Trace {
    /// The trace of the process of most lock waits; `None` = there is none, or it was recorded on a machine
    /// whose costs are not in the profile.
    pub fn of(profile: &Profile) -> Option<Self> {
        let machine = calibrate::from_text(&profile.meta.costs).ok()?;
        let recording = super::most_contended(profile).ok()?;
        Some(Self {
            switches: super::switches(profile, &recording),
            recording,
            machine,
        })
    }

    /// Lets the replay speak of the findings about locks, and ranks them anew.
    pub fn refine(&self, model: &Model, analysis: &mut Analysis) {
        self.ask(model, &mut analysis.findings);
        // A finding that the replay takes the gain from stays where it is read, with its reason.
        let all = std::mem::take(&mut analysis.findings);
        (analysis.findings, _) = rank(all, |_| true);
        let refined = analysis
            .findings
            .first()
            .filter(|f| !f.gain.estimates.is_empty());
        if let Some(first) = refined {
            analysis.verdict = convoy_detect::headline(first);
        }
    }

    fn ask(&self, model: &Model, findings: &mut [Finding]) {
        let mut asked: Vec<(&mut Finding, Vec<ObjectIx>)> = findings
            .iter_mut()
            .filter(|f| OF_WAITS.contains(&f.id))
            .filter_map(|f| {
                let objects = self.objects(model, f);
                (!objects.is_empty()).then_some((f, objects))
            })
            .take(MOST)
            .collect();
        if asked.is_empty() {
            return;
        }
        let names = Names::default();
        let study = Study::new(&self.recording, &names, &self.machine, self.switches);
        let locks: Vec<Vec<ObjectIx>> = asked.iter().map(|(_, objects)| objects.clone()).collect();
        let answers = remove_locks(&study, &self.machine, &locks);
        for ((finding, _), answer) in asked.iter_mut().zip(answers) {
            let assumption = "a replay of the recorded order without the lock";
            let estimates = answer.estimates(&WhatIf::LockRemoved, assumption);
            finding.gain.refine(estimates);
        }
    }

    /// The recorded objects that a finding is about.
    fn objects(&self, model: &Model, finding: &Finding) -> Vec<ObjectIx> {
        let of_it = finding.subject.objects().iter();
        let addresses: Vec<u64> = of_it
            .filter_map(|id| model.objects.get(id.0 as usize))
            .filter(|object| object.process.0 == self.recording.process)
            .map(|object| object.addr)
            .collect();
        let objects = self.recording.objects.iter().enumerate();
        objects
            .filter(|(_, object)| addresses.contains(&object.addr))
            .map(|(ix, _)| ix as ObjectIx)
            .collect()
    }
}
