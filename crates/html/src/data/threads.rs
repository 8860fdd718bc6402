//! Threads by group, with what each did.

use convoy_model::ThreadId;
use convoy_report::{names, Report};
use serde::Serialize;

use super::strings::Strings;

/// Bars of this many threads are drawn; the table has as many.
const MOST: usize = 200;

#[derive(Debug, Serialize)]
pub(crate) struct Threads {
    /// Groups: name and number of threads.
    groups: Vec<(u32, u32)>,
    /// In the order of lanes, the groups one after the other: name.
    names: Vec<u32>,
    /// CMetric of the threads with most of it, nanoseconds: place in `names`, CMetric, of it working.
    cm: Vec<(u32, u64, u64)>,
}

/// The threads in the order in which they are drawn, and what is said of them.
pub(crate) fn threads(report: &Report<'_>, strings: &mut Strings) -> (Vec<ThreadId>, Threads) {
    let model = report.model;
    let work = |id: &ThreadId| {
        let thread = model.threads.get(id.0 as usize);
        thread.map_or((0, 0), |t| {
            let wanted_ns = t.run_delay_ns.unwrap_or(0);
            (t.cpu_ns.saturating_add(wanted_ns), t.waited_ns())
        })
    };
    let sum = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    let mut groups: Vec<_> = (0..model.groups.len()).collect();
    // Who works most comes first: it is what the others wait for, and a main thread that only joins comes last.
    groups.sort_by_cached_key(|&g| {
        let all = model.groups[g].threads.iter().map(work);
        std::cmp::Reverse(all.fold((0, 0), sum))
    });
    let mut order = Vec::with_capacity(model.threads.len());
    let mut named = Vec::with_capacity(groups.len());
    for &g in &groups {
        let group = &model.groups[g];
        let mut members = group.threads.clone();
        members.sort_by_key(|id| {
            let thread = model.threads.get(id.0 as usize);
            thread.map(|t| (t.start_ns, t.tid))
        });
        order.extend(members);
        let several = model.processes.len() > 1;
        let process = model.processes.get(group.process.0 as usize);
        let name = match process.filter(|_| several) {
            // It ended, or became another program, before anybody could ask for its name.
            Some(p) if p.name.is_empty() => {
                format!("{} (process {})", names::group(group), p.pid)
            }
            Some(p) => format!("{} ({} {})", names::group(group), p.name, p.pid),
            None => names::group(group),
        };
        named.push((strings.id(name), group.threads.len() as u32));
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

/// What the threads of a group did, summed.
#[derive(Debug, Serialize)]
pub(crate) struct Work {
    name: u32,
    threads: usize,
    life_ns: u64,
    /// What it did: a word or the object that was waited for, and nanoseconds. The first is work.
    parts: Vec<(u32, u64)>,
}

/// Groups drawn.
const GROUPS: usize = 24;

pub(crate) fn work(report: &Report<'_>, strings: &mut Strings) -> Vec<Work> {
    let mut rows: Vec<_> = report.analysis.groups.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.life_ns));
    let mut work = Vec::new();
    for row in rows.into_iter().take(GROUPS) {
        let group = report.model.groups.get(row.group.0 as usize);
        let name = group.map_or_else(|| "unknown threads".into(), names::group);
        let process = group.and_then(|g| report.model.processes.get(g.process.0 as usize));
        let did = match process {
            Some(process) if process.without_agent => "work, or waits that nobody saw",
            _ => "work",
        };
        let mut parts = vec![(strings.id(did.into()), row.busy_ns)];
        let mut named = 0u64;
        let least = row.life_ns / 200; // half a percent: less is not seen
        for (object, ns) in row.top_waits.iter().filter(|(_, ns)| *ns >= least) {
            let text = format!("waits for {}", names::object_of(report.model, *object));
            parts.push((strings.id(text), *ns));
            named = named.saturating_add(*ns);
        }
        let waits = row.lock_wait_ns + row.idle_wait_ns + row.event_wait_ns;
        parts.push((
            strings.id("other waits".into()),
            waits.saturating_sub(named),
        ));
        if let Some(ns) = row.run_delay_ns {
            parts.push((strings.id("waits for a CPU".into()), ns));
        }
        parts.retain(|(_, ns)| *ns > 0);
        work.push(Work {
            name: strings.id(name),
            threads: row.threads,
            life_ns: row.life_ns,
            parts,
        });
    }
    work
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
        let (order, _) = threads(&report, &mut strings);
        let names = order
            .iter()
            .map(|id| model.threads[id.0 as usize].name.as_str());
        let names: Vec<_> = names.filter(|name| name.contains('-')).collect();
        assert_eq!(names, ["transform-0", "read-0", "read-1"]);
    }
}
