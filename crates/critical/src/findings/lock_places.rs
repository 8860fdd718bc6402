//! Where locks are waited for that the agent does not know: by the functions that do it, and by the words at which it is done.

use std::collections::BTreeMap;

use convoy_model::{Model, OffCpu, ProcessId, SiteId};

use crate::call_path::{CallPaths, PathId};
use crate::view::View;

/// Functions in which only a lock is waited for, at the word of the lock itself: those of glibc's own data (stdio, malloc),
/// and of Rust's library.
const AT_ITS_WORD: [&str; 4] = [
    "__lll_lock_wait",
    "Mutex::lock_contended",
    "RwLock::write_contended",
    "RwLock::read_contended",
];
/// The same at a word that the thread has for all its waits: Java's monitors.
const AT_THE_THREADS: [&str; 2] = ["ObjectMonitor::enter", "ObjectMonitor::EnterI"];
/// Functions in which they are let go. Such a wait is at the same place as its end, because the program calls one function that
/// does both.
const UNLOCKS: [&str; 6] = [
    "__lll_lock_wake",
    "Mutex::wake",
    "Mutex::unlock",
    "RwLock::wake_writer_or_readers",
    "ObjectMonitor::exit",
    "ObjectMonitor::ExitEpilog",
];

/// Whether waiter and waker are in functions of locks.
pub(super) fn is_named(model: &Model, waiter: Option<SiteId>, waker: Option<SiteId>) -> bool {
    let waits = is_in(model, waiter, &AT_ITS_WORD) || is_in(model, waiter, &AT_THE_THREADS);
    waits && is_in(model, waker, &UNLOCKS)
}

/// Functions in which threads wait for a condition or one another, and those that wake all that wait.
const WAITS_FOR_ALL: [&str; 5] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "Condvar::wait",
    "pthread_barrier_wait",
];
const WAKES_ALL: [&str; 4] = [
    "pthread_cond_broadcast",
    "Condvar::notify_all",
    "condvar::notify_all",
    "pthread_barrier_wait",
];

/// Whether all that wait are woken at once: they met, or were waiting for news, where a lock is handed to one.
pub(super) fn meet(model: &Model, waiter: Option<SiteId>, waker: Option<SiteId>) -> bool {
    is_in(model, waiter, &WAITS_FOR_ALL) && is_in(model, waker, &WAKES_ALL)
}

/// How functions of a program's own locks end: one takes it, one lets it go.
const TAKES: [&str; 5] = ["lock", "acquire", "enter", "Lock", "Acquire"];
const LETS_GO: [&str; 6] = ["unlock", "release", "leave", "Unlock", "Release", "unLock"];
/// Letters that the names of the two begin with, at least.
const STEM: usize = 2;

/// Whether the one waits in a function that takes a lock and the other was in its counterpart: `thr_multi_lock()` and
/// `thr_unlock()`, `LWLockAcquire()` and `LWLockRelease()`.
pub(super) fn is_pair(waiter: &str, waker: &str) -> bool {
    // Of LWLockAcquire() the last word counts.
    let stem = |name: &str, words: &[&str]| {
        let at = words.iter().filter_map(|word| name.rfind(word)).max();
        at.map(|at| name[..at].trim_end_matches('_').to_owned())
    };
    if LETS_GO.iter().any(|word| waiter.contains(word)) {
        return false;
    }
    let (Some(takes), Some(lets_go)) = (stem(waiter, &TAKES), stem(waker, &LETS_GO)) else {
        return false;
    };
    let shorter = takes.len().min(lets_go.len());
    shorter >= STEM && takes[..].bytes().zip(lets_go.bytes()).all(|(a, b)| a == b)
}

fn is_in(model: &Model, site: Option<SiteId>, functions: &[&str]) -> bool {
    let site = site.and_then(|id| model.site(id));
    let frames = site.map_or(&[][..], |site| {
        site.frames.get(..=site.shown).unwrap_or(&site.frames)
    });
    frames.iter().any(|frame| {
        // Rust: <std::sys::sync::mutex::futex::Mutex>::lock_contended.
        let name = frame.function.replace('>', "");
        functions.iter().any(|known| name.contains(known))
    })
}

/// Call paths that wait for locks; those that wait at one word are one.
pub(super) struct LockPlaces<'a> {
    paths: CallPaths<'a>,
    /// Leads to the path that stands for it.
    joined: BTreeMap<PathId, PathId>,
}

impl<'a> LockPlaces<'a> {
    /// Of the waits for which `is_case` holds.
    pub(super) fn of(view: &View<'a>, is_case: impl Fn(&OffCpu) -> bool) -> Self {
        let mut this = Self {
            paths: CallPaths::to_locks(view.model),
            joined: BTreeMap::new(),
        };
        let mut words: BTreeMap<(ProcessId, u64), PathId> = BTreeMap::new();
        let at_a_lock =
            |off: &&OffCpu| off.address != 0 && is_in(view.model, off.site, &AT_ITS_WORD);
        let cases = view.sched.offs.iter().filter(|off| is_case(off));
        for off in cases.filter(at_a_lock) {
            let place = this.of_site(off.site);
            let word = (view.process(off.thread), off.address);
            let first = *words.entry(word).or_insert(place);
            let first = this.root(first);
            if first != place {
                this.joined.insert(first.max(place), first.min(place));
            }
        }
        this
    }

    pub(super) fn of_site(&mut self, site: Option<SiteId>) -> PathId {
        let path = self.paths.of(site);
        self.root(path)
    }

    fn root(&self, mut path: PathId) -> PathId {
        while let Some(&next) = self.joined.get(&path) {
            path = next;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::is_pair;

    #[test]
    fn functions_of_one_lock_are_told_by_their_names() {
        for (waiter, waker) in [
            ("thr_multi_lock", "thr_unlock"),
            ("LWLockAcquire", "LWLockRelease"),
            ("rw_lock_acquire", "rw_lock_release"),
            ("Table::lock", "Table::unlock"),
        ] {
            assert!(is_pair(waiter, waker), "{waiter} {waker}");
        }
        for (waiter, waker) in [
            ("Channel::push", "Channel::pop"),
            ("thr_unlock", "thr_unlock"),
            ("block", "unblock"),
            ("Table::lock", "Queue::unlock"),
            ("wait_for_blocks", "report_progress"),
        ] {
            assert!(!is_pair(waiter, waker), "{waiter} {waker}");
        }
    }
}
