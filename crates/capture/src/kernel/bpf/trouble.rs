//! Why there may be no eBPF, told so that somebody can do something about it.

use std::fs;
use std::io;

use crate::error::{os_text, Trouble};

/// What a report lacks without this source.
const EFFECT: &str =
    "context switches are not recorded with eBPF: no wake-ups, no reasons for waiting";

/// The first kernel with everything that the programs call (bpf_task_pt_regs).
const MIN_KERNEL: (u32, u32) = (5, 15);

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The inode that the kernel gives to the initial pid namespace.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Reasons that need no attempt.
pub(super) fn refuse_early() -> Result<(), Trouble> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(Trouble::new(
            format!("no {}", missing.join(" and no ")),
            EFFECT,
            "run convoy with sudo",
        ));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if version(&release).is_some_and(|version| version < MIN_KERNEL) {
        return Err(Trouble::new(
            format!("Linux {}", release.trim()),
            EFFECT,
            format!(
                "Linux {}.{} or newer has what is needed",
                MIN_KERNEL.0, MIN_KERNEL.1
            ),
        ));
    }
    if fs::metadata("/sys/kernel/btf/vmlinux").is_err() {
        return Err(Trouble::new(
            "/sys/kernel/btf/vmlinux is not there: the kernel does not describe its types (BTF)",
            EFFECT,
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y, and mount /sys",
        ));
    }
    if let Ok(lockdown) = fs::read_to_string("/sys/kernel/security/lockdown") {
        if lockdown.contains("[confidentiality]") {
            return Err(Trouble::new(
                "the kernel is locked down for confidentiality, so eBPF may not read its memory",
                EFFECT,
                "boot with lockdown=integrity",
            ));
        }
    }
    match fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if namespace.as_os_str() != INITIAL_PID_NAMESPACE => Err(Trouble::new(
            format!("convoy runs in the pid namespace {}", namespace.display()),
            "the kernel's thread numbers are others than those seen here, so eBPF is not used",
            "run convoy outside of the container, or give it the host's pid namespace (--pid=host)",
        )),
        _ => Ok(()),
    }
}

/// The kernel has refused a step; `said` is what libbpf printed.
pub(super) fn refused(step: &str, e: &libbpf_rs::Error, said: &[String]) -> Trouble {
    let fix = if e.kind() == libbpf_rs::ErrorKind::PermissionDenied
        && !said.iter().any(|s| is_verdict(s))
    {
        "a container's seccomp profile or a security module may forbid bpf(): run convoy outside of it"
    } else {
        "please report this with the kernel's version"
    };
    let mut found = format!("convoy could not {step}: {e:#}");
    let last = last_lines(said, 6);
    if !last.is_empty() {
        found.push_str("; the kernel said: ");
        found.push_str(&last.join(" | "));
    }
    Trouble::new(found, EFFECT, fix)
}

/// The timers of the sampler were refused.
pub(super) fn no_samples(e: &io::Error) -> Trouble {
    Trouble::new(
        format!("no timers for samples (perf_event_open: {})", os_text(e)),
        "lines are told from the places where threads block, not from where they compute",
        "set kernel.perf_event_paranoid to 2 or less, or run convoy outside of the container",
    )
}

/// The maps cannot be mapped.
pub(super) fn not_mapped(why: &str) -> Trouble {
    Trouble::new(
        format!("the memory shared with the kernel cannot be mapped: {why}"),
        EFFECT,
        "free some memory",
    )
}

/// Running processes cannot be taken in.
pub(super) fn not_adopted(why: &str) -> Trouble {
    Trouble::new(
        format!("the kernel does not list running threads: {why}"),
        "running processes are not recorded",
        "start the program with convoy instead",
    )
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let has = |capability: u32| effective.is_none_or(|bits| bits & (1 << capability) != 0);
    if has(CAP_SYS_ADMIN) {
        return Vec::new();
    }
    [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(capability, _)| !has(*capability))
        .map(|(_, name)| name)
        .collect()
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether this is the verifier's log, which a refusal for lack of rights has not.
fn is_verdict(said: &str) -> bool {
    said.contains("BEGIN PROG LOAD LOG")
}

fn last_lines(said: &[String], n: usize) -> Vec<&str> {
    let lines: Vec<&str> = said
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.contains("PROG LOAD LOG"))
        .collect();
    lines[lines.len().saturating_sub(n)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_or_two_capabilities_are_needed() {
        let status = |bits: u64| format!("Name:\tx\nCapEff:\t{bits:016x}\n");
        assert_eq!(missing_capabilities(&status(0)), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing_capabilities(&status(1 << CAP_BPF)), ["CAP_PERFMON"]);
        assert!(missing_capabilities(&status(1 << CAP_BPF | 1 << CAP_PERFMON)).is_empty());
        assert!(missing_capabilities(&status(1 << CAP_SYS_ADMIN)).is_empty());
    }

    #[test]
    fn versions_of_distributions_are_understood() {
        assert_eq!(version("6.1.0-18-amd64\n"), Some((6, 1)));
        assert_eq!(version("5.14.0-362.el9.x86_64"), Some((5, 14)));
        assert_eq!(version("6.18"), Some((6, 18)));
        assert_eq!(version("strange"), None);
        assert!(version("5.4.0").unwrap() < MIN_KERNEL);
        assert!(version("5.15.0-91-generic").unwrap() >= MIN_KERNEL);
    }

    #[test]
    fn the_end_of_what_the_kernel_said_is_kept() {
        let said = [
            "libbpf: prog 'on_switch': BPF program load failed\n".to_owned(),
            "-- BEGIN PROG LOAD LOG --\n0: first\n1: second\n2: R1 invalid\n-- END PROG LOAD LOG --\n".to_owned(),
        ];
        assert_eq!(last_lines(&said, 2), ["1: second", "2: R1 invalid"]);
        assert!(is_verdict(&said[1]) && !is_verdict(&said[0]));
    }
}
