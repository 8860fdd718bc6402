//! A process put together from its sections: gaps filled, indices that lead nowhere removed.

use crate::head::Head;
use crate::tables::{Row, Stack};
use crate::warning::ReadWarning;
use crate::{
    Count, Detail, Frame, FunctionStart, Memory, Object, Pair, Process, Reason, Symbol, Thread,
    Unattributed,
};

/// A table whose rows other rows refer to by number.
pub(crate) trait Numbered: Row {
    /// Stands for a row that was lost.
    fn placeholder() -> Self;
}

impl Numbered for Frame {
    fn placeholder() -> Self {
        Self {
            pc: 0,
            module: None,
            offset: 0,
            exact: false,
            no_rule: false,
            symbol: Symbol::Unknown(Reason::NotResolved),
        }
    }
}

impl Numbered for Stack {
    fn placeholder() -> Self {
        Self::new()
    }
}

impl Numbered for Thread {
    fn placeholder() -> Self {
        Self::default()
    }
}

impl Numbered for Object {
    fn placeholder() -> Self {
        Self::default()
    }
}

/// Rows that may be filled in for lost ones. None before a loss is known: a file that skips numbers
/// without one is lying.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    rows: u64,
    granted: bool,
}

/// Rows of sixteen sections: more are not worth their memory.
const FILL_ROWS: u64 = 16 * crate::tables::CHUNK_ROWS as u64;

impl Allowance {
    /// A section was lost.
    pub(crate) fn grant(&mut self) {
        if !std::mem::replace(&mut self.granted, true) {
            self.rows = FILL_ROWS;
        }
    }

    pub(crate) fn take(&mut self, rows: u64) -> bool {
        let left = self.rows.checked_sub(rows);
        self.rows = left.unwrap_or(self.rows);
        left.is_some()
    }
}

/// What has been read of a process.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) process: Process,
    pub(crate) head: Option<Head>,
    /// Rows filled in: of frames, stacks, threads, objects.
    filled: [(&'static str, u64); 4],
}

impl Parts {
    /// Adds the rows of a section that begins with row `first`; false if that cannot be.
    pub(crate) fn append<R: Numbered>(
        &mut self,
        first: u64,
        rows: Vec<R>,
        of: fn(&mut Process) -> &mut Vec<R>,
        allowance: &mut Allowance,
    ) -> bool {
        let fits = self.fill(first, of, allowance);
        if fits {
            of(&mut self.process).extend(rows);
        }
        fits
    }

    /// Makes the table `len` rows long; false if it is longer, or may not grow by so much.
    fn fill<R: Numbered>(
        &mut self,
        len: u64,
        of: fn(&mut Process) -> &mut Vec<R>,
        allowance: &mut Allowance,
    ) -> bool {
        let table = of(&mut self.process);
        let Some(gap) = len.checked_sub(table.len() as u64) else {
            return false;
        };
        if gap == 0 {
            return true;
        }
        if !allowance.take(gap) {
            return false;
        }
        table.extend(std::iter::repeat_with(R::placeholder).take(gap as usize));
        let entry = self
            .filled
            .iter_mut()
            .find(|entry| entry.0 == R::NAME || entry.0.is_empty());
        if let Some(entry) = entry {
            *entry = (R::NAME, entry.1 + gap);
        }
        true
    }

    /// The process, sound.
    pub(crate) fn finish(
        mut self,
        ix: u32,
        allowance: &mut Allowance,
        warnings: &mut Vec<ReadWarning>,
    ) -> Process {
        match self.head.take() {
            Some(head) => {
                // Where this is refused, rows that refer to the missing ones are dropped below.
                self.fill(head.frames, |process| &mut process.frames, allowance);
                self.fill(head.stacks, |process| &mut process.stacks, allowance);
                self.fill(head.threads, |process| &mut process.threads, allowance);
                self.fill(head.objects, |process| &mut process.objects, allowance);
                head.put(&mut self.process);
            }
            None => warnings.push(ReadWarning::NoProcess { process: ix }),
        }
        let pid = self.process.pid;
        for (table, rows) in self.filled.into_iter().filter(|&(_, rows)| rows > 0) {
            warnings.push(ReadWarning::Filled {
                table: table.into(),
                pid,
                rows,
            });
        }
        let mut check = Check {
            limits: Limits::of(&self.process),
            pid,
            warnings,
        };
        check.repair(&mut self.process.frames, Limits::frame);
        check.retain(&mut self.process.starts, Limits::start);
        check.repair(&mut self.process.stacks, Limits::stack);
        check.repair(&mut self.process.threads, Limits::thread);
        check.repair(&mut self.process.objects, Limits::object);
        check.retain(&mut self.process.counts, Limits::count);
        check.retain(&mut self.process.unattributed, Limits::unattributed);
        check.retain(&mut self.process.details, Limits::detail);
        check.retain(&mut self.process.pairs, Limits::pair);
        self.process
    }
}

struct Check<'w> {
    limits: Limits,
    pid: u32,
    warnings: &'w mut Vec<ReadWarning>,
}

impl Check<'_> {
    /// Rows that others refer to cannot go; what is wrong in them does.
    fn repair<R: Row>(&mut self, rows: &mut [R], repair: fn(&Limits, &mut R) -> bool) {
        let bad = rows
            .iter_mut()
            .map(|row| u64::from(!repair(&self.limits, row)))
            .sum();
        if bad > 0 {
            let table = R::NAME.into();
            self.warnings.push(ReadWarning::Repaired {
                table,
                pid: Some(self.pid),
                rows: bad,
            });
        }
    }

    fn retain<R: Row>(&mut self, rows: &mut Vec<R>, good: fn(&Limits, &R) -> bool) {
        let before = rows.len();
        rows.retain(|row| good(&self.limits, row));
        let bad = (before - rows.len()) as u64;
        if bad > 0 {
            let table = R::NAME.into();
            self.warnings.push(ReadWarning::Dropped {
                table,
                pid: Some(self.pid),
                rows: bad,
            });
        }
    }
}

/// Lengths of the tables.
struct Limits {
    modules: usize,
    frames: usize,
    stacks: usize,
    threads: usize,
    objects: usize,
}

/// Forgets an index that leads nowhere; false if it had to.
fn forget<T: Copy>(value: &mut T, good: bool, unknown: T) -> bool {
    if !good {
        *value = unknown;
    }
    good
}

impl Limits {
    fn of(process: &Process) -> Self {
        Self {
            modules: process.modules.len(),
            frames: process.frames.len(),
            stacks: process.stacks.len(),
            threads: process.threads.len(),
            objects: process.objects.len(),
        }
    }

    fn has_module(&self, ix: Option<u32>) -> bool {
        ix.is_none_or(|ix| (ix as usize) < self.modules)
    }

    fn has_frame(&self, ix: u32) -> bool {
        (ix as usize) < self.frames
    }

    /// Stack 0 is the unknown one, whether it is there or not.
    fn has_stack(&self, ix: u32) -> bool {
        ix == 0 || (ix as usize) < self.stacks
    }

    fn has_thread(&self, ix: u32) -> bool {
        (ix as usize) < self.threads
    }

    fn has_object(&self, ix: u32) -> bool {
        (ix as usize) < self.objects
    }

    fn frame(&self, frame: &mut Frame) -> bool {
        let good = self.has_module(frame.module);
        forget(&mut frame.module, good, None)
    }

    fn start(&self, row: &FunctionStart) -> bool {
        self.has_frame(row.frame)
    }

    /// Frames beyond an unknown one would be attributed to the wrong caller.
    fn stack(&self, stack: &mut Stack) -> bool {
        let good = stack.iter().take_while(|&&ix| self.has_frame(ix)).count();
        let whole = good == stack.len();
        stack.truncate(good);
        whole
    }

    fn thread(&self, thread: &mut Thread) -> bool {
        let start = thread.start.is_none_or(|ix| self.has_frame(ix));
        let create = self.has_stack(thread.create_stack);
        forget(&mut thread.start, start, None) & forget(&mut thread.create_stack, create, 0)
    }

    fn object(&self, object: &mut Object) -> bool {
        let init = self.has_stack(object.init_stack);
        let module = self.has_module(object.module);
        let memory = match object.memory {
            Memory::Stack(thread) => self.has_thread(thread),
            Memory::Unknown | Memory::Static | Memory::Heap => true,
        };
        forget(&mut object.init_stack, init, 0)
            & forget(&mut object.module, module, None)
            & forget(&mut object.memory, memory, Memory::Unknown)
    }

    fn count(&self, row: &Count) -> bool {
        self.has_object(row.object) && self.has_frame(row.frame) && self.has_thread(row.thread)
    }

    fn unattributed(&self, row: &Unattributed) -> bool {
        self.has_frame(row.frame) && self.has_thread(row.thread)
    }

    fn detail(&self, row: &Detail) -> bool {
        self.has_object(row.object) && self.has_stack(row.stack) && self.has_thread(row.thread)
    }

    fn pair(&self, row: &Pair) -> bool {
        self.has_object(row.object)
            && self.has_stack(row.stack)
            && self.has_thread(row.thread)
            && row.peer.is_none_or(|ix| self.has_thread(ix))
            && row.peer_frame.is_none_or(|ix| self.has_frame(ix))
            && self.has_stack(row.peer_stack)
    }
}
