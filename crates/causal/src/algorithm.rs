//! Ways to wait for a mutex, to be tried in windows of the running program.

use std::fmt;

use serde::Serialize;

/// A way to wait. The mutex itself stays what it is: what one section writes another one reads. Two
/// ways let sections run together, which a program may not survive.
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
    /// Threads hold the mutex together in sections that only read.
    #[serde(rename = "rwlock")]
    ReadWrite,
    /// Threads enter the sections without the mutex.
    None,
}

impl Algorithm {
    /// Those that exclude threads from one another's sections, as the mutex does.
    pub const EXCLUDING: [Self; 3] = [Self::Adaptive, Self::SpinThenPark, Self::Ticket];

    /// Whether threads may be in sections at the same time, which can corrupt the program's data.
    pub fn may_corrupt(self) -> bool {
        !Self::EXCLUDING.contains(&self)
    }

    /// As the command line and the report name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::SpinThenPark => "spin-then-park",
            Self::Ticket => "ticket",
            Self::ReadWrite => "rwlock",
            Self::None => "none",
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
            Self::ReadWrite => {
                "use a pthread_rwlock_t, and pthread_rwlock_rdlock where a section only reads"
            }
            Self::None => {
                "remove the lock if its data need none: this run cannot prove that. Else divide the data"
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
