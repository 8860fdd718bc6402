//! The functions of agent/src/cv_translate.h.

use alloc::vec::Vec;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::ffi::c_char;
use core::sync::atomic::{AtomicU64, Ordering};

use super::super::access::Machine;
use super::dispatch;
use super::entry;
use super::heap::Heap;
use super::signals::{self, Context, Found};
use super::syscalls;
use super::thread::Thread;
use super::translator::{self, Translator, TRANSLATOR};
use super::{region, sys, tables};

#[global_allocator]
static HEAP: Heap = Heap::new();

/// `struct cv_tr_host`.
#[derive(Debug)]
#[repr(C)]
pub struct Host {
    file: u64,
    agent_lo: u64,
    agent_hi: u64,
    stops: *const u64,
    stops_count: u32,
    values: bool,
}

/// The host's, for the child of a fork.
static HOST: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn machine() -> Result<Machine, &'static core::ffi::CStr> {
    let features = __cpuid(1);
    if features.ecx & 1 << 27 == 0 {
        return Err(c"the processor or the system has no xsave");
    }
    if __cpuid(0).eax < 0xd {
        return Err(c"the processor does not tell the size of its registers");
    }
    Ok(Machine {
        xsave_bytes: __cpuid_count(0xd, 0).ebx,
        bmi2: __cpuid_count(7, 0).ebx & 1 << 8 != 0,
        values: HOST[4].load(Ordering::Relaxed) != 0,
    })
}

fn start(file: u64) -> Result<(), &'static core::ffi::CStr> {
    let machine = machine()?;
    if sys::has_shadow_stack() {
        return Err(c"the program runs with a shadow stack of return addresses");
    }
    if !tables::begin() {
        return Err(c"there is no memory for the translator's tables");
    }
    let [agent_lo, agent_hi, stops, stops_count, _] = &HOST;
    let (agent_lo, agent_hi) = (
        agent_lo.load(Ordering::Relaxed),
        agent_hi.load(Ordering::Relaxed),
    );
    entry::XSAVE_BYTES.store(
        u64::from(machine.xsave_bytes).next_multiple_of(64),
        Ordering::Relaxed,
    );
    let mut translator = Translator::new(file, machine, entry::cv_tr_slow as *const () as u64);
    let Some((_, [enter, hook, tail])) = translator.region(agent_lo, agent_hi, 64 << 20) else {
        return Err(c"the system refuses memory that is writable and executable");
    };
    entry::ENTER.store(enter, Ordering::Relaxed);
    entry::TAIL.store(tail, Ordering::Relaxed);
    dispatch::HOOK.store(hook, Ordering::Relaxed);
    dispatch::AGENT[0].store(agent_lo, Ordering::Relaxed);
    dispatch::AGENT[1].store(agent_hi, Ordering::Relaxed);
    let count = stops_count.load(Ordering::Relaxed) as usize;
    let list = stops.load(Ordering::Relaxed) as *const u64;
    // SAFETY: the host's list, which cv_translate.h asks to be kept.
    let stops = if count == 0 {
        &[][..]
    } else {
        unsafe { core::slice::from_raw_parts(list, count) }
    };
    dispatch::set_stops(Vec::from(stops));
    // SAFETY: before the first thread is made, or in the child of a fork.
    unsafe { TRANSLATOR.replace(translator) };
    Ok(())
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_init(host: &Host, why: &mut *const c_char) -> bool {
    HOST[0].store(host.agent_lo, Ordering::Relaxed);
    HOST[1].store(host.agent_hi, Ordering::Relaxed);
    HOST[2].store(host.stops as u64, Ordering::Relaxed);
    HOST[3].store(u64::from(host.stops_count), Ordering::Relaxed);
    HOST[4].store(u64::from(host.values), Ordering::Relaxed);
    let mask = sys::block_signals();
    let started = start(host.file);
    sys::restore_signals(mask);
    match started {
        Ok(()) => true,
        Err(message) => {
            *why = message.as_ptr();
            false
        }
    }
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_thread_begin() -> bool {
    dispatch::begin(Thread::current())
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_thread_end() {
    let thread = Thread::current();
    TRANSLATOR.with(|translator| translator.remove_thread(thread));
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_forked(file: u64) {
    let mask = sys::block_signals();
    let thread = Thread::current();
    // SAFETY: the only thread of the child is here.
    unsafe { region::abandon() };
    HEAP.abandon();
    translator::forget_met();
    thread.forget();
    thread.set_generation(0);
    if start(file).is_err() {
        super::lock::BROKEN.store(true, Ordering::SeqCst);
    }
    sys::restore_signals(mask);
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_has(pc: u64) -> bool {
    signals::has(pc)
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_guest_context(signal: i32, context: &mut Context) -> Found {
    signals::guest_context(signal, context)
}

/// See cv_translate.h.
#[no_mangle]
extern "C" fn cv_tr_invalidate(lo: u64, hi: u64) {
    syscalls::invalidate(lo, hi);
}
