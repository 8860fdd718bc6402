//! The order of steps.

use std::time::Duration;

use serde::Serialize;

use crate::lead::Lead;

/// Leads that steps look into: beyond the first ones a fix changes what is worth looking into.
pub const LEADS_MOST: usize = 3;

/// Of the time that is left, what a replay may take: runs tell more.
pub const REPLAY_SHARE: f64 = 0.5;

/// A way to learn more. Locks are named as other verbs name them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// A run that counts all synchronization, listens to the scheduler and keeps the order of
    /// operations.
    Record,
    /// No run: the recorded order is replayed with changes to this lock.
    Replay(String),
    /// A run that looks into the critical sections of these locks.
    Diagnose(Vec<String>),
    /// A run with virtual speed-ups of these locks; none = of what it chooses.
    Experiment(Vec<String>),
    /// A run in which threads wait for this lock in other ways.
    Try(String),
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It told something.
    Told,
    /// It did not; why.
    Failed(String),
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepDone {
    /// Which.
    pub step: Step,
    /// Why.
    pub why: String,
    /// As a command line.
    pub command: String,
    /// Time that it took, seconds.
    pub seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What is known so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Investigation {
    /// Findings of the recorded run, most gain first.
    pub leads: Vec<Lead>,
    /// Steps, in order.
    pub done: Vec<StepDone>,
}

impl Investigation {
    /// The next step, and why; `None` = the first leads are decided, or nothing fits into `left`.
    pub fn next(&self, left: Duration) -> Option<(Step, String)> {
        let candidates = self.candidates();
        let fits = |step: &Step| {
            let most = match step {
                Step::Replay(_) => left.mul_f64(REPLAY_SHARE),
                _ => left,
            };
            self.expected(step).is_none_or(|time| time <= most)
        };
        candidates
            .into_iter()
            .find(|(step, _)| !self.was_taken(step) && fits(step))
    }

    /// All that is worth a step, best first.
    fn candidates(&self) -> Vec<(Step, String)> {
        let record = (
            Step::Record,
            "where threads wait, and in what order they work".into(),
        );
        if !self.was_taken(&Step::Record) {
            return vec![record];
        }
        let of_locks = self.leads.iter().filter(|lead| lead.lock.is_some());
        let leads: Vec<&Lead> = of_locks.take(LEADS_MOST).collect();
        let mut locks: Vec<String> = Vec::new();
        for lock in leads.iter().filter_map(|lead| lead.lock.as_ref()) {
            if !locks.contains(lock) {
                locks.push(lock.clone());
            }
        }
        if locks.is_empty() {
            let why = match self.leads.is_empty() {
                true => "nothing that threads wait for stands out: what else would be worth it",
                false => "no finding is about a lock with a name: which code is worth it",
            };
            return vec![(Step::Experiment(Vec::new()), why.into())];
        }
        let mut steps = Vec::new();
        for lead in leads {
            let Some(lock) = &lead.lock else { continue };
            steps.push((
                Step::Replay(lock.clone()),
                "it costs no run, and narrows what each change saves".into(),
            ));
            if lead.is_undecided() {
                steps.push((
                    Step::Diagnose(vec![lock.clone()]),
                    format!("{} causes of {lock} are possible", lead.causes.len()),
                ));
            }
            if !lead.is_sure() {
                steps.push((
                    Step::Experiment(locks.clone()),
                    format!("no gain of {lock} is known well enough to decide"),
                ));
            }
            steps.push((
                Step::Try(lock.clone()),
                format!("another way to wait for {lock} costs one line"),
            ));
        }
        steps
    }

    /// Whether a step of the kind was taken, for the same locks.
    fn was_taken(&self, step: &Step) -> bool {
        self.done.iter().any(|done| done.step == *step)
    }

    /// How long a step takes, from those before; `None` = not known.
    fn expected(&self, step: &Step) -> Option<Duration> {
        let took = |of: &dyn Fn(&Step) -> bool| {
            let done = self.done.iter().find(|done| of(&done.step));
            done.map(|done| done.seconds)
        };
        let run = took(&|step| *step == Step::Record)?;
        let seconds = match step {
            Step::Record => run,
            // Sections are translated; windows slow a run down by up to two; replays are repeated.
            Step::Replay(_) | Step::Diagnose(_) | Step::Experiment(_) => run * 2.0,
            Step::Try(_) => run * 1.5,
        };
        Some(Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_estimate::{Check, Estimate, Interval, Method, WhatIf};

    const LONG: Duration = Duration::from_secs(1000);

    fn lead(lock: &str, low: f64, high: f64, causes: usize) -> Lead {
        Lead {
            lock: Some(lock.into()),
            causes: vec!["cause".into(); causes],
            estimates: vec![Estimate {
                method: Method::Accounting,
                what_if: WhatIf::LockRemoved,
                gain: Interval::new(low, low, high),
                assumption: String::new(),
                check: Check::None,
            }],
            ..Lead::default()
        }
    }

    /// Steps until nothing is worth one, each of them telling nothing new.
    fn steps(mut investigation: Investigation, mut left: Duration) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((step, why)) = investigation.next(left) {
            steps.push(step.clone());
            left = left.saturating_sub(Duration::from_secs(10));
            investigation.done.push(StepDone {
                step,
                why,
                command: String::new(),
                seconds: 10.0,
                outcome: Outcome::Told,
            });
        }
        steps
    }

    #[test]
    fn the_first_step_records_and_none_is_taken_twice() {
        let investigation = Investigation {
            leads: vec![lead("a", 1.0, 3.0, 2), lead("b", 1.0, 3.0, 2)],
            ..Investigation::default()
        };
        let steps = steps(investigation, LONG);
        assert_eq!(steps[0], Step::Record);
        assert_eq!(steps[1], Step::Replay("a".into()));
        assert_eq!(steps[2], Step::Diagnose(vec!["a".into()]));
        assert_eq!(steps[3], Step::Experiment(vec!["a".into(), "b".into()]));
        assert_eq!(steps[4], Step::Try("a".into()));
        assert_eq!(steps[5], Step::Replay("b".into()));
        assert_eq!(steps.len(), 8);
    }

    #[test]
    fn what_is_decided_and_sure_is_not_looked_into() {
        let investigation = Investigation {
            leads: vec![lead("a", 1.10, 1.15, 1)],
            ..Investigation::default()
        };
        let steps = steps(investigation, LONG);
        let replay = Step::Replay("a".into());
        assert_eq!(steps, [Step::Record, replay, Step::Try("a".into())]);
    }

    #[test]
    fn a_lock_with_two_findings_is_looked_into_once() {
        let investigation = Investigation {
            leads: vec![lead("a", 1.0, 3.0, 1), lead("a", 1.0, 2.0, 1)],
            ..Investigation::default()
        };
        let steps = steps(investigation, LONG);
        assert_eq!(steps.len(), 4, "{steps:?}");
        assert!(steps.contains(&Step::Experiment(vec!["a".into()])));
    }

    #[test]
    fn without_a_finding_experiments_choose_for_themselves() {
        let steps = steps(Investigation::default(), LONG);
        assert_eq!(steps, [Step::Record, Step::Experiment(Vec::new())]);
    }

    #[test]
    fn steps_that_do_not_fit_into_the_time_are_left_out() {
        let investigation = Investigation {
            leads: vec![lead("a", 1.0, 3.0, 2)],
            ..Investigation::default()
        };
        // After the recording (10 s) there are 16 s: for `try` only.
        let steps = steps(investigation, Duration::from_secs(26));
        assert_eq!(steps, [Step::Record, Step::Try("a".into())]);
    }
}
