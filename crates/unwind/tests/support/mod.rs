//! Builds and runs programs, and copies registers and stacks of their threads while they wait in the kernel.

#![allow(dead_code)] // each test file uses a part

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use convoy_profile::{Frame, StackIx};
use convoy_unwind::{Regs, Unwinder, Unwound};

/// Runs a tool; panics with its words if it fails.
pub fn run(tool: &str, args: &[&str]) {
    let out = Command::new(tool)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{tool}: {e}; install it to run this test"));
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{tool} {args:?}: {words}");
}

/// A path as text, for command lines.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Compiles a program of `tests/programs`.
pub fn build(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"));
    let (stem, kind) = name.split_once('.').expect("a name");
    let out = dir.join(stem);
    let mut args = vec!["-o", text(&out)];
    if kind == "go" {
        args.insert(0, "build");
        args.extend(flags);
        args.push(&source);
        run("go", &args);
    } else {
        args.extend(["-O2", "-fomit-frame-pointer", "-pthread"]);
        args.extend(flags);
        args.push(&source);
        run("gcc", &args);
    }
    out
}

/// A program that runs until the test is over.
pub struct Running {
    child: Child,
    pub pid: u32,
    /// The first line that it wrote.
    pub said: String,
}

/// A copy of what unwinding starts from.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub regs: Regs,
    pub bytes: Vec<u8>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut said = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut said).expect("a line");
        let pid = child.id();
        let said = said.trim().to_owned();
        Self { child, pid, said }
    }

    pub fn program(path: &Path) -> Self {
        Self::start(&mut Command::new(path))
    }

    /// A stack copy of every thread, by its name, when all of them wait in the kernel. The kernel tells
    /// instruction and stack pointer of waiting threads, but no other register.
    pub fn samples(&self, bytes: usize) -> HashMap<String, Sample> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(samples) = self.try_samples(bytes) {
                std::thread::sleep(Duration::from_millis(50));
                let again = self.try_samples(bytes).unwrap_or_default();
                let same = |(name, sample): (&String, &Sample)| {
                    again.get(name).is_some_and(|a| a.regs == sample.regs)
                };
                if samples.iter().all(same) {
                    return samples;
                }
            }
            assert!(Instant::now() < deadline, "threads of {} wait", self.pid);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_samples(&self, bytes: usize) -> Option<HashMap<String, Sample>> {
        let mut samples = HashMap::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid)).ok()? {
            let task = task.ok()?.path();
            let (name, sample) = self.sample(&task, bytes)?;
            samples.insert(name, sample);
        }
        Some(samples)
    }

    /// A stack copy of every thread that waits in the kernel.
    pub fn threads(&self, bytes: usize) -> Vec<Sample> {
        std::thread::sleep(Duration::from_millis(300));
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid)).expect("its threads");
        tasks
            .flatten()
            .filter_map(|task| Some(self.sample(&task.path(), bytes)?.1))
            .collect()
    }

    fn sample(&self, task: &Path, bytes: usize) -> Option<(String, Sample)> {
        let call = std::fs::read_to_string(task.join("syscall")).ok()?;
        let mut last = call.split_whitespace().rev();
        let mut hex = || u64::from_str_radix(last.next()?.strip_prefix("0x")?, 16).ok();
        let (ip, sp) = (hex()?, hex()?);
        let regs = Regs {
            ip,
            sp,
            ..Regs::default()
        };
        let bytes = self.memory(sp, bytes);
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        Some((name.trim().to_owned(), Sample { regs, bytes }))
    }

    /// Memory of the program; shorter where a mapping ends.
    pub fn memory(&self, at: u64, bytes: usize) -> Vec<u8> {
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid)).expect("memory");
        let mut buffer = vec![0; bytes];
        let read = memory.read_at(&mut buffer, at).unwrap_or(0);
        buffer.truncate(read);
        buffer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The functions of a stack, leaf first; empty where one has no symbol.
pub fn functions(unwinder: &mut Unwinder, unwound: &[Frame]) -> Vec<String> {
    unwound
        .iter()
        .map(|frame| {
            let pc = frame.pc - u64::from(!frame.exact);
            unwinder
                .function(pc)
                .map_or(String::new(), |f| f.name.to_owned())
        })
        .collect()
}

/// The frames of a stack, leaf first.
pub fn frames(unwound: &Unwound, stack: StackIx) -> Vec<Frame> {
    unwound.stacks[stack as usize]
        .iter()
        .map(|ix| unwound.frames[*ix as usize].clone())
        .collect()
}

/// The stack as functions, and its frames, by an unwinder of its own.
pub fn walk(pid: u32, sample: &Sample) -> (Vec<String>, Vec<Frame>, Unwound) {
    let files = convoy_unwind::Files::new();
    let mut unwinder = Unwinder::new(pid, &files);
    let stack = unwinder.stack(sample.regs, &sample.bytes);
    let unwound = unwinder.finish();
    let frames = frames(&unwound, stack);
    let names = functions(&mut Unwinder::new(pid, &files), &frames);
    (names, frames, unwound)
}

/// Fails unless `wanted` are functions of the stack, in this order.
pub fn expect_order(names: &[String], wanted: &[&str]) {
    let mut rest = names.iter();
    for name in wanted {
        assert!(rest.any(|n| n == name), "{name} of {wanted:?} in {names:?}");
    }
}
