//! The perf source against real programs, measured by an ordinary user.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::existing_threads::look;
use super::record::What;
use super::{PerfOptions, PerfSource};
use crate::kernel::raw::{EventSource, Left, Raw, Regs, Sink};

/// Keeps what is delivered, and checks the order.
#[derive(Default)]
struct Kept {
    last_ns: u64,
    /// Times blocked, and times taken off, by thread.
    blocked: HashMap<u32, u64>,
    preempted: HashMap<u32, u64>,
    into: HashMap<u32, u64>,
    init: HashMap<u32, (u32, Option<Left>)>,
    forks: Vec<(u32, u32)>,
    execs: Vec<u32>,
    exits: Vec<(u32, [u8; 16])>,
    samples: Vec<(u32, Regs, Vec<u8>)>,
    lost: Vec<(u64, u64, u64)>,
}

impl Sink for Kept {
    fn take(&mut self, raw: &Raw<'_>) {
        let ts = match *raw {
            Raw::Switch { ts, out, into } => {
                if let Some((tid, left)) = out {
                    assert_eq!((left.call.nr, left.key), (-1, 0));
                    let counts = match left.state {
                        0 => &mut self.preempted,
                        _ => &mut self.blocked,
                    };
                    *counts.entry(tid).or_default() += 1;
                }
                if let Some(tid) = into {
                    *self.into.entry(tid).or_default() += 1;
                }
                ts
            }
            Raw::Init {
                ts, tid, pid, left, ..
            } => {
                assert!(self.init.insert(tid, (pid, left)).is_none(), "{tid} twice");
                ts
            }
            Raw::Fork { ts, tid, pid, .. } => {
                self.forks.push((tid, pid));
                ts
            }
            Raw::Exec { ts, pid, .. } => {
                self.execs.push(pid);
                ts
            }
            Raw::Exit { ts, tid, comm } => {
                self.exits.push((tid, comm));
                ts
            }
            Raw::Sample {
                ts,
                tid,
                regs,
                bytes,
                ..
            } => {
                self.samples.push((tid, regs, bytes.to_vec()));
                ts
            }
            Raw::Lost { from, to, n, .. } => {
                self.lost.push((from, to, n));
                to
            }
            Raw::Wakeup { .. } | Raw::Stack { .. } => panic!("{raw:?} cannot be known"),
        };
        assert!(ts >= self.last_ns, "{ts} after {}", self.last_ns);
        self.last_ns = ts;
    }

    fn pause(&mut self, upto: u64) {
        assert!(upto >= self.last_ns);
    }
}

/// The program, where everybody can run it.
struct Program {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        let path = dir.path().join("switcher");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel/perf/tests.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "gcc".into());
        let mut command = Command::new(compiler);
        command
            .args(["-O1", "-pthread", "-o"])
            .arg(&path)
            .arg(source);
        assert!(command.status().unwrap().success());
        Self { _dir: dir, path }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).stdout(Stdio::piped());
        command
    }
}

/// One test at a time: what a user may lock in memory is for all rings together.
static ONE: Mutex<()> = Mutex::new(());

/// Does something on a thread that belongs to nobody, if this one is root's.
fn as_nobody<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = std::thread::spawn(|| {
        if rustix::process::geteuid().is_root() {
            // SAFETY: the system call itself, unlike the C library's function, changes this thread alone.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(result, 0);
        }
        what()
    });
    thread.join().unwrap()
}

/// Or why there is none.
fn unless_refused(source: Result<PerfSource, crate::error::Trouble>) -> Option<PerfSource> {
    source
        .map_err(|trouble| eprintln!("skipped: {trouble}"))
        .ok()
}

/// Measures a command to its end, looking every few milliseconds; what it said.
fn measure(mut command: Command, options: PerfOptions, pause: Duration) -> Option<(Kept, String)> {
    as_nobody(move || {
        let mut source = unless_refused(PerfSource::for_next_child(&options))?;
        let mut kept = Kept::default();
        source.drain(&mut kept, false);
        let mut child = command.spawn().unwrap();
        source.started(child.id());
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(pause);
            source.drain(&mut kept, false);
        }
        source.drain(&mut kept, true);
        assert!(
            kept.init.contains_key(&child.id()),
            "the program's beginning"
        );
        Some((kept, output(&mut child)))
    })
}

fn output(child: &mut Child) -> String {
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Until the main thread sleeps in read().
fn wait_for_read(pid: u32) {
    let sleeps = |what: &What| match what {
        What::ThreadSnapshot(there) => there
            .left
            .is_some_and(|l| l.call.nr == libc::SYS_read as i16),
        _ => false,
    };
    while !look(pid, pid).is_some_and(|(_, what)| sleeps(&what)) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

const LOOK: Duration = Duration::from_millis(5);

#[test]
fn switches_are_those_that_the_kernel_counts() {
    let program = Program::new();
    let command = program.command(&["ping", "3001"]);
    let Some((kept, said)) = measure(command, PerfOptions::default(), LOOK) else {
        return;
    };
    assert_eq!(kept.lost, []);
    let mut threads = 0;
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (tid, counted) = (words[1].parse().unwrap(), words[2].parse::<u64>().unwrap());
        let blocked = kept.blocked[&tid];
        assert!(counted > 1000, "{line}");
        // After it has looked, it may wait for its turn to say so.
        let near = blocked >= counted && blocked <= counted + 20;
        assert!(near, "{blocked} seen, {counted} counted");
        let preempted = kept.preempted.get(&tid).copied().unwrap_or(0);
        assert_eq!(kept.into[&tid], blocked + preempted + 1);
        assert!(kept.forks.iter().any(|fork| fork.0 == tid));
        assert!(kept
            .exits
            .iter()
            .any(|exit| exit.0 == tid && exit.1.starts_with(b"switcher\0")));
        threads += 1;
    }
    assert_eq!(threads, 2, "{said}");
}

#[test]
fn samples_fall_into_the_loop_that_runs_and_have_its_stack() {
    let options = PerfOptions {
        sample_period_ns: 1_000_000,
        stack_bytes: 4 << 10,
        ..PerfOptions::default()
    };
    let program = Program::new();
    let command = program.command(&["spin", "300"]);
    let Some((kept, said)) = measure(command, options, LOOK) else {
        return;
    };
    let bound = |n| {
        said.split_whitespace()
            .nth(n)
            .unwrap()
            .trim_start_matches("0x")
    };
    let address = |n| u64::from_str_radix(bound(n), 16).unwrap();
    let code = address(1)..address(2);
    // At most one a millisecond; a busy virtual machine may skip some.
    let n = kept.samples.len();
    assert!((50..=700).contains(&n), "{n} samples in 300 ms");
    let inside: Vec<_> = kept
        .samples
        .iter()
        .filter(|(_, regs, _)| code.contains(&regs.ip))
        .collect();
    assert!(inside.len() * 10 > n * 9, "{} of {n}", inside.len());
    let marker = 0x5eed_c0de_5eed_c0de_u64.to_ne_bytes();
    for (_, regs, stack) in inside {
        assert!(regs.sp % 8 == 0 && regs.sp > code.end);
        assert!(stack.len() <= 4 << 10);
        let mut words = stack.chunks_exact(8).take(16);
        assert!(words.any(|word| word == marker), "{:x?}", &stack[..128]);
    }
}

#[test]
fn without_a_period_there_are_switches_alone() {
    let options = PerfOptions {
        sample_period_ns: 0,
        ..PerfOptions::default()
    };
    let program = Program::new();
    let Some((kept, _)) = measure(program.command(&["ping", "101"]), options, LOOK) else {
        return;
    };
    assert_eq!(kept.samples.len(), 0);
    assert!(kept.blocked.values().sum::<u64>() > 100);
}

#[test]
fn what_does_not_fit_is_counted() {
    let options = PerfOptions {
        sample_period_ns: 0,
        ring_bytes: 4096,
        ..PerfOptions::default()
    };
    let program = Program::new();
    let command = program.command(&["ping", "40001"]);
    let Some((kept, _)) = measure(command, options, Duration::from_millis(20)) else {
        return;
    };
    let seen: u64 = kept.into.values().chain(kept.blocked.values()).sum();
    let lost: u64 = kept.lost.iter().map(|lost| lost.2).sum();
    assert!(lost > 1000, "{lost} lost, {seen} seen");
    assert!(kept
        .lost
        .iter()
        .all(|&(from, to, n)| 0 < from && from < to && n > 0));
    // A round is two waits; each is a record when it begins and one when it ends.
    assert!(seen + lost > 40_000, "{lost} lost, {seen} seen");
}

#[test]
fn processes_come_and_go_and_change() {
    let program = Program::new();
    let path = program.path.display();
    let script = format!("{path} spin 1; exec {path} ping 11");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).stdout(Stdio::piped());
    let Some((kept, _)) = measure(shell, PerfOptions::default(), LOOK) else {
        return;
    };
    let (&pid, _) = kept.init.iter().next().unwrap();
    assert_eq!(kept.init.len(), 1);
    let processes: Vec<u32> = kept
        .forks
        .iter()
        .filter(|f| f.0 == f.1)
        .map(|f| f.0)
        .collect();
    assert_eq!(processes.len(), 1, "{:?}", kept.forks);
    assert_eq!(kept.execs, [processes[0], pid]);
    let ended: Vec<u32> = kept.exits.iter().map(|exit| exit.0).collect();
    assert!(ended.contains(&processes[0]) && ended.last() == Some(&pid));
    // The second program's two threads.
    assert_eq!(
        kept.forks
            .iter()
            .filter(|f| f.1 == pid && f.0 != pid)
            .count(),
        2
    );
}

#[test]
fn a_running_process_is_measured_with_the_threads_that_it_makes() {
    let program = Program::new();
    let mut command = program.command(&["serve", "-1"]);
    command.stdin(Stdio::piped());
    let found = as_nobody(move || {
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert_eq!(ready, "ready\n");
        wait_for_read(child.id());
        let source = PerfSource::for_running(&[child.id()], &PerfOptions::default());
        let Some(mut source) = unless_refused(source) else {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        };
        assert_eq!(source.troubles(), []);
        let mut kept = Kept::default();
        for _ in 0..10 {
            std::thread::sleep(LOOK);
            source.drain(&mut kept, false);
        }
        child.stdin.take().unwrap().write_all(b"x").unwrap();
        child.wait().unwrap();
        source.drain(&mut kept, true);
        Some((kept, child.id()))
    });
    let Some((kept, pid)) = found else {
        return;
    };
    assert_eq!(kept.init.len(), 3);
    assert!(kept.init.values().all(|init| init.0 == pid));
    let (_, main) = kept.init[&pid];
    let main = main.expect("it waits for a byte");
    assert_eq!(
        (main.state, main.call.nr, main.call.arg0),
        (1, libc::SYS_read as i16, 0)
    );
    for tid in kept.init.keys().filter(|&&tid| tid != pid) {
        assert!(kept.blocked[tid] > 100, "{:?}", kept.blocked);
    }
    // The thread that was made later.
    let made: HashSet<u32> = kept.forks.iter().map(|fork| fork.0).collect();
    assert_eq!(made.len(), 1);
    assert!(kept.samples.iter().any(|sample| made.contains(&sample.0)));
}

#[test]
fn processes_of_others_are_refused_with_a_way_out() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: no other user's process to try");
        return;
    }
    let refused = as_nobody(|| PerfSource::for_running(&[1], &PerfOptions::default()));
    let trouble = refused
        .expect_err("the first process is root's")
        .to_string();
    assert!(
        trouble.contains("context switches cannot be recorded"),
        "{trouble}"
    );
    assert!(trouble.contains("sudo convoy"), "{trouble}");
    let gone = PerfSource::for_running(&[u32::MAX >> 1], &PerfOptions::default());
    let trouble = gone.expect_err("there is no such process").to_string();
    assert!(trouble.starts_with("the processes have ended"), "{trouble}");
}
