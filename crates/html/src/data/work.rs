//! What threads did with their time, by role: for the bars and the table of thread groups.

use std::collections::BTreeMap;

use convoy_analysis::counters::GroupRow;
use convoy_report::{names, Report};
use serde::Serialize;

use super::strings::Strings;
use crate::roles::Roles;

/// Roles with a bar.
const ROLES: usize = 24;
/// Processes of a role with a bar of their own.
const PROCESSES: usize = 200;
/// A wait below this share of a group's time is not seen in its bar.
const MIN_WAIT: u64 = 200;

/// A role with the rows of its groups, longest life first.
pub(crate) struct RoleRows<'a> {
    /// Its place in [`Roles::list`].
    pub(crate) role: usize,
    pub(crate) rows: Vec<&'a GroupRow>,
}

impl RoleRows<'_> {
    pub(crate) fn sum(&self, of: impl Fn(&GroupRow) -> u64) -> u64 {
        self.rows
            .iter()
            .map(|row| of(row))
            .fold(0, u64::saturating_add)
    }
}

/// Most time first.
pub(crate) fn by_role<'a>(report: &Report<'a>, roles: &Roles) -> Vec<RoleRows<'a>> {
    let mut of: BTreeMap<usize, Vec<&GroupRow>> = BTreeMap::new();
    for row in &report.analysis.groups {
        if let Some(role) = roles.of_group(row.group) {
            of.entry(role).or_default().push(row);
        }
    }
    let rows = of.into_iter().map(|(role, mut rows)| {
        rows.sort_by_key(|row| std::cmp::Reverse(row.life_ns));
        RoleRows { role, rows }
    });
    let mut all: Vec<_> = rows.collect();
    all.sort_by_key(|rows| std::cmp::Reverse(rows.sum(|row| row.life_ns)));
    all
}

/// A bar.
#[derive(Debug, Serialize)]
pub(crate) struct Work {
    name: u32,
    threads: usize,
    processes: usize,
    life_ns: u64,
    /// What it did: a word or the object that was waited for, and nanoseconds. The first is work.
    parts: Vec<(u32, u64)>,
    /// Its processes, if there are several.
    members: Vec<Self>,
}

pub(crate) fn work(report: &Report<'_>, roles: &Roles, strings: &mut Strings) -> Vec<Work> {
    let all = by_role(report, roles).into_iter().take(ROLES);
    all.map(|of| role(report, roles, &of, strings)).collect()
}

fn role(report: &Report<'_>, roles: &Roles, of: &RoleRows<'_>, strings: &mut Strings) -> Work {
    let role = &roles.list[of.role];
    let mut members = Vec::new();
    // In the order in which they first occur: work is the first.
    let mut parts: Vec<(u32, u64)> = Vec::new();
    for row in &of.rows {
        let own = parts_of(report, row, strings);
        for &(text, ns) in &own {
            match parts.iter_mut().find(|part| part.0 == text) {
                Some(part) => part.1 = part.1.saturating_add(ns),
                None => parts.push((text, ns)),
            }
        }
        if of.rows.len() > 1 && members.len() < PROCESSES {
            members.push(Work {
                name: strings.id(process_of(report, row)),
                threads: row.threads,
                processes: 1,
                life_ns: row.life_ns,
                parts: own,
                members: Vec::new(),
            });
        }
    }
    Work {
        name: strings.id(role.name.clone()),
        threads: role.threads,
        processes: role.processes,
        life_ns: of.sum(|row| row.life_ns),
        parts,
        members,
    }
}

/// The process of a group, by its number: its name is that of the role.
pub(crate) fn process_of(report: &Report<'_>, row: &GroupRow) -> String {
    let group = report.model.groups.get(row.group.0 as usize);
    let process = group.and_then(|g| report.model.processes.get(g.process.0 as usize));
    process.map_or_else(
        || "unknown process".into(),
        |process| format!("process {}", process.pid),
    )
}

fn parts_of(report: &Report<'_>, row: &GroupRow, strings: &mut Strings) -> Vec<(u32, u64)> {
    let group = report.model.groups.get(row.group.0 as usize);
    let process = group.and_then(|g| report.model.processes.get(g.process.0 as usize));
    let did = match process {
        Some(process) if process.without_agent => "work, or waits that nobody saw",
        _ => "work",
    };
    let mut parts = vec![(strings.id(did.into()), row.busy_ns)];
    let mut named = 0u64;
    let least = row.life_ns / MIN_WAIT;
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
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_analysis::counters::Analysis;
    use convoy_analysis::Params;
    use convoy_model::{Group, GroupId, Model, Process, ProcessId, ThreadId};

    #[test]
    fn processes_of_one_executable_are_one_bar_with_members() {
        let process = |pid| Process {
            pid,
            name: "cc1".into(),
            exe: "/usr/bin/cc1".into(),
            ..Process::default()
        };
        let group = |process| Group {
            process: ProcessId(process),
            name: "main".into(),
            threads: vec![ThreadId(process)],
            ..Group::default()
        };
        let model = Model {
            processes: vec![process(7), process(8)],
            groups: vec![group(0), group(1)],
            ..Model::default()
        };
        let row = |group, busy_ns| GroupRow {
            group: GroupId(group),
            threads: 1,
            life_ns: 100,
            busy_ns,
            ..GroupRow::default()
        };
        let analysis = Analysis {
            groups: vec![row(0, 60), row(1, 30)],
            ..Analysis::default()
        };
        let thresholds = Params::default();
        let report = Report {
            model: &model,
            analysis: &analysis,
            critical: None,
            sections: None,
            thresholds: &thresholds,
        };
        let mut strings = Strings::default();
        let bars = work(&report, &Roles::of(&model), &mut strings);
        let strings = strings.into_inner();
        let [bar] = bars.as_slice() else {
            panic!("{bars:?}")
        };
        assert_eq!(strings[bar.name as usize], "cc1");
        assert_eq!((bar.processes, bar.life_ns, bar.parts[0].1), (2, 200, 90));
        let names = bar
            .members
            .iter()
            .map(|m| strings[m.name as usize].as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["process 7", "process 8"]);
    }
}
