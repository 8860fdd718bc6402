//! What goroutines waited for. The words are those of [`convoy_profile::GoProgram`]; here its rows point into the model.

pub use convoy_profile::{GoDoing, GoState, GoroutineState};

use crate::{ProcessId, SiteId};

/// A program of Go.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GoProgram {
    /// The process that runs it.
    pub process: ProcessId,
    /// As it says itself.
    pub version: String,
    /// Why nothing is known; empty if it was looked at.
    pub unknown: String,
    /// Looks at its goroutines.
    pub looks: u64,
    /// CPU time of convoy that they took, nanoseconds.
    pub cost_ns: u64,
    /// Goroutines, summed over looks.
    pub goroutines: u64,
    /// Times that they gave up their processor, at least.
    pub turns: u64,
    /// Looks at which that goroutine ran which ran at most of them.
    pub longest: u64,
    /// How many were in each state.
    pub states: Vec<GoState>,
    /// Who waited where.
    pub waits: Vec<GoWait>,
    /// Calls in which they waited.
    pub places: Vec<GoPlace>,
}

/// Goroutines that waited for one reason at one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoWait {
    /// What for, as the runtime says it.
    pub reason: String,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// Goroutines, summed over looks.
    pub n: u64,
    /// Different waits among them.
    pub waits: u64,
    /// The call that waits: index into [`GoProgram::places`].
    pub place: Option<u32>,
}

/// A call of the program's own code in which goroutines waited, and what its users do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoPlace {
    /// What for, as the runtime says it.
    pub reason: String,
    /// One of the places.
    pub site: Option<SiteId>,
    /// The function outside of it, or that which makes it, that also lets others go on that wait in the same way.
    pub gives_back: Option<String>,
    /// Capacity of its channel, or of nearly all of them; 0 = none.
    pub capacity: u64,
    /// Goroutines that waited here.
    pub users: u32,
    /// The most of them that were there at one look.
    pub most: u64,
    /// Looks at which there was a user.
    pub present: u64,
    /// Looks at which somebody waited here.
    pub looks: u64,
    /// Users that waited, summed over these looks.
    pub waiting: u64,
    /// Users that did not.
    pub away: u64,
    /// Squares of their number, summed over these looks.
    pub away_squares: u64,
    /// What those did.
    pub doing: Vec<GoDoing>,
}
