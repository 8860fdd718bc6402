//! Rows of time off the processors: by thread, call stack, and reason.

use std::hash::{Hash, Hasher};

use convoy_profile::{Log2Histogram, NameIx, OffCpu, OffIx, OffReason, StackIx, ThreadRef};

use crate::clock::{Clock, Snapshot, Spread};
use crate::event::Place;
use crate::table::{Last, Table};

/// What makes two waits the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Where {
    thread: ThreadRef,
    stack: StackIx,
    reason: OffReason,
    nr: i16,
    address: u64,
    name: Option<NameIx>,
}

impl Hash for Where {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(u64::from(self.thread.process) << 32 | u64::from(self.thread.thread));
        h.write_u64(
            u64::from(self.stack) << 32 | (self.reason as u64) << 16 | u64::from(self.nr as u16),
        );
        h.write_u64(
            self.address ^ u64::from(self.name.map_or(0, |name| name.wrapping_add(1))) << 32,
        );
    }
}

#[derive(Debug)]
struct Row {
    place: Where,
    kernel_stack: u32,
    n: u64,
    sum_ns: u64,
    max_ns: u64,
    unfinished_ns: u64,
    hist: Log2Histogram,
    spread: Spread,
}

/// All rows.
#[derive(Debug)]
pub(crate) struct Offs(Table<Where, Row>);

/// What comes out.
#[derive(Debug)]
pub(crate) struct OffsOut {
    pub rows: Vec<OffCpu>,
    pub kernel_stacks: Vec<u32>,
    pub folded: u64,
}

impl Offs {
    pub fn new(limit: usize) -> Self {
        Self(Table::new(limit))
    }

    /// The row of waits of `thread` at `place` for `reason`. A kernel stack does not make another row: the first one is
    /// kept.
    pub fn row(
        &mut self,
        last: &mut Last<Where>,
        thread: ThreadRef,
        place: &Place,
        reason: OffReason,
    ) -> OffIx {
        let key = Where {
            thread,
            stack: place.stack,
            reason,
            nr: place.nr,
            address: place.address,
            name: place.name,
        };
        let fold = |key: &Where| Where {
            stack: 0,
            nr: -1,
            address: 0,
            name: None,
            ..*key
        };
        let ix = self.0.row_again(last, key, fold, |&place| Row {
            place,
            kernel_stack: 0,
            n: 0,
            sum_ns: 0,
            max_ns: 0,
            unfinished_ns: 0,
            hist: Log2Histogram::default(),
            spread: Spread::default(),
        });
        if let Some(row) = self.0.rows.get_mut(ix as usize) {
            if row.kernel_stack == 0 {
                row.kernel_stack = place.kernel_stack;
            }
        }
        ix
    }

    /// A wait that began at `mark` ends, or the recording does.
    pub fn add(&mut self, row: OffIx, clock: &Clock, mark: &mut Snapshot, finished: bool) {
        let Some(row) = self.0.rows.get_mut(row as usize) else {
            return;
        };
        let ns = clock.lap(mark, Some(&mut row.spread), true).ns;
        row.n += 1;
        row.sum_ns += ns;
        row.max_ns = row.max_ns.max(ns);
        if !finished {
            row.unfinished_ns += ns;
        }
        row.hist.count(ns);
    }

    pub fn finish(self) -> OffsOut {
        let kernel_stacks = self.0.rows.iter().map(|row| row.kernel_stack).collect();
        let rows = self.0.rows.into_iter().map(|row| {
            let [by_active, by_working] = row.spread.finish();
            OffCpu {
                thread: row.place.thread,
                stack: row.place.stack,
                kernel_stack: Vec::new(),
                reason: row.place.reason,
                nr: row.place.nr,
                address: row.place.address,
                name: row.place.name,
                n: row.n,
                sum_ns: row.sum_ns,
                max_ns: row.max_ns,
                unfinished_ns: row.unfinished_ns,
                hist: row.hist,
                by_active,
                by_working,
            }
        });
        OffsOut {
            rows: rows.collect(),
            kernel_stacks,
            folded: self.0.folded,
        }
    }
}
