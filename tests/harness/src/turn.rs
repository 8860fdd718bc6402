//! Two cases at a time, but one alone where times are compared: the machine may have two processors.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Result;

static TURN: RwLock<()> = RwLock::new(());

/// For cases that others may run beside.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// For cases that compare times.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Schedules that a case may meet before it has failed.
const TRIES: usize = 3;

/// Tries again: what a schedule decides must hold most of the time. Says so when it did not at once.
pub fn retry(mut once: impl FnMut() -> Result) -> Result {
    let mut last = Ok(());
    for attempt in 1..=TRIES {
        last = once();
        match &last {
            Ok(()) => return Ok(()),
            Err(message) => eprintln!("try {attempt} of {TRIES}: {message}"),
        }
    }
    last
}
