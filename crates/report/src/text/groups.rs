//! `--thread-groups`: where the time of each group and thread went, and the best assignment.

use convoy_analysis::counters::{Assignment, GroupRow};
use convoy_model::{Group, Thread};
use convoy_profile::ObjectKind;

use super::page::{cell, cell_right, plain, toned, Page, Tone};
use crate::human::{count_of, duration, factor, few, percent};
use crate::{names, Report};

const INDENT: usize = 2;

/// Threads of one group that are listed; the others are summed up in a line.
const THREADS: usize = 16;

/// All groups, then the assignments. Without the agent waits are not known, and what is no wait would seem to be work: then the
/// scheduler's table is the one to read.
pub fn write(page: &mut Page, report: &Report<'_>) {
    let mut unseen = 0;
    for row in &report.analysis.groups {
        let Some(group) = report.model.groups.get(row.group.0 as usize) else {
            continue;
        };
        if report.critical.is_some() && is_without_agent(report, group) {
            unseen += 1;
        } else {
            one(page, report, row, group);
        }
    }
    for assignment in &report.analysis.assignments {
        best(page, report, assignment);
    }
    let text = match (unseen, report.analysis.groups.len()) {
        (_, 0) => "no thread was seen".into(),
        (0, _) => return,
        _ => format!(
            "{} of processes without the agent: where their time went is among the thread groups of --critical",
            count_of(unseen, "group", "groups")
        ),
    };
    page.title("Thread groups");
    page.line(INDENT, vec![plain(text)]);
}

fn is_without_agent(report: &Report<'_>, group: &Group) -> bool {
    let process = report.model.processes.get(group.process.0 as usize);
    process.is_some_and(|process| process.without_agent)
}

fn one(page: &mut Page, report: &Report<'_>, row: &GroupRow, group: &Group) {
    let threads = count_of(row.threads as u64, "thread", "threads");
    page.title(&format!("{} ({threads})", names::group(group)));
    if let Some(site) = group.create_site {
        let text = format!("created at {}", names::site_of(report.model, site));
        page.line(INDENT, vec![plain(text)]);
    }
    let life = row.life_ns.max(1) as f64;
    let mut parts = vec![
        format!("{} of thread time", duration(life)),
        format!("{} working", percent(row.busy_ns as f64 / life)),
        format!("{} on a CPU", percent(row.cpu_ns as f64 / life)),
    ];
    if let Some(ns) = row.run_delay_ns {
        parts.push(format!(
            "{} runnable without a CPU",
            percent(ns as f64 / life)
        ));
    }
    for (ns, what) in [
        (row.lock_wait_ns, "waiting for locks"),
        (row.event_wait_ns, "waiting for slower threads"),
        (row.idle_wait_ns, "idle"),
    ] {
        if ns > 0 {
            parts.push(format!("{} {what}", percent(ns as f64 / life)));
        }
    }
    page.line(INDENT, vec![plain(parts.join(", "))]);
    let waits: Vec<_> = row
        .top_waits
        .iter()
        .map(|(id, ns)| {
            format!(
                "{} {}",
                names::object_of(report.model, *id),
                duration(*ns as f64)
            )
        })
        .collect();
    if !waits.is_empty() {
        page.line(
            INDENT,
            vec![plain(format!("longest waits: {}", waits.join(", ")))],
        );
    }
    let linked: Vec<_> = row
        .linked
        .iter()
        .filter_map(|id| report.model.groups.get(id.0 as usize).map(names::group))
        .collect();
    if !linked.is_empty() {
        page.line(
            INDENT,
            vec![plain(format!(
                "hands work to or from: {}",
                linked.join(", ")
            ))],
        );
    }
    threads_of(page, report, group);
}

fn threads_of(page: &mut Page, report: &Report<'_>, group: &Group) {
    let mut threads: Vec<&Thread> = group
        .threads
        .iter()
        .filter_map(|id| report.model.threads.get(id.0 as usize))
        .collect();
    threads.sort_by_key(|t| (std::cmp::Reverse(t.cpu_ns), t.tid));
    let columns = [
        ("life", 10),
        ("compute", 10),
        ("CPU", 10),
        ("no CPU", 10),
        ("waits", 10),
    ];
    let numbers: usize = columns.iter().map(|(_, width)| width).sum();
    let name_width = 22;
    let head: String = columns
        .iter()
        .map(|(text, width)| cell_right(text, *width))
        .collect();
    let indent = " ".repeat(INDENT);
    page.row(&[
        plain(indent.clone()),
        toned(Tone::Dim, cell("", name_width) + &head),
    ]);
    let kinds_width = page
        .width()
        .saturating_sub(INDENT + name_width + numbers + 2);
    for thread in threads.iter().take(THREADS) {
        let delay = thread
            .run_delay_ns
            .map_or_else(|| "?".into(), |ns| duration(ns as f64));
        let values = [
            duration(thread.wall_ns() as f64),
            duration(thread.compute_ns() as f64),
            duration(thread.cpu_ns as f64),
            delay,
            duration(thread.waited_ns() as f64),
        ];
        let values: String = values
            .iter()
            .zip(columns)
            .map(|(text, (_, width))| cell_right(text, width))
            .collect();
        let kinds = cell(&wait_kinds(thread), kinds_width);
        page.row(&[
            plain(indent.clone()),
            plain(cell(&names::thread(thread), name_width)),
            plain(values),
            toned(Tone::Dim, format!("  {kinds}")),
        ]);
    }
    if threads.len() > THREADS {
        let rest = &threads[THREADS..];
        let cpu: u64 = rest.iter().map(|t| t.cpu_ns).sum();
        let text = format!(
            "and {} more with {} of CPU time together",
            rest.len(),
            duration(cpu as f64)
        );
        page.line(INDENT, vec![toned(Tone::Dim, text)]);
    }
}

/// `mutex 61 %, barrier 39 %` of the thread's waits.
fn wait_kinds(thread: &Thread) -> String {
    let all = thread.waited_ns().max(1) as f64;
    let mut kinds: Vec<(ObjectKind, u64)> = thread
        .wait_ns
        .iter()
        .map(|(kind, ns)| (*kind, *ns))
        .filter(|(_, ns)| *ns > 0)
        .collect();
    kinds.sort_by_key(|(kind, ns)| (std::cmp::Reverse(*ns), *kind));
    let texts: Vec<_> = kinds
        .iter()
        .map(|(kind, ns)| format!("{} {}", names::kind(*kind), percent(*ns as f64 / all)))
        .collect();
    texts.join(", ")
}

fn best(page: &mut Page, report: &Report<'_>, assignment: &Assignment) {
    page.title("Threads that hand work to one another: how many of each");
    let name_width = 40;
    let indent = " ".repeat(INDENT);
    let mut head = cell("", name_width) + &cell_right("now", 8) + &cell_right("ideal", 8);
    for (i, _) in assignment.options.iter().enumerate() {
        head += &cell_right(if i == 0 { "best" } else { "or" }, 8);
    }
    page.row(&[plain(indent.clone()), toned(Tone::Dim, head)]);
    for (i, id) in assignment.groups.iter().enumerate() {
        let name = report
            .model
            .groups
            .get(id.0 as usize)
            .map(names::group)
            .unwrap_or_default();
        let number = |n: Option<&u32>| n.map_or_else(|| "?".into(), u32::to_string);
        let ideal = assignment
            .ideal
            .get(i)
            .map_or_else(|| "?".into(), |x| few(*x));
        let mut line = cell(&name, name_width)
            + &cell_right(&number(assignment.now.get(i)), 8)
            + &cell_right(&ideal, 8);
        for option in &assignment.options {
            line += &cell_right(&number(option.threads.get(i)), 8);
        }
        page.row(&[plain(indent.clone()), plain(line)]);
    }
    let mut line = cell("predicted throughput", name_width) + &cell_right("1.00x", 8);
    line += &cell_right("", 8);
    for option in &assignment.options {
        line += &cell_right(&factor(option.throughput), 8);
    }
    page.row(&[plain(indent), toned(Tone::Strong, line)]);
    if !assignment.limited_by.is_empty() {
        page.line(
            INDENT,
            vec![plain(format!("limited by {}", assignment.limited_by))],
        );
    }
}
