//! Time off the processors as a flame graph: callers below, what was waited for above them, and on top who ended it
//! (off-wake flame graph: B. Gregg, "Linux Wakeup and Off-Wake Profiling").

use std::collections::BTreeMap;

use convoy_model::{Model, OffReason, Sched, SiteId, Waker};
use convoy_report::{names, sched_names, Report};
use serde::Serialize;

/// Parts below this share of all are joined with their caller.
const LEAST: f64 = 0.001;
/// Frames of a stack that are drawn.
const DEPTH: usize = 40;

/// A function, a wait, or a waker. Keys are those of d3-flame-graph.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Node {
    name: String,
    /// Nanoseconds.
    value: u64,
    /// What it is: 0 code, 1 what was waited for, 2 who ended it.
    kind: u8,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Self>,
}

impl Node {
    pub(crate) fn is_empty(&self) -> bool {
        self.value == 0
    }
}

#[derive(Default)]
struct Tree {
    ns: u64,
    kind: u8,
    children: BTreeMap<String, Self>,
}

impl Tree {
    fn add(&mut self, path: &[(String, u8)], ns: u64) {
        self.ns = self.ns.saturating_add(ns);
        if let Some(((name, kind), rest)) = path.split_first() {
            let child = self.children.entry(name.clone()).or_default();
            child.kind = *kind;
            child.add(rest, ns);
        }
    }

    fn finish(self, name: String, least: u64) -> Node {
        let mut children: Vec<_> = self
            .children
            .into_iter()
            .filter(|(_, tree)| tree.ns >= least && tree.ns > 0)
            .map(|(name, tree)| tree.finish(name, least))
            .collect();
        children.sort_by_key(|node| std::cmp::Reverse(node.value));
        Node {
            name,
            value: self.ns,
            kind: self.kind,
            children,
        }
    }
}

/// Of what the scheduler saw; without it, of the waits that the agent saw.
pub(crate) fn flame(report: &Report<'_>) -> Node {
    let mut tree = Tree::default();
    match &report.model.sched {
        Some(sched) => of_scheduler(report.model, sched, &mut tree),
        None => of_agent(report.model, &mut tree),
    }
    let least = (tree.ns as f64 * LEAST) as u64;
    tree.finish("all threads".into(), least)
}

fn of_scheduler(model: &Model, sched: &Sched, tree: &mut Tree) {
    let mut wakes: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for wake in &sched.wakes {
        wakes.entry(wake.off.0).or_default().push(wake);
    }
    for (ix, off) in (0u32..).zip(&sched.offs) {
        if off.reason == OffReason::Preempted {
            continue;
        }
        let mut path = stack(model, off.thread, off.site);
        let reason = sched_names::reason(off.reason);
        let what = match sched_names::waited_for(model, off.object, off.name) {
            Some(name) => format!("{reason}: {name}"),
            None => reason.into(),
        };
        path.push((what, 1));
        let mut rest = off.sum_ns;
        for wake in wakes.get(&ix).into_iter().flatten() {
            let group = match wake.waker {
                Waker::Thread(thread, _) => model.threads.get(thread.0 as usize).map(|t| t.group),
                _ => None,
            };
            let ns = wake.wait_ns.min(rest);
            rest -= ns;
            let by = sched_names::waker(model, wake.waker, group);
            path.push((format!("woken by {by}"), 2));
            tree.add(&path, ns);
            path.pop();
        }
        tree.add(&path, rest);
    }
}

fn of_agent(model: &Model, tree: &mut Tree) {
    for row in model.uses.iter().filter(|row| row.wait_ns > 0) {
        let mut path = stack(model, row.thread, Some(row.site));
        path.push((names::object_of(model, row.object), 1));
        tree.add(&path, row.wait_ns);
    }
}

/// The thread's group and its functions, outermost first.
fn stack(model: &Model, thread: convoy_model::ThreadId, site: Option<SiteId>) -> Vec<(String, u8)> {
    let group = model.threads.get(thread.0 as usize).map(|t| t.group);
    let group = group.map(|id| sched_names::group_of(model, id));
    let frames = site
        .and_then(|id| model.sites.get(id.0 as usize))
        .and_then(|site| site.frames.get(site.shown..))
        .unwrap_or(&[]);
    // Runtimes and lock wrappers are a tower that is the same everywhere.
    let mut told: Vec<_> = frames
        .iter()
        .filter(|frame| !convoy_model::passes_on(frame) && !starts(&frame.function))
        .take(DEPTH)
        .map(names::frame)
        .collect();
    told.reverse();
    group
        .into_iter()
        .chain(told)
        .map(|name| (name, 0))
        .collect()
}

/// What starts threads and programs.
fn starts(function: &str) -> bool {
    matches!(function, "start_thread" | "clone" | "clone3" | "_start")
        || function.starts_with("__libc_start")
}
