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
// What runs the code is left out where the crate is not the agent's: it needs the agent's symbols.
#![cfg_attr(not(feature = "agent"), allow(dead_code))]

extern crate alloc;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(feature = "agent", not(target_arch = "x86_64")))]
mod elsewhere;
