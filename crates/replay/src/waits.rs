//! Waits at barriers and for permits, in the replayed windows of a recording.

use std::collections::{BTreeMap, BTreeSet};

use convoy_trace::{Event, Kind, ObjectIx, ObjectKind, Recording, ThreadIx, Window};

use crate::study::Study;

/// What threads wait for that is no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// The others of a barrier.
    Barrier,
    /// A permit of a semaphore that was made with so many.
    Pool {
        /// Permits.
        permits: u32,
    },
}

/// Waits for one object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wait {
    /// Which.
    pub object: ObjectIx,
    /// What it is.
    pub at: Meeting,
    /// Of all threads, nanoseconds.
    pub waited_ns: f64,
    /// Threads that waited.
    pub threads: u32,
}

/// The longest first.
pub(crate) fn waits(study: &Study<'_>) -> Vec<Wait> {
    let windows = study.windows.iter();
    let windows = windows.filter_map(|ix| study.recording.windows.get(*ix as usize));
    in_windows(study.recording, windows)
}

fn in_windows<'w>(recording: &Recording, windows: impl Iterator<Item = &'w Window>) -> Vec<Wait> {
    let mut of: BTreeMap<ObjectIx, (f64, BTreeSet<ThreadIx>)> = BTreeMap::new();
    for window in windows {
        for (ix, thread) in (0..).zip(&recording.threads) {
            let mut since: Option<&Event> = None;
            for event in &thread.events[thread.in_window(*window)] {
                match event.kind {
                    Kind::BarrierArrive | Kind::SemRequest => since = Some(event),
                    Kind::BarrierLeave | Kind::SemAcquired => {
                        let begun = since.take().filter(|of| of.object == event.object);
                        if let Some(begun) = begun {
                            let (waited, threads) = of.entry(event.object).or_default();
                            *waited += event.at_ns.saturating_sub(begun.at_ns) as f64;
                            threads.insert(ix);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    let mut all: Vec<Wait> = of
        .into_iter()
        .filter_map(|(object, (waited_ns, threads))| {
            let recorded = recording.objects.get(object as usize)?;
            let at = match recorded.kind {
                ObjectKind::Barrier | ObjectKind::OmpBarrier => Meeting::Barrier,
                ObjectKind::Sem if recorded.attr > 0 => Meeting::Pool {
                    permits: recorded.attr,
                },
                _ => return None,
            };
            Some(Wait {
                object,
                at,
                waited_ns,
                threads: threads.len() as u32,
            })
        })
        .collect();
    all.sort_by(|a, b| b.waited_ns.total_cmp(&a.waited_ns));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_trace::{Object, Thread};

    fn event(at_ns: u64, kind: Kind, object: ObjectIx) -> Event {
        Event {
            at_ns,
            kind,
            object,
            ..Event::default()
        }
    }

    #[test]
    fn waits_of_all_threads_are_added_up_by_object_within_the_window() {
        let object = |kind, attr| Object {
            kind,
            attr,
            ..Object::default()
        };
        let thread = |events| Thread {
            events,
            ..Thread::default()
        };
        let recording = Recording {
            objects: vec![
                object(ObjectKind::Barrier, 2),
                object(ObjectKind::Sem, 3),
                object(ObjectKind::Sem, 0),
            ],
            threads: vec![
                thread(vec![
                    event(10, Kind::BarrierArrive, 0),
                    event(110, Kind::BarrierLeave, 0),
                    event(120, Kind::SemRequest, 1),
                    event(420, Kind::SemAcquired, 1),
                    event(2000, Kind::BarrierArrive, 0),
                    event(3000, Kind::BarrierLeave, 0),
                ]),
                thread(vec![
                    event(100, Kind::BarrierArrive, 0),
                    event(110, Kind::BarrierLeave, 0),
                    event(120, Kind::SemRequest, 2),
                    event(900, Kind::SemAcquired, 2),
                ]),
            ],
            ..Recording::default()
        };
        let window = Window {
            start_ns: 0,
            end_ns: 1000,
        };
        let wait = |object, at, waited_ns, threads| Wait {
            object,
            at,
            waited_ns,
            threads,
        };
        assert_eq!(
            in_windows(&recording, [window].iter()),
            [
                wait(1, Meeting::Pool { permits: 3 }, 300.0, 1),
                wait(0, Meeting::Barrier, 110.0, 2)
            ]
        );
    }
}
