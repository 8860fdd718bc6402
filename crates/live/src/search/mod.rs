//! The search for the place where a program's time goes, without the world: hypotheses, foci to be
//! tested, verdicts (Paradyn's Performance Consultant, 1995).
//!
//! The caller records the program for a moment (`recorded`), samples it (`history`), tests hypotheses
//! about the whole program (`roots`), and then in turn asks for the next foci (`axes`, `tree`), measures them like any other request,
//! and gives back what it found (`share`). At
//! the end, `cause` says what explains the time.

mod axes;
mod cause;
mod history;
mod hypothesis;
mod json;
mod recorded;
mod roots;
mod share;
mod tree;

pub use axes::{threads_of, unsampled, Axes, Tested};
pub use history::{History, Time};
pub use hypothesis::{Hypothesis, Whole};
pub use recorded::{Called, Place, Recorded, RecordedThread, RecordedWait, Stack, WaitReason};
pub use roots::Known;
pub use share::{Share, Verdict};
pub use tree::{Candidate, Limits, Node, NodeId, Outcome, Resource, Search};
