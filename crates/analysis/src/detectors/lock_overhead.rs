//! Locks that no agent counts, taken so often that taking them costs CPU time whether anybody waits for them or not: the samples
//! in their functions tell.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{FindingId, GroupId, SchedThread, SiteId, SyncCode, ThreadId};

use crate::estimate::saving::{Saving, NO_WORK};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Samples of a group from which on a share of them means something, and the share that is worth a line.
const SAMPLES: u64 = 100;
const SHARE: f64 = 0.15;
/// Part of it that goes if the lock is taken less often or belongs to one thread. At most all, and a fifth for the data that no
/// longer go from processor to processor.
const EXPECTED: f64 = 0.7;
const MOST: f64 = 1.2;
const SURE: f64 = 0.2;
const METHOD: &str = "samples in the functions of locks, gone";

/// Samples of a group.
#[derive(Default)]
struct Samples {
    all: u64,
    locking: u64,
    /// All that were found, and those of them that lock.
    threads: BTreeSet<ThreadId>,
    lockers: BTreeSet<ThreadId>,
    places: BTreeMap<SiteId, f64>,
}

/// `told`: groups of which another finding says what keeps them.
pub(crate) fn findings(cx: &RunFacts, told: &BTreeSet<GroupId>) -> Vec<Finding> {
    let view = cx.view;
    let mut groups: BTreeMap<GroupId, Samples> = BTreeMap::new();
    let working = view
        .model
        .samples()
        .filter(|(slice, _)| slice.spin.is_none());
    for (slice, site) in working {
        let process = view.process_at(view.process(slice.thread));
        let group = view.role(slice.thread);
        if process.is_none_or(|process| !process.without_agent) || told.contains(&group) {
            continue;
        }
        let samples = groups.entry(group).or_default();
        samples.all = samples.all.saturating_add(slice.n);
        samples.threads.insert(slice.thread);
        if site.is_some_and(|site| site.sync == Some(SyncCode::Lock)) {
            samples.locking = samples.locking.saturating_add(slice.n);
            samples.lockers.insert(slice.thread);
            if let Some(id) = slice.site {
                *samples.places.entry(id).or_default() += slice.n as f64;
            }
        }
    }
    let found = groups.into_iter();
    found
        .filter_map(|(group, samples)| samples.finding(view, group))
        .collect()
}

impl Samples {
    fn finding(self, view: &RunView, group: GroupId) -> Option<Finding> {
        let share = self.locking as f64 / self.all.max(1) as f64;
        // One thread's lock is its own.
        if self.all < SAMPLES || share < SHARE || self.lockers.len() < 2 {
            return None;
        }
        let rows = self.threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows.map(|th| SchedThread::cpu_work_ns(th) as f64).sum();
        let at_once = (self.threads.len() as f64).min(view.useful).max(1.0);
        let (expected, most_cpu) = (EXPECTED * share, (MOST * share).min(NO_WORK));
        let saving = Saving {
            expected: expected * running / at_once,
            most: most_cpu * running / at_once,
            sure: SURE,
            cpu: (expected * running, most_cpu * running),
        };
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let site = most(self.places)?;
        let place = view.place(Some(site));
        Some(Finding {
            id: FindingId::FrequentLock,
            subject: Subject::Code(site),
            title: format!(
                "{} of {} spend {} of their CPU time on acquiring and releasing locks, most at {place}",
                plural(self.threads.len(), "thread"),
                view.group_name(group),
                percent(share)
            ),
            evidence: vec![evidence(
                "locking_ratio",
                share,
                format!(
                    "{} of {} samples fell into functions of locks",
                    self.locking, self.all
                ),
            )],
            causes: vec![cause(
                "frequent-lock",
                "a lock is taken for every small step: it costs that, and more if its word goes from processor to processor",
                format!("take it once for several steps at {place}, work on a copy per thread and merge, or share nothing there"),
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the work itself"),
            share_of_thread_time: share,
            caveats: vec!["with the agent (convoy -- COMMAND) the lock, its acquisitions and its holds are known".into()],
        })
    }
}
