//! `perf_event_open(2)`: the structure that says what to measure, and the calls.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{PerfOptions, STACK_BYTES};

const TYPE_SOFTWARE: u32 = 1;
const COUNT_CPU_CLOCK: u64 = 0;
const COUNT_TASK_CLOCK: u64 = 1;
/// Counts nothing: for records of switches alone.
const COUNT_DUMMY: u64 = 9;

const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;

// Bits of `flags`: the order of the bit-fields of `struct perf_event_attr`.
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const COMM: u64 = 1 << 9;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// With [`INHERIT`]: threads, but no processes.
const INHERIT_THREAD: u64 = 1 << 35;
const REMOVE_ON_EXEC: u64 = 1 << 36;

const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// `_IO('$', 5)`
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// Frame pointer, stack pointer, instruction pointer, in the order of their numbers, as samples have
/// them; the link register where there is one, and on x86-64 rax before them and the flags behind.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9);
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = (1 << 29) | (1 << 30) | (1 << 31) | (1 << 32);

/// When measuring begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// At once.
    Now,
    /// When a process that has inherited the event becomes another program.
    AtExec,
}

/// `struct perf_event_attr` as of version 5 (Linux 4.1): newer kernels take the rest as zero.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    /// Bytes, with [`WATERMARK`]; else events.
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved_2: u16,
}

const _: () = assert!(size_of::<Attr>() == 112);

impl Attr {
    /// What every event of a source has.
    pub(super) fn new(options: &PerfOptions, begin: Begin) -> Self {
        let begin = match begin {
            Begin::Now => 0,
            Begin::AtExec => DISABLED | ENABLE_ON_EXEC,
        };
        let sampled = options.sample_period_ns > 0;
        let sample_type = SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU;
        Self {
            kind: TYPE_SOFTWARE,
            size: size_of::<Self>() as u32,
            config: if sampled {
                COUNT_CPU_CLOCK
            } else {
                COUNT_DUMMY
            },
            sample_period: options.sample_period_ns,
            sample_type: if sampled {
                sample_type | SAMPLE_REGS_USER | SAMPLE_STACK_USER
            } else {
                sample_type
            },
            flags: begin
                | INHERIT
                | EXCLUDE_KERNEL
                | EXCLUDE_HV
                | COMM
                | COMM_EXEC
                | TASK
                | SAMPLE_ID_ALL
                | USE_CLOCKID
                | CONTEXT_SWITCH
                | WATERMARK,
            // Nobody sleeps on the ring: whoever empties it does so by the clock.
            wakeup: i32::MAX as u32,
            sample_regs_user: if sampled { REGISTERS } else { 0 },
            sample_stack_user: if sampled {
                (options.stack_bytes.min(STACK_BYTES) & !7) as u32
            } else {
                0
            },
            clockid: libc::CLOCK_MONOTONIC,
            ..Self::default()
        }
    }

    /// Counts how often an instruction of a file is executed by a thread and those that it makes,
    /// until it becomes another program. `kind`: type of the kernel's uprobes; `path` is read when
    /// the event is opened.
    pub(crate) fn of_uprobe(kind: u32, path: &CStr, offset: u64) -> Self {
        Self {
            kind,
            size: size_of::<Self>() as u32,
            flags: INHERIT | INHERIT_THREAD | REMOVE_ON_EXEC,
            config1: path.as_ptr() as u64,
            config2: offset,
            ..Self::default()
        }
    }

    /// Overflows after so much CPU time of a thread in user mode, nanoseconds, and tells it each
    /// time. It is disabled at first, and ends when the thread becomes another program.
    pub(crate) fn of_cpu_time(period_ns: u64) -> Self {
        Self {
            kind: TYPE_SOFTWARE,
            size: size_of::<Self>() as u32,
            config: COUNT_TASK_CLOCK,
            sample_period: period_ns,
            sample_type: SAMPLE_IP,
            flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV | REMOVE_ON_EXEC,
            wakeup: 1,
            ..Self::default()
        }
    }
}

/// Opens an event of a thread (0 = this one) on a processor; `None` = on all.
pub(crate) fn open(attr: &Attr, tid: u32, cpu: Option<u32>) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is a perf_event_attr of the size that it says, which the kernel only reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            tid as libc::pid_t,
            cpu.map_or(-1, |cpu| cpu as libc::c_int),
            -1 as libc::c_int,
            FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Lets an event write into the ring of another one of the same processor.
pub(super) fn redirect(event: &OwnedFd, owner: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open perf events; the request takes the second one by value.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT, owner.as_raw_fd()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
