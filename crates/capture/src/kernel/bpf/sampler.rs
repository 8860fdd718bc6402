//! The timers that run the sampler, one on each processor.
//!
//! An interrupt of a virtual machine's timer costs more than all that is done in it, and each processor that is not idle
//! has the scheduler's tick anyway. So the timers are started right before a tick: both are due at one interrupt then, as
//! long as the period is a multiple of the tick's.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use libbpf_rs::{Link, ProgramMut};
use rustix::thread::{sched_setaffinity, CpuSet};

use crate::clock::{monotonic_ns, tick_ns};

/// `_IOW('$', 4, __u64)`
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
/// A timer that is due so long before the tick is due at the same interrupt: handling it takes longer.
const AHEAD_NS: u64 = 3_000;

/// Attaches the program to a timer of this period on each processor that is there. They tick while the processor
/// is not idle; the program keeps ticks that hit a recorded thread.
pub(super) fn attach(program: &ProgramMut<'_>, period_ns: u64) -> io::Result<Vec<Link>> {
    let (mut links, mut timers) = (Vec::new(), Vec::new());
    for processor in online() {
        let timer = match timer(processor, period_ns) {
            // Taken away between the two lines.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
            timer => timer?,
        };
        let link = program
            .attach_perf_event(timer.as_raw_fd())
            .map_err(|e| io::Error::other(format!("{e:#}")))?;
        timers.push((processor, timer.into_raw_fd())); // closed by the link
        links.push(link);
    }
    // All at once: each takes up to a tick.
    std::thread::scope(|scope| {
        for &(processor, timer) in &timers {
            scope.spawn(move || start_before_tick(timer, processor, period_ns));
        }
    });
    Ok(links)
}

/// Lets a timer of a processor begin its period anew right before a tick, if it can stay in step with that.
fn start_before_tick(timer: RawFd, processor: u32, period_ns: u64) {
    let tick_ns = tick_ns();
    if period_ns % tick_ns != 0 || (processor as usize) >= CpuSet::MAX_CPU {
        return;
    }
    // From another processor it takes an interrupt to start it, and nobody knows how long.
    let mut there = CpuSet::new();
    there.set(processor as usize);
    if sched_setaffinity(None, &there).is_err() {
        return;
    }
    let mut takes_ns = tick_ns;
    for _ in 0..3 {
        let before = monotonic_ns();
        begin_anew(timer, period_ns);
        takes_ns = takes_ns.min(monotonic_ns() - before);
    }
    let ahead_ns = takes_ns + AHEAD_NS;
    let at = (monotonic_ns() + ahead_ns) / tick_ns * tick_ns + tick_ns - ahead_ns;
    while monotonic_ns() < at {
        std::hint::spin_loop();
    }
    begin_anew(timer, period_ns);
}

fn begin_anew(timer: RawFd, period_ns: u64) {
    // SAFETY: reads eight bytes that are there; what is no perf event refuses it.
    unsafe { libc::ioctl(timer, IOC_PERIOD, &period_ns) };
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
