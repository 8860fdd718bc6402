//! Who ended the waits, what they did meanwhile, and what they waited for themselves.

use convoy_analysis::scheduler::{Analysis, EdgeRow, Link};
use convoy_model::{Model, NameId, ObjectId, OffReason, SchedSource, Waker};

use super::{detail, nothing, remark, share};
use crate::human::{count_of, duration, percent};
use crate::sched_names;
use crate::text::page::{plain, toned, Page, Tone};
use crate::text::table::INDENT;
use crate::{names, Report};

/// Waiters and wakers that are listed.
const EDGES: usize = 8;

/// Columns of the label of a line under an edge.
const LABEL: usize = 10;

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    page.title("Who ended the waits, longest waits first");
    if analysis.edges.is_empty() {
        nothing(
            page,
            match analysis.quality.source {
                SchedSource::Perf => {
                    "perf events do not tell who woke whom: eBPF (sudo convoy) does"
                }
                SchedSource::Bpf => "no thread was woken",
            },
        );
        return;
    }
    for edge in analysis.edges.iter().take(EDGES) {
        one(page, report, edge);
    }
    if analysis.edges.len() > EDGES {
        let rest = analysis.edges.len() - EDGES;
        remark(page, format!("and {rest} more: --format json has all"));
    }
    remark(
        page,
        "meanwhile: what the waker did during these waits; because: what it waited for itself",
    );
}

fn one(page: &mut Page, report: &Report<'_>, edge: &EdgeRow) {
    let model = report.model;
    let what = what_for(model, edge.object, None, edge.reason);
    let head = vec![
        toned(Tone::Strong, duration(edge.wait_ns as f64)),
        plain(format!(
            " in {}, longest {}, {} while parallelism was low",
            count_of(edge.n, "wait", "waits"),
            duration(edge.max_ns as f64),
            duration(edge.low_ns)
        )),
    ];
    page.line(INDENT, head);
    let line = |page: &mut Page, label, text| detail(page, label, LABEL, text);
    let waiter = format!(
        "{} in {}{what}",
        sched_names::place(model, edge.site),
        sched_names::group_of(model, edge.group)
    );
    line(page, "waited", waiter);
    let waker = sched_names::waker(model, edge.waker, edge.waker_group);
    line(page, "woken by", waker);
    if matches!(edge.waker, Waker::Thread(..)) {
        line(page, "meanwhile", meanwhile(edge));
    }
    for link in &edge.chain {
        line(page, "because", because(report, link));
    }
}

/// `90 % on a CPU, 5 % waiting for one, 5 % blocked`.
fn meanwhile(edge: &EdgeRow) -> String {
    let all = edge.wait_ns as f64;
    let parts = [
        (edge.waker_running_ns, "on a CPU"),
        (edge.waker_delayed_ns, "waiting for a CPU"),
        (edge.waker_off_ns, "blocked itself"),
    ];
    let known: u64 = parts.iter().fold(0, |sum, (ns, _)| sum.saturating_add(*ns));
    let unknown = (edge.wait_ns.saturating_sub(known), "not known");
    let texts: Vec<_> = parts
        .into_iter()
        .chain([unknown])
        .filter(|(ns, _)| share(*ns as f64, all) >= 0.005)
        .map(|(ns, what)| format!("{} {what}", percent(share(ns as f64, all))))
        .collect();
    if texts.is_empty() {
        "not known".into()
    } else {
        texts.join(", ")
    }
}

/// `worker-2 (14) waited for journal.db at f() a.c:1 (80 % of it)`.
fn because(report: &Report<'_>, link: &Link) -> String {
    let model = report.model;
    let what = what_for(model, link.object, link.name, link.reason);
    format!(
        "{} waited at {}{what} ({} of it)",
        names::thread_of(model, link.thread),
        sched_names::place(model, link.site),
        percent(link.share)
    )
}

/// `, for journal.db`, as far as that is known.
fn what_for(
    model: &Model,
    object: Option<ObjectId>,
    name: Option<NameId>,
    reason: OffReason,
) -> String {
    match (sched_names::waited_for(model, object, name), reason) {
        (Some(what), _) => format!(", for {what}"),
        (None, OffReason::Unknown) => String::new(),
        (None, reason) => format!(": {}", sched_names::reason(reason)),
    }
}
