//! Waits, holds and samples per (object, call stack, thread, operation).

use convoy_profile::{Detail, Op, Process, StackIx, ThreadIx};

use super::objects::Objects;
use crate::kinds::is_blocking_acquire;
use crate::{ObjectId, Use};

/// A row of the profile's details, joined over the records of one address. The ids of `figures` are
/// not yet set.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) object: ObjectId,
    pub(super) stack: StackIx,
    pub(super) thread: ThreadIx,
    pub(super) op: Option<Op>,
    pub(super) samples: u64,
    pub(super) figures: Use,
}

impl Row {
    /// Calls that this stack made for certain: those that waited and were then counted.
    pub(super) fn known_calls(&self) -> u64 {
        let waits = self.figures.waits;
        match self.op {
            Some(op) if is_blocking_acquire(op) => waits
                .saturating_sub(self.figures.timeouts)
                .saturating_sub(u64::from(self.figures.unfinished_ns > 0)),
            _ => waits,
        }
    }
}

/// All details, ordered by object, stack, thread, operation.
pub(super) fn collect(process: &Process, objects: &Objects) -> Vec<Row> {
    let mut rows: Vec<Row> = process
        .details
        .iter()
        .filter_map(|detail| {
            Some(Row {
                object: objects.id(detail.object)?,
                stack: detail.stack,
                thread: detail.thread,
                op: detail.op,
                samples: u64::from(detail.samples),
                figures: figures(detail),
            })
        })
        .collect();
    rows.sort_by_cached_key(|row| (row.object, row.stack, row.thread, row.op));
    rows.dedup_by(|later, row| {
        let same = (later.object, later.stack, later.thread, later.op)
            == (row.object, row.stack, row.thread, row.op);
        if same {
            row.samples += later.samples;
            add(&mut row.figures, &later.figures);
        }
        same
    });
    rows
}

fn figures(detail: &Detail) -> Use {
    let hold_sampled_n = detail.hold_sampled_n.min(detail.hold_n);
    let hold_sampled_ns = detail.hold_sampled_sum_ns.min(detail.hold_sum_ns);
    let mut figures = Use {
        op: detail.op,
        hold_contended_n: u64::from(detail.hold_n - hold_sampled_n),
        hold_contended_ns: detail.hold_sum_ns - hold_sampled_ns,
        hold_sampled_n: u64::from(hold_sampled_n),
        hold_sampled_ns,
        hold_max_ns: u64::from(detail.hold_max_us) * 1000,
        acquire_n: u64::from(detail.acquire_n),
        acquire_ns: detail.acquire_sum_ns,
        ..Use::default()
    };
    if let Some(wait) = &detail.wait {
        figures.waits = wait.n;
        figures.wait_ns = wait.sum_ns;
        figures.wait_max_ns = wait.max_ns;
        figures.timeouts = wait.timeouts;
        figures.timeout_ns = wait.timeout_sum_ns;
        figures.unfinished_ns = wait.unfinished_ns;
        figures.last_arrivals = wait.last_arrivals;
        figures.busy_ns = wait.busy_sum_ns;
        figures.hist = wait.hist.iter().map(|&n| u64::from(n)).collect();
    }
    figures
}

/// Adds everything but the calls and the ids.
fn add(to: &mut Use, from: &Use) {
    for (to, from) in [
        (&mut to.waits, from.waits),
        (&mut to.wait_ns, from.wait_ns),
        (&mut to.timeouts, from.timeouts),
        (&mut to.timeout_ns, from.timeout_ns),
        (&mut to.unfinished_ns, from.unfinished_ns),
        (&mut to.hold_contended_n, from.hold_contended_n),
        (&mut to.hold_contended_ns, from.hold_contended_ns),
        (&mut to.hold_sampled_n, from.hold_sampled_n),
        (&mut to.hold_sampled_ns, from.hold_sampled_ns),
        (&mut to.acquire_n, from.acquire_n),
        (&mut to.acquire_ns, from.acquire_ns),
        (&mut to.last_arrivals, from.last_arrivals),
        (&mut to.busy_ns, from.busy_ns),
    ] {
        *to = to.saturating_add(from);
    }
    to.wait_max_ns = to.wait_max_ns.max(from.wait_max_ns);
    to.hold_max_ns = to.hold_max_ns.max(from.hold_max_ns);
    if to.hist.len() < from.hist.len() {
        to.hist.resize(from.hist.len(), 0);
    }
    for (to, from) in to.hist.iter_mut().zip(&from.hist) {
        *to = to.saturating_add(*from);
    }
}
