//! Numbers of operations and kinds in the file. They are those of `enum cv_op` and
//! `enum cv_object_kind` and never change their meaning.

use crate::bytes::Malformed;
use crate::{CodeFrom, ObjectKind, OffReason, Op, Reason, SpinKind};

const OPS: [(u8, Op); 29] = [
    (1, Op::MutexLock),
    (2, Op::MutexTimedlock),
    (3, Op::RwlockRd),
    (4, Op::RwlockWr),
    (5, Op::RwlockTimedrd),
    (6, Op::RwlockTimedwr),
    (7, Op::SpinLock),
    (8, Op::OmpLock),
    (9, Op::OmpCritical),
    (16, Op::MutexTrylock),
    (17, Op::RwlockTryrd),
    (18, Op::RwlockTrywr),
    (19, Op::SpinTrylock),
    (20, Op::SemTrywait),
    (21, Op::OmpTrylock),
    (32, Op::CondWait),
    (33, Op::CondTimedwait),
    (34, Op::BarrierWait),
    (35, Op::SemWait),
    (36, Op::SemTimedwait),
    (37, Op::Join),
    (38, Op::Once),
    (39, Op::FutexWait),
    (40, Op::OmpBarrier),
    (41, Op::OmpRegion),
    (48, Op::CondSignal),
    (49, Op::CondBroadcast),
    (50, Op::SemPost),
    (51, Op::FutexWake),
];

const KINDS: [ObjectKind; 14] = [
    ObjectKind::Unknown,
    ObjectKind::Mutex,
    ObjectKind::RwLock,
    ObjectKind::Spin,
    ObjectKind::Cond,
    ObjectKind::Barrier,
    ObjectKind::Sem,
    ObjectKind::Thread,
    ObjectKind::Once,
    ObjectKind::Futex,
    ObjectKind::OmpLock,
    ObjectKind::OmpCritical,
    ObjectKind::OmpBarrier,
    ObjectKind::OmpRegion,
];

const REASONS: [Reason; 6] = [
    Reason::NotResolved,
    Reason::NoModule,
    Reason::ModuleUnreadable,
    Reason::ModuleChanged,
    Reason::NoSymbol,
    Reason::BadSymbols,
];

const CODE_FROM: [CodeFrom; 3] = [CodeFrom::Unknown, CodeFrom::Sample, CodeFrom::StackTop];

const OFF_REASONS: [OffReason; 18] = [
    OffReason::Unknown,
    OffReason::Futex,
    OffReason::File,
    OffReason::Sync,
    OffReason::Disk,
    OffReason::PageFault,
    OffReason::Memory,
    OffReason::Pipe,
    OffReason::Socket,
    OffReason::Poll,
    OffReason::Sleep,
    OffReason::Signal,
    OffReason::Child,
    OffReason::Ipc,
    OffReason::AsyncIo,
    OffReason::Stopped,
    OffReason::OtherCall,
    OffReason::Preempted,
];

const SPIN_KINDS: [SpinKind; 6] = [
    SpinKind::Polling,
    SpinKind::Pause,
    SpinKind::Lock,
    SpinKind::Yield,
    SpinKind::KnownFunction,
    SpinKind::Sleep,
];

/// 0 = no operation.
pub(super) fn op_code(op: Option<Op>) -> u8 {
    op.and_then(|op| OPS.iter().find(|entry| entry.1 == op))
        .map_or(0, |entry| entry.0)
}

pub(super) fn op(code: u8) -> Result<Option<Op>, Malformed> {
    match (code, OPS.iter().find(|entry| entry.0 == code)) {
        (0, _) => Ok(None),
        (_, Some(entry)) => Ok(Some(entry.1)),
        (_, None) => Err(Malformed::Number),
    }
}

fn code_of<T: Copy + PartialEq>(list: &[T], value: T) -> u8 {
    list.iter().position(|&item| item == value).unwrap_or(0) as u8
}

fn of_code<T: Copy>(list: &[T], code: u8) -> Result<T, Malformed> {
    list.get(usize::from(code))
        .copied()
        .ok_or(Malformed::Number)
}

pub(super) fn kind_code(kind: ObjectKind) -> u8 {
    code_of(&KINDS, kind)
}

pub(super) fn kind(code: u8) -> Result<ObjectKind, Malformed> {
    of_code(&KINDS, code)
}

pub(super) fn reason_code(reason: Reason) -> u8 {
    code_of(&REASONS, reason)
}

pub(super) fn reason(code: u8) -> Result<Reason, Malformed> {
    of_code(&REASONS, code)
}

pub(super) fn code_from_code(from: CodeFrom) -> u8 {
    code_of(&CODE_FROM, from)
}

pub(super) fn code_from(code: u8) -> Result<CodeFrom, Malformed> {
    of_code(&CODE_FROM, code)
}

pub(super) fn off_reason_code(reason: OffReason) -> u8 {
    code_of(&OFF_REASONS, reason)
}

pub(super) fn off_reason(code: u8) -> Result<OffReason, Malformed> {
    of_code(&OFF_REASONS, code)
}

pub(super) fn spin_kind_code(kind: SpinKind) -> u8 {
    code_of(&SPIN_KINDS, kind)
}

pub(super) fn spin_kind(code: u8) -> Result<SpinKind, Malformed> {
    of_code(&SPIN_KINDS, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names every operation, so that a new one without a code does not compile.
    fn all_ops() -> Vec<Op> {
        let next = |op: Op| match op {
            Op::MutexLock => Some(Op::MutexTimedlock),
            Op::MutexTimedlock => Some(Op::RwlockRd),
            Op::RwlockRd => Some(Op::RwlockWr),
            Op::RwlockWr => Some(Op::RwlockTimedrd),
            Op::RwlockTimedrd => Some(Op::RwlockTimedwr),
            Op::RwlockTimedwr => Some(Op::SpinLock),
            Op::SpinLock => Some(Op::OmpLock),
            Op::OmpLock => Some(Op::OmpCritical),
            Op::OmpCritical => Some(Op::MutexTrylock),
            Op::MutexTrylock => Some(Op::RwlockTryrd),
            Op::RwlockTryrd => Some(Op::RwlockTrywr),
            Op::RwlockTrywr => Some(Op::SpinTrylock),
            Op::SpinTrylock => Some(Op::SemTrywait),
            Op::SemTrywait => Some(Op::OmpTrylock),
            Op::OmpTrylock => Some(Op::CondWait),
            Op::CondWait => Some(Op::CondTimedwait),
            Op::CondTimedwait => Some(Op::BarrierWait),
            Op::BarrierWait => Some(Op::SemWait),
            Op::SemWait => Some(Op::SemTimedwait),
            Op::SemTimedwait => Some(Op::Join),
            Op::Join => Some(Op::Once),
            Op::Once => Some(Op::FutexWait),
            Op::FutexWait => Some(Op::OmpBarrier),
            Op::OmpBarrier => Some(Op::OmpRegion),
            Op::OmpRegion => Some(Op::CondSignal),
            Op::CondSignal => Some(Op::CondBroadcast),
            Op::CondBroadcast => Some(Op::SemPost),
            Op::SemPost => Some(Op::FutexWake),
            Op::FutexWake => None,
        };
        std::iter::successors(Some(Op::MutexLock), |&op| next(op)).collect()
    }

    #[test]
    fn every_operation_has_a_code_of_its_own() {
        for (code, operation) in OPS {
            assert_eq!(op(code), Ok(Some(operation)));
        }
        for operation in all_ops() {
            assert_eq!(op(op_code(Some(operation))), Ok(Some(operation)));
        }
        assert_eq!(all_ops().len(), OPS.len());
        assert_eq!(op(0), Ok(None));
        assert_eq!(op(10), Err(Malformed::Number));
    }

    #[test]
    fn kinds_and_reasons_are_numbered_in_their_order() {
        numbered(&KINDS, |k| k as usize, kind_code, kind);
        numbered(&REASONS, |r| r as usize, reason_code, reason);
        numbered(&CODE_FROM, |f| f as usize, code_from_code, code_from);
        numbered(&OFF_REASONS, |r| r as usize, off_reason_code, off_reason);
        numbered(&SPIN_KINDS, |k| k as usize, spin_kind_code, spin_kind);
    }

    fn numbered<T: Copy + PartialEq + std::fmt::Debug>(
        list: &[T],
        order: fn(T) -> usize,
        code_of: fn(T) -> u8,
        of_code: fn(u8) -> Result<T, Malformed>,
    ) {
        for (code, &value) in list.iter().enumerate() {
            let found = (order(value), of_code(code as u8), code_of(value));
            assert_eq!(found, (code, Ok(value), code as u8));
        }
        assert_eq!(of_code(list.len() as u8), Err(Malformed::Number));
    }
}
