//! Tells loops that wait on the processor from loops that work, by their instructions.

#![forbid(unsafe_code)]
