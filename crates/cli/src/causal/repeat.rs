//! Further runs of a command that ends before enough is known: their windows add up.

use std::time::Duration;

use convoy_capture::Streams;
use convoy_causal::{reason, Experiment, Settings};
use convoy_profile::Exit;

use super::args::Running;
use super::conduct::Question;
use super::{one_run, Course, Run};
use crate::exit::Status;

/// What a run has left for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// It ended before it had been looked at.
    Nothing,
    /// What to try, and what counts as progress.
    Targets,
    /// Windows of whole blocks.
    Windows,
}

/// Runs the command, again and again if it is to be; `Err`: it could not be started, and that was
/// said.
pub fn runs(course: &Course, args: &Running) -> Result<Run, Status> {
    let mut run = one_run(course, args, &Streams::default(), None)?;
    let mut next = course.clone();
    while let Some(question) = course.again(&run) {
        let before = run.known();
        next.question = question;
        next.rate.clone_from(&run.report.measurements.rate);
        next.ran = Some(run.ran);
        next.budget = course.budget.saturating_sub(run.experiments_took());
        let later = one_run(&next, args, &Streams::default(), None)?;
        let known = later.known();
        run.add(later);
        if known < Known::Windows && known <= before {
            run.explain(course);
            break;
        }
    }
    Ok(run)
}

impl Run {
    fn known(&self) -> Known {
        let measurements = &self.report.measurements;
        if !measurements.blocks.is_empty() {
            return Known::Windows;
        }
        match measurements.subjects.is_empty() {
            true => Known::Nothing,
            false => Known::Targets,
        }
    }

    fn experiments_took(&self) -> Duration {
        Duration::from_secs_f64(self.report.seconds)
    }

    /// Takes in a later run: the recording is that of the last one.
    fn add(&mut self, later: Self) {
        match self.known() {
            Known::Nothing => self.report = later.report,
            _ => self.report.add_run(later.report),
        }
        (self.recording, self.pid, self.ran) = (later.recording, later.pid, later.ran);
    }

    /// Says why another run would tell nothing, either.
    fn explain(&mut self, course: &Course) {
        let measurements = &self.report.measurements;
        if !measurements.blocks.is_empty() || !measurements.ended_early {
            return;
        }
        let mechanisms = measurements.subjects.iter().map(|s| s.mechanism).collect();
        let settings = Settings {
            estimator: course.estimator,
            precision: course.precision,
            seed: 0,
        };
        let windows = Experiment::new(mechanisms, settings).windows_per_block();
        self.report.reason = Some(reason::too_short_to_repeat(self.ran, windows));
    }
}

impl Course {
    /// What another run of the command is to find out; `None` = enough is known, or it would not
    /// help.
    fn again(&self, run: &Run) -> Option<Question> {
        let report = &run.report;
        let has_time = run.experiments_took() < self.budget;
        let has_failed = run.recording.exit != Exit::Status(0);
        if !self.repeat || !has_time || has_failed {
            return None;
        }
        let measurements = &report.measurements;
        if measurements.subjects.is_empty() {
            // The next run is looked at sooner.
            return measurements.ended_early.then(|| self.question.clone());
        }
        let targets = measurements.subjects.iter().map(|s| s.target.clone());
        (!report.is_settled(self.precision)).then(|| Question::Faster(targets.collect()))
    }
}
