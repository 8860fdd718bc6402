//! Locks that a thread holds while its events are read.

use convoy_trace::ObjectIx;

use super::{Section, SectionIx, NO_PARENT};

/// A lock in a thread's hands.
#[derive(Debug, Clone, Copy)]
struct Held {
    lock: ObjectIx,
    section: SectionIx,
    /// Acquisitions by this thread that are not released yet.
    depth: u32,
}

/// The locks that one thread holds, outermost first.
#[derive(Debug, Default)]
pub(super) struct OpenSections {
    held: Vec<Held>,
}

/// What a release did.
pub(super) enum Closed {
    /// It ended this section.
    Section(SectionIx),
    /// It ended an inner acquisition of a recursive lock.
    Inner,
    /// The thread does not hold that lock.
    NotHeld,
}

impl OpenSections {
    /// The section of a lock that the thread holds.
    pub(super) fn section_of(&self, lock: ObjectIx) -> Option<SectionIx> {
        let held = self.held.iter().rev().find(|held| held.lock == lock);
        held.map(|held| held.section)
    }

    /// The innermost open section.
    pub(super) fn innermost(&self) -> SectionIx {
        self.held.last().map_or(NO_PARENT, |held| held.section)
    }

    /// Whether the thread holds no lock.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The locks held, sorted.
    pub(super) fn locks(&self) -> Vec<ObjectIx> {
        let mut locks: Vec<ObjectIx> = self.held.iter().map(|held| held.lock).collect();
        locks.sort_unstable();
        locks
    }

    /// A section begins.
    pub(super) fn open(&mut self, lock: ObjectIx, section: SectionIx) {
        self.held.push(Held {
            lock,
            section,
            depth: 1,
        });
    }

    /// The thread acquires a lock again that it holds.
    pub(super) fn enter_again(&mut self, lock: ObjectIx) {
        let held = self.held.iter_mut().rev().find(|held| held.lock == lock);
        if let Some(held) = held {
            held.depth = held.depth.saturating_add(1);
        }
    }

    /// The thread releases a lock.
    pub(super) fn release(&mut self, lock: ObjectIx) -> Closed {
        let Some(at) = self.held.iter().rposition(|held| held.lock == lock) else {
            return Closed::NotHeld;
        };
        let held = &mut self.held[at];
        held.depth -= 1;
        if held.depth > 0 {
            return Closed::Inner;
        }
        Closed::Section(self.held.remove(at).section)
    }

    /// The thread gives a lock up, however often it acquired it.
    pub(super) fn give_up(&mut self, lock: ObjectIx) -> Option<SectionIx> {
        let at = self.held.iter().rposition(|held| held.lock == lock)?;
        Some(self.held.remove(at).section)
    }

    /// Takes all sections out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = SectionIx> + '_ {
        self.held.drain(..).map(|held| held.section)
    }

    /// Applies a change to every open section.
    pub(super) fn mark(&self, all: &mut [Section], change: impl Fn(&mut Section)) {
        for held in &self.held {
            if let Some(section) = all.get_mut(held.section as usize) {
                change(section);
            }
        }
    }
}
