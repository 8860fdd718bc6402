//! Whether a sampled thread works, or waits in a loop on its processor.

use std::cell::RefCell;
use std::collections::HashMap;

use convoy_profile::{LoopIx, SpinKind, StackIx};
use convoy_spinloop::{judge_with, known, Verdict};

use super::images::Image;
use super::raw::Call;
use super::reason;

/// Frames of a stack in which a runtime's polling function is looked for: deeper ones call what works.
const FRAMES: usize = 8;

/// Code that is decoded before and after an instruction whose function is not known, bytes.
const WINDOW: usize = 256;

/// Of a function that is known, at most so many bytes on each side.
const LARGEST: usize = 16 << 10;

/// A waiting loop, found in one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Number of the image.
    pub image: usize,
    /// An instruction of it, or the function's first.
    pub pc: u64,
    pub lo: u64,
    pub hi: u64,
    pub kind: SpinKind,
    pub evidence: String,
    pub samples: u64,
}

/// All waiting loops of a recording.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    all: Vec<Found>,
    index: HashMap<(usize, u64), LoopIx>,
    /// The loop in which each thread's sample before this one was.
    before: HashMap<u32, LoopIx>,
}

impl Loops {
    /// The loop in which thread `tid` waits that was found at `stack`. A stack is judged once.
    pub fn of_sample(
        &mut self,
        number: usize,
        image: &mut Image,
        (tid, stack): (u32, StackIx),
        in_kernel: bool,
        call: &Call,
    ) -> Option<LoopIx> {
        // In the kernel a thread works for itself, unless it went there only to give way or to ask the time.
        if stack == 0 || (in_kernel && !reason::gives_way(call)) {
            return None;
        }
        let ix = match image.loops.get(&stack) {
            Some(&known) => known,
            None => {
                let found = self.judge(number, image, stack);
                image.loops.insert(stack, found);
                found
            }
        };
        let before = match ix {
            Some(ix) => self.before.insert(tid, ix),
            None => self.before.remove(&tid),
        };
        let found = self.all.get_mut(ix? as usize)?;
        // A try at a lock that is free passes such a loop, too: it waits if it is still there at the next sample.
        if matches!(found.kind, SpinKind::Lock | SpinKind::Yield) && before != ix {
            return None;
        }
        found.samples += 1;
        ix
    }

    /// The thread has blocked or ended.
    pub fn left(&mut self, tid: u32) {
        self.before.remove(&tid);
    }

    /// All loops, by their index.
    pub fn into_inner(self) -> Vec<Found> {
        self.all
    }

    fn judge(&mut self, number: usize, image: &mut Image, stack: StackIx) -> Option<LoopIx> {
        let pcs: Vec<u64> = image.unwinder.pcs(stack).take(FRAMES).collect();
        let found = by_name(image, &pcs).or_else(|| by_code(image, &pcs))?;
        let key = (number, found.lo);
        Some(*self.index.entry(key).or_insert_with(|| {
            self.all.push(Found {
                image: number,
                ..found
            });
            (self.all.len() - 1) as LoopIx
        }))
    }
}

/// A function on the stack is known to poll.
fn by_name(image: &mut Image, pcs: &[u64]) -> Option<Found> {
    pcs.iter().find_map(|&pc| {
        let function = image.unwinder.function(pc)?;
        let poller = known(function.name)?;
        Some(Found {
            image: 0,
            pc,
            lo: function.lo,
            hi: function.lo,
            kind: poller.kind,
            evidence: format!("{}: {}", function.name, poller.why),
            samples: 0,
        })
    })
}

/// The innermost code, or what called a stub that only gives way, is a loop that waits.
fn by_code(image: &mut Image, pcs: &[u64]) -> Option<Found> {
    for &pc in pcs.iter().take(2) {
        let (before, after) = match image.unwinder.function(pc) {
            Some(f) => (
                (pc.saturating_sub(f.lo) as usize).min(LARGEST),
                (f.hi.saturating_sub(pc) as usize).min(LARGEST),
            ),
            None => (WINDOW, WINDOW),
        };
        let code = image.unwinder.code(pc, before, after)?;
        let (bytes, base) = (code.bytes.to_vec(), code.lo);
        let unwinder = RefCell::new(&mut image.unwinder);
        let callees = |target| {
            let mut unwinder = unwinder.borrow_mut();
            unwinder.function(target).map(|f| f.name.to_owned())
        };
        match judge_with(&bytes, base, pc, &callees) {
            Verdict::Waits(spin) => {
                return Some(Found {
                    image: 0,
                    pc,
                    lo: spin.lo,
                    hi: spin.hi,
                    kind: spin.kind,
                    evidence: spin.evidence,
                    samples: 0,
                })
            }
            Verdict::Works(_) => return None,
            // Perhaps a stub: its caller decides.
            Verdict::Unknown(_) => {}
        }
    }
    None
}
