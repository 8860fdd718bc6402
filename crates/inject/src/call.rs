//! Calls in another process: a stopped thread runs a function, and is then put back as it was.
//!
//! At every moment the thread could go on without us, should we be killed: wherever it is, it
//! returns to the C library's `rt_sigreturn`, and finds there a signal frame with all that it had
//! before.

use std::time::{Duration, Instant};

use libc::user_regs_struct;

use crate::memory::{gap, regions, Memory, REACH};
use crate::signal_frame;
use crate::tracee::{ExtendedState, Fault, Stop, Tracee, ALL_BUT_FAULTS, STOP_LIMIT};

/// Times that room is looked for: a program's other threads map memory meanwhile.
const MOST_TRIES: usize = 8;

/// Longest time that a call may take: it may wait for locks that other threads hold, and each
/// system call that it makes meanwhile is slow. A call that is given up may leave a lock behind.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// Of a stack of ours: dlopen needs some ten KiB.
const STACK_BYTES: u64 = 256 << 10;

/// Below a thread's stack pointer it may have data (x86-64 ABI, section 3.2.2).
const RED_ZONE: u64 = 128;

/// ERESTART_RESTARTBLOCK of the kernel: the call goes on where it was, by `restart_syscall`.
const RESTART_BLOCK: i64 = -516;
/// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: the call is made once more.
const RESTARTS: [i64; 3] = [-512, -513, -514];

/// The system call that a thread sleeps in, and that will be restarted.
pub(crate) fn sleeps_in(registers: &user_regs_struct) -> Option<i64> {
    let (call, result) = (registers.orig_rax as i64, registers.rax as i64);
    let is_restarted = RESTARTS.contains(&result) || result == RESTART_BLOCK;
    (call >= 0 && is_restarted).then_some(call)
}

/// Code of the C library that calls need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gadgets {
    /// A `syscall` instruction, with a return a little behind it.
    pub syscall: u64,
    /// `mov rax, SYS_rt_sigreturn; syscall`.
    pub sigreturn: u64,
}

/// `mov rax, SYS_rt_sigreturn; syscall`.
pub(crate) const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// A thread that runs calls for us.
///
/// All signals are blocked meanwhile: those to the process go to other threads, those to this
/// thread wait. The thread's own stack is used below the red zone only.
#[derive(Debug)]
pub(crate) struct Borrowed {
    tracee: Tracee,
    registers: user_regs_struct,
    extended: ExtendedState,
    mask: u64,
    memory: Memory,
    gadgets: Gadgets,
    /// The signal frame in use: on the thread's own stack, or on ours.
    frame: u64,
    own_frame: u64,
    /// Our stack, 0 = none yet.
    stack: u64,
    /// It is at the beginning of a system call, which the kernel makes by the registers that are
    /// set now.
    enters_call: bool,
    is_restored: bool,
}

impl Borrowed {
    /// Takes a stopped thread.
    pub fn new(tracee: Tracee, memory: Memory, gadgets: Gadgets) -> Result<Self, Fault> {
        let registers = tracee.registers()?;
        let extended = tracee.extended_state()?;
        let mask = tracee.signal_mask()?;
        tracee.report_system_calls()?;
        let mut borrowed = Self {
            tracee,
            registers,
            extended,
            mask,
            memory,
            gadgets,
            frame: 0,
            own_frame: 0,
            stack: 0,
            enters_call: false,
            is_restored: false,
        };
        borrowed.own_frame = borrowed.write_frame(borrowed.registers.rsp - RED_ZONE)?;
        borrowed.frame = borrowed.own_frame;
        let (protection, flags) = (
            (libc::PROT_READ | libc::PROT_WRITE) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
        );
        let arguments = [0, STACK_BYTES, protection, flags, u64::MAX, 0];
        borrowed.stack = borrowed.system_call(libc::SYS_mmap, arguments)?;
        borrowed.frame = borrowed.write_frame(borrowed.stack + STACK_BYTES)?;
        Ok(borrowed)
    }

    /// Writes a frame that ends below `top`; where it is.
    fn write_frame(&self, top: u64) -> Result<u64, Fault> {
        let mut registers = self.registers;
        if let Some(call) = sleeps_in(&registers) {
            // The kernel would not restart it after rt_sigreturn: the frame does, from the
            // beginning.
            registers.rip -= 2;
            registers.rax = call as u64;
        }
        let (at, bytes) = signal_frame::build(
            top,
            self.gadgets.sigreturn,
            &registers,
            self.mask,
            &self.extended.0,
        );
        self.memory.write(at, &bytes).map_err(Fault::from)?;
        Ok(at)
    }

    /// Puts a text where calls can read it: at most one at a time.
    pub fn text(&self, text: &str) -> Result<u64, Fault> {
        self.bytes(&[text.as_bytes(), &[0]].concat())
    }

    /// The same for bytes, which calls may also write to; where they are.
    pub fn bytes(&self, bytes: &[u8]) -> Result<u64, Fault> {
        self.memory.write(self.stack, bytes).map_err(Fault::from)?;
        Ok(self.stack)
    }

    /// Makes a system call; what the kernel refuses is a fault.
    pub fn system_call(&mut self, number: i64, arguments: [u64; 6]) -> Result<u64, Fault> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = user_regs_struct {
            rip: self.gadgets.syscall,
            rsp: self.frame,
            rax: number as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.clean()
        };
        self.set_out(&registers)?;
        // Not by single steps: the flag that makes them would stay set without us.
        let behind = self.gadgets.syscall + 2;
        let is_at = |stop, registers: &user_regs_struct| {
            stop == Stop::SystemCall && registers.rip == behind
        };
        self.run(is_at)?;
        let after = self.run(is_at)?;
        let result = after.rax as i64;
        match (-4095..0).contains(&result) {
            true => Err(Fault::Refused(std::io::Error::from_raw_os_error(
                -result as i32,
            ))),
            false => Ok(after.rax),
        }
    }

    /// Calls a function; what it returns is not known.
    pub fn call(&mut self, function: u64, first: u64, second: u64) -> Result<(), Fault> {
        let registers = user_regs_struct {
            rip: function,
            rsp: self.frame,
            rbp: 0,
            rax: 0,
            rdi: first,
            rsi: second,
            ..self.clean()
        };
        self.set_out(&registers)?;
        let end = self.gadgets.sigreturn + SIGRETURN.len() as u64;
        self.run(|stop, registers| {
            stop == Stop::SystemCall
                && registers.rip == end
                && registers.orig_rax == libc::SYS_rt_sigreturn as u64
        })?;
        self.enters_call = true; // of rt_sigreturn, which is not made
        Ok(())
    }

    /// First the registers, then the mask: if we are gone in between, rt_sigreturn sets the old
    /// one.
    fn set_out(&mut self, registers: &user_regs_struct) -> Result<(), Fault> {
        self.tracee.set_registers(registers)?;
        self.tracee.set_signal_mask(ALL_BUT_FAULTS)
    }

    /// Its registers without what belongs to the system call that it was in: the kernel would
    /// restart that one.
    fn clean(&self) -> user_regs_struct {
        const DIRECTION_AND_TRAP: u64 = 0x500;
        user_regs_struct {
            orig_rax: u64::MAX,
            eflags: self.registers.eflags & !DIRECTION_AND_TRAP,
            ..self.registers
        }
    }

    /// Lets it go on until it has stopped where `is_end` says.
    fn run(
        &mut self,
        is_end: impl Fn(Stop, &user_regs_struct) -> bool,
    ) -> Result<user_regs_struct, Fault> {
        let mut until = Instant::now() + CALL_LIMIT;
        let mut has_timed_out = false;
        self.enters_call = false;
        self.tracee.resume_to_system_call(0)?;
        loop {
            let stop = match self.tracee.wait(until) {
                Ok(stop) => stop,
                // It waits for a lock, maybe one of its own: only its old state gets it out.
                Err(Fault::TimedOut) if !has_timed_out => {
                    has_timed_out = true;
                    until = Instant::now() + STOP_LIMIT;
                    self.tracee.interrupt()?;
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            match stop {
                Stop::Event if has_timed_out => return Err(Fault::Endless),
                // It stops all threads but this one, which does so when we have let it go.
                Stop::Signal(libc::SIGSTOP) => {
                    self.tracee.resume_to_system_call(libc::SIGSTOP)?;
                    continue;
                }
                Stop::Signal(signal) => return Err(crashed(signal)),
                Stop::Event => {}
                Stop::SystemCall => {
                    let registers = self.tracee.registers()?;
                    if is_end(stop, &registers) {
                        return Ok(registers);
                    }
                }
            }
            self.tracee.resume_to_system_call(0)?;
        }
    }

    /// Maps executable memory of a process so near to an address that a jump of five bytes reaches
    /// it; `None` = there is no room.
    pub fn map_code(&mut self, pid: u32, near: u64, bytes: u64) -> Result<Option<u64>, Fault> {
        const FIXED_NOREPLACE: u64 = 0x10_0000;
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64 | FIXED_NOREPLACE;
        let mut tries = 0..MOST_TRIES;
        loop {
            let Some(hint) = gap(&regions(pid)?, near, bytes, REACH) else {
                return Ok(None);
            };
            let arguments = [hint, bytes, protection, flags, u64::MAX, 0];
            match self.system_call(libc::SYS_mmap, arguments) {
                // Kernels before 4.17 do not know the flag, and may map elsewhere.
                Ok(at) => return Ok((at.abs_diff(near) < REACH).then_some(at)),
                // Another thread has mapped something there just now.
                Err(Fault::Refused(e))
                    if e.raw_os_error() == Some(libc::EEXIST) && tries.next().is_some() => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Puts everything back; the thread goes on.
    pub fn give_back(mut self) -> Result<(), Fault> {
        let stack = std::mem::take(&mut self.stack);
        if stack != 0 {
            self.frame = self.own_frame;
            // The memory stays if this fails: nothing that the program sees.
            let _ = self.system_call(libc::SYS_munmap, [stack, STACK_BYTES, 0, 0, 0, 0]);
        }
        self.restore()
    }

    fn restore(&mut self) -> Result<(), Fault> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        if self.enters_call {
            let none = user_regs_struct {
                orig_rax: u64::MAX,
                ..self.tracee.registers()?
            };
            self.tracee.set_registers(&none)?;
            self.run(|stop, _| stop == Stop::SystemCall)?;
        }
        // Only from a stop by an interruption does the kernel restart a system call, or make its
        // end known to a signal handler.
        self.tracee.interrupt()?;
        self.tracee.set_extended_state(&mut self.extended)?;
        self.tracee.set_signal_mask(self.mask)?;
        self.tracee.set_registers(&self.registers)?;
        self.tracee.resume(0)?;
        self.tracee.wait_interrupted(Instant::now() + STOP_LIMIT)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // It fails only if the thread is gone.
        let _ = self.restore();
    }
}

fn crashed(signal: i32) -> Fault {
    Fault::Refused(std::io::Error::other(format!(
        "a call in it ended with signal {signal}"
    )))
}
