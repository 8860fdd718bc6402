//! Thread groups: threads with the same job, their time added up.

use std::collections::HashMap;

use convoy_model::{Group, GroupId, Model, ObjectId, Thread};
use convoy_report::names;

use super::threads;
use crate::grid::{column, Cell, Column, Grid, Key, Least, Row};
use crate::span::{pid, thread, thread_key, Span, Times};

const COLUMNS: &[Column] = &[
    column("CPU", "cpu_now_ratio", 7),
    column("no CPU", "ready_now_ratio", 8),
    column("waits", "waits_now_ratio", 7),
    column("CPU all", "cpu_ratio", 9),
    column("waits all", "waits_ratio", 11),
    column("threads", "threads", 9),
];

/// One row per group. Shares are of the time of its threads together.
pub fn grid(span: Span<'_>) -> Grid {
    let model = span.now;
    let before = span.threads_before();
    let waits = most_waited_for(span);
    let rows = (0u32..).zip(&model.groups).map(|(ix, group)| {
        let threads: Vec<&Thread> = members(model, group);
        let mut all = Times::default();
        let mut now = Times::default();
        for thread in &threads {
            let times = Times::of(thread);
            let earlier = before.get(&thread_key(model, thread));
            let earlier = earlier.copied().unwrap_or_default();
            all = all.and(times);
            now = now.and(times.since(earlier));
        }
        let known = threads::ready_is_known(&threads);
        let mut cells = threads::cells(span, now, all, known);
        cells.pop();
        let live = |t: &&&Thread| t.end_ns >= model.meta.end_ns;
        let running = threads.iter().filter(live).count();
        cells.push(Cell::Count(if span.before.is_some() {
            running as u64
        } else {
            threads.len() as u64
        }));
        let most = waits.get(&GroupId(ix)).map(|(object, _)| *object);
        Row {
            key: key(model, group),
            name: names::group(group),
            cells,
            remark: most.map_or_else(String::new, |id| names::object_of(model, id)),
        }
    });
    Grid {
        noun: "thread group",
        columns: COLUMNS,
        remark: "waits most for",
        least: Least::OF_TABLE,
        rows: rows.collect(),
    }
}

/// Its threads.
pub fn members<'a>(model: &'a Model, group: &Group) -> Vec<&'a Thread> {
    let ids = group.threads.iter();
    ids.filter_map(|id| thread(model, *id)).collect()
}

/// Which group it is.
pub fn key(model: &Model, group: &Group) -> Key {
    Key::Group(pid(model, group.process), names::group(group))
}

/// What each group waited for longest: between the readings, or with one since the start.
fn most_waited_for(span: Span<'_>) -> HashMap<GroupId, (ObjectId, u64)> {
    let before: HashMap<Place, u64> = span.before.map_or_else(HashMap::new, |model| {
        let places = places(model, span.now);
        let mut sums = HashMap::new();
        for (_, group, addr, ns) in waits(model) {
            if let Some(Some(group)) = places.get(group.0 as usize) {
                let sum: &mut u64 = sums.entry((*group, addr)).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        sums
    });
    let mut sums: HashMap<Place, (ObjectId, u64)> = HashMap::new();
    for (object, group, addr, ns) in waits(span.now) {
        let sum = sums.entry((group, addr)).or_insert((object, 0));
        sum.1 = sum.1.saturating_add(ns);
    }
    let mut most: HashMap<GroupId, (ObjectId, u64)> = HashMap::new();
    for (place, (object, ns)) in sums {
        let ns = ns.saturating_sub(before.get(&place).copied().unwrap_or(0));
        let known = most.entry(place.0).or_insert((object, 0));
        // By number too: of equals always the same one.
        if ns > known.1 || (ns == known.1 && object < known.0) {
            *known = (object, ns);
        }
    }
    most.retain(|_, (_, ns)| *ns > 0);
    most
}

/// A group of the later reading (which says the process, too) and the address of an object.
type Place = (GroupId, u64);

/// Which group of the later model each group of the earlier one is.
fn places(before: &Model, now: &Model) -> Vec<Option<GroupId>> {
    let keys = (0u32..).zip(&now.groups);
    let known: HashMap<Key, GroupId> = keys.map(|(ix, g)| (key(now, g), GroupId(ix))).collect();
    let groups = before.groups.iter();
    groups
        .map(|group| known.get(&key(before, group)).copied())
        .collect()
}

/// Every row with waits: object, group of the thread, address, nanoseconds.
fn waits(model: &Model) -> impl Iterator<Item = (ObjectId, GroupId, u64, u64)> + '_ {
    let rows = model.uses.iter().filter(|row| row.wait_ns > 0);
    rows.filter_map(|row| {
        let group = thread(model, row.thread)?.group;
        let object = model.objects.get(row.object.0 as usize)?;
        Some((row.object, group, object.addr, row.wait_ns))
    })
}
