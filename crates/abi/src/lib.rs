//! The Rust mirror of the headers in `abi`, which have the documentation of every field.
//!
//! Plain data that any bytes can be read as: an arena comes out of a process that may have
//! overwritten it, so no value here is trusted and none can be invalid. Sizes and offsets are
//! asserted here at compile time; `tests/header.rs` compares every field and every constant with
//! what the C compiler says.

#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod mirror;
mod arena;
mod attach;
mod bpf;
mod causal;
mod constants;
mod events;
mod thread;
mod trace;

pub use arena::{
    Arena, Block, Entry, EntryCount, EntryDetail, EntryPair, Frame, Module, Object, Session,
    WaitDetail,
};
pub use attach::{AttachEntry, Attachment};
pub use bpf::{
    BpfConfig, BpfControl, BpfEvent, BpfInit, BpfLife, BpfName, BpfRecord, BpfRegisters, BpfRing,
    BpfStack,
};
pub use causal::{Causal, CausalControl, CausalPoint, CausalRange, CausalThread};
pub use constants::*;
pub use events::{Events, EventsChunk};
pub use mirror::{Field, Layout};
pub use thread::{Held, Last, Site, Slot, Thread};
pub use trace::{Section, Target, Targets, Trace, TraceAccess, TraceBlock, TraceChunk};

/// Byte offset into the arena divided by 64; 0 = none.
pub type Ref = u32;

/// The byte offset that a [`Ref`] stands for.
pub const fn ref_offset(r: Ref) -> u64 {
    (r as u64) << 6
}

/// Every mirrored structure, for the comparison with the C header.
pub const LAYOUTS: &[Layout] = &[
    Session::LAYOUT,
    Arena::LAYOUT,
    Block::LAYOUT,
    Slot::LAYOUT,
    Site::LAYOUT,
    Entry::LAYOUT,
    EntryCount::LAYOUT,
    EntryDetail::LAYOUT,
    EntryPair::LAYOUT,
    WaitDetail::LAYOUT,
    Held::LAYOUT,
    Last::LAYOUT,
    Thread::LAYOUT,
    Object::LAYOUT,
    Frame::LAYOUT,
    Module::LAYOUT,
    BpfEvent::LAYOUT,
    BpfRing::LAYOUT,
    BpfConfig::LAYOUT,
    BpfControl::LAYOUT,
    BpfRecord::LAYOUT,
    BpfLife::LAYOUT,
    BpfInit::LAYOUT,
    BpfStack::LAYOUT,
    BpfRegisters::LAYOUT,
    BpfName::LAYOUT,
    Targets::LAYOUT,
    Target::LAYOUT,
    TraceChunk::LAYOUT,
    Trace::LAYOUT,
    TraceAccess::LAYOUT,
    TraceBlock::LAYOUT,
    Section::LAYOUT,
    Events::LAYOUT,
    EventsChunk::LAYOUT,
    Causal::LAYOUT,
    CausalControl::LAYOUT,
    CausalRange::LAYOUT,
    CausalPoint::LAYOUT,
    CausalThread::LAYOUT,
    AttachEntry::LAYOUT,
    Attachment::LAYOUT,
];
