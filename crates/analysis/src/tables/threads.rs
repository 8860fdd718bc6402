//! CMetric and time by thread and by group.

use std::collections::BTreeMap;

use convoy_model::{GroupId, SchedThread, ThreadId};

use crate::facts::concurrency::{all, none};
use crate::facts::run_view::RunView;
use crate::tables::scheduler::{GroupRow, ThreadRow};

/// Time with at least one active thread: what the CMetric of all threads adds up to.
pub(crate) fn with_activity(view: &RunView) -> f64 {
    (all(&view.sched.active) - none(&view.sched.active)).max(1.0)
}

/// Most CMetric first.
pub(crate) fn thread_rows(view: &RunView) -> Vec<ThreadRow> {
    let active = with_activity(view);
    let row = |th: &&SchedThread| ThreadRow {
        thread: th.thread,
        group: view.group(th.thread),
        life_ns: th.life_ns(),
        cm_ns: th.cm_ns,
        cm_working_ns: th.cm_working_ns,
        share: th.cm_ns / active,
        running_ns: th.running_ns,
        delayed_ns: th.delayed_ns,
        preempted_ns: th.preempted_ns,
        spinning_ns: th.spinning_ns,
        blocked_ns: th.blocked_ns,
        worker: view.workers.contains(&th.thread),
    };
    let mut rows: Vec<ThreadRow> = view.threads.values().map(row).collect();
    rows.sort_by(|a, b| b.cm_ns.total_cmp(&a.cm_ns).then(a.thread.cmp(&b.thread)));
    rows
}

/// Most CMetric first.
pub(crate) fn group_rows(view: &RunView, threads: &[ThreadRow]) -> Vec<GroupRow> {
    let mut rows: BTreeMap<GroupId, GroupRow> = BTreeMap::new();
    for th in threads {
        let row = rows.entry(th.group).or_insert_with(|| GroupRow {
            group: th.group,
            thread_working_min_ns: u64::MAX,
            ..GroupRow::default()
        });
        row.threads += 1;
        row.cm_ns += th.cm_ns;
        row.cm_working_ns += th.cm_working_ns;
        row.share += th.share;
        for (sum, ns) in [
            (&mut row.life_ns, th.life_ns),
            (&mut row.running_ns, th.running_ns),
            (&mut row.delayed_ns, th.delayed_ns),
            (&mut row.preempted_ns, th.preempted_ns),
            (&mut row.spinning_ns, th.spinning_ns),
            (&mut row.blocked_ns, th.blocked_ns),
        ] {
            *sum = sum.saturating_add(ns);
        }
        let working = view.threads.get(&th.thread).map_or(0, |t| t.working_ns());
        row.thread_working_min_ns = row.thread_working_min_ns.min(working);
        row.thread_working_max_ns = row.thread_working_max_ns.max(working);
    }
    for ((waiter, waker), (n, ns)) in woken_by(view) {
        if let Some(row) = rows.get_mut(&waiter) {
            row.woken_by.push((waker, n, ns));
        }
    }
    let mut rows: Vec<GroupRow> = rows.into_values().collect();
    for row in &mut rows {
        row.woken_by
            .sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
    }
    rows.sort_by(|a, b| b.cm_ns.total_cmp(&a.cm_ns).then(a.group.cmp(&b.group)));
    rows
}

/// (waits, nanoseconds) of one group that another one ended.
fn woken_by(view: &RunView) -> BTreeMap<(GroupId, GroupId), (u64, u64)> {
    let group_of = |id: ThreadId| view.group(id);
    let mut links: BTreeMap<(GroupId, GroupId), (u64, u64)> = BTreeMap::new();
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        let link = links
            .entry((group_of(off.thread), group_of(waker)))
            .or_default();
        link.0 = link.0.saturating_add(wake.n);
        link.1 = link.1.saturating_add(wake.wait_ns);
    }
    links
}
