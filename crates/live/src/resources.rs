//! The resource hierarchy: code, threads, synchronization objects and files as a tree whose leaves
//! and branches can be the focus of a metric (Paradyn, 1995, section 3).
//!
//! Each row shows a number that is there without any probe. What has ended stays, marked.

use std::collections::{BTreeMap, BTreeSet};

use crate::focus::{Focus, Key};
use crate::lock::{LockChanges, LockSums};
use crate::thread::{Roster, Thread};

/// Ended threads that stay in the tree.
const MOST_ENDED: usize = 200;

/// Locks in the tree, those that are waited for most first.
const MOST_LOCKS: usize = 1_000;

/// A number that costs nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// CPU time per second, and the state of a thread.
    Cpu(f64, Option<char>),
    /// Threads' waiting time per second.
    Wait(f64),
    /// How many there are.
    Count(usize),
}

/// A resource and those below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// Its number, where there is one.
    pub figure: Option<Figure>,
    /// What it means as a focus; `None` = nothing can be measured of it.
    pub focus: Option<Focus>,
    /// It has ended.
    pub has_ended: bool,
    /// What it consists of.
    pub children: Vec<Self>,
}

impl Resource {
    fn branch(name: &str, children: Vec<Self>) -> Self {
        Self {
            name: name.to_owned(),
            figure: Some(Figure::Count(children.len())),
            children,
            ..Self::default()
        }
    }
}

/// The functions of each file.
pub type Code = Vec<(String, Vec<String>)>;

/// Makes the tree: `Code`, `Threads`, `Sync objects`, `Files`.
pub fn hierarchy(
    code: &Code,
    threads: &Roster,
    locks: &LockChanges,
    files: &[String],
    seconds: f64,
) -> Vec<Resource> {
    vec![
        Resource::branch("Code", code.iter().map(code_file).collect()),
        Resource::branch("Threads", by_process(threads, seconds)),
        Resource::branch("Sync objects", by_kind(locks, seconds)),
        Resource::branch("Files", files.iter().map(|name| leaf(name)).collect()),
    ]
}

fn leaf(name: &str) -> Resource {
    Resource {
        name: name.to_owned(),
        focus: Some(Focus::new().with(Key::File, name)),
        ..Resource::default()
    }
}

fn code_file((file, functions): &(String, Vec<String>)) -> Resource {
    // Names that several functions have say which file they are in.
    let function = |name: &String| Resource {
        name: name.clone(),
        focus: Some(Focus::new().with(Key::Function, name.clone())),
        ..Resource::default()
    };
    Resource::branch(file, functions.iter().map(function).collect())
}

fn by_process(threads: &Roster, seconds: f64) -> Vec<Resource> {
    let before: BTreeMap<u32, &Thread> = threads.pairs().map(|(b, now)| (now.tid, b)).collect();
    let cpu = |thread: &Thread| {
        let earlier = before.get(&thread.tid)?;
        let ns = thread.cpu_ns?.checked_sub(earlier.cpu_ns?)?;
        (seconds > 0.0).then(|| ns as f64 / 1e9 / seconds)
    };
    let alive: BTreeSet<u32> = threads.alive().map(|thread| thread.tid).collect();
    let mut ended = 0;
    let mut tree: BTreeMap<(u32, &str), BTreeMap<&str, Vec<Resource>>> = BTreeMap::new();
    for thread in threads.all() {
        let has_ended = !alive.contains(&thread.tid);
        ended += usize::from(has_ended);
        if has_ended && ended > MOST_ENDED {
            continue;
        }
        let groups = tree.entry((thread.pid, &thread.process)).or_default();
        groups.entry(&thread.group).or_default().push(Resource {
            name: format!("{} ({})", thread.name, thread.tid),
            figure: cpu(thread).map(|cpu| Figure::Cpu(cpu, Some(thread.state))),
            focus: Some(Focus::new().with(Key::Thread, thread.tid.to_string())),
            has_ended,
            children: Vec::new(),
        });
    }
    let processes = tree.into_iter();
    let processes = processes.map(|((pid, name), groups)| {
        let groups = groups.into_iter().map(|(name, threads)| {
            let focus = Focus::new().with(Key::Group, name);
            of_threads(name.to_owned(), focus, threads)
        });
        let focus = Focus::new().with(Key::Process, pid.to_string());
        of_threads(format!("{name} ({pid})"), focus, groups.collect())
    });
    processes.collect()
}

/// A branch that uses the CPU time of what is below it, the most first.
fn of_threads(name: String, focus: Focus, mut children: Vec<Resource>) -> Resource {
    let cpu = |resource: &Resource| match resource.figure {
        Some(Figure::Cpu(cpu, _)) => Some(cpu),
        _ => None,
    };
    let known: Vec<f64> = children.iter().filter_map(cpu).collect();
    children.sort_by(|a, b| {
        let (x, y) = (cpu(a).unwrap_or(-1.0), cpu(b).unwrap_or(-1.0));
        y.total_cmp(&x).then_with(|| a.name.cmp(&b.name))
    });
    let figure = match known.is_empty() {
        true => Figure::Count(children.len()),
        false => Figure::Cpu(known.iter().sum(), None),
    };
    Resource {
        name,
        figure: Some(figure),
        focus: Some(focus),
        has_ended: !children.is_empty() && children.iter().all(|child| child.has_ended),
        children,
    }
}

fn by_kind(locks: &LockChanges, seconds: f64) -> Vec<Resource> {
    let mut sums = vec![LockSums::default(); locks.latest.locks.len()];
    for (lock, _, change) in &locks.latest.uses {
        if let Some(sum) = sums.get_mut(*lock) {
            sum.add(*change);
        }
    }
    let mut all: Vec<_> = locks.latest.locks.iter().zip(&sums).collect();
    all.sort_by(|(a, x), (b, y)| y.wait_ns.cmp(&x.wait_ns).then_with(|| a.name.cmp(&b.name)));
    let mut kinds: BTreeMap<&str, Vec<Resource>> = BTreeMap::new();
    for (lock, sums) in all.into_iter().take(MOST_LOCKS) {
        let wait = sums.wait_ns as f64 / 1e9 / seconds;
        let address = format!("{:#x}", lock.address);
        kinds.entry(&lock.kind).or_default().push(Resource {
            name: lock.name.clone(),
            figure: (locks.is_known && seconds > 0.0).then_some(Figure::Wait(wait)),
            focus: Some(Focus::new().with(Key::Lock, address)),
            ..Resource::default()
        });
    }
    let kinds = kinds.into_iter();
    kinds
        .map(|(kind, all)| Resource::branch(kind, all))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::tests::thread;

    #[test]
    fn threads_hang_below_their_groups_the_busiest_first() {
        let mut roster = Roster::default();
        let at = |busy: u64| {
            vec![
                thread(1, "main", 0),
                thread(2, "pool-1", busy),
                thread(3, "pool-2", 3 * busy),
            ]
            .into()
        };
        roster.update(at(0));
        roster.update(at(200_000_000));
        let tree = hierarchy(&Vec::new(), &roster, &LockChanges::default(), &[], 1.0);
        let process = &tree[1].children[0];
        assert_eq!(process.name, "p (1)");
        let group = &process.children[0];
        assert_eq!(group.name, "pool-#");
        assert_eq!(group.figure, Some(Figure::Cpu(0.8, None)));
        assert_eq!(group.children[0].name, "pool-2 (3)");
        let focus = group.children[0].focus.as_ref().unwrap();
        assert_eq!(focus.to_string(), r#"{thread="3"}"#);
    }

    #[test]
    fn what_has_ended_stays_and_says_so() {
        let mut roster = Roster::default();
        roster.update(vec![thread(1, "main", 0), thread(2, "pool-1", 0)].into());
        roster.update(vec![thread(1, "main", 0)].into());
        let tree = hierarchy(&Vec::new(), &roster, &LockChanges::default(), &[], 1.0);
        let groups = &tree[1].children[0].children;
        let ended: Vec<&str> = groups
            .iter()
            .filter(|group| group.has_ended)
            .map(|group| group.name.as_str())
            .collect();
        assert_eq!(ended, ["pool-#"]);
    }

    #[test]
    fn functions_and_files_need_nothing_but_names() {
        let code = vec![("server".to_owned(), vec!["f".to_owned()])];
        let files = ["/etc/passwd".to_owned()];
        let tree = hierarchy(
            &code,
            &Roster::default(),
            &LockChanges::default(),
            &files,
            0.0,
        );
        let function = &tree[0].children[0].children[0];
        assert_eq!(
            function.focus.as_ref().unwrap().to_string(),
            r#"{function="f"}"#
        );
        let file = tree[3].children[0].focus.as_ref().unwrap();
        assert_eq!(file.to_string(), r#"{file="/etc/passwd"}"#);
    }
}
