//! The part of a process that is no table.

use serde::{Deserialize, Serialize};

use crate::section::Tag;
use crate::Process;

pub(crate) const META: Tag = *b"META";
pub(crate) const PROCESS: Tag = *b"PROC";
pub(crate) const MODULES: Tag = *b"MODS";
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
    pub(crate) without_agent: bool,
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
            without_agent: process.without_agent,
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
        process.without_agent = self.without_agent;
        process.drops = self.drops;
    }
}
