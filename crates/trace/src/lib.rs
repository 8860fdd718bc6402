//! Synchronization events in time order: the recording that `convoy replay` works on. Pure.
//!
//! Counters say how often and how long; a trace also says in which order. Terms, as in docs/concepts.md:
//!
//! - *Event*: one step of a synchronization operation of one thread (request, acquired, released, ...).
//! - *Window*: a span of time in which every event of every thread was recorded. Outside of windows
//!   only operations that block are recorded, so that the state of every thread is known throughout.
//! - *Section* (critical section): what a thread executes from an acquire until the release of the same
//!   object by the same thread.

#![forbid(unsafe_code)]

mod block;
mod decode;
mod recording;
mod varint;

pub use block::{decode_block, encode};
pub use decode::{decode, DecodeError};
pub use recording::{
    Event, Kind, Losses, Mode, Object, ObjectIx, ObjectKind, Recording, Site, SiteIx, Thread,
    ThreadIx, Window, NO_CPU, NO_OBJECT, NO_SITE,
};
