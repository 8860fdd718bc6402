//! Processes that the agent cannot, or must not, be put into.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::all_stopped::AllStopped;
use crate::image::is_native;
use crate::memory::Region;
use crate::process::AGENT_PREFIX;
use crate::tracee::{is_uninterruptible, threads};
use convoy_probes::Refusal;

const START: &str = "start it under convoy: convoy -- COMMAND";

/// What `/proc/TID/status` says, by name without the colon.
struct Status(HashMap<String, String>);

impl Status {
    /// Of a thread; `None` if there is none.
    fn of(tid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let entry = |(name, value): (&str, &str)| (name.to_owned(), value.trim().to_owned());
        Some(Self(lines.map(entry).collect()))
    }

    fn word(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn has_filter(&self) -> bool {
        !matches!(self.word("Seccomp"), "" | "0")
    }

    fn numbers(&self, name: &str) -> Vec<u32> {
        let words = self.word(name).split_whitespace();
        words.filter_map(|n| n.parse().ok()).collect()
    }
}

/// Looks at what can be seen without touching it.
pub(crate) fn check(pid: u32) -> Result<(), Refusal> {
    let status = Status::of(pid).ok_or_else(|| Refusal::gone(pid))?;
    let refuse = |found: String, fix: &str| Err(Refusal::new(found, fix));
    match status.word("State").chars().next() {
        Some('T') => {
            return refuse(
                format!("process {pid} is stopped"),
                "let it go on: kill -CONT",
            )
        }
        // A zombie (also if other threads go on: it shows no memory), or a thread of the kernel.
        _ if status.word("VmSize").is_empty() => return Err(Refusal::gone(pid)),
        _ => {}
    }
    if is_native(pid) == Some(false) {
        let found = format!("process {pid} is a 32-bit program, or one for another processor");
        return refuse(found, "only 64-bit x86 programs can be attached to");
    }
    let ignored = u64::from_str_radix(status.word("SigIgn"), 16).unwrap_or(0);
    if ignored & (1 << (libc::SIGTRAP - 1)) != 0 {
        let found = format!("process {pid} ignores SIGTRAP, which a call in it would change");
        return refuse(found, START);
    }
    // Each thread has its own filter, shadow stack and tracer.
    for tid in threads(pid) {
        if let Some(status) = Status::of(tid) {
            check_thread(pid, &status)?;
        }
    }
    check_alone(pid)
}

/// Looks for processes that run on the same memory, and are not stopped with it.
pub(crate) fn check_alone(pid: u32) -> Result<(), Refusal> {
    let shares = |other: u32| {
        let found = format!("process {other} shares the memory of process {pid}");
        Refusal::passing(found, "wait until that process has ended")
    };
    // It is the child of a vfork, whose parent's other threads run.
    let parent = Status::of(pid).and_then(|status| status.numbers("PPid").first().copied());
    if let Some(parent) = parent.filter(|parent| shares_memory(pid, *parent)) {
        return Err(shares(parent));
    }
    for tid in threads(pid) {
        // After vfork the parent's thread cannot be stopped until the child is gone: nothing is
        // patched meanwhile.
        let mut shared = children(pid, tid).filter(|child| shares_memory(pid, *child));
        if let Some(child) = shared.find(|_| !is_uninterruptible(tid)) {
            return Err(shares(child));
        }
    }
    Ok(())
}

/// Processes that a thread has made.
fn children(pid: u32, tid: u32) -> impl Iterator<Item = u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
    let all: Vec<u32> = list
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    all.into_iter()
}

/// Whether a process runs on the memory of another one without being a thread of it: it would not
/// be stopped while functions are patched.
fn shares_memory(pid: u32, child: u32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: numbers only. Fails without the right to know, and where the kernel has no kcmp.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, child, KCMP_VM, 0, 0) == 0 }
}

fn check_thread(pid: u32, status: &Status) -> Result<(), Refusal> {
    if let Some(tracer) = tracer(status) {
        return Err(traced(pid, tracer));
    }
    let of = match status.numbers("Pid").first() {
        Some(tid) if *tid != pid => format!("thread {tid} of process {pid}"),
        _ => format!("process {pid}"),
    };
    if status.has_filter() {
        let found = format!("{of} has a seccomp filter, which may forbid what the agent does");
        return Err(Refusal::new(found, START));
    }
    let features = status.word("x86_Thread_features");
    if features.split_whitespace().any(|f| f == "shstk") {
        return Err(Refusal::new(format!("{of} has a shadow stack"), START));
    }
    Ok(())
}

/// Whether the kernel looks at a thread's system calls first (seccomp), and may end it for one.
pub(crate) fn has_filter(tid: u32) -> bool {
    Status::of(tid).is_some_and(|status| status.has_filter())
}

fn tracer(status: &Status) -> Option<u32> {
    status
        .numbers("TracerPid")
        .first()
        .copied()
        .filter(|pid| *pid != 0)
}

fn traced(pid: u32, tracer: u32) -> Refusal {
    let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
    let name = name.trim();
    let found = format!("process {pid} is traced by process {tracer} ({name})");
    // One that comes or goes at the same moment.
    match is_convoy(tracer) {
        true => Refusal::passing(found, "wait until that convoy has ended"),
        false => Refusal::new(found, "detach the debugger"),
    }
}

/// Whether a process runs the same program as this one.
fn is_convoy(pid: u32) -> bool {
    let program = |name: &str| fs::metadata(format!("/proc/{name}/exe")).ok();
    let is_same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let (theirs, ours) = (program(&pid.to_string()), program("self"));
    theirs.zip(ours).is_some_and(|(a, b)| is_same(a, b))
}

/// Looks at what only a tracer can see.
pub(crate) fn check_stopped(pid: u32, stopped: &AllStopped) -> Result<(), Refusal> {
    let dispatches = |t: &&crate::tracee::Tracee| t.dispatches_system_calls();
    match stopped.threads.iter().find(dispatches) {
        None => Ok(()),
        Some(thread) => Err(Refusal::new(
            format!(
                "thread {} of process {pid} turns system calls into signals \
                 (PR_SET_SYSCALL_USER_DISPATCH)",
                thread.tid()
            ),
            START,
        )),
    }
}

/// Looks at what it has mapped.
pub(crate) fn check_libraries(pid: u32, regions: &[Region]) -> Result<(), Refusal> {
    let is_preloaded =
        |r: &Region| !r.path.starts_with(AGENT_PREFIX) && r.file_name().starts_with("libconvoy-");
    if regions.iter().any(is_preloaded) {
        return Err(Refusal::new(
            format!("process {pid} was started under convoy and has the agent already"),
            format!("see its locks: convoy top {pid}"),
        ));
    }
    let sanitizers = ["libasan.so", "libtsan.so", "libmsan.so", "libclang_rt."];
    let is_sanitizer = |r: &Region| sanitizers.iter().any(|s| r.file_name().starts_with(s));
    match regions.iter().find(|r| is_sanitizer(r)) {
        None => Ok(()),
        Some(r) => Err(Refusal::new(
            format!("process {pid} runs with a sanitizer ({})", r.file_name()),
            START,
        )),
    }
}

/// Why the kernel does not let us trace a process.
pub(crate) fn not_permitted(pid: u32) -> Refusal {
    let all = threads(pid);
    let mut tracers = all.into_iter().filter_map(|tid| tracer(&Status::of(tid)?));
    if let Some(tracer) = tracers.next() {
        return traced(pid, tracer);
    }
    let Some(status) = Status::of(pid) else {
        return Refusal::gone(pid);
    };
    // SAFETY: reads a number.
    let own = unsafe { libc::geteuid() };
    let (uids, gids) = (status.numbers("Uid"), status.numbers("Gid"));
    if own != 0 && uids.iter().any(|uid| *uid != own) {
        return Refusal::new(
            format!(
                "process {pid} runs as another user (uid {})",
                uids.get(1).unwrap_or(&0)
            ),
            "run convoy as root",
        );
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let scope = scope.trim();
    if !matches!(scope, "" | "0") {
        return Refusal::new(
            format!("kernel.yama.ptrace_scope is {scope}: processes must not trace one another"),
            "run convoy with CAP_SYS_PTRACE (as root), or sysctl kernel.yama.ptrace_scope=0",
        );
    }
    let is_set_group = gids.windows(2).any(|pair| pair[0] != pair[1]);
    let why = match is_set_group {
        true => "it runs with another group's rights",
        false => "it has more rights than convoy, or must not be dumped (prctl PR_SET_DUMPABLE)",
    };
    let found = format!("process {pid} must not be traced: {why}");
    let fix = "run convoy with CAP_SYS_PTRACE (as root)";
    // In the middle of an exec it is so for root, too.
    match own {
        0 => Refusal::passing(found, fix),
        _ => Refusal::new(found, fix),
    }
}
