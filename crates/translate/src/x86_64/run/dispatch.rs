//! What translated code comes to the translator for: a block that it has not met, a system call, a full record.

use core::sync::atomic::{AtomicU64, Ordering};

use alloc::vec::Vec;

use super::super::emit::ExitKind;
use super::super::regs::Slot;
use super::entry::Frame;
use super::record;
use super::region::Piece;
use super::syscalls;
use super::tables::{self, Exit};
use super::thread::{self, Thread};
use super::translator::{Refusal, GENERATION, TRANSLATOR};

/// `enum cv_section_end`.
pub const END_TOO_LONG: u64 = 2;
pub const END_PROCESS: u64 = 4;
pub const END_CODE: u64 = 5;
pub const END_NO_ROOM: u64 = 7;

/// Where the agent's text is, and the stub that leads to it.
pub static AGENT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
pub static HOOK: AtomicU64 = AtomicU64::new(0);
/// Functions at whose entry a record ends: address and count of a sorted list.
pub static STOPS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Keeps the functions at whose entry a record ends.
pub fn set_stops(mut stops: Vec<u64>) {
    stops.sort_unstable();
    let stops = stops.leak();
    STOPS[0].store(stops.as_ptr() as u64, Ordering::Relaxed);
    STOPS[1].store(stops.len() as u64, Ordering::Release);
}

fn is_stop(ip: u64) -> bool {
    let count = STOPS[1].load(Ordering::Acquire) as usize;
    // SAFETY: the list that `set_stops` leaked.
    let stops = unsafe {
        core::slice::from_raw_parts(STOPS[0].load(Ordering::Relaxed) as *const u64, count)
    };
    stops.binary_search(&ip).is_ok()
}

pub fn in_agent(ip: u64) -> bool {
    ip >= AGENT[0].load(Ordering::Relaxed) && ip < AGENT[1].load(Ordering::Relaxed)
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Translated code, at this place.
    Run(u64),
    /// The record ends so; the program goes on natively at the thread's target.
    Leave { end: u64, detail: u64 },
}

/// Called by `cv_tr_slow` before all else.
pub extern "C" fn block_signals() {
    let mask = super::sys::block_signals();
    Thread::current().set(Slot::Mask, mask);
}

/// The end of that.
pub extern "C" fn restore_signals() {
    super::sys::restore_signals(Thread::current().get(Slot::Mask));
}

/// Called by `cv_tr_slow`; 0 = go on at [`Slot::Jump`], 1 = [`finish`] comes first.
pub extern "C" fn dispatch(frame: *mut Frame) -> u32 {
    let thread = Thread::current();
    // SAFETY: the registers that `cv_tr_slow` has put on the stack.
    let frame = unsafe { &mut *frame };
    match next(thread, frame) {
        Next::Run(code) => {
            thread.set(Slot::Jump, code);
            0
        }
        Next::Leave { end, detail } => {
            leave(thread, end, detail);
            1
        }
    }
}

/// Gets ready for [`finish`].
pub fn leave(thread: Thread, end: u64, detail: u64) {
    thread.set(Slot::Value0, end);
    thread.set(Slot::Value1, detail);
    thread.set(Slot::Jump, thread.get(Slot::Target));
}

/// The record ends. All signals are blocked, the vector registers are saved.
pub extern "C" fn finish() {
    extern "C" {
        fn cv_tr_left(end: u32, detail: u64);
    }
    let thread = Thread::current();
    thread.set_mode(thread::OFF);
    // SAFETY: the agent's function; it closes the section of this thread.
    unsafe { cv_tr_left(thread.get(Slot::Value0) as u32, thread.get(Slot::Value1)) };
    restore_signals();
}

fn next(thread: Thread, frame: &mut Frame) -> Next {
    let exit = tables::exit(thread.get(Slot::Exit));
    let generation = GENERATION.load(Ordering::SeqCst);
    if thread.generation() != generation {
        if !begin(thread) {
            thread.set(Slot::Exit, 0);
            return Next::Leave {
                end: END_NO_ROOM,
                detail: 0,
            };
        }
        thread.forget();
        thread.set_generation(generation);
    }
    if let Some(exit) = exit {
        // In this order: a signal in between must not cut the record a second time.
        thread.set(Slot::Target, exit.ip);
        thread.set(Slot::Exit, 0);
        record::settle(thread, exit);
        match exit.kind {
            ExitKind::Limit => {
                return Next::Leave {
                    end: END_TOO_LONG,
                    detail: 0,
                }
            }
            ExitKind::System => return syscalls::system(thread, frame, exit),
            ExitKind::Direct | ExitKind::Native => {}
        }
    }
    go(thread, exit)
}

/// To the translation of the thread's target, which is made if need be.
pub fn go(thread: Thread, from: Option<&'static Exit>) -> Next {
    let ip = thread.get(Slot::Target);
    if thread.get(Slot::At) >= thread.get(Slot::Limit) {
        return Next::Leave {
            end: END_TOO_LONG,
            detail: 0,
        };
    }
    if in_agent(ip) {
        let hook = HOOK.load(Ordering::Relaxed);
        if from.is_none() {
            learn(thread, ip, hook);
        }
        return Next::Run(hook);
    }
    if is_stop(ip) {
        return Next::Leave {
            end: END_PROCESS,
            detail: 0,
        };
    }
    let hint = from.map(|exit| exit.piece.pair);
    let known = tables::block(ip).filter(|_| from.is_none());
    let found = match known {
        Some(piece) => Some(Ok(piece)),
        None => TRANSLATOR.with(|translator| {
            let piece = translator.translate(ip, hint)?;
            if let Some(exit) =
                from.filter(|_| thread.generation() == GENERATION.load(Ordering::Relaxed))
            {
                translator.link(exit, piece);
            }
            Ok(piece)
        }),
    };
    match found {
        Some(Ok(piece)) => {
            let piece: &Piece = piece;
            if from.is_none() {
                learn(thread, ip, piece.entry);
            }
            Next::Run(piece.entry)
        }
        Some(Err(Refusal::NoRoom)) => Next::Leave {
            end: END_NO_ROOM,
            detail: 0,
        },
        Some(Err(Refusal::Code)) | None => Next::Leave {
            end: END_CODE,
            detail: ip,
        },
    }
}

fn learn(thread: Thread, ip: u64, code: u64) {
    thread.learn(ip, code);
    // Translations may have been given up, and this table been cleared, in the midst of it.
    if thread.generation() != GENERATION.load(Ordering::SeqCst) {
        thread.forget();
    }
}

/// The thread's tables; false = there is no memory.
pub fn begin(thread: Thread) -> bool {
    let mask = super::sys::block_signals();
    let equipped = thread.equip();
    super::sys::restore_signals(mask);
    equipped
        && TRANSLATOR
            .with(|translator| translator.add_thread(thread))
            .is_some()
}
