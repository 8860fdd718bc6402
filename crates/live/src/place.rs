//! What a request means in the process: where its functions are, and when they count.

use std::ops::Range;

use convoy_probes::Holding;

use crate::row::Function;

/// The code of a request.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The functions that are measured.
    pub functions: Vec<Function>,
    /// The function that the thread must be inside of.
    pub within: Option<Function>,
    /// Addresses that a call must return to, one of these ranges; empty = any.
    pub callers: Vec<Range<u64>>,
    /// The locks of which the thread must hold one.
    pub holding: Option<Holding>,
}

impl Place {
    /// Functions that always count.
    pub fn of(functions: impl Into<Vec<Function>>) -> Self {
        Self {
            functions: functions.into(),
            ..Self::default()
        }
    }
}
