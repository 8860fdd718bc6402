//! The search for the place where a program's time goes, without the world: hypotheses, foci to be
//! tested, verdicts (Paradyn's Performance Consultant, 1995).
//!
//! The caller records the program for a moment (`recorded`), samples it (`history`), tests hypotheses
//! about the whole program, and then in turn asks for the next foci (`tree`), measures them like any other request,
//! and gives back what it found (`share`).

mod history;
mod hypothesis;
mod recorded;
mod share;
mod tree;

pub use history::{History, Time};
pub use hypothesis::{Hypothesis, Whole};
pub use recorded::{Called, Place, Recorded, RecordedThread, Stack};
pub use share::{Share, Verdict};
pub use tree::{Candidate, Limits, Node, NodeId, Outcome, Resource, Search};
