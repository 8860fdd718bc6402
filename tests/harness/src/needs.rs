//! What a case needs of the machine, and how to get it.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

/// Why a case cannot run here.
#[derive(Debug, Clone)]
pub struct Missing(pub String);

/// The first of the named needs that the machine does not meet.
///
/// # Panics
/// A need is misspelt: its cases would be skipped everywhere.
pub fn missing(needs: &[String]) -> Option<Missing> {
    needs.iter().find_map(|need| lacks(need)).map(Missing)
}

fn lacks(need: &str) -> Option<String> {
    let (met, fix) = match need {
        "root" => (geteuid().is_root(), "run as root"),
        "raised-limits" => (may_raise_limits(), "run as root with CAP_SYS_RESOURCE"),
        "other-user" => (
            geteuid().is_root() && works("setpriv", &["--version"]) && has_own_events(),
            "run as root, with setpriv, and with kernel.perf_event_paranoid=2 at most",
        ),
        "cpus-2" => (
            std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2),
            "two processors",
        ),
        "mount" => (
            works("unshare", &["-m", "true"]),
            "permission to unshare the mount namespace",
        ),
        "kernel" => (
            may_trace_the_kernel(),
            "run as root on a kernel with BTF (/sys/kernel/btf/vmlinux), outside of lockdown",
        ),
        "java" => (
            works("javac", &["-version"]) && works("java", &["-version"]),
            "apt-get install default-jdk-headless",
        ),
        "mpi" => (
            works("mpicc.mpich", &["-show"]) && works("mpicc.openmpi", &["-showme"]),
            "apt-get install mpich libmpich-dev openmpi-bin libopenmpi-dev",
        ),
        "musl" => (
            works("musl-gcc", &["--version"]),
            "apt-get install musl-tools",
        ),
        "32-bit" => (
            gcc_has(&["-m32"], "libc.so"),
            "apt-get install gcc-multilib",
        ),
        "go" => (works("go", &["version"]), "apt-get install golang-go"),
        "rustc" => (works("rustc", &["--version"]), "a Rust toolchain"),
        "jemalloc" => (library("libjemalloc.so.2"), "apt-get install libjemalloc2"),
        "tcmalloc" => (
            library("libtcmalloc.so.4"),
            "apt-get install libgoogle-perftools4",
        ),
        "asan" => (gcc_has(&[], "libasan.so"), "apt-get install libasan8"),
        "tsan" => (gcc_has(&[], "libtsan.so"), "apt-get install libtsan2"),
        "perf" => (works("perf", &["--version"]), "apt-get install linux-perf"),
        "tmux" => (works("tmux", &["-V"]), "apt-get install tmux"),
        "nm" => (works("nm", &["--version"]), "apt-get install binutils"),
        unknown => panic!("a case needs {unknown:?}: nobody knows how to tell that here"),
    };
    (!met).then(|| format!("needs {need}: {fix}"))
}

/// Whether every user may have perf events of his own processes.
fn has_own_events() -> bool {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    level.is_ok_and(|level| level.trim().parse::<i32>().is_ok_and(|level| level <= 2))
}

/// Told from the machine and not by trying `convoy`, so that a convoy that fails to load its programs
/// fails its tests.
fn may_trace_the_kernel() -> bool {
    /// CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF (linux/capability.h).
    const ADMIN: u64 = 1 << 21;
    const PERFMON: u64 = 1 << 38;
    const BPF: u64 = 1 << 39;
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let effective = effective_capabilities();
    let privileged = effective & ADMIN != 0 || effective & (PERFMON | BPF) == PERFMON | BPF;
    privileged
        && Path::new("/sys/kernel/btf/vmlinux").exists()
        && !read("/sys/kernel/security/lockdown").contains("[confidentiality]")
}

fn works(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

fn library(name: &str) -> bool {
    let output = Command::new("ldconfig").arg("-p").output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(name))
}

/// gcc prints the bare name of a file that it does not have.
fn gcc_has(flags: &[&str], name: &str) -> bool {
    let output = Command::new("gcc")
        .args(flags)
        .arg(format!("-print-file-name={name}"))
        .output();
    output.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_absolute())
}

/// Whether hard limits may be raised: containers and some virtual machines keep root from it.
fn may_raise_limits() -> bool {
    /// CAP_SYS_RESOURCE (linux/capability.h).
    const RESOURCE: u64 = 1 << 24;
    effective_capabilities() & RESOURCE != 0
}

/// One bit for each; none where they cannot be read.
fn effective_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.unwrap_or(0)
}
