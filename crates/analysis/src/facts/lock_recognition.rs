//! Where locks are waited for that the agent does not know: by the functions that do it, and by the words at which it is done.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{is_lock_kind, Model, ObjectId, OffCpu, ProcessId, SiteId};

use crate::facts::call_path::{path_frames, CallPaths, PathId};
use crate::facts::run_view::RunView;
use crate::knowledge::database_locks::{servers_lock, ServersLock};

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
/// Methods in which threads queue for a lock of Java's library (`ReentrantLock`), of which the compiler may leave no other; or for
/// a semaphore or a latch.
const QUEUES: [&str; 3] = [
    "AbstractQueuedSynchronizer.acquire",
    "AbstractQueuedSynchronizer.doAcquire",
    "AbstractQueuedSynchronizer.parkAndCheckInterrupt",
];
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

/// Of these, where a monitor is left.
const LEAVES: [&str; 2] = ["ObjectMonitor::exit", "ObjectMonitor::ExitEpilog"];

/// Frames around a wait, from the shown one outwards, in which the functions of waiter and waker are looked for: a guard or a
/// wrapper is between them.
const NEAR: usize = 3;
/// The same of a wait for a condition. Further out is whoever takes from one queue and puts into another.
const NEAR_A_CONDITION: usize = 1;

/// What says that a wait is for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Waiter and waker are in functions that only locks have.
    Library,
    /// The names of their functions belong together: the one takes, the other lets go.
    Names,
    /// They are in one function, at different places: there it let go what it had taken.
    Function,
    /// The same of a wait for a condition.
    Condition,
}

/// What says so; nothing where threads meet (at the same place, or where all are woken: a barrier), or hand over work (in
/// another function).
pub(crate) fn sign_of_a_lock(
    view: &RunView,
    waiter: Option<SiteId>,
    waker: Option<SiteId>,
) -> Option<Sign> {
    let model = view.model;
    let by_name = sign_by_name(model, waiter, waker);
    if by_name.is_some() {
        return by_name;
    }
    if meet(model, waiter, waker) {
        return None;
    }
    let (sign, frames) = match is_in(model, waiter, &CONDITION_WAITS) {
        true => (Sign::Condition, NEAR_A_CONDITION),
        false => (Sign::Function, NEAR),
    };
    let (waiter, waker) = (waiter?, waker?);
    let near = |site| path_frames(model, site).iter().take(frames);
    let in_one = near(waiter).any(|a| {
        near(waker).any(|b| {
            let same = a.is_told() && a.key() == b.key();
            same && (a.offset, a.line) != (b.offset, b.line)
        })
    });
    in_one.then_some(sign)
}

/// Whether who ended a wait let a lock go there: one that is known, or that the functions tell by their names.
pub(crate) fn lets_go(view: &RunView, off: &OffCpu, waker: Option<SiteId>) -> bool {
    is_lock(view, off.object) || sign_by_name(view.model, off.site, waker).is_some()
}

/// Whether the object is a lock, and not something that threads meet or wait for work at.
pub(crate) fn is_lock(view: &RunView, id: Option<ObjectId>) -> bool {
    view.object_kind(id).is_some_and(is_lock_kind)
        || id.is_some_and(|id| view.token_locks.contains(&id))
}

fn sign_by_name(model: &Model, waiter: Option<SiteId>, waker: Option<SiteId>) -> Option<Sign> {
    if is_named(model, waiter, waker) {
        return Some(Sign::Library);
    }
    are_a_pair(model, waiter, waker).then_some(Sign::Names)
}

/// Whether a monitor of Java's is waited for: whoever ends that wait had it, of whatever kind the threads are.
pub(crate) fn is_for_a_monitor(view: &RunView, site: Option<SiteId>) -> bool {
    is_in(view.model, site, &AT_THE_THREADS)
}

/// Whether a thread queues there in Java's library for what one can have at a time, or a few.
pub(crate) fn is_queued(view: &RunView, site: Option<SiteId>) -> bool {
    is_in(view.model, site, &QUEUES)
}

/// Whether waiter and waker are in functions of locks.
fn is_named(model: &Model, waiter: Option<SiteId>, waker: Option<SiteId>) -> bool {
    if let Some(lock) = servers_lock(model, waiter) {
        return lock.is_let_go(model, waker);
    }
    let waits = [&AT_ITS_WORD[..], &AT_THE_THREADS];
    waits.iter().any(|waits| is_in(model, waiter, waits)) && is_in(model, waker, &UNLOCKS)
}

/// Functions in which threads wait for a condition.
pub(crate) const CONDITION_WAITS: [&str; 5] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "Condvar::wait",
    "condition_variable::wait",
];
const BARRIER: [&str; 1] = ["pthread_barrier_wait"];
/// Functions that wake all that wait.
const WAKES_ALL: [&str; 4] = [
    "pthread_cond_broadcast",
    "Condvar::notify_all",
    "condvar::notify_all",
    "pthread_barrier_wait",
];

/// What all that wait for the same wait at; nothing where each of them parks at what is its own.
pub(crate) fn waited_at(view: &RunView, off: &OffCpu) -> Option<ObjectId> {
    off.object.filter(|_| !view.java_pools.parks(off.site))
}

/// Whether a thread waits for a condition in one function and is woken in another, alone: as those do who take what a pool
/// has, and give it back. A lock that is made so has its own names, unless they are a semaphore's.
pub(crate) fn awaits_a_token(view: &RunView, off: &OffCpu, waker: Option<SiteId>) -> bool {
    let model = view.model;
    let of = |site: Option<SiteId>| site.and_then(|site| view.shown(site));
    let (Some(waits), Some(wakes)) = (of(off.site), of(waker)) else {
        return false;
    };
    if !is_in(model, off.site, &CONDITION_WAITS)
        || meet(model, off.site, waker)
        || !waits.is_told()
        || !wakes.is_told()
    {
        return false;
    }
    if waits.key() == wakes.key() {
        let pools = &view.java_pools;
        let sites = off.site.zip(waker);
        return sites.is_some_and(|(waits, wakes)| pools.awaits(model, waits, wakes));
    }
    sign_of_a_lock(view, off.site, waker).is_none()
        || is_in(model, off.site, &["acquire", "Acquire"])
}

/// Whether all that wait are woken at once: they met, or were waiting for news, where a lock is handed to one.
fn meet(model: &Model, waiter: Option<SiteId>, waker: Option<SiteId>) -> bool {
    let waits = is_in(model, waiter, &CONDITION_WAITS) || is_in(model, waiter, &BARRIER);
    waits && is_in(model, waker, &WAKES_ALL)
}

/// Words in the names of functions that take a program's own lock, and of those that let it go.
const TAKES: [&str; 5] = ["lock", "rdlock", "wrlock", "acquire", "enter"];
const LETS_GO: [&str; 4] = ["unlock", "release", "leave", "exit"];

/// Whether the one waits in a function that takes a lock and the other was in its counterpart.
fn are_a_pair(model: &Model, waiter: Option<SiteId>, waker: Option<SiteId>) -> bool {
    let near = |site: Option<SiteId>| {
        let site = site.and_then(|id| model.site(id));
        let frames = site.map_or(&[][..], |site| {
            let n = (site.shown + NEAR).min(site.frames.len());
            site.frames.get(..n).unwrap_or_default()
        });
        frames.iter().map(|frame| frame.function.as_str())
    };
    let let_go: Vec<Verb> = near(waker).filter_map(|f| Verb::of(f, &LETS_GO)).collect();
    let mut taken = near(waiter).filter_map(|f| Verb::of(f, &TAKES));
    !let_go.is_empty() && taken.any(|takes| let_go.iter().any(|other| takes.belongs_to(other)))
}

/// A function's name around what it does: `Table`, `multi` of `Table::multi_lock(int)`.
#[derive(Debug, PartialEq)]
struct Verb {
    class: String,
    before: Vec<String>,
}

impl Verb {
    fn of(function: &str, verbs: &[&str]) -> Option<Self> {
        let name = function.split(['(', '<', '@']).next().unwrap_or_default();
        let (class, name) = name.rsplit_once("::").unwrap_or(("", name));
        let words = words(name);
        // Of LWLockAcquire() the last word counts.
        let at = words
            .iter()
            .rposition(|word| verbs.contains(&word.as_str()))?;
        Some(Self {
            class: class.to_owned(),
            before: words[..at].to_vec(),
        })
    }

    /// `thr_multi_lock()` to `thr_unlock()`, `LWLockAcquire()` to `LWLockRelease()`.
    fn belongs_to(&self, other: &Self) -> bool {
        let n = self.before.len().min(other.before.len());
        let begins = self.before[..n] == other.before[..n];
        let both_plain = self.before.is_empty() && other.before.is_empty();
        self.class == other.class && begins && (n > 0 || both_plain)
    }
}

/// A name in words, lower case: `thr_multi_lock` has three, `LWLockAcquire` two (the capitals of `LWLock` are one).
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        let new = c == '_' || (c.is_uppercase() && before.is_lowercase());
        if new && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c != '_' {
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        before = c;
    }
    words
}

pub(crate) fn is_in(model: &Model, site: Option<SiteId>, functions: &[&str]) -> bool {
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

/// Words at which a path waits, up to which they are taken for one lock's: one that leads to many locks joins nothing.
const WORDS: usize = 4;

/// Call paths that wait for locks; those that wait at one word are one, and those that let a monitor go and get it.
pub(crate) struct LockPlaces<'a> {
    paths: CallPaths<'a>,
    /// Leads to the path that stands for it.
    joined: BTreeMap<PathId, PathId>,
}

impl<'a> LockPlaces<'a> {
    /// Of the waits for which `is_case` holds.
    pub(crate) fn of(view: &RunView<'a>, is_case: impl Fn(&OffCpu) -> bool) -> Self {
        let mut this = Self {
            paths: CallPaths::to_locks(view.model),
            joined: BTreeMap::new(),
        };
        let mut words: BTreeMap<(ProcessId, u64), BTreeSet<PathId>> = BTreeMap::new();
        let mut of_place: BTreeMap<PathId, usize> = BTreeMap::new();
        let at_a_lock =
            |off: &&OffCpu| off.address != 0 && is_in(view.model, off.site, &AT_ITS_WORD);
        let cases = view.sched.offs.iter().filter(|off| is_case(off));
        for off in cases.filter(at_a_lock) {
            let place = this.paths.of(off.site);
            let word = (view.process(off.thread), off.address);
            if words.entry(word).or_default().insert(place) {
                *of_place.entry(place).or_default() += 1;
            }
        }
        let few = |place: &PathId| of_place.get(place).is_some_and(|n| *n <= WORDS);
        for places in words.values() {
            let mut places = places.iter().copied().filter(|place| few(place));
            let Some(first) = places.next() else {
                continue;
            };
            for place in places {
                this.join(first, place);
            }
        }
        // Who wants a row does so on many paths through the server; it does not tell which row.
        let mut of_server: BTreeMap<ServersLock, PathId> = BTreeMap::new();
        for (_, off, _, site) in view.sched.ended_by_threads() {
            let lock = servers_lock(view.model, off.site).filter(|_| is_case(off));
            if let Some(lock) = lock.filter(|lock| lock.is_let_go(view.model, site)) {
                let place = this.paths.of(off.site);
                let first = *of_server.entry(lock).or_insert(place);
                this.join(first, place);
            }
        }
        // One that is let go where another thread has just got it is entered at both places.
        for (_, off, _, site) in view.sched.ended_by_threads() {
            if is_case(off) && is_for_a_monitor(view, off.site) && is_in(view.model, site, &LEAVES)
            {
                let (entered, left) = (this.paths.of(off.site), this.paths.of(site));
                this.join(entered, left);
            }
        }
        this
    }

    fn join(&mut self, a: PathId, b: PathId) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.joined.insert(a.max(b), a.min(b));
        }
    }

    pub(crate) fn of_site(&mut self, site: Option<SiteId>) -> PathId {
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
    use super::Verb;
    use super::LETS_GO;
    use super::TAKES;

    fn is_pair(waiter: &str, waker: &str) -> bool {
        let takes = Verb::of(waiter, &TAKES);
        let lets_go = Verb::of(waker, &LETS_GO);
        takes.zip(lets_go).is_some_and(|(a, b)| a.belongs_to(&b))
    }

    #[test]
    fn functions_of_one_lock_are_told_by_their_names() {
        for (waiter, waker) in [
            ("thr_multi_lock", "thr_unlock"),
            ("mysql_lock_tables", "mysql_unlock_tables"),
            ("LWLockAcquire", "LWLockRelease"),
            ("rw_lock_acquire", "rw_lock_release"),
            ("Gate::enter_slot", "Gate::leave_slot()"),
            ("Table::lock(int)", "Table::unlock()"),
            ("pthread_rwlock_rdlock", "pthread_rwlock_unlock"),
        ] {
            assert!(is_pair(waiter, waker), "{waiter} {waker}");
        }
        for (waiter, waker) in [
            ("Channel::push", "Channel::pop"),
            ("thr_unlock", "thr_unlock"),
            ("block", "unblock"),
            ("Table::lock", "Queue::unlock"),
            ("wait_for_blocks", "report_progress"),
            ("ring_next_block", "ring_release"),
            ("app::next_block", "app::release_buffer"),
            ("myblockchain::miner::work", "myblockchain::x::release()"),
            ("Encoder::run(BlockPool&)", "Encoder::releaseFrame()"),
            ("clock_enter", "frame_leave"),
        ] {
            assert!(!is_pair(waiter, waker), "{waiter} {waker}");
        }
    }
}
