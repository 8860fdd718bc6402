//! Analysis of the agent's counters (SyncPerf, EuroSys'17), each process by itself. The method, its
//! formulas and sources are in docs/detect.md.

pub use crate::facts::operations::Locks;
pub use crate::tables::counters::*;
pub use crate::verdict::counters::headline;

use convoy_model::finding::SHORTEST_RUN_NS;
use convoy_model::{Model, ProcessId, Sources};

use crate::arbitration::dedup_processes;
use crate::detectors::{
    futile_wakeups, lock_contention, serial_phase, shared_memory_lock, short_lived_threads,
    stage_imbalance, starvation, straggler, token_pool, trylock_spin,
};
use crate::estimate::queueing::stations;
use crate::facts::lock_chain::Chains;
use crate::facts::lock_family::Families;
use crate::facts::process_facts::{event_functions, ProcessFacts};
use crate::facts::process_view::ProcessView;
use crate::facts::wait_pairs::Pairs;
use crate::facts::{idle_wait, unexplained_time};
use crate::params::Params;
use crate::tables::{groups, locks};
use crate::{ranking, verdict};

/// Judges a recording: every process by itself, the findings ranked over all of them.
pub fn analyze(model: &Model, t: &Params) -> Analysis {
    let locks = Locks::of(model);
    let pairs = Pairs::of(&model.pairs);
    let mut all = Analysis::default();
    let mut findings = Vec::new();
    for process in 0..model.processes.len() {
        let view = ProcessView::new(model, ProcessId(process as u32), &locks);
        if !view.threads.is_empty() {
            findings.push(judge(view, &pairs, t, &mut all));
        }
    }
    let mut findings = dedup_processes::once(findings);
    shared_memory_lock::findings(model, &locks, &mut findings, |joined, process, locks| {
        let view = ProcessView::new(joined, process, locks);
        let of = judge(view, &Pairs::of(&joined.pairs), t, &mut Analysis::default());
        of.findings
            .into_iter()
            .map(|(_, finding)| finding)
            .collect()
    });
    locks::sort_by_wait(&mut all.locks, |r| (&r.stats, r.object.0));
    locks::sort_by_wait(&mut all.sites, |r| (&r.stats, r.site.0));
    all.events
        .sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then(a.object.cmp(&b.object)));
    let wall = model.meta.end_ns.saturating_sub(model.meta.start_ns) as f64;
    all.is_too_short = wall > 0.0 && wall < SHORTEST_RUN_NS;
    (all.findings, all.dismissed) = ranking::rank(findings, t, all.is_too_short);
    all.sources = Sources::of(model);
    all.unexplained = unexplained_time::unexplained(model, &all.groups, all.sources);
    all.verdict = verdict::counters::verdict(&all);
    all
}

/// Adds the tables of one process and returns its findings.
fn judge<'a>(
    mut view: ProcessView<'a>,
    pairs: &Pairs,
    t: &Params,
    all: &mut Analysis,
) -> dedup_processes::OfProcess<'a> {
    let (events, links) = idle_wait::event_rows(&view, pairs);
    idle_wait::mark_elastic(&mut view, &events);
    idle_wait::mark_tickers(&mut view, &links);
    let families = Families::of_view(&view, t);
    let locks = locks::lock_rows(&view, pairs, &families, t);
    let cx = ProcessFacts {
        stations: &stations(&view, t),
        chains: Chains::of(&view, &locks),
        event_functions: event_functions(&view, &events),
        view: &view,
        links: &links,
        pairs,
        t,
    };
    let mut findings = lock_contention::findings(&cx, &locks, &families.rows);
    findings.extend(trylock_spin::findings(&cx, &locks));
    findings.extend(straggler::findings(&cx, &events));
    findings.extend(token_pool::findings(&cx, &events));
    findings.extend(serial_phase::finding(&cx));
    findings.extend(short_lived_threads::finding(&cx));
    findings.extend(starvation::findings(&cx, &locks));
    findings.extend(futile_wakeups::findings(&cx, &events));
    let (imbalances, assignments) = stage_imbalance::findings(&cx);
    findings.extend(imbalances);

    all.parallelism.push(groups::parallelism(&view));
    all.groups.extend(groups::group_rows(&view, &links));
    all.sites.extend(locks::site_rows(&view, t));
    let before = all.families.len();
    all.locks.extend(locks.into_iter().map(|mut l| {
        l.family = l.family.map(|i| i + before);
        l
    }));
    all.families.extend(families.rows);
    all.events.extend(events);
    all.assignments.extend(assignments);
    let keyed = findings
        .into_iter()
        .map(|f| (dedup_processes::key(&view, &f), f));
    dedup_processes::OfProcess {
        load: dedup_processes::Load::of(&view),
        findings: keyed.collect(),
    }
}
