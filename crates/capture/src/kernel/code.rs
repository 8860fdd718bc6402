//! What is known of an image's code, by instruction: threads come by the same few on thousands of stacks, and a verdict
//! takes some 50 us.

use std::cell::RefCell;
use std::collections::hash_map::Entry;

use convoy_sched::Map;
use convoy_spinloop::{judge_with, known, only_helps, works, KnownPoller, Verdict};
use convoy_unwind::Unwinder;

/// Code that is looked at before and after an instruction, bytes. A loop that waits is smaller; what is around it
/// need not be.
const WINDOW: usize = 2048;

/// So many instructions are looked into at once. A program that comes by more is busy with other things than one loop, or one
/// cache line: then only those that it comes by again are worth it.
const AT_ONCE: usize = 64;
/// So many times an instruction is met, then, before it is looked into. Who waits in a loop, or fights for a line, is
/// there all the time...
const MET: u8 = 3;
/// ... and once more for each [`AT_ONCE`] that have been looked into, up to this: the flatter a program, the less is behind
/// one of its instructions.
const MET_AT_MOST: u8 = 16;
/// For good.
const DUE: u8 = u8::MAX;

/// How often instructions were met, after those that were looked into at once.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Instructions that were found worth it. Counted here and not by what came of it: of code that a program generates nothing
    /// is kept.
    looks: usize,
    /// How often each was met, or [`DUE`].
    later: Map<u64, u8>,
}

impl Met {
    /// A thread was found at `pc`, of which nothing is known: whether that is worth looking into it.
    pub(super) fn is_due(&mut self, pc: u64) -> bool {
        if self.looks < AT_ONCE {
            self.looks += 1;
            return true;
        }
        let again = (self.looks / AT_ONCE - 1).min(usize::from(MET_AT_MOST - MET));
        let met = self.later.entry(pc).or_default();
        if *met == DUE {
            return true;
        }
        *met += 1;
        let is_due = usize::from(*met) >= usize::from(MET) + again;
        if is_due {
            *met = DUE;
            self.looks += 1;
        }
        is_due
    }

    /// How many were met later.
    pub(super) fn len(&self) -> usize {
        self.later.len()
    }
}

/// The function of an instruction in a file.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub name: String,
    pub lo: u64,
    /// The last byte.
    pub hi: u64,
    pub role: Role,
    /// It gives way, asks the time or tries a lock: where it is, its caller decides.
    pub helps: bool,
}

/// What a function's name tells.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// It works, whatever called it.
    Works,
    /// It waits for something on the processor.
    Polls(KnownPoller),
    /// Nothing.
    Plain,
}

/// Of one image, what was found out so far. Code in files stays as it is; of what a program generates nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// `None`: the file does not say.
    functions: Map<u64, Option<Function>>,
    verdicts: Map<u64, Verdict>,
    met: Met,
}

impl Code {
    /// A thread was found at `pc`: whether that is worth a verdict now.
    pub(super) fn is_due(&mut self, pc: u64) -> bool {
        self.verdicts.contains_key(&pc) || self.met.is_due(pc)
    }

    /// The function of the instruction at `pc`; `None` outside of files and where they have no symbols.
    pub(super) fn function(&mut self, unwinder: &mut Unwinder, pc: u64) -> Option<&Function> {
        let place = match self.functions.entry(pc) {
            Entry::Occupied(known) => return known.into_mut().as_ref(),
            Entry::Vacant(place) => place,
        };
        let found = unwinder.function(pc).map(|found| Function {
            name: found.name.to_owned(),
            lo: found.lo,
            hi: found.hi.saturating_sub(1).max(found.lo),
            role: role(found.name),
            helps: only_helps(found.name),
        });
        if found.is_none() && !unwinder.is_in_file(pc) {
            return None; // a file may be mapped there later
        }
        place.insert(found).as_ref()
    }

    /// Whether a thread only waits at `pc`, or works; `None` where there is no code. `called` is what it has called from
    /// there.
    pub(super) fn verdict(
        &mut self,
        unwinder: &mut Unwinder,
        pc: u64,
        called: Option<&str>,
    ) -> Option<Verdict> {
        let keeps = called.is_none() && self.function(unwinder, pc).is_some();
        if let Some(known) = self.verdicts.get(&pc).filter(|_| keeps) {
            return Some(known.clone());
        }
        let code = unwinder.code(pc, WINDOW, WINDOW)?;
        let (bytes, base) = (code.bytes.to_vec(), code.lo);
        let unwinder = RefCell::new(unwinder);
        let callees = |target| {
            if target == pc {
                return called.map(str::to_owned); // through a register
            }
            let name = unwinder.borrow_mut().callee(pc, target);
            name.map(|name| name.to_string())
        };
        let verdict = judge_with(&bytes, base, pc, &callees);
        if keeps {
            self.verdicts.insert(pc, verdict.clone());
        }
        Some(verdict)
    }
}

fn role(name: &str) -> Role {
    if works(name) {
        return Role::Works;
    }
    known(name).map_or(Role::Plain, Role::Polls)
}

#[cfg(test)]
mod tests {
    use convoy_spinloop::Why;

    use super::*;

    #[test]
    fn generated_code_is_looked_into_at_once_as_seldom_as_any() {
        let mut code = Code::default();
        let looks = (0..10 * AT_ONCE as u64)
            .filter(|&pc| code.is_due(pc)) // and no verdict is kept
            .count();
        assert_eq!(looks, AT_ONCE);
    }

    #[test]
    fn the_more_was_looked_into_the_more_often_an_instruction_is_met_before() {
        let mut met = Met::default();
        let mut needed = |pc| (1..).find(|_| met.is_due(pc)).unwrap_or(0);
        let times: Vec<usize> = (0..2000).map(&mut needed).collect();
        assert!(times.is_sorted());
        assert_eq!(times[..AT_ONCE], [1; AT_ONCE]);
        assert_eq!(times[AT_ONCE], usize::from(MET));
        assert_eq!(times[1999], usize::from(MET_AT_MOST));
    }

    #[test]
    fn of_many_instructions_only_those_met_again_are_due() {
        let mut code = Code::default();
        for pc in 0..AT_ONCE as u64 {
            assert!(code.is_due(pc));
            code.verdicts.insert(pc, Verdict::Works(Why::NoLoop));
        }
        assert!(code.is_due(0), "known: it costs nothing");
        assert!(!code.is_due(5_000));
        assert!(!code.is_due(5_000));
        assert!(code.is_due(5_000));
        assert!(!code.is_due(5_001));
    }
}
