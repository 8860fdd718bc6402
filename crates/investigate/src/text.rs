//! The report for people.

use std::fmt::Write;

use convoy_estimate::{Agreement, Check, Combined, Estimate, Interval, Method, WhatIf};

use crate::lead::{Change, Lead};
use crate::plan::{Outcome, LEADS_MOST};
use crate::report::Report;

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The locale is UTF-8.
    pub unicode: bool,
}

/// The report.
pub fn text(report: &Report, look: Look) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, report);
    match look.unicode {
        true => out,
        false => out.replace(['–', '·'], "-"),
    }
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "{}", verdict(report))?;
    writeln!(
        out,
        "\n{} steps in {:.0} s of {:.0} s",
        report.steps.len(),
        report.seconds,
        report.budget_seconds
    )?;
    for (number, done) in (1..).zip(&report.steps) {
        writeln!(
            out,
            "{number:>2}  {}  ({:.0} s)",
            done.command, done.seconds
        )?;
        match &done.outcome {
            Outcome::Told => writeln!(out, "    why: {}", done.why)?,
            Outcome::Failed(why) => writeln!(out, "    left out: {why}")?,
        }
    }
    for (number, lead) in (1..).zip(report.leads.iter().take(LEADS_MOST)) {
        write_lead(out, number, lead)?;
    }
    if !report.targets.is_empty() {
        writeln!(out, "\nRun time saved if faster by 50 %, by experiment")?;
        for (name, [low, mid, high]) in &report.targets {
            let percent = |share: &f64| format!("{:.0}", 100.0 * share).replace("-0", "0");
            writeln!(
                out,
                "    {name}: {} % ({} to {} %)",
                percent(mid),
                percent(low),
                percent(high)
            )?;
        }
    }
    if let Some(file) = &report.profile {
        writeln!(out, "\nMore      convoy report {file}")?;
    }
    Ok(())
}

/// The main result, in one sentence.
fn verdict(report: &Report) -> String {
    let Some(lead) = report.leads.first() else {
        let best = report.targets.first().filter(|(_, [low, _, _])| *low > 0.0);
        return match (best, report.steps.is_empty()) {
            (Some((name, [low, mid, high])), _) => {
                let gain = Interval::of_saved(*low, *mid, *high);
                format!(
                    "No wait stands out. By experiment, {name} 50 % faster gains {}.",
                    interval(&gain)
                )
            }
            (None, true) => "Nothing was found out: no step ended.".into(),
            (None, false) if report.targets.is_empty() => {
                "No wait stands out in the recorded run, and no experiment has looked at other code."
                    .into()
            }
            (None, false) => {
                let most = report.targets.iter().map(|(_, [_, _, high])| *high);
                format!(
                    "No wait stands out, and no experiment shows a certain gain (at most {:.0} % of \
                     the run).",
                    100.0 * most.fold(0.0, f64::max)
                )
            }
        };
    };
    let best = best_change(lead);
    match best {
        Some((change, combined)) => format!(
            "{}. {}: {}, {}.",
            lead.title,
            capital(&what(&change.what_if)),
            interval(&combined.gain),
            behind(&combined)
        ),
        None => format!("{}. No method has a gain that it stands by.", lead.title),
    }
}

/// The change of most certain gain.
fn best_change(lead: &Lead) -> Option<(Change, Combined)> {
    let changes = lead.changes().into_iter();
    let known = changes.filter_map(|change| Some((change.combined.clone()?, change)));
    let best = known.max_by(|(a, _), (b, _)| a.gain.low.total_cmp(&b.gain.low));
    best.map(|(combined, change)| (change, combined))
}

fn write_lead(out: &mut String, number: usize, lead: &Lead) -> std::fmt::Result {
    writeln!(out, "\n{number}  {}  [{}]", lead.title, lead.id)?;
    for change in lead.changes() {
        let gain = match &change.combined {
            Some(combined) => interval(&combined.gain),
            None => "no answer".into(),
        };
        writeln!(out, "    {}: {gain}", what(&change.what_if))?;
        let said = lead.estimates.iter();
        for estimate in said.filter(|e| e.what_if == change.what_if) {
            writeln!(
                out,
                "        {:<11} {}",
                name(estimate.method),
                says(estimate)
            )?;
        }
        if let Some(Combined {
            agreement: Agreement::Disagree(_),
            ..
        }) = &change.combined
        {
            writeln!(out, "        they disagree: {}", why_believed(&change))?;
        }
    }
    match lead.causes.as_slice() {
        [] => {}
        [one] => writeln!(out, "    why     {one}")?,
        several => writeln!(out, "    why     one of: {}", several.join("; "))?,
    }
    if !lead.fix.is_empty() {
        writeln!(out, "    do      {}", lead.fix)?;
    }
    Ok(())
}

fn says(estimate: &Estimate) -> String {
    match &estimate.check {
        Check::Failed(why) => format!("refused: {why}"),
        Check::None | Check::Passed(_) => interval(&estimate.gain),
    }
}

fn behind(combined: &Combined) -> String {
    let names: Vec<&str> = combined.methods.iter().map(|m| name(*m)).collect();
    match combined.agreement {
        Agreement::Single => format!("by {}", names.join(", ")),
        Agreement::Agree => format!("where {} agree", names.join(", ")),
        Agreement::Disagree(_) => format!("by {}; others disagree", names.join(", ")),
    }
}

fn why_believed(change: &Change) -> String {
    let methods = change.combined.as_ref().map(|c| c.methods.as_slice());
    match methods.and_then(<[Method]>::first) {
        Some(Method::Measured) => "the fix itself was measured".into(),
        Some(Method::Experiment) => {
            "the experiment is believed, which changed the running program".into()
        }
        Some(Method::ReplaySimulated | Method::ReplayNative) => {
            "the replay is believed, which knows the order of events".into()
        }
        Some(Method::Accounting) | None => "the counts are believed".into(),
    }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Accounting => "waits",
        Method::ReplaySimulated => "simulation",
        Method::ReplayNative => "replay",
        Method::Experiment => "experiment",
        Method::Measured => "measured",
    }
}

fn what(what_if: &WhatIf) -> String {
    match what_if {
        WhatIf::Fix => "the fix".into(),
        other => other.to_string(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// `1.6x (1.1–3.6x)`
fn interval(gain: &Interval) -> String {
    match gain.high {
        Some(high) => format!("{:.2}x ({:.2}–{high:.2}x)", gain.mid, gain.low),
        None => format!("{:.2}x ({:.2}x or more)", gain.mid, gain.low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Step, StepDone};

    fn estimate(method: Method, low: f64, high: f64, check: Check) -> Estimate {
        Estimate {
            method,
            what_if: WhatIf::Query("shorten cache_lock 50%".into()),
            gain: Interval::new(low, (low + high) / 2.0, high),
            assumption: String::new(),
            check,
        }
    }

    fn report(estimates: Vec<Estimate>) -> Report {
        Report {
            leads: vec![Lead {
                id: "contended-lock".into(),
                title: "cache_lock: 4 threads lose 30 % of their time waiting for it".into(),
                lock: Some("cache_lock".into()),
                causes: vec!["too many data under one lock".into()],
                fix: "one lock per bucket".into(),
                estimates,
            }],
            steps: vec![StepDone {
                step: Step::Record,
                why: "where threads wait".into(),
                command: "convoy record --trace".into(),
                seconds: 3.0,
                outcome: Outcome::Failed("it ended with status 1, not 0".into()),
            }],
            budget_seconds: 300.0,
            ..Report::default()
        }
    }

    const LOOK: Look = Look { unicode: false };

    #[test]
    fn where_methods_agree_the_gain_is_their_intersection() {
        let text = text(
            &report(vec![
                estimate(Method::Accounting, 1.0, 1.5, Check::None),
                estimate(Method::Experiment, 1.2, 1.3, Check::None),
            ]),
            LOOK,
        );
        let first = text.lines().next().unwrap();
        assert!(
            first.ends_with(
                "Shorten cache_lock 50%: 1.25x (1.20-1.30x), where experiment, waits agree."
            ),
            "{text}"
        );
        assert!(text.contains("left out: it ended with status 1"), "{text}");
        assert!(!text.contains("they disagree"), "{text}");
    }

    #[test]
    fn disagreement_is_said_with_who_is_believed() {
        let text = text(
            &report(vec![
                estimate(Method::Accounting, 2.0, 2.5, Check::None),
                estimate(Method::Experiment, 1.2, 1.3, Check::None),
            ]),
            LOOK,
        );
        assert!(text.contains("by experiment; others disagree"), "{text}");
        assert!(
            text.contains("they disagree: the experiment is believed"),
            "{text}"
        );
    }

    #[test]
    fn what_nobody_looked_at_is_not_ruled_out() {
        let mut report = Report {
            steps: report(Vec::new()).steps,
            ..Report::default()
        };
        assert!(text(&report, LOOK).contains("no experiment has looked at other code"));
        report.targets = vec![("function f".into(), [-0.02, 0.2, 0.4])];
        assert!(text(&report, LOOK).contains("(at most 40 % of the run)"));
    }

    #[test]
    fn a_refused_answer_is_no_number() {
        let refused = Check::Failed("it replays the run in 150 % of its time".into());
        let text = text(
            &report(vec![estimate(Method::ReplayNative, 1.2, 1.3, refused)]),
            LOOK,
        );
        assert!(
            text.contains("No method has a gain that it stands by"),
            "{text}"
        );
        assert!(text.contains("refused: it replays the run"), "{text}");
        assert!(text.is_ascii());
    }

    #[test]
    fn a_refused_answer_is_no_number_in_json_either() {
        let gain = |check| {
            let of = estimate(Method::ReplayNative, 1.2, 1.3, check);
            serde_json::to_value(of).unwrap()["gain"]["low"].as_f64()
        };
        assert_eq!(gain(Check::Failed("too noisy".into())), None);
        assert_eq!(gain(Check::None), Some(1.2));
    }
}
