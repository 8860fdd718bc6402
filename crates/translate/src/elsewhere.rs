//! Machines that nobody has written a translator for: `cv_tr_init` says so, and nothing else is called.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_void};
use core::panic::PanicInfo;

struct NoHeap;

// SAFETY: it gives nothing out.
unsafe impl GlobalAlloc for NoHeap {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: NoHeap = NoHeap;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[no_mangle]
extern "C" fn rust_eh_personality() {}

#[no_mangle]
extern "C" fn cv_tr_init(_host: *const c_void, why: &mut *const c_char) -> bool {
    *why = c"there is no translator for this processor: x86-64 only".as_ptr();
    false
}

#[no_mangle]
extern "C" fn cv_tr_thread_begin() -> bool {
    false
}

#[no_mangle]
extern "C" fn cv_tr_thread_end() {}

#[no_mangle]
extern "C" fn cv_tr_forked(_file: *mut c_void) {}

#[no_mangle]
extern "C" fn cv_tr_enter() {}

#[no_mangle]
extern "C" fn cv_tr_has(_pc: u64) -> bool {
    false
}

#[no_mangle]
extern "C" fn cv_tr_guest_context(_signal: i32, _context: *mut c_void) -> u32 {
    0
}

#[no_mangle]
extern "C" fn cv_tr_signal() {}

#[no_mangle]
extern "C" fn cv_tr_invalidate(_lo: u64, _hi: u64) {}
