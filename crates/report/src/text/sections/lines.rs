//! The lines of the section's own code, with what they call.

use convoy_diagnose::{LineRow, SiteRow};
use convoy_model::Sharing;

use crate::human::{few, percent};
use crate::names;
use crate::text::page::Page;
use crate::text::table::{Column, Table};

/// Lines that are shown, those with most instructions.
const LINES: usize = 14;

/// Share of the instructions below which a line without shared data is not shown.
const SEEN: f64 = 0.005;

const COLUMNS: [Column; 6] = [
    ("instr.", 9),
    ("share", 8),
    ("times", 8),
    ("accesses", 10),
    ("shared", 8),
    ("", 10),
];

/// The table, in order of the lines.
pub fn write(page: &mut Page, row: &SiteRow) {
    if row.lines.is_empty() {
        return;
    }
    let told = |line: &&LineRow| line.share >= SEEN || shared(line) > 0.0;
    let mut most: Vec<&LineRow> = row.lines.iter().filter(told).collect();
    most.sort_by(|a, b| b.instructions.total_cmp(&a.instructions));
    most.truncate(LINES);
    most.sort_by(|a, b| key(a).cmp(&key(b)));
    let table = Table::new(page, &COLUMNS);
    table.head(page, "lines, with what they call");
    for line in &most {
        let shared = shared(line);
        let shared = match line.accesses > 0.0 {
            true => percent(shared),
            false => "-".into(),
        };
        let note = match (line.movable, line.calls) {
            (true, _) => "movable",
            (false, true) => "calls",
            (false, false) => "",
        };
        let values = [
            few(line.instructions),
            percent(line.share),
            few(line.executions),
            few(line.accesses),
            shared,
            note.to_owned(),
        ];
        table.row(page, &names::frame(&line.frame), &values, "");
    }
}

/// Share of its accesses to words that are shared, or may be.
fn shared(line: &LineRow) -> f64 {
    let of = |sharing: Sharing| line.by_sharing[sharing as usize];
    of(Sharing::Shared) + of(Sharing::Overwritten) + of(Sharing::Rare)
}

fn key(line: &LineRow) -> (&str, &str, u32, u64) {
    let frame = &line.frame;
    (&frame.file, &frame.function, frame.line, frame.offset)
}
