//! The first screen: verdict, throughput before and after the best fixes, who waited for what, and
//! the fixes themselves. Drawn without a script.

mod bands;
mod fixes;
mod gauge;
mod remedy;
mod scale;

use convoy_model::finding::Finding;
use convoy_report::human::{self, count_of, duration, few, percent};
use convoy_report::{names, verdict, Report};
use maud::{html, Markup};

use super::quality;
use crate::data::Data;
use crate::words;

/// Letters of the command; "The recording" has all of it.
const MAX_COMMAND: usize = 100;
/// Fixes on the first screen.
const FIXES: usize = 3;
/// A bound below this is none to speak of.
const NO_GAIN: f64 = 1.005;
/// Share of the run at low parallelism that is worth a word.
const MIN_LOW_SHARE: f64 = 0.1;

pub(super) fn first_screen(report: &Report<'_>, data: &Data, damage: &[String]) -> Markup {
    let best = best(report);
    let scale = scale::Scale::of(best.iter().map(|finding| &finding.gain));
    html! {
        header {
            (run(report))
            h1 #verdict { (verdict_lines(report)) }
            @if let Some(text) = parallelism(report) { p .context { (text) } }
            (quality::care(report, damage))
            div .answer .alone[best.is_empty()] .one[best.len() == 1] {
                (gauge::gauge(best, scale))
                (bands::picture(report, data))
                (fixes::fixes(report, best))
            }
        }
    }
}

/// The findings whose fixes are on the first screen.
fn best<'a>(report: &Report<'a>) -> &'a [Finding] {
    let findings = &report.analysis.findings;
    &findings[..findings.len().min(FIXES)]
}

/// The main cause and what its fix gains; without a cause, that there is none.
fn verdict_lines(report: &Report<'_>) -> Markup {
    if let Some(first) = report.analysis.findings.first() {
        let gain = human::gain(&first.gain);
        return html! {
            (capitalized(&first.title)) ". "
            span .expected {
                @if first.gain.high < NO_GAIN { "No gain is expected." }
                @else { "Expected gain " (gain) "." }
            }
        };
    }
    let text = verdict::of(report);
    html! { (if text.is_empty() { "Nothing was recorded that can be judged." } else { &text }) }
}

/// A text as a sentence begins; names of code stay as they are.
fn capitalized(text: &str) -> String {
    let is_word = |c: char| c.is_alphabetic() || c == '-';
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    match text[end..].starts_with([' ', ',']) && !text[..end].contains('-') {
        true => remedy::capitalized(text),
        false => text.into(),
    }
}

fn run(report: &Report<'_>) -> Markup {
    let meta = &report.model.meta;
    let command = meta.command.join(" ");
    let wall = meta.end_ns.saturating_sub(meta.start_ns);
    let threads = count_of(report.model.threads.len() as u64, "thread", "threads");
    let processes = count_of(report.model.processes.len() as u64, "process", "processes");
    html! {
        p .run {
            code title=(command) { (names::clip(&command, MAX_COMMAND)) }
            " " (duration(wall as f64)) ", " (threads) " in " (processes)
            @if meta.machine.cpus_allowed > 0 {
                ", " (count_of(u64::from(meta.machine.cpus_allowed), "CPU", "CPUs"))
            }
            ", " (words::exit(meta))
            @if meta.started_unix_ns > 0 { ", " (words::date(meta.started_unix_ns)) }
        }
    }
}

/// How parallel the program was; `None` where the verdict says it, or nobody knows.
fn parallelism(report: &Report<'_>) -> Option<String> {
    let p = &report.critical?.parallelism;
    if report.analysis.findings.is_empty() || p.wall_ns == 0 || p.workers == 0 {
        return None;
    }
    let mut text = format!(
        "On average {} of {} worked",
        few(p.working_mean),
        count_of(p.workers_at_once as u64, "worker thread", "worker threads"),
    );
    if p.cpus > 0 {
        let cpus = count_of(u64::from(p.cpus), "CPU", "CPUs");
        text += &format!(" and {} of {cpus} were busy", few(p.running_mean));
    }
    let low = (p.low_ns + p.none_ns()) as f64 / p.wall_ns as f64;
    if p.low_below > 1.0 && low >= MIN_LOW_SHARE {
        let least = p.low_below.ceil();
        text += &format!(
            "; fewer than {least:.0} worked for {} of the run",
            percent(low)
        );
    }
    Some(text + ".")
}

#[cfg(test)]
mod tests {
    use super::capitalized;

    #[test]
    fn a_verdict_begins_like_a_sentence_but_names_stay() {
        for (title, text) in [
            ("waiting on the processor", "Waiting on the processor"),
            (
                "monte_carlo(): thread 7 works",
                "monte_carlo(): thread 7 works",
            ),
            (
                "staticMutexes.112: 4 threads",
                "staticMutexes.112: 4 threads",
            ),
            ("transform-# is busy", "transform-# is busy"),
            ("4 threads wait", "4 threads wait"),
        ] {
            assert_eq!(capitalized(title), text);
        }
    }
}
