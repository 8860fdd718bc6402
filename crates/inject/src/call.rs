//! Calls in another process: a stopped thread runs a function, and is then put back as it was.

use std::time::{Duration, Instant};

use libc::user_regs_struct;

use crate::memory::Memory;
use crate::tracee::{ExtendedState, Fault, Stop, Tracee, ALL_BUT_FAULTS, STOP_LIMIT};

/// Longest time that a call may take: it may wait for locks that other threads hold.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Of a stack of ours: dlopen needs some ten KiB.
const STACK_BYTES: u64 = 256 << 10;

/// `int3`, at which a call returns.
const TRAP: u8 = 0xcc;

/// A thread that runs calls for us.
///
/// All signals are blocked meanwhile: those to the process go to other threads, those to this thread wait.
/// The thread's own stack is left alone.
#[derive(Debug)]
pub(crate) struct Borrowed {
    tracee: Tracee,
    registers: user_regs_struct,
    extended: ExtendedState,
    mask: u64,
    memory: Memory,
    /// Address of a `syscall` instruction.
    syscall: u64,
    /// Our stack, 0 = none yet.
    stack: u64,
    /// Where calls return to.
    end: u64,
    is_restored: bool,
}

impl Borrowed {
    /// Takes a stopped thread. `syscall`: address of a `syscall` instruction.
    pub fn new(tracee: Tracee, memory: Memory, syscall: u64) -> Result<Self, Fault> {
        let registers = tracee.registers()?;
        let extended = tracee.extended_state()?;
        let mask = tracee.signal_mask()?;
        tracee.set_signal_mask(ALL_BUT_FAULTS)?;
        let mut borrowed = Self {
            tracee,
            registers,
            extended,
            mask,
            memory,
            syscall,
            stack: 0,
            end: 0,
            is_restored: false,
        };
        borrowed.make_stack()?;
        Ok(borrowed)
    }

    fn make_stack(&mut self) -> Result<(), Fault> {
        let (read_write, private) = (
            (libc::PROT_READ | libc::PROT_WRITE) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
        );
        let none = u64::MAX; // no file
        let arguments = [0, STACK_BYTES, read_write, private, none, 0];
        self.stack = self.system_call(libc::SYS_mmap, arguments)?;
        // A page of its own for the code that calls return to.
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let arguments = [0, 4096, code, private, none, 0];
        self.end = self.system_call(libc::SYS_mmap, arguments)?;
        self.memory.write(self.end, &[TRAP]).map_err(Fault::Refused)
    }

    /// Puts a text where calls can read it: at most one at a time.
    pub fn text(&self, text: &str) -> Result<u64, Fault> {
        let bytes = [text.as_bytes(), &[0]].concat();
        self.memory.write(self.stack, &bytes).map_err(Fault::Refused)?;
        Ok(self.stack)
    }

    /// Makes a system call; what the kernel refuses is a fault.
    pub fn system_call(&self, number: i64, arguments: [u64; 6]) -> Result<u64, Fault> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = user_regs_struct {
            rip: self.syscall,
            rax: number as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.clean()
        };
        self.tracee.set_registers(&registers)?;
        let after = self.run_to(self.syscall + 2, Tracee::step)?;
        let result = after.rax as i64;
        match (-4095..0).contains(&result) {
            true => Err(Fault::Refused(std::io::Error::from_raw_os_error(-result as i32))),
            false => Ok(after.rax),
        }
    }

    /// Calls a function.
    pub fn call(&self, function: u64, first: u64, second: u64) -> Result<u64, Fault> {
        // As after a call: 8 below a multiple of 16.
        let rsp = self.stack + STACK_BYTES - 64 - 8;
        self.memory.put(rsp, &self.end).map_err(Fault::Refused)?;
        let registers = user_regs_struct {
            rip: function,
            rsp,
            rbp: 0,
            rax: 0,
            rdi: first,
            rsi: second,
            ..self.clean()
        };
        self.tracee.set_registers(&registers)?;
        let after = self.run_to(self.end + 1, |tracee| tracee.resume(0))?;
        Ok(after.rax)
    }

    /// Its registers without what belongs to the system call that it was in: the kernel would restart that one.
    fn clean(&self) -> user_regs_struct {
        const DIRECTION_AND_TRAP: u64 = 0x500;
        user_regs_struct {
            orig_rax: u64::MAX,
            eflags: self.registers.eflags & !DIRECTION_AND_TRAP,
            ..self.registers
        }
    }

    /// Waits for the trap behind which `rip` is expected. `resume`: how the thread goes on.
    fn run_to(
        &self,
        rip: u64,
        resume: impl Fn(&Tracee) -> Result<(), Fault>,
    ) -> Result<user_regs_struct, Fault> {
        let mut until = Instant::now() + CALL_LIMIT;
        let mut has_timed_out = false;
        resume(&self.tracee)?;
        loop {
            match self.tracee.wait(until) {
                Ok(Stop::Signal(libc::SIGTRAP)) => {
                    let registers = self.tracee.registers()?;
                    return match registers.rip == rip {
                        true => Ok(registers),
                        false => Err(crashed(libc::SIGTRAP)),
                    };
                }
                // It waits for a lock, maybe one of its own: only its old state gets it out.
                Ok(Stop::Event) if has_timed_out => return Err(Fault::TimedOut),
                // The process was stopped; it is so again when we have let it go.
                Ok(Stop::Event) => resume(&self.tracee)?,
                Ok(Stop::Signal(signal)) => return Err(crashed(signal)),
                Err(Fault::TimedOut) if !has_timed_out => {
                    has_timed_out = true;
                    until = Instant::now() + STOP_LIMIT;
                    self.tracee.interrupt()?;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Puts everything back; the thread goes on.
    pub fn give_back(mut self) -> Result<(), Fault> {
        for (at, bytes) in [(self.end, 4096), (self.stack, STACK_BYTES)] {
            if at != 0 {
                // The memory stays if this fails: nothing that the program sees.
                let _ = self.system_call(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0]);
            }
        }
        self.restore()
    }

    fn restore(&mut self) -> Result<(), Fault> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        self.tracee.set_extended_state(&mut self.extended)?;
        self.tracee.set_signal_mask(self.mask)?;
        self.tracee.set_registers(&self.registers)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // It fails only if the thread is gone.
        let _ = self.restore();
    }
}

fn crashed(signal: i32) -> Fault {
    Fault::Refused(std::io::Error::other(format!("a call in it ended with signal {signal}")))
}
