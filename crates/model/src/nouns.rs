//! Objects, sites, threads, groups and their exact relations, made from a profile.
//!
//! Words (see docs/concepts.md; DESIGN section 1): *acquisition*: a call that returned holding the
//! lock. *Contended*: the lock was unavailable at the first attempt of a blocking acquire. *Wait*:
//! first failed attempt until acquired. *Hold*: acquired until released. *Idle wait*: a wait that
//! nobody could shorten (empty queue, timer).

use std::collections::BTreeMap;

use convoy_profile::{Experiments, LiveCurves, Meta, ObjectKind, Op};

use crate::kinds::extent;
use crate::{CodeFrom, Sched, Sections, Slice, SyncCode};

/// Index into [`Model::objects`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);
/// Index into [`Model::sites`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);
/// Index into [`Model::threads`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);
/// Index into [`Model::groups`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);
/// Index into [`Model::processes`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// A profile, joined and ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// What ran, where and when.
    pub meta: Meta,
    /// Process images that carried the agent or had scheduler events.
    pub processes: Vec<Process>,
    /// One per (process, address): records of one address are joined.
    pub objects: Vec<Object>,
    /// Call stacks, shared by all threads of a process.
    pub sites: Vec<Site>,
    /// Threads of all processes.
    pub threads: Vec<Thread>,
    /// Threads of one process with the same start routine, creation site and name pattern.
    pub groups: Vec<Group>,
    /// Everything counted, one row per (object, site, thread, op), ordered by it.
    pub uses: Vec<Use>,
    /// Who waited for whom.
    pub pairs: Vec<Pair>,
    /// What the scheduler said; `None` = nobody listened.
    pub sched: Option<Sched>,
    /// What traced critical sections touched; `None` = nobody looked into any.
    pub sections: Option<Sections>,
    /// Curves of a `convoy live` session; `None` = it is no session.
    pub live_curves: Option<LiveCurves>,
    /// What experiments on the running program found, as recorded; `None` = nobody made any.
    pub experiments: Option<Experiments>,
}

impl Model {
    /// What was counted of one object.
    pub fn uses_of(&self, object: ObjectId) -> &[Use] {
        let begin = self.uses.partition_point(|row| row.object < object);
        let rest = self.uses.get(begin..).unwrap_or_default();
        let n = rest.partition_point(|row| row.object == object);
        rest.get(..n).unwrap_or_default()
    }

    /// A site; `None` of an id of another model.
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.get(id.0 as usize)
    }

    /// Activity whose place samples tell, with that place; nothing where the scheduler was not listened to. A share of
    /// the samples (`n`) is a share of the time; the slices in which they fell are not of one length.
    pub fn samples(&self) -> impl Iterator<Item = (&Slice, Option<&Site>)> {
        let slices = self.sched.iter().flat_map(|sched| &sched.slices);
        let sampled = slices.filter(|slice| slice.from == CodeFrom::Sample);
        sampled.map(|slice| (slice, slice.site.and_then(|id| self.site(id))))
    }
}

/// A process image.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// What it was started as, without the folder; the file name of the executable where that is not known, or a program that it runs
    /// may have changed it.
    pub name: String,
    /// Full path.
    pub exe: String,
    /// Its arguments, the first of which is what it was started as. Empty = not known.
    pub args: Vec<String>,
    /// What it was given to run, if it runs others' code: a script, a module, a class. Empty = not known.
    pub script: String,
    /// From agent ready to end, nanoseconds.
    pub wall_ns: u64,
    /// It carried no agent: nothing is known of its locks.
    pub without_agent: bool,
    /// It has a socket at which connections arrive.
    pub listens: bool,
    /// Its code asks for what makes threads.
    pub makes_threads: bool,
    /// Losses by reason.
    pub drops: BTreeMap<String, u64>,
    /// Threads that ran.
    pub threads: Vec<ThreadId>,
}

impl Process {
    /// What tells programs apart: the executable, and the name under which it runs. That may be a title, and `worker1` and `worker2` are
    /// no two programs.
    pub fn program(&self) -> (&str, &str) {
        let number = |c: char| c.is_ascii_digit();
        (&self.exe, self.name.trim_end_matches(number))
    }

    /// Its name, with what it was given to run.
    pub fn title(&self) -> String {
        match (self.name.as_str(), self.script.as_str()) {
            // It ended before anybody could read what it was.
            ("", _) => "process".into(),
            (name, "") => name.into(),
            (name, script) => format!("{name} {script}"),
        }
    }

    /// Whether it runs another program's code than that process: other programs, or other scripts of one.
    pub fn runs_other_code(&self, other: &Self) -> bool {
        let scripts = !self.script.is_empty() && !other.script.is_empty();
        self.program() != other.program() || (scripts && self.script != other.script)
    }
}

/// Something that is waited for.
#[derive(Debug, Clone, Default)]
pub struct Object {
    /// The process.
    pub process: ProcessId,
    /// Its address, identity only.
    pub addr: u64,
    /// What it is.
    pub kind: ObjectKind,
    /// For people: `mem0.mutex`, `mutex from cache_new() items.c:41`, ...
    pub name: String,
    /// Where it was initialised, if known.
    pub init_site: Option<SiteId>,
    /// The memory was used by this many objects in turn (0 = never initialised by a call).
    pub lives: u32,
    /// Semaphores: the value that they began with, if they were initialised by a call, and always with the same.
    pub tokens: Option<u32>,
    /// Not all of them were of one kind: which one a word belonged to at a time is not known.
    pub several_kinds: bool,
    /// Futexes: what the code that waits on it is ("Rust Mutex", "C++ barrier", ...), `None` if not known.
    pub futex_of: Option<FutexOf>,
}

impl Object {
    /// The memory that it takes at most; nothing of a thread, whose memory is its own.
    pub fn bytes(&self) -> std::ops::Range<u64> {
        match self.kind {
            ObjectKind::Thread => self.addr..self.addr,
            kind => self.addr..self.addr.saturating_add(extent(kind)),
        }
    }
}

/// What a raw futex word belongs to, told from the functions that wait on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum FutexOf {
    RustMutex,
    RustRwLock,
    RustCondvar,
    RustOnce,
    RustPark,
    ParkingLotMutex,
    ParkingLotRwLock,
    ParkingLotCondvar,
    CxxSemaphore,
    CxxLatch,
    CxxBarrier,
    CxxAtomicWait,
    CxxFuture,
    CxxStaticInit,
    GlibMutex,
    GlibCond,
    AbseilMutex,
}

/// A call stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// The process.
    pub process: ProcessId,
    /// Leaf first, inlined functions expanded. Empty = unknown.
    pub frames: Vec<SiteFrame>,
    /// Index into `frames` of the one to show: the innermost frame that is not a lock wrapper,
    /// the C or C++ runtime or another library that only passes the call on.
    pub shown: usize,
    /// Index into `frames` of the innermost one from there on that is the program's own code, not a
    /// library's, a package's or a run-time system's; `None` = there is none on the stack.
    pub own: Option<usize>,
    /// What is done here for the sake of other threads, by a function of the C library or the language, or by the agent in
    /// its stead.
    pub sync: Option<SyncCode>,
    /// It is the first steps of taking a lock or letting it go, inlined there: fought for or not, all locks run them.
    pub fast_path: bool,
}

impl Site {
    /// The frame to show; `None` of an unknown place.
    pub fn shown_frame(&self) -> Option<&SiteFrame> {
        self.frames.get(self.shown).or(self.frames.first())
    }

    /// The program's own code on whose behalf the shown frame runs; `None` where that is the
    /// program's own itself, or nothing on the stack is.
    pub fn own_caller(&self) -> Option<&SiteFrame> {
        let own = self.own.filter(|&own| own > self.shown)?;
        self.frames.get(own)
    }

    /// Whether a function of this kind is anywhere in the call stack.
    pub fn has_function(&self, is: impl Fn(&str) -> bool) -> bool {
        self.frames.iter().any(|frame| is(&frame.function))
    }
}

/// What tells functions apart: the file, the name, and of those without a name where they begin.
pub type FunctionKey<'a> = (&'a str, &'a str, u64);

/// One (possibly inlined) function of a call stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteFrame {
    /// Demangled name; empty = unknown.
    pub function: String,
    /// Source file, may be empty.
    pub file: String,
    /// Line, 0 = unknown.
    pub line: u32,
    /// File name of the module, may be empty.
    pub module: String,
    /// Address in the module.
    pub offset: u64,
    /// Where its function begins in the module, if no name tells it from others (it has none, or is of a closure); 0 = not known.
    pub start: u64,
    /// Inlined into the next frame.
    pub inlined: bool,
    /// Why there is no name, empty if there is one.
    pub unknown: String,
}

impl SiteFrame {
    /// What tells its function from others.
    pub fn key(&self) -> FunctionKey<'_> {
        let start = if self.function.is_empty() {
            self.start
        } else {
            0
        };
        (&self.module, &self.function, start)
    }

    /// Whether [`SiteFrame::key`] tells it from others: by a name, or by where it begins.
    pub fn is_told(&self) -> bool {
        !self.function.is_empty() || self.start != 0
    }

    /// Where its function begins, as far as that is known.
    pub fn begins(&self) -> u64 {
        match self.start {
            0 => self.offset,
            start => start,
        }
    }

    /// The function itself: as it is called wherever in it.
    pub fn whole(&self) -> Self {
        Self {
            line: 0,
            offset: self.begins(),
            ..self.clone()
        }
    }
}

/// A thread that ran.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// The process.
    pub process: ProcessId,
    /// Its group.
    pub group: GroupId,
    /// Kernel thread id.
    pub tid: u32,
    /// Name at its end.
    pub name: String,
    /// Main thread of its process.
    pub main: bool,
    /// Began to run, monotonic.
    pub start_ns: u64,
    /// Ended, monotonic.
    pub end_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// CPU time in the kernel.
    pub sys_ns: u64,
    /// Runnable but not running, if known.
    pub run_delay_ns: Option<u64>,
    /// Times it gave up the processor.
    pub voluntary_switches: u64,
    /// Times it was taken off it.
    pub involuntary_switches: u64,
    /// Threads that shared this row one after another: more than 1 only past the agent's limit of threads, 0 where only
    /// the kernel saw it.
    pub lives: u32,
    /// Waits on synchronization, by kind of object; idle ones included.
    pub wait_ns: BTreeMap<ObjectKind, u64>,
}

impl Thread {
    /// From start to end, nanoseconds.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// All waits on synchronization, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.wait_ns.values().sum()
    }

    /// Run time minus all waits on synchronization, nanoseconds ("compute time", SyncPerf section 3.2.3).
    pub fn compute_ns(&self) -> u64 {
        self.wall_ns().saturating_sub(self.waited_ns())
    }
}

/// Threads that do the same job.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The process.
    pub process: ProcessId,
    /// For people: start routine (of `std::thread` and Rust threads: the callable), creation site, name pattern.
    pub name: String,
    /// Start routine, if resolved.
    pub start: Option<SiteFrame>,
    /// Creation site.
    pub create_site: Option<SiteId>,
    /// Thread names with digits replaced by `#`.
    pub name_pattern: String,
    /// Its threads.
    pub threads: Vec<ThreadId>,
}

/// All that one thread did to one object from one site with one operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Use {
    /// The object.
    pub object: ObjectId,
    /// The call stack.
    pub site: SiteId,
    /// The thread.
    pub thread: ThreadId,
    /// What was called.
    pub op: Option<Op>,
    /// Calls. For blocking acquires: acquisitions.
    pub calls: u64,
    /// Failed tries, timeouts.
    pub failed: u64,
    /// The total of `calls` over the site's stacks and objects is exact, but its distribution over
    /// them comes from samples.
    pub estimated: bool,
    /// Calls that had to wait. For blocking acquires: contended.
    pub waits: u64,
    /// Sum of the waits, a wait cut short by the end of the run included.
    pub wait_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
    /// Waits that ended without the object, and their sum.
    pub timeouts: u64,
    /// See `timeouts`.
    pub timeout_ns: u64,
    /// Of `wait_ns`, the part of a wait still going on at the end.
    pub unfinished_ns: u64,
    /// Mean hold of a timed contended acquisition, and how many were timed.
    pub hold_contended_n: u64,
    /// See `hold_contended_n`: their sum.
    pub hold_contended_ns: u64,
    /// Holds of sampled uncontended acquisitions.
    pub hold_sampled_n: u64,
    /// See `hold_sampled_n`: their sum.
    pub hold_sampled_ns: u64,
    /// Longest hold.
    pub hold_max_ns: u64,
    /// Sampled cost of an uncontended acquire itself, cache transfer included: number and sum.
    pub acquire_n: u64,
    /// See `acquire_n`.
    pub acquire_ns: u64,
    /// Barriers: times this thread came last.
    pub last_arrivals: u64,
    /// OMP regions: time in the body. Trylocks: time spent trying in vain.
    pub busy_ns: u64,
    /// `hist[i]`: waits of [2^i, 2^(i+1)) ns.
    pub hist: Vec<u64>,
}

impl Use {
    /// Estimated total hold time: contended holds as timed, the others by the sampled mean. Nanoseconds.
    pub fn hold_total_ns(&self) -> f64 {
        let uncontended = self.calls.saturating_sub(self.hold_contended_n) as f64;
        let mean = if self.hold_sampled_n > 0 {
            self.hold_sampled_ns as f64 / self.hold_sampled_n as f64
        } else if self.hold_contended_n > 0 {
            self.hold_contended_ns as f64 / self.hold_contended_n as f64
        } else {
            0.0
        };
        self.hold_contended_ns as f64 + uncontended * mean
    }
}

/// Waits of one thread at one site on one object that one peer ended or caused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pair {
    /// The object.
    pub object: ObjectId,
    /// Where it was waited.
    pub site: SiteId,
    /// Who waited.
    pub thread: ThreadId,
    /// Who held when the wait began (locks), or who woke (other objects).
    pub peer: Option<ThreadId>,
    /// Where the holder had acquired: one frame, inlines expanded; empty = unknown.
    pub peer_acquired_at: Vec<SiteFrame>,
    /// Where the peer released, signalled or posted.
    pub peer_site: Option<SiteId>,
    /// Waits.
    pub waits: u64,
    /// Their sum.
    pub wait_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
}
