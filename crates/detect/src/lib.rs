//! What keeps a program from running in parallel, why, and what fixing it would buy: pure
//! functions of a [`Model`]. The method, its formulas and sources are in docs/detect.md, what each
//! finding means in docs/findings.md.

#![forbid(unsafe_code)]

mod alike;
mod assignment;
mod asymmetry;
mod causes;
mod chain;
mod churn;
mod contended;
mod family;
mod futile;
mod gain;
mod groups;
mod idle;
mod imbalance;
mod lives;
mod lock_rows;
mod ops;
mod pool;
mod quadrant;
mod rank;
mod rows;
mod serial;
mod shared;
mod small_regions;
mod starved;
mod straggler;
mod text;
mod thresholds;
mod trylock;
mod unexplained;
mod verdict;
mod view;
mod waits_for;

pub use ops::Locks;
pub use rows::*;
pub use thresholds::Thresholds;
pub use verdict::headline;

use convoy_model::finding::SHORTEST_RUN_NS;
use convoy_model::{Model, ObjectId, ProcessId, Sources};

use crate::chain::Chains;
use crate::family::Families;
use crate::gain::{stations, Station};
use crate::idle::Links;
use crate::ops::Role;
use crate::view::View;
use crate::waits_for::Pairs;

/// Judges a recording: every process by itself, the findings ranked over all of them.
pub fn analyze(model: &Model, t: &Thresholds) -> Analysis {
    let locks = Locks::of(model);
    let pairs = Pairs::of(&model.pairs);
    let mut all = Analysis::default();
    let mut findings = Vec::new();
    for process in 0..model.processes.len() {
        let view = View::new(model, ProcessId(process as u32), &locks);
        if !view.threads.is_empty() {
            findings.push(judge(view, &pairs, t, &mut all));
        }
    }
    let mut findings = alike::once(findings);
    shared::findings(model, &locks, &mut findings, |joined, process, locks| {
        let view = View::new(joined, process, locks);
        let of = judge(view, &Pairs::of(&joined.pairs), t, &mut Analysis::default());
        of.findings
            .into_iter()
            .map(|(_, finding)| finding)
            .collect()
    });
    lock_rows::sort_by_wait(&mut all.locks, |r| (&r.stats, r.object.0));
    lock_rows::sort_by_wait(&mut all.sites, |r| (&r.stats, r.site.0));
    all.events
        .sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then(a.object.cmp(&b.object)));
    let wall = model.meta.end_ns.saturating_sub(model.meta.start_ns) as f64;
    all.is_too_short = wall > 0.0 && wall < SHORTEST_RUN_NS;
    (all.findings, all.dismissed) = rank::rank(findings, t, all.is_too_short);
    all.sources = Sources::of(model);
    all.unexplained = unexplained::unexplained(model, &all.groups, all.sources);
    all.verdict = verdict::verdict(&all);
    all
}

/// Adds the tables of one process and returns its findings.
fn judge<'a>(
    mut view: View<'a>,
    pairs: &Pairs,
    t: &Thresholds,
    all: &mut Analysis,
) -> alike::OfProcess<'a> {
    let (events, links) = idle::event_rows(&view, pairs);
    idle::mark_elastic(&mut view, &events);
    idle::mark_tickers(&mut view, &links);
    let families = Families::of_view(&view, t);
    let locks = lock_rows::lock_rows(&view, pairs, &families, t);
    let cx = Context {
        stations: &stations(&view, t),
        chains: Chains::of(&view, &locks),
        event_functions: event_functions(&view, &events),
        view: &view,
        links: &links,
        pairs,
        t,
    };
    let mut findings = contended::findings(&cx, &locks, &families.rows);
    findings.extend(trylock::findings(&cx, &locks));
    findings.extend(straggler::findings(&cx, &events));
    findings.extend(pool::findings(&cx, &events));
    findings.extend(serial::finding(&cx));
    findings.extend(churn::finding(&cx));
    findings.extend(starved::findings(&cx, &locks));
    findings.extend(futile::findings(&cx, &events));
    let (imbalances, assignments) = imbalance::findings(&cx);
    findings.extend(imbalances);

    all.parallelism.push(groups::parallelism(&view));
    all.groups.extend(groups::group_rows(&view, &links));
    all.sites.extend(lock_rows::site_rows(&view, t));
    let before = all.families.len();
    all.locks.extend(locks.into_iter().map(|mut l| {
        l.family = l.family.map(|i| i + before);
        l
    }));
    all.families.extend(families.rows);
    all.events.extend(events);
    all.assignments.extend(assignments);
    let keyed = findings.into_iter().map(|f| (alike::key(&view, &f), f));
    alike::OfProcess {
        load: alike::Load::of(&view),
        findings: keyed.collect(),
    }
}

/// What the findings of one process are made from.
struct Context<'a> {
    view: &'a View<'a>,
    stations: &'a [Station],
    chains: Chains,
    links: &'a Links,
    pairs: &'a Pairs<'a>,
    /// Functions that wait for events.
    event_functions: Vec<&'a str>,
    t: &'a Thresholds,
}

impl Context<'_> {
    /// Threads that acquire one of the locks to speak of: local indices.
    fn users(&self, locks: &[ObjectId]) -> Vec<usize> {
        let mut calls = std::collections::BTreeMap::new();
        for u in locks.iter().flat_map(|id| self.view.uses_of(*id)) {
            let lock_role = matches!(
                self.view.role(u),
                Some(Role::Acquire | Role::AcquireShared | Role::Try)
            );
            if let Some(i) = self.view.thread(u.thread).filter(|_| lock_role) {
                *calls.entry(i).or_insert(0) += u.calls.max(u.waits);
            }
        }
        let most = calls.values().copied().max().unwrap_or(0);
        calls
            .into_iter()
            .filter(|(_, n)| n * 100 >= most)
            .map(|(i, _)| i)
            .collect()
    }

    /// Sum of the life spans of those threads, nanoseconds.
    fn users_life(&self, locks: &[ObjectId]) -> f64 {
        self.users(locks)
            .into_iter()
            .map(|i| self.view.threads[i].life)
            .sum()
    }
}

fn event_functions<'a>(view: &View<'a>, events: &[EventRow]) -> Vec<&'a str> {
    let queues = events
        .iter()
        .filter(|e| !matches!(e.class, EventClass::Straggler | EventClass::Pool));
    let mut names: Vec<&str> = queues
        .flat_map(|e| e.sites.iter())
        .map(|s| text::function(view, s.site))
        .filter(|f| !f.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
