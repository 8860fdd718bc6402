//! The timers that run the sampler, one on each processor.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut};

use crate::clock::monotonic_ns;

/// `_IOW('$', 4, u64)` of linux/perf_event.h.
const PERF_EVENT_IOC_PERIOD: libc::c_ulong = 0x4008_2404;

/// How often samples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// CPU time between two samples of a processor, nanoseconds. 0 = none.
    pub period_ns: u64,
    /// Whether they become rarer in a long recording (eBPF only).
    pub thins: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            period_ns: 3_000_000,
            thins: true,
        }
    }
}

/// How old a recording is when samples become rarer, nanoseconds, and how many times as long the period is then. What a share of the
/// run is known to depends on the number of samples; what they cost the program, on how many there are a second.
const THINNER: [(u64, u64); 2] = [(2_000_000_000, 2), (4_000_000_000, 4)];

/// The timers with the program attached to them. Dropping it takes them away.
#[derive(Debug, Default)]
pub(super) struct Timers {
    timers: Vec<(OwnedFd, Link)>,
    period_ns: u64,
    begun_ns: u64,
    /// What they still have to become.
    thinner: &'static [(u64, u64)],
}

impl Timers {
    /// Attaches the program to a timer of this period on each processor that is there. They tick while the processor
    /// is not idle; the program keeps ticks that hit a recorded thread.
    pub fn attach(program: &ProgramMut<'_>, sampling: Sampling) -> io::Result<Self> {
        let mut timers = Vec::new();
        for processor in online() {
            let timer = match timer(processor, sampling.period_ns) {
                // Taken away between the two lines.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
                timer => timer?,
            };
            let own = timer.try_clone()?;
            let link = program
                .attach_perf_event(timer.as_raw_fd())
                .map_err(|e| io::Error::other(format!("{e:#}")))?;
            let _ = timer.into_raw_fd(); // closed by the link
            timers.push((own, link));
        }
        Ok(Self {
            timers,
            period_ns: sampling.period_ns,
            begun_ns: monotonic_ns(),
            thinner: if sampling.thins { &THINNER } else { &[] },
        })
    }

    /// Makes the period longer when it is time for that.
    pub fn thin(&mut self, now_ns: u64) {
        let Some((&(after_ns, times), rest)) = self.thinner.split_first() else {
            return;
        };
        if now_ns.saturating_sub(self.begun_ns) < after_ns {
            return;
        }
        self.thinner = rest;
        let period_ns = self.period_ns.saturating_mul(times);
        for (timer, _) in &self.timers {
            // SAFETY: the request reads one number, which outlives the call. A processor that has gone refuses: no harm.
            unsafe {
                libc::ioctl(timer.as_raw_fd(), PERF_EVENT_IOC_PERIOD, &period_ns);
            }
        }
    }
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
