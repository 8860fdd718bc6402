//! Locks, and everything else that is waited for: how much of their threads' time goes into waiting.

use convoy_analysis::counters::Locks;
use convoy_model::{sum_by_key, Model, ObjectId, ThreadId, Use};
use convoy_profile::ObjectKind;
use convoy_report::names;
use rustc_hash::FxHashMap;

use crate::grid::{column, Cell, Column, Grid, Key, Least, Row};
use crate::span::{by_object, object_key, thread, Span, Sums};

/// The column with what goes on now.
pub const NOW: usize = 0;
/// The column with the same since the start.
pub const ALL: usize = 1;

const LOCKS: &[Column] = &[
    column("now", "waited_now_ratio", 8),
    column("all", "waited_ratio", 8),
    column("waiting", "waiting_threads", 9),
    column("waits/s", "waits_per_s", 10),
    column("mean", "wait_mean_ns", 9),
    column("taken/s", "taken_per_s", 11),
    column("hold", "hold_mean_ns", 9),
    column("longest", "wait_max_ns", 10),
    column("waits", "waits", 9),
    column("taken", "taken", 9),
];

const EVENTS: &[Column] = &[
    column("now", "waited_now_ratio", 8),
    column("all", "waited_ratio", 8),
    column("waiting", "waiting_threads", 9),
    column("waits/s", "waits_per_s", 10),
    column("mean", "wait_mean_ns", 9),
    column("calls/s", "calls_per_s", 11),
    column("longest", "wait_max_ns", 10),
    column("waits", "waits", 9),
    column("calls", "calls", 9),
];

/// One row per lock, or per object that is no lock but was waited for.
pub fn grid(span: Span<'_>, locks: bool) -> Grid {
    let is_lock = Locks::of(span.now);
    let before = sums_before(span);
    let rows = by_object(span.now).filter(|(id, _)| is_lock.contains(*id) == locks);
    let rows = rows.filter_map(|(id, uses)| row(span, id, uses, &before, locks));
    Grid {
        noun: if locks { "lock" } else { "object" },
        columns: if locks { LOCKS } else { EVENTS },
        remark: "",
        least: Least::OF_TABLE,
        rows: rows.collect(),
    }
}

/// Sums of all objects at the earlier reading.
fn sums_before(span: Span<'_>) -> FxHashMap<Key, Sums> {
    let Some(before) = span.before else {
        return FxHashMap::default();
    };
    by_object(before)
        .filter_map(|(id, uses)| {
            let object = before.objects.get(id.0 as usize)?;
            Some((object_key(before, object), sums(uses)))
        })
        .collect()
}

/// Everything that was done to an object.
pub fn sums(uses: &[Use]) -> Sums {
    let mut sums = Sums::default();
    uses.iter().for_each(|row| sums.add(row));
    sums
}

fn row(
    span: Span<'_>,
    id: ObjectId,
    uses: &[Use],
    before: &FxHashMap<Key, Sums>,
    lock: bool,
) -> Option<Row> {
    let object = span.now.objects.get(id.0 as usize)?;
    let all = sums(uses);
    if !lock && all.waits == 0 {
        return None; // signalled, but nobody ever waited
    }
    let key = object_key(span.now, object);
    let now = all.since(before.get(&key).copied().unwrap_or_default());
    let share = share(span, uses, now.wait_ns, all.wait_ns);
    // A futex is seen only by those who had to wait.
    let counted = object.kind != ObjectKind::Futex;
    let known = |cell: Cell| if counted { cell } else { Cell::None };
    let latest = if span.before.is_some() { now } else { all };
    let mut cells = vec![
        share.0,
        share.1,
        Cell::Count(all.waiting),
        rate(span, now.waits, all.waits),
        Cell::mean(latest.wait_ns, latest.waits),
        known(rate(span, now.calls, all.calls)),
    ];
    if lock {
        cells.push(Cell::mean(latest.hold_ns, latest.holds));
    }
    cells.extend([
        Cell::Time(all.wait_max_ns as f64),
        Cell::Count(all.waits),
        known(Cell::Count(all.calls)),
    ]);
    Some(Row {
        key,
        name: names::object(object),
        cells,
        remark: String::new(),
    })
}

/// How often: between the readings, or with one since the start.
pub fn rate(span: Span<'_>, now: u64, all: u64) -> Cell {
    let (n, seconds) = match (span.before, span.seconds()) {
        (Some(_), Some(seconds)) => (now, seconds),
        (Some(_), None) => return Cell::None,
        (None, _) => (all, span.age_seconds()),
    };
    if seconds > 0.0 {
        Cell::Rate(n as f64 / seconds)
    } else {
        Cell::None
    }
}

/// The waits as a share of the time of the threads that use the object, between the readings and since the start. As
/// in the report, a thread that hardly ever uses it (it made it, say) does not dilute the share of the others.
pub fn share(span: Span<'_>, uses: &[Use], now_ns: u64, all_ns: u64) -> (Cell, Cell) {
    let users = users(span.now, uses);
    let threads = || users.iter().filter_map(|id| thread(span.now, *id));
    let ratio = |ns: u64, life_ns: u64| match life_ns {
        0 => Cell::None,
        life_ns => Cell::Share((ns as f64 / life_ns as f64).min(1.0)),
    };
    let now = match span.before {
        Some(_) => ratio(now_ns, threads().map(|t| span.overlap_ns(t)).sum()),
        None => Cell::None,
    };
    (now, ratio(all_ns, threads().map(|t| t.wall_ns()).sum()))
}

/// The threads that use an object, but for those with less than a hundredth of the calls of the busiest.
fn users(model: &Model, uses: &[Use]) -> Vec<ThreadId> {
    let mut calls: Vec<(ThreadId, u64)> = uses
        .iter()
        .map(|row| (row.thread, row.calls.max(row.waits)))
        .filter(|(id, n)| *n > 0 && thread(model, *id).is_some())
        .collect();
    sum_by_key(&mut calls);
    let most = calls.iter().map(|(_, n)| *n).max().unwrap_or(0);
    calls.retain(|(_, n)| n.saturating_mul(100) >= most);
    calls.into_iter().map(|(id, _)| id).collect()
}
