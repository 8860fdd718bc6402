//! Patches of function entries: how they are made ready, put in, and taken out.

use convoy_abi::{
    AttachEntry, Attachment, CV_ATTACHMENT_ACTIVE, CV_ATTACHMENT_IDLE, CV_PATCH_BYTES,
};
use convoy_probes::relocate::{far_jump, near_jump, relocate, PATCH_BYTES};

use crate::image::Image;
use crate::memory::Memory;
use crate::process::Process;
use crate::tracee::{AllStopped, Fault};
use convoy_probes::Refusal;

const _: () = assert!(CV_PATCH_BYTES == PATCH_BYTES);

/// Of the trampolines of a function: a jump to the hook, and the relocated beginning.
const SLOT_BYTES: u64 = 64;
const RELOCATED_AT: u64 = 16;

/// Words of a stack that are searched for the instruction at which a signal handler has interrupted
/// it.
const SIGNAL_WORDS: usize = 4096;

/// Bytes of all trampolines.
pub(crate) fn area_bytes() -> u64 {
    let bytes = convoy_abi::CV_ATTACH_ENTRIES as u64 * SLOT_BYTES;
    bytes.next_multiple_of(4096)
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
                    memory.write(slot, &far_jump(hook.address + base))?;
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

    /// Puts the hooks in. False: a thread is at a place that it must leave first.
    pub fn install(
        &self,
        stopped: &AllStopped,
        memory: &Memory,
        journal_at: u64,
        owner: (u32, u64),
    ) -> Result<bool, Fault> {
        let mut displaced = Vec::new();
        for thread in &stopped.threads {
            let registers = thread.registers()?;
            let stack = memory.words(registers.rsp, SIGNAL_WORDS);
            if stack.iter().any(|word| self.inside(*word).is_some()) {
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
        let mut journal: Attachment = memory.get(journal_at).map_err(Fault::from)?;
        for patch in &self.patches {
            journal.entry[patch.index] = patch.entry;
        }
        journal.state = CV_ATTACHMENT_ACTIVE;
        (journal.owner_pid, journal.owner_start) = owner;
        // The journal first: whoever comes after us can undo what follows.
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
    for entry in journal.entry.iter().filter(|e| e.patched != [0; 8]) {
        let mut now = [0; CV_PATCH_BYTES];
        memory.read(entry.entry, &mut now)?;
        if now == entry.patched[..CV_PATCH_BYTES] {
            memory.write(entry.entry, &entry.original[..CV_PATCH_BYTES])?;
        }
    }
    let state_at = journal_at + std::mem::offset_of!(Attachment, state) as u64;
    memory.put(state_at, &CV_ATTACHMENT_IDLE)
}

/// Without threads inside: every thread forgets the record that this copy of the agent gave it.
pub(crate) fn forget_threads(
    stopped: &AllStopped,
    memory: &Memory,
    journal: &Attachment,
) -> Result<(), Fault> {
    for thread in &stopped.threads {
        let at = thread
            .registers()?
            .fs_base
            .wrapping_add_signed(journal.self_offset);
        memory.put(at, &0u64).map_err(Fault::from)?;
    }
    Ok(())
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
