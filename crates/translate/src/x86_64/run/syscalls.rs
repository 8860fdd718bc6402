//! System calls of translated code.

use super::super::regs::Slot;
use super::dispatch::{self, Next, END_PROCESS};
use super::entry::Frame;
use super::record;
use super::sys;
use super::tables::Exit;
use super::thread::Thread;
use super::translator::{met, Met, TRANSLATOR};

/// What a system call does to the translator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    None,
    /// It makes, replaces or ends a process or thread, or goes elsewhere: it is not made from translated code.
    Process,
    /// It changes [lo, hi) of the address space.
    Memory(u64, u64),
}

fn effect(frame: &Frame) -> Effect {
    const MAP_FIXED: u64 = 0x10;
    const REMAP_FIXED: u64 = 2;
    let range = |lo: u64, bytes: u64| Effect::Memory(lo & !0xfff, lo.saturating_add(bytes));
    match frame.rax {
        sys::CLONE
        | sys::CLONE3
        | sys::FORK
        | sys::VFORK
        | sys::EXECVE
        | sys::EXECVEAT
        | sys::EXIT
        | sys::EXIT_GROUP
        | sys::RT_SIGRETURN
        | sys::ARCH_PRCTL => Effect::Process,
        sys::MUNMAP | sys::MPROTECT | sys::PKEY_MPROTECT | sys::MADVISE | sys::REMAP_FILE_PAGES => {
            range(frame.rdi, frame.rsi)
        }
        sys::MMAP if frame.r10 & MAP_FIXED != 0 => range(frame.rdi, frame.rsi),
        sys::MREMAP if frame.r10 & REMAP_FIXED != 0 => Effect::Memory(0, u64::MAX),
        sys::MREMAP => range(frame.rdi, frame.rsi),
        sys::SHMDT => Effect::Memory(frame.rdi, u64::MAX),
        _ => Effect::None,
    }
}

/// A system call is to be made; its block is whole in the record but for the event.
pub fn system(thread: Thread, frame: &mut Frame, exit: &'static Exit) -> Next {
    record::system_call(thread, frame.rax);
    match effect(frame) {
        Effect::None => Next::Run(exit.patch),
        Effect::Process => Next::Leave {
            end: END_PROCESS,
            detail: frame.rax,
        },
        Effect::Memory(lo, hi) if met(lo, hi) == Met::Never => Next::Run(exit.patch),
        Effect::Memory(lo, hi) => {
            // All signals are blocked: one in between would find the call made and not made.
            let arguments = [
                frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9,
            ];
            // SAFETY: the program's own call.
            frame.rax = unsafe { sys::call(frame.rax, arguments) } as u64;
            frame.rcx = exit.ip + 2;
            frame.r11 = frame.flags;
            thread.set(Slot::Target, exit.ip + 2);
            invalidate(lo, hi);
            dispatch::go(thread, None)
        }
    }
}

/// Something has changed in [lo, hi).
pub fn invalidate(lo: u64, hi: u64) {
    let met = met(lo, hi);
    if met != Met::Never {
        TRANSLATOR.with(|translator| translator.invalidate(met == Met::Translated));
    }
}
