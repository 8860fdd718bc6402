//! The profile file: its data, reading, writing and validation. Pure: bytes in, data out.

#![forbid(unsafe_code)]

mod data;

pub use data::*;
