//! Critical sections of a recording: what each thread ran between an acquire and the release of the lock.

mod build;
mod open;
#[cfg(test)]
mod tests;

use convoy_trace::{ObjectIx, Recording, SiteIx, ThreadIx};

/// Index into [`Sections::all`]; the same number as [`crate::program::SectionId`].
pub type SectionIx = u32;
/// Index into [`Sections::locksets`].
pub type LocksetIx = u32;

/// The section lies in no enclosing section.
pub const NO_PARENT: SectionIx = u32::MAX;
/// The section began outside of all windows.
pub const NO_WINDOW: u32 = u32::MAX;

/// The critical sections of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sections {
    /// Thread by thread, in order of acquisition.
    pub all: Vec<Section>,
    /// Sets of locks that a thread held when a section began, sorted. 0 is the empty set.
    pub locksets: Vec<Vec<ObjectIx>>,
    /// What the recording does not tell.
    pub gaps: Gaps,
    by_lock: ByLock,
}

/// A critical section. A condition wait ends it, since the thread gives the lock up; a new one begins
/// when the thread holds the lock again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Section {
    /// Index into the recording's threads.
    pub thread: ThreadIx,
    /// The lock.
    pub lock: ObjectIx,
    /// Call site of the acquire.
    pub acquire_site: SiteIx,
    /// Call site of the release, or of the condition wait; `NO_SITE` = not known.
    pub release_site: SiteIx,
    /// Index of the event that acquired it, in the thread's events.
    pub acquire_event: u32,
    /// The thread asked for the lock, nanoseconds. Equal to `acquired_ns` where it was free.
    pub requested_ns: u64,
    /// The thread holds the lock.
    pub acquired_ns: u64,
    /// The thread is about to release it.
    pub released_ns: u64,
    /// Locks held when the section began, without its own.
    pub held: LocksetIx,
    /// The innermost section around it, or [`NO_PARENT`].
    pub parent: SectionIx,
    /// Index into the recording's windows, or [`NO_WINDOW`].
    pub window: u32,
    /// The lock was not free at the first attempt.
    pub contended: bool,
    /// Held together with other readers.
    pub shared: bool,
    /// Acquired by a try.
    pub tried: bool,
    /// Acquired by the end of a condition wait.
    pub reacquired: bool,
    /// Ended by a condition wait.
    pub waits: bool,
    /// The thread signals a condition variable inside of it.
    pub signals: bool,
    /// The kernel took the thread off the processor inside of it.
    pub preempted: bool,
    /// The end is not in the recording: `released_ns` is the last time at which it is known to be held.
    pub partial: bool,
    /// Another thread released it.
    pub released_elsewhere: bool,
}

/// What the recording does not tell about critical sections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Sections whose end is not recorded: a window, the recording or the thread ended, or events are
    /// lost.
    pub partial: u64,
    /// Releases whose acquire is not recorded.
    pub unmatched_releases: u64,
    /// Acquisitions of a lock that the thread held already: part of the section around them.
    pub recursive: u64,
    /// Waits for a lock that a timeout ended.
    pub timeouts: u64,
}

impl Section {
    /// From the request until the thread held the lock, nanoseconds.
    pub fn wait_ns(&self) -> u64 {
        self.acquired_ns.saturating_sub(self.requested_ns)
    }

    /// From the acquisition until the release, nanoseconds.
    pub fn hold_ns(&self) -> u64 {
        self.released_ns.saturating_sub(self.acquired_ns)
    }

    /// Whether the thread waits on or signals a condition variable while it holds the lock.
    pub fn uses_condition(&self) -> bool {
        self.waits || self.signals || self.reacquired
    }
}

impl Sections {
    /// The sections of a recording. Never fails: what cannot be matched is counted in [`Sections::gaps`].
    pub fn of(recording: &Recording) -> Self {
        build::build(recording)
    }

    /// A section.
    pub fn get(&self, ix: SectionIx) -> Option<&Section> {
        self.all.get(ix as usize)
    }

    /// The locks of a lockset.
    pub fn lockset(&self, ix: LocksetIx) -> &[ObjectIx] {
        self.locksets.get(ix as usize).map_or(&[], Vec::as_slice)
    }

    /// The sections of each lock in order of acquisition.
    pub fn by_lock(&self) -> &ByLock {
        &self.by_lock
    }
}

/// Sections grouped by lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByLock {
    order: Vec<SectionIx>,
    ranges: Vec<(ObjectIx, std::ops::Range<usize>)>,
}

impl ByLock {
    fn of(all: &[Section]) -> Self {
        let key =
            |(ix, section): (usize, &Section)| (section.lock, section.acquired_ns, ix as SectionIx);
        let mut keys: Vec<(ObjectIx, u64, SectionIx)> = all.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        let mut ranges = Vec::new();
        let mut begin = 0;
        while let Some(&(lock, ..)) = keys.get(begin) {
            let rest = keys.get(begin..).unwrap_or_default();
            let end = begin + rest.partition_point(|(other, ..)| *other == lock);
            ranges.push((lock, begin..end));
            begin = end;
        }
        Self {
            order: keys.into_iter().map(|(.., ix)| ix).collect(),
            ranges,
        }
    }

    /// Each lock with its sections, in order of acquisition.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectIx, &[SectionIx])> {
        let of = |range: &std::ops::Range<usize>| self.order.get(range.clone()).unwrap_or_default();
        let ranges = self.ranges.iter();
        ranges.map(move |(lock, range)| (*lock, of(range)))
    }
}
