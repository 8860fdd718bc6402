//! Where threads go on: a walk over their stacks, also through signal handlers that run on stacks
//! of their own.

use std::io;
use std::ops::Range;

use crate::all_stopped::AllStopped;
use crate::memory::{regions, Memory, Region};
use crate::signal_frame;
use crate::tracee::{Fault, Tracee};

/// Bytes of a stack that are looked at.
const MAX_STACK_BYTES: u64 = 1 << 20;
/// Signal handlers on stacks of their own that have interrupted one another.
const MAX_STACKS: usize = 16;

/// The stacks of a process, as they are now.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    memory: &'a Memory,
    regions: Vec<Region>,
    /// What signal handlers return to.
    signal_returns: &'a [u64],
}

/// The stacks through which a thread returns.
struct Walk<'a> {
    /// Where the thread is, then where signal handlers have interrupted it.
    instructions: Vec<u64>,
    /// Of each stack from its stack pointer on.
    words: Vec<Vec<u64>>,
    /// The memory of the outermost stack.
    outermost: Option<&'a Region>,
    /// There is more than was looked at.
    is_cut: bool,
}

impl<'a> Stacks<'a> {
    /// Stacks grow: to be made while the threads are stopped.
    pub fn of(pid: u32, memory: &'a Memory, signal_returns: &'a [u64]) -> io::Result<Self> {
        Ok(Self {
            memory,
            regions: regions(pid)?,
            signal_returns,
        })
    }

    /// Instructions that signal handlers of a thread have interrupted: it goes on there.
    pub fn interrupted(&self, thread: &Tracee) -> Result<Vec<u64>, Fault> {
        let mut instructions = self.walk(thread)?.instructions;
        instructions.remove(0);
        Ok(instructions)
    }

    /// Whether any thread is in this code, or may return into it.
    pub fn lead_into(&self, stopped: &AllStopped, code: &[Range<u64>]) -> Result<bool, Fault> {
        for thread in &stopped.threads {
            if self.leads_into(thread, code)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn leads_into(&self, thread: &Tracee, code: &[Range<u64>]) -> Result<bool, Fault> {
        let walk = self.walk(thread)?;
        let mut words = walk.instructions.iter().chain(walk.words.iter().flatten());
        if walk.is_cut || words.any(|word| contains(code, *word)) {
            return Ok(true);
        }
        // A coroutine, or a handler that returns in another way: where the thread left its own
        // stack is not known, so that all of it counts.
        let own = self.region(thread.registers()?.fs_base);
        let is_own = walk
            .outermost
            .is_some_and(|last| own == Some(last) || last.path == "[stack]");
        let left = own.filter(|own| !is_own && own.path.is_empty());
        Ok(left.is_some_and(|own| self.has_any(own, code)))
    }

    fn walk(&self, thread: &Tracee) -> Result<Walk<'_>, Fault> {
        let registers = thread.registers()?;
        let mut walk = Walk {
            instructions: vec![registers.rip],
            words: Vec::new(),
            outermost: None,
            is_cut: true,
        };
        let mut rsp = registers.rsp;
        while walk.words.len() < MAX_STACKS {
            let Some(stack) = self.region(rsp) else {
                return Ok(walk);
            };
            let bytes = (stack.hi - rsp).min(MAX_STACK_BYTES);
            let words = self.memory.words(rsp, (bytes / 8) as usize);
            let frames = (0..words.len()).filter(|i| self.signal_returns.contains(&words[*i]));
            let interrupted = frames.filter_map(|i| signal_frame::interrupted(&words[i..]));
            let mut before = None;
            for (rip, there) in interrupted {
                walk.instructions.push(rip);
                if before.is_none() && !(rsp..stack.hi).contains(&there) {
                    before = Some(there);
                }
            }
            walk.outermost = Some(stack);
            walk.words.push(words);
            match before {
                Some(there) => rsp = there,
                None => {
                    walk.is_cut = bytes < stack.hi - rsp;
                    return Ok(walk);
                }
            }
        }
        Ok(walk)
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let holds = |r: &&Region| (r.lo..r.hi).contains(&address);
        self.regions.iter().find(holds)
    }

    fn has_any(&self, region: &Region, code: &[Range<u64>]) -> bool {
        const CHUNK_WORDS: usize = 1 << 14;
        let mut chunks = (region.lo..region.hi).step_by(CHUNK_WORDS * 8);
        chunks.any(|at| {
            let count = (((region.hi - at) / 8) as usize).min(CHUNK_WORDS);
            let words = self.memory.words(at, count);
            words.iter().any(|word| contains(code, *word))
        })
    }
}

fn contains(code: &[Range<u64>], address: u64) -> bool {
    code.iter().any(|range| range.contains(&address))
}
