//! Which threads do one job, and which processes are none of the program's.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{GroupId, Model, OffReason, ProcessId, Sched};

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
}

/// Functions at the bottom of stacks of Go: all of its threads run all goroutines.
const GO: [&str; 3] = ["runtime.goexit", "runtime.mcall", "runtime.mstart"];

/// How runtimes call the threads that share their tasks: tokio, Erlang, Java's fork-join pools, .NET.
const POOLS: [&str; 5] = [
    "tokio-runtime-w",
    "erts_sched_",
    "#_scheduler",
    "ForkJoinPool",
    ".NET TP Worker",
];

/// Threads that a virtual machine has for itself: they wait for requests, and nobody waits for them for long.
const SERVICES: [&str; 19] = [
    "C# CompilerThre",
    "GC Thread#",
    "G# ",
    "VM Thread",
    "VM Periodic Tas",
    "Sweeper thread",
    "Signal Dispatch",
    "Finalizer",
    "Reference Handl",
    "Common-Cleaner",
    "Service Thread",
    "Monitor Deflati",
    "Notification Th",
    "DestroyJavaVM",
    "V# Worker",
    "V# DefaultWorke",
    ".NET Finalizer",
    ".NET SynchManag",
    ".NET Tiered Com",
];

/// A process that waits for its children for this share of its life...
const WAITS: f64 = 0.5;
/// ... and is on a processor for no more than this share only starts them: make, a compiler's driver, a script.
const RUNS: f64 = 0.2;

/// Programs that start others: launchers of MPI and of batch systems, shells, wrappers of one command.
const LAUNCHERS: [&str; 26] = [
    "mpirun",
    "mpiexec",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "prte",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "srun",
    "slurmstepd",
    "sh",
    "bash",
    "dash",
    "zsh",
    "busybox",
    "env",
    "time",
    "timeout",
    "nice",
    "ionice",
    "taskset",
    "numactl",
    "setsid",
    "stdbuf",
    "sudo",
];

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
            if SERVICES.iter().any(pool) {
                this.services.insert(id);
            }
        }
        let parents: BTreeSet<u32> = model.processes.iter().map(|p| p.ppid).collect();
        let waits = waiting_for_children(model, sched);
        for (ix, process) in model.processes.iter().enumerate() {
            let only_waits = waits.contains(&ProcessId(ix as u32));
            let name = process.name.split('.').next().unwrap_or_default();
            if parents.contains(&process.pid) && (only_waits || LAUNCHERS.contains(&name)) {
                this.helpers.insert(ProcessId(ix as u32));
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
}

/// Processes with a thread that does little but wait for children.
fn waiting_for_children(model: &Model, sched: &Sched) -> BTreeSet<ProcessId> {
    let mut waited: BTreeMap<_, f64> = BTreeMap::new();
    for off in sched
        .offs
        .iter()
        .filter(|off| off.reason == OffReason::Child)
    {
        *waited.entry(off.thread).or_default() += off.sum_ns as f64;
    }
    let only_waits = |th: &&convoy_model::SchedThread| {
        let life = th.life_ns() as f64;
        let waited = waited.get(&th.thread).copied().unwrap_or(0.0);
        waited > 0.0 && waited >= WAITS * life && th.running_ns as f64 <= RUNS * life
    };
    let of =
        |th: &convoy_model::SchedThread| Some(model.threads.get(th.thread.0 as usize)?.process);
    sched
        .threads
        .iter()
        .filter(only_waits)
        .filter_map(of)
        .collect()
}
