//! The processes of the machine, or of control groups, as they come and go.

use std::collections::HashMap;
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
    /// By number and start: whether it is the kernel's own.
    known: HashMap<(u32, u64), bool>,
}

impl Members {
    /// Of these control groups, by path or by name; of the whole machine if there are none.
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
        Ok(Self {
            groups,
            known: HashMap::new(),
        })
    }

    /// Those that are there now, without the kernel's own threads and without this process.
    pub fn read(&mut self) -> Vec<Member> {
        let pids: Vec<u32> = match &self.groups {
            Some(groups) => groups.in_groups().into_iter().collect(),
            None => procfs::processes(),
        };
        let own = std::process::id();
        let mut there = HashMap::with_capacity(pids.len());
        let mut all = Vec::new();
        for pid in pids.into_iter().filter(|pid| *pid != own) {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let Some(stat) = procfs::stat(&text) else {
                continue;
            };
            let key = (pid, stat.start_ticks);
            let known = self.known.get(&key).copied();
            let is_kernels = known.unwrap_or_else(|| procfs::is_kernel_thread(pid));
            there.insert(key, is_kernels);
            if !is_kernels && !matches!(stat.state, 'Z' | 'X') {
                all.push(Member {
                    pid,
                    start_ticks: stat.start_ticks,
                    name: stat.name,
                });
            }
        }
        self.known = there;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_are_found_while_they_run() {
        let mut members = Members::of(&[]).unwrap();
        let mut child = Command::new("sleep")
            .arg("30")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let is_there = |members: &mut Members| {
            let all = members.read();
            assert!(all.iter().all(|m| m.pid != std::process::id()));
            all.iter().any(|m| m.pid == pid)
        };
        let there = is_there(&mut members);
        let _ = child.kill();
        let _ = child.wait();
        assert!(there);
        assert!(!is_there(&mut members));
    }

    #[test]
    fn a_group_that_is_not_there_is_said() {
        let trouble = Members::of(&["no-such-group.slice".into()]).unwrap_err();
        assert!(trouble.found.contains("no control group"), "{trouble}");
    }
}
