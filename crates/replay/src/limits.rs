//! Limits of a recording that the rows of its analysis do not show.

use convoy_trace::ObjectIx;

use crate::analysis::LockRow;
use crate::caveat::Caveat;
use crate::sets::{RunKeys, SectionSets};
use crate::study::Study;

/// Share of a lock's sections with system calls from which on the reader has to know.
const IN_KERNEL: f64 = 0.05;
/// Locks that are looked at: those of most waits.
const LOCKS: usize = 3;

/// All of them. `locks`: most waited for first. `sets`: `None` = not known.
pub fn limits(
    study: &Study<'_>,
    locks: &[(ObjectIx, LockRow)],
    sets: Option<(&SectionSets, &RunKeys)>,
) -> Vec<Caveat> {
    let mut all = Vec::new();
    let lost = study.recording.losses.events.iter();
    let lost = lost.fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
    if lost > 0 {
        all.push(Caveat::Lost(lost));
    }
    let waited = locks.iter().filter(|(_, row)| row.waited_ns > 0.0);
    for (object, row) in waited.take(LOCKS) {
        let share = sets.map_or(0.0, |(sets, keys)| in_kernel(study, *object, sets, keys));
        if share >= IN_KERNEL {
            all.push(Caveat::SystemCalls(row.name.clone(), share));
        }
    }
    all
}

/// Share of a lock's sections that make system calls, 0..1.
fn in_kernel(study: &Study<'_>, lock: ObjectIx, sets: &SectionSets, keys: &RunKeys) -> f64 {
    let object = study.recording.objects.get(lock as usize);
    let key = object.and_then(|of| keys.locks.get(of.profile_object? as usize)?.as_ref());
    let Some(key) = key else {
        return 0.0;
    };
    let classes = sets
        .classes
        .iter()
        .filter(|of| of.lock.as_ref() == Some(key));
    let (run, with) = classes.fold((0.0, 0.0), |(run, with), of| {
        (run + of.run as f64, with + of.run as f64 * of.in_kernel)
    });
    with / f64::max(run, 1.0)
}
