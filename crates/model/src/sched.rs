//! What the scheduler said of threads and code: activity, time off the processors, wakers, waiting loops.
//!
//! The words are those of [`convoy_profile::Sched`]; here its rows point into the model. All times are
//! nanoseconds.

pub use convoy_profile::{
    bucket, bucket_floor, Bin, ByThreads, CodeFrom, Lost, OffReason, SchedSource, SpinKind,
};

use crate::{GoProgram, ObjectId, ProcessId, SharedLines, SiteFrame, SiteId, ThreadId, Timeline};

/// Index into [`Sched::loops`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopId(pub u32);
/// Index into [`Sched::names`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);
/// Index into [`Sched::offs`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OffId(pub u32);

/// Everything that was learnt from context switches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sched {
    /// Where the events came from.
    pub source: SchedSource,
    /// First event taken into account, monotonic.
    pub start_ns: u64,
    /// Last one, or the end of the recording.
    pub end_ns: u64,
    /// Events taken into account.
    pub events: u64,
    /// Period of the instruction pointer samples, CPU time. 0 = none were taken.
    pub sample_period_ns: u64,
    /// Time with so many active threads, by [`bucket`]: index 0 = none.
    pub active: Vec<u64>,
    /// The same for working threads.
    pub working: Vec<u64>,
    /// The same for threads on a processor.
    pub running: Vec<u64>,
    /// Length of a piece of the run. The first one begins at [`Sched::start_ns`].
    pub bin_width_ns: u64,
    /// The run in pieces of equal length. [`Bin::top`] is an index into [`Sched::slices`].
    pub bins: Vec<Bin>,
    /// One per thread seen.
    pub threads: Vec<SchedThread>,
    /// Activity by thread and code.
    pub slices: Vec<Slice>,
    /// Time off the processors by thread, code and reason.
    pub offs: Vec<OffCpu>,
    /// What ended those waits.
    pub wakes: Vec<Wake>,
    /// Loops in which threads wait without giving up the processor.
    pub loops: Vec<SpinLoop>,
    /// Files, pipes and sockets.
    pub names: Vec<String>,
    /// Events that were lost, and when.
    pub lost: Vec<Lost>,
    /// Events that contradict what was known of their thread.
    pub contradictions: u64,
    /// Rows left out because their indices led nowhere.
    pub dropped_rows: u64,
    /// What every thread did when; `None` = not kept.
    pub timeline: Option<Timeline>,
    /// Cache lines that several threads use; `None` = nobody looked.
    pub lines: Option<SharedLines>,
    /// Samples in calls that read or write files.
    pub writes: Vec<CallSamples>,
    /// What goroutines waited for, by process.
    pub goroutines: Vec<GoProgram>,
}

/// Samples of one thread at one place in read(), write() or pwrite64() of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSamples {
    /// Who.
    pub thread: ThreadId,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// To what.
    pub name: Option<NameId>,
    /// How much the call was to read or write: bits of the number of bytes.
    pub size_class: u8,
    /// Whether it reads.
    pub reads: bool,
    /// Samples.
    pub n: u64,
}

impl Sched {
    /// Length of what was seen.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// A row by its id.
    pub fn off(&self, id: OffId) -> Option<&OffCpu> {
        self.offs.get(id.0 as usize)
    }

    /// Waits that a thread of the recording ended, with their rows: who did, and where it was.
    pub fn ended_by_threads(
        &self,
    ) -> impl Iterator<Item = (&Wake, &OffCpu, ThreadId, Option<SiteId>)> {
        self.wakes.iter().filter_map(|wake| match wake.waker {
            Waker::Thread(id, site) => Some((wake, self.off(wake.off)?, id, site)),
            _ => None,
        })
    }

    /// The name of a file, pipe or socket.
    pub fn name(&self, id: NameId) -> Option<&str> {
        self.names.get(id.0 as usize).map(String::as_str)
    }
}

/// A thread as the scheduler saw it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedThread {
    /// Which.
    pub thread: ThreadId,
    /// First seen, monotonic.
    pub start_ns: u64,
    /// Last seen.
    pub end_ns: u64,
    /// On a processor.
    pub running_ns: u64,
    /// Woken, and waiting for a processor.
    pub delayed_ns: u64,
    /// Taken off a processor while it could have gone on.
    pub preempted_ns: u64,
    /// Of `running_ns`, in a loop that waits; of threads with slices shorter than the sampling period by their samples.
    pub spinning_ns: u64,
    /// Off the processors, blocked.
    pub blocked_ns: u64,
    /// CMetric.
    pub cm_ns: f64,
    /// The same with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// Times that it became active.
    pub slices: u64,
    /// Times that it was taken off a processor.
    pub preemptions: u64,
}

impl SchedThread {
    /// First to last seen.
    pub fn life_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// On a processor or waiting for one.
    pub fn active_ns(&self) -> u64 {
        self.running_ns
            .saturating_add(self.delayed_ns)
            .saturating_add(self.preempted_ns)
    }

    /// On a processor, and not waiting in a loop.
    pub fn cpu_work_ns(&self) -> u64 {
        self.running_ns.saturating_sub(self.spinning_ns)
    }

    /// Active, and not waiting in a loop.
    pub fn working_ns(&self) -> u64 {
        self.active_ns().saturating_sub(self.spinning_ns)
    }
}

/// Activity of one thread in one piece of code.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slice {
    /// Who.
    pub thread: ThreadId,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// How that is known.
    pub from: CodeFrom,
    /// The loop in which it waits, if that is what it does here.
    pub spin: Option<LoopId>,
    /// Samples, or slices for those without.
    pub n: u64,
    /// Of them, in the kernel, which the thread had not called: in page faults (interrupts are few).
    pub faults: u64,
    /// Active time.
    pub active_ns: u64,
    /// Of it, on a processor.
    pub running_ns: u64,
    /// CMetric.
    pub cm_ns: f64,
    /// CMetric with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// `active_ns` by the number of active threads meanwhile, this one included: by [`bucket`].
    pub by_active: ByThreads,
    /// `active_ns` of working pieces by the number of working threads.
    pub by_working: ByThreads,
}

/// Time that one thread spent off the processors at one place for one reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OffCpu {
    /// Who.
    pub thread: ThreadId,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// The kernel's side of it, outermost last; empty where not taken.
    pub kernel_stack: Vec<String>,
    /// Why.
    pub reason: OffReason,
    /// System call number, -1 = none.
    pub nr: i16,
    /// Futex: address of the word, 0 = none.
    pub address: u64,
    /// The lock, condition variable, barrier, ... that the futex word is part of.
    pub object: Option<ObjectId>,
    /// File, pipe or socket.
    pub name: Option<NameId>,
    /// Times.
    pub n: u64,
    /// Sum; what was unfinished at the end of the recording included.
    pub sum_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Of `sum_ns`, cut short by the end of the recording.
    pub unfinished_ns: u64,
    /// `sum_ns` by the number of threads active meanwhile: by [`bucket`].
    pub by_active: ByThreads,
    /// The same by working threads.
    pub by_working: ByThreads,
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// The kernel did not say.
    #[default]
    Unknown,
    /// A timer, a disk, a network card: an interrupt, or a kernel thread.
    Interrupt,
    /// A thread of the recording, and where it was, if known.
    Thread(ThreadId, Option<SiteId>),
    /// A thread of a process that is not recorded: its tid.
    Outside(u32),
}

/// Waits of one kind that one waker ended at one place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wake {
    /// The waits.
    pub off: OffId,
    /// Who, and where it was.
    pub waker: Waker,
    /// Waits.
    pub n: u64,
    /// Their sum.
    pub wait_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Of `wait_ns`, the waker was on a processor.
    pub waker_running_ns: u64,
    /// ... was active without a processor.
    pub waker_delayed_ns: u64,
    /// ... was itself off the processors: where and why, most first.
    pub waker_off: Vec<(OffId, u64)>,
}

/// A loop in which threads wait on the processor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpinLoop {
    /// The process that has it.
    pub process: ProcessId,
    /// An instruction of it, inlined functions expanded, innermost first. Empty = unknown.
    pub frames: Vec<SiteFrame>,
    /// Index into `frames` of the one to show.
    pub shown: usize,
    /// First and last instruction, in the module's numbering; equal where only a function is known.
    pub lo: u64,
    /// See `lo`.
    pub hi: u64,
    /// What makes it a waiting loop.
    pub kind: SpinKind,
    /// Evidence for people: its instructions, or the function that is known.
    pub evidence: String,
    /// Samples in it.
    pub samples: u64,
}
