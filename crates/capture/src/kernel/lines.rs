//! Which cache lines threads were at, and whether they were there in turns.
//!
//! A line that goes from processor to processor costs whoever wants it more than the memory behind it, and that shows in no
//! wait: the thread runs. What shows is that samples of several threads fall on instructions that touch the same 64 bytes,
//! now of the one and now of the other. Which of that is a fault is decided when the report is made.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use convoy_abi::CV_BPF_RED_ZONE;
use convoy_profile::{StackIx, ThreadRef, LINE_BYTES as LINE};
use convoy_sched::Map;
use convoy_unwind::Unwinder;

use super::code::Met;
use super::images::Image;
use super::operands::{around, at, Access, Around, AtHand, Operand};

/// Lines of which is known what touched them, in a recording.
const LINES: usize = 65_536;
/// Different (thread, place, bytes) that are kept of each line...
const USES: usize = 256;
/// ... and beyond that of all lines together: of threads that live for a moment there are many.
const SPARE: usize = 65_536;
/// From its stack pointer on upwards a thread's own frames begin; below are the bytes that a leaf function may use.
const OWN_STACK: u64 = 64 << 10;
const RED_ZONE: u64 = CV_BPF_RED_ZONE as u64;
/// Of a function so much is decoded: of a longer one nothing is said, rather than something slow.
const FUNCTION: u64 = 64 << 10;
/// The instruction before `ip` in code without functions is looked for from where a thread was this far below, bytes.
const NEAR: u64 = 128;
/// The longest instruction.
const INSTRUCTION: usize = 15;
/// Bytes of code that are decoded in one second of the recording: ten take about a microsecond. Whatever threads fight for is met
/// again in the next second.
const PER_SECOND: u64 = 512 << 10;
/// Instructions that are remembered of one image.
const KNOWN: usize = 16_384;

/// A sample in user mode, as far as it tells of memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touch<'a> {
    pub stack: StackIx,
    pub ip: u64,
    pub at_hand: AtHand<'a>,
    /// In a loop that only waits.
    pub waits: bool,
}

/// What the instructions of one image touch, as far as threads were there.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// In functions of files: they stay as they are.
    known: Map<u64, Around>,
    /// Anywhere.
    met: Met,
    /// Elsewhere: where threads were, and so an instruction begins, unless code was made anew.
    begins: BTreeSet<u64>,
}

/// What one thread did at one place to the same bytes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub thread: ThreadRef,
    pub stack: StackIx,
    /// First byte in the line.
    pub offset: u8,
    pub size: u8,
    pub locked: bool,
    pub reads: bool,
    pub writes: bool,
}

/// A cache line.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Samples of each use.
    pub uses: HashMap<Use, u64>,
    /// Samples.
    pub n: u64,
    /// Of them, in a loop that waits for what is there.
    pub waits: u64,
    /// Samples after one of another thread, by a thread that had been there before: it came back.
    pub turns: u64,
    /// Who has been there, as far as `uses` tells.
    threads: BTreeSet<ThreadRef>,
    last: Option<ThreadRef>,
}

impl Line {
    /// Where in the line the bytes begin that most samples touched.
    pub fn most_used(&self) -> u8 {
        let mut by_offset: BTreeMap<u8, u64> = BTreeMap::new();
        for (used, n) in &self.uses {
            *by_offset.entry(used.offset).or_default() += n;
        }
        let most = by_offset
            .into_iter()
            .max_by_key(|&(offset, n)| (n, Reverse(offset)));
        most.map_or(0, |(offset, _)| offset)
    }
}

/// All lines of a recording.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// By image and address.
    all: HashMap<(usize, u64), Line>,
    /// Uses beyond [`USES`] of a line.
    beyond: usize,
    /// Samples whose instructions could be read.
    pub looked_at: u64,
    /// Samples whose instructions could not.
    pub unknown: u64,
    second: u64,
    /// Bytes decoded in it.
    spent: u64,
}

impl std::hash::Hash for Use {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.thread, self.stack, self.offset).hash(state);
    }
}

impl Lines {
    /// A thread was found on its processor, in user mode.
    pub(super) fn of_sample(
        &mut self,
        image: &mut Image,
        ts: u64,
        thread: ThreadRef,
        touch: &Touch,
    ) {
        let Some(around) = self.around(image, ts, touch.ip) else {
            self.unknown += 1;
            return;
        };
        self.looked_at += 1;
        for (address, access) in touched(&around, touch) {
            self.touch(image.number, thread, touch, address, access);
        }
    }

    /// Lines of several threads of which at least one writes, by image and address.
    pub(super) fn shared(self) -> Vec<((usize, u64), Line)> {
        let is_shared = |line: &Line| {
            let first = line.uses.keys().next().map(|used| used.thread);
            line.turns > 0
                && line.uses.keys().any(|used| Some(used.thread) != first)
                && line.uses.keys().any(|used| used.writes)
        };
        let mut lines: Vec<_> = self
            .all
            .into_iter()
            .filter(|(_, line)| is_shared(line))
            .collect();
        lines.sort_unstable_by_key(|(key, _)| *key);
        lines
    }

    fn around(&mut self, image: &mut Image, ts: u64, ip: u64) -> Option<Around> {
        if let Some(known) = image.operands.known.get(&ip) {
            return Some(*known);
        }
        let second = ts / 1_000_000_000;
        if second != self.second {
            (self.second, self.spent) = (second, 0);
        }
        if self.spent > PER_SECOND || image.operands.known.len() >= KNOWN {
            return None;
        }
        image
            .operands
            .look(&mut image.unwinder, ip, &mut self.spent)
    }

    fn touch(
        &mut self,
        image: usize,
        thread: ThreadRef,
        touch: &Touch,
        address: u64,
        access: Access,
    ) {
        let key = (image, address / LINE * LINE);
        if self.all.len() >= LINES && !self.all.contains_key(&key) {
            // Whatever threads fight for is met again and again.
            self.all.retain(|_, line| line.n > 1);
            if self.all.len() >= LINES {
                return;
            }
        }
        let line = self.all.entry(key).or_default();
        line.n += 1;
        line.waits += u64::from(touch.waits);
        if line.last != Some(thread) {
            line.turns += u64::from(line.threads.contains(&thread));
        }
        line.last = Some(thread);
        let used = Use {
            thread,
            stack: touch.stack,
            offset: (address % LINE) as u8,
            size: access.size,
            locked: access.locked,
            reads: access.reads,
            writes: access.writes,
        };
        if let Some(n) = line.uses.get_mut(&used) {
            *n += 1;
            return;
        }
        if line.uses.len() >= USES {
            if self.beyond >= SPARE {
                return;
            }
            self.beyond += 1;
        }
        line.threads.insert(thread);
        line.uses.insert(used, 1);
    }
}

impl Operands {
    /// Decodes; `spent` grows by the bytes that it took.
    fn look(&mut self, unwinder: &mut Unwinder, ip: u64, spent: &mut u64) -> Option<Around> {
        if self.met.len() < KNOWN && !self.met.is_due(ip) {
            return None;
        }
        if let Some((lo, hi)) = unwinder.function(ip).map(|f| (f.lo, f.hi)) {
            let bytes = ip.checked_sub(lo).filter(|_| hi - lo <= FUNCTION)? as usize;
            *spent += hi - lo;
            let code = unwinder.code(ip, bytes, (hi - ip) as usize)?;
            let found = (code.lo == lo).then(|| around(code.bytes, lo, ip, true))?;
            self.known.insert(ip, found);
            return Some(found);
        }
        let begins = self
            .begins
            .range(ip.saturating_sub(NEAR)..ip)
            .next_back()
            .copied();
        if self.begins.len() < KNOWN {
            self.begins.insert(ip);
        }
        *spent += NEAR;
        match begins {
            Some(begins) => {
                let code = unwinder.code(ip, (ip - begins) as usize, INSTRUCTION)?;
                (code.lo == begins).then(|| around(code.bytes, begins, ip, false))
            }
            None => unwinder
                .code(ip, 0, INSTRUCTION)
                .map(|code| at(code.bytes, ip)),
        }
    }
}

/// What a sample was at. If a locked instruction has just ended, it is that which took the time; two plain ones may both
/// have a part in it, and are one where they touch the same line.
fn touched(around: &Around, touch: &Touch) -> impl Iterator<Item = (u64, Access)> {
    let sp = touch.at_hand.stack_pointer();
    let own = sp.saturating_sub(RED_ZONE)..sp.saturating_add(OWN_STACK);
    let place = |operand: Option<Operand>| {
        let operand = operand?;
        let address = operand.address(&touch.at_hand)?;
        (!own.contains(&address)).then_some((address, operand.access))
    };
    let (mut ended, mut next) = (place(around.ended), place(around.next));
    if let (Some((before, done)), Some((after, coming))) = (ended, next) {
        if done.locked {
            next = None;
        } else if before / LINE == after / LINE {
            match coming.writes && !done.writes {
                true => ended = None,
                false => next = None,
            }
        }
    }
    ended.into_iter().chain(next)
}

#[cfg(test)]
mod tests {
    use super::super::raw::Registers;
    use super::*;

    /// The stack pointer: 0x7000_0000.
    const REGISTERS: Registers = Registers {
        general: [0, 0, 0, 0, 0x7000_0000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        red_zone: [0; CV_BPF_RED_ZONE],
    };
    const ADD: Access = Access {
        size: 8,
        locked: true,
        reads: true,
        writes: true,
    };

    fn thread(thread: u32) -> ThreadRef {
        ThreadRef { process: 0, thread }
    }

    fn sample(waits: bool) -> Touch<'static> {
        Touch {
            stack: 1,
            ip: 0,
            at_hand: AtHand {
                registers: &REGISTERS,
                stack: &[],
            },
            waits,
        }
    }

    fn add(lines: &mut Lines, by: u32, address: u64) {
        lines.touch(0, thread(by), &sample(false), address, ADD);
    }

    #[test]
    fn coming_back_after_another_thread_is_a_turn() {
        let mut lines = Lines::default();
        for by in [1, 1, 2, 1, 2, 2, 3] {
            add(&mut lines, by, 0x5008);
        }
        let shared = lines.shared();
        let (key, line) = &shared[0];
        assert_eq!((*key, line.n, line.turns), ((0, 0x5000), 7, 2));
        assert_eq!(line.most_used(), 8);
        assert_eq!(line.uses.len(), 3);
    }

    #[test]
    fn threads_that_follow_one_another_share_nothing() {
        let mut lines = Lines::default();
        for by in [1, 1, 2, 2, 3, 4] {
            add(&mut lines, by, 0x5000);
        }
        assert!(lines.shared().is_empty());
    }

    #[test]
    fn of_many_threads_with_a_moment_each_more_are_kept() {
        let pairs = |lines: &mut Lines| {
            for pair in 0..400 {
                for by in [2 * pair, 2 * pair + 1, 2 * pair, 2 * pair + 1] {
                    add(lines, by, 0x5000);
                }
            }
        };
        let mut lines = Lines::default();
        pairs(&mut lines);
        let line = &lines.shared()[0].1;
        assert_eq!((line.uses.len(), line.turns), (800, 800));
        let mut lines = Lines {
            beyond: SPARE - 44,
            ..Lines::default()
        };
        pairs(&mut lines);
        let line = &lines.shared()[0].1;
        assert_eq!((line.uses.len(), line.turns, line.n), (300, 300, 1600));
    }

    #[test]
    fn what_is_only_read_or_used_by_one_thread_is_not_kept() {
        let mut lines = Lines::default();
        let read = Access {
            locked: false,
            writes: false,
            ..ADD
        };
        for by in [1, 2, 1, 2] {
            lines.touch(0, thread(by), &sample(false), 0x5000, read);
            add(&mut lines, 1, 0x6000);
        }
        // The same address in another process is other memory.
        lines.touch(1, thread(2), &sample(false), 0x6000, ADD);
        assert!(lines.shared().is_empty());
    }

    #[test]
    fn of_too_many_lines_those_met_once_go() {
        let mut lines = Lines::default();
        add(&mut lines, 1, 0x40);
        add(&mut lines, 2, 0x40);
        for at in 1..=LINES as u64 {
            add(&mut lines, 1, (at + 1) * LINE);
        }
        assert!(lines.all.len() < LINES);
        add(&mut lines, 1, 0x40);
        assert_eq!(lines.shared().len(), 1);
    }

    #[test]
    fn waiting_is_counted_apart() {
        let mut lines = Lines::default();
        for (by, waits) in [(1, true), (2, false), (1, true)] {
            lines.touch(0, thread(by), &sample(waits), 0x5000, ADD);
        }
        assert_eq!(lines.shared()[0].1.waits, 2);
    }

    /// `ended` and `next` of code at an address; rdi is 0x5000, rsi 0x6000, rsp what the sample says.
    fn found(code: &[u8], ended: usize) -> Vec<u64> {
        let mut registers = REGISTERS;
        (registers.general[6], registers.general[7]) = (0x6000, 0x5000);
        let touch = Touch {
            at_hand: AtHand {
                registers: &registers,
                stack: &[],
            },
            ..sample(false)
        };
        let around = around(code, 0x1000, 0x1000 + ended as u64, true);
        touched(&around, &touch)
            .map(|(address, _)| address)
            .collect()
    }

    #[test]
    fn a_locked_instruction_that_has_ended_took_the_time() {
        // lock inc dword [rdi]; inc dword [rsi]; ret
        assert_eq!(found(&[0xf0, 0xff, 0x07, 0xff, 0x06, 0xc3], 3), [0x5000]);
        // inc dword [rdi]; inc dword [rsi]; ret
        assert_eq!(found(&[0xff, 0x07, 0xff, 0x06, 0xc3], 2), [0x5000, 0x6000]);
        // mov eax, [rdi]; mov [rdi+4], ecx: one line, and it is the store that counts.
        assert_eq!(found(&[0x8b, 0x07, 0x89, 0x4f, 0x04, 0xc3], 2), [0x5004]);
    }

    #[test]
    fn frames_of_its_own_are_a_threads_own() {
        // lock inc dword [rsp+8]; ret
        assert!(found(&[0xf0, 0xff, 0x44, 0x24, 0x08, 0xc3], 5).is_empty());
    }
}
