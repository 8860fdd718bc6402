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
            to_get(&missing, rustix::process::geteuid().is_root()),
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

/// How to get capabilities. Root that lacks them is in a container, or was told to do without: sudo gives none of them.
fn to_get(missing: &[&str], root: bool) -> String {
    match root {
        true => {
            let given: Vec<_> = missing
                .iter()
                .map(|name| format!("--cap-add={}", name.trim_start_matches("CAP_")))
                .collect();
            format!(
                "you are root without {}: the container must be given {} ({}), or run convoy outside of it",
                missing.join(" and "),
                if missing.len() > 1 { "them" } else { "it" },
                given.join(" ")
            )
        }
        false => "run convoy with sudo".into(),
    }
}

/// The kernel has refused a step; `said` is what libbpf printed.
pub(super) fn refused(step: &str, e: &libbpf_rs::Error, said: &[String]) -> Trouble {
    let text = format!("{e:#}");
    let found = format!("could not {step}: {}", without_number(&text));
    // A refusal of programs for what they do comes with the verifier's reasons.
    let judged = said.iter().any(|s| is_verdict(s));
    let fix = match errno(&text) {
        Some(libc::EPERM | libc::EACCES) if !judged => Some(
            "a container (user namespace, seccomp profile) or a security module forbids bpf(): run convoy outside \
             of it, with sudo",
        ),
        Some(libc::ENOSYS) => Some(
            "a filter of system calls (seccomp) forbids bpf(), or the kernel lacks CONFIG_BPF_SYSCALL: run convoy \
             outside of the container or sandbox",
        ),
        Some(libc::EMFILE | libc::ENFILE) => {
            Some("raise the number of files that a process may open: ulimit -n")
        }
        Some(libc::ENOMEM) => Some("free some memory, or raise the limit of the control group"),
        _ => None,
    };
    if let Some(fix) = fix {
        return Trouble::new(found, EFFECT, fix);
    }
    let last = last_lines(said, 6);
    let told = match last.is_empty() {
        true => found,
        false => format!("{found}; the kernel said: {}", last.join(" | ")),
    };
    Trouble::new(told, EFFECT, "please report this with the kernel's version")
}

/// The number at the end of an operating system's error.
fn errno(text: &str) -> Option<i32> {
    let (_, number) = text.rsplit_once("(os error ")?;
    number.split(')').next()?.parse().ok()
}

fn without_number(text: &str) -> &str {
    text.rsplit_once(" (os error ")
        .map_or(text, |(text, _)| text)
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

/// Whether a thread with this `/proc/PID/status` has the capability. Where the file does not say: yes.
pub(in crate::kernel) fn has_capability(status: &str, capability: u32) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_none_or(|bits| bits & (1 << capability) != 0)
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let has = |capability: u32| has_capability(status, capability);
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
    fn root_is_not_told_to_become_root() {
        let missing = ["CAP_BPF", "CAP_PERFMON"];
        assert_eq!(to_get(&missing, false), "run convoy with sudo");
        let told = to_get(&missing, true);
        assert!(!told.contains("sudo"), "{told}");
        assert!(told.contains("CAP_BPF and CAP_PERFMON"), "{told}");
        assert!(told.contains("--cap-add=BPF --cap-add=PERFMON"), "{told}");
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
    fn a_refusal_has_a_way_out_or_the_kernel_s_own_words() {
        let said = ["libbpf: Couldn't load trivial BPF program\n".to_owned()];
        let of = |errno| refused("load", &libbpf_rs::Error::from_raw_os_error(errno), &said);
        for (errno, way) in [
            (libc::EPERM, "run convoy outside of it"),
            (libc::ENOSYS, "CONFIG_BPF_SYSCALL"),
            (libc::EMFILE, "ulimit -n"),
            (libc::ENOMEM, "free some memory"),
        ] {
            let trouble = of(errno);
            assert!(trouble.fix.contains(way), "{trouble}");
            assert!(!trouble.to_string().contains("os error"), "{trouble}");
            assert!(!trouble.found.contains("libbpf"), "{trouble}");
        }
        let strange = of(libc::EINVAL);
        assert!(strange.found.contains("trivial BPF program"), "{strange}");
        let verdict = ["-- BEGIN PROG LOAD LOG --\nR1 invalid\n-- END PROG LOAD LOG --".to_owned()];
        let error = libbpf_rs::Error::from_raw_os_error(libc::EACCES);
        let judged = refused("load", &error, &verdict);
        assert!(judged.found.contains("R1 invalid"), "{judged}");
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
