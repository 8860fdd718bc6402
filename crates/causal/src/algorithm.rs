//! Ways to wait for a mutex, to be tried in windows of the running program.

use std::fmt;

use serde::Serialize;

/// A way to wait. The mutex itself stays what it is: what one section writes another one reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Spin about as long as spinning has helped before, then sleep: `PTHREAD_MUTEX_ADAPTIVE_NP`.
    Adaptive,
    /// Spin for as long as a sleep and a wake-up cost, then sleep (Karlin, Li, Manasse and Owicki,
    /// SOSP'91: at most twice the best possible).
    SpinThenPark,
    /// The mutex goes to threads in the order in which they came; they spin, then sleep.
    Ticket,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Adaptive, Self::SpinThenPark, Self::Ticket];

    /// As the command line and the report name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::SpinThenPark => "spin-then-park",
            Self::Ticket => "ticket",
        }
    }

    /// The change of the program that brings it.
    pub fn fix(self) -> &'static str {
        match self {
            Self::Adaptive => {
                "initialise the mutex with pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP)"
            }
            Self::SpinThenPark => {
                "call pthread_mutex_trylock in a loop of a few microseconds before pthread_mutex_lock"
            }
            Self::Ticket => "use a fair lock: a ticket lock or a queue of waiters (MCS) that park",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
