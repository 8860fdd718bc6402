//! Which running processes are meant by pids and names of control groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::Trouble;
use crate::procfs;

/// Where control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Control groups below which a name is looked for.
const DEEPEST_GROUP: usize = 8;

/// Processes that run already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Processes; their threads and children are meant, too.
    pub pids: Vec<u32>,
    /// Control groups, by path or by name: everything in them.
    pub cgroups: Vec<PathBuf>,
}

impl Targets {
    /// Whether a process can be looked at at all: it is there, it is no thread, no zombie, not this
    /// one, not the kernel's.
    pub fn check(pid: u32) -> Result<(), Trouble> {
        check(pid)
    }

    /// All processes that are meant now, the named ones first. `Err` if a name stands for none.
    pub(crate) fn resolve(&self) -> Result<Vec<u32>, Trouble> {
        let mut all = Vec::new();
        for &pid in &self.pids {
            check(pid)?;
            all.push(pid);
        }
        let children = children();
        let mut next = 0;
        while let Some(&pid) = all.get(next) {
            next += 1;
            all.extend(children.get(&pid).into_iter().flatten());
        }
        for group in &self.cgroups {
            let dir = find_group(group)?;
            let members = members(&dir);
            if members.is_empty() {
                return Err(Trouble::new(
                    format!("control group {} has no processes", dir.display()),
                    "there is nothing to record",
                    "systemd-cgls lists groups and what runs in them",
                ));
            }
            all.extend(members);
        }
        let own = std::process::id();
        let mut seen = BTreeSet::from([own]);
        all.retain(|pid| seen.insert(*pid));
        Ok(all)
    }

    /// Whether each control group is there; processes may come later.
    pub(crate) fn check_groups(&self) -> Result<(), Trouble> {
        self.cgroups
            .iter()
            .try_for_each(|g| find_group(g).map(|_| ()))
    }

    /// Whether there are any control groups, into which others may come.
    pub(crate) fn has_groups(&self) -> bool {
        !self.cgroups.is_empty()
    }

    /// The processes that are in the control groups now.
    pub(crate) fn in_groups(&self) -> BTreeSet<u32> {
        let dirs = self.cgroups.iter().filter_map(|g| find_group(g).ok());
        dirs.flat_map(|dir| members(&dir)).collect()
    }
}

fn check(pid: u32) -> Result<(), Trouble> {
    if pid == std::process::id() {
        return Err(Trouble::new(
            format!("process {pid} is convoy itself"),
            "nothing is recorded",
            "name another one",
        ));
    }
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Err(Trouble::new(
            format!("there is no process {pid}"),
            "nothing is recorded",
            "check the number: ps -e",
        ));
    }
    match procfs::group_leader(pid) {
        Some(leader) if leader != pid => Err(Trouble::new(
            format!("{pid} is a thread of process {leader}"),
            "nothing is recorded",
            format!("name the process: -p {leader}"),
        )),
        _ if !procfs::is_running(pid) => Err(Trouble::new(
            format!("process {pid} has ended (it is a zombie)"),
            "nothing is recorded",
            "name one that runs",
        )),
        _ if procfs::is_kernel_thread(pid) => Err(Trouble::new(
            format!("{pid} is a thread of the kernel"),
            "nothing is recorded",
            "name a process of a program",
        )),
        _ => Ok(()),
    }
}

/// The children of each process.
fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in procfs::processes() {
        if let Some(parent) = procfs::parent(pid) {
            all.entry(parent).or_default().push(pid);
        }
    }
    all
}

/// By path, by path below the root of all groups, or by the name of one that is somewhere below.
fn find_group(name: &Path) -> Result<PathBuf, Trouble> {
    let root = Path::new(CGROUPS);
    if name.components().any(|part| part == Component::ParentDir) {
        return Err(no_group(name));
    }
    if name.is_absolute() && name.starts_with(root) && name.is_dir() {
        return Ok(name.to_owned());
    }
    let below = root.join(name.strip_prefix("/").unwrap_or(name));
    if below.is_dir() {
        return Ok(below);
    }
    let mut found = Vec::new();
    look_below(root, name, DEEPEST_GROUP, &mut found);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(no_group(name)),
        n => Err(Trouble::new(
            format!("{n} control groups are called {}", name.display()),
            "nothing is recorded",
            format!("name one by its path, e.g. {}", found[0].display()),
        )),
    }
}

fn no_group(name: &Path) -> Trouble {
    Trouble::new(
        format!("there is no control group {}", name.display()),
        "nothing is recorded",
        format!("systemd-cgls lists them; {CGROUPS} has them as directories"),
    )
}

fn look_below(dir: &Path, name: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        if path.ends_with(name) {
            found.push(path.clone());
        }
        if depth > 0 {
            look_below(&path, name, depth - 1, found);
        }
    }
}

fn members(dir: &Path) -> Vec<u32> {
    let mut all: Vec<u32> = fs::read_to_string(dir.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            all.extend(members(&entry.path()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn targets(pids: &[u32]) -> Targets {
        Targets {
            pids: pids.to_vec(),
            ..Targets::default()
        }
    }

    #[test]
    fn children_are_meant_too() {
        let mut parent = Command::new("sh")
            .args(["-c", "sleep 30 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(parent.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let found = targets(&[parent.id()]).resolve().unwrap();
        let _ = Command::new("kill").arg(child.to_string()).status();
        let _ = parent.wait();
        assert_eq!(found, [parent.id(), child]);
    }

    #[test]
    fn what_is_no_process_is_said() {
        for (pid, why) in [
            (u32::MAX, "there is no process"),
            (2, "thread of the kernel"),
        ] {
            if pid == 2 && !procfs::is_kernel_thread(2) {
                continue; // in a container 2 may be anything
            }
            let trouble = targets(&[pid]).resolve().unwrap_err();
            assert!(trouble.found.contains(why), "{trouble}");
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender
                .send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            let _ = wait.recv();
        });
        let tid = receiver.recv().unwrap() as u32;
        let trouble = targets(&[tid]).resolve().unwrap_err();
        drop(end);
        thread.join().unwrap();
        assert!(
            trouble.found.contains("is a thread of process"),
            "{trouble}"
        );
        let own = targets(&[std::process::id()]).resolve().unwrap_err();
        assert!(own.found.contains("convoy itself"), "{own}");
        for name in [
            "no-such-group.slice",
            "../../proc",
            "/sys/fs/cgroup/../../../etc",
        ] {
            let group = Targets {
                cgroups: vec![name.into()],
                ..Targets::default()
            };
            let trouble = group.resolve().unwrap_err();
            assert!(trouble.found.contains("no control group"), "{trouble}");
        }
    }
}
