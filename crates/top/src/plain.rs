//! The same as text: for pages of the terminal, and for `--once`.

use convoy_report::human;
use serde_json::{json, Map, Value};

use crate::app::App;
use crate::filter::Filter;
use crate::grid::{Cell, Grid, Key, Row, Sort};
use crate::layout::{fit, Layout};
use crate::page::Page;
use crate::span::Span;
use crate::tables::Table;

/// Rows of each table of `--once`; with a filter, of what it lets through.
const ROWS: usize = 20;

/// How a line looks where there are looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Title,
    /// Headings of columns.
    Head,
    /// Everything else.
    Plain,
}

/// A page in lines.
pub fn lines(page: &Page, width: usize) -> Vec<(Tone, String)> {
    let mut lines = vec![(Tone::Title, fit(&page.title, width))];
    for fact in &page.facts {
        lines.extend(wrapped(fact, width).into_iter().map(|l| (Tone::Plain, l)));
    }
    for (title, grid) in page.tables.iter().filter(|(_, grid)| !grid.rows.is_empty()) {
        lines.push((Tone::Plain, String::new()));
        lines.push((Tone::Title, (*title).to_owned()));
        let layout = Layout::new(grid, width);
        lines.push((Tone::Head, layout.head(grid, None)));
        let rows = grid.rows.iter().map(|row| layout.row(grid, row));
        lines.extend(rows.map(|row| (Tone::Plain, row)));
    }
    lines
}

/// Broken between words; a word that is too long is cut.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = fit(word, width);
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                *line += &word;
            }
            _ => lines.push(word),
        }
    }
    lines
}

impl App {
    /// The first line of the screen: what is looked at, and how it does.
    pub(crate) fn headline(&self) -> String {
        let Some(span) = self.span() else {
            return format!("{}: reading its tables and symbols", self.subject);
        };
        let model = span.now;
        let mut names: Vec<String> = model.processes.iter().map(|p| p.name.clone()).collect();
        names.dedup();
        let more = names.len().saturating_sub(3);
        names.truncate(3);
        let mut what = names.join(", ");
        if more > 0 {
            what += &format!(" and {more} more");
        }
        let alive = |t: &&convoy_model::Thread| t.end_ns >= model.meta.end_ns;
        let (threads, verb) = match self.is_running() {
            true => (model.threads.iter().filter(alive).count(), "runs for"),
            false => (model.threads.len(), "ran for"),
        };
        let mut text = format!(
            "{what} ({}), {verb} {}, {}",
            self.subject,
            human::duration(span.age_seconds() * 1e9),
            human::count_of(threads as u64, "thread", "threads"),
        );
        if let Some(cpus) = cpus(span) {
            text += &format!(", {} CPUs busy", human::few(cpus));
        }
        text
    }

    /// The second line: what "now" means, and whether that still changes.
    pub(crate) fn state(&self) -> String {
        let Some(reading) = &self.now else {
            return String::new();
        };
        if self.has_ended() {
            return "the program has ended: this is the last reading".into();
        }
        if !reading.running {
            return "a run that is over: \"all\" is since its start, of \"now\" nothing is known"
                .into();
        }
        if self.paused {
            return "paused: the program goes on".into();
        }
        let mut text = match self.span().and_then(|span| span.seconds()) {
            Some(seconds) => format!("\"now\": the last {}", human::duration(seconds * 1e9)),
            None => "\"now\" is known after the second reading".into(),
        };
        if self.pause > self.interval {
            text += &format!(
                "; a reading takes {} of CPU time, so that there is one every {}",
                human::duration(reading.cpu.as_nanos() as f64),
                human::duration(self.pause.as_nanos() as f64),
            );
        }
        if let Some(note) = reading.model.meta.notes.last() {
            text += &format!("; {note}");
        }
        text
    }

    /// All tables as text.
    pub fn text(&self, width: usize) -> String {
        let mut text = format!(
            "{}\n{}\n",
            fit(&self.headline(), width),
            fit(&self.state(), width)
        );
        let Some(span) = self.span() else {
            return text;
        };
        for table in Table::ALL {
            let grid = table.grid(span);
            let order = grid.order(table.sort(self.is_live()), &self.filter);
            text += &format!("\n{}\n", heading(table, &grid, &order, &self.filter));
            if order.is_empty() {
                continue;
            }
            let layout = Layout::new(&grid, width);
            text += layout.head(&grid, None).trim_end();
            text.push('\n');
            for row in order.iter().take(ROWS).filter_map(|ix| grid.rows.get(*ix)) {
                text += layout.row(&grid, row).trim_end();
                text.push('\n');
            }
        }
        text
    }

    /// All tables with all rows, for a program.
    pub fn json(&self) -> String {
        let mut root = Map::new();
        root.insert("subject".into(), json!(self.subject));
        root.insert("running".into(), json!(self.is_running()));
        if let Some(span) = self.span() {
            root.insert("age_s".into(), json!(span.age_seconds()));
            root.insert("now_s".into(), json!(span.seconds()));
            root.insert("notes".into(), json!(span.now.meta.notes));
            for table in Table::ALL {
                let grid = table.grid(span);
                let order = grid.order(table.sort(self.is_live()), &self.filter);
                let rows = order.iter().filter_map(|ix| grid.rows.get(*ix));
                let rows: Vec<Value> = rows.map(|row| record(&grid, row)).collect();
                root.insert(table.id().into(), Value::Array(rows));
            }
        }
        escaped(&format!("{:#}\n", Value::Object(root)))
    }
}

/// JSON leaves some characters as they are that a terminal takes for commands; they stand in texts only.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_control() && c != '\n' {
            true => out += &format!("\\u{:04x}", u32::from(c)),
            false => out.push(c),
        }
    }
    out
}

fn record(grid: &Grid, row: &Row) -> Value {
    let mut record = Map::new();
    record.insert("name".into(), json!(row.name));
    match &row.key {
        Key::Object(pid, addr) => {
            record.insert("pid".into(), json!(pid));
            record.insert("address".into(), json!(format!("0x{addr:x}")));
        }
        Key::Thread(pid, tid, _) => {
            record.insert("pid".into(), json!(pid));
            record.insert("tid".into(), json!(tid));
        }
        Key::Group(pid, _) => {
            record.insert("pid".into(), json!(pid));
        }
        Key::Line => {}
    }
    for (cell, column) in row.cells.iter().zip(grid.columns) {
        let value = match cell {
            Cell::Count(n) => json!(n),
            other => json!(other.value()),
        };
        record.insert(column.id.into(), value);
    }
    if !grid.remark.is_empty() {
        record.insert("waits_for".into(), json!(row.remark));
    }
    Value::Object(record)
}

/// `locks: 20 of 90,000`.
fn heading(table: Table, grid: &Grid, order: &[usize], filter: &Filter) -> String {
    let all = human::count(order.len() as u64);
    let mut text = match order.len() {
        0 => format!("{}: none", table.title()),
        n if n > ROWS => format!("{}: {ROWS} of {all}", table.title()),
        _ => format!("{}: {all}", table.title()),
    };
    if !filter.text().is_empty() {
        text += &format!(
            " with \"{}\", of {}",
            filter.text(),
            human::count(grid.rows.len() as u64)
        );
    }
    text
}

/// Processors in use between the readings, or with one since the start.
fn cpus(span: Span<'_>) -> Option<f64> {
    let before = span.threads_before();
    let used: u64 = span
        .now
        .threads
        .iter()
        .map(|thread| {
            let earlier = before.get(&crate::span::thread_key(span.now, thread));
            thread
                .cpu_ns
                .saturating_sub(earlier.map_or(0, |t| t.cpu_ns))
        })
        .sum();
    let seconds = match span.before {
        Some(_) => span.seconds()?,
        None => span.age_seconds(),
    };
    (seconds > 0.0).then(|| used as f64 / 1e9 / seconds)
}

/// Which way the table is sorted, for the foot of the screen.
pub(crate) fn sorted_by(grid: &Grid, sort: Sort) -> &'static str {
    match sort.column {
        Some(column) => grid.columns.get(column).map_or("", |column| column.title),
        None => "name",
    }
}
