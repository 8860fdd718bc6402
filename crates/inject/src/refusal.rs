//! Processes that the agent cannot, or must not, be put into.

use std::collections::HashMap;
use std::fs;

use crate::image::{by_mapping, is_native};
use crate::memory::Region;
use crate::process::{is_glibc, AGENT_PREFIX};
use convoy_probes::Refusal;

const START: &str = "start it under convoy: convoy -- COMMAND";

/// What `/proc/PID/status` says, by name without the colon.
fn status(pid: u32) -> Option<HashMap<String, String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    Some(
        lines
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect(),
    )
}

/// Looks at what can be seen without touching it.
pub(crate) fn check(pid: u32) -> Result<(), Refusal> {
    let status = status(pid).ok_or_else(|| Refusal::gone(pid))?;
    let word = |name: &str| status.get(name).map_or("", String::as_str);
    let refuse = |found: String, fix: &str| Err(Refusal::new(found, fix));
    if !status.contains_key("VmSize") {
        return Err(Refusal::gone(pid)); // a zombie, or a thread of the kernel
    }
    match word("State").chars().next() {
        Some('T') => {
            return refuse(
                format!("process {pid} is stopped"),
                "let it go on: kill -CONT",
            )
        }
        Some('Z' | 'X') => return Err(Refusal::gone(pid)),
        _ => {}
    }
    let tracer = word("TracerPid");
    if !matches!(tracer, "" | "0") {
        let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
        let found = format!(
            "process {pid} is traced by process {tracer} ({})",
            name.trim()
        );
        return refuse(found, "detach the debugger");
    }
    if !matches!(word("Seccomp"), "" | "0") {
        let found =
            format!("process {pid} has a seccomp filter, which may forbid what the agent does");
        return refuse(found, START);
    }
    if word("NSpid").split_whitespace().count() > 1 {
        let found = format!("process {pid} is in a PID namespace of its own");
        return refuse(found, "run convoy in the same container");
    }
    if is_native(pid) == Some(false) {
        let found = format!("process {pid} is a 32-bit program, or one for another processor");
        return refuse(found, "only 64-bit x86 programs can be attached to");
    }
    if word("x86_Thread_features")
        .split_whitespace()
        .any(|f| f == "shstk")
    {
        let found = format!("process {pid} has a shadow stack");
        return refuse(found, START);
    }
    let ignored = u64::from_str_radix(word("SigIgn"), 16).unwrap_or(0);
    if ignored & (1 << (libc::SIGTRAP - 1)) != 0 {
        let found = format!("process {pid} ignores SIGTRAP, which a call in it would change");
        return refuse(found, START);
    }
    Ok(())
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
    // How the agent's own file is found again when it is taken out.
    let is_readable = |r: &Region| fs::File::open(by_mapping(pid, r)).is_ok();
    let mut files = regions.iter().filter(|r| is_glibc(r.file_name()));
    if !files.any(is_readable) {
        return Err(Refusal::new(
            format!("the files that process {pid} has mapped cannot be read"),
            "run convoy as root",
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
    let status = status(pid).unwrap_or_default();
    let numbers = |name: &str| -> Vec<u32> {
        let words = status
            .get(name)
            .map_or("", String::as_str)
            .split_whitespace();
        words.filter_map(|n| n.parse().ok()).collect()
    };
    // SAFETY: reads a number.
    let own = unsafe { libc::geteuid() };
    let (uids, gids) = (numbers("Uid"), numbers("Gid"));
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
    Refusal::new(
        format!("process {pid} must not be traced: {why}"),
        "run convoy with CAP_SYS_PTRACE (as root)",
    )
}
