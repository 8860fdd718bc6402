//! What a source of scheduler events delivers, before anything is looked up. A source hands its events
//! to a [`Sink`] in order of time.

use std::os::fd::BorrowedFd;

use convoy_profile::SchedSource;

use crate::error::Trouble;

/// Registers of a thread's user mode: what unwinding starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Regs {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer: rbp, x29.
    pub fp: u64,
    /// Link register, 0 where there is none.
    pub lr: u64,
}

/// What the instruction before a sampled one left behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// rax.
    pub accumulator: u64,
    /// The processor's flags.
    pub flags: u32,
}

/// General registers, in the order in which instructions of x86-64 number them (rax, rcx, rdx, rbx, rsp, ...).
pub(crate) type General = [u64; convoy_abi::CV_BPF_REGISTERS];

/// What a thread had at hand for its next instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    pub general: General,
    /// The bytes right below the stack pointer: a function that calls none has variables there.
    pub red_zone: [u8; convoy_abi::CV_BPF_RED_ZONE],
}

/// What a thread was doing in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// System call number; -1 = none: an interrupt or a fault brought it there.
    pub nr: i16,
    /// First argument.
    pub arg0: u64,
    /// Low half of the second one.
    pub arg1: u32,
}

/// How a thread left its processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Kernel task state without its modifiers; 0 = it could have gone on.
    pub state: u16,
    /// In what.
    pub call: Call,
    /// It waits for a disk, says the kernel.
    pub iowait: bool,
    /// Names the place that it blocked at: the same thread, call, stack pointer and code. A
    /// [`Raw::Stack`] with this key, if there is one, came before. 0 = no place.
    pub key: u32,
}

/// A thread that wakes another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WakerRaw {
    /// 0 = the idle task.
    pub tid: u32,
    /// In what.
    pub call: Call,
    /// A thread of the kernel.
    pub kernel: bool,
    /// As [`Left::key`], for the waker.
    pub key: u32,
}

/// A raw event. Times are nanoseconds on the monotonic clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw<'a> {
    /// A processor went from one thread to another; `None` = to or from one that is not recorded.
    Switch {
        ts: u64,
        out: Option<(u32, Left)>,
        into: Option<u32>,
    },
    /// A thread may run again. `None`: the source does not know wakers.
    Wakeup {
        ts: u64,
        tid: u32,
        waker: Option<WakerRaw>,
    },
    /// `tid` in process `pid` was made by `parent`.
    Fork {
        ts: u64,
        parent: u32,
        tid: u32,
        pid: u32,
    },
    /// Process `pid` has become another program; `old_tid` is what its thread was called before.
    Exec { ts: u64, pid: u32, old_tid: u32 },
    /// A thread ends, under this name.
    Exit { ts: u64, tid: u32, comm: [u8; 16] },
    /// A thread that was there at the start of the recording. `left` as of the time when it left its processor;
    /// `None` = it is on one or could be.
    Init {
        ts: u64,
        tid: u32,
        pid: u32,
        comm: [u8; 16],
        left: Option<Left>,
        on_cpu: bool,
    },
    /// A copy of a stack, from the stack pointer upwards, possibly cut. For the place named `key`.
    Stack {
        ts: u64,
        tid: u32,
        key: u32,
        regs: Regs,
        bytes: &'a [u8],
        /// Kernel addresses, leaf first; empty where not taken.
        kernel: &'a [u64],
    },
    /// The sampler found a thread here.
    Sample {
        ts: u64,
        tid: u32,
        regs: Regs,
        bytes: &'a [u8],
        /// It was in the kernel, and `regs` are those of its user mode.
        in_kernel: bool,
        call: Call,
        /// Of x86-64 in user mode.
        outcome: Option<Outcome>,
        /// The same.
        registers: Option<&'a Registers>,
    },
    /// Events between these times are missing.
    Lost {
        from: u64,
        to: u64,
        n: u64,
        /// Stacks or samples, not switches.
        stacks: bool,
    },
}

/// Takes raw events.
pub(crate) trait Sink {
    /// One event. Never earlier than the one before.
    fn take(&mut self, raw: &Raw<'_>);
    /// All events up to this time have been delivered: a good moment for slow things (reading /proc).
    fn pause(&mut self, upto: u64);
}

/// A source of events that runs.
pub(crate) trait EventSource: Send {
    /// What kind it is.
    fn kind(&self) -> SchedSource;
    /// Becomes readable anew each time that something came in which should be delivered soon: it may be gone later, or there may be no
    /// room for more. `None`: whatever comes in may be of that sort.
    fn calls(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Delivers what has come in. Called every few milliseconds, or some ten of them if the source [calls](Self::calls); `last`: nothing
    /// will come after, so what is still held back for the sake of order goes out, too.
    fn drain(&mut self, sink: &mut dyn Sink, last: bool);
    /// Records these processes as well, from now on; how many threads they have. Sources that cannot take in
    /// anybody later take nobody.
    fn adopt(&mut self, pids: &[u32]) -> Result<usize, Trouble> {
        let _ = pids;
        Ok(0)
    }
    /// The kernel's function that this address is in, if the source can tell. `/proc/kallsyms` can for all, and takes longer.
    fn kernel_name(&self, address: u64) -> Option<String> {
        let _ = address;
        None
    }
}
