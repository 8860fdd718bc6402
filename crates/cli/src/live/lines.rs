//! Values as lines, one for each metric and interval: JSON for programs, text for people.

use std::io::{self, ErrorKind, Write};

use convoy_live::{json, Point, Request, Session};
use convoy_report::human;
use convoy_top::value;

use crate::output_args::Format;

/// Above the first line of text.
const HEAD: &str = "       t       value    cost  metric\n";

/// Writes lines.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    format: Format,
    is_first: bool,
}

impl<W: Write> Lines<W> {
    /// To a stream.
    pub fn new(out: W, format: Format) -> Self {
        Self {
            out,
            format,
            is_first: true,
        }
    }

    /// Writes the last point of every curve; whether anybody still reads.
    pub fn write(&mut self, session: &Session) -> io::Result<bool> {
        let mut text = String::new();
        if self.format == Format::Text && std::mem::take(&mut self.is_first) {
            text += HEAD;
        }
        for (id, curve) in session.curves() {
            let Some(point) = curve.points.back() else {
                continue;
            };
            text += &match self.format {
                Format::Json => json(&curve.request, point, session.uprobes(id) > 0),
                Format::Text => line(&curve.request, point, session.uprobes(id) > 0),
            };
            text.push('\n');
        }
        let written = self.out.write_all(text.as_bytes());
        match written.and_then(|()| self.out.flush()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            other => other.map(|()| true),
        }
    }
}

fn line(request: &Request, point: &Point, is_uprobe: bool) -> String {
    let seconds = point.t_ms as f64 / 1e3;
    let value = point.value.map_or("-".into(), |x| value(request.metric, x));
    let cost = human::percent(point.cost_share);
    let gap = point.gap.as_ref().map(|gap| format!(": {gap}"));
    let gap = gap.unwrap_or_default();
    let uprobe = if is_uprobe { " (uprobe)" } else { "" };
    format!("{seconds:6.1} s {value:>11} {cost:>7}{uprobe}  {request}{gap}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_what_and_why_not() {
        let request: Request = r#"wall{function="f"}"#.parse().unwrap();
        let mut point = Point {
            t_ms: 12_000,
            value: Some(0.412),
            gap: None,
            cost_share: 0.0012,
            by_thread: Vec::new(),
            histogram: None,
        };
        assert_eq!(
            line(&request, &point, false),
            r#"  12.0 s    412 ms/s  0.12 %  wall{function="f"}"#
        );
        (point.value, point.gap) = (None, Some("just put in".into()));
        assert!(line(&request, &point, true).contains("% (uprobe)  wall"));
        assert!(line(&request, &point, false).ends_with(r#"wall{function="f"}: just put in"#));
    }
}
