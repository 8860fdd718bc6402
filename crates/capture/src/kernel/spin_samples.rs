//! Whether a sampled thread works, or waits in a loop on its processor.

use convoy_profile::{LoopIx, SpinKind, StackIx};
use convoy_sched::Map;
use convoy_spinloop::{Loop, Tells, Verdict};

use super::code::Role;
use super::images::Image;
use super::raw::{Call, Outcome};
use super::reason;

/// Frames of a stack in which a runtime's polling function is looked for: deeper ones call what works. Libraries of MPI poll some ten
/// calls below what the program has called.
const FRAMES: usize = 16;

/// Stacks that are judged in one second of the recording. A verdict takes some 50 us: more would keep the
/// listening thread from listening. A thread that waits comes by again.
const PER_SECOND: u32 = 2_000;

/// Of code outside of files a verdict holds so long: it may be another loop by then. One that is confirmed holds twice as
/// long as before...
const GENERATED_NS: u64 = 1_000_000_000;
/// ... up to this.
const CONFIRMED_NS: u64 = 32_000_000_000;

/// A thread that was found on its processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub ts: u64,
    pub tid: u32,
    pub stack: StackIx,
    pub in_kernel: bool,
    pub call: &'a Call,
    pub outcome: Option<Outcome>,
}

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

impl Found {
    /// What the code around `pc` is.
    fn of_code(image: &Image, pc: u64, spin: Loop) -> Self {
        Self {
            image: image.number,
            pc,
            lo: spin.lo,
            hi: spin.hi,
            kind: spin.kind,
            evidence: spin.evidence,
            samples: 0,
        }
    }
}

/// What a stack is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged {
    at: Option<Spot>,
    from_ns: u64,
    /// How long that holds.
    for_ns: u64,
}

impl Judged {
    /// What a stack is now, of which `before` was known; `in_file`: for good.
    fn new(at: Option<Spot>, ts: u64, in_file: bool, before: Option<&Self>) -> Self {
        let for_ns = match before {
            _ if in_file => u64::MAX,
            Some(before) if before.at.map(|s| s.ix) == at.map(|s| s.ix) => {
                before.for_ns.saturating_mul(2).min(CONFIRMED_NS)
            }
            _ => GENERATED_NS,
        };
        Self {
            at,
            from_ns: ts,
            for_ns,
        }
    }

    fn holds(&self, ts: u64) -> bool {
        ts.saturating_sub(self.from_ns) < self.for_ns
    }
}

/// In a waiting loop.
#[derive(Debug, Clone, Copy)]
struct Spot {
    ix: LoopIx,
    tells: Tells,
}

/// All waiting loops of a recording.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    all: Vec<Found>,
    /// The loop in which each thread's sample before this one was.
    before: Map<u32, LoopIx>,
    /// Of loops that tell nothing by themselves.
    stays: Map<LoopIx, Stays>,
    budget: Budget,
}

/// Samples in a loop, and those of them before which the thread was there already.
#[derive(Debug, Clone, Copy, Default)]
struct Stays {
    samples: u64,
    again: u64,
}

/// How many verdicts there may still be in this second.
#[derive(Debug, Default)]
struct Budget {
    second: u64,
    spent: u32,
}

impl Budget {
    fn take(&mut self, ts: u64) -> bool {
        let second = ts / 1_000_000_000;
        if second != self.second {
            *self = Self { second, spent: 0 };
        }
        self.spent += 1;
        self.spent <= PER_SECOND
    }
}

impl Loops {
    /// The loop in which a thread waits.
    pub fn of_sample(&mut self, image: &mut Image, sample: &Sample) -> Option<LoopIx> {
        let spot = self.spot(image, sample);
        let before = match spot {
            Some(spot) => self.before.insert(sample.tid, spot.ix),
            None => self.before.remove(&sample.tid),
        };
        let spot = spot?;
        let Spot { ix, tells } = spot;
        let again = before == Some(ix);
        let mostly = self.stay(spot, again);
        if !waits(tells, sample).unwrap_or(again || mostly) {
            if !matches!(tells, Tells::Nothing | Tells::Mostly) {
                self.before.remove(&sample.tid); // it has got the lock
            }
            return None;
        }
        self.all.get_mut(ix as usize)?.samples += 1;
        Some(ix)
    }

    /// Whether those who were found in such a loop mostly stay there, as far as is known.
    fn stay(&mut self, spot: Spot, again: bool) -> bool {
        if spot.tells != Tells::Mostly {
            return false;
        }
        let of = self.stays.entry(spot.ix).or_default();
        of.samples += 1;
        of.again += u64::from(again);
        2 * of.again > of.samples
    }

    /// The thread has blocked or ended.
    pub fn left(&mut self, tid: u32) {
        self.before.remove(&tid);
    }

    /// All loops, by their index.
    pub fn into_inner(self) -> Vec<Found> {
        self.all
    }

    /// A thread has gone to sleep at `stack`: keeps the loop around it, if it does nothing but to look and to sleep again.
    pub fn sleeps(&mut self, image: &mut Image, ts: u64, stack: StackIx) {
        if stack == 0 || image.slept.contains(&stack) || !self.budget.take(ts) {
            return;
        }
        image.slept.insert(stack);
        let pcs: Vec<u64> = image.unwinder.pcs(stack).take(FRAMES).collect();
        if let Some(found) = sleep_loop(image, &pcs) {
            self.place(found);
        }
    }

    fn spot(&mut self, image: &mut Image, sample: &Sample) -> Option<Spot> {
        // In the kernel a thread works for itself, unless it went there only to give way or to look.
        if sample.stack == 0 || (sample.in_kernel && !reason::only_looks(sample.call)) {
            return None;
        }
        let known = image.loops.get(&sample.stack);
        if let Some(judged) = known.filter(|j| j.holds(sample.ts)) {
            return judged.at;
        }
        let pcs: Vec<u64> = image.unwinder.pcs(sample.stack).take(FRAMES).collect();
        let named = by_name(image, &pcs);
        let found = match named {
            // The name says it all, and costs little.
            Some(named) if named.kind != SpinKind::Lock => Some((named, Tells::Waits)),
            named => {
                let is_due = pcs.first().is_some_and(|&pc| image.code.is_due(pc));
                if !is_due || !self.budget.take(sample.ts) {
                    return None;
                }
                judge(image, &pcs, named, sample.in_kernel)
            }
        };
        let in_file = pcs
            .first()
            .is_some_and(|&pc| image.code.function(&mut image.unwinder, pc).is_some());
        let at = found.map(|(found, tells)| Spot {
            ix: self.place(found),
            tells,
        });
        let before = image.loops.get(&sample.stack);
        let judged = Judged::new(at, sample.ts, in_file, before);
        image.loops.insert(sample.stack, judged);
        at
    }

    /// A loop and the loop within it are one thing for people.
    fn place(&mut self, found: Found) -> LoopIx {
        let sleeps = |of: &Found| of.kind == SpinKind::Sleep;
        let same = |known: &Found| {
            let overlap = known.lo <= found.hi && found.lo <= known.hi;
            known.image == found.image && sleeps(known) == sleeps(&found) && overlap
        };
        if let Some(ix) = self.all.iter().position(same) {
            let known = &mut self.all[ix];
            known.lo = known.lo.min(found.lo);
            known.hi = known.hi.max(found.hi);
            return ix as LoopIx;
        }
        self.all.push(found);
        (self.all.len() - 1) as LoopIx
    }
}

/// Whether a thread at such an instruction waits; `None`: the instruction does not tell.
fn waits(tells: Tells, sample: &Sample) -> Option<bool> {
    if sample.in_kernel {
        return Some(true); // it gives way
    }
    match tells {
        Tells::Waits => Some(true),
        Tells::Nothing | Tells::Mostly => None,
        Tells::Flag { mask, set } => sample.outcome.map(|o| (o.flags & mask != 0) == set),
        Tells::Accumulator(mask) => sample.outcome.map(|o| o.accumulator & mask != 0),
    }
}

/// What its code says; of a function that takes locks as well only that: it takes free ones, too.
fn judge(
    image: &mut Image,
    pcs: &[u64],
    lock: Option<Found>,
    in_kernel: bool,
) -> Option<(Found, Tells)> {
    let by_code = by_code(image, pcs);
    match (lock, by_code) {
        (None, by_code) => by_code,
        (Some(lock), Some((_, tells))) => Some((lock, tells)),
        (Some(lock), None) => in_kernel.then_some((lock, Tells::Waits)),
    }
}

/// A function on the stack is known to poll, and does nothing that is more than that. If what has called it is known to wait in this way
/// as well, it is that which people have heard of: `MPI_Allreduce`, and not what it polls its transport with.
fn by_name(image: &mut Image, pcs: &[u64]) -> Option<Found> {
    // Functions that only give way, or ask the time, are nobody's work.
    let mut innermost = true;
    let mut polls: Option<Found> = None;
    for &pc in pcs {
        let Some(function) = image.code.function(&mut image.unwinder, pc) else {
            continue;
        };
        match &function.role {
            Role::Works if polls.is_none() => return None,
            Role::Polls(poller) => {
                let counts = match polls {
                    Some(_) => poller.alone,
                    None => innermost || !poller.alone,
                };
                if counts {
                    polls = Some(Found {
                        image: image.number,
                        pc,
                        lo: function.lo,
                        hi: function.hi,
                        kind: poller.kind,
                        evidence: format!("{}: {}", function.name, poller.why),
                        samples: 0,
                    });
                }
            }
            Role::Works | Role::Plain => {}
        }
        innermost &= function.helps;
    }
    polls
}

/// The loop of whoever has called for a sleep, if it waits for what others do.
fn sleep_loop(image: &mut Image, pcs: &[u64]) -> Option<Found> {
    let (pc, spin) = loop_of_code(image, pcs)?;
    let looks = spin.kind == SpinKind::Yield && spin.awaits_memory;
    looks.then(|| Found {
        kind: SpinKind::Sleep,
        ..Found::of_code(image, pc, spin)
    })
}

/// The innermost code, or what called a function that only helps to wait, is a loop that waits.
fn by_code(image: &mut Image, pcs: &[u64]) -> Option<(Found, Tells)> {
    let (pc, spin) = loop_of_code(image, pcs)?;
    let tells = spin.tells;
    Some((Found::of_code(image, pc, spin), tells))
}

/// That loop, and where in it the thread is.
fn loop_of_code(image: &mut Image, pcs: &[u64]) -> Option<(u64, Loop)> {
    let mut stubs = 1;
    let mut helper = None;
    for &pc in pcs {
        // A function that gives way or asks the time may have a loop of its own: its caller decides.
        let function = image.code.function(&mut image.unwinder, pc);
        if let Some(f) = function.filter(|f| f.helps) {
            helper = Some(f.name.clone());
            continue;
        }
        let called = helper.take();
        match image
            .code
            .verdict(&mut image.unwinder, pc, called.as_deref())?
        {
            Verdict::Waits(spin) => return Some((pc, spin)),
            // An entry of a procedure linkage table, say, which only jumps on.
            Verdict::Unknown(_) if stubs > 0 => stubs -= 1,
            Verdict::Works(_) | Verdict::Unknown(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: u32 = 1 << 6;

    fn sample(call: &Call, outcome: Option<Outcome>) -> Sample<'_> {
        Sample {
            ts: 0,
            tid: 1,
            stack: 1,
            in_kernel: false,
            call,
            outcome,
        }
    }

    fn found(image: usize, lo: u64, hi: u64) -> Found {
        Found {
            image,
            pc: lo,
            lo,
            hi,
            kind: SpinKind::Lock,
            evidence: String::new(),
            samples: 0,
        }
    }

    #[test]
    fn a_try_that_failed_is_told_from_one_that_did_not() {
        let call = Call::default();
        let left = |accumulator, flags| {
            let outcome = Outcome { accumulator, flags };
            sample(&call, Some(outcome))
        };
        let flag = Tells::Flag {
            mask: ZERO,
            set: false,
        };
        assert_eq!(waits(flag, &left(0, 0x202)), Some(true));
        assert_eq!(waits(flag, &left(0, 0x202 | ZERO)), Some(false));
        let byte = Tells::Accumulator(0xff);
        assert_eq!(waits(byte, &left(0xf00, 0)), Some(false));
        assert_eq!(waits(byte, &left(0xf01, 0)), Some(true));
        // Where the registers are not known, only the next sample tells.
        assert_eq!(waits(flag, &sample(&call, None)), None);
        assert_eq!(waits(Tells::Nothing, &left(1, 0)), None);
        assert_eq!(waits(Tells::Waits, &sample(&call, None)), Some(true));
    }

    #[test]
    fn a_loop_within_a_loop_is_one_place() {
        let mut loops = Loops::default();
        let outer = loops.place(found(0, 0x100, 0x140));
        assert_eq!(loops.place(found(0, 0x120, 0x128)), outer);
        assert_ne!(loops.place(found(0, 0x141, 0x150)), outer);
        assert_ne!(loops.place(found(1, 0x120, 0x128)), outer);
        assert_eq!(loops.into_inner().len(), 3);
    }

    #[test]
    fn a_verdict_on_generated_code_holds_longer_once_confirmed() {
        let spot = |ix| {
            Some(Spot {
                ix,
                tells: Tells::Nothing,
            })
        };
        let second = 1_000_000_000;
        let first = Judged::new(spot(1), 5, false, None);
        assert!(first.holds(5) && first.holds(4 + second) && !first.holds(5 + second));
        let again = Judged::new(spot(1), 9, false, Some(&first));
        assert!(again.holds(8 + 2 * second) && !again.holds(9 + 2 * second));
        let last = (0..20).fold(again, |known, _| {
            Judged::new(spot(1), 9, false, Some(&known))
        });
        assert!(last.holds(8 + 32 * second) && !last.holds(9 + 32 * second));
        let other = Judged::new(None, 9, false, Some(&last));
        assert!(!other.holds(9 + second), "another loop by then");
        assert!(Judged::new(None, 9, true, None).holds(u64::MAX));
    }

    #[test]
    fn verdicts_are_rationed_by_the_second() {
        let mut budget = Budget::default();
        let in_second = |budget: &mut Budget, s: u64| {
            (0..2 * PER_SECOND)
                .filter(|_| budget.take(s * 1_000_000_000 + 5))
                .count()
        };
        assert_eq!(in_second(&mut budget, 7), PER_SECOND as usize);
        assert_eq!(in_second(&mut budget, 8), PER_SECOND as usize);
    }
}
