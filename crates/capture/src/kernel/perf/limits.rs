//! What the kernel, a container or the limits of the process allow, and what to say where they do not.

use std::fs;
use std::io;

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::error::{os_text, Trouble};

/// Descriptors that are left to others.
const RESERVED: usize = 64;

const EFFECT: &str = "context switches cannot be recorded";
const AS_ROOT: &str = "run `sudo convoy ...`";

/// Numbers of the processors that are online; the first one where that cannot be read.
pub(super) fn online_processors() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = parse_list(&list);
    if cpus.is_empty() {
        return vec![0];
    }
    cpus
}

/// `0-3,6`
fn parse_list(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<u32>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Descriptors that may be opened, after the limit was raised as far as this user may. Nothing is started that could
/// be surprised by it: this is asked where a program runs already.
pub(super) fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    let used = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let now = now.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    now.saturating_sub(used + RESERVED)
}

/// The kernel does not let this user measure; `own`: not even the thread that asks.
pub(super) fn refused(error: &io::Error, own: bool) -> Trouble {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.ok().and_then(|text| text.trim().parse().ok());
    refusal(error, own, paranoid)
}

fn refusal(error: &io::Error, own: bool, paranoid: Option<i64>) -> Trouble {
    let why = os_text(error);
    match (error.raw_os_error(), paranoid) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > 2 => Trouble::new(
            format!("kernel.perf_event_paranoid is {level}: perf_event_open: {why}"),
            EFFECT,
            format!("`sysctl kernel.perf_event_paranoid=2` as root, or {AS_ROOT}"),
        ),
        // The level allows it, so what the kernel says EACCES of is others' threads ...
        (Some(libc::EACCES), _) if own => Trouble::new(
            format!("a security module of the kernel (SELinux, lockdown) forbids it: perf_event_open: {why}"),
            EFFECT,
            AS_ROOT,
        ),
        (Some(libc::EACCES), _) => Trouble::new(
            format!("a process of another user, or one that may not be traced: perf_event_open: {why}"),
            EFFECT,
            AS_ROOT,
        ),
        // ... and EPERM comes from a filter of system calls.
        (Some(libc::EPERM), level) => Trouble::new(
            format!(
                "perf_event_open: {why}, though kernel.perf_event_paranoid is {}: a container's filter of \
                 system calls (seccomp) forbids it",
                level.map_or_else(|| "not there".into(), |level| level.to_string())
            ),
            EFFECT,
            "start the container with `--cap-add PERFMON` or a seccomp profile that allows perf_event_open, \
             or run convoy outside of it",
        ),
        (Some(libc::ENOSYS), None) => Trouble::new(
            "this kernel has no perf events (CONFIG_PERF_EVENTS)",
            EFFECT,
            "use another kernel",
        ),
        (Some(libc::ENOSYS), Some(_)) => Trouble::new(
            format!("perf_event_open: {why}, though the kernel has it: a filter of system calls (seccomp)"),
            EFFECT,
            "run convoy outside of the container or sandbox",
        ),
        (Some(libc::EMFILE | libc::ENFILE), _) => Trouble::new(
            format!("perf_event_open: {why}"),
            EFFECT,
            "`ulimit -n` shows the limit, `ulimit -Hn` how far it can be raised",
        ),
        _ => Trouble::new(format!("perf_event_open: {why}"), EFFECT, AS_ROOT),
    }
}

/// No ring could be mapped, however small.
pub(super) fn no_memory(error: &io::Error) -> Trouble {
    let limit = fs::read_to_string("/proc/sys/kernel/perf_event_mlock_kb").unwrap_or_default();
    Trouble::new(
        format!(
            "no memory for perf events: mmap: {}; kernel.perf_event_mlock_kb is {}",
            os_text(error),
            limit.trim()
        ),
        EFFECT,
        format!("end other profilers, raise `ulimit -l`, or {AS_ROOT}"),
    )
}

/// No thread, or no processor.
pub(super) fn nothing_to_measure() -> Trouble {
    Trouble::new("the processes have ended", EFFECT, "")
}

/// Some threads are not measured, `refused` telling why, or the limit of descriptors.
pub(super) fn left_out(threads: usize, of: usize, refused: Option<Trouble>) -> Trouble {
    let effect = format!("{threads} of {of} threads are not recorded, nor those that they make");
    match refused {
        Some(trouble) => Trouble::new(trouble.found, effect, trouble.fix),
        None => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            Trouble::new(
                format!("a process may open {limit} files, and each thread needs one for each processor"),
                effect,
                format!("raise the limit (`ulimit -Hn`), or {AS_ROOT}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("0\n"), [0]);
        assert!(parse_list("x,3-1").is_empty());
        assert!(!online_processors().is_empty());
    }

    #[test]
    fn each_refusal_has_its_own_way_out() {
        let said = |errno, paranoid| {
            refusal(&io::Error::from_raw_os_error(errno), false, paranoid).to_string()
        };
        let debian = said(libc::EACCES, Some(3));
        assert!(debian.contains("perf_event_paranoid is 3"), "{debian}");
        assert!(
            debian.contains("sysctl kernel.perf_event_paranoid=2"),
            "{debian}"
        );
        let foreign = said(libc::EACCES, Some(2));
        assert!(
            foreign.contains("another user") && foreign.contains("sudo"),
            "{foreign}"
        );
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        let module = refusal(&denied, true, Some(2)).to_string();
        assert!(module.contains("SELinux"), "{module}");
        let container = said(libc::EPERM, Some(2));
        assert!(
            container.contains("seccomp") && container.contains("PERFMON"),
            "{container}"
        );
        let sandbox = said(libc::ENOSYS, Some(2));
        assert!(sandbox.contains("though the kernel has it"), "{sandbox}");
        let kernel = said(libc::ENOSYS, None);
        assert!(kernel.contains("CONFIG_PERF_EVENTS"), "{kernel}");
        let files = said(libc::EMFILE, Some(2));
        assert!(files.contains("ulimit -n"), "{files}");
    }
}
