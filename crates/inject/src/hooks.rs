//! Patches of function entries: how they are made ready, put in, and taken out.

use convoy_abi::{
    AttachEntry, Attachment, CV_ATTACHMENT_ACTIVE, CV_ATTACHMENT_IDLE, CV_PATCH_BYTES,
};
use convoy_probes::relocate::{far_jump, near_jump, relocate, PATCH_BYTES};

use crate::all_stopped::AllStopped;
use crate::image::Image;
use crate::memory::Memory;
use crate::owner::set_state;
use crate::process::{AgentCopy, Process};
use crate::stacks::Stacks;
use crate::tracee::Fault;
use convoy_probes::Refusal;

const _: () = assert!(CV_PATCH_BYTES == PATCH_BYTES);

/// Of the trampolines of a function: a jump to the hook, and the relocated beginning.
const SLOT_BYTES: u64 = 96;
const RELOCATED_AT: u64 = 24;

const PAGE: u64 = 4096;

/// Bytes of all trampolines, and of the page of the gate behind them.
pub(crate) fn area_bytes() -> u64 {
    let bytes = convoy_abi::CV_ATTACH_ENTRIES as u64 * SLOT_BYTES;
    bytes.next_multiple_of(PAGE) + PAGE
}

/// The page of the gate: a word that is not 0 while hooks are entered. The kernel gives children
/// that have a copy of the memory an empty page in its place (MADV_WIPEONFORK), however they are
/// made: their calls pass the agent by, which would count into the parent's tables.
pub(crate) fn gate_page(area: u64) -> (u64, u64) {
    (area + area_bytes() - PAGE, PAGE)
}

/// `cmp dword [rip+gate], 0; je relocated; jmp [rip+0]` and the address of the hook. Functions may
/// change the flags, and callers do not count on them.
fn gated_jump(slot: u64, gate: u64, hook: u64) -> Option<Vec<u8>> {
    const COMPARE_BYTES: u64 = 7;
    const JUMP_BYTES: u64 = 2;
    let behind = slot + COMPARE_BYTES;
    let distance = i32::try_from(gate.wrapping_sub(behind) as i64).ok()?;
    let mut code = vec![0x83, 0x3d];
    code.extend(distance.to_le_bytes());
    code.push(0);
    code.extend([0x74, (RELOCATED_AT - COMPARE_BYTES - JUMP_BYTES) as u8]);
    code.extend(far_jump(hook));
    Some(code)
}

/// A function whose beginning can be replaced.
#[derive(Debug, Clone)]
struct Patch {
    /// In the journal.
    index: usize,
    entry: AttachEntry,
    /// Of the displaced instructions: where they are, and where they are now.
    moved: Vec<(u64, u64)>,
}

/// All patches of a copy of the agent.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    patches: Vec<Patch>,
    /// Functions that cannot be patched, and why.
    pub left_out: Vec<String>,
}

impl Plan {
    /// Writes the trampolines, which nobody uses yet. `area`: room for them, near the C library.
    pub fn prepare(
        process: &Process,
        agent: (&Image, u64),
        journal: &Attachment,
        area: u64,
        memory: &Memory,
    ) -> std::io::Result<Self> {
        let mut plan = Self::default();
        let (image, base) = agent;
        for (index, entry) in journal
            .entry
            .iter()
            .enumerate()
            .take(journal.entries as usize)
        {
            let name = memory.text(entry.name)?;
            let Some(hook) = image.symbols.get(&name) else {
                continue;
            };
            let slot = area + index as u64 * SLOT_BYTES;
            match patch(process, memory, entry, slot) {
                Ok((code, mut patch)) => {
                    let (gate, _) = gate_page(area);
                    let Some(jump) = gated_jump(slot, gate, hook.address + base) else {
                        continue;
                    };
                    memory.write(slot, &jump)?;
                    memory.write(slot + RELOCATED_AT, &code)?;
                    patch.index = index;
                    plan.patches.push(patch);
                }
                Err(why) => plan.left_out.push(format!("{name}: {why}")),
            }
        }
        Ok(plan)
    }

    /// Functions that are hooked.
    pub fn len(&self) -> usize {
        self.patches.len()
    }

    /// Whether no function has been patched since this was prepared.
    pub fn is_current(&self, memory: &Memory) -> bool {
        self.patches.iter().map(|p| &p.entry).all(|entry| {
            let mut now = [0; CV_PATCH_BYTES];
            let read = memory.read(entry.entry, &mut now);
            read.is_ok() && now == entry.original[..CV_PATCH_BYTES]
        })
    }

    /// Puts the hooks in. False: a thread is at a place that it must leave first.
    pub fn install(
        &self,
        stopped: &AllStopped,
        (memory, stacks): (&Memory, &Stacks<'_>),
        journal_at: u64,
        journal: &Attachment,
    ) -> Result<bool, Fault> {
        let mut displaced = Vec::new();
        for thread in &stopped.threads {
            let registers = thread.registers()?;
            let interrupted = stacks.interrupted(thread)?;
            if interrupted.iter().any(|at| self.inside(*at).is_some()) {
                return Ok(false);
            }
            if let Some(patch) = self.inside(registers.rip) {
                let new = patch.moved.iter().find(|(old, _)| *old == registers.rip);
                match new {
                    Some((_, new)) => displaced.push((thread, *new)),
                    None => return Ok(false),
                }
            }
        }
        let mut journal = *journal;
        for patch in &self.patches {
            journal.entry[patch.index] = patch.entry;
        }
        journal.state = CV_ATTACHMENT_ACTIVE;
        memory.put(journal.gate, &1u32).map_err(Fault::from)?;
        // Then the journal: whoever comes after us can undo what follows.
        memory.put(journal_at, &journal).map_err(Fault::from)?;
        for entry in self.patches.iter().map(|p| &p.entry) {
            if entry.slot != 0 {
                memory
                    .put(entry.slot, &entry.trampoline)
                    .map_err(Fault::from)?;
            }
        }
        // From there they go on also if no patch follows.
        for (thread, rip) in displaced {
            let mut registers = thread.registers()?;
            registers.rip = rip;
            thread.set_registers(&registers)?;
        }
        for entry in self.patches.iter().map(|p| &p.entry) {
            let bytes = &entry.patched[..CV_PATCH_BYTES];
            memory.write(entry.entry, bytes).map_err(Fault::from)?;
        }
        Ok(true)
    }

    /// The patch that an address is within: not at its first byte, from where the hook is taken.
    fn inside(&self, address: u64) -> Option<&Patch> {
        let is_inside =
            |p: &&Patch| address > p.entry.entry && address < p.entry.entry + CV_PATCH_BYTES as u64;
        self.patches.iter().find(is_inside)
    }
}

/// The relocated beginning, and what the journal says of it.
fn patch(
    process: &Process,
    memory: &Memory,
    entry: &AttachEntry,
    slot: u64,
) -> Result<(Vec<u8>, Patch), String> {
    let image = &process.libc.image;
    let in_file = entry.entry.wrapping_sub(process.libc.bias);
    let size = image.size_at(in_file).ok_or("it is not the C library's")?;
    let code = image.code_at(in_file).ok_or("its code cannot be read")?;
    let code = code.get(..size as usize).ok_or("its code is cut off")?;
    let mut now = [0; CV_PATCH_BYTES];
    memory
        .read(entry.entry, &mut now)
        .map_err(|e| e.to_string())?;
    if code
        .get(..CV_PATCH_BYTES)
        .is_some_and(|original| original != now)
    {
        return Err("something else has patched it".into());
    }
    let trampoline = slot + RELOCATED_AT;
    let relocated = relocate(code, entry.entry, trampoline).map_err(|e| e.to_string())?;
    if relocated.code.len() as u64 > SLOT_BYTES - RELOCATED_AT {
        return Err("its beginning is too long".into());
    }
    let jump = near_jump(entry.entry, slot).ok_or("it is too far away")?;
    let mut new = AttachEntry {
        trampoline,
        ..*entry
    };
    new.original[..CV_PATCH_BYTES].copy_from_slice(&now);
    new.patched[..CV_PATCH_BYTES].copy_from_slice(&jump);
    let moved = relocated.moved.iter();
    let patch = Patch {
        index: 0,
        entry: new,
        moved: moved
            .map(|(old, at)| (entry.entry + old, trampoline + at))
            .collect(),
    };
    Ok((relocated.code, patch))
}

/// Takes the hooks of a copy of the agent out.
pub(crate) fn remove(memory: &Memory, journal_at: u64) -> std::io::Result<()> {
    let journal: Attachment = memory.get(journal_at)?;
    memory.put(journal.gate, &0u32)?;
    for entry in journal.entry.iter().filter(|e| e.patched != [0; 8]) {
        let mut now = [0; CV_PATCH_BYTES];
        memory.read(entry.entry, &mut now)?;
        if now == entry.patched[..CV_PATCH_BYTES] {
            memory.write(entry.entry, &entry.original[..CV_PATCH_BYTES])?;
        }
    }
    set_state(memory, journal_at, CV_ATTACHMENT_IDLE)
}

/// Makes a copy of the agent ready for another use, if no thread is inside it: then nobody uses its
/// tables, and every thread forgets the record that this copy gave it.
pub(crate) fn leave_if_unused(
    stopped: &AllStopped,
    (memory, stacks): (&Memory, &Stacks<'_>),
    copy: &AgentCopy,
) -> Result<bool, Fault> {
    if stacks.lead_into(stopped, std::slice::from_ref(&copy.text))? {
        return Ok(false);
    }
    let journal: Attachment = memory.get(copy.journal_at).map_err(Fault::from)?;
    for thread in &stopped.threads {
        let at = thread
            .registers()?
            .fs_base
            .wrapping_add_signed(journal.self_offset);
        memory.put(at, &0u64).map_err(Fault::from)?;
    }
    Ok(true)
}

/// What went wrong while nothing was patched.
pub(crate) fn unwritable(pid: u32, e: &std::io::Error) -> Refusal {
    if e.raw_os_error() == Some(libc::ESRCH) {
        return Refusal::gone(pid);
    }
    Refusal::new(
        format!("the process's memory cannot be written: {e}"),
        "start it under convoy: convoy -- COMMAND",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_gate_leads_to_the_relocated_beginning() {
        let (slot, hook) = (0x7f00_0000_0000, 0x7e00_1234_5678);
        let (gate, _) = gate_page(slot);
        let code = gated_jump(slot, gate, hook).unwrap();
        // cmp dword [rip+distance], 0; je distance
        let distance = i32::from_le_bytes(code[2..6].try_into().unwrap());
        assert_eq!((slot + 7).wrapping_add_signed(distance.into()), gate);
        assert_eq!(code[..2], [0x83, 0x3d]);
        assert_eq!(
            (code[6], code[7], u64::from(code[8]) + 9),
            (0, 0x74, RELOCATED_AT)
        );
        assert_eq!(code[code.len() - 8..], hook.to_le_bytes());
        assert!(code.len() as u64 <= RELOCATED_AT);
        assert_eq!(gated_jump(slot, slot + (1 << 33), hook), None);
    }
}
