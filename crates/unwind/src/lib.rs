//! Call stacks from copies of registers and stack memory, by call frame information.
//!
//! A profiler that copies the registers of a thread and the top of its stack in the kernel, where walking is slow and
//! wrong (Debian's C library has no frame pointers), walks them here, later and outside of the process. An
//! [`Unwinder`] stands for one process image. It reads the process's map when it needs one, reads what
//! each mapped file says about its frames (`.eh_frame`, else `.debug_frame`; of Go beside C both), and gives every stack
//! a number: equal stacks have equal numbers. Code without such information (generated code, stripped Go) is walked by
//! frame pointers, and the walk goes on with call frame information as soon as it is back in a file that has it. Code that
//! OpenJDK has generated is walked, and named, by what its virtual machine knows.
//!
//! What is not there is not guessed: a copy that ends early gives the leaf-most frames, and so does a frame whose
//! caller is in no executable mapping.

#![forbid(unsafe_code)]

mod code;
mod files;
mod functions;
mod go;
mod hotspot;
mod image;
mod imports;
mod intern;
mod mapped;
mod maps;
mod open;
mod reads;
mod unwinder;
mod walk;

pub use code::{Code, Function};
pub use files::{FileState, Files, KeptFile};
pub use mapped::{Mapped, MappedFile};
pub use reads::Around;
pub use unwinder::{Unwinder, Unwound};

/// Registers of a thread's user mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Regs {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer: where the copy of the stack begins.
    pub sp: u64,
    /// Frame pointer: rbp, x29.
    pub fp: u64,
    /// Link register; 0 where the machine has none.
    pub lr: u64,
}

/// A frame of a stack, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Instruction pointer; of all but the innermost frame the address after a call.
    pub pc: u64,
    /// It is the innermost one.
    pub is_leaf: bool,
    /// Stack pointer of its caller after it has returned: the canonical frame address.
    pub end: u64,
}

/// Frames of a stack that are kept.
pub const MAX_FRAMES: usize = 128;
