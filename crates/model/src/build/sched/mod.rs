//! The scheduler's rows with the model's ids.
//!
//! Threads and call stacks belong to processes, so they are translated while each process is joined
//! ([`Mentions`] says which are needed); the rows, which go across processes, at the end ([`rows`]).

mod mentions;
mod objects;
mod rows;
mod spun;
mod timeline;

use std::collections::HashMap;

use convoy_profile::{FrameIx, StackIx, ThreadRef};

use crate::{ObjectId, SiteFrame, SiteId, ThreadId};
pub(super) use mentions::{Mention, Mentions};
pub(super) use rows::join;

/// What the rows of the scheduler are called in the model.
#[derive(Default)]
pub(super) struct Names {
    /// One per process of the profile.
    pub(super) processes: Vec<ProcessNames>,
}

/// The threads, call stacks and loops of one process.
#[derive(Default)]
pub(super) struct ProcessNames {
    /// By index of the record; `None` = it never ran.
    pub(super) threads: Vec<Option<ThreadId>>,
    pub(super) sites: HashMap<StackIx, SiteId>,
    /// By index of the loop.
    pub(super) loops: HashMap<usize, Vec<SiteFrame>>,
    /// Functions that give back what others wait for, by call stack and frame, counted from 1.
    pub(super) giving: HashMap<(StackIx, u32), String>,
    /// Of traced sections: by call stack, and the acquire itself where that is unknown.
    pub(super) section_sites: HashMap<(StackIx, FrameIx), SiteId>,
    /// By index of the record.
    pub(super) objects: Vec<ObjectId>,
}

impl Names {
    fn thread(&self, thread: ThreadRef) -> Option<ThreadId> {
        let process = self.processes.get(thread.process as usize)?;
        process.threads.get(thread.thread as usize).copied()?
    }

    fn site(&self, process: u32, stack: StackIx) -> Option<SiteId> {
        let process = self.processes.get(process as usize)?;
        process.sites.get(&stack).copied()
    }
}
