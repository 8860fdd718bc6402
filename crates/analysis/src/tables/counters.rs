//! The tables behind the findings. Ids point into the model that was analysed; all times are
//! nanoseconds, all ratios 0..1 unless said otherwise.

use convoy_model::finding::Evidence;
use convoy_model::{GroupId, ObjectId, ProcessId, SiteFrame, SiteId, Sources};

/// What [`crate::counters::analyze`] returns: everything a report needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// One sentence for the head of the report, also when nothing is wrong.
    pub verdict: String,
    /// The run was too short to judge.
    pub is_too_short: bool,
    /// What the recording was made from.
    pub sources: Sources,
    /// Time that none of the sources explains, most telling first: what is a reason to look further.
    pub unexplained: Vec<Evidence>,
    /// What is worth a person's time, most gain first, over all processes.
    pub findings: Vec<convoy_model::finding::Finding>,
    /// Looked at and not worth it: too little to gain. Same order.
    pub dismissed: Vec<convoy_model::finding::Finding>,
    /// One per process that had threads, in the model's order.
    pub parallelism: Vec<Parallelism>,
    /// One per lock (anything that is acquired and released), most waited for first.
    pub locks: Vec<LockRow>,
    /// One per (process, acquire site): all locks that are taken there together. Most waited first.
    pub sites: Vec<SiteRow>,
    /// Locks that are taken at the same sites, two or more. Most waited first.
    pub families: Vec<FamilyRow>,
    /// One per object that threads wait at for an event: condition variables, semaphores,
    /// barriers, joins, OpenMP regions. Most waited first.
    pub events: Vec<EventRow>,
    /// One per thread group, by process, most CPU time first.
    pub groups: Vec<GroupRow>,
    /// Best distributions of threads over linked groups. Empty if no groups are linked.
    pub assignments: Vec<Assignment>,
}

/// How parallel a process was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parallelism {
    /// The process.
    pub process: ProcessId,
    /// First start to last end of its threads.
    pub wall_ns: u64,
    /// Threads that ran.
    pub threads: usize,
    /// Most threads alive at once.
    pub threads_max: usize,
    /// CPUs that it was allowed to use, 0 = unknown.
    pub cpus: u32,
    /// CPU time of all its threads.
    pub cpu_ns: u64,
    /// Mean CPUs in use: CPU time / wall.
    pub cpus_busy: f64,
    /// `cpus_busy` / `cpus`; 0 if unknown.
    pub cpu_ratio: f64,
    /// Sum of the life spans of its threads.
    pub thread_time_ns: u64,
    /// Time runnable without a CPU, summed; `None` if the kernel did not say.
    pub run_delay_ns: Option<u64>,
    /// Waits for locks, summed over threads.
    pub lock_wait_ns: u64,
    /// Waits for events that somebody could have shortened (barriers, slow stages), summed.
    pub event_wait_ns: u64,
    /// Idle waits (empty queues, joins), summed.
    pub idle_wait_ns: u64,
    /// Neither on a CPU nor runnable nor in a wait that was seen: I/O, sleep, epoll. Summed.
    pub off_cpu_ns: u64,
}

/// Where a lock or site stands in SyncPerf's plane of frequency and contention rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quadrant {
    /// Few acquisitions, highly contended.
    Q1,
    /// Many acquisitions, highly contended.
    Q2,
    /// Few acquisitions, rarely contended: never a problem.
    #[default]
    Q3,
    /// Many acquisitions, rarely contended.
    Q4,
    /// The number of acquisitions is not observable (raw futex): only contended calls are seen.
    Unknown,
}

/// The numbers that a lock, a site and a family share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockStats {
    /// Acquisitions by blocking calls.
    pub acquisitions: u64,
    /// Of these, contended.
    pub contended: u64,
    /// `contended / acquisitions`; `None` if acquisitions are not observable.
    pub contention_ratio: Option<f64>,
    /// Acquisitions per second of observed run time, successful trylocks included.
    pub frequency_hz: f64,
    /// Sum of the waits.
    pub wait_ns: u64,
    /// Longest wait.
    pub wait_max_ns: u64,
    /// `hist[i]`: waits of [2^i, 2^(i+1)) ns.
    pub wait_hist: Vec<u64>,
    /// `wait_ns` over the life spans of the threads that used it: the third axis.
    pub waited_ratio: f64,
    /// Mean hold of timed contended acquisitions; `None` if none was timed.
    pub hold_contended_ns: Option<f64>,
    /// Mean hold of sampled uncontended acquisitions; `None` if none was sampled.
    pub hold_sampled_ns: Option<f64>,
    /// Longest hold seen.
    pub hold_max_ns: u64,
    /// Estimated sum of all holds.
    pub hold_total_ns: f64,
    /// Mean sampled cost of an uncontended acquire; `None` if none was sampled.
    pub acquire_ns: Option<f64>,
    /// Trylock calls.
    pub try_calls: u64,
    /// Failed ones.
    pub try_failed: u64,
    /// Time spent trying in vain.
    pub try_busy_ns: u64,
    /// Acquires that gave up.
    pub timeouts: u64,
    /// Threads that used it.
    pub threads: usize,
    /// Where it stands.
    pub quadrant: Quadrant,
    /// Some counts come from samples (see `Use::estimated`).
    pub estimated: bool,
}

impl LockStats {
    /// How often it was taken, by trying too.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.acquisitions + self.try_calls.saturating_sub(self.try_failed)
    }
}

/// A lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockRow {
    /// The lock.
    pub object: ObjectId,
    /// Its numbers.
    pub stats: LockStats,
    /// Where it was acquired, most waited first: (site, acquisitions, contended, wait in ns).
    pub sites: Vec<SiteShare>,
    /// Who waits for whom, most waited first.
    pub waits_for: Vec<WaitsFor>,
    /// Index into [`Analysis::families`] if other locks are taken at the same sites.
    pub family: Option<usize>,
}

/// Part of a lock's use that one site makes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteShare {
    /// The site.
    pub site: SiteId,
    /// Acquisitions there.
    pub acquisitions: u64,
    /// Of these, contended.
    pub contended: u64,
    /// Waits there.
    pub wait_ns: u64,
}

/// A waiting site and the site whose holders it waited for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitsFor {
    /// Where it was waited.
    pub waiter: SiteId,
    /// Where the holder had acquired (one frame, inlines expanded; empty = unknown).
    pub holder: Vec<SiteFrame>,
    /// Where holders released, the most frequent one; `None` = unknown.
    pub released_at: Option<SiteId>,
    /// Waits.
    pub waits: u64,
    /// Their sum.
    pub wait_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
    /// Of all waits on the object with a known pair.
    pub share: f64,
}

/// An acquire site with all its locks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteRow {
    /// The site.
    pub site: SiteId,
    /// Its numbers, over all locks taken there.
    pub stats: LockStats,
    /// Locks taken there.
    pub locks: usize,
    /// The one most waited for there.
    pub top_lock: ObjectId,
}

/// Locks that are taken at the same sites (one per bucket, row, connection, ...).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FamilyRow {
    /// Its locks, most waited for first.
    pub locks: Vec<ObjectId>,
    /// Their numbers together.
    pub stats: LockStats,
    /// The site that takes them most often.
    pub site: SiteId,
    /// Lowest, median and highest contention rate of the locks with enough acquisitions to tell.
    pub contention_min: f64,
    /// See `contention_min`.
    pub contention_median: f64,
    /// See `contention_min`.
    pub contention_max: f64,
    /// Locks with enough acquisitions to tell.
    pub judged: usize,
    /// Share of the acquisitions of the tenth of locks that are taken most often (at least one lock).
    pub top_tenth_acquisitions: f64,
    /// Share of the waits of that tenth.
    pub top_tenth_waits: f64,
    /// Highest contention rate is a multiple of the lowest, beyond chance, and it matters.
    pub asymmetric: bool,
}

/// What waits at an event object were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventClass {
    /// Nobody could have shortened them.
    #[default]
    Idle,
    /// Threads of one kind wait for the slowest of them.
    Straggler,
    /// The thread that should have woken them was short of capacity (a slow stage or producer).
    SlowPeer,
    /// The thread that should have woken them was itself delayed by a lock.
    DelayedPeer,
    /// A pool of tokens (semaphore) is too small: whoever waits also gives back.
    Pool,
    /// Who ended the waits, or what they were for, is not known.
    Unknown,
}

impl EventClass {
    /// As JSON and exports have it: stable.
    pub fn id(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Straggler => "straggler",
            Self::SlowPeer => "slow-peer",
            Self::DelayedPeer => "delayed-peer",
            Self::Pool => "pool",
            Self::Unknown => "unknown",
        }
    }
}

/// An object that is waited at for an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventRow {
    /// The object.
    pub object: ObjectId,
    /// Calls that wait.
    pub calls: u64,
    /// Calls that did wait.
    pub waits: u64,
    /// Sum of the waits.
    pub wait_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
    /// `hist[i]`: waits of [2^i, 2^(i+1)) ns.
    pub wait_hist: Vec<u64>,
    /// Waits that ended by timeout.
    pub timeouts: u64,
    /// Calls that wake (signal, broadcast, post, wake).
    pub wakes: u64,
    /// `wait_ns` over the life spans of the threads that waited.
    pub waited_ratio: f64,
    /// Threads that waited.
    pub threads: usize,
    /// What the waits were.
    pub class: EventClass,
    /// Why they were classed so, for people.
    pub why: String,
    /// Where it was waited, most waited first.
    pub sites: Vec<SiteShare>,
    /// Who ended the waits, most waited first.
    pub waits_for: Vec<WaitsFor>,
}

/// A thread group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupRow {
    /// The group.
    pub group: GroupId,
    /// Its threads.
    pub threads: usize,
    /// Sum of their life spans.
    pub life_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Runnable without a CPU; `None` if unknown.
    pub run_delay_ns: Option<u64>,
    /// Run time minus waits on synchronization (SyncPerf's compute time).
    pub compute_ns: u64,
    /// Work: CPU time and time off CPU outside of waits (I/O), without time spent spinning.
    pub busy_ns: u64,
    /// Waits for locks.
    pub lock_wait_ns: u64,
    /// Idle waits.
    pub idle_wait_ns: u64,
    /// Other waits for events.
    pub event_wait_ns: u64,
    /// Least and most `busy_ns` of one thread.
    pub thread_busy_min_ns: u64,
    /// See `thread_busy_min_ns`.
    pub thread_busy_max_ns: u64,
    /// The objects that it waited at longest: (object, wait in ns), at most five.
    pub top_waits: Vec<(ObjectId, u64)>,
    /// Groups that it wakes or is woken by.
    pub linked: Vec<GroupId>,
    /// `busy_ns / life_ns`: near 1 = this group is what the linked ones wait for.
    pub busy_ratio: f64,
}

/// How the threads of linked groups could be spread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// The process.
    pub process: ProcessId,
    /// The groups, in the order of the vectors below.
    pub groups: Vec<GroupId>,
    /// Threads now.
    pub now: Vec<u32>,
    /// In proportion to the total work of each group (SyncPerf section 3.2.3), not rounded.
    pub ideal: Vec<f64>,
    /// The options: the best one first, which may be the present one, then its integer neighbours without the present one.
    pub options: Vec<AssignmentOption>,
    /// What limits throughput at the best assignment, for people.
    pub limited_by: String,
}

/// One way to spread threads over groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AssignmentOption {
    /// Threads per group.
    pub threads: Vec<u32>,
    /// Predicted throughput over today's: 1.0 = no change.
    pub throughput: f64,
}
