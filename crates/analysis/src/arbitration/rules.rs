//! Rules for findings of the scheduler and of the counters about the same thing: which of both is
//! reported.

use convoy_model::FindingId::{self, *};

use super::overlap::{Overlap, Pair};

/// What happens to two findings about the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The scheduler's finding becomes evidence of the other one.
    Absorb,
    /// The same, and its gain counts: a lock, and the loop in which threads spin for it.
    AbsorbGain,
    /// Both stay, marked as the same: one says what waits, the other why.
    KeepBoth,
    /// The scheduler's finding takes the place of the other one, which is dismissed.
    Replace,
}

/// Findings of the counters that a rule is for.
pub(super) enum Other {
    Any,
    These(&'static [FindingId]),
    /// All but these.
    Not(&'static [FindingId]),
}

impl Other {
    fn has(&self, id: FindingId) -> bool {
        match self {
            Self::Any => true,
            Self::These(ids) => ids.contains(&id),
            Self::Not(ids) => !ids.contains(&id),
        }
    }
}

/// Two kinds of findings, how they overlap, and what follows. The first rule that fits decides.
pub(super) struct Rule {
    scheduler: &'static [FindingId],
    overlap: Overlap,
    counters: Other,
    then: Then,
}

/// The consequence for a finding of the scheduler and one of the counters; `None` if they are about
/// different things.
pub(super) fn decide(pair: &Pair) -> Option<Then> {
    let fits = |rule: &&Rule| {
        rule.scheduler.contains(&pair.scheduler.id)
            && rule.counters.has(pair.counters.id)
            && pair.overlaps(rule.overlap)
    };
    Some(RULES.iter().find(fits)?.then)
}

const fn rule(
    scheduler: &'static [FindingId],
    overlap: Overlap,
    counters: Other,
    then: Then,
) -> Rule {
    Rule {
        scheduler,
        overlap,
        counters,
        then,
    }
}

use Other::{Any, Not, These};
use Overlap as O;
use Then as T;

#[rustfmt::skip]
const RULES: &[Rule] = &[
    // The counters name the lock, the scheduler what its holder waits for.
    rule(&[HolderOffCpu], O::Object, Any, T::KeepBoth),
    rule(&[SmallWrites], O::Object, Any, T::Replace),
    // Fewer threads that only ask is no advice: threads that work are missing.
    rule(&[TooFewThreads], O::Group, These(&[LoadImbalance]), T::Replace),
    // The cost of handing over is no work of a stage: the scheduler knows it apart.
    rule(&[LimitingStage, TooFewThreads], O::Group, These(&[SlowStage]), T::Replace),
    rule(&[LimitingStage], O::Group, These(&[LoadImbalance]), T::KeepBoth),
    rule(&[ThreadImbalance], O::Process, These(&[Straggler, BarrierImbalance]), T::Absorb),
    // A thread that loses more at the cache line ends later: contention hides how even the work is.
    rule(&[FalseSharing, ContendedLine, ContendedAtomic], O::UnevenByCacheLine, These(&[Straggler]),
         T::Replace),
    // Most of what is handed over is nothing: the rest shows once that is gone.
    rule(&[LockStep], O::WaitOfGroups, These(&[FutileWakeups]), T::Absorb),
    rule(&[BusyWaiting], O::LoopOfTheLock, These(&[ContendedLock, AsymmetricContention]),
         T::AbsorbGain),
    rule(&[BusyWaiting], O::LockLoopOfTheLock, These(&[TrylockSpin]), T::AbsorbGain),
    rule(&[BusyWaiting], O::LockLoop, These(&[TrylockSpin]), T::Absorb),
    rule(&[BusyWaiting], O::SpinLockLoop, These(&[ContendedLock]), T::Absorb),
    // More threads would wait for the same tokens.
    rule(&[BlockingCalls, SleepPolling], O::WaitOfBlockedThreads, These(&[SmallPool]), T::Absorb),
    rule(&[ContendedFutex], O::WaitingFunction, These(&[ContendedLock]), T::Absorb),
    rule(&[SerialCode], O::Process, These(&[SerialPhase]), T::Replace),
    rule(&[SerialCode], O::Stage, These(&[SlowStage]), T::Replace),
    // A single thread that waits for it waits for the end of the others: Python joins so.
    rule(&[SerialCode], O::UnderALockOfOneWaiter, These(&[SmallPool]), T::Replace),
    rule(&[SerialCode], O::UnderTheLock, Not(&[SerialPhase, SlowStage]), T::Absorb),
];
