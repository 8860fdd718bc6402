//! Curves, and what is said beside them.

use std::collections::VecDeque;

use crate::histogram::Histogram;
use crate::request::Request;
use crate::row::{Function, RowId};
use convoy_probes::Cell;

/// Names a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CurveId(pub(crate) usize);

/// A value at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Milliseconds since the start of the session.
    pub t_ms: u64,
    /// In the unit of the metric; `None` = not known.
    pub value: Option<f64>,
    /// Why it is not known, or incomplete.
    pub gap: Option<String>,
    /// What the probes of this curve cost, as a share of the program's CPU time.
    pub cost_share: f64,
    /// By thread.
    pub by_thread: Vec<(u32, f64)>,
    /// Wall times of the calls that returned.
    pub histogram: Option<Histogram>,
}

/// A metric of a part of the program over time.
#[derive(Debug, Clone)]
pub struct Curve {
    /// What is measured.
    pub request: Request,
    /// The latest last.
    pub points: VecDeque<Point>,
    pub(crate) rows: Vec<RowId>,
    /// Its rows count into files of this group.
    pub(crate) io_group: Option<u8>,
}

/// What one thread did in a probed function since the probe was put in.
#[derive(Debug, Clone)]
pub struct Probed<'a> {
    /// Tells functions and confinements apart, while probes are replaced.
    pub row: RowId,
    /// The function.
    pub function: &'a Function,
    /// Whether time is measured, and not only calls.
    pub is_timed: bool,
    /// Sums of one thread at the last reading, those of replaced probes included.
    pub cell: Cell,
}

/// Something that the user should know about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What was found.
    pub found: String,
    /// Its effect.
    pub effect: String,
    /// Nothing can be measured because of it.
    pub is_fatal: bool,
}
