//! Who holds an attachment: so that two convoys do not take the same agent, and that a later one
//! takes out what a dead one has left.

use std::mem::offset_of;

use convoy_abi::{Attachment, CV_ATTACHMENT_ACTIVE, CV_ATTACHMENT_CLAIMED, CV_ATTACHMENT_IDLE};

use crate::memory::Memory;
use crate::process::AgentCopy;
use crate::tracee::{has_ended, stat_fields};

/// A process of convoy that holds attachments: its number, and its start in clock ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its start, clock ticks since boot: with the number, names one process.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_ticks: start_ticks(pid).unwrap_or(0),
        }
    }

    pub(crate) fn of(journal: &Attachment) -> Self {
        Self {
            pid: journal.owner_pid,
            start_ticks: journal.owner_start,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// Another convoy that uses a copy of the agent, or is about to.
    pub(crate) fn other_of(self, journal: &Attachment) -> Option<Self> {
        let of = Self::of(journal);
        let is_used = journal.state != CV_ATTACHMENT_IDLE;
        (is_used && of != self && of.is_alive()).then_some(of)
    }
}

/// `starttime` in [`stat_fields`].
const START_TIME: usize = 19;

/// `None` = there is no such process, or it has ended and nobody has asked for its status yet.
fn start_ticks(pid: u32) -> Option<u64> {
    let fields = stat_fields(pid)?;
    let start = fields.get(START_TIME).filter(|_| !has_ended(&fields));
    start?.parse().ok()
}

/// Notes that `owner` is about to use a copy. Only where no other convoy can do the same: while all
/// threads are stopped, or before the copy has a journal that others know.
pub(crate) fn claim(memory: &Memory, journal_at: u64, owner: Owner) -> std::io::Result<()> {
    let at = |field: usize| journal_at + field as u64;
    memory.put(at(offset_of!(Attachment, owner_pid)), &owner.pid)?;
    let start = owner.start_ticks;
    memory.put(at(offset_of!(Attachment, owner_start)), &start)?;
    set_state(memory, journal_at, CV_ATTACHMENT_CLAIMED)
}

/// Takes back a claim that came to nothing.
pub(crate) fn disclaim(memory: &Memory, journal_at: u64, owner: Owner) {
    let journal: std::io::Result<Attachment> = memory.get(journal_at);
    if journal.is_ok_and(|journal| is_claimed(&journal, owner)) {
        // It fails only if the process is gone.
        let _ = set_state(memory, journal_at, CV_ATTACHMENT_IDLE);
    }
}

pub(crate) fn is_claimed(journal: &Attachment, owner: Owner) -> bool {
    journal.state == CV_ATTACHMENT_CLAIMED && Owner::of(journal) == owner
}

pub(crate) fn set_state(memory: &Memory, journal_at: u64, state: u32) -> std::io::Result<()> {
    let at = journal_at + offset_of!(Attachment, state) as u64;
    memory.put(at, &state)
}

/// Hooks that nobody but `owner` answers for: its own, those of a convoy that has ended, and those
/// that a child has from its parent, which are not entered.
pub(crate) fn has_hooks_to_remove(copy: &AgentCopy, memory: &Memory, owner: Owner) -> bool {
    let journal = &copy.journal;
    let gate: std::io::Result<u32> = memory.get(journal.gate);
    let is_inherited = || gate.is_ok_and(|word| word == 0);
    journal.state == CV_ATTACHMENT_ACTIVE && (owner.other_of(journal).is_none() || is_inherited())
}
