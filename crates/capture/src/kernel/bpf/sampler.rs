//! The timers that run the sampler, one on each processor.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut};

/// Attaches the program to a timer of this period on each processor that is there. They tick while the processor
/// is not idle; the program keeps ticks that hit a recorded thread.
pub(super) fn attach(program: &ProgramMut<'_>, period_ns: u64) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for processor in online() {
        let timer = match timer(processor, period_ns) {
            // Taken away between the two lines.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
            timer => timer?,
        };
        let link = program
            .attach_perf_event(timer.as_raw_fd())
            .map_err(|e| io::Error::other(format!("{e:#}")))?;
        let _ = timer.into_raw_fd(); // closed by the link
        links.push(link);
    }
    Ok(links)
}

fn timer(processor: u32, period_ns: u64) -> io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(libbpf_sys::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = period_ns;
    attributes.set_exclude_idle(1);
    // SAFETY: the attributes outlive the call; any process, this processor, no group.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &attributes,
            -1,
            processor as libc::c_int,
            -1,
            libc::c_ulong::from(libbpf_sys::PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Processors in use.
fn online() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let listed = parse(&list);
    if listed.is_empty() {
        vec![0]
    } else {
        listed
    }
}

/// The kernel's list format: "0-3,8".
fn parse(list: &str) -> Vec<u32> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lists_of_processors_have_ranges_and_gaps() {
        assert_eq!(parse("0-1\n"), [0, 1]);
        assert_eq!(parse("0,2-4,7"), [0, 2, 3, 4, 7]);
        assert!(parse("").is_empty());
    }
}
