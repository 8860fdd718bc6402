//! The curves of a `convoy live` session that was kept: a line for each.

use convoy_profile::{LiveCurve, LiveCurves, LiveMarkKind, LivePoint};

use super::page::{cell_right, plain, toned, Page, Tone};
use super::table::INDENT;
use crate::human::{count_of, duration, percent};
use crate::names;
use crate::values::{live_request, live_value};

/// Columns of a curve: the session from left to right.
const COLUMNS: usize = 30;

/// Columns of a value.
const VALUE: usize = 10;

/// Heights of a column, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Cost of probes that is worth a word.
const WORTH_TELLING: f64 = 0.001;

/// Threads of a curve that get a line.
const MOST_THREADS: usize = 8;

/// The section; with a line for each thread, or for whole curves only.
pub fn write(page: &mut Page, live: &LiveCurves, with_threads: bool) {
    page.title("Curves of a session of convoy live");
    let head = format!(
        "{}{}{}  metric",
        " ".repeat(INDENT + COLUMNS),
        cell_right("mean", VALUE + 1),
        cell_right("highest", VALUE + 1),
    );
    page.row(&[toned(Tone::Dim, head)]);
    for curve in &live.curves {
        line(page, live, curve);
        if with_threads {
            threads(page, live, curve);
        }
    }
    if live.curves.is_empty() {
        page.line(INDENT, vec![plain("Nothing was measured.")]);
    }
    let marks = marks(live);
    if !marks.trim().is_empty() {
        let text = format!("{}{marks}", " ".repeat(INDENT));
        page.row(&[toned(Tone::Dim, text)]);
    }
    let length = duration(live.length_ns as f64);
    let text = format!(
        "from left to right: {length}; the highest value of a curve is a full column{}",
        match marks.trim() {
            "" => "",
            _ => "; threads that began (+) and ended (-), both (*)",
        }
    );
    page.line(INDENT, vec![toned(Tone::Dim, text)]);
    if live.left_out > 0 {
        let what = count_of(live.left_out, "curve or mark", "curves or marks");
        let text = format!("{what} left out: a session keeps a limited number");
        page.line(INDENT, vec![toned(Tone::Warn, text)]);
    }
}

fn line(page: &mut Page, live: &LiveCurves, curve: &LiveCurve) {
    let values: Vec<Option<f64>> = curve.points.iter().map(|p| p.value).collect();
    let strip = strip(live, &curve.points, &values, page.unicode());
    let request = live_request(curve);
    let cost = curve
        .points
        .iter()
        .map(|p| p.cost_ratio)
        .fold(0.0, f64::max);
    let cost = match cost >= WORTH_TELLING {
        true => format!(", cost {}", percent(cost)),
        false => String::new(),
    };
    figures(page, &strip, &curve.unit, &values, &(request + &cost));
    let gap = curve.points.iter().rev().find(|p| !p.gap.is_empty());
    if let Some(point) = gap.filter(|_| values.iter().flatten().next().is_none()) {
        page.line(2 * INDENT, vec![toned(Tone::Warn, point.gap.clone())]);
    }
}

fn threads(page: &mut Page, live: &LiveCurves, curve: &LiveCurve) {
    for thread in curve.threads.iter().take(MOST_THREADS) {
        let strip = strip(live, &curve.points, &thread.values, page.unicode());
        let name = format!("  {} ({})", thread.name, thread.tid);
        figures(page, &strip, &curve.unit, &thread.values, &name);
    }
    let more = curve.threads.len().saturating_sub(MOST_THREADS) as u64;
    let more = more.saturating_add(curve.threads_left_out);
    if more > 0 {
        let text = format!("and {}", count_of(more, "other thread", "other threads"));
        page.line(INDENT + COLUMNS + 2, vec![toned(Tone::Dim, text)]);
    }
}

fn figures(page: &mut Page, strip: &str, unit: &str, values: &[Option<f64>], name: &str) {
    let known: Vec<f64> = values.iter().copied().flatten().collect();
    let shown = |x: Option<f64>| x.map_or("-".into(), |x| live_value(unit, x));
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    let highest = known.iter().copied().reduce(f64::max);
    let figures = format!(
        "{}{strip}{}{}  ",
        " ".repeat(INDENT),
        cell_right(&shown(mean), VALUE + 1),
        cell_right(&shown(highest), VALUE + 1),
    );
    let beside = INDENT + COLUMNS + 2 * VALUE + 4;
    let room = page.width().saturating_sub(beside).max(VALUE);
    let mut begin = figures;
    for part in parts(name, room) {
        page.row(&[plain(begin + &names::clip(part, room))]);
        begin = " ".repeat(beside);
    }
}

/// A name in lines that fit, if its parts do.
fn parts(name: &str, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while rest.chars().count() > room {
        let ends = rest.match_indices(", ").map(|(at, _)| at + 2);
        let fits = |end: &usize| {
            rest.get(..*end)
                .is_some_and(|t| t.chars().count() <= room + 1)
        };
        let Some(end) = ends.take_while(fits).last() else {
            break;
        };
        let (part, after) = rest.split_at(end);
        parts.push(part.trim_end());
        rest = after;
    }
    parts.push(rest);
    parts
}

/// The column of a moment.
fn column(live: &LiveCurves, t_ms: u64) -> usize {
    let length_ms = (live.length_ns / 1_000_000).max(1);
    let at = u128::from(t_ms) * COLUMNS as u128 / u128::from(length_ms);
    usize::try_from(at).map_or(COLUMNS - 1, |at| at.min(COLUMNS - 1))
}

/// A column for each part of the session, as high as the mean of its values.
fn strip(live: &LiveCurves, points: &[LivePoint], values: &[Option<f64>], unicode: bool) -> String {
    let mut sums = [(0.0, 0_u32); COLUMNS];
    let mut reached = 0;
    for (point, value) in points.iter().zip(values) {
        // A value stands for the time since the one before.
        let to = column(live, point.t_ms);
        let from = column(live, point.t_ms.saturating_sub(live.every_ns / 1_000_000));
        for at in from.max(reached.min(to))..=to {
            if let (Some(sum), Some(value)) = (sums.get_mut(at), value) {
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
        reached = to;
    }
    let means = sums.map(|(sum, n)| (n > 0).then(|| sum / f64::from(n)));
    let highest = means.into_iter().flatten().fold(0.0, f64::max);
    let of = |mean: Option<f64>| {
        let Some(mean) = mean else { return ' ' };
        let height = if highest > 0.0 { mean / highest } else { 0.0 };
        let steps = if unicode { BARS.len() - 1 } else { 9 };
        let step = (height * steps as f64).round() as usize;
        match unicode {
            true => BARS.get(step).copied().unwrap_or(BARS[0]),
            false => char::from_digit(step as u32, 10).unwrap_or('9'),
        }
    };
    means.into_iter().map(of).collect()
}

/// Births and deaths of threads, by column.
fn marks(live: &LiveCurves) -> String {
    let mut columns = [' '; COLUMNS];
    for mark in &live.marks {
        let sign = match mark.kind {
            LiveMarkKind::ThreadBegan => '+',
            LiveMarkKind::ThreadEnded => '-',
            LiveMarkKind::CurveAdded | LiveMarkKind::CurveRemoved => continue,
        };
        if let Some(cell) = columns.get_mut(column(live, mark.t_ms)) {
            *cell = match *cell {
                ' ' => sign,
                same if same == sign => sign,
                _ => '*',
            };
        }
    }
    columns.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_profile::{LiveMark, LiveThread};

    fn session() -> LiveCurves {
        let point = |(ix, value): (u64, &Option<f64>)| LivePoint {
            t_ms: (ix + 1) * 1000,
            value: *value,
            ..LivePoint::default()
        };
        let values = [Some(0.0), Some(4000.0), None, Some(8000.0)];
        let mark = |t_ms, kind| LiveMark {
            t_ms,
            kind,
            text: String::new(),
        };
        LiveCurves {
            every_ns: 1_000_000_000,
            length_ns: 4_000_000_000,
            marks: vec![
                mark(100, LiveMarkKind::ThreadBegan),
                mark(3900, LiveMarkKind::ThreadEnded),
            ],
            left_out: 0,
            curves: vec![LiveCurve {
                metric: "calls".into(),
                focus: "{function=\"f\"}".into(),
                unit: "1/s".into(),
                kind: "exact".into(),
                points: (0..).zip(&values).map(point).collect(),
                threads: vec![LiveThread {
                    tid: 7,
                    name: "pool-1".into(),
                    values: values.to_vec(),
                }],
                threads_left_out: 2,
            }],
        }
    }

    fn text(unicode: bool, with_threads: bool) -> Vec<String> {
        let mut page = Page::new(100, false, unicode);
        write(&mut page, &session(), with_threads);
        page.finish().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_curve_is_a_line_with_gaps_where_nothing_is_known() {
        let lines = text(false, false);
        let line = lines.iter().find(|line| line.contains("calls{")).unwrap();
        let strip: String = line.chars().skip(INDENT).take(COLUMNS).collect();
        assert!(strip.starts_with("0000000"), "{strip:?}");
        assert!(strip.contains("5555"), "{strip:?}");
        assert!(strip.contains("      "), "{strip:?}");
        assert!(strip.ends_with("99999"), "{strip:?}");
        assert!(
            line.contains("4.00 k/s") && line.contains("8.00 k/s"),
            "{line}"
        );
        let marks = lines.iter().find(|line| line.contains('+')).unwrap();
        assert_eq!(marks.len(), INDENT + COLUMNS, "the end is at the right");
    }

    #[test]
    fn threads_are_shown_where_all_is() {
        let has_thread = |lines: &[String]| lines.iter().any(|l| l.contains("pool-1 (7)"));
        assert!(has_thread(&text(true, true)));
        assert!(!has_thread(&text(true, false)));
        let all = text(true, true);
        assert!(all.iter().any(|l| l.contains("and 2 other threads")));
    }

    #[test]
    fn long_names_go_on_in_the_next_line() {
        let name = r#"cpu{function="quick", in="handle", group="worker-#"}"#;
        assert_eq!(parts(name, 80), [name]);
        let expected = [
            r#"cpu{function="quick", in="handle","#,
            r#"group="worker-#"}"#,
        ];
        assert_eq!(parts(name, 40), expected);
        assert_eq!(parts("no_end_of_a_part", 5), ["no_end_of_a_part"]);
    }

    #[test]
    fn times_beyond_the_end_have_a_column() {
        let mut live = session();
        live.length_ns = 0;
        assert_eq!(column(&live, u64::MAX), COLUMNS - 1);
    }
}
