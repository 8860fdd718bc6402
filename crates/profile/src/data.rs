//! What a profile holds: plain data, as recorded. Nothing here is interpreted.
//!
//! Indices (`ModuleIx` and so on) point into the vectors of the same [`Process`]. All times are
//! nanoseconds; points in time are on the machine's monotonic clock.

use serde::{Deserialize, Serialize};

use crate::{Experiments, LiveCurves, Sched, Sections, Trace};

/// Index into [`Process::modules`].
pub type ModuleIx = u32;
/// Index into [`Process::frames`].
pub type FrameIx = u32;
/// Index into [`Process::stacks`].
pub type StackIx = u32;
/// Index into [`Process::threads`].
pub type ThreadIx = u32;
/// Index into [`Process::objects`].
pub type ObjectIx = u32;

/// A whole recording: one command and every process that it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What ran, where and when.
    pub meta: Meta,
    /// One per process image that carried the agent or had scheduler events, in order of start.
    pub processes: Vec<Process>,
    /// What the kernel's scheduler said, of all processes together; `None` = nobody listened.
    pub sched: Option<Sched>,
    /// What traced critical sections touched; `None` = nobody looked into any.
    pub sections: Option<Sections>,
    /// Curves of a `convoy live` session that was kept; `None` = it is no session.
    pub live_curves: Option<LiveCurves>,
    /// Synchronization events in time order; `None` = nobody asked for them.
    pub trace: Option<Trace>,
    /// What experiments on the running program found; `None` = nobody made any.
    pub experiments: Option<Experiments>,
    /// Another run of the same command, which was slowed down to look into critical sections; it
    /// has no second run itself.
    pub second_run: Option<Box<Self>>,
}

/// What ran, where and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the convoy that recorded.
    pub convoy_version: String,
    /// Wall-clock time of the start, nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Command and arguments as given.
    pub command: Vec<String>,
    /// Working directory of the command.
    pub cwd: String,
    /// The command was released, monotonic.
    pub start_ns: u64,
    /// The command was seen to end (or the recording was stopped), monotonic.
    pub end_ns: u64,
    /// How the command ended.
    pub exit: Exit,
    /// The machine.
    pub machine: Machine,
    /// What could be collected, and what not and why.
    pub collectors: Vec<Collector>,
    /// One operation in this many was sampled for its stack, hold and cost; later ones of a thread with
    /// many, up to sixteen times more rarely.
    pub sample_period: u32,
    /// CPU time of the command and its waited-for children: user, system. Nanoseconds.
    pub cpu_user_ns: u64,
    /// See `cpu_user_ns`.
    pub cpu_sys_ns: u64,
    /// CPU time that the machine wanted and a hypervisor gave to others during the run, all processors
    /// together. Nanoseconds, in steps of a tick.
    pub stolen_ns: u64,
    /// CPU time that other programs had during the run, all processors together. Nanoseconds, in steps of a tick; 0 if not known.
    /// In a section of its own, which older files do not have.
    #[serde(skip)]
    pub others_ns: u64,
    /// What synchronization costs on this machine, as `convoy-replayer` measures it: `name=value` lines;
    /// empty = not measured. In a section of its own, which profiles without a trace do not have.
    #[serde(skip)]
    pub costs: String,
    /// Free remarks of the recorder that the report shows.
    pub notes: Vec<String>,
    /// What of the file could not be read, for people: whoever read it fills it in from the
    /// [warnings](crate::ReadWarning).
    #[serde(skip)]
    pub damage: Vec<String>,
}

/// The note of a recorder that looked at running processes until there was none.
pub const ALL_ENDED: &str = "all of the processes ended";

impl Meta {
    /// Whether what was recorded as it ran ended before the recording did.
    pub fn all_ended(&self) -> bool {
        self.exit == Exit::Running && self.notes.iter().any(|note| note == ALL_ENDED)
    }
}

/// How the command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// Not known: the recorder ended first.
    #[default]
    Unknown,
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It had not: it was recorded for a while as it ran.
    Running,
}

/// The machine that the program ran on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Architecture, as `uname -m`.
    pub arch: String,
    /// Processor model.
    pub cpu_model: String,
    /// Processors online.
    pub cpus_online: u32,
    /// Processors that the command was allowed to use (affinity mask and cgroup quota, rounded up).
    pub cpus_allowed: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// C library of the command, e.g. "glibc 2.36".
    pub libc: String,
    /// Measured here: nanoseconds of an uncontended lock and unlock of a mutex in a thread's own cache.
    pub mutex_pair_ns: f64,
}

/// One source of data, whether it worked or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// "agent", "kernel", ...
    pub name: String,
    /// Whether its data are in the profile.
    pub active: bool,
    /// What is missing without it, empty when active.
    pub lost: String,
    /// The command that would enable it, empty when active.
    pub enable: String,
}

/// One process image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Path of the executable.
    pub exe: String,
    /// Arguments, possibly cut.
    pub args: Vec<String>,
    /// Agent ready.
    pub start_ns: u64,
    /// End of the process image: own word, or when the recorder saw it gone or stopped looking.
    pub end_ns: u64,
    /// Whether `end_ns` is the process's own word (exit reached) or the recorder's.
    pub ended_cleanly: bool,
    /// Mapped files.
    pub modules: Vec<Module>,
    /// Code addresses.
    pub frames: Vec<Frame>,
    /// Where functions begin that have no name, by frame.
    pub starts: Vec<FunctionStart>,
    /// Call stacks, leaf first. Stack 0 is empty: unknown.
    pub stacks: Vec<Vec<FrameIx>>,
    /// Threads, in order of their records; 0 is the main thread.
    pub threads: Vec<Thread>,
    /// Everything that was waited for or counted.
    pub objects: Vec<Object>,
    /// Exact counts.
    pub counts: Vec<Count>,
    /// Counts of calls that are known per site and thread but not per object.
    pub unattributed: Vec<Unattributed>,
    /// Waits, holds and samples per call stack.
    pub details: Vec<Detail>,
    /// Who waited for whom.
    pub pairs: Vec<Pair>,
    /// What was lost: reason (stable kebab-case id), count. Only non-zero ones.
    pub drops: Vec<(String, u64)>,
    /// The agent's inline path for plain mutexes was in use.
    pub inline_mutex: bool,
    /// The process carried no agent: its threads are known from scheduler events alone, and its locks are not
    /// known at all.
    pub without_agent: bool,
    /// It has a socket at which connections arrive, its own or one of who made it: it serves others.
    pub listens: bool,
    /// The executable asks for what makes threads (`pthread_create`, OpenMP), or a library that ran for work in threads: the program
    /// can have more of them.
    pub makes_threads: bool,
}

/// A mapped file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Path as the program saw it.
    pub path: String,
    /// GNU build-id, may be empty.
    pub build_id: Vec<u8>,
    /// Load bias.
    pub bias: u64,
    /// First mapped address.
    pub lo: u64,
    /// One past the last mapped address.
    pub hi: u64,
    /// Has debug information that was found ("dwarf", "symtab", "dynsym", "none: reason").
    pub symbols: String,
}

/// A code address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Address at run time. A return address unless `exact`.
    pub pc: u64,
    /// The file it is in.
    pub module: Option<ModuleIx>,
    /// Address in the module's own numbering.
    pub offset: u64,
    /// `pc` is the instruction itself, not the one after a call.
    pub exact: bool,
    /// The frame above it could not be found: no unwind information here.
    pub no_rule: bool,
    /// Its names.
    pub symbol: Symbol,
}

/// Where a function begins, as unwind tables tell it: what tells it from others where its name was stripped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionStart {
    /// A frame inside of it.
    pub frame: FrameIx,
    /// Its first address, in the module's own numbering.
    pub address: u64,
}

/// The names of a code address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Symbol {
    /// Innermost inlined function first; never empty. The last one is the real function.
    Known(Vec<Location>),
    /// No name, and why.
    Unknown(Reason),
}

/// A function and, where known, its line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Demangled.
    pub function: String,
    /// Source file as in the debug information.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
}

/// Why an address has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Nobody looked yet.
    NotResolved,
    /// In no mapped file: generated code.
    NoModule,
    /// The file is gone or not readable.
    ModuleUnreadable,
    /// The file is there, but it is another build (build-ids differ).
    ModuleChanged,
    /// The file has no symbol that covers the address.
    NoSymbol,
    /// The file's symbols could not be read.
    BadSymbols,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Kernel thread id, 0 if it never ran.
    pub tid: u32,
    /// Thread that created it, 0 for the main thread.
    pub parent_tid: u32,
    /// Name at its end.
    pub name: String,
    /// Start routine as a frame, `None` for the main thread.
    pub start: Option<FrameIx>,
    /// Where it was created.
    pub create_stack: StackIx,
    /// Began to run, 0 = never.
    pub start_ns: u64,
    /// Ended; the process's end for a thread that lived on.
    pub end_ns: u64,
    /// CPU time, user and system.
    pub cpu_ns: u64,
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub sys_ns: u64,
    /// Runnable but not running; `None` where the kernel does not say.
    pub run_delay_ns: Option<u64>,
    /// Times it gave up the processor.
    pub voluntary_switches: u64,
    /// Times it was taken off the processor.
    pub involuntary_switches: u64,
    /// Whether the CPU figures are the thread's own at its end (or the process's), or the last poll's.
    pub cpu_exact: bool,
    /// Threads that shared this record one after another: more than 1 only past the agent's limit, 0 where only the
    /// kernel saw it.
    pub lives: u32,
    /// Stack mapping, 0 = unknown.
    pub stack_lo: u64,
    /// See `stack_lo`.
    pub stack_hi: u64,
}

/// Something that is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its address (of a joined thread: its `pthread_t`; of an OMP region: the outlined function).
    pub addr: u64,
    /// What it is.
    pub kind: ObjectKind,
    /// Where it was initialised; 0 = statically, or unknown.
    pub init_stack: StackIx,
    /// Initialisations seen at this address by this site.
    pub lives: u32,
    /// Destructions seen.
    pub destroyed: u32,
    /// Type and protocol bits of a mutex; count of a barrier.
    pub attr: u32,
    /// The module whose data hold it.
    pub module: Option<ModuleIx>,
    /// The variable that holds it: symbol and offset, e.g. "mem0+0x10".
    pub symbol: Option<String>,
    /// The memory that holds it.
    pub memory: Memory,
}

/// Kinds of objects.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[allow(missing_docs)]
pub enum ObjectKind {
    #[default]
    Unknown,
    Mutex,
    RwLock,
    Spin,
    Cond,
    Barrier,
    Sem,
    Thread,
    Once,
    Futex,
    OmpLock,
    OmpCritical,
    OmpBarrier,
    OmpRegion,
}

/// Where an object lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Not known.
    #[default]
    Unknown,
    /// Data of a module.
    Static,
    /// On the stack of this thread.
    Stack(ThreadIx),
    /// Elsewhere: heap or a mapping.
    Heap,
}

/// What was called. Mirrors `enum cv_op` of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Op {
    MutexLock,
    MutexTimedlock,
    RwlockRd,
    RwlockWr,
    RwlockTimedrd,
    RwlockTimedwr,
    SpinLock,
    OmpLock,
    OmpCritical,
    MutexTrylock,
    RwlockTryrd,
    RwlockTrywr,
    SpinTrylock,
    SemTrywait,
    OmpTrylock,
    CondWait,
    CondTimedwait,
    BarrierWait,
    SemWait,
    SemTimedwait,
    Join,
    Once,
    FutexWait,
    OmpBarrier,
    OmpRegion,
    CondSignal,
    CondBroadcast,
    SemPost,
    FutexWake,
}

/// Exact count of calls of one site on one object by one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The object.
    pub object: ObjectIx,
    /// The call site: one frame.
    pub frame: FrameIx,
    /// The thread.
    pub thread: ThreadIx,
    /// What was called.
    pub op: Op,
    /// Calls that were counted here. Blocking acquires: acquisitions.
    pub n: u64,
    /// Failed tries; timeouts; futex waits that found another value; signals and broadcasts that found nobody waiting.
    pub failed: u64,
    /// Sampled calls whose count is in [`Unattributed`]: weight for spreading that over objects.
    pub sampled: u64,
}

/// Calls of one site by one thread whose object was not counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unattributed {
    /// The call site.
    pub frame: FrameIx,
    /// The thread.
    pub thread: ThreadIx,
    /// What was called.
    pub op: Op,
    /// Calls.
    pub n: u64,
    /// Failed tries; timeouts; futex waits that found another value; signals and broadcasts that found nobody waiting.
    pub failed: u64,
}

/// Waits, holds and samples of one call stack on one object by one thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The object.
    pub object: ObjectIx,
    /// The call stack.
    pub stack: StackIx,
    /// The thread.
    pub thread: ThreadIx,
    /// What was called.
    pub op: Option<Op>,
    /// Calls drawn by the sampler, each counted as the number of sample periods that it stands for: a
    /// thread that has drawn some thousands draws more rarely.
    pub samples: u32,
    /// Uncontended samples with a timed acquire.
    pub acquire_n: u32,
    /// Their cost, cache transfer included.
    pub acquire_sum_ns: u64,
    /// Holds timed: all contended ones and the sampled ones.
    pub hold_n: u32,
    /// Sum of these holds.
    pub hold_sum_ns: u64,
    /// Of these, holds of sampled uncontended acquisitions.
    pub hold_sampled_n: u32,
    /// Sum of those.
    pub hold_sampled_sum_ns: u64,
    /// Longest hold, microseconds.
    pub hold_max_us: u32,
    /// Waits, if there were any.
    pub wait: Option<Wait>,
}

/// Waits of one [`Detail`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Waits that ended (a wait that the end of the run cut short counts as ended then).
    pub n: u64,
    /// Sum, timeouts included.
    pub sum_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Waits that ended without the object.
    pub timeouts: u64,
    /// Their sum.
    pub timeout_sum_ns: u64,
    /// 1 if the thread was still in this wait when the recording ended.
    pub unfinished: u64,
    /// How long that last wait had lasted by then; included in `sum_ns`.
    pub unfinished_ns: u64,
    /// Barriers: times this thread came last.
    pub last_arrivals: u64,
    /// OMP regions: time in the body. Trylocks: time spent between the first failed try and the end of trying.
    pub busy_sum_ns: u64,
    /// `hist[i]`: waits of [2^i, 2^(i+1)) ns; trailing zeroes cut.
    pub hist: Vec<u32>,
}

/// Waits of one site on one object by one thread that one peer ended or caused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The object.
    pub object: ObjectIx,
    /// The waiter's call stack.
    pub stack: StackIx,
    /// The waiter.
    pub thread: ThreadIx,
    /// Holder when the wait began, or the thread that woke; `None` = unknown.
    pub peer: Option<ThreadIx>,
    /// Where the holder had acquired.
    pub peer_frame: Option<FrameIx>,
    /// Where the peer released, signalled or posted; 0 = unknown.
    pub peer_stack: StackIx,
    /// Waits.
    pub n: u64,
    /// Their sum.
    pub wait_sum_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
}
