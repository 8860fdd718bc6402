//! The builder itself: the run, its processes, its code.

use std::collections::HashMap;

use convoy_profile::{
    Collector, Exit, Frame, FrameIx, Location, Machine, Meta, Module, ModuleIx, Process, Profile,
    Reason, StackIx, Symbol, Thread, ThreadIx,
};

use crate::time::s;

/// The start of every synthetic run on the monotonic clock: odd, so that a mix-up of points in time
/// and lengths shows.
const START_NS: u64 = 7_000_000_001;

/// Writes a [`Profile`] by hand. Starts with one process and its main thread; everything that is not
/// said has a plausible default.
#[derive(Debug)]
pub struct ProfileBuilder {
    profile: Profile,
    wall_ns: u64,
    frames: HashMap<(String, String, u32), FrameIx>,
    stacks: HashMap<Vec<FrameIx>, StackIx>,
    next_addr: u64,
}

impl ProfileBuilder {
    /// A run of `program` on 4 CPUs for one second.
    pub fn new(program: &str) -> Self {
        let meta = Meta {
            convoy_version: "0.0.0-test".into(),
            started_unix_ns: 1_700_000_000_000_000_000,
            command: vec![format!("./{program}")],
            cwd: "/home/user".into(),
            start_ns: START_NS,
            exit: Exit::Status(0),
            machine: Machine {
                kernel: "6.1.0-test".into(),
                arch: "x86_64".into(),
                cpu_model: "Test CPU".into(),
                cpus_online: 4,
                cpus_allowed: 4,
                memory_bytes: 16 << 30,
                libc: "glibc 2.36".into(),
                mutex_pair_ns: 16.0,
            },
            collectors: vec![Collector {
                name: "agent".into(),
                active: true,
                lost: String::new(),
                enable: String::new(),
            }],
            sample_period: 64,
            ..Meta::default()
        };
        let mut builder = Self {
            profile: Profile {
                sched: None,
                sections: None,
                live_curves: None,
                trace: None,
                experiments: None,
                second_run: None,
                meta,
                processes: Vec::new(),
            },
            wall_ns: s(1),
            frames: HashMap::new(),
            stacks: HashMap::new(),
            next_addr: 0x7f00_0000_0000,
        };
        builder.process(program);
        builder
    }

    /// Processors, online and allowed.
    pub fn cpus(&mut self, n: u32) -> &mut Self {
        self.profile.meta.machine.cpus_online = n;
        self.profile.meta.machine.cpus_allowed = n;
        self
    }

    /// Length of the run. Processes and threads that say nothing else live as long.
    pub fn wall(&mut self, wall_ns: u64) -> &mut Self {
        self.wall_ns = wall_ns;
        self
    }

    /// How the command ended.
    pub fn exit(&mut self, exit: Exit) -> &mut Self {
        self.profile.meta.exit = exit;
        self
    }

    /// Everything else about the run, directly.
    pub fn meta(&mut self) -> &mut Meta {
        &mut self.profile.meta
    }

    /// Begins another process: what follows is in it. Frames, stacks, threads and objects are per
    /// process.
    pub fn process(&mut self, program: &str) -> &mut Self {
        self.frames.clear();
        self.stacks.clear();
        let n = self.profile.processes.len() as u32;
        let exe = format!("/usr/bin/{program}");
        self.profile.processes.push(Process {
            pid: 1000 + n * 100,
            ppid: if n == 0 { 999 } else { 1000 },
            exe: exe.clone(),
            args: vec![format!("./{program}")],
            start_ns: START_NS,
            ended_cleanly: true,
            modules: vec![Module {
                path: exe,
                build_id: vec![0xc0, n as u8],
                bias: 0x5500_0000_0000,
                lo: 0x5500_0000_0000,
                hi: 0x5500_0010_0000,
                symbols: "dwarf".into(),
            }],
            stacks: vec![Vec::new()],
            threads: vec![Thread {
                tid: 1000 + n * 100,
                name: program.chars().take(15).collect(),
                start_ns: START_NS,
                cpu_exact: true,
                lives: 1,
                ..Thread::default()
            }],
            inline_mutex: true,
            ..Process::default()
        });
        self
    }

    /// The current process, directly.
    pub fn raw(&mut self) -> &mut Process {
        self.profile.processes.last_mut().expect("new() makes one")
    }

    /// The main thread of the current process.
    pub const fn main_thread(&self) -> ThreadIx {
        0
    }

    /// Another mapped file.
    pub fn module(&mut self, path: &str) -> ModuleIx {
        let modules = &mut self.raw().modules;
        let lo = 0x7e00_0000_0000 + modules.len() as u64 * 0x100_0000;
        modules.push(Module {
            path: path.into(),
            build_id: vec![0xc1, modules.len() as u8],
            bias: lo,
            lo,
            hi: lo + 0x100_0000,
            symbols: "dwarf".into(),
        });
        modules.len() as ModuleIx - 1
    }

    /// A place in the executable's code. The same three arguments give the same frame.
    pub fn frame(&mut self, function: &str, file: &str, line: u32) -> FrameIx {
        self.frame_in(0, function, file, line)
    }

    /// A place in code that was generated at run time.
    pub fn generated(&mut self, function: &str) -> FrameIx {
        let name = vec![location(function, "", 0)];
        self.push_frame(None, Symbol::Known(name))
    }

    /// A place in another file's code.
    pub fn frame_in(&mut self, m: ModuleIx, function: &str, file: &str, line: u32) -> FrameIx {
        let key = (format!("{m} {function}"), file.to_owned(), line);
        if let Some(&ix) = self.frames.get(&key) {
            return ix;
        }
        let ix = self.push_frame(Some(m), Symbol::Known(vec![location(function, file, line)]));
        self.frames.insert(key, ix);
        ix
    }

    /// A place with inlined functions, innermost first: `(function, file, line)`.
    pub fn inlined_frame(&mut self, functions: &[(&str, &str, u32)]) -> FrameIx {
        let names = functions
            .iter()
            .map(|&(f, file, line)| location(f, file, line))
            .collect();
        self.push_frame(Some(0), Symbol::Known(names))
    }

    /// A place without a name.
    pub fn unknown_frame(&mut self, module: Option<ModuleIx>, reason: Reason) -> FrameIx {
        self.push_frame(module, Symbol::Unknown(reason))
    }

    fn push_frame(&mut self, module: Option<ModuleIx>, symbol: Symbol) -> FrameIx {
        let process = self.raw();
        let ix = process.frames.len() as FrameIx;
        let offset = 0x1000 + u64::from(ix) * 0x10;
        let bias = module
            .and_then(|m| process.modules.get(m as usize))
            .map_or(0, |m| m.bias);
        process.frames.push(Frame {
            pc: bias + offset,
            module,
            offset,
            exact: false,
            no_rule: false,
            symbol,
        });
        ix
    }

    /// A call stack, leaf first. The same frames give the same stack.
    pub fn stack(&mut self, frames: &[FrameIx]) -> StackIx {
        if let Some(&ix) = self.stacks.get(frames) {
            return ix;
        }
        let stacks = &mut self.raw().stacks;
        stacks.push(frames.to_vec());
        let ix = stacks.len() as StackIx - 1;
        self.stacks.insert(frames.to_vec(), ix);
        ix
    }

    /// A stack of one frame: function, file, line.
    pub fn site(&mut self, function: &str, file: &str, line: u32) -> StackIx {
        let frame = self.frame(function, file, line);
        self.stack(&[frame])
    }

    pub(crate) fn heap_addr(&mut self) -> u64 {
        self.next_addr += 0x40;
        self.next_addr
    }

    /// The profile, with ends filled in.
    pub fn build(mut self) -> Profile {
        let end_ns = START_NS + self.wall_ns;
        let meta = &mut self.profile.meta;
        meta.end_ns = end_ns;
        for process in &mut self.profile.processes {
            if process.end_ns == 0 {
                process.end_ns = end_ns;
            }
            for thread in &mut process.threads {
                if thread.end_ns == 0 {
                    thread.end_ns = process.end_ns;
                }
                if thread.user_ns == 0 {
                    thread.user_ns = thread.cpu_ns.saturating_sub(thread.sys_ns);
                }
                meta.cpu_user_ns += thread.user_ns;
                meta.cpu_sys_ns += thread.sys_ns;
            }
        }
        self.profile
    }
}

fn location(function: &str, file: &str, line: u32) -> Location {
    Location {
        function: function.into(),
        file: (!file.is_empty()).then(|| file.into()),
        line: (line != 0).then_some(line),
    }
}
