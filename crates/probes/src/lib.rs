//! Where and how a function of a running x86-64 program can be probed:
//! docs/design/0009-function-probes.md.
//!
//! [`Module`] knows a module's functions by its call frame information, and where execution may
//! come into them. [`sites::choose`] picks what is patched, [`stub`] makes the code that runs
//! instead, [`runtime`] is what that code calls, [`table`] where it counts. [`Probe`] and [`Cell`]
//! are how their users see all of it.

#![forbid(unsafe_code)]

mod calls;
mod fast_count;
mod functions;
mod handlers;
mod image;
mod module;
mod probe;
mod refusal;
pub mod relocate;
pub mod runtime;
pub mod sites;
pub mod stub;
pub mod table;
mod targets;
mod uprobe_site;

pub use calls::{addresses_taken, callees};
pub use fast_count::{FastCount, FAST_COUNT_BYTES};
pub use functions::{Function, Functions};
pub use image::{Image, Segment};
pub use module::Module;
pub use probe::{
    Also, Bytes, Cell, Counts, FileCell, Holding, Inserted, Io, Measure, Probe, BUCKETS, ROWS,
};
pub use refusal::Refusal;
pub use uprobe_site::{uprobe_site, UprobeSite};
