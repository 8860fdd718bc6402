//! Re-execution of sampled critical sections, in either order, from the values that they began
//! with.
//!
//! PerfPlay (CGO'15, section 3.2) calls a conflicting pair benign if both orders leave the same
//! result. The tracer of a second run notes for a sampled section the registers at its begin and
//! every value that it loads. That is all that its instructions depend on, so that they can be
//! executed again: on the observed values ([`observe`]), and behind the other section of a pair
//! ([`compare`]).
//!
//! Nothing is assumed: a section counts only if its re-execution loads exactly the values that were
//! recorded, from the same addresses, in the same number of instructions. An instruction, a value
//! or code that is not known makes the result unknown ([`Stop`]), never equal.

mod conditions;
mod cpu;
mod flags;
mod integer;
mod memory;
mod pair;
#[cfg(test)]
mod tests;
mod vector;

pub use cpu::{Code, Decoded};
pub use pair::{compare, observe, Observed, Outcome};

/// Why an execution ends without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// An instruction whose effect is not modelled: vectors, system calls, clocks.
    Unsupported,
    /// A register, flag or byte of memory whose value was not observed.
    UnknownValue,
    /// The code at an address is not in a file.
    NoCode,
    /// More instructions than a re-execution may take.
    TooLong,
    /// It does not give back what was recorded, or ends elsewhere.
    Diverged,
}
