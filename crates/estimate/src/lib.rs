//! Gains as lists of estimates, and how estimates are combined. Pure.
//!
//! Several methods predict what a fix would buy: time accounting from counters, replay of a trace,
//! experiments on the running program, a measurement of the fix itself. Each answers a *what-if*
//! (lock removed, lock sharded, ...) with an interval, states what it assumes, and may have checked
//! itself. Only estimates of the same what-if are combined: see [`combine`].
//!
//! An interval is a promise: over everything that was measured, 19 of 20 measured gains lie inside.
//! A method without an upper bound says so ([`Interval::high`] is `None`), never a large number.

#![forbid(unsafe_code)]

mod combine;
mod interval;

pub use combine::{combine, Agreement, Combined};
pub use interval::Interval;

use std::fmt;

use serde::ser::SerializeStruct;
use serde::Serialize;

/// How a gain was predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// From the counters and times of one run: queueing, Amdahl, asymptotic bounds.
    Accounting,
    /// A trace replayed by the discrete-event simulator.
    ReplaySimulated,
    /// A trace replayed with real threads and real locks.
    ReplayNative,
    /// A virtual speed-up of the running program.
    Experiment,
    /// The fix was made, and measured in interleaved pairs.
    Measured,
}

/// Methods whose errors have the same sources: within a family intervals are united, between
/// families they are intersected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    Accounting,
    Replay,
    Experiment,
    Measured,
}

impl Method {
    /// Stable kebab-case id.
    pub fn id(self) -> &'static str {
        match self {
            Self::Accounting => "accounting",
            Self::ReplaySimulated => "replay-simulated",
            Self::ReplayNative => "replay-native",
            Self::Experiment => "experiment",
            Self::Measured => "measured",
        }
    }

    pub(crate) fn family(self) -> Family {
        match self {
            Self::Accounting => Family::Accounting,
            Self::ReplaySimulated | Self::ReplayNative => Family::Replay,
            Self::Experiment => Family::Experiment,
            Self::Measured => Family::Measured,
        }
    }
}

/// The change that an estimate is of. The same lock has several: they differ by up to a factor of two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WhatIf {
    /// The fix that the finding names; no single change of one lock.
    #[default]
    Fix,
    /// The lock is gone; its critical sections run in parallel.
    LockRemoved,
    /// The lock's critical sections are gone, too.
    SectionRemoved,
    /// Any other change, in the query language of `convoy replay --what-if` (docs/replay.md).
    Query(String),
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fix => f.write_str("fix"),
            Self::LockRemoved => f.write_str("lock removed"),
            Self::SectionRemoved => f.write_str("section removed"),
            Self::Query(text) => f.write_str(text),
        }
    }
}

impl Serialize for WhatIf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a method checked itself on the recorded run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The method has no check of its own.
    #[default]
    None,
    /// It gave the recorded run back; how closely, for people.
    Passed(String),
    /// It did not: its number must not be shown. Why, for people.
    Failed(String),
}

/// What one method says that one change would buy. As JSON the gain of a failed check is null.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Who says so.
    pub method: Method,
    /// Of what.
    pub what_if: WhatIf,
    /// Throughput after the change over throughput now.
    pub gain: Interval,
    /// What must be true for it to hold.
    pub assumption: String,
    /// Its own check.
    pub check: Check,
}

impl Estimate {
    /// The gain, if its own check lets it count.
    pub fn shown(&self) -> Option<&Interval> {
        Some(&self.gain).filter(|_| !matches!(self.check, Check::Failed(_)))
    }
}

impl Serialize for Estimate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut of = serializer.serialize_struct("Estimate", 5)?;
        of.serialize_field("method", &self.method)?;
        of.serialize_field("what_if", &self.what_if)?;
        of.serialize_field("gain", &self.shown())?;
        of.serialize_field("assumption", &self.assumption)?;
        of.serialize_field("check", &self.check)?;
        of.end()
    }
}
