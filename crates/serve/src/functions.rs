//! Counters of probed functions, from the cells of their probes.

use std::collections::{BTreeMap, HashMap, HashSet};

use convoy_live::{Cell, Key, Probed, Request, RowId, Session};

use crate::family::Family;
use crate::selection::family_of;
use crate::store::{Durations, Labels, Store, Value};

/// The group of a thread that ended before its name was read.
const UNKNOWN: &str = "unknown";

/// What threads did in functions since each request was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionTotals {
    /// By row and thread.
    before: HashMap<(RowId, u32), Cell>,
}

/// Sums by family and labels.
type Sums = BTreeMap<Family, BTreeMap<Labels, Value>>;

impl FunctionTotals {
    /// Takes what the probes of a session have counted by now.
    pub fn update(&mut self, store: &mut Store, session: &Session) {
        let mut now: HashMap<(RowId, u32), Cell> = HashMap::new();
        let mut sums = Sums::new();
        // A cell counts once in a family, however many requests mean it.
        let mut taken: HashSet<(Family, RowId, u32)> = HashSet::new();
        for (id, curve) in session.curves() {
            let Some(family) = family_of(&curve.request) else {
                continue;
            };
            for probed in session.probed(id) {
                let key = (probed.row, probed.cell.tid);
                now.insert(key, probed.cell.clone());
                let Some(group) = group_in_focus(session, &curve.request, &probed) else {
                    continue;
                };
                if !taken.insert((family, key.0, key.1)) {
                    continue;
                }
                let Some(value) = self.value(family, &probed) else {
                    continue;
                };
                let labels = labels(&curve.request, &probed, group);
                let series = sums.entry(family).or_default();
                match series.get_mut(&labels) {
                    Some(sum) => sum.add(value),
                    None => {
                        series.insert(labels, value);
                    }
                }
            }
        }
        self.before = now;
        // Without a probe it is not known how many threads are inside.
        store.begin(Family::FunctionInside);
        for (family, series) in sums {
            store.begin(family);
            store.add(family, series.into_iter().collect());
        }
    }

    /// What came since the last reading; `None` where the probe does not measure it.
    fn value(&self, family: Family, probed: &Probed<'_>) -> Option<Value> {
        let now = &probed.cell;
        let empty = Cell::new(now.tid, now.row);
        // A column that another thread has got begins anew.
        let before = self.before.get(&(probed.row, now.tid));
        let before = before.filter(|b| b.calls <= now.calls).unwrap_or(&empty);
        let ns = |of: fn(&Cell) -> u64| {
            let since = of(now).saturating_sub(of(before));
            probed.is_timed.then_some(Value::Nanoseconds(since))
        };
        let known_ns = |of: fn(&Cell) -> Option<u64>| {
            let since = of(now)?.saturating_sub(of(before).unwrap_or(0));
            probed.is_timed.then_some(Value::Nanoseconds(since))
        };
        match family {
            Family::FunctionCalls => Some(Value::Count(now.calls.saturating_sub(before.calls))),
            Family::FunctionWall => ns(|cell| cell.wall_ns),
            Family::FunctionWallExclusive => ns(|cell| cell.own_wall_ns),
            Family::FunctionCpu => known_ns(|cell| cell.cpu_ns),
            Family::FunctionCpuExclusive => known_ns(|cell| cell.own_cpu_ns),
            Family::FunctionInside => {
                let inside = Value::Count(u64::from(now.inside > 0));
                probed.is_timed.then_some(inside)
            }
            Family::FunctionDuration => {
                let durations = durations(now, before);
                probed
                    .is_timed
                    .then(|| Value::Durations(Box::new(durations)))
            }
            _ => None,
        }
    }
}

/// The group of the thread of a cell; `None` if it is not in the focus.
fn group_in_focus<'a>(
    session: &'a Session,
    request: &Request,
    probed: &Probed<'_>,
) -> Option<&'a str> {
    let focus = &request.focus;
    match session.threads().get(probed.cell.tid) {
        Some(thread) => focus.holds(&thread.name()).then_some(&thread.group),
        None => (!focus.selects_threads()).then_some(UNKNOWN),
    }
}

fn labels(request: &Request, probed: &Probed<'_>, group: &str) -> Labels {
    let mut labels = vec![
        ("code.function.name", probed.function.name.clone()),
        ("code.module", probed.function.module.clone()),
        ("thread.group", group.to_owned()),
    ];
    if let Some(outer) = request.focus.get(Key::In) {
        labels.push(("code.caller", outer.to_owned()));
    }
    labels
}

fn durations(now: &Cell, before: &Cell) -> Durations {
    let mut all = Durations {
        sum_ns: now.returned_ns.saturating_sub(before.returned_ns),
        ..Durations::default()
    };
    let bins = all.bins.iter_mut().zip(now.histogram).zip(before.histogram);
    for ((bin, now), before) in bins {
        // Counters of 32 bits may have wrapped around.
        *bin = u64::from(now.wrapping_sub(before));
    }
    all
}
