//! Whether a program writes through again and again, and how often: one call for a large file has many waits as well.

use std::collections::BTreeSet;

use convoy_model::{Doing, Lane, OffReason, SiteId};

use crate::facts::own_wait::Blocked;
use crate::facts::run_view::RunView;

/// Waits that are a habit: fewer are a checkpoint, or the end. One call has several.
const WAITS: u64 = 20;
/// As few as that must be long together, nanoseconds, or they are many.
const LONG_NS: f64 = 100e6;
const MANY: u64 = 200;
/// Things that a thread does between the first and the last of them, if it is not one call for a large file.
const BETWEEN: usize = 3;

/// How often something is written through, as the waits for it tell; `None` where that is no habit. Waits of a thread that does
/// nothing else between them are of one commit.
pub(super) fn commits(view: &RunView, sync: &Blocked) -> Option<u64> {
    if sync.n < MANY && (sync.n < WAITS || sync.sum < LONG_NS) {
        return None;
    }
    let timeline = view.sched.timeline.as_ref();
    // What was too much to be kept as it was is no single call.
    let Some(timeline) = timeline.filter(|t| t.merged_below_ns == 0) else {
        return Some(sync.n);
    };
    let sites: BTreeSet<SiteId> = sync.sites.keys().copied().collect();
    let lanes = timeline.lanes.iter();
    let lanes = lanes.filter(|lane| sync.in_it.contains_key(&lane.thread));
    let all = lanes.fold(InLane::default(), |all, lane| {
        let of = InLane::of(view, &sites, lane);
        InLane {
            between: all.between + of.between,
            commits: all.commits + of.commits,
        }
    });
    (all.between >= BETWEEN).then_some(all.commits)
}

/// What one thread does, or several do.
#[derive(Debug, Default)]
struct InLane {
    /// Other things between such waits.
    between: usize,
    commits: u64,
}

impl InLane {
    fn of(view: &RunView, sites: &BTreeSet<SiteId>, lane: &Lane) -> Self {
        let mut this = Self::default();
        let mut since = 0;
        for interval in &lane.intervals {
            if is_sync(view, &interval.doing) {
                if this.commits == 0 || since > 0 {
                    this.between += if this.commits > 0 { since } else { 0 };
                    this.commits += 1;
                }
                since = 0;
            } else if is_other(view, sites, &interval.doing) {
                since += 1;
            }
        }
        this
    }
}

fn is_sync(view: &RunView, doing: &Doing) -> bool {
    view.waits(doing)
        .is_some_and(|off| off.reason == OffReason::Sync)
}

fn is_other(view: &RunView, sites: &BTreeSet<SiteId>, doing: &Doing) -> bool {
    match doing {
        Doing::Running(Some(ix)) => {
            let slice = view.sched.slices.get(*ix as usize);
            slice.is_some_and(|s| s.site.is_some_and(|site| !sites.contains(&site)))
        }
        Doing::Waiting(Some(_)) => !is_sync(view, doing),
        _ => false,
    }
}
