//! Stand-in for function probes on processors other than x86-64: it refuses.

use crate::Owner;
use convoy_probes::Refusal;
use convoy_probes::{Counts, Inserted, Probe};

/// The probes in a process.
#[derive(Debug)]
pub struct Probes;

fn refuse<T>() -> Result<T, Refusal> {
    Err(Refusal::new(
        "functions can be probed on x86-64 only",
        "use the samples: convoy -p PID",
    ))
}

impl Probes {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn begin(_: u32, _: Owner) -> Result<Self, Refusal> {
        refuse()
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn insert(&mut self, _: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        refuse()
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn remove(&mut self, _: &[u32]) -> Result<(), Refusal> {
        refuse()
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn read(&mut self) -> Result<Counts, Refusal> {
        refuse()
    }

    /// There is nothing to take out.
    ///
    /// # Errors
    /// None.
    pub fn end(self) -> Result<(), Refusal> {
        Ok(())
    }
}
