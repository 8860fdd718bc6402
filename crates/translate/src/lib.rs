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
//! `agent/src/cv_translate.h` and what they need. The agent brings `cv_tr` and `cv_tr_left`; nothing else is undefined:
//! the translator calls no function of a library.
//!
//! # How it works
//!
//! A block of the program (`decode`) is written anew into a cache near it (`emit`): its own instructions, and between
//! them some that store the address of every memory operand in the thread's record. The program's registers stay where
//! they are but for two that the block does not use, flags and the red zone are left alone, and calls push the
//! original return addresses: unwinding, exceptions and `longjmp` work unchanged. Direct branches are led from block to
//! block by patching one aligned word; indirect ones look their target up in a table of the thread (`run::thread`).
//! What is not known yet comes to `run::dispatch`, on a stack of the translator's own and with all signals blocked.
//!
//! For a signal that arrives in the cache, `marks` says at each place what the program's state is. Code is translated
//! only where its mapping is private, readable and not writable (`run::maps`); when such a mapping changes, all
//! translations are given up (`run::translator`).
#![no_std]
// What runs the code is left out where the crate is not the agent's: it needs the agent's symbols.
#![cfg_attr(not(feature = "agent"), allow(dead_code))]

extern crate alloc;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(feature = "agent", not(target_arch = "x86_64")))]
mod elsewhere;
