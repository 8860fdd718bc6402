//! What is no table: of a process, and of what the scheduler said.

use serde::{Deserialize, Serialize};

use crate::section::Tag;
use crate::tables::THREAD_BUCKETS;
use crate::{Process, Sched, SchedSource};

pub(crate) const META: Tag = *b"META";
pub(crate) const OTHERS: Tag = *b"OTHR";
pub(crate) const COSTS: Tag = *b"COST";
pub(crate) const PROCESS: Tag = *b"PROC";
pub(crate) const MODULES: Tag = *b"MODS";
pub(crate) const NO_AGENT: Tag = *b"NOAG";
pub(crate) const LISTENS: Tag = *b"LSTN";
pub(crate) const MAKES_THREADS: Tag = *b"MTHR";
pub(crate) const SCHED: Tag = *b"SCHD";
pub(crate) const TIMELINE: Tag = *b"STIM";
pub(crate) const LINES: Tag = *b"SLHD";
pub(crate) const WRITES: Tag = *b"SWHD";
pub(crate) const GOROUTINES: Tag = *b"SGOR";
pub(crate) const SECTIONS: Tag = *b"XSEC";
pub(crate) const INPUTS: Tag = *b"XINP";
pub(crate) const TRACE: Tag = *b"EPRC";
pub(crate) const EXPERIMENTS: Tag = *b"CAUS";
pub(crate) const END: Tag = *b"END ";

/// Everything of a [`Process`] but its tables, and how many rows these have.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) pid: u32,
    pub(crate) ppid: u32,
    pub(crate) exe: String,
    pub(crate) args: Vec<String>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) ended_cleanly: bool,
    pub(crate) inline_mutex: bool,
    pub(crate) drops: Vec<(String, u64)>,
    pub(crate) frames: u64,
    pub(crate) stacks: u64,
    pub(crate) threads: u64,
    pub(crate) objects: u64,
}

impl Head {
    pub(crate) fn of(process: &Process) -> Self {
        Self {
            pid: process.pid,
            ppid: process.ppid,
            exe: process.exe.clone(),
            args: process.args.clone(),
            start_ns: process.start_ns,
            end_ns: process.end_ns,
            ended_cleanly: process.ended_cleanly,
            inline_mutex: process.inline_mutex,
            drops: process.drops.clone(),
            frames: process.frames.len() as u64,
            stacks: process.stacks.len() as u64,
            threads: process.threads.len() as u64,
            objects: process.objects.len() as u64,
        }
    }

    pub(crate) fn put(self, process: &mut Process) {
        process.pid = self.pid;
        process.ppid = self.ppid;
        process.exe = self.exe;
        process.args = self.args;
        process.start_ns = self.start_ns;
        process.end_ns = self.end_ns;
        process.ended_cleanly = self.ended_cleanly;
        process.inline_mutex = self.inline_mutex;
        process.drops = self.drops;
    }
}

/// Everything of a [`Sched`] but its tables, and how many rows these have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SchedHead {
    pub(crate) source: SchedSource,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) events: u64,
    pub(crate) contradictions: u64,
    pub(crate) sample_period_ns: u64,
    pub(crate) bin_width_ns: u64,
    pub(crate) active: Vec<u64>,
    pub(crate) working: Vec<u64>,
    pub(crate) running: Vec<u64>,
    pub(crate) names: u64,
    pub(crate) loops: u64,
    pub(crate) threads: u64,
    pub(crate) lost: u64,
    pub(crate) slices: u64,
    pub(crate) bins: u64,
    pub(crate) offs: u64,
    pub(crate) wakes: u64,
}

impl SchedHead {
    pub(crate) fn of(sched: &Sched) -> Self {
        let hist = |hist: &[u64]| hist.iter().copied().take(THREAD_BUCKETS).collect();
        Self {
            source: sched.source,
            start_ns: sched.start_ns,
            end_ns: sched.end_ns,
            events: sched.events,
            contradictions: sched.contradictions,
            sample_period_ns: sched.sample_period_ns,
            bin_width_ns: sched.bins.width_ns,
            active: hist(&sched.active),
            working: hist(&sched.working),
            running: hist(&sched.running),
            names: sched.names.len() as u64,
            loops: sched.loops.len() as u64,
            threads: sched.threads.len() as u64,
            lost: sched.lost.len() as u64,
            slices: sched.slices.len() as u64,
            bins: sched.bins.bins.len() as u64,
            offs: sched.offs.len() as u64,
            wakes: sched.wakes.len() as u64,
        }
    }

    /// Longer ones are of no writer.
    pub(crate) fn is_sound(&self) -> bool {
        let hists = [&self.active, &self.working, &self.running];
        hists.iter().all(|hist| hist.len() <= THREAD_BUCKETS)
    }
}
