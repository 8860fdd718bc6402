//! `--all`: every lock, kind of lock and event object in a row.

use convoy_analysis::counters::{EventClass, LockStats, Quadrant};

use super::page::{cell, cell_right, plain, toned, Page, Tone};
use crate::human::{count, duration, percent, rate};
use crate::{names, Report};

const INDENT: usize = 2;

/// Rows of a table; a program with 100,000 locks has them in the JSON.
const ROWS: usize = 100;

/// The tables.
pub fn write(page: &mut Page, report: &Report<'_>) {
    locks(page, report);
    sites(page, report);
    families(page, report);
    events(page, report);
}

const LOCK_COLUMNS: [(&str, usize); 8] = [
    ("taken", 9),
    ("contended", 10),
    ("rate", 9),
    ("wait", 9),
    ("longest", 9),
    ("waited", 8),
    ("hold", 9),
    ("", 4),
];

fn lock_cells(s: &LockStats) -> String {
    let (taken, share) = match s.contention_ratio {
        Some(ratio) => (count(s.acquisitions), percent(ratio)),
        None => ("?".into(), count(s.contended)),
    };
    let hold = s
        .hold_sampled_ns
        .or(s.hold_contended_ns)
        .map_or_else(|| "-".into(), duration);
    let quadrant = match s.quadrant {
        Quadrant::Q1 => "Q1",
        Quadrant::Q2 => "Q2",
        Quadrant::Q3 => "Q3",
        Quadrant::Q4 => "Q4",
        Quadrant::Unknown => "?",
    };
    let values = [
        taken,
        share,
        rate(s.frequency_hz),
        duration(s.wait_ns as f64),
        duration(s.wait_max_ns as f64),
        percent(s.waited_ratio),
        hold,
        quadrant.to_owned(),
    ];
    row(&values, &LOCK_COLUMNS)
}

fn locks(page: &mut Page, report: &Report<'_>) {
    let rows = &report.analysis.locks;
    let lines = rows.iter().map(|r| {
        (
            names::object_of(report.model, r.object),
            lock_cells(&r.stats),
        )
    });
    table(
        page,
        "Locks, most waited for first",
        &LOCK_COLUMNS,
        rows.len(),
        lines,
    );
}

fn sites(page: &mut Page, report: &Report<'_>) {
    let rows = &report.analysis.sites;
    let lines = rows.iter().map(|r| {
        let name = names::site_of(report.model, r.site);
        let name = if r.locks > 1 {
            format!("{name} ({} locks)", count(r.locks as u64))
        } else {
            name
        };
        (name, lock_cells(&r.stats))
    });
    table(
        page,
        "Acquire sites, all locks of a site together",
        &LOCK_COLUMNS,
        rows.len(),
        lines,
    );
}

fn families(page: &mut Page, report: &Report<'_>) {
    const COLUMNS: [(&str, usize); 7] = [
        ("locks", 9),
        ("taken", 9),
        ("wait", 10),
        ("least", 9),
        ("median", 9),
        ("most", 9),
        ("top 10 %", 10),
    ];
    let rows = &report.analysis.families;
    let lines = rows.iter().map(|r| {
        let values = [
            count(r.locks.len() as u64),
            count(r.stats.acquisitions),
            duration(r.stats.wait_ns as f64),
            percent(r.contention_min),
            percent(r.contention_median),
            percent(r.contention_max),
            percent(r.top_tenth_waits),
        ];
        let mark = if r.asymmetric { " (asymmetric)" } else { "" };
        (
            names::site_of(report.model, r.site) + mark,
            row(&values, &COLUMNS),
        )
    });
    let title =
        "Locks that are taken at the same sites: contention over them, waits of the top tenth";
    table(page, title, &COLUMNS, rows.len(), lines);
}

fn events(page: &mut Page, report: &Report<'_>) {
    const COLUMNS: [(&str, usize); 6] = [
        ("waits", 9),
        ("wait", 10),
        ("longest", 10),
        ("waited", 8),
        ("wakes", 9),
        ("", 14),
    ];
    let rows = &report.analysis.events;
    let lines = rows.iter().map(|r| {
        let values = [
            count(r.waits),
            duration(r.wait_ns as f64),
            duration(r.wait_max_ns as f64),
            percent(r.waited_ratio),
            count(r.wakes),
            class(r.class).to_owned(),
        ];
        (
            names::object_of(report.model, r.object),
            row(&values, &COLUMNS),
        )
    });
    table(page, "Waits for events", &COLUMNS, rows.len(), lines);
}

fn class(class: EventClass) -> &'static str {
    match class {
        EventClass::Idle => "idle",
        EventClass::Straggler => "straggler",
        EventClass::SlowPeer => "slow peer",
        EventClass::DelayedPeer => "delayed peer",
        EventClass::Pool => "pool too small",
        EventClass::Unknown => "unknown",
    }
}

fn row(values: &[String], columns: &[(&str, usize)]) -> String {
    values
        .iter()
        .zip(columns)
        .map(|(text, (_, width))| cell_right(text, *width))
        .collect()
}

fn table(
    page: &mut Page,
    title: &str,
    columns: &[(&str, usize)],
    total: usize,
    lines: impl Iterator<Item = (String, String)>,
) {
    if total == 0 {
        return;
    }
    page.title(title);
    let numbers: usize = columns.iter().map(|(_, width)| width).sum();
    let name_width = page.width().saturating_sub(numbers + INDENT).max(24);
    let indent = " ".repeat(INDENT);
    let head: String = columns
        .iter()
        .map(|(text, width)| cell_right(text, *width))
        .collect();
    page.row(&[
        plain(indent.clone()),
        toned(Tone::Dim, cell("", name_width) + &head),
    ]);
    for (name, cells) in lines.take(ROWS) {
        page.row(&[
            plain(indent.clone()),
            plain(cell(&name, name_width)),
            plain(cells),
        ]);
    }
    if total > ROWS {
        let text = format!(
            "and {} more: --format json has all",
            count((total - ROWS) as u64)
        );
        page.line(INDENT, vec![toned(Tone::Dim, text)]);
    }
}
