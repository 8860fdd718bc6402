//! Compact form of a thread's operations: 8 bytes for a stretch of work and the operation after it.

use convoy_replay::standstill;

/// Work, then an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Iterations of [`crate::work::work`].
    pub work: u32,
    /// Kind in the upper bits, index of what it is done to below.
    code: u32,
}

/// Bits of the index: 134 million locks.
const INDEX_BITS: u32 = 27;
/// Exclusive bound of indices.
pub(super) const INDEX_LIMIT: u32 = 1 << INDEX_BITS;

/// What a step does after its work; the index names the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Nothing.
    Work,
    /// Sleeps as long as the next of the thread's sleeps says.
    Sleep,
    Acquire,
    AcquireShared,
    Release,
    ReleaseShared,
    /// A locked instruction on the lock.
    TouchLock,
    /// Waits as the plan's await of this index says.
    Await,
    Post,
    /// The recorded program signalled nobody here, since nobody waited: signal if somebody does.
    PostAndWake,
    Signal,
    Broadcast,
    Barrier,
    SemWait,
    SemPost,
    Spawn,
    Join,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Work,
        Self::Sleep,
        Self::Acquire,
        Self::AcquireShared,
        Self::Release,
        Self::ReleaseShared,
        Self::TouchLock,
        Self::Await,
        Self::Post,
        Self::PostAndWake,
        Self::Signal,
        Self::Broadcast,
        Self::Barrier,
        Self::SemWait,
        Self::SemPost,
        Self::Spawn,
        Self::Join,
    ];

    /// What it waits for, if it has to.
    pub fn waits_for(self) -> &'static str {
        match self {
            Self::Acquire | Self::AcquireShared => standstill::LOCK,
            Self::Await => standstill::CONDITION,
            Self::Barrier => standstill::BARRIER,
            Self::SemWait => standstill::SEMAPHORE,
            Self::Join => standstill::THREAD,
            _ => standstill::CPU,
        }
    }
}

impl Step {
    /// `index` is below [`INDEX_LIMIT`]: the compiler of plans has checked it.
    pub fn new(work: u32, kind: Kind, index: u32) -> Self {
        debug_assert!(index < INDEX_LIMIT);
        Self {
            work,
            code: (kind as u32) << INDEX_BITS | index,
        }
    }

    #[inline(always)]
    pub fn kind(self) -> Kind {
        // Always in bounds: made from a kind.
        Kind::ALL
            .get((self.code >> INDEX_BITS) as usize)
            .copied()
            .unwrap_or(Kind::Work)
    }

    #[inline(always)]
    pub fn index(self) -> usize {
        (self.code & (INDEX_LIMIT - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_kind_index_and_work_in_eight_bytes() {
        assert_eq!(size_of::<Step>(), 8);
        for (position, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, position);
            let step = Step::new(u32::MAX, kind, INDEX_LIMIT - 1);
            assert_eq!((step.work, step.kind()), (u32::MAX, kind));
            assert_eq!(step.index(), INDEX_LIMIT as usize - 1);
        }
    }
}
