//! What the program's state is where a signal has arrived.
//!
//! That is told from the thread's slots, which another section may change. So none begins until it has been told, not
//! in a handler either that interrupts the first one before it has come to that: signals that arrive together are
//! delivered together, and the first handler to run is then the last one that was called.

use core::arch::global_asm;
use core::ptr;

use super::super::marks::{self, Ip, Place, Record, State};
use super::super::regs::{Reg, Slot};
use super::entry::{self, Frame, FRAME_BELOW, VECTORS_BYTES};
use super::record;
use super::region::{self, Piece};
use super::tables;
use super::thread::{self, Thread};

const END_SIGNAL: u32 = 3;

extern "C" {
    fn cv_tr_signal();
    static cv_tr_signal_end: u8;
}

// Leaves the handler's arguments where they are: `first_interrupted` reads them.
global_asm!(
    ".text",
    ".balign 16",
    ".globl cv_tr_signal",
    ".hidden cv_tr_signal",
    ".type cv_tr_signal, @function",
    "cv_tr_signal:",
    "mov rax, qword ptr [rip + cv_tr@GOTTPOFF]",
    "cmp qword ptr fs:[rax + {interrupted}], 0",
    "jne 1f",
    "mov qword ptr fs:[rax + {interrupted}], rdx",
    "1:",
    "jmp cv_tr_signalled",
    ".globl cv_tr_signal_end",
    ".hidden cv_tr_signal_end",
    "cv_tr_signal_end:",
    ".size cv_tr_signal, . - cv_tr_signal",
    interrupted = const Slot::Interrupted as i32,
);

/// `enum cv_tr_found`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Found {
    Program = 0,
    Ours = 1,
    AtWork = 2,
}

/// `ucontext_t` as far as it matters.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
    registers: [u64; 23],
    vectors: *mut u8,
}

const RSP: usize = 15;
const RIP: usize = 16;

/// Place of a register in a context, by its number in an instruction.
const PLACES: [usize; 16] = [13, 14, 12, 11, RSP, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

impl Context {
    fn get(&self, register: Reg) -> u64 {
        self.registers[PLACES[usize::from(register.0 & 15)]]
    }
}

fn address(label: *const u8) -> u64 {
    label as u64
}

/// Whether an address is in a cache or in the translator's assembly.
pub fn has(pc: u64) -> bool {
    let end = address(&raw const entry::cv_tr_slow_end);
    region::has(pc) || (entry::cv_tr_enter as *const () as u64..end).contains(&pc)
}

/// The context of the first of several signals that have arrived together: each next one has interrupted the handler
/// of the one before at its first instructions, with the handler's arguments in their registers.
fn first_interrupted(context: &mut Context) -> &mut Context {
    let entrance = cv_tr_signal as *const () as u64..address(&raw const cv_tr_signal_end);
    let mut first = context;
    while entrance.contains(&first.registers[RIP]) {
        // SAFETY: the third argument of a handler, which nobody else uses while the handler has not got further.
        first = unsafe { &mut *(first.get(Reg::RDX) as *mut Context) };
    }
    first
}

/// Makes of a context what the program would have.
pub fn guest_context(signal: i32, context: &mut Context) -> Found {
    let thread = Thread::current();
    let own = ptr::from_mut(context) as u64;
    let first = first_interrupted(context);
    let interrupted = thread.get(Slot::Interrupted);
    // 0: the handler of a later signal has done it for this one too.
    if ![0, own, ptr::from_mut(first) as u64].contains(&interrupted) {
        return Found::AtWork;
    }
    let ours = restore(thread, first);
    let mode = thread.mode();
    if ours {
        thread.set_mode(thread::OFF);
    }
    thread.set(Slot::Interrupted, 0);
    if !ours {
        return Found::Program;
    }
    if mode != thread::OFF {
        extern "C" {
            fn cv_tr_left(end: u32, detail: u64);
        }
        // SAFETY: the agent's function; it closes the section of this thread.
        unsafe { cv_tr_left(END_SIGNAL, signal as u64) };
    }
    Found::Ours
}

/// False = the context is the program's already.
fn restore(thread: Thread, context: &mut Context) -> bool {
    let pc = context.registers[RIP];
    let saved = address(&raw const entry::cv_tr_slow_saved);
    let last = address(&raw const entry::cv_tr_slow_last);
    let end = address(&raw const entry::cv_tr_slow_end);
    let slow = entry::cv_tr_slow as *const () as u64;
    if let Some(piece) = region::find(pc) {
        of_piece(thread, context, piece);
    } else if thread.get(Slot::Busy) != 0 || (saved..last).contains(&pc) {
        of_frame(thread, context);
    } else if (slow..saved).contains(&pc) {
        context.registers[RSP] = thread.get(Slot::Stack);
        context.registers[RIP] = at_exit(thread);
    } else if (last..end).contains(&pc)
        || (entry::cv_tr_enter as *const () as u64..slow).contains(&pc)
    {
        context.registers[RIP] = thread.get(Slot::Target);
    } else {
        return false;
    }
    thread.set(Slot::Busy, 0);
    thread.set(Slot::Exit, 0);
    true
}

/// The record and the address at the exit that has been taken.
fn at_exit(thread: Thread) -> u64 {
    match tables::exit(thread.get(Slot::Exit)) {
        Some(exit) => {
            record::settle(thread, exit);
            if exit.kind == super::super::emit::ExitKind::System {
                record::missing(thread, exit.piece, exit.executed);
            }
            exit.ip
        }
        None => thread.get(Slot::Target),
    }
}

fn of_piece(thread: Thread, context: &mut Context, piece: &Piece) {
    let offset = (context.registers[RIP] - piece.start) as usize;
    let Some(mark) = marks::find(piece.marks, offset) else {
        return;
    };
    let Some(state) = piece.states.get(usize::from(mark.state)) else {
        return;
    };
    restore_record(thread, context, piece, state, mark.executed);
    context.registers[RIP] = match state.ip {
        Ip::Here => piece.ip + u64::from(mark.at),
        Ip::Address(ip) => ip,
        Ip::Target => thread.get(Slot::Target),
        Ip::Exit => at_exit(thread),
    };
    let found = context.registers;
    for number in 0..16 {
        let place = PLACES[usize::from(number)];
        match state.place_of(Reg(number)) {
            None => {}
            Some(Place::Slot(offset)) => context.registers[place] = thread.at_offset(offset),
            Some(Place::Register(spare)) => {
                context.registers[place] = found[PLACES[usize::from(spare.0 & 15)]]
            }
        }
    }
}

fn restore_record(thread: Thread, context: &Context, piece: &Piece, state: &State, executed: u16) {
    let pointer = context.get(state.pointer);
    match state.record {
        Record::Before | Record::ExitStored => {}
        Record::Begun => record::cut(thread, piece, pointer, executed),
        Record::Whole => {
            thread.set(Slot::At, pointer);
            record::missing(thread, piece, executed);
        }
        Record::Stored => record::missing(thread, piece, executed),
        Record::Exit => thread.set(Slot::At, pointer),
    }
}

/// The translator is at work: what it has saved.
fn of_frame(thread: Thread, context: &mut Context) {
    let stack = thread.get(Slot::Stack);
    let at = stack - FRAME_BELOW;
    // SAFETY: where `cv_tr_slow` has put the registers.
    let frame = unsafe { &*(at as *const Frame) };
    let pc = context.registers[RIP];
    let vectors = address(&raw const entry::cv_tr_slow_vectors_saved)
        ..address(&raw const entry::cv_tr_slow_vectors_back);
    if (thread.get(Slot::Busy) != 0 || vectors.contains(&pc)) && !context.vectors.is_null() {
        const XMM: usize = 160; // in the area of fxsave
        const HEADER: usize = 512; // of xsave behind it: which parts are there
        const SSE: u64 = 2;
        let from = (at - VECTORS_BYTES) & !15;
        // SAFETY: 16 registers of 16 bytes, saved by `cv_tr_slow`, into the kernel's signal frame, which has a header if
        // the processor has xsave, as `cv_tr_init` has made sure.
        unsafe {
            core::ptr::copy_nonoverlapping(
                from as *const u8,
                context.vectors.add(XMM),
                VECTORS_BYTES as usize,
            );
            let parts = context.vectors.add(HEADER).cast::<u64>();
            parts.write_unaligned(parts.read_unaligned() | SSE);
        }
    }
    let ip = at_exit(thread);
    context.registers[..18].copy_from_slice(&[
        frame.r8,
        frame.r9,
        frame.r10,
        frame.r11,
        frame.r12,
        frame.r13,
        frame.r14,
        frame.r15,
        frame.rdi,
        frame.rsi,
        frame.rbp,
        frame.rbx,
        frame.rdx,
        frame.rax,
        frame.rcx,
        stack,
        ip,
        frame.flags,
    ]);
}
