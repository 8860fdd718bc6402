//! The best fixes as cards: what to do, where, what it gains, and how sure that is.

use convoy_estimate::{combine, Agreement, Check, Estimate, Method};
use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::SiteFrame;
use convoy_report::{human, names, sched_names, subject, Report};
use maud::{html, Markup};

use super::remedy::{capitalized, imperative};
use crate::data::limiting;

/// A pessimistic gain below this is none.
const MIN_GAIN: f64 = 1.01;

pub(super) fn fixes(report: &Report<'_>, best: &[Finding]) -> Markup {
    if best.is_empty() {
        return html! {};
    }
    html! {
        ol .fixes aria-label="The best fixes" {
            @for (i, finding) in best.iter().enumerate() { (card(report, i + 1, finding)) }
        }
    }
}

fn card(report: &Report<'_>, number: usize, finding: &Finding) -> Markup {
    let cause = finding.causes.first();
    let what = cause.and_then(|cause| imperative(cause.id));
    let fix = cause
        .map(|cause| capitalized(&cause.fix))
        .filter(|fix| !fix.is_empty());
    let heading = what.map(str::to_owned).or_else(|| fix.clone());
    html! {
        li {
            p .number { "fix " (number) }
            p .gain { (human::gain(&finding.gain)) }
            h2 { (heading.as_ref().unwrap_or(&finding.title)) }
            @if let Some(place) = place(report, finding) { p .place { code { (place) } } }
            @if number > 1 { p .why { (finding.title) } }
            @if let Some(fix) = fix.filter(|_| what.is_some()) { p .detail { (fix) } }
            p .sure { (sure(finding)) }
            p { a href={ "#finding-" (number) } { "Evidence" } }
        }
    }
}

/// Function, file and line to change.
fn place(report: &Report<'_>, finding: &Finding) -> Option<String> {
    let ids = subject::ids(&finding.subject);
    let model = report.model;
    if let Some(site) = subject::site(report.analysis, &ids).and_then(|id| model.site(id)) {
        let own = site.own_caller().or_else(|| site.shown_frame());
        return own.map(names::frame);
    }
    if let Some(spin) = ids
        .loops
        .first()
        .and_then(|id| subject::spin_loop(model, *id))
    {
        return Some(sched_names::loop_place(spin));
    }
    let of_thread = |id: &convoy_model::ThreadId| Some(model.threads.get(id.0 as usize)?.group);
    let group = match &finding.subject {
        Subject::Groups(groups) => limiting(report, groups),
        _ => ids
            .groups
            .first()
            .copied()
            .or_else(|| ids.threads.first().and_then(of_thread)),
    };
    let group = model.groups.get(group?.0 as usize)?;
    let has_place = |frame: &&SiteFrame| !frame.function.is_empty();
    group.start.as_ref().filter(has_place).map(names::frame)
}

/// Which methods stand behind the gain, and what could make it another one.
fn sure(finding: &Finding) -> String {
    let gain = &finding.gain;
    let mut texts = vec![methods(gain)];
    if gain.high.is_infinite() {
        texts.push("No upper bound is known: it may gain more.".into());
    } else if gain.low < MIN_GAIN && gain.high >= MIN_GAIN {
        texts.push("It may gain nothing.".into());
    }
    match finding.causes.len() {
        0 | 1 => {}
        2 => texts.push("One other cause is possible.".into()),
        n => texts.push(format!("{} other causes are possible.", n - 1)),
    }
    texts.join(" ")
}

fn methods(gain: &Gain) -> String {
    let alone = || format!("Predicted by {} alone.", name(Method::Accounting));
    let Some(first) = gain.estimates.first() else {
        return alone();
    };
    let Some(all) = combine(&gain.estimates, &first.what_if) else {
        return alone();
    };
    let mut methods: Vec<_> = all.methods.iter().map(|method| name(*method)).collect();
    methods.dedup();
    let who = methods.join(" and ");
    let mut text = match &all.agreement {
        Agreement::Single if methods.len() < 2 => format!("Predicted by {who} alone."),
        Agreement::Single | Agreement::Agree => format!("{} agree.", capitalized(&who)),
        Agreement::Disagree(others) => {
            let of = |other: &Estimate| {
                format!(
                    "{} says {}",
                    name(other.method),
                    human::predicted_gain(&other.gain)
                )
            };
            let others: Vec<_> = others.iter().map(of).collect();
            format!("Predicted by {who}; {}.", others.join(", "))
        }
    };
    let failed = |e: &&Estimate| e.what_if == first.what_if && matches!(e.check, Check::Failed(_));
    let failed: Vec<_> = gain
        .estimates
        .iter()
        .filter(failed)
        .map(|e| name(e.method))
        .collect();
    if !failed.is_empty() {
        text += &format!(
            " No prediction from {}: its check failed.",
            failed.join(" and ")
        );
    }
    text
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Accounting => "time accounting",
        Method::ReplaySimulated => "simulated replay",
        Method::ReplayNative => "native replay",
        Method::Experiment => "an experiment",
        Method::Measured => "a measurement",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_estimate::{Interval, WhatIf};

    fn gain(others: &[(Method, f64, f64, Check)]) -> Gain {
        let mut gain = Gain {
            low: 1.1,
            mid: 1.4,
            high: 2.0,
            ..Gain::none("", "")
        };
        let others = others.iter().map(|(method, low, high, check)| Estimate {
            method: *method,
            what_if: WhatIf::LockRemoved,
            gain: Interval::new(*low, low.midpoint(*high), *high),
            assumption: String::new(),
            check: check.clone(),
        });
        gain.refine(others.collect());
        gain
    }

    #[test]
    fn a_card_names_the_methods_that_agree_and_those_that_do_not() {
        let simulated = Method::ReplaySimulated;
        let alone = methods(&gain(&[]));
        assert_eq!(alone, "Predicted by time accounting alone.");
        let agreed = methods(&gain(&[(simulated, 1.2, 1.6, Check::None)]));
        assert_eq!(agreed, "Simulated replay and time accounting agree.");
        let against = methods(&gain(&[(simulated, 2.5, 3.5, Check::None)]));
        let other = "Predicted by simulated replay; time accounting says 1.4x (1.1–2.0x).";
        assert_eq!(against, other);
        let failed = Check::Failed("it took twice as long".into());
        let failed = methods(&gain(&[(simulated, 2.5, 3.5, failed)]));
        let expected = "Predicted by time accounting alone. \
                        No prediction from simulated replay: its check failed.";
        assert_eq!(failed, expected);
    }
}
