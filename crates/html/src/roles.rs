//! Roles: thread groups that do the same job in processes of one executable.
//!
//! A build runs the compiler a hundred times: a hundred groups of one thread each, all called
//! "main". They are one role, known by the name of the program.

use std::collections::HashMap;

use convoy_model::{GroupId, Model, Process, ThreadId};
use convoy_report::names;

/// The name of the group of a process's first thread.
const MAIN: &str = "main";

/// A job, and who does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Role {
    /// For people; the program is in it where the recording has several.
    pub(crate) name: String,
    /// In the order of the model.
    pub(crate) groups: Vec<GroupId>,
    pub(crate) threads: usize,
    /// Processes in which it occurs.
    pub(crate) processes: usize,
}

/// All roles of a recording.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) list: Vec<Role>,
    /// Of each group, by its number.
    of: Vec<usize>,
}

impl Roles {
    pub(crate) fn of(model: &Model) -> Self {
        let several = model.processes.len() > 1;
        let mut roles = Self::default();
        let mut index = HashMap::new();
        for (id, group) in (0u32..).zip(&model.groups) {
            let process = model.processes.get(group.process.0 as usize);
            let name = name(&names::group(group), process.filter(|_| several));
            let program = process.map(|p| (p.program(), p.script.as_str()));
            let at = *index
                .entry((program, name.clone()))
                .or_insert(roles.list.len());
            if at == roles.list.len() {
                roles.list.push(Role {
                    name,
                    groups: Vec::new(),
                    threads: 0,
                    processes: 0,
                });
            }
            let role = &mut roles.list[at];
            // Groups are in the order of their processes.
            let before = role
                .groups
                .last()
                .and_then(|id| model.groups.get(id.0 as usize));
            if before.is_none_or(|before| before.process != group.process) {
                role.processes += 1;
            }
            role.threads += group.threads.len();
            role.groups.push(GroupId(id));
            roles.of.push(at);
        }
        roles
    }

    /// The place of a group's role in the list.
    pub(crate) fn of_group(&self, id: GroupId) -> Option<usize> {
        self.of.get(id.0 as usize).copied()
    }

    /// The name of a group's role.
    pub(crate) fn name_of(&self, id: GroupId) -> &str {
        let role = self.of_group(id).and_then(|at| self.list.get(at));
        role.map_or("unknown threads", |role| role.name.as_str())
    }

    /// The place of a thread's role in the list.
    pub(crate) fn of_thread(&self, model: &Model, id: ThreadId) -> Option<usize> {
        self.of_group(model.threads.get(id.0 as usize)?.group)
    }
}

/// A group's name, with that of its program where there are several.
fn name(group: &str, process: Option<&Process>) -> String {
    match process {
        None => group.into(),
        // It ended, or became another program, before its name could be read.
        Some(p) if p.name.is_empty() && group == MAIN => "unknown program".into(),
        Some(p) if p.name.is_empty() => format!("{group} (unknown program)"),
        Some(p) if group == MAIN => names::clip(&p.title(), 40),
        Some(p) => format!("{group} ({})", names::clip(&p.title(), 32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{Group, ProcessId};

    fn model(programs: &[&str], groups: &[(u32, &str)]) -> Model {
        Model {
            processes: programs
                .iter()
                .map(|name| Process {
                    name: (*name).into(),
                    exe: format!("/usr/bin/{name}"),
                    ..Process::default()
                })
                .collect(),
            groups: groups
                .iter()
                .map(|&(process, name)| Group {
                    process: ProcessId(process),
                    name: name.into(),
                    threads: vec![ThreadId(0)],
                    ..Group::default()
                })
                .collect(),
            ..Model::default()
        }
    }

    #[test]
    fn processes_of_one_executable_are_one_role() {
        let groups = [(0, "main"), (1, "main"), (2, "main"), (2, "worker-#")];
        let roles = Roles::of(&model(&["make", "cc1", "cc1"], &groups));
        let all: Vec<_> = roles
            .list
            .iter()
            .map(|role| (role.name.as_str(), role.processes, role.threads))
            .collect();
        let expected = [("make", 1, 1), ("cc1", 2, 2), ("worker-# (cc1)", 1, 1)];
        assert_eq!(all, expected);
        assert_eq!(roles.of_group(GroupId(2)), Some(1));
    }

    #[test]
    fn one_process_has_the_names_of_its_groups() {
        let roles = Roles::of(&model(&["server"], &[(0, "main"), (0, "worker-#")]));
        let names: Vec<_> = roles.list.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["main", "worker-#"]);
    }
}
