//! Which processes of a program share its work: not its master, its parent, or one that has another job.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::ProcessId;

use super::Member;
use super::HELPS;
use crate::facts::run_view::RunView;

/// A process that does less than this share of the others' mean has no part in their work.
const NO_PART: f64 = 0.02;
/// One that does this share of its work in threads of a kind that no other has does another job.
const ANOTHER_JOB: f64 = 0.5;
/// With one other it may be either that gives the other one its part.
const CHILDREN: usize = 2;

/// Those of a program's processes that have a part in one work.
pub(super) fn of<'a>(view: &RunView, members: Vec<Member<'a>>) -> Vec<Member<'a>> {
    let members = without_hubs(view, members);
    // Who has no part first: an idle one is nobody's child that works, and its threads are no sign of anything.
    let members = without(members, |m, all| {
        m.working() < NO_PART * mean_of_others(m, all)
    });
    without(members, |m, all| {
        gives_out(view, m, all) || has_another_job(view, m, all)
    })
}

fn without<'a>(
    members: Vec<Member<'a>>,
    is_none: impl Fn(&Member, &[Member]) -> bool,
) -> Vec<Member<'a>> {
    let none: BTreeSet<ProcessId> = members
        .iter()
        .filter(|m| is_none(m, &members))
        .map(|m| m.process)
        .collect();
    members
        .into_iter()
        .filter(|m| !none.contains(&m.process))
        .collect()
}

fn others<'m, 'a>(m: &'m Member, all: &'m [Member<'a>]) -> impl Iterator<Item = &'m Member<'a>> {
    all.iter().filter(|other| other.process != m.process)
}

fn mean_of_others(m: &Member, all: &[Member]) -> f64 {
    let sum: f64 = others(m, all).map(Member::working).sum();
    sum / others(m, all).count().max(1) as f64
}

/// Whether it made all others, and does less than they, or more: it hands out what they do, and collects it. A parent that takes its
/// part does as much as each child.
fn gives_out(view: &RunView, m: &Member, all: &[Member]) -> bool {
    let process = |m: &Member| view.process_at(m.process);
    let made = |other: &Member| {
        let pids = process(m).zip(process(other));
        pids.is_some_and(|(parent, child)| parent.pid != 0 && child.ppid == parent.pid)
    };
    let mean = mean_of_others(m, all);
    others(m, all).count() >= CHILDREN
        && others(m, all).all(made)
        && (m.working() - mean).abs() >= view.t.imbalance_ratio * mean
}

/// Whether most of its work is that of threads of which no other process has any. What was attached to does not say who made
/// whom, but the parent of a pool has threads that hand out tasks and collect results, and each of its children one that works.
fn has_another_job(view: &RunView, m: &Member, all: &[Member]) -> bool {
    let kind = |id| {
        let group = view.model.groups.get(view.role(id).0 as usize);
        group.map_or("", |group| group.name.as_str())
    };
    let of_others: BTreeSet<&str> = others(m, all)
        .flat_map(|other| other.threads.iter().map(|th| kind(th.thread)))
        .collect();
    let own = m.threads.iter();
    let own = own.filter(|th| !of_others.contains(kind(th.thread)));
    let own: f64 = own.map(|th| th.cpu_work_ns() as f64).sum();
    others(m, all).count() >= CHILDREN && own > 0.0 && own >= ANOTHER_JOB * m.working()
}

/// Without those of the program's processes that only hand on what the others have done: who has next to no work and
/// ends the waits of several others.
fn without_hubs<'a>(view: &RunView, members: Vec<Member<'a>>) -> Vec<Member<'a>> {
    let all: f64 = members.iter().map(Member::working).sum();
    let others = (members.len().max(2) - 1) as f64;
    let idle = |m: &Member| m.working() < HELPS * (all - m.working()) / others;
    let mut woken: BTreeMap<ProcessId, BTreeSet<ProcessId>> = BTreeMap::new();
    for (_, off, waker, _) in view.sched.ended_by_threads() {
        let by = woken.entry(view.process(waker)).or_default();
        by.insert(view.process(off.thread));
    }
    let kin: BTreeSet<ProcessId> = members.iter().map(|m| m.process).collect();
    let wakes = |m: &Member| {
        let woken = woken.get(&m.process).into_iter().flatten();
        woken
            .filter(|&&p| p != m.process && kin.contains(&p))
            .count()
    };
    let hub = |m: &Member| idle(m) && wakes(m) >= 2;
    members.into_iter().filter(|m| !hub(m)).collect()
}
