//! The profile file: its data, reading, writing and validation. Pure: bytes in, data out.
//!
//! The format is described in `docs/profile-format.md`.

#![forbid(unsafe_code)]

mod bytes;
mod data;
mod error;
mod experiments;
mod goroutines;
mod head;
mod lines;
mod lines_parts;
mod live_curves;
mod log2_histogram;
mod read;
mod sched;
mod sched_parts;
mod second_run;
mod section;
mod sections;
mod sections_parts;
mod tables;
mod timeline;
mod timeline_parts;
mod trace;
mod trace_parts;
mod validate;
mod warning;
mod write;

pub use data::*;
pub use error::ReadError;
pub use experiments::*;
pub use goroutines::*;
pub use lines::*;
pub use live_curves::*;
pub use log2_histogram::Log2Histogram;
pub use sched::*;
pub use section::FORMAT_VERSION;
pub use sections::*;
pub use timeline::*;
pub use trace::*;
pub use warning::ReadWarning;
