//! A semaphore that hands out another number of permits.

use super::apply::{Change, Refusal};
use super::Semaphores;
use crate::program::Op;

/// Those that are out at the start of the program count, too: if there are to be fewer altogether,
/// the first ones that come back are kept.
pub(super) fn permits(
    change: &mut Change,
    target: &Semaphores,
    permits: u32,
) -> Result<(), Refusal> {
    let program = &mut change.program;
    for &sem in &target.semaphores {
        let Some(of) = program.semaphores.get_mut(sem as usize) else {
            continue;
        };
        if of.permits == 0 {
            return Err(Refusal::NoPermits(target.name.clone()));
        }
        let value = i64::from(of.value) + i64::from(permits) - i64::from(of.permits);
        of.permits = permits;
        of.value = value.max(0) as u32;
        let mut kept = value.min(0).unsigned_abs();
        for thread in &mut program.threads {
            thread.ops.retain(|op| {
                let keeps = kept > 0 && *op == Op::SemPost { sem };
                kept -= u64::from(keeps);
                !keeps
            });
        }
    }
    Ok(())
}
