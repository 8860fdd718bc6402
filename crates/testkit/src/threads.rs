//! Threads of a synthetic profile.

use convoy_profile::{StackIx, Thread, ThreadIx};

use crate::ProfileBuilder;

/// A thread in the making: ends with [`ThreadSpec::id`].
#[derive(Debug)]
pub struct ThreadSpec<'a> {
    builder: &'a mut ProfileBuilder,
    ix: ThreadIx,
}

impl ProfileBuilder {
    /// A thread of the current process that lives from its start to its end.
    pub fn thread(&mut self, name: &str) -> ThreadSpec<'_> {
        let process = self.raw();
        let ix = process.threads.len() as ThreadIx;
        process.threads.push(Thread {
            tid: process.pid + ix,
            parent_tid: process.pid,
            name: name.into(),
            start_ns: process.start_ns,
            cpu_exact: true,
            lives: 1,
            stack_lo: 0x7d00_0000_0000 + u64::from(ix) * 0x100_0000,
            stack_hi: 0x7d00_0080_0000 + u64::from(ix) * 0x100_0000,
            ..Thread::default()
        });
        ThreadSpec { builder: self, ix }
    }

    /// An existing thread again, e.g. to say how much CPU the main thread used.
    pub fn edit_thread(&mut self, ix: ThreadIx) -> ThreadSpec<'_> {
        assert!(
            (ix as usize) < self.raw().threads.len(),
            "thread {ix} does not exist"
        );
        ThreadSpec { builder: self, ix }
    }
}

impl ThreadSpec<'_> {
    fn thread(&mut self) -> &mut Thread {
        let ix = self.ix as usize;
        &mut self.builder.raw().threads[ix]
    }

    /// Its start routine.
    pub fn start(mut self, function: &str, file: &str, line: u32) -> Self {
        let frame = self.builder.frame(function, file, line);
        self.builder.raw().frames[frame as usize].exact = true;
        self.thread().start = Some(frame);
        self
    }

    /// Where it was created.
    pub fn created_at(mut self, stack: StackIx) -> Self {
        self.thread().create_stack = stack;
        self
    }

    /// CPU time.
    pub fn cpu(mut self, cpu_ns: u64) -> Self {
        self.thread().cpu_ns = cpu_ns;
        self
    }

    /// Of the CPU time, the part in the kernel.
    pub fn sys(mut self, sys_ns: u64) -> Self {
        self.thread().sys_ns = sys_ns;
        self
    }

    /// Runnable but not running.
    pub fn run_delay(mut self, delay_ns: u64) -> Self {
        self.thread().run_delay_ns = Some(delay_ns);
        self
    }

    /// Lives from `from_ns` to `to_ns` after the start of the process.
    pub fn lives(mut self, from_ns: u64, to_ns: u64) -> Self {
        let start_ns = self.builder.raw().start_ns;
        let thread = self.thread();
        thread.start_ns = start_ns + from_ns;
        thread.end_ns = start_ns + to_ns;
        self
    }

    /// Created, but never ran.
    pub fn never_ran(mut self) -> Self {
        let thread = self.thread();
        thread.tid = 0;
        thread.start_ns = 0;
        self
    }

    /// Its index.
    pub fn id(self) -> ThreadIx {
        self.ix
    }
}
