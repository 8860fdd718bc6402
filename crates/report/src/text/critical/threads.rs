//! Where the time and the CMetric of groups and threads went.

use convoy_analysis::scheduler::{Analysis, GroupRow, ThreadRow};

use super::{has_spinning, nothing, remark, share};
use crate::human::{count, count_of, duration, percent};
use crate::sched_names;
use crate::text::page::Page;
use crate::text::table::{Column, Table};
use crate::{names, Report};

/// Groups, and threads, that are listed.
const ROWS: usize = 24;

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    let spins = has_spinning(analysis);
    let mut columns: Vec<Column> = vec![("CMetric", 10), ("share", 8)];
    if spins {
        columns.push(("working", 10));
    }
    columns.extend([
        ("on CPU", 10),
        ("blocked", 10),
        ("no CPU", 10),
        ("taken off", 10),
    ]);
    if spins {
        columns.push(("in loops", 10));
    }
    page.title("Thread groups, most CMetric first");
    if analysis.groups.is_empty() {
        nothing(page, "no thread was seen");
        return;
    }
    let mut remarks =
        "no CPU: woken, and waiting for a processor; taken off: preempted while it could go on"
            .to_owned();
    if spins {
        remarks += "; working: CMetric with waiting in loops counted as inactive";
    }
    let table = Table::new(page, &columns);
    table.head(page, "");
    for row in analysis.groups.iter().take(ROWS) {
        let name = sched_names::group_of(report.model, row.group);
        let threads = count_of(row.threads as u64, "thread", "threads");
        let name = format!("{name} ({threads})");
        table.row(page, &name, &values(&of_group(row), spins), "");
    }
    let cm = analysis.groups.iter().map(|row| row.cm_ns);
    more(page, &cm.collect::<Vec<_>>());
    remark(page, remarks);
    for row in analysis
        .groups
        .iter()
        .take(ROWS)
        .filter(|row| !row.woken_by.is_empty())
    {
        woken_by(page, report, row);
    }

    page.title("Threads, most CMetric first");
    table.head(page, "");
    for row in analysis.threads.iter().take(ROWS) {
        let mut name = names::thread_of(report.model, row.thread);
        if !row.worker {
            name += " (idle)";
        }
        table.row(page, &name, &values(&of_thread(row), spins), "");
    }
    let cm = analysis.threads.iter().map(|row| row.cm_ns);
    more(page, &cm.collect::<Vec<_>>());
}

/// Sums up the CMetric of the rows that are not listed.
fn more(page: &mut Page, cm_ns: &[f64]) {
    let rest = cm_ns.get(ROWS..).unwrap_or(&[]);
    if !rest.is_empty() {
        let text = format!(
            "and {} more with a CMetric of {} together: --format json has all",
            count(rest.len() as u64),
            duration(rest.iter().sum())
        );
        remark(page, text);
    }
}

/// What groups and threads have in common.
struct Sums {
    cm_ns: f64,
    share: f64,
    cm_working_ns: f64,
    running_ns: u64,
    blocked_ns: u64,
    delayed_ns: u64,
    preempted_ns: u64,
    spinning_ns: u64,
}

fn of_group(row: &GroupRow) -> Sums {
    Sums {
        cm_ns: row.cm_ns,
        share: row.share,
        cm_working_ns: row.cm_working_ns,
        running_ns: row.running_ns,
        blocked_ns: row.blocked_ns,
        delayed_ns: row.delayed_ns,
        preempted_ns: row.preempted_ns,
        spinning_ns: row.spinning_ns,
    }
}

fn of_thread(row: &ThreadRow) -> Sums {
    Sums {
        cm_ns: row.cm_ns,
        share: row.share,
        cm_working_ns: row.cm_working_ns,
        running_ns: row.running_ns,
        blocked_ns: row.blocked_ns,
        delayed_ns: row.delayed_ns,
        preempted_ns: row.preempted_ns,
        spinning_ns: row.spinning_ns,
    }
}

fn values(s: &Sums, spins: bool) -> Vec<String> {
    let mut values = vec![duration(s.cm_ns), percent(s.share)];
    if spins {
        values.push(duration(s.cm_working_ns));
    }
    let times = [s.running_ns, s.blocked_ns, s.delayed_ns, s.preempted_ns];
    values.extend(times.map(|ns| duration(ns as f64)));
    if spins {
        values.push(duration(s.spinning_ns as f64));
    }
    values
}

/// Groups that are named as wakers of one.
const WAKERS: usize = 3;

fn woken_by(page: &mut Page, report: &Report<'_>, row: &GroupRow) {
    let all: u64 = row.woken_by.iter().map(|(.., ns)| ns).sum();
    let texts: Vec<_> = row
        .woken_by
        .iter()
        .take(WAKERS)
        .map(|(group, waits, ns)| {
            format!(
                "{} ({}, {})",
                sched_names::group_of(report.model, *group),
                percent(share(*ns as f64, all as f64)),
                count_of(*waits, "wait", "waits")
            )
        })
        .collect();
    let name = sched_names::group_of(report.model, row.group);
    remark(page, format!("{name} is woken by: {}", texts.join(", ")));
}
