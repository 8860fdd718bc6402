//! Threads: where their time goes, and what they wait for at this moment.

use std::collections::HashMap;

use convoy_model::{Model, Thread, ThreadId};
use convoy_profile::Exit;
use convoy_report::{human, names};

use crate::grid::{column, Cell, Column, Grid, Least, Row};
use crate::span::{thread_key, Span, Times};

/// The column with the CPU time of now.
pub const CPU_NOW: usize = 0;
/// The column with the CPU time since the start.
pub const CPU_ALL: usize = 3;

const COLUMNS: &[Column] = &[
    column("CPU", "cpu_now_ratio", 7),
    column("no CPU", "ready_now_ratio", 8),
    column("waits", "waits_now_ratio", 7),
    column("CPU all", "cpu_ratio", 9),
    column("waits all", "waits_ratio", 11),
    column("no CPU all", "ready_ratio", 12),
];

/// One row per thread. While a program runs, those that have ended are left out: they are in their groups.
pub fn grid(span: Span<'_>) -> Grid {
    let model = span.now;
    let running = model.meta.exit == Exit::Running;
    let before = span.threads_before();
    let waiting = waiting_for(model);
    let rows = (0u32..).zip(&model.threads).filter_map(|(ix, thread)| {
        if running && thread.end_ns < model.meta.end_ns {
            return None;
        }
        let key = thread_key(model, thread);
        let all = Times::of(thread);
        let now = all.since(before.get(&key).copied().unwrap_or_default());
        Some(Row {
            key,
            name: names::thread(thread),
            cells: cells(span, now, all, thread.run_delay_ns.is_some()),
            remark: waiting.get(&ThreadId(ix)).cloned().unwrap_or_default(),
        })
    });
    Grid {
        noun: "thread",
        columns: COLUMNS,
        remark: "waits for, since",
        least: Least::OF_TABLE,
        rows: rows.collect(),
    }
}

/// The numbers of threads together.
pub fn cells(span: Span<'_>, now: Times, all: Times, ready_known: bool) -> Vec<Cell> {
    let share = |part: u64, times: Times| match times.life_ns {
        0 => Cell::None,
        // The clocks of the two are not read at the same moment.
        life_ns => Cell::Share((part as f64 / life_ns as f64).min(1.0)),
    };
    let of_now = |part: u64| match span.before {
        Some(_) => share(part, now),
        None => Cell::None,
    };
    let known = |cell: Cell| if ready_known { cell } else { Cell::None };
    vec![
        of_now(now.cpu_ns),
        known(of_now(now.ready_ns)),
        of_now(now.wait_ns),
        share(all.cpu_ns, all),
        share(all.wait_ns, all),
        known(share(all.ready_ns, all)),
    ]
}

/// What each thread waits for at this moment, and since when.
fn waiting_for(model: &Model) -> HashMap<ThreadId, String> {
    let unfinished = model.uses.iter().filter(|row| row.unfinished_ns > 0);
    unfinished
        .map(|row| {
            let name = names::object_of(model, row.object);
            let since = human::duration(row.unfinished_ns as f64);
            (row.thread, format!("{name}, {since}"))
        })
        .collect()
}

/// Whether the kernel says how long a thread was runnable without a CPU.
pub fn ready_is_known(threads: &[&Thread]) -> bool {
    threads.iter().any(|thread| thread.run_delay_ns.is_some())
}
