//! Probes of the process, which go in when the first function is asked for.

use std::ffi::OsString;

use convoy_capture::ProbeClient;
use convoy_live::{Cell, Inserted, Measure, Probe, Probes, Refusal};

/// Nothing is done to the process before the first probe.
#[derive(Debug)]
pub struct LazyProbes {
    pid: u32,
    client: Option<ProbeClient>,
}

/// What starts the process that holds the probes.
fn holder() -> [OsString; 2] {
    ["/proc/self/exe", convoy_capture::probes::ARGUMENT].map(OsString::from)
}

/// Takes out what an earlier convoy has left in a process.
pub fn clean_up(pid: u32) -> Result<(), Refusal> {
    let client = ProbeClient::begin(&holder(), pid).map_err(refusal)?;
    client.end().map_err(refusal)
}

impl LazyProbes {
    /// Of a process.
    pub fn new(pid: u32) -> Self {
        Self { pid, client: None }
    }

    fn client(&mut self) -> Result<&mut ProbeClient, Refusal> {
        let client = match self.client.take() {
            Some(client) => client,
            None => ProbeClient::begin(&holder(), self.pid).map_err(refusal)?,
        };
        Ok(self.client.insert(client))
    }

    /// Takes everything out; returns when it is.
    pub fn end(self) -> Result<(), Refusal> {
        self.client
            .map_or(Ok(()), |client| client.end().map_err(refusal))
    }
}

impl Probes for LazyProbes {
    fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        let probes: Vec<convoy_inject::Probe> = probes.iter().map(probe).collect();
        let answers = self.client()?.insert(&probes).map_err(refusal)?;
        Ok(answers.into_iter().map(inserted).collect())
    }

    fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        self.client()?.remove(rows).map_err(refusal)
    }

    fn read(&mut self) -> Result<Vec<Cell>, Refusal> {
        let cells = self.client()?.read().map_err(refusal)?;
        Ok(cells.into_iter().map(cell).collect())
    }
}

fn probe(probe: &Probe) -> convoy_inject::Probe {
    convoy_inject::Probe {
        row: probe.row,
        function: probe.function.clone(),
        measure: match probe.measure {
            Measure::Calls => convoy_inject::Measure::Calls,
            Measure::Time => convoy_inject::Measure::Time,
        },
        within: probe.within,
    }
}

fn inserted(answer: convoy_inject::Inserted) -> Inserted {
    match answer {
        convoy_inject::Inserted::Whole => Inserted::Whole,
        convoy_inject::Inserted::CallsOnly { why } => Inserted::CallsOnly { why },
        convoy_inject::Inserted::No { why } => Inserted::No { why },
    }
}

fn cell(cell: convoy_inject::Cell) -> Cell {
    Cell {
        tid: cell.tid,
        row: cell.row,
        calls: cell.calls,
        wall_ns: cell.wall_ns,
        own_wall_ns: cell.own_wall_ns,
        cpu_ns: cell.cpu_ns,
        own_cpu_ns: cell.own_cpu_ns,
        inside: cell.inside,
        skipped: cell.skipped,
        histogram: cell.histogram,
    }
}

fn refusal(refusal: convoy_inject::Refusal) -> Refusal {
    Refusal {
        found: refusal.found,
        fix: refusal.fix,
        is_gone: refusal.is_gone,
    }
}
