//! How far the section on the scheduler can be trusted.

use convoy_analysis::scheduler::{Analysis, Quality};
use convoy_model::{Lost, SchedSource};

use crate::human::{count, count_of, duration, few, percent};
use crate::text::page::{plain, toned, Page, Tone};
use crate::text::table::INDENT;
use crate::Report;

/// Spans of lost events that are listed.
const SPANS: usize = 4;

/// Columns of the label of a line.
const LABEL: usize = 10;

/// CMetrics add up to the time with an active thread. Further from it than this, something is wrong.
const CHECK: f64 = 0.001;

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    let q = &analysis.quality;
    page.title("Quality of the scheduler's data");
    let line = |page: &mut Page, tone: Tone, label: &str, text: String| {
        page.hang(INDENT, toned(tone, label), LABEL, vec![plain(text)]);
    };
    let source = match q.source {
        SchedSource::Bpf => "eBPF: switches, wake-ups with wakers, system calls, call stacks",
        SchedSource::Perf => "perf events: switches only; a woken thread counts as active once it runs, and neither wakers nor reasons are known",
    };
    let events = count_of(q.events, "event", "events");
    line(page, Tone::Plain, "source", format!("{source}; {events}"));
    let (tone, lost) = lost(report, analysis);
    line(page, tone, "lost", lost);
    if q.lost_stacks > 0 {
        let text = format!(
            "{} of waits or samples lost: an older one of the same place stands for them, or none",
            count_of(q.lost_stacks, "call stack", "call stacks")
        );
        line(page, Tone::Warn, "stacks", text);
    }
    if q.contradictions > 0 {
        let why = match q.lost_events {
            0 => "the later one is believed",
            _ => "a consequence of lost ones",
        };
        let text = format!(
            "{} inconsistent with their thread: {why}",
            count_of(q.contradictions, "event", "events")
        );
        line(page, Tone::Warn, "doubts", text);
    }
    if q.dropped_rows > 0 {
        let text = format!(
            "{} of the profile left out: their references lead nowhere",
            count_of(q.dropped_rows, "row", "rows")
        );
        line(page, Tone::Bad, "rows", text);
    }
    line(page, Tone::Plain, "code", code(analysis));
    let (tone, text) = check(q);
    line(page, tone, "check", text);
}

/// How many events are missing, and when.
fn lost(report: &Report<'_>, analysis: &Analysis) -> (Tone, String) {
    let q = &analysis.quality;
    if q.lost_events == 0 {
        return (Tone::Good, "nothing".into());
    }
    let spans: Vec<&Lost> = report
        .model
        .sched
        .iter()
        .flat_map(|sched| sched.lost.iter())
        .filter(|lost| !lost.stacks)
        .collect();
    let origin = report.model.sched.as_ref().map_or(0, |s| s.start_ns);
    let texts: Vec<_> = spans
        .iter()
        .take(SPANS)
        .map(|lost| {
            format!(
                "{} between {} and {}",
                count(lost.events),
                duration(lost.from_ns.saturating_sub(origin) as f64),
                duration(lost.to_ns.saturating_sub(origin) as f64)
            )
        })
        .collect();
    let mut text = format!(
        "{} in {}: who ran and who waited is not known then",
        count_of(q.lost_events, "event", "events"),
        duration(q.lost_ns as f64)
    );
    if !texts.is_empty() {
        text += &format!(" ({}", texts.join(", "));
        if spans.len() > SPANS {
            text += &format!(", and {} more spans", spans.len() - SPANS);
        }
        text += ")";
    }
    (Tone::Bad, text)
}

/// How the code of the activity is known.
fn code(analysis: &Analysis) -> String {
    let q = &analysis.quality;
    let samples = match q.sample_period_ns {
        0 => "no samples were taken".into(),
        ns => format!(
            "a sample every {} of CPU time while parallelism is low",
            duration(ns as f64)
        ),
    };
    let [sampled, top, unknown] = q.code_from;
    format!(
        "{samples}; of the CMetric, {} is known from samples, {} from the stack top, {} is of unknown code",
        percent(sampled),
        percent(top),
        percent(unknown)
    )
}

/// The CMetric of all threads does not add up as it must.
pub fn is_off(q: &Quality) -> bool {
    (q.cm_check - 1.0).abs() >= CHECK
}

fn check(q: &Quality) -> (Tone, String) {
    let what = "of the time with an active thread";
    if is_off(q) {
        let percent = few(100.0 * q.cm_check);
        let text = format!("the CMetric of all threads adds up to {percent} % {what}, not to 100 %: numbers of this page are off by about as much");
        (Tone::Bad, text)
    } else {
        let text = format!("the CMetric of all threads adds up to 100 % {what}, as it must");
        (Tone::Good, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_the_cmetric_is_judged() {
        let said = |cm_check| {
            let (tone, text) = check(&Quality {
                cm_check,
                ..Quality::default()
            });
            (
                tone == Tone::Good,
                text.contains("as it must"),
                text.contains("up to 98.0 % of"),
            )
        };
        assert_eq!(said(1.0), (true, true, false));
        assert_eq!(said(0.9995), (true, true, false));
        assert_eq!(said(0.98), (false, false, true));
    }
}
