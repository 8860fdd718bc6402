//! Access to a process for probes.

use convoy_probes::{Counts, Inserted, Probe, Refusal};

/// Puts probes into a process. Its end takes all of them out.
pub trait Probes {
    /// Puts probes in, all in one stop of the process; one answer for each.
    ///
    /// # Errors
    /// None of them is in.
    fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal>;

    /// Milliseconds since the start of the session: an insertion takes time.
    fn now_ms(&self) -> u64;

    /// Takes probes out.
    ///
    /// # Errors
    /// They may still be in.
    fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal>;

    /// Reads all rows of all threads; the process goes on meanwhile.
    ///
    /// # Errors
    /// The process is gone, or whoever serves it.
    fn read(&mut self) -> Result<Counts, Refusal>;
}
