//! The lines of the section's own code, with what they call.

use convoy_diagnose::{LineRow, SiteRow};
use convoy_model::Sharing;

use crate::human::{few, percent};
use crate::names;
use crate::text::page::Page;
use crate::text::table::{Column, Table};

/// Lines that are shown, those with most instructions.
const LINES: usize = 14;

const COLUMNS: [Column; 5] = [
    ("instr.", 9),
    ("share", 8),
    ("times", 8),
    ("accesses", 10),
    ("shared", 8),
];

/// The table, in order of the lines.
pub fn write(page: &mut Page, row: &SiteRow) {
    if row.lines.is_empty() {
        return;
    }
    let mut most: Vec<&LineRow> = row.lines.iter().collect();
    most.sort_by(|a, b| b.instructions.total_cmp(&a.instructions));
    most.truncate(LINES);
    most.sort_by(|a, b| key(a).cmp(&key(b)));
    let table = Table::new(page, &COLUMNS);
    table.head(page, "lines, with what they call");
    for line in &most {
        let shared = line.by_sharing[Sharing::Shared as usize]
            + line.by_sharing[Sharing::Overwritten as usize];
        let shared = match line.accesses > 0.0 {
            true => percent(shared),
            false => "-".into(),
        };
        let values = [
            few(line.instructions),
            percent(line.share),
            few(line.executions),
            few(line.accesses),
            shared,
        ];
        let after = match (line.movable, line.calls) {
            (true, _) => "  may be moved out",
            (false, true) => "  calls",
            (false, false) => "",
        };
        table.row(page, &names::frame(&line.frame), &values, after);
    }
}

fn key(line: &LineRow) -> (&str, &str, u32, u64) {
    let frame = &line.frame;
    (&frame.file, &frame.function, frame.line, frame.offset)
}
