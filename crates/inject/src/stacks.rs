//! Whether threads may return into some code: a look at their stacks.

use convoy_abi::Attachment;

use crate::all_stopped::AllStopped;
use crate::hooks;
use crate::memory::{regions, Memory, Region};
use crate::process::AgentCopy;
use crate::signal_frame;
use crate::tracee::{Fault, Tracee};

/// Bytes of a stack that are searched for return addresses. A deeper one may have them.
const MAX_STACK_BYTES: u64 = 1 << 20;
/// Signal handlers that have interrupted one another.
const MAX_HANDLERS: usize = 16;

/// Makes a copy of the agent ready for another use, if no thread is inside it: then nobody uses its
/// tables. `signal_returns`: what signal handlers return to.
pub(crate) fn leave_if_unused(
    pid: u32,
    stopped: &AllStopped,
    memory: &Memory,
    copy: &AgentCopy,
    signal_returns: &[u64],
) -> Result<bool, Fault> {
    // Stacks grow: as they are now.
    let regions = regions(pid)?;
    let stacks = Stacks {
        memory,
        regions: &regions,
        signal_returns,
    };
    for thread in &stopped.threads {
        if stacks.lead_into(thread, copy.text)? {
            return Ok(false);
        }
    }
    let journal: Attachment = memory.get(copy.journal_at).map_err(Fault::from)?;
    hooks::forget_threads(stopped, memory, &journal)?;
    Ok(true)
}

/// The stacks of a process.
struct Stacks<'a> {
    memory: &'a Memory,
    regions: &'a [Region],
    signal_returns: &'a [u64],
}

/// What is known of one stack.
enum Look {
    /// It has an address in the code, or is too deep to say.
    LeadsThere,
    /// A signal handler runs on it, which has interrupted the thread elsewhere.
    InterruptedAt {
        rip: u64,
        rsp: u64,
    },
    LeadsElsewhere,
}

impl Stacks<'_> {
    /// Whether a thread may return into this code, also from a signal handler that runs on a stack
    /// of its own.
    fn lead_into(&self, thread: &Tracee, code: (u64, u64)) -> Result<bool, Fault> {
        let registers = thread.registers()?;
        let (mut rip, mut rsp) = (registers.rip, registers.rsp);
        let own = self.region(registers.fs_base);
        for _ in 0..MAX_HANDLERS {
            if (code.0..code.1).contains(&rip) {
                return Ok(true);
            }
            let Some(stack) = self.region(rsp) else {
                return Ok(true);
            };
            match self.look(rsp, stack.hi, code) {
                Look::LeadsThere => return Ok(true),
                Look::InterruptedAt {
                    rip: rip_before,
                    rsp: rsp_before,
                } => (rip, rsp) = (rip_before, rsp_before),
                Look::LeadsElsewhere => {
                    // A coroutine, or a handler that returns in another way: where the thread left
                    // its own stack is not known, so that all of it counts.
                    let is_own = own == Some(stack) || stack.path == "[stack]";
                    let left = own.filter(|own| !is_own && own.path.is_empty());
                    return Ok(left.is_some_and(|own| self.has_any(own.lo, own.hi, code)));
                }
            }
        }
        Ok(true)
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let holds = |r: &&Region| (r.lo..r.hi).contains(&address);
        self.regions.iter().find(holds)
    }

    fn look(&self, rsp: u64, end: u64, code: (u64, u64)) -> Look {
        if end - rsp > MAX_STACK_BYTES {
            return Look::LeadsThere;
        }
        let words = self.memory.words(rsp, ((end - rsp) / 8) as usize);
        if words.iter().any(|word| (code.0..code.1).contains(word)) {
            return Look::LeadsThere;
        }
        let frames = words
            .iter()
            .enumerate()
            .filter(|(_, word)| self.signal_returns.contains(word));
        for (index, _) in frames {
            let interrupted = signal_frame::interrupted(&words[index..]);
            // On the same stack everything has been looked at.
            if let Some((rip, there)) = interrupted.filter(|(_, there)| !(rsp..end).contains(there))
            {
                return Look::InterruptedAt { rip, rsp: there };
            }
        }
        Look::LeadsElsewhere
    }

    fn has_any(&self, lo: u64, hi: u64, code: (u64, u64)) -> bool {
        const CHUNK_WORDS: usize = 1 << 14;
        let step = CHUNK_WORDS * 8;
        (lo..hi).step_by(step).any(|at| {
            let count = (((hi - at) / 8) as usize).min(CHUNK_WORDS);
            let words = self.memory.words(at, count);
            words.iter().any(|word| (code.0..code.1).contains(word))
        })
    }
}
