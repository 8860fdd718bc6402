//! The tables behind the findings. Ids point into the model that was analysed; all times are
//! nanoseconds, all shares 0..1 unless said otherwise.
//!
//! *Low parallelism*: fewer threads at work than [`Parallelism::low_below`]. Time with no thread at work is
//! not low parallelism but idle time: no code ran then, only waits can explain it.

use convoy_model::finding::Finding;
use convoy_model::{
    CodeFrom, GroupId, LoopId, NameId, ObjectId, OffReason, ProcessId, SchedSource, SiteId,
    SpinKind, ThreadId, Waker,
};

/// What [`crate::scheduler::analyze`] returns: everything a report needs. All empty without scheduler events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// One sentence for the head of the report, also when nothing is wrong; empty without scheduler events.
    pub verdict: String,
    /// What is worth a person's time, most gain first.
    pub findings: Vec<Finding>,
    /// Looked at and not worth it. Same order.
    pub dismissed: Vec<Finding>,
    /// How parallel the recording was, all processes together.
    pub parallelism: Parallelism,
    /// The run in pieces.
    pub timeline: Vec<Moment>,
    /// Threads, most CMetric first.
    pub threads: Vec<ThreadRow>,
    /// Groups, most CMetric first.
    pub groups: Vec<GroupRow>,
    /// Call paths that ran while parallelism was low, most CMetric first; at most `Params::top`.
    pub paths: Vec<PathRow>,
    /// Time off the processors by reason, most first.
    pub reasons: Vec<ReasonRow>,
    /// Time off the processors by process, reason, object, file and call path; most of it under low
    /// parallelism first, waits of threads without work last; at most `Params::top`.
    pub waits: Vec<WaitRow>,
    /// Who ended waits, longest waits first; at most `Params::top`.
    pub edges: Vec<EdgeRow>,
    /// Loops that wait on the processor, most CPU time first.
    pub loops: Vec<LoopRow>,
    /// How far the data can be trusted.
    pub quality: Quality,
}

/// How long so many threads were active, working or running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Threads: exact below 32, from there the least of an eighth of an octave.
    pub threads: usize,
    /// Time with at least so many active.
    pub active_ns: u64,
    /// ... working.
    pub working_ns: u64,
    /// ... on a processor.
    pub running_ns: u64,
}

/// How parallel the recording was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parallelism {
    /// First to last event.
    pub wall_ns: u64,
    /// Threads seen.
    pub threads: usize,
    /// Of these, threads that did real work (docs/critical.md).
    pub workers: usize,
    /// Most of those that were there at one time (for at least 1 % of the run).
    pub workers_at_once: usize,
    /// CPUs that the program was allowed to use, 0 = unknown.
    pub cpus: u32,
    /// The most threads that could have worked at once: `workers_at_once`, but not more than CPUs.
    pub useful: f64,
    /// The N_min in effect: given, or half of `workers_at_once`.
    pub n_min: f64,
    /// Parallelism is low while fewer threads than this work: `n_min`, at least 1.5 and at most `useful`.
    pub low_below: f64,
    /// Time by number of threads, index 0 = none; ordered, without gaps up to the highest.
    pub levels: Vec<Level>,
    /// Mean number of active threads over the run.
    pub active_mean: f64,
    /// ... of working threads.
    pub working_mean: f64,
    /// ... of threads on a processor: CPUs in use.
    pub running_mean: f64,
    /// Time with no active thread.
    pub idle_ns: u64,
    /// Time with at least one but fewer than `low_below` active threads.
    pub low_active_ns: u64,
    /// The same of working threads: this is what findings are about.
    pub low_ns: u64,
    /// Time with active threads of which none worked: all waited in loops.
    pub only_spinning_ns: u64,
}

impl Parallelism {
    /// Time with no thread at work, nanoseconds.
    #[must_use]
    pub const fn none_ns(&self) -> u64 {
        self.idle_ns.saturating_add(self.only_spinning_ns)
    }
}

/// A piece of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Begin, since the first event.
    pub from_ns: u64,
    /// Length.
    pub width_ns: u64,
    /// Mean number of active threads.
    pub active: f64,
    /// ... of working threads.
    pub working: f64,
    /// ... of threads on a processor.
    pub running: f64,
    /// Share of it with no active thread.
    pub idle: f64,
    /// Whose activity had most CMetric in it.
    pub thread: Option<ThreadId>,
    /// And where.
    pub site: Option<SiteId>,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadRow {
    /// The thread.
    pub thread: ThreadId,
    /// Its group.
    pub group: GroupId,
    /// First to last seen.
    pub life_ns: u64,
    /// CMetric.
    pub cm_ns: f64,
    /// CMetric with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// `cm_ns` over the time with at least one active thread.
    pub share: f64,
    /// On a processor.
    pub running_ns: u64,
    /// Woken, and waiting for a processor.
    pub delayed_ns: u64,
    /// Taken off a processor while it could have gone on.
    pub preempted_ns: u64,
    /// Of `running_ns`, in loops that wait.
    pub spinning_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
    /// It did real work.
    pub worker: bool,
}

/// A thread group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupRow {
    /// The group.
    pub group: GroupId,
    /// Its threads that were seen.
    pub threads: usize,
    /// Sum of their lives.
    pub life_ns: u64,
    /// CMetric.
    pub cm_ns: f64,
    /// CMetric with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// `cm_ns` over the time with at least one active thread.
    pub share: f64,
    /// On a processor.
    pub running_ns: u64,
    /// Woken, and waiting for a processor.
    pub delayed_ns: u64,
    /// Taken off a processor while it could have gone on.
    pub preempted_ns: u64,
    /// Of `running_ns`, in loops that wait.
    pub spinning_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
    /// Least and most working time of one thread.
    pub thread_working_min_ns: u64,
    /// See `thread_working_min_ns`.
    pub thread_working_max_ns: u64,
    /// Groups that ended its waits: (group, waits, nanoseconds), longest first. Its own may be among them.
    pub woken_by: Vec<(GroupId, u64, u64)>,
}

/// A call path that ran while parallelism was low: stacks that go through the same functions, whatever
/// their lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathRow {
    /// The process.
    pub process: ProcessId,
    /// The call stack that had most of it; `None` = the code is not known. Its frames from
    /// `Site::shown` on are the path.
    pub site: Option<SiteId>,
    /// How most of it is known.
    pub from: CodeFrom,
    /// Samples, or slices for those without.
    pub n: u64,
    /// Active time at any parallelism.
    pub active_ns: u64,
    /// Of it, on a processor.
    pub running_ns: u64,
    /// CMetric at any parallelism.
    pub cm_ns: f64,
    /// CMetric with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// Thread time at work while parallelism was low.
    pub low_active_ns: f64,
    /// CMetric (working) while parallelism was low: its part of [`Parallelism::low_ns`].
    pub low_cm_ns: f64,
    /// `low_cm_ns` over the run.
    pub share: f64,
    /// Threads that were there.
    pub threads: usize,
    /// The group that was there most.
    pub group: GroupId,
    /// Functions in which samples were found, most time first.
    pub functions: Vec<FunctionRow>,
}

/// A function of a call path, as in figure 7 of the paper.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FunctionRow {
    /// Demangled name; empty = unknown.
    pub function: String,
    /// File name of the module.
    pub module: String,
    /// Samples, or slices.
    pub n: u64,
    /// CMetric (working) while parallelism was low.
    pub low_cm_ns: f64,
    /// Lines, most CMetric first.
    pub lines: Vec<LineRow>,
}

/// A line of a function.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineRow {
    /// Source file as in the debug information, may be empty.
    pub file: String,
    /// Line, 0 = unknown.
    pub line: u32,
    /// Samples, or slices.
    pub n: u64,
    /// CMetric (working) while parallelism was low.
    pub low_cm_ns: f64,
    /// How it is known: "from stack top" is where the thread blocked, not where it worked.
    pub from: CodeFrom,
}

/// Time off the processors for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReasonRow {
    /// Why.
    pub reason: OffReason,
    /// Times.
    pub n: u64,
    /// Sum over threads.
    pub sum_ns: u64,
    /// Of `sum_ns`, while parallelism was low or no thread worked.
    pub low_ns: f64,
    /// Threads.
    pub threads: usize,
}

/// Waits for one thing on one call path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitRow {
    /// The process.
    pub process: ProcessId,
    /// Why.
    pub reason: OffReason,
    /// System call number, -1 = none.
    pub nr: i16,
    /// The call stack that waited most of those on this path; `None` = unknown.
    pub site: Option<SiteId>,
    /// The lock, condition variable, barrier, ... waited for.
    pub object: Option<ObjectId>,
    /// Futex word where it is always the same one, else 0.
    pub address: u64,
    /// File, pipe or socket.
    pub name: Option<NameId>,
    /// The kernel's call stack of the longest part, outermost last; empty where not taken.
    pub kernel_stack: Vec<String>,
    /// The group that waited most.
    pub group: GroupId,
    /// Threads that waited.
    pub threads: usize,
    /// Times.
    pub n: u64,
    /// Sum over threads.
    pub sum_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Of `sum_ns`, cut short by the end of the recording.
    pub unfinished_ns: u64,
    /// Of `sum_ns`, while parallelism was low or no thread worked.
    pub low_ns: f64,
    /// Of `sum_ns`, while no thread was active.
    pub idle_ns: u64,
    /// Wall time in which a thread was in such a wait while parallelism was low or no thread worked: at most.
    /// Several threads may wait at once, so it is the longest sum of one thread, or `low_ns` if only one waited.
    pub critical_ns: f64,
}

/// Waits at one place that one kind of waker ended at one place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EdgeRow {
    /// The waiter's process.
    pub process: ProcessId,
    /// The waiter's group.
    pub group: GroupId,
    /// Where it waited.
    pub site: Option<SiteId>,
    /// Why.
    pub reason: OffReason,
    /// What for.
    pub object: Option<ObjectId>,
    /// Who ended it; of several threads of one group that one that ended most.
    pub waker: Waker,
    /// Its group, for a thread of the recording.
    pub waker_group: Option<GroupId>,
    /// Waits.
    pub n: u64,
    /// Their sum.
    pub wait_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Of `wait_ns`, while parallelism was low or no thread worked: in proportion to the waits at that place.
    pub low_ns: f64,
    /// Of `wait_ns`, the waker was on a processor.
    pub waker_running_ns: u64,
    /// ... was active without a processor.
    pub waker_delayed_ns: u64,
    /// ... was off the processors.
    pub waker_off_ns: u64,
    /// What the waker itself waited for meanwhile, and so on: each link waited for the next one. At most
    /// four; each is the longest wait of the one before.
    pub chain: Vec<Link>,
}

/// A wait of somebody that others waited for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Link {
    /// Who waited.
    pub thread: ThreadId,
    /// Where.
    pub site: Option<SiteId>,
    /// Why.
    pub reason: OffReason,
    /// What for.
    pub object: Option<ObjectId>,
    /// File, pipe or socket.
    pub name: Option<NameId>,
    /// Share of the wait before it that it explains.
    pub share: f64,
}

/// A loop that waits on the processor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopRow {
    /// The loop, in `Sched::loops`.
    pub spin: LoopId,
    /// The process.
    pub process: ProcessId,
    /// What makes it a waiting loop.
    pub kind: SpinKind,
    /// A call stack in it, that with most time; `None` = unknown.
    pub site: Option<SiteId>,
    /// The group that waits in it most.
    pub group: GroupId,
    /// Threads that waited in it.
    pub threads: usize,
    /// Samples.
    pub samples: u64,
    /// CPU time burnt.
    pub running_ns: u64,
    /// Of all CPU time of the recording.
    pub share: f64,
    /// Active time in it.
    pub active_ns: u64,
    /// CMetric that it would have if it were work.
    pub cm_ns: f64,
    /// The call paths that worked while few did: those that it waits for, most likely first. Indices into
    /// [`Analysis::paths`].
    pub waits_for: Vec<usize>,
}

/// How far the data can be trusted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quality {
    /// Where the events came from.
    pub source: SchedSource,
    /// Events taken into account.
    pub events: u64,
    /// Events lost.
    pub lost_events: u64,
    /// Time in which they were lost.
    pub lost_ns: u64,
    /// Stacks lost (their waits have an older stack of the same place, or none).
    pub lost_stacks: u64,
    /// Events that contradict what was known.
    pub contradictions: u64,
    /// Rows whose indices led nowhere.
    pub dropped_rows: u64,
    /// Period of the samples; 0 = none were taken: all code is "from stack top".
    pub sample_period_ns: u64,
    /// CMetric by how its code is known: by samples, from stack top, unknown. Shares.
    pub code_from: [f64; 3],
    /// Sum of the threads' CMetric over the time with at least one active thread: 1 if all is well.
    pub cm_check: f64,
    /// What a reader must know, in sentences.
    pub remarks: Vec<String>,
}
