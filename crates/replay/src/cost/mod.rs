//! What unnecessary lock contention costs: per pair, per code region, and in all (PerfPlay, CGO'15, section 4).

mod overall;
mod pair_cost;
mod regions;
#[cfg(test)]
mod tests;

pub use overall::Overall;
pub use pair_cost::{pair_costs, Span, SpanCost, SpanPair};
pub use regions::{fuse, CodeRegion, RegionPair, Regions};

use convoy_trace::Recording;

use crate::sections::Sections;

/// When the sections of a program ran in one replay, or in the recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplayTimes {
    /// From the start of the program to its end, nanoseconds.
    pub wall_ns: f64,
    /// Threads that ran.
    pub threads: u32,
    /// By section.
    pub sections: Vec<SectionSpan>,
}

/// When a section ran, nanoseconds since the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionSpan {
    /// The thread asked for its locks; NaN = the section was not reached.
    pub requested_ns: f64,
    /// It held them.
    pub acquired_ns: f64,
    /// It released them.
    pub released_ns: f64,
}

impl SectionSpan {
    /// From the request until all locks are held, nanoseconds; 0 if the section was not reached.
    pub fn wait_ns(&self) -> f64 {
        // `max` passes over NaN.
        (self.acquired_ns - self.requested_ns).max(0.0)
    }

    fn is_reached(&self) -> bool {
        self.requested_ns.is_finite() && self.acquired_ns.is_finite()
    }
}

impl ReplayTimes {
    /// The times of the recording itself.
    pub fn recorded(recording: &Recording, sections: &Sections) -> Self {
        let since = |at_ns: u64| at_ns.saturating_sub(recording.start_ns) as f64;
        let span = |section: &crate::sections::Section| SectionSpan {
            requested_ns: since(section.requested_ns),
            acquired_ns: since(section.acquired_ns),
            released_ns: since(section.released_ns),
        };
        Self {
            wall_ns: since(recording.end_ns),
            threads: recording.threads.len() as u32,
            sections: sections.all.iter().map(span).collect(),
        }
    }
}
