//! Root causes: the rows of SyncPerf's Table 1 (and a few of ours) that the counts leave possible.
//!
//! Counts alone decide few of them: what a critical section touches is for `convoy diagnose` to see. A
//! row is only dropped when the numbers contradict it, and only put alone when they prove it.

mod library;

use convoy_model::finding::Cause;
use convoy_model::{ObjectId, SiteId};
use convoy_profile::{ObjectKind, Op};

use crate::facts::operations::Role;
use crate::facts::process_view::ProcessView;
use crate::tables::counters::{LockStats, Quadrant, SiteShare, WaitsFor};
use crate::words::{function, place_of};

/// A section shorter than this may be one integer operation. Nanoseconds, cache misses included.
const TINY_SECTION_NS: f64 = 300.0;
/// A section longer than this has work in it that need not be there. Nanoseconds.
const LARGE_SECTION_NS: f64 = 2000.0;
/// A section longer than this does more than to put something into a queue, or to take it. Nanoseconds.
const QUEUE_SECTION_NS: f64 = 20_000.0;
/// Share of its other users that wait for a lock that is always held.
const ALL_WAIT: f64 = 0.8;
/// At most, until a thread runs that was woken: on an idle processor of a virtual machine. Nanoseconds.
const WAKE_NS: f64 = 50_000.0;
/// Share of the wait that a site needs to count as one of the contending ones.
const SITE_SHARE: f64 = 0.05;

pub(crate) fn cause(id: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Cause {
    Cause {
        id,
        text: text.into(),
        fix: fix.into(),
    }
}

/// What is known about the locks of one finding.
pub(crate) struct Case<'a> {
    pub view: &'a ProcessView<'a>,
    pub locks: &'a [ObjectId],
    pub stats: &'a LockStats,
    pub sites: &'a [SiteShare],
    pub waits_for: &'a [WaitsFor],
    /// Functions that wait for events: a lock taken by the same ones guards a queue.
    pub event_functions: &'a [&'a str],
    /// CPU time and time off CPU outside waits of the threads that use the locks, nanoseconds.
    pub users_cpu: f64,
    pub users_off: f64,
    pub users_run_delay: f64,
}

impl Case<'_> {
    /// Rows that remain for a contended lock, most likely first, and what would decide.
    pub(crate) fn contended(&self) -> (Vec<Cause>, String) {
        let here = self.place();
        let mut causes = Vec::new();
        if let Some(own) = self.of_the_language(&here) {
            return (vec![own], String::new());
        }
        if let Some(blocking) = self.blocking_inside(&here) {
            return (vec![blocking], String::new());
        }
        if self.has(ObjectKind::RwLock) {
            causes.extend(self.rwlock(&here));
        }
        let hold = self.hold_ns();
        let at_least = hold.unwrap_or_else(|| self.least_hold_ns());
        if self.guards_queue() {
            causes.push(cause(
                "queue-lock",
                "the lock guards a queue that threads also wait at: every item takes it at least twice",
                format!("pass several items per acquisition at {here}, or give each consumer its own queue"),
            ));
        }
        if at_least > LARGE_SECTION_NS {
            let too_large = cause(
                "too-large-critical-section",
                "the critical section includes work that needs no lock",
                format!("move work that needs no protection out of the section at {here}"),
            );
            // To put an item into a queue, or take one, does not take so long.
            let queue = causes.iter().position(|c| c.id == "queue-lock");
            let before = queue.filter(|_| at_least > QUEUE_SECTION_NS);
            causes.insert(before.unwrap_or(causes.len()), too_large);
        }
        let functions = self.contending_functions();
        if functions.len() > 1
            || self.stats.quadrant == Quadrant::Q2
            || hold.is_none_or(|h| h <= LARGE_SECTION_NS)
        {
            causes.push(cause(
                "too-many-data-under-one-lock",
                if functions.len() > 1 {
                    format!("{} functions contend for it: their data may be independent", functions.len())
                } else {
                    "one lock guards data that threads may use independently".into()
                },
                format!("one lock per part of the data (bucket, shard, thread) instead of the one taken at {here}"),
            ));
        }
        if hold.is_some_and(|h| h <= TINY_SECTION_NS) {
            causes.push(cause(
                "small-integer-section",
                "the section is as short as a few integer operations",
                format!("atomic operations instead of the lock at {here}, per thread where the sum is rarely read"),
            ));
        }
        if !self.has(ObjectKind::RwLock) {
            causes.push(cause(
                "read-only-section",
                "sections that only read exclude each other",
                format!("a reader-writer lock or a copy that readers need not lock, at {here}"),
            ));
        }
        if let Some(several) = self.several_in_one_function() {
            causes.push(several);
        }
        causes.push(already_exclusive(&here));
        (causes, DIAGNOSE.into())
    }

    /// Rows that remain for a frequent lock that is hardly contended (Q4).
    pub(crate) fn frequent(&self) -> (Vec<Cause>, String) {
        let here = self.place();
        let mut causes = Vec::new();
        if self.stats.threads <= 1 {
            causes.push(cause(
                "local-data",
                "only one thread ever takes it",
                format!("no lock at {here} if the data stay with one thread"),
            ));
        }
        causes.extend(self.several_in_one_function());
        causes.push(cause(
            "lock-too-fine",
            "it is taken for every small step",
            format!(
                "take it once for several steps at {here}, or work on a private copy and merge"
            ),
        ));
        if self.hold_ns().is_none_or(|h| h <= TINY_SECTION_NS) {
            causes.push(cause(
                "small-integer-section",
                "the section is as short as a few integer operations",
                format!("atomic operations instead of the lock at {here}"),
            ));
        }
        causes.push(already_exclusive(&here));
        (causes, DIAGNOSE.into())
    }

    fn place(&self) -> String {
        place_of(self.view, self.sites.first().map(|s| s.site))
    }

    fn has(&self, kind: ObjectKind) -> bool {
        self.locks
            .iter()
            .any(|id| self.view.object(*id).is_some_and(|o| o.kind == kind))
    }

    fn hold_ns(&self) -> Option<f64> {
        self.stats.hold_sampled_ns.or(self.stats.hold_contended_ns)
    }

    /// What the waits say of sections that nobody timed: where all others wait all the time, the lock is always held, and handed
    /// on each time that a wait ends.
    fn least_hold_ns(&self) -> f64 {
        let wall = self.view.wall().max(1.0);
        let others = self.stats.threads.saturating_sub(1) as f64;
        let waiting = self.stats.wait_ns as f64 / wall;
        if others == 0.0 || waiting < ALL_WAIT * others {
            return 0.0;
        }
        (wall / self.stats.contended.max(1) as f64 - WAKE_NS).max(0.0)
    }

    /// The holders sleep or do I/O inside: the locks are held for longer than their users ran.
    fn blocking_inside(&self, here: &str) -> Option<Cause> {
        let held = self.stats.hold_total_ns;
        let mean = self
            .stats
            .hold_contended_ns
            .or(self.stats.hold_sampled_ns)?;
        let on_cpu = self.users_cpu + self.users_run_delay;
        (mean > 20_000.0 && held > 1.5 * on_cpu && self.users_off > 0.3 * held).then(|| {
            cause(
                "blocking-inside-section",
                "holders sleep or do I/O inside the section: it is held for longer than they were on a CPU",
                format!(
                    "do the blocking call outside the section at {here}: under the lock only take what it needs; or give \
                     each thread its own connection or file, which needs no lock"
                ),
            )
        })
    }

    fn rwlock(&self, here: &str) -> Vec<Cause> {
        let (mut reads, mut writes) = (0u64, 0u64);
        for u in self.locks.iter().flat_map(|id| self.view.uses_of(*id)) {
            match u.op {
                Some(Op::RwlockRd | Op::RwlockTimedrd | Op::RwlockTryrd) => reads += u.calls,
                Some(Op::RwlockWr | Op::RwlockTimedwr | Op::RwlockTrywr) => writes += u.calls,
                _ => {}
            }
        }
        let all = (reads + writes).max(1) as f64;
        if writes as f64 > 0.5 * all {
            vec![cause(
                "rwlock-mostly-written",
                "a reader-writer lock that is mostly taken for writing: it costs more than a mutex and lets nobody in",
                format!(
                    "take it for reading where the section at {here} only reads; if it writes, a mutex and smaller sections, or \
                     one lock per part of the data"
                ),
            )]
        } else {
            vec![cause(
                "rwlock-word-shared",
                "readers exclude nobody but all write the lock's own word",
                format!("a copy that readers need not lock (RCU, sequence lock), or one lock per reader thread, at {here}"),
            )]
        }
    }

    /// Functions that make a real part of the wait, or of the use where nobody waits.
    fn contending_functions(&self) -> Vec<&str> {
        let wait = |s: &SiteShare| {
            if self.stats.wait_ns > 0 {
                s.wait_ns
            } else {
                s.acquisitions
            }
        };
        let all: u64 = self.sites.iter().map(wait).sum();
        let mut names: Vec<&str> = self
            .sites
            .iter()
            .filter(|s| wait(s) as f64 >= SITE_SHARE * all as f64)
            .map(|s| function(self.view, s.site))
            .filter(|f| !f.is_empty())
            .collect();
        for w in self.waits_for.iter().filter(|w| w.share >= SITE_SHARE) {
            names.extend(
                convoy_model::telling(&w.holder)
                    .map(|f| f.function.as_str())
                    .filter(|f| !f.is_empty()),
            );
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether threads also wait for events in functions that take it.
    pub(crate) fn guards_queue(&self) -> bool {
        let all: u64 = self.sites.iter().map(|s| s.acquisitions).sum();
        let at_queue: u64 = self
            .sites
            .iter()
            .filter(|s| self.event_functions.contains(&function(self.view, s.site)))
            .map(|s| s.acquisitions)
            .sum();
        all > 0 && at_queue * 4 >= all
    }

    /// Several places of one function take the lock again and again.
    fn several_in_one_function(&self) -> Option<Cause> {
        let all: u64 = self.sites.iter().map(|s| s.acquisitions).sum();
        let often: Vec<SiteId> = self
            .sites
            .iter()
            .filter(|s| s.acquisitions * 5 >= all && all > 0)
            .map(|s| s.site)
            .collect();
        let first = *often.first()?;
        let name = function(self.view, first);
        let lines: std::collections::BTreeSet<(u32, u64)> = often
            .iter()
            .filter(|s| function(self.view, **s) == name)
            .filter_map(|s| crate::words::shown(self.view, *s).map(|f| (f.line, f.offset)))
            .collect();
        (!name.is_empty() && lines.len() > 1).then(|| {
            cause(
                "several-small-sections",
                format!(
                    "{name} takes it at {} places, one after the other",
                    lines.len()
                ),
                format!("one section around them in {name}, if nothing long lies between"),
            )
        })
    }
}

const DIAGNOSE: &str =
    "what the sections read and write decides between them: shared or private data, reads or writes, one variable or many";

fn already_exclusive(here: &str) -> Cause {
    cause(
        "already-exclusive",
        "the lock may be redundant: another lock, or the program's order, already protects this data",
        format!("no lock at {here}, if so"),
    )
}

/// Whether any of the uses of some locks is a shared acquire.
pub(crate) fn shared_only(view: &ProcessView, locks: &[ObjectId]) -> bool {
    let mut any = false;
    for u in locks.iter().flat_map(|id| view.uses_of(*id)) {
        match view.role(u) {
            Some(Role::Acquire) if u.calls > 0 => return false,
            Some(Role::AcquireShared) => any = true,
            _ => {}
        }
    }
    any
}
