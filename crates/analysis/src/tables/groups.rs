//! Thread groups: where the time of each went.

use std::collections::BTreeMap;

use convoy_model::{GroupId, ObjectId};

use crate::facts::idle_wait::Links;
use crate::facts::life_spans;
use crate::facts::operations::Role;
use crate::facts::process_view::{ProcessView, ThreadTime};
use crate::tables::counters::{GroupRow, Parallelism};

/// One row per group, most CPU time first.
pub(crate) fn group_rows(view: &ProcessView, links: &Links) -> Vec<GroupRow> {
    let mut waits: BTreeMap<(GroupId, ObjectId), u64> = BTreeMap::new();
    for u in view.uses().iter().filter(|u| u.wait_ns > 0) {
        if let (Some(i), Some(Role::Acquire | Role::AcquireShared | Role::Wait)) =
            (view.thread(u.thread), view.role(u))
        {
            *waits.entry((view.threads[i].group, u.object)).or_default() += u.wait_ns;
        }
    }
    let mut rows: Vec<GroupRow> = view
        .groups()
        .into_iter()
        .map(|g| row(view, links, &waits, g))
        .collect();
    rows.sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then(a.group.cmp(&b.group)));
    rows
}

fn row(
    view: &ProcessView,
    links: &Links,
    waits: &BTreeMap<(GroupId, ObjectId), u64>,
    group: GroupId,
) -> GroupRow {
    let mut r = GroupRow {
        group,
        thread_busy_min_ns: u64::MAX,
        ..Default::default()
    };
    let mut run_delay = None;
    for t in view.group_threads(group) {
        let model = view.model.threads.get(t.id.0 as usize);
        r.threads += 1;
        r.life_ns += t.life as u64;
        r.cpu_ns += t.cpu as u64;
        if let Some(ns) = model.and_then(|m| m.run_delay_ns) {
            *run_delay.get_or_insert(0) += ns;
        }
        r.compute_ns += (t.life - t.lock_wait - t.event_wait).max(0.0) as u64;
        r.busy_ns += t.busy() as u64;
        r.lock_wait_ns += t.lock_wait as u64;
        r.idle_wait_ns += t.idle as u64;
        r.event_wait_ns += (t.event_wait - t.idle).max(0.0) as u64;
        r.thread_busy_min_ns = r.thread_busy_min_ns.min(t.busy() as u64);
        r.thread_busy_max_ns = r.thread_busy_max_ns.max(t.busy() as u64);
    }
    r.run_delay_ns = run_delay;
    r.thread_busy_min_ns = r.thread_busy_min_ns.min(r.thread_busy_max_ns);
    r.busy_ratio = if r.life_ns > 0 {
        r.busy_ns as f64 / r.life_ns as f64
    } else {
        0.0
    };
    r.top_waits = waits
        .range((group, ObjectId(0))..=(group, ObjectId(u32::MAX)))
        .map(|((_, o), ns)| (*o, *ns))
        .collect();
    r.top_waits
        .sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    r.top_waits.truncate(5);
    for (a, b) in links.keys() {
        r.linked.extend(
            [(*a == group).then_some(*b), (*b == group).then_some(*a)]
                .into_iter()
                .flatten(),
        );
    }
    r.linked.sort_unstable();
    r.linked.dedup();
    r
}

/// How parallel the process was.
pub(crate) fn parallelism(view: &ProcessView) -> Parallelism {
    let sum = |f: fn(&crate::facts::process_view::ThreadTime) -> f64| {
        view.threads.iter().map(f).sum::<f64>() as u64
    };
    let delays = view.threads.iter().map(|t| {
        view.model
            .threads
            .get(t.id.0 as usize)
            .and_then(|m| m.run_delay_ns)
    });
    let (wall, cpu) = (view.wall(), view.cpu());
    let cpus = if view.cpus_allowed.is_finite() {
        view.cpus_allowed as u32
    } else {
        0
    };
    Parallelism {
        process: view.process,
        wall_ns: wall as u64,
        threads: view.threads.len(),
        threads_max: life_spans::most_at_once(view.threads.iter().map(ThreadTime::span)),
        cpus,
        cpu_ns: cpu as u64,
        cpus_busy: if wall > 0.0 { cpu / wall } else { 0.0 },
        cpu_ratio: if wall > 0.0 && cpus > 0 {
            (cpu / wall / f64::from(cpus)).min(1.0)
        } else {
            0.0
        },
        thread_time_ns: sum(|t| t.life),
        run_delay_ns: delays.fold(None, |a, b| b.map_or(a, |ns| Some(a.unwrap_or(0) + ns))),
        lock_wait_ns: sum(|t| t.lock_wait),
        event_wait_ns: sum(|t| (t.event_wait - t.idle).max(0.0)),
        idle_wait_ns: sum(|t| t.idle),
        off_cpu_ns: sum(|t| t.off),
    }
}
