//! What all parts of the analysis ask: who does real work, how many could at once, and what counts as low.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{
    semaphores_used_as_locks, Doing, GoProgram, GroupId, Model, NameId, ObjectId, OffCpu, OffId,
    OffReason, Process, ProcessId, Sched, SchedThread, SiteFrame, SiteId, SpinKind, Thread,
    ThreadId,
};

use convoy_profile::ObjectKind;

use crate::facts::concurrency::{low, none};
use crate::facts::java_pools::JavaPools;
use crate::facts::roles::Roles;
use crate::facts::switch_cost::SyncSamples;
use crate::params::Params;

/// Workers count as there together if they are for this share of the run.
const AT_ONCE: f64 = 0.01;
/// A thread that is at work for this share of its life is a worker, however short it lives...
const BUSY: f64 = 0.5;
/// ... but not shorter than this share of the run.
const SHORT: f64 = 0.001;
/// A thread that passes this share of its life in one wait, and does less than this share of what the busiest does,
/// starts the others and waits for their end.
const JOINS: (f64, f64) = (0.8, 0.2);
/// Threads that did this share of the work together did it.
const MOST_OF_IT: f64 = 0.8;
/// Looks at the goroutines of a program from which on they say something: fewer are a start.
const LOOKS: u64 = 20;
/// One thread at work is low parallelism wherever two could be.
const LEAST_LOW: f64 = 1.5;

/// The scheduler's rows of a model with what follows from them at once.
pub(crate) struct RunView<'a> {
    pub(crate) model: &'a Model,
    pub(crate) sched: &'a Sched,
    pub(crate) t: &'a Params,
    pub(crate) roles: Roles,
    /// Length of the run, at least 1 ns.
    pub(crate) wall: f64,
    /// CPUs that the program may use; infinite if unknown.
    pub(crate) cpus: f64,
    pub(crate) threads: BTreeMap<ThreadId, &'a SchedThread>,
    /// Active in loops that wait, on a processor or not.
    pub(crate) spun: BTreeMap<ThreadId, f64>,
    /// Of `spun`, in loops that try to take a lock.
    pub(crate) spun_for_locks: BTreeMap<ThreadId, f64>,
    pub(crate) workers: BTreeSet<ThreadId>,
    pub(crate) workers_at_once: usize,
    /// The most threads that can work at once.
    pub(crate) useful: f64,
    pub(crate) n_min: f64,
    /// Fewer threads at work are low parallelism; 0 if two could never work at once.
    pub(crate) low_below: f64,
    /// CPU time without busy waiting.
    pub(crate) cpu_work: f64,
    pub(crate) sync: SyncSamples<'a>,
    /// Semaphores that are used as locks.
    pub(crate) token_locks: BTreeSet<ObjectId>,
    pub(crate) java_pools: JavaPools<'a>,
}

impl<'a> RunView<'a> {
    pub(crate) fn new(model: &'a Model, sched: &'a Sched, t: &'a Params) -> Self {
        let machine = &model.meta.machine;
        let cpus = match (machine.cpus_allowed, machine.cpus_online) {
            (0, 0) => f64::INFINITY,
            (0, n) | (n, _) => f64::from(n),
        };
        let wall = (sched.wall_ns() as f64).max(1.0);
        let roles = Roles::of(model, sched);
        let helps = |id: ThreadId| {
            let thread = model.threads.get(id.0 as usize);
            thread.is_some_and(|th| roles.is_helper(th.process))
        };
        let workers = workers(sched, t, wall, helps);
        let workers_at_once = at_once(sched, &workers, wall);
        let useful = (workers_at_once as f64).min(cpus);
        let n_min = t
            .n_min
            .filter(|n| n.is_finite() && *n > 0.0)
            .unwrap_or(workers_at_once as f64 / 2.0);
        let low_below = if useful < LEAST_LOW {
            0.0
        } else {
            n_min.max(LEAST_LOW).min(useful)
        };
        let work = |th: &SchedThread| th.cpu_work_ns() as f64;
        let (mut spun, mut spun_for_locks) = (BTreeMap::new(), BTreeMap::new());
        for (slice, id) in sched.slices.iter().filter_map(|s| Some((s, s.spin?))) {
            let ns = slice.active_ns as f64;
            *spun.entry(slice.thread).or_insert(0.0) += ns;
            let of = sched.loops.get(id.0 as usize);
            if of.is_some_and(|of| of.kind == SpinKind::Lock) {
                *spun_for_locks.entry(slice.thread).or_insert(0.0) += ns;
            }
        }
        Self {
            model,
            sched,
            t,
            token_locks: semaphores_used_as_locks(model),
            java_pools: JavaPools::of(model, sched, &roles),
            roles,
            wall,
            cpus,
            threads: sched.threads.iter().map(|th| (th.thread, th)).collect(),
            spun,
            spun_for_locks,
            workers,
            workers_at_once,
            useful,
            n_min,
            low_below,
            cpu_work: sched.threads.iter().map(work).sum(),
            sync: SyncSamples::of(model),
        }
    }

    /// How many times longer low parallelism may have been: threads that were ready while no more than a few of them
    /// had a CPU were perhaps so only because others had the CPUs. For bounds.
    pub(crate) fn perhaps_low(&self) -> f64 {
        let time = |levels: &[u64]| low(levels, self.low_below);
        (time(&self.sched.running) / time(&self.sched.working).max(1.0)).max(1.0)
    }

    /// Nothing can be faster than the CPU time on all CPUs.
    pub(crate) fn cpu_floor(&self) -> f64 {
        self.cpu_work / self.cpus
    }

    /// What a thread waited for a processor after `n` of its waits.
    pub(crate) fn back_on_cpu(&self, id: ThreadId, n: f64) -> f64 {
        let th = self.threads.get(&id);
        th.map_or(0.0, |th| {
            th.delayed_ns as f64 * (n / th.slices.max(1) as f64).min(1.0)
        })
    }

    /// Mean number of CPUs in use, busy waiting included.
    pub(crate) fn cpus_used(&self) -> f64 {
        let running = |th: &SchedThread| th.running_ns as f64;
        self.sched.threads.iter().map(running).sum::<f64>() / self.wall
    }

    /// CPUs that its work was on, on average while any thread had work: fewer than one where other
    /// programs had most of them.
    pub(crate) fn at_once(&self) -> f64 {
        let at_work = (self.wall - none(&self.sched.working)).max(1.0);
        (self.cpu_work / at_work).min(self.cpus)
    }

    /// Share of the processors' time that is used.
    pub(crate) fn share_busy(&self) -> f64 {
        (self.cpus_used() / self.cpus).min(1.0)
    }

    /// How long a thread was there, nanoseconds; 0 of one that was not seen.
    pub(crate) fn life(&self, id: ThreadId) -> f64 {
        self.threads.get(&id).map_or(0.0, |th| th.life_ns() as f64)
    }

    /// How long a process was there, nanoseconds.
    pub(crate) fn life_of(&self, id: ProcessId) -> f64 {
        let process = self.process_at(id);
        process.map_or(self.wall, |of| (of.wall_ns as f64).min(self.wall))
    }

    /// Sum of the lives of these threads, nanoseconds.
    pub(crate) fn lives<'t>(&self, threads: impl IntoIterator<Item = &'t ThreadId>) -> f64 {
        threads.into_iter().map(|&id| self.life(id)).sum()
    }

    /// CPU time that neither the program nor anybody else used, nanoseconds.
    pub(crate) fn spare(&self) -> f64 {
        let used = self.cpus_used() * self.wall + self.model.meta.others_ns as f64;
        (self.cpus * self.wall - used).max(0.0)
    }

    /// CPUs that other programs have on average.
    pub(crate) fn others_cpus(&self) -> f64 {
        (self.model.meta.others_ns as f64 / self.wall).min(self.cpus)
    }

    /// CPUs that other programs leave, on average; not less than the program had.
    pub(crate) fn cpus_left(&self) -> f64 {
        (self.cpus - self.others_cpus()).max(self.cpus_used())
    }

    /// Who made a process, if it runs the same program.
    pub(crate) fn maker(&self, id: ProcessId) -> Option<ProcessId> {
        let process = self.process_at(id)?;
        let mut others = (0..).map(ProcessId).zip(&self.model.processes);
        let maker =
            others.find(|(_, of)| of.pid == process.ppid && of.program() == process.program());
        maker.map(|(id, _)| id)
    }

    /// Programs of Go whose goroutines were looked at often enough.
    pub(crate) fn go_programs(&self) -> impl Iterator<Item = &'a GoProgram> {
        let programs = self.sched.goroutines.iter();
        programs.filter(|program| program.looks >= LOOKS)
    }

    pub(crate) fn thread(&self, id: ThreadId) -> Option<&'a Thread> {
        self.model.threads.get(id.0 as usize)
    }

    pub(crate) fn group(&self, id: ThreadId) -> GroupId {
        self.thread(id).map(|th| th.group).unwrap_or_default()
    }

    pub(crate) fn process(&self, id: ThreadId) -> ProcessId {
        self.thread(id).map(|th| th.process).unwrap_or_default()
    }

    /// What is known of a process; `None` of an id of another model.
    pub(crate) fn process_at(&self, id: ProcessId) -> Option<&'a Process> {
        self.model.processes.get(id.0 as usize)
    }

    /// Whether processes run different programs' code.
    pub(crate) fn run_other_code(&self, one: ProcessId, other: ProcessId) -> bool {
        let both = self.process_at(one).zip(self.process_at(other));
        both.is_some_and(|(one, other)| one.runs_other_code(other))
    }

    /// The process that a group is of.
    pub(crate) fn process_of(&self, group: GroupId) -> Option<&'a Process> {
        let group = self.model.groups.get(group.0 as usize)?;
        self.process_at(group.process)
    }

    /// What a thread does: its group, or one that stands for all threads that share its tasks.
    pub(crate) fn role(&self, id: ThreadId) -> GroupId {
        self.roles.role(self.group(id))
    }

    /// Whether the thread is of a process that only starts the others.
    pub(crate) fn is_helper(&self, id: ThreadId) -> bool {
        self.roles.is_helper(self.process(id))
    }

    /// The name of a role; with that of its process where several are recorded.
    pub(crate) fn group_name(&self, id: GroupId) -> String {
        let Some(group) = self.model.groups.get(id.0 as usize) else {
            return format!("group {}", id.0);
        };
        let name = match group.name.as_str() {
            "" => format!("group {}", id.0),
            _ if self.roles.is_go(id) => "a goroutine".into(),
            "main" => "the main thread".into(),
            name => name.to_owned(),
        };
        match self.process_at(group.process) {
            Some(process) if self.model.processes.len() > 1 => {
                format!("{name} of {} ({})", process.title(), process.pid)
            }
            _ => name,
        }
    }

    /// Threads of a role that were seen.
    pub(crate) fn members(&self, group: GroupId) -> Vec<&'a SchedThread> {
        let of = |th: &&&SchedThread| self.role(th.thread) == group;
        self.threads.values().filter(of).copied().collect()
    }

    /// Share of the processors' time that other programs had; 0 if not known.
    pub(crate) fn others_share(&self) -> f64 {
        let meta = &self.model.meta;
        let run = meta.end_ns.saturating_sub(meta.start_ns) as f64;
        let machine = run * f64::from(meta.machine.cpus_online.max(1));
        (meta.others_ns as f64 / machine.max(1.0)).min(1.0)
    }

    /// Threads of a process that were seen.
    pub(crate) fn of_process(&self, id: ProcessId) -> impl Iterator<Item = &'a SchedThread> + '_ {
        let threads = self.threads.values().copied();
        threads.filter(move |th| self.process(th.thread) == id)
    }

    /// CPU time of a process, nanoseconds.
    pub(crate) fn ran(&self, id: ProcessId) -> f64 {
        self.of_process(id).map(|th| th.running_ns as f64).sum()
    }

    /// Roles with threads that were seen.
    pub(crate) fn groups(&self) -> BTreeSet<GroupId> {
        self.threads.keys().map(|&id| self.role(id)).collect()
    }

    pub(crate) fn shown(&self, site: SiteId) -> Option<&'a SiteFrame> {
        let site = self.model.site(site)?;
        site.shown_frame()
    }

    /// Where a site is, for people.
    pub(crate) fn place(&self, site: Option<SiteId>) -> String {
        let frame = site.and_then(|site| self.shown(site));
        match frame {
            Some(f) if f.is_unnamed_generated() => "generated code without a name".into(),
            Some(f) => f.label(),
            None => "an unknown place".into(),
        }
    }

    /// What a thread waits for in an interval of the timeline, if it does.
    pub(crate) fn waits(&self, doing: &Doing) -> Option<&'a OffCpu> {
        match doing {
            Doing::Waiting(Some(ix)) => self.sched.off(OffId(*ix)),
            _ => None,
        }
    }

    pub(crate) fn object_kind(&self, id: Option<ObjectId>) -> Option<ObjectKind> {
        let object = self.model.objects.get(id?.0 as usize)?;
        Some(object.kind)
    }

    pub(crate) fn object_name(&self, id: ObjectId) -> Option<&'a str> {
        let object = self.model.objects.get(id.0 as usize)?;
        (!object.name.is_empty()).then_some(object.name.as_str())
    }

    pub(crate) fn file_name(&self, id: Option<NameId>) -> Option<&'a str> {
        self.sched.name(id?).filter(|name| !name.is_empty())
    }
}

/// What epoll waits at.
const ANY_EVENT: &str = "[eventpoll]";

/// Whether a thread in the loop of a server waits for work. If it holds a lock meanwhile, nobody knows whether those who
/// wait for the lock would have any (Redis parks its I/O threads so).
pub(crate) fn is_any_event(sched: &Sched, off: &OffCpu) -> bool {
    off.reason == OffReason::Poll
        && off
            .name
            .and_then(|id| sched.name(id))
            .is_some_and(|name| name.ends_with(ANY_EVENT))
}

/// Waits for files and disks: work of a kind, and never idle.
pub(crate) fn is_file_io(reason: OffReason) -> bool {
    matches!(
        reason,
        OffReason::File | OffReason::Sync | OffReason::Disk | OffReason::AsyncIo
    )
}

/// Threads that did real work, CPU work or files: a twentieth of what the busiest did, as much as those that did most of
/// it together (of thousands of threads each does little), or half of their (not too short) lives.
fn workers(
    sched: &Sched,
    t: &Params,
    wall: f64,
    helps: impl Fn(ThreadId) -> bool,
) -> BTreeSet<ThreadId> {
    let mut files: BTreeMap<ThreadId, f64> = BTreeMap::new();
    for off in sched.offs.iter().filter(|off| is_file_io(off.reason)) {
        *files.entry(off.thread).or_default() += off.sum_ns as f64;
    }
    let work =
        |th: &SchedThread| th.working_ns() as f64 + files.get(&th.thread).copied().unwrap_or(0.0);
    let mut longest: BTreeMap<ThreadId, f64> = BTreeMap::new();
    for off in &sched.offs {
        let longest = longest.entry(off.thread).or_default();
        *longest = longest.max(off.max_ns as f64);
    }
    let own = || sched.threads.iter().filter(|th| !helps(th.thread));
    let most = own().map(work).fold(0.0, f64::max);
    let enough = (t.worker_ratio * most).min(least_of_most(own().map(work).collect()));
    let is_worker = |th: &&SchedThread| {
        let short_lived = work(th) >= BUSY * th.life_ns() as f64 && work(th) >= SHORT * wall;
        let longest = longest.get(&th.thread).copied().unwrap_or(0.0);
        let joins = longest >= JOINS.0 * th.life_ns() as f64 && work(th) < JOINS.1 * most;
        work(th) > 0.0 && !joins && (work(th) >= enough || short_lived)
    };
    own().filter(is_worker).map(|th| th.thread).collect()
}

/// What the least of those threads did that, taken from the busiest on, did most of the work.
fn least_of_most(mut work: Vec<f64>) -> f64 {
    work.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut left = MOST_OF_IT * work.iter().sum::<f64>();
    let least = work.into_iter().find(|work| {
        left -= work;
        left <= 0.0
    });
    least.unwrap_or(f64::INFINITY)
}

/// The most workers that were alive together for long enough to speak of.
fn at_once(sched: &Sched, workers: &BTreeSet<ThreadId>, wall: f64) -> usize {
    let mut edges: Vec<(u64, bool)> = sched
        .threads
        .iter()
        .filter(|th| workers.contains(&th.thread))
        .flat_map(|th| [(th.start_ns, true), (th.end_ns.max(th.start_ns), false)])
        .collect();
    // Ends first: one that begins when another ends was not there beside it.
    edges.sort_unstable();
    let mut time: BTreeMap<usize, f64> = BTreeMap::new();
    let (mut now, mut since) = (0usize, 0u64);
    for (at, begins) in edges {
        *time.entry(now).or_default() += at.saturating_sub(since) as f64;
        now = if begins {
            now + 1
        } else {
            now.saturating_sub(1)
        };
        since = at;
    }
    let mut together = 0.0;
    for (&n, ns) in time.iter().rev() {
        together += if n > 0 { *ns } else { 0.0 };
        if together >= AT_ONCE * wall {
            return n;
        }
    }
    usize::from(!workers.is_empty())
}
