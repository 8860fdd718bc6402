//! One look at the goroutines of one program.

use std::time::Duration;

use convoy_profile::{GoroutineState, StackIx};
use convoy_unwind::{Regs, Unwinder};

use super::memory::{Memory, ADDRESSES};
use super::program::Program;
use super::tally::{Seen, Shape, Tally, IN_CALL};
use crate::poll::cpu_time;

/// More goroutines than this: every second one is looked at, or every fourth, and so on. They are never taken off the list, so
/// that it is the same ones every time.
const AT_ONCE: u64 = 4096;
/// More than any program has: what says so is no length.
const MOST: u64 = 1 << 28;
/// Call stacks that are walked in one look; and those of further goroutines that look like none of which it is known. Where others
/// wait is not known, this time.
const WALKS: (usize, usize) = (64, 128);
/// After so much CPU time no more stacks are walked in one look: of a place that is new the code is read, too, and nothing else is listened
/// to meanwhile. The rings hold twice as much.
const LONGEST: Duration = Duration::from_millis(50);
/// Of a stack, so much is read from its innermost frame on. Bytes.
const STACK_BYTES: u64 = 8 << 10;
/// A stack of Go has at most this size, on any machine.
const LARGEST_STACK: u64 = 1 << 30;

/// `runtime.g.atomicstatus` (go: src/runtime/runtime2.go).
mod status {
    pub const RUNNABLE: u32 = 1;
    pub const RUNNING: u32 = 2;
    pub const IN_CALL: u32 = 3;
    pub const WAITING: u32 = 4;
    /// Its stack is just being moved: who does that runs.
    pub const COPIED: u32 = 8;
    pub const PREEMPTED: u32 = 9;
    /// Set beside another one while the collector reads the stack.
    pub const SCANNED: u32 = 0x1000;
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pointers: Vec<u8>,
    records: Vec<u8>,
    stacks: Buffers,
    seen: Vec<Seen>,
}

/// For a stack, and to see whether it has changed.
#[derive(Debug, Default)]
struct Buffers {
    stack: Vec<u8>,
    again: Vec<u8>,
}

/// What a look needs.
pub(super) struct Look<'a> {
    pub pid: u32,
    pub program: &'a Program,
    pub unwinder: &'a mut Unwinder,
}

/// A goroutine's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    stack_hi: u64,
    sp: u64,
    pc: u64,
    bp: u64,
    status: u32,
    id: u64,
    reason: u8,
    turns: u8,
    start: u64,
    waiting: u64,
}

impl Look<'_> {
    /// Takes it: how many records were read, and how many of them cannot be right. `None` if there is nothing to look at: the process is
    /// gone, has no goroutines yet, or has changed what was to be read.
    pub fn take(mut self, scratch: &mut Scratch, tally: &mut Tally) -> Option<(u64, u64)> {
        let (memory, program) = (Memory(self.pid), self.program);
        // The runtime makes room for more goroutines first, and says that there are more then.
        let mut count = [0; 16];
        let variables = [program.count, program.goroutines];
        (memory.fill_all(&variables, 8, &mut count) == variables.len()).then_some(())?;
        let (count, list) = count.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let (count, list) = (word(count)?, word(list)?);
        let procs = memory.u32(program.procs)?;
        if count == 0 || count > MOST || !ADDRESSES.contains(&list) {
            return None;
        }
        let every = count.div_ceil(AT_ONCE).next_power_of_two();
        let wanted = count.div_ceil(every) as usize;
        scratch.pointers.resize(8 * wanted, 0);
        let read = if every == 1 {
            usize::from(memory.fill(list, &mut scratch.pointers)) * wanted
        } else {
            let at: Vec<u64> = (0..count)
                .step_by(every as usize)
                .map(|ix| list + 8 * ix)
                .collect();
            memory.fill_all(&at, 8, &mut scratch.pointers)
        };
        // A part of them would seem to be all.
        (read == wanted).then_some(())?;
        let pointers = scratch.pointers.chunks_exact(8).filter_map(word);
        let addresses: Vec<u64> = pointers.filter(|at| ADDRESSES.contains(at)).collect();
        let size = program.layout.bytes();
        scratch.records.resize(size * addresses.len(), 0);
        let read = memory.fill_all(&addresses, size, &mut scratch.records);
        if read == 0 || read < addresses.len() {
            return None;
        }
        let mut unsound = 0;
        let begun = cpu_time();
        let (mut walks, mut more) = WALKS;
        scratch.seen.clear();
        for (bytes, &address) in scratch.records.chunks_exact(size).zip(&addresses) {
            let Some(record) = self.record(bytes) else {
                continue; // free
            };
            if !record.is_sound(&program.reasons) {
                unsound += 1;
                continue;
            }
            let own = tally.is_own(record.start, self.unwinder);
            let state = record.state();
            let mut seen = Seen {
                id: record.id,
                state,
                own,
                turns: record.turns,
                at: (record.sp, record.pc),
                row: None,
                fresh: false,
            };
            if own && record.is_at_a_place() {
                let reason = record.reason();
                // Nothing counts how often a goroutine was in calls, and from their ends all calls look the same.
                let in_call = state == GoroutineState::InCall;
                let known = tally.same_place(&seen, reason).filter(|_| !in_call);
                if let Some((row, ran)) = known {
                    (seen.row, seen.fresh) = (Some(row), ran);
                } else {
                    seen.fresh = true;
                    if cpu_time().saturating_sub(begun) > LONGEST {
                        (walks, more) = (0, 0);
                    }
                    let shape = record.shape();
                    let alike = tally.alike(&shape).filter(|_| walks == 0 && !in_call);
                    seen.row = alike;
                    if alike.is_none() && walks + more > 0 {
                        (walks, more) = match walks {
                            0 => (0, more - 1),
                            _ => (walks - 1, more),
                        };
                        let stack = match in_call {
                            true => self.stack_in_call(&record, address, &mut scratch.stacks),
                            false => Some(self.stack(&record, &mut scratch.stacks.stack)),
                        };
                        let capacity = self.capacity(record.waiting);
                        let reasons = &program.reasons;
                        seen.row = stack.and_then(|stack| {
                            tally.row(reason, stack, capacity, reasons, self.unwinder)
                        });
                        match seen.row {
                            _ if in_call => seen.fresh = tally.is_news(&seen),
                            Some(row) => tally.looks_like(shape, row),
                            None => {}
                        }
                    }
                }
            }
            scratch.seen.push(seen);
        }
        tally.add(&scratch.seen, procs, every);
        Some((read as u64, unsound))
    }

    /// `None` where there is no goroutine, or an ended one.
    fn record(&self, bytes: &[u8]) -> Option<Record> {
        let layout = &self.program.layout;
        let word = |at: u64| {
            let bytes = bytes.get(at as usize..at as usize + 8)?;
            bytes.try_into().map(u64::from_le_bytes).ok()
        };
        let byte = |at: u64| bytes.get(at as usize).copied();
        let status = word(layout.status)? as u32 & !status::SCANNED;
        let lives = matches!(
            status,
            status::RUNNABLE
                | status::RUNNING
                | status::IN_CALL
                | status::WAITING
                | status::COPIED
                | status::PREEMPTED
        );
        let record = Record {
            stack_hi: word(layout.stack_hi)?,
            sp: word(layout.sp)?,
            pc: word(layout.pc)?,
            bp: word(layout.bp)?,
            status,
            id: word(layout.id)?,
            reason: byte(layout.reason)?,
            turns: byte(layout.turns)?,
            start: word(layout.start)?,
            waiting: word(layout.waiting)?,
        };
        (lives && record.id != 0).then_some(record)
    }

    /// Where a goroutine is that is in a call. Calls are short, and the next one looks like it: `None` if it has gone on since its record
    /// was read, or its stack changes.
    fn stack_in_call(
        &mut self,
        record: &Record,
        address: u64,
        buffers: &mut Buffers,
    ) -> Option<StackIx> {
        let memory = Memory(self.pid);
        let Buffers { stack, again } = buffers;
        stack.resize(record.bytes_of_stack(), 0);
        again.resize(self.program.layout.bytes(), 0);
        let read = memory.fill(record.sp, stack) && memory.fill(address, again);
        let now = self.record(again).filter(|_| read)?;
        again.resize(stack.len(), 0);
        let same = now == *record && memory.fill(record.sp, again) && again == stack;
        same.then(|| self.walk(record, stack))
    }

    /// Where a goroutine waits.
    fn stack(&mut self, record: &Record, buffer: &mut Vec<u8>) -> StackIx {
        buffer.resize(record.bytes_of_stack(), 0);
        match Memory(self.pid).fill(record.sp, buffer) {
            true => self.walk(record, buffer),
            false => 0,
        }
    }

    fn walk(&mut self, record: &Record, stack: &[u8]) -> StackIx {
        let regs = Regs {
            ip: record.pc,
            sp: record.sp,
            fp: record.bp,
            lr: 0,
        };
        self.unwinder.stack_at_rest(regs, stack)
    }

    /// What fits into the channel that a goroutine waits at; `None` if it waits at none.
    fn capacity(&self, waiting: u64) -> Option<u64> {
        let (memory, layout) = (Memory(self.pid), &self.program.layout);
        let is_address = |at: &u64| ADDRESSES.contains(at);
        let sudog = Some(waiting).filter(is_address)?;
        let channel = memory.u64(sudog + layout.channel).filter(is_address)?;
        memory.u64(channel + layout.capacity)
    }
}

impl Record {
    fn state(&self) -> GoroutineState {
        match self.status {
            status::RUNNABLE => GoroutineState::Runnable,
            status::IN_CALL => GoroutineState::InCall,
            status::WAITING | status::PREEMPTED => GoroutineState::Waiting,
            _ => GoroutineState::Running,
        }
    }

    /// Its stack says where it waits, or what call it is in.
    fn is_at_a_place(&self) -> bool {
        match self.state() {
            GoroutineState::Waiting => true,
            GoroutineState::InCall => self.has_stack(),
            _ => false,
        }
    }

    fn reason(&self) -> u8 {
        match self.status {
            status::IN_CALL => IN_CALL,
            _ => self.reason,
        }
    }

    /// Of its stack, those that are read.
    fn bytes_of_stack(&self) -> usize {
        self.stack_hi.saturating_sub(self.sp).min(STACK_BYTES) as usize
    }

    fn has_stack(&self) -> bool {
        let bytes = self.stack_hi.checked_sub(self.sp);
        bytes.is_some_and(|bytes| bytes > 0 && bytes <= LARGEST_STACK)
    }

    fn shape(&self) -> Shape {
        Shape {
            start: self.start,
            reason: self.reason(),
            pc: self.pc,
            stack_bytes: self.stack_hi.wrapping_sub(self.sp),
        }
    }

    /// Whether it can be one.
    fn is_sound(&self, reasons: &[String]) -> bool {
        let at_rest = matches!(
            self.status,
            status::WAITING | status::PREEMPTED | status::RUNNABLE
        );
        let waits = self.status != status::WAITING || usize::from(self.reason) < reasons.len();
        self.id < 1 << 48 && waits && (!at_rest || self.has_stack())
    }
}
