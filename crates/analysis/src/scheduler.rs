//! Analysis of what the kernel showed (GAPP, ICPE'20): when the program could run in parallel and did
//! not, and which code ran then. All processes together are one parallel program. The method, its
//! formulas and sources are in docs/critical.md.

pub use crate::tables::scheduler::*;

use std::collections::BTreeSet;

use convoy_model::finding::{rank, Finding, SHORTEST_RUN_NS};
use convoy_model::{Model, ProcessId};

use crate::arbitration::explain;
use crate::detectors::{
    blocking_calls, go_processors, goroutine_pool, goroutine_sleep, limiting_stage, one_thread,
    serial_jobs, serial_requests, short_processes,
};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::params::Params;
use crate::ranking::worth;
use crate::tables::{edges, loops, parallelism, paths, quality, threads, waits};
use crate::verdict;

/// Judges a recording: all processes together are one parallel program. Nothing without scheduler events.
pub fn analyze(model: &Model, t: &Params) -> Analysis {
    let Some(sched) = &model.sched else {
        return Analysis::default();
    };
    let view = RunView::new(model, sched, t);
    let paths = paths::path_rows(&view);
    let threads = threads::thread_rows(&view);
    let mut all = Analysis {
        parallelism: parallelism::parallelism(&view),
        timeline: parallelism::timeline(&view),
        groups: threads::group_rows(&view, &threads),
        threads,
        reasons: waits::reason_rows(&view),
        waits: waits::wait_rows(&view),
        edges: edges::edge_rows(&view),
        loops: loops::loop_rows(&view, &paths),
        paths,
        quality: quality::quality(&view),
        ..Analysis::default()
    };
    (all.findings, all.dismissed) = rank(detected(&view, &all), |f| {
        view.wall >= SHORTEST_RUN_NS && worth(f, t)
    });
    all.verdict = verdict::scheduler::verdict(&view, &all);
    // A loop may wait for a path beyond the top: that row is not in the table then.
    for row in &mut all.loops {
        row.waits_for.retain(|&ix| ix < t.top);
    }
    all.paths.truncate(t.top);
    all.waits.truncate(t.top);
    all.edges.truncate(t.top);
    all
}

/// Everything that could be said, in no particular order.
fn detected(view: &RunView, rows: &Analysis) -> Vec<Finding> {
    let cx = RunFacts::of(view, rows);
    if view.workers_at_once < 2 {
        return where_one_works(&cx);
    }
    explain::all(&cx)
}

/// One thread is not parallel whatever it does, unless others wait for it, it waits for others all the time, or there could be more.
fn where_one_works(cx: &RunFacts) -> Vec<Finding> {
    let stages = limiting_stage::findings(cx).into_iter();
    let of_groups = stages
        .chain(blocking_calls::finding(cx))
        .chain(serial_requests::findings(cx))
        .chain(go_processors::findings(cx))
        .chain(short_processes::findings(cx));
    let mut found: Vec<Finding> = of_groups.map(|(_, finding)| finding).collect();
    let shared = goroutine_pool::findings(cx).into_iter();
    found.extend(shared.map(|f| f.finding));
    add_sleepers(cx, &mut found);
    let written = cx.written_through.all();
    found.extend(written.filter_map(|of| of.finding(cx)));
    // What the report dismisses explains nothing.
    if !found.iter().any(|f| worth(f, cx.view.t)) {
        found.extend(one_thread::finding(cx).or_else(|| serial_jobs::finding(cx)));
    }
    found
}

/// Goroutines that sleep, of programs that nothing else is said of: who waits for a pool or a lock may sleep while it has it.
pub(crate) fn add_sleepers(cx: &RunFacts, findings: &mut Vec<Finding>) {
    let told = findings.iter().filter(|f| cx.is_worth(f));
    let told: BTreeSet<ProcessId> = told.filter_map(|f| cx.process(f)).collect();
    let asleep = goroutine_sleep::findings(cx).into_iter();
    findings.extend(
        asleep
            .filter(|(id, _)| !told.contains(id))
            .map(|(_, finding)| finding),
    );
}
