//! Merges the rings and the ring buffer by time.
//!
//! The events of one processor are in order; those of two processors are made so here. What is younger than
//! [`SETTLED_NS`] is held back, because another processor may be about to publish something older.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zerocopy::FromBytes;

use convoy_abi::BpfRecord;

use super::deliver::Delivery;
use super::ringbuf::{Place, RingBuf};
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
        let upto = if last {
            u64::MAX
        } else {
            now_ns.saturating_sub(SETTLED_NS)
        };
        // The rings first: a stack that belongs to an event seen here has been published before.
        for ring in 0..rings.len() {
            rings.look(ring);
            self.push(rings.next_ts(ring), ring + 1);
        }
        self.look_at(records);
        self.push(self.records.last().map(|r| r.0), RECORDS);

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
    /// nearly that of time.
    pub fn look_at(&mut self, records: &mut RingBuf) {
        while let Some(place) = records.look() {
            let record = BpfRecord::read_from_prefix(records.record(place));
            let ts = record.map_or(0, |(record, _)| record.ts_ns);
            self.records.push((ts, place));
        }
        self.records.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Shows the records that were not delivered yet, in no particular order.
    pub fn each_held(&self, records: &RingBuf, mut show: impl FnMut(&[u8])) {
        for (_, place) in &self.records {
            show(records.record(*place));
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
            out.record(records.record(place));
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
