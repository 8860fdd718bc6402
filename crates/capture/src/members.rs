//! The processes of the machine, or of control groups, as they come and go.

use std::fs;
use std::path::PathBuf;

use crate::error::Trouble;
use crate::procfs;
use crate::targets::Targets;

/// A process of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// Its number.
    pub pid: u32,
    /// Start in clock ticks since boot: numbers are used again.
    pub start_ticks: u64,
    /// Its name, at most 15 bytes; `exec` changes it.
    pub name: String,
}

/// Finds processes again and again.
#[derive(Debug)]
pub struct Members {
    /// `None` = all processes.
    groups: Option<Targets>,
}

impl Members {
    /// Finds those of these control groups, named by path or by name; without any, all processes of
    /// the machine.
    ///
    /// # Errors
    /// A group that is not there, or a name that several have.
    pub fn of(cgroups: &[PathBuf]) -> Result<Self, Trouble> {
        let groups = (!cgroups.is_empty()).then(|| Targets {
            cgroups: cgroups.to_vec(),
            ..Targets::default()
        });
        if let Some(groups) = &groups {
            groups.check_groups()?;
        }
        Ok(Self { groups })
    }

    /// Those that are there now, without the kernel's own threads and without this process.
    pub fn read(&self) -> Vec<Member> {
        let pids: Vec<u32> = match &self.groups {
            Some(groups) => groups.in_groups().into_iter().collect(),
            None => procfs::processes(),
        };
        let own = std::process::id();
        let others = pids.into_iter().filter(|pid| *pid != own);
        others.filter_map(member).collect()
    }
}

fn member(pid: u32) -> Option<Member> {
    let stat = procfs::stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let is_program = !stat.is_kernels() && stat.runs(pid);
    is_program.then_some(Member {
        pid,
        start_ticks: stat.start_ticks,
        name: stat.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_are_found_while_they_run() {
        let members = Members::of(&[]).unwrap();
        let mut child = Command::new("sleep")
            .arg("30")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let is_there = || {
            let all = members.read();
            assert!(all.iter().all(|m| m.pid != std::process::id()));
            all.iter().any(|m| m.pid == pid)
        };
        let there = is_there();
        let _ = child.kill();
        let _ = child.wait();
        assert!(there);
        assert!(!is_there());
    }

    #[test]
    fn a_group_that_is_not_there_is_said() {
        let trouble = Members::of(&["no-such-group.slice".into()]).unwrap_err();
        assert!(trouble.found.contains("no control group"), "{trouble}");
    }
}
