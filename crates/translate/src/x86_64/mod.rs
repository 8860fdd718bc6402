//! The translator for x86-64.

mod access;
mod asm;
mod decode;
mod emit;
mod lanes;
mod marks;
mod regs;
#[cfg(feature = "agent")]
mod run;
