//! Time off the processors: by reason, and by what was waited for where.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{
    is_lock_kind, GroupId, NameId, ObjectId, OffCpu, OffReason, ProcessId, SiteId, ThreadId,
};

use crate::facts::call_path::{CallPaths, PathId};
use crate::facts::concurrency::{low_or_none, none};
use crate::facts::run_view::{is_file_io, RunView};
use crate::tables::paths::most;
use crate::tables::scheduler::{ReasonRow, WaitRow};

/// The histogram that says how many worked meanwhile, where there is one.
pub(crate) fn meanwhile(off: &OffCpu) -> &[u64] {
    if off.by_working.is_empty() {
        &off.by_active
    } else {
        &off.by_working
    }
}

/// Of a wait, what passed while parallelism was low or no thread worked.
pub(crate) fn low_ns(view: &RunView, off: &OffCpu) -> f64 {
    low_or_none(meanwhile(off), view.low_below).min(off.sum_ns as f64)
}

/// By reason, most first. Threads that could have run are not off the processors for a reason of their own.
pub(crate) fn reason_rows(view: &RunView) -> Vec<ReasonRow> {
    let mut rows: BTreeMap<OffReason, (ReasonRow, BTreeSet<ThreadId>)> = BTreeMap::new();
    for off in &view.sched.offs {
        let (row, threads) = rows.entry(off.reason).or_default();
        row.reason = off.reason;
        row.n = row.n.saturating_add(off.n);
        row.sum_ns = row.sum_ns.saturating_add(off.sum_ns);
        row.low_ns += low_ns(view, off);
        threads.insert(off.thread);
    }
    let mut rows: Vec<ReasonRow> = rows
        .into_values()
        .map(|(row, threads)| ReasonRow {
            threads: threads.len(),
            ..row
        })
        .collect();
    rows.sort_by(|a, b| b.sum_ns.cmp(&a.sum_ns).then(a.reason.cmp(&b.reason)));
    rows
}

/// By what was waited for where, most of it at low parallelism first; behind all others those of
/// threads without work: each background thread of a server waits at a condition of its own for the
/// whole run, and would leave the waits of those that work no place among the first rows.
pub(crate) fn wait_rows(view: &RunView) -> Vec<WaitRow> {
    let mut places = CallPaths::new(view.model, true);
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    // Who was taken off did not wait for anything at that place: only the reasons count it.
    let waited = |off: &&OffCpu| off.reason != OffReason::Preempted;
    for off in view.sched.offs.iter().filter(waited) {
        let key = Key {
            process: view.process(off.thread),
            reason: off.reason,
            place: places.of(off.site),
            object: off.object,
            name: off.name,
        };
        sums.entry(key).or_default().add(view, off);
    }
    // Who waits for a lock all the time may do no work because of that.
    let is_lock = |key: &Key| {
        let object = key
            .object
            .and_then(|id| view.model.objects.get(id.0 as usize));
        object.is_some_and(|object| is_lock_kind(object.kind))
    };
    let is_idle = |key: &Key, sum: &Sum| {
        !is_file_io(key.reason)
            && !is_lock(key)
            && sum.threads.keys().all(|id| !view.workers.contains(id))
    };
    let rows = sums.into_iter();
    let mut rows: Vec<(bool, WaitRow)> = rows
        .map(|(key, sum)| (is_idle(&key, &sum), sum.row(&key)))
        .collect();
    rows.sort_by(|(a_idle, a), (b_idle, b)| {
        a_idle
            .cmp(b_idle)
            .then(b.low_ns.total_cmp(&a.low_ns))
            .then(b.sum_ns.cmp(&a.sum_ns))
            .then(a.site.cmp(&b.site))
            .then(a.name.cmp(&b.name))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    process: ProcessId,
    reason: OffReason,
    place: PathId,
    object: Option<ObjectId>,
    name: Option<NameId>,
}

#[derive(Default)]
struct Sum<'a> {
    row: WaitRow,
    sites: BTreeMap<SiteId, f64>,
    groups: BTreeMap<GroupId, f64>,
    addresses: BTreeSet<u64>,
    /// Part at low parallelism of each thread.
    threads: BTreeMap<ThreadId, f64>,
    kernel: (u64, &'a [String]),
}

impl<'a> Sum<'a> {
    fn add(&mut self, view: &RunView, off: &'a OffCpu) {
        let row = &mut self.row;
        let low = low_ns(view, off);
        row.nr = off.nr;
        row.n = row.n.saturating_add(off.n);
        row.sum_ns = row.sum_ns.saturating_add(off.sum_ns);
        row.max_ns = row.max_ns.max(off.max_ns);
        row.unfinished_ns = row.unfinished_ns.saturating_add(off.unfinished_ns);
        row.low_ns += low;
        row.idle_ns = row.idle_ns.saturating_add(none(&off.by_active) as u64);
        let weight = off.sum_ns as f64;
        if let Some(site) = off.site {
            *self.sites.entry(site).or_default() += weight;
        }
        *self.groups.entry(view.group(off.thread)).or_default() += weight;
        *self.threads.entry(off.thread).or_default() += low;
        self.addresses.insert(off.address);
        if !off.kernel_stack.is_empty() && off.sum_ns >= self.kernel.0 {
            self.kernel = (off.sum_ns, &off.kernel_stack);
        }
    }

    fn row(self, key: &Key) -> WaitRow {
        let one = self.addresses.len() == 1;
        WaitRow {
            process: key.process,
            reason: key.reason,
            site: most(self.sites),
            object: key.object,
            address: self.addresses.first().copied().filter(|_| one).unwrap_or(0),
            name: key.name,
            kernel_stack: self.kernel.1.to_vec(),
            group: most(self.groups).unwrap_or_default(),
            threads: self.threads.len(),
            critical_ns: self.threads.values().copied().fold(0.0, f64::max),
            ..self.row
        }
    }
}
