//! What a person at a terminal sees when the program has ended: the verdict, a picture, the first
//! finding.

use convoy_model::finding::{Finding, Gain};

use super::page::{plain, toned, Page, Tone};
use super::{findings, head, tail, Options};
use crate::human::{self, count_of};
use crate::Report;

const LABEL: usize = 9;
/// Columns of the picture.
const BAR: usize = 32;
/// A gain without a bound: its bar goes on for this share of the expected gain, and stays open.
const OPEN: f64 = 0.3;

pub(super) fn write(page: &mut Page, report: &Report<'_>, options: &Options) {
    head::run(page, report);
    head::unexplained(page, report);
    page.gap();
    head::verdict(page, report);
    let found = &report.analysis.findings;
    if let Some(first) = found.first() {
        picture(page, &first.gain);
        findings::first(page, report, first);
    }
    rest(page, found);
    tail::hints(page, report, options);
    tail::doubts(page, report);
}

/// Throughput now and after the fix, one scale: what is sure of the gain, what is expected, what it
/// could be at most.
fn picture(page: &mut Page, gain: &Gain) {
    if gain.high <= 1.0 || gain.mid <= 1.0 {
        return;
    }
    let is_open = gain.high.is_infinite();
    let end = if is_open {
        (1.0 + OPEN) * gain.mid
    } else {
        gain.high
    };
    page.gap();
    let columns = |throughput: f64| (throughput / end * BAR as f64).round() as usize;
    let now = page.bars(&[columns(1.0)]);
    page.hang(0, plain("now"), LABEL, vec![plain(now)]);
    let fixed = page.bars(&[columns(gain.low), columns(gain.mid), BAR]);
    let open = if is_open { "> " } else { "  " };
    let spans = vec![
        toned(Tone::Good, fixed),
        plain(open),
        toned(Tone::Strong, human::gain(gain)),
    ];
    page.hang(0, plain("fixed"), LABEL, spans);
}

fn rest(page: &mut Page, found: &[Finding]) {
    let more = found.len().saturating_sub(1);
    if more == 0 {
        return;
    }
    page.gap();
    let text = format!(
        "{} more, with smaller gains",
        count_of(more as u64, "finding", "findings")
    );
    page.line(0, vec![toned(Tone::Dim, text)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(low: f64, mid: f64, high: f64) -> String {
        let mut page = Page::new(80, false, false);
        picture(
            &mut page,
            &Gain {
                low,
                mid,
                high,
                ..Gain::none("", "")
            },
        );
        page.finish()
    }

    #[test]
    fn bars_are_to_scale() {
        let text = drawn(1.0, 1.5, 2.0);
        let lines: Vec<_> = text.lines().collect();
        let count = |line: &str, c: char| line.chars().filter(|at| *at == c).count();
        assert_eq!(count(lines[0], '#'), BAR / 2, "{text}");
        assert_eq!(count(lines[1], '#'), BAR / 2, "{text}");
        assert_eq!(count(lines[1], '='), BAR / 4, "{text}");
        assert!(lines[1].ends_with("  1.5x (1.00-2.0x)"), "{text}");
        assert_eq!(drawn(1.0, 1.0, 1.0), "", "nothing to gain");
    }

    #[test]
    fn a_gain_without_a_bound_stays_open() {
        let text = drawn(1.2, 1.4, f64::INFINITY);
        assert!(text.contains(".> 1.4x (1.2x or more)"), "{text}");
    }
}
