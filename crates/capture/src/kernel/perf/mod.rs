//! Scheduler events from perf events, for users who may not load eBPF programs. The kernel lets everybody
//! measure the user mode of their own threads (`perf_event_paranoid` up to 2), and with it come a record of
//! each context switch, fork, exec and exit.
//!
//! One event per processor, inherited by every thread and process that the measured ones make; each
//! processor has a ring in memory. Less than eBPF delivers: no wake-ups, no wakers, no system calls, stacks only
//! of samples, and no samples in the kernel.

pub(crate) mod attr;
mod decode;
mod existing_threads;
mod limits;
mod merge;
mod record;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

use convoy_profile::SchedSource;

use self::attr::{Attr, Begin};
use self::decode::Decoder;
use self::merge::Merge;
use self::ring::Ring;
use super::raw::{EventSource, Sink};
use crate::clock::monotonic_ns;
use crate::error::Trouble;
use crate::procfs;

/// A record's time is taken before it can be read. So much later it is there, unless a hypervisor had
/// stopped its processor in between: then it comes late, and gets the time of those before it.
const SLACK_NS: u64 = 2_000_000;

/// The kernel keeps the length of a sample in 16 bits; the rest of it needs a hundred bytes.
const STACK_BYTES: usize = 60 << 10;

/// A new thread is on the list of its process a moment before its record is in the ring.
const SETTLE: Duration = Duration::from_millis(1);

/// How often the threads of running processes are listed until no new ones are found. Those that come later
/// were made by threads that are measured, and are measured themselves.
const LISTINGS: usize = 8;

/// How to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PerfOptions {
    /// Between two samples of a thread, nanoseconds of its CPU time; 0 = no samples.
    pub sample_period_ns: u64,
    /// Copied of the stack with each sample, at most 60 KiB.
    pub stack_bytes: usize,
    /// Size of each processor's ring; what an ordinary user may lock in memory can be less, and is then used.
    pub ring_bytes: usize,
}

impl Default for PerfOptions {
    fn default() -> Self {
        Self {
            sample_period_ns: 3_000_000,
            stack_bytes: 8 << 10,
            ring_bytes: 1 << 20,
        }
    }
}

/// Perf events that are open. They end with it.
#[derive(Debug)]
pub(crate) struct PerfSource {
    attr: Attr,
    processors: Vec<Processor>,
    merge: Merge,
    decoder: Decoder,
    troubles: Vec<Trouble>,
    scratch: Vec<u8>,
}

/// A processor's ring, and the events that write into it.
#[derive(Debug)]
struct Processor {
    cpu: u32,
    ring: Ring,
    /// The first one owns the ring.
    events: Vec<OwnedFd>,
}

impl PerfSource {
    /// Measures the process that this thread forks next, from its exec on. Then [`Self::started`] must say
    /// which one it is. What else this thread starts later is measured, too, but not delivered.
    pub fn for_next_child(options: &PerfOptions) -> Result<Self, Trouble> {
        let mut source = Self::new(Attr::new(options, Begin::AtExec), Decoder::of_child());
        for cpu in limits::online_processors() {
            source.open(0, cpu, options.ring_bytes)?;
        }
        source.check_processors()?;
        Ok(source)
    }

    /// The child's process id. Nothing is delivered before it is known.
    pub fn started(&mut self, pid: u32) {
        self.decoder.started(pid);
    }

    /// Measures processes that run already, with all their threads; what could not be had is in
    /// [`Self::troubles`].
    pub fn for_running(pids: &[u32], options: &PerfOptions) -> Result<Self, Trouble> {
        let mut source = Self::new(Attr::new(options, Begin::Now), Decoder::of_running());
        let cpus = limits::online_processors();
        let mut room = limits::descriptors() / cpus.len().max(1);
        let mut seen = HashSet::new();
        let (mut left_out, mut refused) = (0, None);
        for listing in 0..LISTINGS {
            let of = |&pid: &u32| procfs::threads(pid).into_iter().map(move |tid| (pid, tid));
            let mut found: Vec<(u32, u32)> = pids.iter().flat_map(of).collect();
            found.retain(|&(_, tid)| seen.insert(tid));
            if listing > 0 && !found.is_empty() {
                std::thread::sleep(SETTLE);
                source.fetch();
                found.retain(|&(_, tid)| !source.merge.has_fork_of(tid));
            }
            if found.is_empty() {
                break;
            }
            for (pid, tid) in found {
                if room == 0 {
                    left_out += 1;
                    continue;
                }
                match source.open_thread(tid, &cpus, options.ring_bytes) {
                    Ok(true) => room -= 1,
                    Ok(false) => continue, // has ended
                    Err(trouble) => {
                        left_out += 1;
                        refused.get_or_insert(trouble);
                        continue;
                    }
                }
                if let Some(init) = existing_threads::look(pid, tid) {
                    source.merge.push(init);
                }
            }
        }
        if left_out > 0 {
            let trouble = limits::left_out(left_out, seen.len(), refused.clone());
            if source.processors.is_empty() {
                return Err(refused.unwrap_or(trouble));
            }
            source.troubles.push(trouble);
        }
        source.check_processors().map(|()| source)
    }

    /// What is not measured, and why.
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    fn new(attr: Attr, decoder: Decoder) -> Self {
        Self {
            attr,
            processors: Vec::new(),
            merge: Merge::default(),
            decoder,
            troubles: Vec::new(),
            scratch: Vec::new(),
        }
    }

    fn check_processors(&self) -> Result<(), Trouble> {
        if self.processors.is_empty() {
            return Err(limits::nothing_to_measure());
        }
        Ok(())
    }

    /// False if the thread has ended.
    fn open_thread(&mut self, tid: u32, cpus: &[u32], ring_bytes: usize) -> Result<bool, Trouble> {
        for &cpu in cpus {
            if !self.open(tid, cpu, ring_bytes)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens an event of a thread (0 = this one) on a processor; false if one of the two is not there.
    fn open(&mut self, tid: u32, cpu: u32, ring_bytes: usize) -> Result<bool, Trouble> {
        let event = match attr::open(&self.attr, tid, Some(cpu)) {
            Ok(event) => event,
            // The processor has been taken out since it was listed.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
            Err(e) => return Err(limits::refused(&e, tid == 0)),
        };
        if let Some(processor) = self.processors.iter_mut().find(|p| p.cpu == cpu) {
            let owner = processor.events.first();
            let redirected = owner.map_or(Ok(()), |owner| attr::redirect(&event, owner));
            redirected.map_err(|e| limits::refused(&e, tid == 0))?;
            processor.events.push(event);
        } else {
            let ring = Ring::largest(&event, ring_bytes).map_err(|e| limits::no_memory(&e))?;
            let events = vec![event];
            self.processors.push(Processor { cpu, ring, events });
        }
        Ok(true)
    }

    /// Takes everything out of the rings; before this time nothing more will come.
    fn fetch(&mut self) -> u64 {
        let now = monotonic_ns();
        for processor in &mut self.processors {
            self.scratch.clear();
            processor.ring.take(&mut self.scratch);
            self.merge.take(processor.cpu, &self.scratch);
        }
        now.saturating_sub(SLACK_NS)
    }
}

impl EventSource for PerfSource {
    fn kind(&self) -> SchedSource {
        SchedSource::Perf
    }

    fn drain(&mut self, sink: &mut dyn Sink, last: bool) {
        let mut upto = self.fetch();
        if last {
            upto = u64::MAX;
            self.processors.clear(); // what it costs others ends here
        } else if !self.decoder.is_ready() {
            return;
        }
        for (ts, what) in self.merge.until(upto) {
            self.decoder.tell(ts, &what, sink);
        }
        sink.pause(if last {
            self.merge.delivered_ns()
        } else {
            upto
        });
    }
}
