//! Traces put together from the sections of the file. Blocks refer to objects and call sites by number:
//! rows that were lost are filled in, as in the tables of a process.

use serde::{Deserialize, Serialize};

use crate::tables::Row;
use crate::validate::Allowance;
use crate::warning::ReadWarning;
use crate::{
    Process, ProcessTrace, TraceBlock, TraceMode, TraceObject, TraceSite, TraceThread, NO_FRAME,
};

/// Everything of a [`ProcessTrace`] but its tables, and how many rows these have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TraceHead {
    mode: TraceMode,
    start_ns: u64,
    end_ns: u64,
    sees_preemptions: bool,
    lost: Vec<(String, u64)>,
    lost_windows: u64,
    windows: u64,
    objects: u64,
    sites: u64,
    threads: u64,
    blocks: u64,
}

impl TraceHead {
    pub(crate) fn of(trace: &ProcessTrace) -> Self {
        Self {
            mode: trace.mode,
            start_ns: trace.start_ns,
            end_ns: trace.end_ns,
            sees_preemptions: trace.sees_preemptions,
            lost: trace.lost.clone(),
            lost_windows: trace.lost_windows,
            windows: trace.windows.len() as u64,
            objects: trace.objects.len() as u64,
            sites: trace.sites.len() as u64,
            threads: trace.threads.len() as u64,
            blocks: trace.blocks.len() as u64,
        }
    }
}

/// What has been read of the trace of one process.
#[derive(Debug, Default)]
pub(crate) struct TraceParts {
    pub(crate) head: Option<TraceHead>,
    pub(crate) trace: ProcessTrace,
}

impl TraceParts {
    /// Adds the rows of a section that begins with row `first` of a table that is referred to by number;
    /// false if that cannot be.
    pub(crate) fn append<R: Row + Default + Clone>(
        &mut self,
        first: u64,
        rows: Vec<R>,
        of: fn(&mut ProcessTrace) -> &mut Vec<R>,
        allowance: &mut Allowance,
    ) -> bool {
        let table = of(&mut self.trace);
        let Some(gap) = first.checked_sub(table.len() as u64) else {
            return false;
        };
        if gap > 0 && !allowance.take(gap) {
            return false;
        }
        table.resize(first as usize, R::default());
        table.extend(rows);
        true
    }

    /// The trace, sound. `process`: in the profile.
    pub(crate) fn finish(
        self,
        process: u32,
        of: &Process,
        warnings: &mut Vec<ReadWarning>,
    ) -> ProcessTrace {
        let mut trace = self.trace;
        trace.process = process;
        if let Some(head) = self.head {
            let tables = [
                (crate::TraceWindow::NAME, trace.windows.len(), head.windows),
                (TraceObject::NAME, trace.objects.len(), head.objects),
                (TraceSite::NAME, trace.sites.len(), head.sites),
                (TraceThread::NAME, trace.threads.len(), head.threads),
                (TraceBlock::NAME, trace.blocks.len(), head.blocks),
            ];
            for (table, found, of) in tables {
                let rows = of.saturating_sub(found as u64);
                if rows > 0 {
                    let table = table.into();
                    warnings.push(ReadWarning::TraceCut { table, rows, of });
                }
            }
            trace.mode = head.mode;
            trace.start_ns = head.start_ns;
            trace.end_ns = head.end_ns;
            trace.sees_preemptions = head.sees_preemptions;
            trace.lost = head.lost;
            trace.lost_windows = head.lost_windows;
        } else {
            let blocks = trace.blocks.iter();
            trace.start_ns = blocks.clone().map(|b| b.start_ns).min().unwrap_or(0);
            trace.end_ns = blocks.map(|b| b.end_ns).max().unwrap_or(0);
        }
        let mut end = 0;
        trace.windows.retain(|window| {
            let follows = window.start_ns >= end;
            end = end.max(window.end_ns);
            follows
        });
        let threads = of.threads.len();
        for object in &mut trace.objects {
            let known = |ix: &u32| (*ix as usize) < of.objects.len();
            object.object = object.object.filter(known);
        }
        for site in &mut trace.sites {
            if site.frame as usize >= of.frames.len() {
                site.frame = NO_FRAME;
            }
            if site.stack as usize >= of.stacks.len() {
                site.stack = 0;
            }
        }
        trace.threads.retain(|row| (row.thread as usize) < threads);
        let before = trace.blocks.len();
        trace.blocks.retain(|row| (row.thread as usize) < threads);
        let rows = (before - trace.blocks.len()) as u64;
        if rows > 0 {
            warnings.push(ReadWarning::Dropped {
                table: TraceBlock::NAME.into(),
                pid: Some(of.pid),
                rows,
            });
        }
        trace
    }
}
