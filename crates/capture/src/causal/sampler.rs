//! Samples of the program's threads, by perf events that convoy owns.
//!
//! Each overflow sends the agent's signal to the thread. The events are closed with convoy, end
//! with their thread, and are removed when it becomes another program, which would not know the
//! signal.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::kernel::perf::attr::{self, Attr};

/// `_IO('$', 0)` and so on.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// `_IOW('$', 4, __u64)`
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;

const F_SETOWN_EX: libc::c_int = 15;
const F_SETSIG: libc::c_int = 10;
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex`
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}

/// One event for each thread.
#[derive(Debug)]
pub(super) struct Sampler {
    signal: i32,
    events: BTreeMap<u32, OwnedFd>,
    /// CPU time between two samples, nanoseconds; 0 = none are taken.
    period_ns: u64,
}

impl Sampler {
    /// Sends this signal.
    pub fn new(signal: u32) -> Self {
        Self {
            signal: signal as i32,
            events: BTreeMap::new(),
            period_ns: 0,
        }
    }

    /// Threads that are sampled when samples are taken.
    pub fn threads(&self) -> usize {
        self.events.len()
    }

    /// Takes up threads that are new, and lets go of those that are gone or must not be sampled.
    ///
    /// # Errors
    /// The kernel allows this user no such event.
    pub fn follow(&mut self, tids: &[u32]) -> io::Result<()> {
        self.events.retain(|tid, _| tids.contains(tid));
        for tid in tids {
            if self.events.contains_key(tid) {
                continue;
            }
            match self.open(*tid) {
                Ok(event) => {
                    self.events.insert(*tid, event);
                }
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn open(&self, tid: u32) -> io::Result<OwnedFd> {
        let attr = Attr::of_cpu_time(self.period_ns.max(LONGEST_NS));
        let event = attr::open(&attr, tid, None)?;
        let owner = Owner {
            kind: F_OWNER_TID,
            pid: tid as i32,
        };
        let fd = event.as_raw_fd();
        // SAFETY: the descriptor is open; F_SETOWN_EX reads the structure during the call, the
        // others take numbers.
        let results = unsafe {
            [
                libc::fcntl(fd, F_SETOWN_EX, std::ptr::from_ref(&owner)),
                libc::fcntl(fd, F_SETSIG, self.signal),
                libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC),
            ]
        };
        if results.contains(&-1) {
            return Err(io::Error::last_os_error());
        }
        if self.period_ns > 0 {
            run(&event, self.period_ns);
        }
        Ok(event)
    }

    /// Takes a sample of each thread after so much CPU time, nanoseconds, from now on; 0 = none.
    pub fn set_period(&mut self, period_ns: u64) {
        if self.period_ns == period_ns {
            return;
        }
        self.period_ns = period_ns;
        for event in self.events.values() {
            match period_ns {
                0 => stop(event),
                _ => run(event, period_ns),
            }
        }
    }
}

/// Until the first period is set.
const LONGEST_NS: u64 = 1_000_000_000;

// That these fail means that the thread has ended: then there is nothing to sample.

fn run(event: &OwnedFd, period_ns: u64) {
    let fd = event.as_raw_fd();
    // SAFETY: the descriptor is an open perf event; IOC_PERIOD reads a u64, IOC_ENABLE nothing.
    unsafe {
        libc::ioctl(fd, IOC_PERIOD, std::ptr::from_ref(&period_ns));
        libc::ioctl(fd, IOC_ENABLE, 0);
    }
}

fn stop(event: &OwnedFd) {
    // SAFETY: the descriptor is an open perf event; the request has no argument in memory.
    unsafe { libc::ioctl(event.as_raw_fd(), IOC_DISABLE, 0) };
}
