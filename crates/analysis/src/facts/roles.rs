//! Which threads do one job, and which processes are none of the program's.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{serves_a_machine, GroupId, Model, OffReason, ProcessId, Sched};

use crate::knowledge::programs::is_launcher;

/// Roles of a recording.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    /// Groups whose threads another group stands for.
    one_role: BTreeMap<GroupId, GroupId>,
    /// Groups whose threads a runtime gives its tasks to as it likes.
    shared: BTreeSet<GroupId>,
    /// Groups that serve a virtual machine.
    services: BTreeSet<GroupId>,
    /// Processes that start the program and wait for it.
    helpers: BTreeSet<ProcessId>,
    /// Processes that wait for their children while there are any, whatever they do before and after.
    parents: BTreeSet<ProcessId>,
}

/// Functions at the bottom of stacks of Go: all of its threads run all goroutines.
const GO: [&str; 3] = ["runtime.goexit", "runtime.mcall", "runtime.mstart"];

/// How runtimes call the threads that share their tasks: tokio (now and before), Erlang, Java's fork-join pools, .NET.
const POOLS: [&str; 6] = [
    "tokio-rt-worker",
    "tokio-runtime-w",
    "erts_sched_",
    "#_scheduler",
    "ForkJoinPool",
    ".NET TP Worker",
];

/// A process that waits for its children for this share of its life...
const WAITS: f64 = 0.5;
/// ... and is on a processor for no more than this share only starts them: make, a compiler's driver, a script.
const RUNS: f64 = 0.2;

/// A process that waits for children for this share of the time in which it has some does not do their work.
const LETS_WORK: f64 = 0.8;

impl Roles {
    pub(crate) fn of(model: &Model, sched: &Sched) -> Self {
        let goes = |function: &str| GO.iter().any(|name| function.starts_with(name));
        let go: BTreeSet<ProcessId> = model
            .sites
            .iter()
            .filter(|site| site.frames.iter().any(|frame| goes(&frame.function)))
            .map(|site| site.process)
            .collect();
        let mut this = Self::default();
        let mut first: BTreeMap<ProcessId, GroupId> = BTreeMap::new();
        for (ix, group) in model.groups.iter().enumerate() {
            let id = GroupId(ix as u32);
            let pool = |name: &&str| group.name_pattern.starts_with(*name);
            if go.contains(&group.process) {
                let stands = *first.entry(group.process).or_insert(id);
                this.one_role.insert(id, stands);
                this.shared.insert(stands);
            } else if POOLS.iter().any(pool) {
                this.shared.insert(id);
            }
            if serves_a_machine(&group.name_pattern) {
                this.services.insert(id);
            }
        }
        let waits = waits_for_children(model, sched);
        let spans = spans_of_children(model, sched);
        for (ix, process) in model.processes.iter().enumerate() {
            let Some(span) = spans.get(&process.pid) else {
                continue;
            };
            let id = ProcessId(ix as u32);
            let of = waits.get(&id).into_iter().flatten();
            if of.clone().any(|wait| wait.waited >= LETS_WORK * span) {
                this.parents.insert(id);
            }
            if is_launcher(process) || of.clone().any(Wait::is_all) {
                this.helpers.insert(id);
            }
        }
        this
    }

    /// The group that stands for all that share its tasks.
    pub(crate) fn role(&self, group: GroupId) -> GroupId {
        self.one_role.get(&group).copied().unwrap_or(group)
    }

    /// Whether its threads are interchangeable: which of them works says nothing.
    pub(crate) fn is_shared(&self, group: GroupId) -> bool {
        self.shared.contains(&group)
    }

    /// Whether the group is all threads of Go.
    pub(crate) fn is_go(&self, group: GroupId) -> bool {
        self.one_role.contains_key(&group)
    }

    /// Whether the group serves a virtual machine.
    pub(crate) fn is_service(&self, group: GroupId) -> bool {
        self.services.contains(&group)
    }

    /// Whether a process only starts the others.
    pub(crate) fn is_helper(&self, process: ProcessId) -> bool {
        self.helpers.contains(&process)
    }

    /// Whether a process does none of its children's work: it is not one of those that share it.
    pub(crate) fn is_parent(&self, process: ProcessId) -> bool {
        self.helpers.contains(&process) || self.parents.contains(&process)
    }
}

/// A thread that waited for children of its process. Nanoseconds.
#[derive(Debug)]
struct Wait {
    waited: f64,
    life: f64,
    running: f64,
}

impl Wait {
    /// Whether the thread does little else.
    fn is_all(&self) -> bool {
        self.waited >= WAITS * self.life && self.running <= RUNS * self.life
    }
}

fn waits_for_children(model: &Model, sched: &Sched) -> BTreeMap<ProcessId, Vec<Wait>> {
    let mut waited: BTreeMap<_, f64> = BTreeMap::new();
    for off in sched
        .offs
        .iter()
        .filter(|off| off.reason == OffReason::Child)
    {
        *waited.entry(off.thread).or_default() += off.sum_ns as f64;
    }
    let mut waits: BTreeMap<ProcessId, Vec<Wait>> = BTreeMap::new();
    for th in &sched.threads {
        let of = model.threads.get(th.thread.0 as usize);
        let waited = waited.get(&th.thread).copied().filter(|&ns| ns > 0.0);
        if let (Some(of), Some(waited)) = (of, waited) {
            waits.entry(of.process).or_default().push(Wait {
                waited,
                life: th.life_ns() as f64,
                running: th.running_ns as f64,
            });
        }
    }
    waits
}

/// How long each process had children, from the first one's beginning to the last one's end, in nanoseconds, by pid.
fn spans_of_children(model: &Model, sched: &Sched) -> BTreeMap<u32, f64> {
    let mut spans: BTreeMap<u32, (u64, u64)> = model
        .processes
        .iter()
        .map(|process| (process.ppid, (u64::MAX, 0)))
        .collect();
    for th in &sched.threads {
        let process = model
            .threads
            .get(th.thread.0 as usize)
            .and_then(|of| model.processes.get(of.process.0 as usize));
        if let Some((start, end)) = process.and_then(|p| spans.get_mut(&p.ppid)) {
            *start = (*start).min(th.start_ns);
            *end = (*end).max(th.end_ns);
        }
    }
    let length = |(start, end): (u64, u64)| end.saturating_sub(start) as f64;
    spans
        .into_iter()
        .map(|(pid, span)| (pid, length(span)))
        .collect()
}
