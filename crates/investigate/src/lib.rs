//! An investigation: which method to use next on a program, given what the others have said.
//!
//! Paradyn's Performance Consultant (Miller et al., IEEE Computer 28(11), 1995, section 5) refines
//! hypotheses within one run; here each step is a run of the program under another method, or a
//! replay of one. A lead (`lead`) is a finding with what methods say of changes to its lock. The
//! plan (`plan`) takes the step that narrows the first lead's answer most for its time. The report
//! (`text`) names the methods behind each gain. The caller runs the program.

#![forbid(unsafe_code)]

mod lead;
mod plan;
mod report;
mod text;

pub use lead::{Change, Lead};
pub use plan::{Investigation, Outcome, Step, StepDone, LEADS_MOST, REPLAY_SHARE};
pub use report::Report;
pub use text::{text, Look};
