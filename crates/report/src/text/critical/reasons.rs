//! Time off the processors: by reason, then by what was waited for and where.

use convoy_analysis::scheduler::{Analysis, ReasonRow, WaitRow};
use convoy_model::SchedSource;

use super::{detail, nothing, remark};
use crate::human::{count, duration, percent};
use crate::sched_names;
use crate::text::page::{plain, Page};
use crate::text::table::{Column, Table};
use crate::Report;

/// Waits that are listed.
const WAITS: usize = 10;

/// Callers that are named.
const CALLERS: usize = 4;

/// Functions of the kernel that are named.
const KERNEL: usize = 5;

/// Columns of the label of a line under a wait.
const LABEL: usize = 8;

const COLUMNS: [Column; 5] = [
    ("time", 10),
    ("while low", 11),
    ("times", 9),
    ("mean", 10),
    ("longest", 10),
];

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    by_reason(page, analysis);
    page.title("What was waited for, longest while parallelism was low first");
    if analysis.waits.is_empty() {
        let why = match (analysis.reasons.is_empty(), analysis.quality.source) {
            (true, _) => "no thread was off the processors",
            (_, SchedSource::Perf) => {
                "perf events do not tell where a thread was blocked, or on what"
            }
            (_, SchedSource::Bpf) => "no place of a wait was seen",
        };
        nothing(page, why);
        return;
    }
    let table = Table::new(page, &COLUMNS);
    table.head(page, "");
    for row in analysis.waits.iter().take(WAITS) {
        one(page, report, &table, row);
    }
    if analysis.waits.len() > WAITS {
        let rest = analysis.waits.len() - WAITS;
        remark(page, format!("and {rest} more: --format json has all"));
    }
}

/// Reasons that are named at the head of the report.
const HEAD: usize = 4;

/// The line at the head of the report: why threads were off the processors.
pub fn head(page: &mut Page, reasons: &[ReasonRow], label: usize) {
    let all: u64 = reasons.iter().map(|row| row.sum_ns).sum();
    if all == 0 {
        return;
    }
    let part = |row: &ReasonRow| {
        let share = row.sum_ns as f64 / all as f64;
        (share >= 0.005).then(|| format!("{} {}", percent(share), sched_names::reason(row.reason)))
    };
    let texts: Vec<_> = reasons.iter().take(HEAD).filter_map(part).collect();
    let text = format!("{}: {}", duration(all as f64), texts.join(page.dot()));
    page.hang(0, plain("off CPU"), label, vec![plain(text)]);
}

fn by_reason(page: &mut Page, analysis: &Analysis) {
    page.title("Time off the processors by reason, all threads together");
    if analysis.reasons.is_empty() {
        nothing(page, "no thread was off the processors");
        return;
    }
    let columns = [
        COLUMNS[0],
        COLUMNS[1],
        COLUMNS[2],
        COLUMNS[3],
        ("threads", 9),
    ];
    let table = Table::new(page, &columns);
    table.head(page, "");
    for row in &analysis.reasons {
        let values = [
            duration(row.sum_ns as f64),
            duration(row.low_ns),
            count(row.n),
            mean(row.sum_ns, row.n),
            count(row.threads as u64),
        ];
        table.row(page, sched_names::reason(row.reason), &values, "");
    }
    remark(
        page,
        "while low: parallelism was low, or no thread was working",
    );
    if analysis.quality.source == SchedSource::Perf {
        remark(
            page,
            "perf events tell only blocked from preempted: eBPF (sudo) tells why",
        );
    }
}

fn mean(sum_ns: u64, n: u64) -> String {
    sum_ns
        .checked_div(n)
        .map_or_else(|| "-".into(), |ns| duration(ns as f64))
}

fn one(page: &mut Page, report: &Report<'_>, table: &Table, row: &WaitRow) {
    let model = report.model;
    let reason = sched_names::reason(row.reason);
    let name = sched_names::waited_for(model, row.object, row.name);
    let name = match (name, row.address) {
        (Some(name), _) => name,
        (None, 0) if row.nr >= 0 && row.reason == convoy_model::OffReason::OtherCall => {
            format!("system call {}", row.nr)
        }
        (None, 0) => reason.to_owned(),
        (None, address) => format!("futex 0x{address:x}"),
    };
    let values = [
        duration(row.sum_ns as f64),
        duration(row.low_ns),
        count(row.n),
        mean(row.sum_ns, row.n),
        duration(row.max_ns as f64),
    ];
    table.row(page, &name, &values, "");
    let line = |page: &mut Page, label, text| detail(page, label, LABEL, text);
    let mut who = sched_names::threads(model, row.threads, row.group);
    if name != reason {
        who = format!("{reason}: {who}");
    }
    if row.unfinished_ns > 0 {
        let ns = duration(row.unfinished_ns as f64);
        who += &format!("; {ns} of it cut short by the end");
    }
    line(page, "at", sched_names::path_of(model, row.site, CALLERS));
    line(page, "by", who);
    if !row.kernel_stack.is_empty() {
        let shown = row.kernel_stack.get(..KERNEL).unwrap_or(&row.kernel_stack);
        line(page, "kernel", shown.join(" < "));
    }
}
