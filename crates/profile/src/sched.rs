//! What the scheduler's events say: activity, CMetric, off-CPU time and wakers, aggregated while
//! recording (GAPP, ICPE'20).
//!
//! A thread is *active* while it runs or could run (it has been woken and waits for a processor); *running*
//! while it is on a processor; *working* while it is active and does not wait in a loop. The *CMetric* of a
//! piece of activity is the sum over its switching intervals of `dt / n`, `n` being the number of active
//! threads of the whole recording (GAPP, section 3.1). The working CMetric counts threads that wait in a loop
//! as inactive: they get none, and `n` is the number of working threads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{FrameIx, GoProgram, Log2Histogram, SharedLines, StackIx, ThreadIx, Timeline};

/// Index into [`Sched::offs`].
pub type OffIx = u32;
/// Nanoseconds by the number of threads: by [`bucket`], trailing zeroes cut. Shared, because in most rows all active threads
/// work, and there may be a hundred thousand.
pub type ByThreads = Arc<[u64]>;
/// Index into [`Sched::loops`].
pub type LoopIx = u32;
/// Index into [`Sched::names`].
pub type NameIx = u32;

/// A thread of a recording.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ThreadRef {
    /// Index into [`crate::Profile::processes`].
    pub process: u32,
    /// Index into that process's threads.
    pub thread: ThreadIx,
}

/// Everything that was learnt from context switches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sched {
    /// Where the events came from.
    pub source: SchedSource,
    /// First event taken into account, monotonic.
    pub start_ns: u64,
    /// Last one, or the end of the recording.
    pub end_ns: u64,
    /// Events taken into account.
    pub events: u64,
    /// Period of the instruction pointer samples, nanoseconds of CPU time. 0 = none were taken.
    pub sample_period_ns: u64,
    /// Time with so many active threads, by [`bucket`]: index 0 = none.
    pub active: Vec<u64>,
    /// The same for working threads.
    pub working: Vec<u64>,
    /// The same for threads on a processor.
    pub running: Vec<u64>,
    /// The run in pieces of equal length.
    pub bins: Bins,
    /// One per thread seen, in no particular order.
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
    /// Events that contradict what was known of their thread (a consequence of lost ones).
    pub contradictions: u64,
    /// What every thread did when; `None` = not kept.
    pub timeline: Option<Timeline>,
    /// Cache lines that several threads use; `None` = nobody looked: another machine than x86-64, or no eBPF.
    pub lines: Option<SharedLines>,
    /// Samples in calls that read or write files.
    pub writes: Vec<CallSamples>,
    /// What goroutines of Go's programs waited for, one per process.
    pub goroutines: Vec<GoProgram>,
}

/// Samples of one thread at one place in read(), write() or pwrite64() of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSamples {
    /// Who.
    pub thread: ThreadRef,
    /// Where. 0 = unknown.
    pub stack: StackIx,
    /// To what: file, pipe or socket.
    pub name: Option<NameIx>,
    /// How much the call was to read or write: bits of the number of bytes, at most 32.
    pub size_class: u8,
    /// Whether it reads.
    pub reads: bool,
    /// Samples.
    pub n: u64,
}

/// Where scheduler events came from, and so what is in the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchedSource {
    /// eBPF programs: switches, wake-ups with wakers, system calls, stacks.
    #[default]
    Bpf,
    /// Switch records of perf events: no wake-ups, so a woken thread counts as active only once it runs; no
    /// wakers and no reasons beyond "blocked" and "preempted".
    Perf,
}

/// The index of a number of threads in a histogram: exact below 32, from there eight to an octave.
#[inline]
pub fn bucket(threads: usize) -> usize {
    if threads <= 32 {
        return threads;
    }
    let octave = threads.ilog2() as usize; // 5 and up
    32 + (octave - 5) * 8 + ((threads >> (octave - 3)) & 7)
}

/// The least number of threads in a bucket: the inverse of [`bucket`]. Of one that no number of threads is in: the largest number.
pub fn bucket_floor(bucket: usize) -> usize {
    if bucket <= 32 {
        return bucket;
    }
    let (octave, eighth) = ((bucket - 32) / 8 + 5, (bucket - 32) % 8);
    if octave >= usize::BITS as usize {
        return usize::MAX;
    }
    (1 << octave) + (eighth << (octave - 3))
}

/// The run in pieces of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    /// Length of a piece, nanoseconds. The first one begins at [`Sched::start_ns`].
    pub width_ns: u64,
    /// The pieces.
    pub bins: Vec<Bin>,
}

/// A piece of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Thread time active, nanoseconds: divided by the width, the mean parallelism.
    pub active_ns: u64,
    /// Thread time working.
    pub working_ns: u64,
    /// Thread time on a processor.
    pub running_ns: u64,
    /// Time with no active thread at all.
    pub idle_ns: u64,
    /// Whose activity had the most CMetric in it, and where: index into [`Sched::slices`].
    pub top: Option<u32>,
}

/// A thread as the scheduler saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedThread {
    /// Which.
    pub thread: ThreadRef,
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
    /// Of `running_ns`, in a loop that waits.
    pub spinning_ns: u64,
    /// Off the processors, blocked.
    pub blocked_ns: u64,
    /// Sum of the CMetric of its slices, nanoseconds.
    pub cm_ns: f64,
    /// The same with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// Slices: times that it became active.
    pub slices: u64,
    /// Times that it was taken off a processor.
    pub preemptions: u64,
}

/// How the code of a piece of activity is known.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum CodeFrom {
    /// The thread ended or the recording did: not known.
    #[default]
    Unknown,
    /// A sample of the instruction pointer inside it.
    Sample,
    /// No sample fell into it: where the thread blocked at its end ("from stack top").
    StackTop,
}

/// Activity of one thread in one piece of code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Who.
    pub thread: ThreadRef,
    /// Where, in the thread's process. 0 = unknown.
    pub stack: StackIx,
    /// How that is known.
    pub from: CodeFrom,
    /// The loop in which it waits, if that is what it does here.
    pub spin: Option<LoopIx>,
    /// Samples, or slices for those without.
    pub n: u64,
    /// Of them, in the kernel, which the thread had not called: in page faults (interrupts are few).
    pub faults: u64,
    /// Active time.
    pub active_ns: u64,
    /// Of it, on a processor.
    pub running_ns: u64,
    /// CMetric, nanoseconds.
    pub cm_ns: f64,
    /// CMetric with busy waiting counted as inactive.
    pub cm_working_ns: f64,
    /// `active_ns` by the number of active threads meanwhile, this one included: by [`bucket`], trailing
    /// zeroes cut. Index 0 is always 0.
    pub by_active: ByThreads,
    /// `active_ns` of working pieces by the number of working threads.
    pub by_working: ByThreads,
}

/// Why a thread was off the processors.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum OffReason {
    /// Blocked, and the kernel did not say in what.
    #[default]
    Unknown,
    /// In futex(): a lock, condition variable, barrier, join or channel.
    Futex,
    /// Reading or writing a regular file.
    File,
    /// fsync() and its kin.
    Sync,
    /// Waiting for a disk elsewhere (`in_iowait`, or an uninterruptible wait in a file system call).
    Disk,
    /// A page fault: memory being read in or zeroed, or the address space being locked.
    PageFault,
    /// mmap(), munmap(), brk(), ...: the lock of the address space.
    Memory,
    /// Reading or writing a pipe, terminal, eventfd or the like.
    Pipe,
    /// Sending to or receiving from a socket, accept(), connect().
    Socket,
    /// poll(), select(), epoll_wait(): many descriptors.
    Poll,
    /// nanosleep() and its kin: a time.
    Sleep,
    /// sigtimedwait(), pause(), sigsuspend().
    Signal,
    /// wait4() and its kin: a child process.
    Child,
    /// msgrcv(), semop(), mq_receive(), flock(), ...: System V and POSIX IPC, file locks.
    Ipc,
    /// io_getevents(), io_uring_enter().
    AsyncIo,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Another system call: its number is in `nr`.
    OtherCall,
    /// Could have run: taken off for others, or gave way in sched_yield().
    Preempted,
}

/// Time that one thread spent off the processors at one place for one reason. Run-queue delay after the
/// wake-up is not in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OffCpu {
    /// Who.
    pub thread: ThreadRef,
    /// Where, in the thread's process. 0 = unknown.
    pub stack: StackIx,
    /// The kernel's side of it, outermost last; empty where not taken.
    pub kernel_stack: Vec<String>,
    /// Why.
    pub reason: OffReason,
    /// System call number, -1 = none.
    pub nr: i16,
    /// Futex: address of the word.
    pub address: u64,
    /// File, pipe or socket.
    pub name: Option<NameIx>,
    /// Times.
    pub n: u64,
    /// Sum, nanoseconds; what was unfinished at the end of the recording included.
    pub sum_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Of `sum_ns`, cut short by the end of the recording.
    pub unfinished_ns: u64,
    /// How long they were, nanoseconds.
    pub hist: Log2Histogram,
    /// `sum_ns` by the number of threads active meanwhile: by [`bucket`], trailing zeroes cut.
    pub by_active: ByThreads,
    /// The same by working threads.
    pub by_working: ByThreads,
}

/// Who ended a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Waker {
    /// The kernel did not say.
    #[default]
    Unknown,
    /// A timer, a disk, a network card: an interrupt, or a kernel thread.
    Interrupt,
    /// A thread of the recording.
    Thread(ThreadRef, StackIx),
    /// A thread of a process that is not recorded: its tid.
    Outside(u32),
}

/// Waits of one kind that one waker ended at one place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wake {
    /// The waits.
    pub off: OffIx,
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
    /// ... was itself off the processors: where and why, most first. What is missing to `wait_ns` is not known.
    pub waker_off: Vec<(OffIx, u64)>,
}

/// What makes a loop a waiting one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SpinKind {
    /// Loads, compares, and nothing else.
    #[default]
    Polling,
    /// The same with a pause instruction.
    Pause,
    /// Tries to take a lock: compare-and-exchange or exchange of one word.
    Lock,
    /// Asks the time or gives way between looks (sched_yield, clock_gettime).
    Yield,
    /// A function known to poll (a runtime's progress or spin function).
    KnownFunction,
    /// Sleeps between looks (usleep): threads wait in it, but off the processor.
    Sleep,
}

/// A loop in which threads wait on the processor, or sleep between two looks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinLoop {
    /// The process that has it.
    pub process: u32,
    /// An instruction of it, named: the place to show.
    pub frame: Option<FrameIx>,
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

/// Events that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// After this time...
    pub from_ns: u64,
    /// ... and before this one ...
    pub to_ns: u64,
    /// ... so many.
    pub events: u64,
    /// Stacks, not events: their waits have an older stack of the same place, or none.
    pub stacks: bool,
}

#[cfg(test)]
mod tests {
    use super::{bucket, bucket_floor};

    #[test]
    fn buckets_grow_and_have_floors() {
        let mut last = 0;
        for n in 0..100_000 {
            let b = bucket(n);
            assert!(b == last || b == last + 1, "{n}");
            assert!(bucket_floor(b) <= n && n < bucket_floor(b + 1), "{n}");
            last = b;
        }
    }

    #[test]
    fn a_bucket_that_no_number_is_in_has_a_floor() {
        assert_eq!(bucket_floor(bucket(usize::MAX) + 1), usize::MAX);
        assert_eq!(bucket_floor(usize::MAX), usize::MAX);
    }
}
