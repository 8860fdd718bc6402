//! The rings of context switches and wake-ups, one per processor.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use convoy_abi::{BpfEvent, BpfRing};

use super::map::Mapping;

/// All rings together take about this much memory.
const RINGS_BYTES: usize = 32 << 20;
/// A ring holds at least so many events.
const LEAST_EVENTS: usize = 4096;
/// ... and no more than a processor makes in a quarter of a second when it does nothing but switch.
const MOST_EVENTS: usize = 1 << 17;

/// How many events a ring should hold on a machine with so many possible processors.
pub(super) fn events_per_ring(processors: usize) -> usize {
    let fair = RINGS_BYTES / size_of::<BpfEvent>() / processors.max(1);
    let power = if fair.is_power_of_two() {
        fair
    } else {
        fair.next_power_of_two() / 2
    };
    power.clamp(LEAST_EVENTS, MOST_EVENTS)
}

/// The rings of all possible processors.
#[derive(Debug)]
pub(super) struct Rings {
    heads: Mapping,
    events: Mapping,
    /// In each ring; a power of two.
    size: u64,
    rings: Vec<Ring>,
}

/// Where reading one of them is.
#[derive(Debug, Clone, Copy, Default)]
struct Ring {
    /// Read up to here.
    tail: u64,
    /// Written up to here, when last looked at.
    head: u64,
}

/// What a ring has lost and could not say in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Untold {
    pub from_ns: u64,
    pub to_ns: u64,
    pub n: u64,
    pub stacks: bool,
}

impl Rings {
    pub fn new(
        heads: BorrowedFd<'_>,
        events: BorrowedFd<'_>,
        processors: usize,
        size: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            heads: Mapping::new(heads, 0, processors * size_of::<BpfRing>(), true)?,
            events: Mapping::new(events, 0, processors * size * size_of::<BpfEvent>(), false)?,
            size: size as u64,
            rings: vec![Ring::default(); processors],
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rings.len()
    }

    /// Looks at how far a ring has been written.
    pub fn look(&mut self, ring: usize) {
        let head = self.heads.word(word(ring, offset_of!(BpfRing, head)));
        // The events were written before the head.
        self.rings[ring].head = head.load(Ordering::Acquire);
    }

    /// The next event of a ring, as far as [`Self::look`] has seen it. Stays the next until [`Self::advance`].
    #[inline]
    pub fn next(&self, ring: usize) -> Option<BpfEvent> {
        let Ring { tail, head } = self.rings[ring];
        if tail == head {
            return None;
        }
        let index = ring as u64 * self.size + (tail & (self.size - 1));
        self.events.read(index as usize * size_of::<BpfEvent>())
    }

    /// Its time alone.
    #[inline]
    pub fn next_ts(&self, ring: usize) -> Option<u64> {
        self.next(ring).map(|event| event.ts_ns)
    }

    /// Goes to the next event.
    #[inline]
    pub fn advance(&mut self, ring: usize) {
        self.rings[ring].tail += 1;
    }

    /// Gives what was read back to the kernel.
    pub fn release(&self, ring: usize) {
        let tail = self.heads.word(word(ring, offset_of!(BpfRing, tail)));
        tail.store(self.rings[ring].tail, Ordering::Release);
    }

    /// What was lost since the last event of a ring. Only after the programs have been detached: before, they tell
    /// it themselves.
    pub fn untold(&self, ring: usize) -> impl Iterator<Item = Untold> {
        let head: Option<BpfRing> = self.heads.read(ring * size_of::<BpfRing>());
        head.into_iter()
            .flat_map(|head| {
                [
                    Untold {
                        from_ns: head.lost_from_ns,
                        to_ns: head.lost_to_ns,
                        n: u64::from(head.lost),
                        stacks: false,
                    },
                    Untold {
                        from_ns: head.skipped_from_ns,
                        to_ns: head.skipped_to_ns,
                        n: u64::from(head.skipped),
                        stacks: true,
                    },
                ]
            })
            .filter(|untold| untold.n > 0)
    }
}

fn word(ring: usize, field: usize) -> usize {
    ring * size_of::<BpfRing>() + field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_a_fixed_amount_of_memory_but_are_never_tiny() {
        assert_eq!(events_per_ring(2), 131_072);
        assert_eq!(events_per_ring(64), 8192);
        assert_eq!(events_per_ring(1024), 4096);
        for processors in 1..200 {
            let events = events_per_ring(processors);
            assert!(events.is_power_of_two());
            assert!(events * processors * 40 <= RINGS_BYTES);
        }
    }
}
