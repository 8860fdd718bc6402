//! The nouns that every collector fills and every analysis reads. Pure: no clock, no environment,
//! no I/O.

#![forbid(unsafe_code)]

pub mod finding;
mod nouns;

pub use nouns::*;
