//! Merges the rings and the ring buffer by time.
//!
//! The events of one processor are in order; those of two processors are made so here. What is younger than
//! [`SETTLED_NS`] is held back, because another processor may be about to publish something older. So is what is younger
//! than an unfinished record of the buffer: all that was written after it cannot be had yet, forks above all, and a virtual
//! machine's processor may be taken away for as long as its host likes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zerocopy::FromBytes;

use convoy_abi::BpfRecord;

use super::deliver::Delivery;
use super::ringbuf::{Look, Place, RingBuf};
use super::rings::Rings;

/// Between the time of an event and its publication, at most; in fact it is well below a microsecond, but a
/// virtual machine's processor may be taken away in between.
const SETTLED_NS: u64 = 2_000_000;

/// What the ring buffer is among the sources: before all rings, since a stack has the time of its event.
const RECORDS: usize = 0;

/// The state between two drains. Its buffers are reused: draining does not allocate.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// Records looked at and not delivered, the next one last.
    records: Vec<(u64, Place)>,
    /// When there was no unfinished record last: what has not been looked at by now was begun later.
    clear_ns: u64,
    /// The time of the next event of each source that has one.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Merge {
    /// Delivers everything that is settled at `now_ns`; everything if `last`. The time up to which it is complete.
    pub fn drain(
        &mut self,
        rings: &mut Rings,
        records: &mut RingBuf,
        now_ns: u64,
        last: bool,
        out: &mut Delivery<'_>,
    ) -> u64 {
        // The rings first: a stack that belongs to an event seen here has been published before.
        for ring in 0..rings.len() {
            rings.look(ring);
            self.push(rings.next_ts(ring), ring + 1);
        }
        if self.look_at(records) {
            self.clear_ns = now_ns;
        }
        self.push(self.records.last().map(|r| r.0), RECORDS);
        let upto = if last {
            u64::MAX
        } else {
            self.clear_ns.saturating_sub(SETTLED_NS)
        };

        while let Some(Reverse((ts, source))) = self.heap.pop() {
            if ts > upto {
                break;
            }
            // This source goes on until another one is due.
            let until = self.heap.peek().map_or((upto, usize::MAX), |other| other.0);
            let next = if source == RECORDS {
                self.deliver_records(records, until.min((upto, usize::MAX)), out)
            } else {
                deliver_ring(rings, source, until.min((upto, usize::MAX)), out)
            };
            self.push(next, source);
        }
        self.heap.clear();
        for ring in 0..rings.len() {
            rings.release(ring);
        }
        records.release(self.records.iter().map(|r| r.1).min());
        upto.min(now_ns)
    }

    fn push(&mut self, ts: Option<u64>, source: usize) {
        if let Some(ts) = ts {
            self.heap.push(Reverse((ts, source)));
        }
    }

    /// Puts the new records among those that were held back. They lie in the order of reservation, which is
    /// nearly that of time. Whether these are all that were begun.
    pub fn look_at(&mut self, records: &mut RingBuf) -> bool {
        let mut next = records.look();
        while let Look::At(place) = next {
            let record = records.record(place);
            let head = BpfRecord::read_from_prefix(&record);
            let ts = head.map_or(0, |(head, _)| head.ts_ns);
            self.records.push((ts, place));
            next = records.look();
        }
        self.records.sort_unstable_by(|a, b| b.cmp(a));
        next == Look::Nothing
    }

    /// Shows the records that were not delivered yet, in no particular order.
    pub fn each_held(&self, records: &RingBuf, mut show: impl FnMut(&[u8])) {
        for (_, place) in &self.records {
            show(&records.record(*place));
        }
    }

    fn deliver_records(
        &mut self,
        records: &RingBuf,
        until: (u64, usize),
        out: &mut Delivery<'_>,
    ) -> Option<u64> {
        while let Some(&(ts, place)) = self.records.last() {
            if (ts, RECORDS) > until {
                return Some(ts);
            }
            out.record(&records.record(place));
            self.records.pop();
        }
        None
    }
}

fn deliver_ring(
    rings: &mut Rings,
    source: usize,
    until: (u64, usize),
    out: &mut Delivery<'_>,
) -> Option<u64> {
    let ring = source - 1;
    while let Some(event) = rings.next(ring) {
        if (event.ts_ns, source) > until {
            return Some(event.ts_ns);
        }
        out.event(&event);
        rings.advance(ring);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use convoy_abi::{BpfEvent, BpfLife, BpfRing, CV_BPF_FORK, CV_BPF_WAKEUP};
    use zerocopy::IntoBytes;

    use super::super::deliver::BlockedStacks;
    use super::super::ringbuf::tests::Written;
    use super::*;
    use crate::kernel::raw::{Raw, Sink};

    #[derive(Default)]
    struct Told(Vec<&'static str>);

    impl Sink for Told {
        fn take(&mut self, raw: &Raw<'_>) {
            self.0.push(match raw {
                Raw::Fork { .. } => "fork",
                Raw::Wakeup { .. } => "wakeup",
                _ => "other",
            });
        }

        fn pause(&mut self, _upto: u64) {}
    }

    /// One ring with a wake-up at `ts_ns` in it.
    fn rings(ts_ns: u64) -> Rings {
        let (heads, events) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let head = BpfRing {
            head: 1,
            ..BpfRing::default()
        };
        let event = BpfEvent {
            ts_ns,
            kind: CV_BPF_WAKEUP,
            ..BpfEvent::default()
        };
        heads.write_all_at(head.as_bytes(), 0).unwrap();
        events.set_len(8 * size_of::<BpfEvent>() as u64).unwrap();
        events.write_all_at(event.as_bytes(), 0).unwrap();
        Rings::new(heads.as_fd(), events.as_fd(), 1, 8).unwrap()
    }

    #[test]
    fn what_is_younger_than_an_unfinished_record_waits_for_it() {
        const MS: u64 = 1_000_000;
        let mut rings = rings(11 * MS);
        let mut written = Written::new(4096);
        let mut records = written.reader();
        let mut merge = Merge::default();
        let mut told = Told::default();
        let mut drain = |now_ns: u64, told: &mut Told| {
            let mut out = Delivery {
                sink: told,
                blocked: &mut BlockedStacks::new(),
                ts: &mut 0,
            };
            merge.drain(&mut rings, &mut records, now_ns, false, &mut out)
        };
        assert_eq!(drain(9 * MS, &mut told), 7 * MS);
        // The processor of the one that forks is taken away for 30 ms: the new thread runs on another one.
        let fork = BpfLife {
            ts_ns: 10 * MS,
            kind: CV_BPF_FORK,
            tid: 5,
            ..BpfLife::default()
        };
        let start = written.begin(fork.as_bytes());
        assert_eq!(drain(20 * MS, &mut told), 7 * MS);
        assert_eq!(drain(30 * MS, &mut told), 7 * MS);
        assert!(told.0.is_empty());
        written.end(start, size_of::<BpfLife>(), 0);
        assert_eq!(drain(40 * MS, &mut told), 38 * MS);
        assert_eq!(told.0, ["fork", "wakeup"]);
    }
}
