//! Two sections executed one after the other, in both orders.

use convoy_profile::SectionInput;

use super::cpu::{Cpu, Decoded, PRESERVED, RDI};
use super::memory::Memory;
use super::Stop;

/// Instructions that a re-execution may take beyond those observed: it can take another path.
const SPARE_INSTRUCTIONS: u64 = 10_000;

/// A section whose re-execution gives back what was recorded.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    input: &'a SectionInput,
    /// Where it ends: the entry of the release.
    end: u64,
}

/// What the order of two sections changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: memory and what each hands on are the same.
    Same,
    /// The values in memory, or in registers that outlive a section.
    Differs,
}

impl Observed<'_> {
    /// Instructions that a re-execution takes.
    pub fn instructions(&self) -> u64 {
        self.input.instructions
    }
}

/// Executes a section on the values that it began with, and checks that nothing differs from its
/// record.
pub fn observe<'a>(input: &'a SectionInput, code: &Decoded<'_>) -> Result<Observed<'a>, Stop> {
    let mut memory = Memory::default();
    assume(&mut memory, input);
    let mut cpu = Cpu::new(input, &mut memory);
    while cpu.executed < input.instructions {
        cpu.step(code)?;
    }
    let is_faithful = cpu.digest == input.loads && cpu.general[RDI] == Some(input.object);
    is_faithful
        .then_some(Observed { input, end: cpu.ip })
        .ok_or(Stop::Diverged)
}

/// Executes two sections of different threads in both orders, on the memory that each of them
/// found.
///
/// The result is the same if all memory that one of them stored to, and the registers that outlive
/// a call, are: for either section as if it had come first or second. Stack below the stack pointer
/// is dead.
pub fn compare(a: &Observed<'_>, b: &Observed<'_>, code: &Decoded<'_>) -> Result<Outcome, Stop> {
    // One stack for both, or none known: not two threads at one time.
    if a.input.stack_lo == b.input.stack_lo || a.input.object != b.input.object {
        return Err(Stop::Diverged);
    }
    for (first, second) in [(a, b), (b, a)] {
        // What both knew is as the first of them found it.
        let mut found = Memory::default();
        assume(&mut found, first.input);
        assume(&mut found, second.input);
        let mut one = found.clone();
        let a_first = run(a, &mut one, code)?;
        let b_second = run(b, &mut one, code)?;
        let mut other = found;
        let b_first = run(b, &mut other, code)?;
        let a_second = run(a, &mut other, code)?;
        let is_dead = |word: u64| a.is_dead(word, &a_first) || b.is_dead(word, &b_first);
        let hands_on_same = a_first == a_second && b_first == b_second;
        if !hands_on_same || !one.is_same(&other, is_dead)? {
            return Ok(Outcome::Differs);
        }
    }
    Ok(Outcome::Same)
}

/// Registers that outlive the call of the release.
type LiveOut = [Option<u64>; PRESERVED.len()];

fn assume(memory: &mut Memory, input: &SectionInput) {
    for word in &input.found {
        memory.assume(word.address, word.value, word.known);
    }
}

fn run(section: &Observed<'_>, memory: &mut Memory, code: &Decoded<'_>) -> Result<LiveOut, Stop> {
    let mut cpu = Cpu::new(section.input, memory);
    let limit = 2 * section.input.instructions + SPARE_INSTRUCTIONS;
    while cpu.ip != section.end {
        if cpu.executed >= limit {
            return Err(Stop::TooLong);
        }
        cpu.step(code)?;
    }
    if cpu.general[RDI] != Some(section.input.object) {
        return Err(Stop::Diverged);
    }
    Ok(PRESERVED.map(|register| cpu.general[register]))
}

impl Observed<'_> {
    /// Whether a word is stack that was left when the release was called.
    fn is_dead(&self, word: u64, out: &LiveOut) -> bool {
        /// Of the stack pointer among [`PRESERVED`].
        const RSP: usize = 2;
        let lo = self.input.stack_lo;
        lo != 0 && out[RSP].is_some_and(|top| (lo..top & !7).contains(&word))
    }
}
