//! Rows of activity: by thread, call stack, and loop.

use std::hash::{Hash, Hasher};

use convoy_profile::{CodeFrom, LoopIx, Slice, StackIx, ThreadRef};

use crate::clock::{CMetric, Clock, Interval, Snapshot, Spread};
use crate::table::{Last, Table};

/// What makes two pieces of activity the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    pub thread: ThreadRef,
    pub stack: StackIx,
    pub from: CodeFrom,
    pub spin: Option<LoopIx>,
}

impl Hash for Code {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let spin = self.spin.map_or(0, |spin| spin.wrapping_add(1));
        h.write_u64(u64::from(self.thread.process) << 32 | u64::from(self.thread.thread));
        h.write_u64(u64::from(self.stack) << 32 | u64::from(spin) << 2 | self.from as u64);
    }
}

#[derive(Debug)]
struct Row {
    code: Code,
    n: u64,
    faults: u64,
    active_ns: u64,
    running_ns: u64,
    cm: CMetric,
    cm_working: CMetric,
    spread: Spread,
}

/// All rows.
#[derive(Debug)]
pub(crate) struct Slices(Table<Code, Row>);

impl Slices {
    pub fn new(limit: usize) -> Self {
        Self(Table::new(limit))
    }

    pub fn row(&mut self, last: &mut Last<Code>, code: Code) -> u32 {
        let fold = |code: &Code| Code { stack: 0, ..*code };
        self.0.row_again(last, code, fold, |&code| Row {
            code,
            n: 0,
            faults: 0,
            active_ns: 0,
            running_ns: 0,
            cm: CMetric::default(),
            cm_working: CMetric::default(),
            spread: Spread::default(),
        })
    }

    /// Counts a sample, in a page fault or not, or a slice without one.
    pub fn count(&mut self, row: u32, fault: bool) {
        if let Some(row) = self.0.rows.get_mut(row as usize) {
            row.n += 1;
            row.faults += u64::from(fault);
        }
    }

    /// The activity since `mark` was that of `row`: for `running_ns` of it on a processor.
    pub fn add(
        &mut self,
        row: u32,
        clock: &Clock,
        mark: &mut Snapshot,
        running_ns: u64,
        working: bool,
    ) -> Interval {
        let Some(row) = self.0.rows.get_mut(row as usize) else {
            return clock.lap(mark, None, working);
        };
        let lap = clock.lap(mark, Some(&mut row.spread), working);
        row.active_ns += lap.ns;
        row.running_ns += running_ns;
        row.cm += lap.cm;
        row.cm_working += lap.cm_working;
        lap
    }

    /// The rows, and how many keys were folded.
    pub fn finish(self) -> (Vec<Slice>, u64) {
        let rows = self.0.rows.into_iter().map(|row| {
            let [by_active, by_working] = row.spread.finish();
            Slice {
                thread: row.code.thread,
                stack: row.code.stack,
                from: row.code.from,
                spin: row.code.spin,
                n: row.n,
                faults: row.faults,
                active_ns: row.active_ns,
                running_ns: row.running_ns,
                cm_ns: row.cm.ns(),
                cm_working_ns: row.cm_working.ns(),
                by_active,
                by_working,
            }
        });
        (rows.collect(), self.0.folded)
    }
}
