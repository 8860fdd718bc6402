//! A failure of the translator must not become one of the program.

use core::arch::asm;
use core::panic::PanicInfo;
use core::sync::atomic::Ordering;

use super::super::regs::Slot;
use super::dispatch::{self, END_CODE};
use super::lock::BROKEN;
use super::thread::Thread;

/// The record ends, the thread goes on natively, and nothing is translated any more.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    BROKEN.store(true, Ordering::SeqCst);
    let thread = Thread::current();
    if thread.get(Slot::Busy) != 0 {
        dispatch::leave(thread, END_CODE, thread.get(Slot::Target));
        // SAFETY: the frame of the thread is intact; whatever the translator had on its own stack is given up.
        unsafe { asm!("jmp cv_tr_slow_abandon", options(noreturn)) };
    }
    // In a call of the agent: there is nothing to go back to.
    // SAFETY: it ends the process.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// The compiled core library names it in its unwind tables. Nothing here unwinds.
#[no_mangle]
extern "C" fn rust_eh_personality() {}

// The same of its landing pads, of which a few are left. Weak: libraries of unwinding go first.
core::arch::global_asm!(
    ".text",
    ".weak _Unwind_Resume",
    ".hidden _Unwind_Resume",
    ".type _Unwind_Resume, @function",
    "_Unwind_Resume:",
    "ud2",
);
