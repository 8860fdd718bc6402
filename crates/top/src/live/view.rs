//! From the state to the screen.

use convoy_live::{Curve, Figure, Metric, Session};
use convoy_report::human;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Clear;
use ratatui::Frame;

use super::keys::HELP;
use super::metrics::for_focus;
use super::rows::TreeRow;
use super::state::{Detail, Marker, Side, State};
use crate::layout::{fit, left};
use crate::view::Look;
use crate::words;

/// Lines that are neither tree nor curves: head, cost, message, keys.
const FURNITURE: u16 = 4;

/// Threads of a curve that are shown one by one.
const MOST_THREADS: usize = 12;

/// Heights of a sparkline's columns, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A moment at which nothing is known.
const GAP: char = ' ';

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, session: &Session, look: Look) {
    let area = frame.area();
    let room = area.height.saturating_sub(FURNITURE);
    state.room = usize::from(room).max(1);
    state.select(state.at);
    let tree_width = (area.width * 2 / 5).clamp(20.min(area.width), 60);
    let tree = Rect::new(0, 1, tree_width.saturating_sub(1), room);
    let curves = Rect::new(tree_width, 1, area.width.saturating_sub(tree_width), room);
    let mut pen = Pen { frame, look };
    pen.line(0, 0, area.width, head(state, session), bold());
    match state.help {
        true => pen.help(Rect::new(0, 1, area.width, room)),
        false => {
            pen.tree(tree, state);
            pen.curves(curves, state, session);
        }
    }
    pen.menu(Rect::new(0, 1, area.width, room), state);
    let at = |from_below: u16| area.height.saturating_sub(from_below);
    let style = pen.cost_style(session);
    pen.line(0, at(3), area.width, cost(session), style);
    pen.line(0, at(2), area.width, state.message.clone(), Style::new());
    pen.line(0, at(1), area.width, keys(state), dim());
}

struct Pen<'f, 'b> {
    frame: &'f mut Frame<'b>,
    look: Look,
}

impl Pen<'_, '_> {
    /// Writes a line; outside of the screen there is nothing.
    fn line(&mut self, x: u16, y: u16, width: u16, text: String, style: Style) {
        let area = self.frame.area();
        let at = Rect::new(x, y, width, 1).intersection(area);
        if at.area() > 0 {
            let text = left(&text, usize::from(at.width));
            self.frame.render_widget(Line::styled(text, style), at);
        }
    }

    fn tree(&mut self, area: Rect, state: &State) {
        let rows = state.rows.iter().enumerate().skip(state.top);
        for (y, (at, row)) in (area.y..area.bottom()).zip(rows) {
            let mut style = match row.has_ended {
                true => dim(),
                false => Style::new(),
            };
            if at == state.at {
                let is_active = state.side == Side::Tree;
                style = style.add_modifier(match is_active {
                    true => Modifier::REVERSED,
                    false => Modifier::UNDERLINED,
                });
            }
            let text = tree_line(row, usize::from(area.width));
            self.line(area.x, y, area.width, text, style);
        }
    }

    fn curves(&mut self, area: Rect, state: &State, session: &Session) {
        let mut y = area.y;
        let width = usize::from(area.width);
        let mut put = |pen: &mut Self, text: String, style: Style| {
            if y < area.bottom() {
                pen.line(area.x, y, area.width, text, style);
            }
            y = y.saturating_add(1);
        };
        for (at, (_, curve)) in session.curves().enumerate() {
            let is_selected = at == state.curve;
            let title = match (is_selected, state.side) {
                (true, Side::Curves) => bold().add_modifier(Modifier::REVERSED),
                (true, Side::Tree) => bold().add_modifier(Modifier::UNDERLINED),
                (false, _) => bold(),
            };
            put(self, title_line(curve, width), title);
            put(self, spark_line(curve, width), self.look.curve());
            put(self, marker_line(curve, &state.markers, width), dim());
            let details = match state.detail {
                _ if !is_selected => Vec::new(),
                Detail::Whole => Vec::new(),
                Detail::Threads => thread_lines(curve, session, width),
                Detail::Histogram => histogram_lines(curve, width),
            };
            for text in details {
                put(self, text, Style::new());
            }
        }
        if session.curves().next().is_none() {
            let text = "Nothing is measured: choose on the left, and press Enter.";
            put(self, text.into(), Style::new());
        }
    }

    fn help(&mut self, area: Rect) {
        for (y, (keys, text)) in (area.y..area.bottom()).zip(HELP) {
            self.line(area.x, y, 20, (*keys).to_owned(), bold());
            let rest = area.width.saturating_sub(20);
            self.line(area.x + 20, y, rest, (*text).to_owned(), Style::new());
        }
    }

    fn menu(&mut self, area: Rect, state: &State) {
        let Some(menu) = &state.menu else { return };
        let metrics = for_focus(&menu.focus);
        let height = u16::try_from(metrics.len() + 1).unwrap_or(u16::MAX);
        let x = area.width / 8;
        let inside = Rect::new(x, area.y + 1, area.width - 2 * x, height).intersection(area);
        self.frame.render_widget(Clear, inside);
        let title = format!(" measure {}", menu.focus);
        self.line(inside.x, inside.y, inside.width, title, bold());
        let rows = metrics.iter().enumerate();
        for (y, (at, row)) in (inside.y + 1..inside.bottom()).zip(rows) {
            let style = match at == menu.at {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            let unit = row.unit.symbol();
            let text = format!("  {} {} {}", left(row.name, 15), left(unit, 8), row.meaning);
            self.line(inside.x, y, inside.width, text, style);
        }
    }

    fn cost_style(&self, session: &Session) -> Style {
        let is_much = session.cost_share() > session.budget();
        match (is_much, self.look.color) {
            (false, _) => Style::new(),
            (true, true) => Style::new().fg(Color::Red),
            (true, false) => bold(),
        }
    }
}

fn head(state: &State, session: &Session) -> String {
    let threads = session.threads().alive().count();
    let mut text = format!(
        "{}: {}, {} CPUs busy",
        state.subject,
        human::count_of(threads as u64, "thread", "threads"),
        human::few(session.cpu())
    );
    if state.has_ended {
        text += "; the process has ended: these are the last values";
    } else if state.frozen {
        text += "; frozen: what is measured goes on";
    }
    text
}

/// The probes that are in, by kind where there are several.
fn probes(session: &Session) -> String {
    let uprobes = session.curves().map(|(id, _)| session.uprobes(id));
    match uprobes.sum::<usize>() {
        0 => "Probes".into(),
        n => format!(
            "Probes, {n} of them {}",
            if n == 1 { "a uprobe" } else { "uprobes" }
        ),
    }
}

fn cost(session: &Session) -> String {
    format!(
        "{} cost {} of the program's CPU time (budget {})",
        probes(session),
        human::percent(session.cost_share()),
        human::percent(session.budget())
    )
}

fn keys(state: &State) -> String {
    match (&state.typing, &state.menu, &state.marked) {
        (Some(text), _, _) => format!("search: {text}_   Enter: done  Esc: all"),
        (None, Some(_), _) => "Up Down: metric  Enter: measure  Esc: back".into(),
        (None, None, Some(focus)) => format!("in {focus}:  Enter: measure  Esc: not in it"),
        (None, None, None) => {
            "Enter: measure  -: remove  /: search  m: mark  t: threads  h: histogram  \
             Space: freeze  w: command  ?: help  q: leave"
                .into()
        }
    }
}

fn tree_line(row: &TreeRow, width: usize) -> String {
    let sign = match row.is_open {
        Some(true) => "▾ ",
        Some(false) => "▸ ",
        None => "  ",
    };
    let figure = match row.figure {
        Some(Figure::Cpu(cpu, state)) => {
            let state = state.map(|state| format!(" {state}")).unwrap_or_default();
            format!("{}{state}", human::percent(cpu))
        }
        Some(Figure::Wait(wait)) => format!("{} wait", human::percent(wait)),
        Some(Figure::Count(n)) => human::count(n as u64),
        None => String::new(),
    };
    let room = width.saturating_sub(figure.chars().count() + 1);
    let name = format!("{}{sign}{}", "  ".repeat(row.depth()), row.name());
    format!("{} {figure}", left(&name, room))
}

fn title_line(curve: &Curve, width: usize) -> String {
    let point = curve.points.back();
    let value = point.and_then(|point| point.value);
    let value = value.map_or("-".into(), |x| words::value(curve.request.metric, x));
    let gap = point.and_then(|point| point.gap.clone());
    let gap = gap.map(|gap| format!("  {gap}")).unwrap_or_default();
    let room = width.saturating_sub(value.chars().count() + 2);
    let name = fit(&curve.request.to_string(), room);
    fit(&format!("{value}  {name}{gap}"), width)
}

/// The last values, one a column, the highest one full.
fn spark_line(curve: &Curve, width: usize) -> String {
    let points = curve.points.iter().rev().take(width);
    let values: Vec<Option<f64>> = points.map(|point| point.value).collect();
    spark(values.into_iter().rev())
}

fn spark(values: impl Iterator<Item = Option<f64>> + Clone) -> String {
    let highest = values.clone().flatten().fold(0.0, f64::max);
    let column = |value: Option<f64>| match value {
        None => GAP,
        Some(value) if highest > 0.0 => {
            let height = value / highest * (BARS.len() - 1) as f64;
            BARS[(height.round() as usize).min(BARS.len() - 1)]
        }
        Some(_) => BARS[0],
    };
    values.map(column).collect()
}

/// Births and deaths of threads, insertions and removals, below the curve.
fn marker_line(curve: &Curve, markers: &[Marker], width: usize) -> String {
    let points: Vec<u64> = curve.points.iter().map(|point| point.t_ms).collect();
    let first = points.len().saturating_sub(width);
    let column = |ix: usize| {
        let after = ix.checked_sub(1).and_then(|ix| points.get(ix));
        let after = after.copied().unwrap_or(0);
        let is_here = |m: &&Marker| m.t_ms > after && m.t_ms <= points[ix];
        let mut here = markers.iter().filter(is_here);
        match (here.next(), here.next()) {
            (None, _) => ' ',
            (Some(marker), None) => marker.sign,
            (Some(_), Some(_)) => '*',
        }
    };
    (first..points.len()).map(column).collect()
}

fn thread_lines(curve: &Curve, session: &Session, width: usize) -> Vec<String> {
    let Some(last) = curve.points.back() else {
        return Vec::new();
    };
    let mut threads = last.by_thread.clone();
    threads.sort_by(|a, b| b.1.total_cmp(&a.1));
    let more = threads.len().saturating_sub(MOST_THREADS);
    let names = width / 3;
    let lines = threads.iter().take(MOST_THREADS).map(|(tid, value)| {
        let name = session.threads().get(*tid).map_or("", |t| t.name.as_str());
        let value = words::value(curve.request.metric, *value);
        let label = left(&format!("  {name} ({tid}) {value}"), names);
        let of = |point: &convoy_live::Point| {
            let own = point.by_thread.iter().find(|(t, _)| t == tid);
            own.map(|(_, value)| *value)
        };
        let room = width.saturating_sub(names + 1);
        let points = curve.points.iter().rev().take(room);
        let values: Vec<Option<f64>> = points.map(of).collect();
        format!("{label} {}", spark(values.into_iter().rev()))
    });
    let mut lines: Vec<String> = lines.collect();
    if more > 0 {
        lines.push(format!(
            "  and {}",
            human::count_of(more as u64, "thread", "threads")
        ));
    }
    lines
}

fn histogram_lines(curve: &Curve, width: usize) -> Vec<String> {
    let mut all = convoy_live::Histogram::default();
    let histograms = curve.points.iter().filter_map(|p| p.histogram.as_ref());
    histograms.for_each(|histogram| all.merge(histogram));
    let bins = all.bins();
    let highest = bins.iter().copied().max().unwrap_or(0);
    if highest == 0 {
        let why = match curve.request.metric {
            Metric::Calls => "  durations are known where time is measured",
            _ => "  no call has returned",
        };
        return vec![why.into()];
    }
    let used: Vec<usize> = (0..bins.len()).filter(|ix| bins[*ix] > 0).collect();
    let (first, last) = (used[0], used[used.len() - 1]);
    let lines = (first..=last).map(|ix| {
        let label = human::duration((ix as f64).exp2());
        let room = width.saturating_sub(22);
        let length = (bins[ix] as f64 / highest as f64 * room as f64).round() as usize;
        format!(
            "  {label:>9} {:>8} {}",
            human::count(bins[ix]),
            "█".repeat(length)
        )
    });
    lines.collect()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

impl Look {
    fn curve(self) -> Style {
        match self.color {
            true => Style::new().fg(Color::Cyan),
            false => Style::new(),
        }
    }
}
