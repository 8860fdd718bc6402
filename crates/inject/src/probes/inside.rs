//! Calls that are open when their function gets a timer. Their frames are found on the stacks of
//! the stopped threads, and get the entries that a probe would have made: what Paradyn does by an
//! "inferior RPC" (Xu, Miller and Naim, PPoPP 1999, section 4), without running code of ours.

use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use convoy_probes::table::{value_at, Entry, Value, NOTED};
use convoy_probes::{Also, Probe};
use convoy_unwind::{Files, Placed, Regs, Unwinder};

use super::clock::ticks;
use super::columns::{Column, Table};
use super::{cpu_clock, files};
use crate::all_stopped::AllStopped;
use crate::memory::Memory;
use crate::namespace::OwnNumbers;

/// Of a stack, how much is looked at: 128 frames are seldom longer.
const STACK_WORDS: usize = (128 << 10) / 8;
/// The process stands still meanwhile: threads that could not be looked at in that time are taken
/// for threads that are not inside.
const LIMIT: Duration = Duration::from_millis(5);

/// A function whose calls are timed from now on.
#[derive(Debug, Clone)]
pub(super) struct Timed {
    pub function: Range<u64>,
    /// Its number in the table.
    pub number: u32,
    pub row: u32,
    /// Counted only while the thread is inside a function of that row.
    pub within: Option<u32>,
    /// Counted only if the call returns to one of these addresses.
    caller: Option<Range<u64>>,
    /// Counts into files, by a file descriptor.
    has_io: bool,
}

/// Looks for open calls.
pub(super) struct Inside {
    pid: u32,
    unwinder: Mutex<Unwinder>,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl Timed {
    /// `None` = whether its open calls would have been counted cannot be told: which locks the
    /// thread held at their entries is not known.
    pub fn of(probe: &Probe, number: u32) -> Option<Self> {
        probe.holding.is_none().then(|| Self {
            function: probe.function.clone(),
            number,
            row: probe.row,
            within: probe.within,
            caller: probe.caller.clone(),
            has_io: matches!(probe.also, Also::Io(..)),
        })
    }

    fn is_called_from(&self, memory: &Memory, rsp: u64) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| memory.get(rsp).is_ok_and(|back| caller.contains(&back)))
    }
}

impl Inside {
    /// In this process. Nothing is read yet.
    pub fn new(pid: u32) -> Self {
        let unwinder = Mutex::new(Unwinder::new(pid, &Files::new()));
        Self { pid, unwinder }
    }

    /// Reads the process's files, which takes longest, while it runs.
    pub fn prepare(&self) {
        if let Ok(mut unwinder) = self.unwinder.lock() {
            unwinder.open_all();
        }
    }

    /// Gives the open calls of these functions their entries. Rows must be cleared; a row comes
    /// behind the one that it is confined to. A thread that is in a probe is left alone.
    pub fn note(
        &self,
        stopped: &AllStopped,
        memory: &Memory,
        table: Table,
        (timed, generation): (&[Timed], u16),
    ) -> io::Result<()> {
        let Ok(mut unwinder) = self.unwinder.lock() else {
            return Ok(());
        };
        if timed.is_empty() {
            return Ok(());
        }
        let own = OwnNumbers::of(self.pid);
        let began = Instant::now();
        for thread in &stopped.threads {
            if began.elapsed() > LIMIT {
                break;
            }
            let Ok(registers) = thread.registers() else {
                continue;
            };
            let stack = memory.words(registers.rsp, STACK_WORDS);
            let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
            let registers_of_frame = Regs {
                ip: registers.rip,
                sp: registers.rsp,
                fp: registers.rbp,
                lr: 0,
            };
            let frames = unwinder.frames(registers_of_frame, &stack);
            let open = open_calls(&frames, timed);
            if open.is_empty() {
                continue;
            }
            let tid = own.of_thread(thread.tid());
            let column = table.column_for(memory, registers.fs_base, tid)?;
            if let Some(column) = column {
                // In a system call the first argument is still there.
                let descriptor = match registers.orig_rax as i64 {
                    0.. => registers.rdi,
                    _ => files::UNKNOWN,
                };
                let about = (thread.tid(), descriptor, generation);
                self.note_thread(memory, column, &open, about)?;
            }
        }
        Ok(())
    }

    fn note_thread(
        &self,
        memory: &Memory,
        column: Column,
        open: &[Open<'_>],
        (tid, descriptor, generation): (u32, u64, u16),
    ) -> io::Result<()> {
        let mut head = column.head(memory)?;
        if head.busy != 0 {
            return Ok(());
        }
        let mut entries = column.entries(memory, &head)?;
        // A frame's entries begin together: one that is being timed already goes on as it is.
        let known: Vec<u64> = entries.iter().map(|entry| entry.rsp).collect();
        let start = ticks();
        let start_cpu = cpu_clock::of_thread(self.pid, tid).unwrap_or(0);
        for call in open.iter().filter(|call| !known.contains(&call.rsp)) {
            if !call.timed.is_called_from(memory, call.rsp) {
                continue;
            }
            let is_around = |entry: &Entry, row: u32| {
                u32::from(entry.row & !NOTED) == row && entry.rsp >= call.rsp
            };
            let outer = call.timed.within;
            if outer.is_some_and(|row| !entries.iter().any(|entry| is_around(entry, row))) {
                continue;
            }
            let entry = Entry {
                rsp: call.rsp,
                start,
                start_cpu,
                children: 0,
                children_cpu: 0,
                descriptor: match call.timed.has_io {
                    true => descriptor,
                    false => 0,
                },
                function: call.timed.number,
                row: call.timed.row as u16 | NOTED,
                generation,
            };
            if !put(&mut entries, entry) {
                break;
            }
            let at = column.at + value_at(call.timed.row);
            let mut value: Value = memory.get(at)?;
            value.depth += 1;
            if value.depth == 1 {
                (value.since, value.since_cpu) = (start, start_cpu);
            }
            memory.put(at, &value)?;
        }
        head.entries = entries.len() as u32;
        column.put_entries(memory, &entries)?;
        memory.put(column.at, &head)
    }
}

/// A call that is open.
#[derive(Debug, Clone, Copy)]
struct Open<'a> {
    /// Where its return address is.
    rsp: u64,
    timed: &'a Timed,
}

/// The outermost first.
fn open_calls<'a>(frames: &[Placed], timed: &'a [Timed]) -> Vec<Open<'a>> {
    let mut open = Vec::new();
    for frame in frames.iter().rev() {
        // Behind a call may be the next function, if it does not return.
        let pc = frame.pc - u64::from(!frame.is_leaf);
        for timed in timed.iter().filter(|timed| timed.function.contains(&pc)) {
            // Whoever is at its first instruction goes on to the probe.
            if !frame.is_leaf || pc != timed.function.start {
                let rsp = frame.end.wrapping_sub(8);
                open.push(Open { rsp, timed });
            }
        }
    }
    open
}

/// Puts an entry where it belongs: behind those of outer frames. False: there is no room.
fn put(entries: &mut Vec<Entry>, entry: Entry) -> bool {
    let inner = entries
        .iter()
        .rev()
        .take_while(|e| e.rsp < entry.rsp)
        .count();
    let at = entries.len() - inner;
    let has_room = entries.len() < convoy_probes::table::DEPTH;
    if has_room {
        entries.insert(at, entry);
    }
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(row: u32, function: Range<u64>) -> Timed {
        Timed {
            function,
            number: row,
            row,
            within: None,
            caller: None,
            has_io: false,
        }
    }

    fn frame(pc: u64, is_leaf: bool, end: u64) -> Placed {
        Placed { pc, is_leaf, end }
    }

    #[test]
    fn open_calls_are_told_by_the_addresses_that_they_return_to() {
        let all = [timed(0, 0x100..0x140), timed(1, 0x140..0x180)];
        // A leaf in row 1, called from row 0 by its last instruction, called from elsewhere.
        let frames = [
            frame(0x150, true, 0x7000),
            frame(0x140, false, 0x7100),
            frame(0x999, false, 0x7200),
        ];
        let open = open_calls(&frames, &all);
        let found: Vec<(u32, u64)> = open.iter().map(|o| (o.timed.row, o.rsp)).collect();
        assert_eq!(found, [(0, 0x70f8), (1, 0x6ff8)]);
    }

    #[test]
    fn a_thread_at_the_first_instruction_is_not_inside_yet() {
        let all = [timed(0, 0x100..0x140)];
        assert!(open_calls(&[frame(0x100, true, 0x7000)], &all).is_empty());
        assert_eq!(open_calls(&[frame(0x101, true, 0x7000)], &all).len(), 1);
    }

    #[test]
    fn entries_of_outer_frames_come_first() {
        let entry = |rsp: u64| Entry {
            rsp,
            start: 0,
            start_cpu: 0,
            children: 0,
            children_cpu: 0,
            descriptor: 0,
            function: 0,
            row: 0,
            generation: 0,
        };
        let mut entries = vec![entry(0x9000), entry(0x7000)];
        for rsp in [0x8000, 0x6000, 0xa000] {
            assert!(put(&mut entries, entry(rsp)));
        }
        let order: Vec<u64> = entries.iter().map(|e| e.rsp).collect();
        assert_eq!(order, [0xa000, 0x9000, 0x8000, 0x7000, 0x6000]);
    }
}
