//! Threads of another process, stopped by ptrace.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use libc::user_regs_struct;

use crate::restart::ends_with_a_stop;

/// A thread that does not stop within this time sleeps where no signal reaches it (state D).
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Room for the largest register state that there is today (AMX).
const XSTATE_BYTES: usize = 16 << 10;
const NT_X86_XSTATE: libc::c_int = 0x202;

/// Why a thread does not do what was asked.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It has ended, by itself or with its process.
    Ended,
    /// It did not stop in time.
    TimedOut,
    /// A call that it was made to make did not end in time.
    Endless,
    /// The kernel refused.
    Refused(io::Error),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        match e.raw_os_error() {
            Some(libc::ESRCH | libc::ECHILD) => Self::Ended,
            _ => Self::Refused(e),
        }
    }
}

/// What a thread has stopped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// We have interrupted it, or its process was stopped (SIGSTOP).
    Event,
    /// It begins or ends a system call.
    SystemCall,
    /// This signal is about to be delivered.
    Signal(i32),
}

/// What marks the stops of [`Stop::SystemCall`] (PTRACE_O_TRACESYSGOOD).
const SYSTEM_CALL_BIT: i32 = 0x80;

/// All registers but the general ones, as the kernel gives them.
#[derive(Debug)]
pub(crate) struct ExtendedState(pub Vec<u8>);

/// A thread that we trace; it goes on when this is dropped, if it is stopped. Stays in the thread
/// that it was made in, the only one whose requests the kernel accepts.
#[derive(Debug)]
pub(crate) struct Tracee {
    tid: i32,
    is_detached: bool,
    of_this_thread: PhantomData<*const ()>,
}

fn ptrace(request: libc::c_uint, tid: i32, addr: usize, data: usize) -> io::Result<()> {
    // SAFETY: a request by value: callers that pass addresses go through `ptrace_at`.
    let r = unsafe { libc::ptrace(request, tid, addr, data) };
    match r {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A request that reads or writes `value`, which must be what the request expects.
fn ptrace_at<T>(request: libc::c_uint, tid: i32, addr: usize, value: *mut T) -> io::Result<()> {
    // SAFETY: `value` is a live object of the type that the kernel reads or writes for this
    // request, see the callers.
    let r = unsafe { libc::ptrace(request, tid, addr, value) };
    match r {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Tracee {
    /// Traces a thread, which goes on running. `None` if it has ended.
    pub fn seize(tid: u32) -> io::Result<Option<Self>> {
        let tid = tid as i32;
        match ptrace(libc::PTRACE_SEIZE, tid, 0, 0) {
            Ok(()) => Ok(Some(Self {
                tid,
                is_detached: false,
                of_this_thread: PhantomData,
            })),
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) || is_dead(tid) => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub fn tid(&self) -> u32 {
        self.tid as u32
    }

    pub fn interrupt(&self) -> Result<(), Fault> {
        Ok(ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0)?)
    }

    /// Waits until it has stopped by [`Self::interrupt`]; signals that come meanwhile are
    /// delivered.
    pub fn wait_interrupted(&self, until: Instant) -> Result<(), Fault> {
        while !self.is_interrupted(self.wait(until)?)? {}
        Ok(())
    }

    /// Whether it has stopped by [`Self::interrupt`]: a look, without waiting.
    pub fn has_stopped(&self) -> Result<bool, Fault> {
        while let Some(stop) = self.look()? {
            if self.is_interrupted(stop)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether this was the stop that was asked for; after another one it goes on.
    fn is_interrupted(&self, stop: Stop) -> Result<bool, Fault> {
        match stop {
            Stop::Event => self.undo_interruption()?,
            Stop::SystemCall => self.resume(0)?,
            // Its handler's frame is made, and the thread stops in front of the handler.
            Stop::Signal(signal) => self.resume(signal)?,
        }
        Ok(stop == Stop::Event)
    }

    /// Some system calls end with EINTR when their thread is stopped, though no signal has come
    /// (signal(7)). They are restarted, unless a signal comes: then its handler runs first, and
    /// they end with EINTR.
    fn undo_interruption(&self) -> Result<(), Fault> {
        const RESTART_WITHOUT_HANDLER: i64 = -514; // ERESTARTNOHAND
        let mut registers = self.registers()?;
        let is_one = ends_with_a_stop(registers.orig_rax as i64);
        if is_one && registers.rax as i64 == -i64::from(libc::EINTR) {
            registers.rax = RESTART_WITHOUT_HANDLER as u64;
            self.set_registers(&registers)?;
        }
        Ok(())
    }

    /// Waits for the next stop.
    pub fn wait(&self, until: Instant) -> Result<Stop, Fault> {
        let mut pause = Pause::default();
        loop {
            if let Some(stop) = self.look()? {
                return Ok(stop);
            }
            if Instant::now() > until {
                return Err(Fault::TimedOut);
            }
            pause.sleep();
        }
    }

    /// The next stop, if it has stopped.
    fn look(&self) -> Result<Option<Stop>, Fault> {
        let mut status = 0;
        // SAFETY: `status` is a live local.
        let r = unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL | libc::WNOHANG) };
        if r < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error.into()),
            };
        }
        if r != self.tid {
            return Ok(None);
        }
        if !libc::WIFSTOPPED(status) {
            return Err(Fault::Ended);
        }
        let signal = libc::WSTOPSIG(status);
        Ok(Some(match status >> 16 {
            libc::PTRACE_EVENT_STOP => Stop::Event,
            _ if signal & SYSTEM_CALL_BIT != 0 => Stop::SystemCall,
            _ => Stop::Signal(signal),
        }))
    }

    /// Goes on, with a signal or 0.
    pub fn resume(&self, signal: i32) -> Result<(), Fault> {
        Ok(ptrace(libc::PTRACE_CONT, self.tid, 0, signal as usize)?)
    }

    /// Goes on to where its next system call begins or ends, with a signal or 0.
    pub fn resume_to_system_call(&self, signal: i32) -> Result<(), Fault> {
        Ok(ptrace(libc::PTRACE_SYSCALL, self.tid, 0, signal as usize)?)
    }

    /// Tells stops at system calls from signals.
    pub fn report_system_calls(&self) -> Result<(), Fault> {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
        Ok(ptrace(libc::PTRACE_SETOPTIONS, self.tid, 0, options)?)
    }

    pub fn registers(&self) -> Result<user_regs_struct, Fault> {
        // SAFETY: integers, all of which may be 0.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace_at(libc::PTRACE_GETREGS, self.tid, 0, &mut registers)?;
        Ok(registers)
    }

    pub fn set_registers(&self, registers: &user_regs_struct) -> Result<(), Fault> {
        let mut registers = *registers;
        Ok(ptrace_at(
            libc::PTRACE_SETREGS,
            self.tid,
            0,
            &mut registers,
        )?)
    }

    pub fn extended_state(&self) -> Result<ExtendedState, Fault> {
        let mut bytes = vec![0u8; XSTATE_BYTES];
        let mut range = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let kind = NT_X86_XSTATE as usize;
        ptrace_at(libc::PTRACE_GETREGSET, self.tid, kind, &mut range)?;
        bytes.truncate(range.iov_len);
        Ok(ExtendedState(bytes))
    }

    pub fn set_extended_state(&self, state: &mut ExtendedState) -> Result<(), Fault> {
        let mut range = libc::iovec {
            iov_base: state.0.as_mut_ptr().cast(),
            iov_len: state.0.len(),
        };
        let kind = NT_X86_XSTATE as usize;
        Ok(ptrace_at(
            libc::PTRACE_SETREGSET,
            self.tid,
            kind,
            &mut range,
        )?)
    }

    /// Signals that it blocks, a bit each from 1 on.
    pub fn signal_mask(&self) -> Result<u64, Fault> {
        let mut mask = 0u64;
        ptrace_at(libc::PTRACE_GETSIGMASK, self.tid, 8, &mut mask)?;
        Ok(mask)
    }

    pub fn set_signal_mask(&self, mask: u64) -> Result<(), Fault> {
        let mut mask = mask;
        Ok(ptrace_at(libc::PTRACE_SETSIGMASK, self.tid, 8, &mut mask)?)
    }

    /// Whether some of its system calls are turned into signals (PR_SET_SYSCALL_USER_DISPATCH), as
    /// Wine does. Kernels before 6.4 do not say.
    pub fn dispatches_system_calls(&self) -> bool {
        const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: libc::c_uint = 0x4211;
        // Mode, selector, offset, length: struct ptrace_sud_config.
        let mut found = [0u64; 4];
        let size = size_of_val(&found);
        let request = PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG;
        ptrace_at(request, self.tid, size, &mut found).is_ok() && found[0] != 0
    }

    /// The address of its rseq area; `None` if it has none, or the kernel does not say (before
    /// 5.13).
    pub fn rseq_area(&self) -> Option<u64> {
        Some(self.rseq_configuration()?.0)
    }

    /// The same, and the signature that its handlers of aborts have before them.
    pub fn rseq_configuration(&self) -> Option<(u64, u32)> {
        const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        #[repr(C)]
        struct Configuration {
            pointer: u64,
            size: u32,
            signature: u32,
            flags: u32,
            pad: u32,
        }
        let mut found = Configuration {
            pointer: 0,
            size: 0,
            signature: 0,
            flags: 0,
            pad: 0,
        };
        let size = size_of::<Configuration>();
        ptrace_at(PTRACE_GET_RSEQ_CONFIGURATION, self.tid, size, &mut found).ok()?;
        (found.pointer != 0).then_some((found.pointer, found.signature))
    }

    /// Goes on untraced. It must be stopped.
    pub fn detach(mut self) {
        self.let_go();
    }

    fn let_go(&mut self) {
        if !std::mem::replace(&mut self.is_detached, true) {
            // Fails if it has ended; if it runs, the end of this thread sets it free (tracer.rs).
            let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, 0);
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A pause between two looks at threads that are about to stop. They need a processor to stop on,
/// which may be ours.
#[derive(Debug, Default)]
pub(crate) struct Pause(u64);

impl Pause {
    pub fn sleep(&mut self) {
        self.0 = (self.0 + 1).min(10);
        std::thread::sleep(Duration::from_micros(10 * self.0));
    }
}

/// Ended, but still listed: as the main thread of a process whose other threads go on.
fn is_dead(tid: i32) -> bool {
    stat_fields(tid as u32).is_none_or(|fields| has_ended(&fields))
}

/// Whether [`stat_fields`] are of a thread that has ended, and that nobody has asked the status of.
pub(crate) fn has_ended(fields: &[String]) -> bool {
    matches!(fields.first().map(String::as_str), None | Some("Z" | "X"))
}

/// In uninterruptible sleep: it stops when that is over, and cannot be made to before.
pub(crate) fn is_uninterruptible(tid: u32) -> bool {
    stat_fields(tid).is_some_and(|fields| fields.first().is_some_and(|state| state == "D"))
}

/// The fields of `/proc/TID/stat` from the state on; `None` = there is no such thread.
pub(crate) fn stat_fields(tid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The name before it may have blanks and parentheses.
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().map(str::to_owned).collect())
}

/// The threads of a process; empty if it is gone. A process that has ended may list its main
/// thread.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let names = entries.into_iter().flatten().flatten();
    let mut all: Vec<u32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    if all.len() == 1 {
        all.retain(|tid| !is_dead(*tid as i32));
    }
    all
}

/// Signals that a remote call blocks: all but those that it would cause itself by a fault.
pub(crate) const ALL_BUT_FAULTS: u64 = !(1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGFPE - 1));
