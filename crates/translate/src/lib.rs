//! Runs a program's own code between lock and unlock and writes down every memory operand (x86-64).
//!
//! The tracing agent links it as a static library, made by
//!
//! ```text
//! cargo rustc -p convoy-translate --lib --crate-type staticlib --no-default-features --features agent
//!     --profile agent --locked --target-dir DIR      # DIR/agent/libconvoy_translate.a
//! ```
//!
//! and linked behind the agent's objects with `-Wl,--gc-sections`, which leaves the functions of
//! `agent/src/cv_translate.h` and what they need. The agent brings `cv_tr`, `cv_tr_left`, `memcpy`, `memmove`, `memset` and
//! `memcmp`; nothing else is undefined.
#![no_std]
extern crate alloc;
#[cfg(feature = "agent")]
mod stub {
    use core::panic::PanicInfo;
    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        loop {}
    }
    struct A;
    unsafe impl core::alloc::GlobalAlloc for A {
        unsafe fn alloc(&self, _: core::alloc::Layout) -> *mut u8 {
            core::ptr::null_mut()
        }
        unsafe fn dealloc(&self, _: *mut u8, _: core::alloc::Layout) {}
    }
    #[global_allocator]
    static G: A = A;
    #[no_mangle]
    extern "C" fn cv_tr_init(_h: *const u8, why: *mut *const u8) -> bool {
        unsafe {
            *why = c"the translator is not finished".as_ptr().cast();
        }
        let mut d = iced_x86::Decoder::new(64, &[0x90], 0);
        let i = d.decode();
        let mut f = iced_x86::InstructionInfoFactory::new();
        f.info(&i).used_memory().len() > 99
    }
    #[no_mangle]
    extern "C" fn cv_tr_thread_begin() -> bool {
        false
    }
    #[no_mangle]
    extern "C" fn cv_tr_thread_end() {}
    #[no_mangle]
    extern "C" fn cv_tr_forked(_f: *const u8) {}
    #[no_mangle]
    extern "C" fn cv_tr_enter() {}
    #[no_mangle]
    extern "C" fn cv_tr_has(_pc: u64) -> bool {
        false
    }
    #[no_mangle]
    extern "C" fn cv_tr_guest_context(_s: i32, _c: *mut u8) -> bool {
        false
    }
    #[no_mangle]
    extern "C" fn cv_tr_invalidate(_lo: u64, _hi: u64) {}
}
