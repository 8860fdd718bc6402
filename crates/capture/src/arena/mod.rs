//! Turns an arena into a [`Process`] of the profile.
//!
//! The arena comes out of a process that may have crashed in the middle of a write, or have written
//! over it with a stray pointer. So nothing in it is believed: every offset is checked before it is
//! followed, every count is cut to what its block can hold, sums saturate, and each record is visited
//! at most once. What does not make sense is left out and counted as the drop `arena-damaged`.

mod blocks;
mod bytes;
mod code;
mod load;
mod modules;
mod objects;
#[cfg(test)]
pub(crate) mod synthetic;
#[cfg(test)]
mod tests;
mod threads;
mod uses;
mod view;

use std::collections::{BTreeSet, HashMap};

use convoy_abi as abi;
use convoy_profile::{Process, StackIx, ThreadIx};

pub(crate) use bytes::{Bytes, Pieces};
pub(crate) use load::{head, open, open_to_write};
pub(crate) use modules::Modules;

use crate::procfs::ThreadFigures;
use code::Code;
use objects::Objects;
pub(crate) use objects::{kind_of, op_of};
use threads::Threads;
use uses::Uses;
use view::View;

/// Drop id of what the reader could not make sense of.
const DAMAGED: &str = "arena-damaged";

/// What is known about the process besides its arena.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// When the process was seen gone or the recording stopped, for one that did not say itself.
    pub seen_end_ns: u64,
    /// Threads as last polled, by tid.
    pub polled: &'a HashMap<u32, ThreadFigures>,
}

/// Stacks, as the agent names them.
pub(crate) type Refs = BTreeSet<abi::Ref>;

/// What the agent's numbers mean in a [`Process`], for those who read other files of the same agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Late {
    /// Of those that were asked for.
    pub stacks: HashMap<abi::Ref, StackIx>,
    /// By the number of the record.
    pub threads: HashMap<u32, ThreadIx>,
}

/// Why a file is no arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoArena {
    /// Too short for a header, or the agent was not ready yet: the process ended while it started.
    NotReady,
    /// Another version of the agent wrote it.
    OtherVersion(u32),
}

/// What an arena says about the life of its process image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub start_ns: u64,
    /// It said itself that it ended.
    pub ended: bool,
}

/// Start and end from the head of an arena.
pub(crate) fn life(bytes: &dyn Bytes) -> Result<Life, NoArena> {
    let header = view::header(bytes)?;
    Ok(Life {
        start_ns: header.start_ns,
        ended: has_ended(&header),
    })
}

/// The latest point in time up to `now_ns` that the arena knows of: the process was alive then.
pub(crate) fn latest_ns(bytes: &dyn Bytes, now_ns: u64) -> Result<u64, NoArena> {
    let view = View::new(bytes)?;
    let mut latest = 0;
    let mut see = |times: &[u64]| {
        latest = times
            .iter()
            .filter(|t| **t <= now_ns)
            .fold(latest, |l, t| l.max(*t));
    };
    see(&[view.header().start_ns, view.header().end_ns]);
    for block in view.blocks(abi::CV_BLOCK_THREAD) {
        for (_, thread) in view.items::<abi::Thread>(block) {
            see(&[thread.start_ns, thread.end_ns, thread.wait_since_ns]);
            let held = thread.held_count as usize;
            thread
                .held
                .iter()
                .take(held)
                .for_each(|h| see(&[h.acquired_ns, h.released_ns]));
        }
    }
    for block in view.blocks(abi::CV_BLOCK_OBJECTS) {
        view.items::<abi::Object>(block)
            .for_each(|(_, object)| see(&[object.waker_ns]));
    }
    Ok(latest)
}

fn has_ended(header: &abi::Arena) -> bool {
    matches!(
        header.state,
        abi::CV_PROCESS_EXITED | abi::CV_PROCESS_EXECED
    ) && header.end_ns != 0
}

/// Reads a whole arena.
pub(crate) fn read(bytes: &dyn Bytes, context: Context<'_>) -> Result<Process, NoArena> {
    read_with(bytes, context, &Refs::new()).map(|(process, _)| process)
}

/// The same, with these stacks in it whether it names them itself or not.
pub(crate) fn read_with(
    bytes: &dyn Bytes,
    context: Context<'_>,
    stacks: &Refs,
) -> Result<(Process, Late), NoArena> {
    let view = View::new(bytes)?;
    let header = view.header();
    let ended_cleanly = has_ended(header);
    let start_ns = header.start_ns;
    let end_ns = if ended_cleanly {
        header.end_ns
    } else {
        context.seen_end_ns
    }
    .max(start_ns);

    let mut code = Code::new(&view);
    let mut threads = Threads::new(&view, &mut code, end_ns, ended_cleanly, context.polled);
    let mut objects = Objects::new(&view, &mut code);
    let uses = Uses::new(&view, &mut code, &threads, &mut objects, end_ns);
    let late = Late {
        stacks: stacks.iter().map(|r| (*r, code.stack(*r))).collect(),
        threads: threads.numbers().clone(),
    };
    let drops = drops(&view);
    let objects = objects.finish(&code, &threads);
    let (modules, frames, stacks) = code.finish();
    let process = Process {
        pid: header.pid,
        ppid: header.ppid,
        exe: view::text(&header.exe),
        args: arguments(header),
        start_ns,
        end_ns,
        ended_cleanly,
        modules,
        frames,
        starts: Vec::new(), // with the names
        stacks,
        threads: threads.take(),
        objects,
        counts: uses.counts,
        unattributed: uses.unattributed,
        details: uses.details,
        pairs: uses.pairs,
        drops,
        inline_mutex: header.inline_mutex != 0,
        without_agent: false,
        listens: false,
        makes_threads: false,
    };
    Ok((process, late))
}

fn arguments(header: &abi::Arena) -> Vec<String> {
    let used = header
        .cmdline
        .get(..header.argc_bytes as usize)
        .unwrap_or(&header.cmdline);
    let used = used.strip_suffix(&[0]).unwrap_or(used);
    if used.is_empty() {
        return Vec::new();
    }
    used.split(|b| *b == 0)
        .map(|a| String::from_utf8_lossy(a).into_owned())
        .collect()
}

fn drops(view: &View<'_>) -> Vec<(String, u64)> {
    let mut drops: Vec<(String, u64)> = view
        .header()
        .drops
        .iter()
        .enumerate()
        .filter(|(_, n)| **n > 0)
        .map(|(i, n)| match abi::DROP_IDS.get(i) {
            Some(id) => ((*id).to_owned(), *n),
            None => (format!("unknown-{i}"), *n),
        })
        .collect();
    if view.damaged() > 0 {
        drops.push((DAMAGED.to_owned(), view.damaged()));
    }
    drops
}
