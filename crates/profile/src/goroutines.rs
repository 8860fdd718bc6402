//! What goroutines were found at, at looks from outside.
//!
//! A thread of Go that has nothing to run says nothing about who waits: goroutines do. While it runs, the runtime's own list of
//! them is read from the program's memory now and then, and what each one waits for.

use serde::{Deserialize, Serialize};

use crate::StackIx;

/// A program of Go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoProgram {
    /// The process that runs it.
    pub process: u32,
    /// As it says itself, e.g. "go1.26.8".
    pub version: String,
    /// Why nothing is known; empty if it was looked at.
    pub unknown: String,
    /// Looks at all of its goroutines.
    pub looks: u64,
    /// CPU time of convoy that they took, nanoseconds.
    pub cost_ns: u64,
    /// Goroutines of the program's own, summed over looks.
    pub goroutines: u64,
    /// Times that goroutines gave up their processor between two looks: of each at most 255, so that those who do it
    /// very often seem to do it less often.
    pub turns: u64,
    /// Looks at which that goroutine ran which ran at most of them.
    pub longest: u64,
    /// What it looked like as a whole, at looks at which all goroutines were seen.
    pub states: Vec<GoState>,
    /// Who waited where.
    pub waits: Vec<GoWait>,
    /// Calls in which goroutines waited.
    pub places: Vec<GoPlace>,
}

impl GoProgram {
    /// What it takes in memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let waits = self.waits.iter();
        let waits = waits.map(|wait| size_of::<GoWait>() + wait.reason.len());
        let places = self.places.iter().map(|place| {
            size_of::<GoPlace>() + place.reason.len() + size_of_val(place.doing.as_slice())
        });
        let texts = self.version.len() + self.unknown.len();
        let states = size_of_val(self.states.as_slice());
        size_of::<Self>() + texts + states + waits.chain(places).sum::<usize>()
    }
}

/// Whether a function of Go only makes waiting what it is: the runtime, its locks, and what is made of them in the standard library.
pub fn only_waits(function: &str) -> bool {
    let parts = ["runtime.", "sync.", "internal/", "sync/"];
    parts.iter().any(|prefix| function.starts_with(prefix))
}

/// What a goroutine is in that is in a system call or in C, for [`GoWait::reason`]: the runtime has no word for it.
pub const GO_IN_CALL: &str = "a call of the system or of C";

/// Looks at which as many goroutines were in each state.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct GoState {
    /// Processors that the runtime gives them: GOMAXPROCS.
    pub procs: u32,
    /// On one, those of the runtime included.
    pub running: u32,
    /// In system calls.
    pub in_calls: u32,
    /// That wait for one, by [`crate::bucket`].
    pub runnable: u32,
    /// Looks.
    pub n: u64,
}

/// Goroutines that waited for one reason with one call stack, or were in a call that leaves Go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoWait {
    /// What for, as the runtime says it, e.g. "chan receive"; or [`GO_IN_CALL`].
    pub reason: String,
    /// Where. 0 = unknown.
    pub stack: StackIx,
    /// Goroutines, summed over looks.
    pub n: u64,
    /// Different waits among them.
    pub waits: u64,
    /// The call that waits: index into [`GoProgram::places`].
    pub place: Option<u32>,
}

/// A call of the program's own code in which goroutines waited for one reason. Those that were found waiting in it are its
/// users from then on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoPlace {
    /// What for, as the runtime says it.
    pub reason: String,
    /// One of the call stacks.
    pub stack: StackIx,
    /// Frame of that stack that makes the call.
    pub depth: u32,
    /// Frame of that stack from which on outwards the code also lets others go on that wait in the same way: counted from 1, as far
    /// as its direct calls tell. 0 = none.
    pub gives_back: u32,
    /// Capacity of the channel, where channels were looked at and nearly all had the same. 0 = none.
    pub capacity: u64,
    /// Different users, at most 65,535.
    pub users: u32,
    /// The most users that were there at one look.
    pub most: u64,
    /// Looks at which there was a user.
    pub present: u64,
    /// Looks at which somebody waited here.
    pub looks: u64,
    /// Users that waited here, summed over looks.
    pub waiting: u64,
    /// Users that did not, summed over looks at which others did.
    pub away: u64,
    /// Squares of their number, summed over the same looks.
    pub away_squares: u64,
    /// What these did.
    pub doing: Vec<GoDoing>,
}

/// What the users of a place do that do not wait there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoDoing {
    /// What.
    pub state: GoroutineState,
    /// Where they wait, or are in a call: index into [`GoProgram::waits`].
    pub wait: Option<u32>,
    /// Goroutines, summed over looks.
    pub n: u64,
}

/// What a goroutine does.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum GoroutineState {
    /// It waits for something.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It waits for a processor of the runtime.
    Runnable,
    /// It is in a system call, or in C.
    InCall,
}
