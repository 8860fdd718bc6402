//! The source of scheduler events with the most in it: eBPF programs at the scheduler's tracepoints (`bpf/`).
//!
//! The programs only write down what happened, in memory that is mapped here. Who is recorded is decided in the kernel,
//! at the moment it matters: a thread is, if the one that made it is. So no list of processes has to be
//! kept, and nobody is missed who lives for a microsecond.

mod attach_running;
mod deliver;
mod load;
mod map;
mod merge;
mod names;
mod ringbuf;
mod rings;
mod sampler;
#[cfg(test)]
mod tests;
mod unavailable;

use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{Link, Object};

use convoy_abi::{BpfControl, CV_BPF_STACK_MAX};
use convoy_profile::SchedSource;

use self::deliver::{BlockedStacks, Delivery};
use self::load::Loaded;
use self::map::Mapping;
use self::merge::Merge;
use self::ringbuf::RingBuf;
use self::rings::Rings;
use super::raw::{EventSource, Sink};
use crate::clock::monotonic_ns;
use crate::error::Trouble;
pub(super) use unavailable::has_capability;

/// How to record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BpfOptions {
    /// Of the sampler, nanoseconds of each processor's busy time. 0 = no samples.
    pub sample_period_ns: u64,
    /// How much of a stack is copied at most, bytes; no more than 16 KiB.
    pub stack_bytes: u32,
    /// Whether processes that run already are to be recorded, too. The program that finds their threads takes the kernel a
    /// third of the time that all need to be checked (20 ms).
    pub adopts_running: bool,
}

impl Default for BpfOptions {
    fn default() -> Self {
        Self {
            sample_period_ns: 3_000_000,
            stack_bytes: CV_BPF_STACK_MAX as u32,
            adopts_running: true,
        }
    }
}

/// Programs that are loaded and attached. Dropping it detaches them.
pub(crate) struct BpfSource {
    /// Empty once detached.
    links: Vec<Link>,
    object: Object,
    control: Mapping,
    rings: Rings,
    records: RingBuf,
    merge: Merge,
    /// The ring buffer: what calls goes through it.
    calls: OwnedFd,
    blocked: BlockedStacks,
    /// Time of the last event that was delivered.
    last_ts: u64,
    /// Everything up to here has been delivered.
    upto_ns: u64,
    warnings: Vec<Trouble>,
}

impl BpfSource {
    /// Loads the programs. Nobody is recorded yet.
    pub fn open(options: &BpfOptions) -> Result<Self, Trouble> {
        Self::open_with_rings(options, None)
    }

    fn open_with_rings(options: &BpfOptions, ring_events: Option<usize>) -> Result<Self, Trouble> {
        unavailable::refuse_early()?;
        let Loaded {
            object,
            links,
            control,
            rings,
            records,
            calls,
            warnings,
        } = load::load(options, ring_events)?;
        Ok(Self {
            links,
            object,
            control,
            rings,
            records,
            calls,
            merge: Merge::default(),
            blocked: BlockedStacks::new(),
            last_ts: 0,
            upto_ns: monotonic_ns(),
            warnings,
        })
    }

    /// What does not work although the source does.
    pub fn warnings(&self) -> &[Trouble] {
        &self.warnings
    }

    /// Whether processes that the calling thread forks from now on are recorded, with all that they make. Threads of this
    /// process never are, nor what its other threads start.
    pub fn adopt_children_of_self(&self, yes: bool) {
        let parent = match yes {
            true => rustix::thread::gettid()
                .as_raw_nonzero()
                .get()
                .unsigned_abs(),
            false => 0,
        };
        self.control
            .half_word(offset_of!(BpfControl, adopt_parent))
            .store(parent, Ordering::SeqCst);
    }

    /// Records running processes, with all that they make; how many threads they have. Their other children that
    /// are already there are not among them: name those, too. For a source that was opened for that.
    pub fn adopt_running(&mut self, pids: &[u32]) -> Result<usize, Trouble> {
        let adopted = attach_running::adopt(&self.object, &self.control, pids)?;
        self.merge.look_at(&mut self.records);
        self.merge.each_held(&self.records, |record| {
            attach_running::keep_stack(record, &mut self.blocked);
        });
        Ok(adopted)
    }

    /// Nothing comes after this.
    fn detach(&mut self) {
        if self.links.is_empty() {
            return;
        }
        self.links.clear();
        // A program that was running at that moment needs a microsecond to end.
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl EventSource for BpfSource {
    fn kind(&self) -> SchedSource {
        SchedSource::Bpf
    }

    fn calls(&self) -> Option<BorrowedFd<'_>> {
        Some(self.calls.as_fd())
    }

    fn drain(&mut self, sink: &mut dyn Sink, last: bool) {
        if last {
            self.detach();
        }
        let now = monotonic_ns(); // the clock that the programs read
        let mut out = Delivery {
            sink,
            blocked: &mut self.blocked,
            ts: &mut self.last_ts,
        };
        let upto = self
            .merge
            .drain(&mut self.rings, &mut self.records, now, last, &mut out);
        let lives_lost = self
            .control
            .word(offset_of!(BpfControl, lives_lost))
            .swap(0, Ordering::Relaxed);
        if lives_lost > 0 {
            out.lost(self.upto_ns, upto, lives_lost, false);
        }
        if last {
            for ring in 0..self.rings.len() {
                for untold in self.rings.untold(ring) {
                    out.lost(untold.from_ns, untold.to_ns, untold.n, untold.stacks);
                }
            }
        }
        self.upto_ns = upto;
        sink.pause(upto);
    }

    fn adopt(&mut self, pids: &[u32]) -> Result<usize, Trouble> {
        self.adopt_running(pids)
    }

    fn kernel_name(&self, address: u64) -> Option<String> {
        names::name(&self.object, address)
    }
}

impl std::fmt::Debug for BpfSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BpfSource")
            .field("attached", &!self.links.is_empty())
            .field("upto_ns", &self.upto_ns)
            .finish_non_exhaustive()
    }
}
