//! Threads in the order of their lanes, by role.

use convoy_model::{GroupId, ThreadId};
use convoy_report::{names, Report};
use serde::Serialize;

use super::strings::Strings;
use crate::roles::{Role, Roles};

/// Bars of this many threads are drawn; the table has as many.
const MOST: usize = 200;

#[derive(Debug, Serialize)]
pub(crate) struct Threads {
    /// Roles: name, threads, processes.
    groups: Vec<(u32, u32, u32)>,
    /// In the order of lanes, the roles one after the other: name.
    names: Vec<u32>,
    /// CMetric of the threads with most of it, nanoseconds: place in `names`, CMetric, of it working.
    cm: Vec<(u32, u64, u64)>,
}

/// The threads in the order in which they are drawn, and what is said of them.
pub(crate) fn threads(
    report: &Report<'_>,
    roles: &Roles,
    strings: &mut Strings,
) -> (Vec<ThreadId>, Threads) {
    let model = report.model;
    let group = |id: &GroupId| model.groups.get(id.0 as usize);
    let members = |role: &Role| -> Vec<ThreadId> {
        let groups = role.groups.iter().filter_map(group);
        groups.flat_map(|group| &group.threads).copied().collect()
    };
    let work = |id: &ThreadId| {
        let thread = model.threads.get(id.0 as usize);
        thread.map_or((0, 0), |t| {
            let wanted_ns = t.run_delay_ns.unwrap_or(0);
            (t.cpu_ns.saturating_add(wanted_ns), t.waited_ns())
        })
    };
    let sum = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    let mut all: Vec<(&Role, Vec<ThreadId>)> = roles
        .list
        .iter()
        .map(|role| (role, members(role)))
        .collect();
    // The role that works most comes first: others wait for it. A main thread that only joins comes
    // last.
    all.sort_by_cached_key(|(_, members)| {
        std::cmp::Reverse(members.iter().map(work).fold((0, 0), sum))
    });
    let mut order = Vec::with_capacity(model.threads.len());
    let mut named = Vec::with_capacity(all.len());
    for (role, mut members) in all {
        members.sort_by_key(|id| {
            let thread = model.threads.get(id.0 as usize);
            thread.map(|t| (t.start_ns, t.tid))
        });
        order.extend(members);
        let counts = (role.threads as u32, role.processes as u32);
        named.push((strings.id(role.name.clone()), counts.0, counts.1));
    }
    let mut place = vec![0u32; model.threads.len()];
    for (at, id) in (0u32..).zip(&order) {
        if let Some(place) = place.get_mut(id.0 as usize) {
            *place = at;
        }
    }
    let rows = report.critical.map_or(&[][..], |c| &c.threads);
    let cm = rows.iter().take(MOST).filter_map(|row| {
        let at = place.get(row.thread.0 as usize)?;
        Some((*at, row.cm_ns as u64, row.cm_working_ns as u64))
    });
    let threads = Threads {
        groups: named,
        names: order
            .iter()
            .map(|id| strings.id(names::thread_of(model, *id)))
            .collect(),
        cm: cm.collect(),
    };
    (order, threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_analysis::counters::Analysis;
    use convoy_analysis::Params;
    use convoy_model::Model;
    use convoy_testkit::{ms, ProfileBuilder};

    #[test]
    fn who_works_is_above_those_that_wait_for_it() {
        let mut p = ProfileBuilder::new("pipeline");
        p.wall(ms(1000));
        let (queue, get) = (p.mutex("queue"), p.site("get", "p.c", 7));
        for name in ["read-0", "read-1"] {
            let t = p.thread(name).start("read", "p.c", 1).cpu(ms(20)).id();
            p.contended(t, queue, get, 50, ms(900));
        }
        p.thread("transform-0")
            .start("transform", "p.c", 2)
            .cpu(ms(950));
        let model = Model::build(p.build());
        let (analysis, thresholds) = (Analysis::default(), Params::default());
        let report = Report {
            model: &model,
            analysis: &analysis,
            critical: None,
            sections: None,
            thresholds: &thresholds,
        };
        let mut strings = Strings::default();
        let (order, _) = threads(&report, &Roles::of(&model), &mut strings);
        let names = order
            .iter()
            .map(|id| model.threads[id.0 as usize].name.as_str());
        let names: Vec<_> = names.filter(|name| name.contains('-')).collect();
        assert_eq!(names, ["transform-0", "read-0", "read-1"]);
    }
}
