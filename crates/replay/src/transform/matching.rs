//! Which release ends which acquire of a thread's operations.

use crate::program::{LockIx, Op};

/// No partner.
pub(crate) const NONE: u32 = u32::MAX;

/// By operation: of an acquire, the index of its release; of a release, that of its acquire; otherwise
/// [`NONE`].
pub(crate) fn partners(ops: &[Op]) -> Vec<u32> {
    let mut partners = vec![NONE; ops.len()];
    let mut held: Vec<(LockIx, u32)> = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Acquire { lock, .. } | Op::TryAcquire { lock, .. } => held.push((*lock, at as u32)),
            Op::Release { lock } => {
                let Some(of) = held.iter().rposition(|(other, _)| other == lock) else {
                    continue;
                };
                let (_, acquire) = held.remove(of);
                partners[at] = acquire;
                partners[acquire as usize] = at as u32;
            }
            _ => {}
        }
    }
    partners
}
