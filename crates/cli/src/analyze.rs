//! From a profile to everything that is said about it.

use convoy_model::Model;
use convoy_profile::Profile;
use convoy_report::Report;

use crate::message::Message;
use crate::replay::Trace;
use crate::threshold_args::Limits;

/// A profile, joined and judged by all rooms.
#[derive(Debug)]
pub struct Judged {
    model: Model,
    thresholds: convoy_analysis::Params,
    analysis: convoy_analysis::counters::Analysis,
    critical: Option<convoy_analysis::scheduler::Analysis>,
    sections: Option<convoy_diagnose::Analysis>,
}

impl Judged {
    /// Analyses a profile, or one process of it.
    pub fn new(
        mut profile: Profile,
        process: Option<u32>,
        limits: &Limits,
    ) -> Result<Self, Message> {
        if let Some(pid) = process {
            select(&mut profile, pid)?;
            // Parallelism is that of all processes together: of one of them alone it says nothing.
            profile.sched = None;
            // Traced sections are told by the numbers of all processes.
            profile.sections = None;
        }
        let trace = Trace::of(&profile);
        // Events are of no use to the model, and they may be many.
        profile.trace = None;
        let model = Model::build(profile);
        let thresholds = limits.params();
        let mut analysis = convoy_analysis::counters::analyze(&model, &thresholds);
        let critical = critical(&model, &thresholds, &mut analysis);
        let sections = sections(&model, &mut analysis);
        if let Some(trace) = trace {
            trace.refine(&model, &mut analysis);
        }
        crate::causal::note_experiments(&model, &mut analysis);
        Ok(Self {
            model,
            thresholds,
            analysis,
            critical,
            sections,
        })
    }

    /// Lets the traced sections of another run of the program decide between the causes that findings hold possible.
    pub fn decide_by(&mut self, other: &Self) {
        let Some(sections) = &other.sections else {
            return;
        };
        for findings in [&mut self.analysis.findings, &mut self.analysis.dismissed] {
            convoy_diagnose::join(&self.model, findings, &other.model, sections);
        }
    }

    /// What a page is made from.
    pub fn report(&self) -> Report<'_> {
        Report {
            model: &self.model,
            analysis: &self.analysis,
            critical: self.critical.as_ref(),
            sections: self.sections.as_ref(),
            thresholds: &self.thresholds,
        }
    }
}

/// What the scheduler showed, and both rooms' findings in one list.
fn critical(
    model: &Model,
    thresholds: &convoy_analysis::Params,
    analysis: &mut convoy_analysis::counters::Analysis,
) -> Option<convoy_analysis::scheduler::Analysis> {
    model.sched.as_ref()?;
    let critical = convoy_analysis::scheduler::analyze(model, thresholds);
    let found = &mut analysis.findings;
    convoy_analysis::arbitration::cross_check_with(model, &critical, found, thresholds);
    (analysis.findings, analysis.dismissed) = convoy_analysis::arbitration::merge(
        model,
        &critical,
        std::mem::take(&mut analysis.findings),
        std::mem::take(&mut analysis.dismissed),
    );
    Some(critical)
}

/// What traced sections touched; its verdicts take the place of what findings hold possible.
fn sections(
    model: &Model,
    analysis: &mut convoy_analysis::counters::Analysis,
) -> Option<convoy_diagnose::Analysis> {
    model.sections.as_ref()?;
    let thresholds = convoy_diagnose::Thresholds::default();
    let sections = convoy_diagnose::analyze(model, &thresholds);
    convoy_diagnose::join(model, &mut analysis.findings, model, &sections);
    convoy_diagnose::join(model, &mut analysis.dismissed, model, &sections);
    Some(sections)
}

/// Keeps one process. A pid can be used by several images in turn (exec).
fn select(profile: &mut Profile, pid: u32) -> Result<(), Message> {
    let known: Vec<_> = profile
        .processes
        .iter()
        .map(|p| p.pid.to_string())
        .collect();
    profile.processes.retain(|p| p.pid == pid);
    if profile.processes.is_empty() {
        let fix = match known.as_slice() {
            [] => "record the command again".into(),
            known => format!("one of: {}", known.join(", ")),
        };
        return Err(Message::new(
            format!("process {pid} is not in the profile"),
            "nothing to report",
            fix,
        ));
    }
    Ok(())
}
