//! With what is compared.

/// Limits of the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Whole sections that a verdict needs.
    pub min_sections: u64,
    /// Share of the sections of a site that a row must hold for ("nearly all").
    pub nearly_all: f64,
    /// The share may be as low as this, by the lower end of the confidence interval.
    pub at_least: f64,
    /// Share of a lock's sections that only read, for a reader-writer lock to pay.
    pub mostly_reads: f64,
    /// Share of a section's instructions that can be moved out, for it to be too large.
    pub movable: f64,
    /// A section of fewer instructions, that touches fewer words, is small, whatever can be moved out of it.
    pub small_instructions: f64,
    /// Share of the pairs of sections that may touch the same data, for one lock to be too few.
    pub conflicts: f64,
    /// From this share on the data are truly shared; in between it is not decided.
    pub conflicts_shared: f64,
    /// Share of the pairs of sections that use different parts, for the parts to be worth a lock each: two of 70 and 30 % are, one
    /// of 95 % and the rest are not.
    pub separated: f64,
    /// Share of the accesses of shared words that may be of words which most sections use, for the others to be parts.
    pub common: f64,
    /// Share of the sections that come right before or after another one of the same function: of two in a row each, half.
    pub followed: f64,
    /// Share of the sections that block inside.
    pub blocking: f64,
    /// Share of a lock's acquisitions that lie inside another lock's sections, for it to be always inside.
    pub always: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            min_sections: 20,
            nearly_all: 0.95,
            at_least: 0.80,
            mostly_reads: 0.70,
            movable: 0.30,
            small_instructions: 100.0,
            conflicts: 0.25,
            conflicts_shared: 0.50,
            separated: 0.40,
            common: 0.50,
            followed: 2.0 / 3.0,
            blocking: 0.50,
            always: 0.90,
        }
    }
}
