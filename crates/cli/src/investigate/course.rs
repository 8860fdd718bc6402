//! The course of an investigation: steps taken, and what they told.

use std::path::PathBuf;
use std::time::Duration;

use convoy_estimate::{Estimate, Method};
use convoy_investigate::{Investigation, Outcome, Report, Step, StepDone};

use crate::analyze::Judged;
use crate::exit::Status;
use crate::message::{say, Message};
use crate::show;
use crate::threshold_args::Limits;

use super::runs::{Ended, Runs};
use super::{answers, leads, Investigate};

/// Share of the program's time that windows may fill: experiments begin after a while, and end with
/// the program.
const WINDOWS_SHARE: f64 = 0.8;

/// Windows of a run for a first answer, and beyond which a run tells no more, seconds.
const WINDOWS_S: (f64, f64) = (2.0, 20.0);

/// An investigation that is under way.
#[derive(Debug)]
pub struct Course {
    /// What is known, and what comes next.
    pub investigation: Investigation,
    runs: Runs,
    limits: Limits,
    is_quiet: bool,
    judged: Option<Judged>,
    status: Option<u8>,
    targets: Vec<(String, [f64; 3])>,
}

impl Course {
    /// Nothing is known.
    pub fn new(args: &Investigate) -> Result<Self, Message> {
        Ok(Self {
            investigation: Investigation::default(),
            runs: Runs::new(&args.command, args.output.as_deref())?,
            limits: args.limits.clone(),
            is_quiet: args.quiet,
            judged: None,
            status: None,
            targets: Vec::new(),
        })
    }

    /// Whether there is a profile to go on with.
    pub fn has_recorded(&self) -> bool {
        self.judged.is_some()
    }

    /// As the program ended in the first run.
    pub fn status(&self) -> Status {
        self.status.map_or(Status::OwnFailure, Status::Program)
    }

    /// Why the first step told nothing.
    pub fn first_failure(&self) -> String {
        match self.investigation.done.first().map(|done| &done.outcome) {
            Some(Outcome::Failed(why)) => why.clone(),
            _ => "the program was not run".into(),
        }
    }

    /// Keeps the profile of the first run where the user wants it.
    pub fn keep(&self) -> Result<Option<PathBuf>, Message> {
        let judged = self.judged.as_ref();
        let pid = judged.and_then(|j| j.report().model.processes.first().map(|p| p.pid));
        self.runs.keep(pid.unwrap_or_default())
    }

    /// All that was found out.
    pub fn into_report(self) -> Report {
        Report {
            targets: self.targets,
            ..Report::of(self.investigation)
        }
    }

    /// Takes a step, and puts down what it told. `left`: of the budget.
    pub fn take(&mut self, step: Step, why: String, left: Duration) {
        let run_s = self.investigation.done.first().map_or(0.0, |d| d.seconds);
        let budget_s = (run_s * WINDOWS_SHARE).clamp(WINDOWS_S.0, WINDOWS_S.1);
        let ended = self.runs.run(&step, budget_s, left);
        let outcome = match &ended.trouble {
            Some(why) => Err(why.clone()),
            None => self.told(&step, &ended),
        };
        if !self.is_quiet {
            self.tell(&ended, &why, &outcome);
        }
        self.investigation.done.push(StepDone {
            step,
            why,
            command: ended.command,
            seconds: ended.seconds,
            outcome: outcome.map_or_else(Outcome::Failed, |()| Outcome::Told),
        });
    }

    fn tell(&self, ended: &Ended, why: &str, outcome: &Result<(), String>) {
        let number = self.investigation.done.len() + 1;
        let result = match outcome {
            Ok(()) => String::new(),
            Err(why) => format!("; left out: {why}"),
        };
        say(&format!(
            "convoy: step {number}, {:.1} s: {}\n        why: {why}{result}\n",
            ended.seconds, ended.command
        ));
    }

    fn told(&mut self, step: &Step, ended: &Ended) -> Result<(), String> {
        if *step == Step::Record {
            self.status = Some(ended.status);
            return self.look_at_recording();
        }
        let is_run = !matches!(step, Step::Replay(_));
        if let Some(first) = self.status.filter(|first| is_run && *first != ended.status) {
            return Err(format!(
                "it ended with status {}, the first run with {first}: {}",
                ended.status, ended.last_words
            ));
        }
        let file = self.runs.result(step);
        if !file.exists() {
            return Err(ended.last_words.clone());
        }
        match step {
            Step::Record => Ok(()),
            Step::Diagnose(_) => self.decide(&file),
            Step::Replay(_) => {
                let replay = answers::read(&file)?;
                self.add(|lock| answers::of_replay(&replay, lock));
                Ok(())
            }
            Step::Experiment(locks) => {
                let report = answers::read(&file)?;
                let added = self.add(|lock| answers::of_experiment(&report, lock));
                if locks.is_empty() {
                    self.targets = answers::chosen(&report);
                }
                match added + self.targets.len() {
                    0 => Err(answers::reason(&report)),
                    _ => Ok(()),
                }
            }
            Step::Try(lock) => {
                let report = answers::read(&file)?;
                let added = self.add(|other| match other == lock {
                    true => answers::of_try(&report),
                    false => Vec::new(),
                });
                match added {
                    0 => Err(answers::reason(&report)),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Adds what a method says of each lead's lock; the number of its answers.
    fn add(&mut self, of: impl Fn(&str) -> Vec<Estimate>) -> usize {
        let mut added = 0;
        for lead in &mut self.investigation.leads {
            let Some(lock) = &lead.lock else { continue };
            for estimate in of(lock) {
                // One answer of a method to a question: the asked one is the newest.
                lead.estimates.retain(|old| {
                    (old.method, &old.what_if) != (estimate.method, &estimate.what_if)
                });
                lead.estimates.push(estimate);
                added += 1;
            }
        }
        added
    }

    fn look_at_recording(&mut self) -> Result<(), String> {
        let (mut profile, _) = show::read(self.runs.profile(), true).map_err(|m| m.line())?;
        // Replaying it is a step of its own, which the budget can bound.
        profile.trace = None;
        let judged = Judged::new(profile, None, &self.limits).map_err(|m| m.line())?;
        self.judged = Some(judged);
        self.find_leads();
        Ok(())
    }

    /// Lets what critical sections touched decide between causes.
    fn decide(&mut self, file: &std::path::Path) -> Result<(), String> {
        let (profile, _) = show::read(file, true).map_err(|m| m.line())?;
        let other = Judged::new(profile, None, &self.limits).map_err(|m| m.line())?;
        if let Some(judged) = &mut self.judged {
            judged.decide_by(&other);
        }
        self.find_leads();
        Ok(())
    }

    /// Leads are the findings; what other methods have said of them stays.
    fn find_leads(&mut self) {
        let Some(judged) = &self.judged else { return };
        let report = judged.report();
        let before = std::mem::take(&mut self.investigation.leads);
        let findings = report.analysis.findings.iter();
        self.investigation.leads = findings
            .map(|finding| {
                let mut lead = leads::lead(report.model, finding);
                let known = before.iter().find(|old| old.title == lead.title);
                // What sections touched may have corrected the accounting.
                let others = known.into_iter().flat_map(|known| &known.estimates);
                let others = others.filter(|e| e.method != Method::Accounting);
                lead.estimates.extend(others.cloned());
                lead
            })
            .collect();
    }
}
