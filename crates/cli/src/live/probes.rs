//! Probes of the process, which go in when the first function is asked for.

use std::ffi::OsString;
use std::time::Instant;

use convoy_capture::ProbeClient;
use convoy_live::{Counts, Inserted, Probe, Probes, Refusal};

/// Nothing is done to the process before the first probe.
#[derive(Debug)]
pub struct LazyProbes {
    pid: u32,
    began: Instant,
    client: Option<ProbeClient>,
}

/// What starts the process that holds the probes.
fn holder() -> [OsString; 2] {
    ["/proc/self/exe", convoy_capture::probes::ARGUMENT].map(OsString::from)
}

/// Takes out what an earlier convoy has left in a process.
pub fn clean_up(pid: u32) -> Result<(), Refusal> {
    ProbeClient::begin(&holder(), pid)?.end()
}

impl LazyProbes {
    /// A process without probes, in a session that began then.
    pub fn new(pid: u32, began: Instant) -> Self {
        Self {
            pid,
            began,
            client: None,
        }
    }

    fn client(&mut self) -> Result<&mut ProbeClient, Refusal> {
        let client = match self.client.take() {
            Some(client) => client,
            None => ProbeClient::begin(&holder(), self.pid)?,
        };
        Ok(self.client.insert(client))
    }

    /// Takes everything out; returns when it is.
    pub fn end(self) -> Result<(), Refusal> {
        self.client.map_or(Ok(()), ProbeClient::end)
    }
}

impl Probes for LazyProbes {
    fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        self.client()?.insert(probes)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        self.client()?.remove(rows)
    }

    fn read(&mut self) -> Result<Counts, Refusal> {
        self.client()?.read()
    }
}
