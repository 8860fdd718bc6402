//! Who ended waits, what they did meanwhile, and what they themselves waited for.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{GroupId, ObjectId, OffId, OffReason, ProcessId, SiteId, ThreadId, Wake, Waker};

use crate::facts::call_path::{CallPaths, PathId};
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::tables::scheduler::{EdgeRow, Link};
use crate::tables::waits::low_ns;

/// Links that a chain is followed.
const LINKS: usize = 4;
/// A link that explains less of the wait before it is not worth following.
const LINK_SHARE: f64 = 0.1;

/// Longest waits first.
pub(crate) fn edge_rows(view: &RunView) -> Vec<EdgeRow> {
    let mut places = CallPaths::new(view.model, true);
    let longest = longest_wakes(view);
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let Some(off) = view.sched.off(wake.off) else {
            continue;
        };
        let who = match wake.waker {
            Waker::Unknown => Who::Unknown,
            Waker::Interrupt => Who::Interrupt,
            Waker::Outside(tid) => Who::Outside(tid),
            Waker::Thread(id, site) => Who::Thread(view.group(id), places.of(site)),
        };
        let key = Key {
            process: view.process(off.thread),
            group: view.group(off.thread),
            place: places.of(off.site),
            reason: off.reason,
            object: off.object,
            who,
        };
        let low_share = low_ns(view, off) / (off.sum_ns as f64).max(1.0);
        sums.entry(key)
            .or_default()
            .add(wake, off.site, low_share.min(1.0));
    }
    let mut rows: Vec<EdgeRow> = sums
        .into_iter()
        .map(|(key, sum)| sum.row(view, &key, &longest))
        .collect();
    rows.sort_by(|a, b| {
        let key = |e: &EdgeRow| (e.site, e.waker, e.reason);
        b.wait_ns.cmp(&a.wait_ns).then(key(a).cmp(&key(b)))
    });
    rows
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Unknown,
    Interrupt,
    Outside(u32),
    Thread(GroupId, PathId),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    process: ProcessId,
    group: GroupId,
    place: PathId,
    reason: OffReason,
    object: Option<ObjectId>,
    who: Who,
}

#[derive(Default)]
struct Sum {
    row: EdgeRow,
    sites: BTreeMap<SiteId, f64>,
    wakers: BTreeMap<Waker, f64>,
    off: BTreeMap<OffId, u64>,
}

impl Sum {
    fn add(&mut self, wake: &Wake, site: Option<SiteId>, low_share: f64) {
        let row = &mut self.row;
        row.low_ns += wake.wait_ns as f64 * low_share;
        row.max_ns = row.max_ns.max(wake.max_ns);
        for (sum, ns) in [
            (&mut row.n, wake.n),
            (&mut row.wait_ns, wake.wait_ns),
            (&mut row.waker_running_ns, wake.waker_running_ns),
            (&mut row.waker_delayed_ns, wake.waker_delayed_ns),
        ] {
            *sum = sum.saturating_add(ns);
        }
        for &(off, ns) in &wake.waker_off {
            row.waker_off_ns = row.waker_off_ns.saturating_add(ns);
            let sum = self.off.entry(off).or_default();
            *sum = sum.saturating_add(ns);
        }
        let weight = wake.wait_ns as f64;
        if let Some(site) = site {
            *self.sites.entry(site).or_default() += weight;
        }
        *self.wakers.entry(wake.waker).or_default() += weight;
    }

    fn row(self, view: &RunView, key: &Key, longest: &BTreeMap<OffId, &Wake>) -> EdgeRow {
        EdgeRow {
            process: key.process,
            group: key.group,
            site: most(self.sites),
            reason: key.reason,
            object: key.object,
            waker: most(self.wakers).unwrap_or_default(),
            waker_group: match key.who {
                Who::Thread(group, _) => Some(group),
                _ => None,
            },
            chain: chain(view, &self.off, self.row.wait_ns, longest),
            ..self.row
        }
    }
}

/// Of each wait, what ended most of it.
fn longest_wakes<'a>(view: &RunView<'a>) -> BTreeMap<OffId, &'a Wake> {
    let mut longest: BTreeMap<OffId, &Wake> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let best = longest.entry(wake.off).or_insert(wake);
        if wake.wait_ns > best.wait_ns {
            *best = wake;
        }
    }
    longest
}

/// What the waker waited for while it was waited for, what that one's waker waited for, and so on.
fn chain(
    view: &RunView,
    waker_off: &BTreeMap<OffId, u64>,
    wait_ns: u64,
    longest: &BTreeMap<OffId, &Wake>,
) -> Vec<Link> {
    let mut links = Vec::new();
    let mut seen: BTreeSet<(ThreadId, OffId)> = BTreeSet::new();
    let mut next = waker_off
        .iter()
        .max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)))
        .map(|(&off, &ns)| (off, ns, wait_ns));
    while let Some((id, ns, of)) = next.filter(|_| links.len() < LINKS) {
        let share = ns as f64 / (of as f64).max(1.0);
        let Some(off) = view.sched.off(id).filter(|_| share >= LINK_SHARE) else {
            break;
        };
        if !seen.insert((off.thread, id)) {
            break;
        }
        links.push(Link {
            thread: off.thread,
            site: off.site,
            reason: off.reason,
            object: off.object,
            name: off.name,
            share: share.min(1.0),
        });
        next = longest.get(&id).and_then(|wake| {
            let first = wake.waker_off.iter().max_by_key(|(_, ns)| *ns);
            first.map(|&(off, ns)| (off, ns, wake.wait_ns))
        });
    }
    links
}
