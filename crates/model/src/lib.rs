//! The nouns that every collector fills and every analysis reads. Pure: no clock, no environment,
//! no I/O.

#![forbid(unsafe_code)]

mod build;
pub mod finding;
mod kinds;
mod label;
mod nouns;
mod path;
mod wrappers;

pub use kinds::{is_blocking_acquire, kind_of};
pub use nouns::*;
