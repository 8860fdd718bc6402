//! The records of a chunk, as events of the trace. Nothing in a chunk is believed.

use std::collections::hash_map::{Entry, HashMap};

use convoy_abi as abi;
use convoy_profile::ObjectKind;
use convoy_trace::{Event, Kind, NO_CPU, NO_OBJECT, NO_SITE};

use super::file::Chunk;
use crate::arena::kind_of;
use crate::clock::Clock;

/// Objects, and call sites, that a process may name.
const MOST_ROWS: usize = 1 << 22;

/// What the events of a process are about. Indices are those of the profile's tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub objects: Vec<Object>,
    pub sites: Vec<Site>,
    object_index: HashMap<(u64, ObjectKind), u32>,
    site_index: HashMap<u64, u32>,
    /// Records that made no sense.
    pub damaged: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub addr: u64,
    pub kind: ObjectKind,
    /// `u32::MAX` = not known.
    pub attr: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub pc: u64,
    /// A call stack with which it was seen, 0 = none.
    pub stack: abi::Ref,
}

impl Tables {
    fn object(&mut self, addr: u64, kind: ObjectKind, attr: u32) -> u32 {
        if addr == 0 {
            return NO_OBJECT;
        }
        let next = self.objects.len();
        match self.object_index.entry((addr, kind)) {
            Entry::Occupied(known) => {
                let object = &mut self.objects[*known.get() as usize];
                if attr != u32::MAX {
                    object.attr = attr;
                }
                *known.get()
            }
            Entry::Vacant(_) if next >= MOST_ROWS => NO_OBJECT,
            Entry::Vacant(free) => {
                self.objects.push(Object { addr, kind, attr });
                *free.insert(next as u32)
            }
        }
    }

    fn site(&mut self, pc: u64, stack: abi::Ref) -> u32 {
        if pc == 0 {
            return NO_SITE;
        }
        let next = self.sites.len();
        match self.site_index.entry(pc) {
            Entry::Occupied(known) => {
                let site = &mut self.sites[*known.get() as usize];
                if site.stack == 0 {
                    site.stack = stack;
                }
                *known.get()
            }
            Entry::Vacant(_) if next >= MOST_ROWS => NO_SITE,
            Entry::Vacant(free) => {
                self.sites.push(Site { pc, stack });
                *free.insert(next as u32)
            }
        }
    }
}

/// Appends the events of a chunk, in order; times do not fall.
pub(super) fn events(chunk: &Chunk, clock: &Clock, tables: &mut Tables, to: &mut Vec<Event>) {
    let in_ns = |ticks| match chunk.head.clock_kind {
        abi::CV_CLOCK_TSC => clock.ns_of(ticks),
        _ => ticks,
    };
    let mut entries = [(NO_OBJECT, NO_SITE); 256];
    let mut ticks = chunk.head.ticks;
    let mut latest_ns = 0;
    let mut words = chunk.words.iter().copied();
    if chunk.head.cpu_ns != 0 {
        to.push(bare(in_ns(ticks), Kind::CpuTime, chunk.head.cpu_ns));
    }
    while let Some(word) = words.next() {
        let raw = (word >> 32) as u8;
        let entry = (word >> 40) as u8;
        ticks = ticks.saturating_add(word & u64::from(u32::MAX));
        let argument = match raw & abi::CV_EV_ARG {
            0 => 0,
            _ => words.next().unwrap_or(0),
        };
        match raw {
            abi::CV_EV_TIME => ticks = argument,
            abi::CV_EV_DEFINE => {
                let mut next = || words.next().unwrap_or(0);
                let (object, ra, rest) = (next(), next(), next());
                let kind = kind_of((word >> 48) as u32).unwrap_or_default();
                entries[entry as usize] = (
                    tables.object(object, kind, (rest >> 32) as u32),
                    tables.site(ra, rest as u32),
                );
            }
            _ => {
                let Some((kind, fixed)) = kind_and_argument(raw) else {
                    tables.damaged += 1;
                    continue;
                };
                let (object, site) = match raw & abi::CV_EV_NO_ENTRY {
                    0 => entries[entry as usize],
                    _ => (NO_OBJECT, NO_SITE),
                };
                let arg = match kind {
                    Kind::CondWait | Kind::CondWoken => {
                        u64::from(tables.object(argument, ObjectKind::Mutex, u32::MAX))
                    }
                    _ => argument | fixed,
                };
                latest_ns = in_ns(ticks).max(latest_ns);
                to.push(Event {
                    at_ns: latest_ns,
                    arg,
                    object,
                    site,
                    kind,
                    cpu: (word >> 48) as u16,
                });
            }
        }
    }
}

fn bare(at_ns: u64, kind: Kind, arg: u64) -> Event {
    Event {
        at_ns,
        arg,
        object: NO_OBJECT,
        site: NO_SITE,
        kind,
        cpu: NO_CPU,
    }
}

/// The kind of an event, and the argument that is part of it; `None` if there is no such.
fn kind_and_argument(kind: u8) -> Option<(Kind, u64)> {
    let kind = match kind {
        abi::CV_EV_ACQUIRED => Kind::Acquired,
        abi::CV_EV_ACQUIRED_SHARED => Kind::AcquiredShared,
        abi::CV_EV_REQUEST => Kind::Request,
        abi::CV_EV_REQUEST_SHARED => Kind::RequestShared,
        abi::CV_EV_ACQUIRED_AFTER_WAIT => Kind::AcquiredAfterWait,
        abi::CV_EV_TRY_ACQUIRED => Kind::TryAcquired,
        abi::CV_EV_TRY_ACQUIRED_SHARED => return Some((Kind::TryAcquired, 1)),
        abi::CV_EV_TRY_FAILED => Kind::TryFailed,
        abi::CV_EV_TIMED_OUT => Kind::TimedOut,
        abi::CV_EV_RELEASED => Kind::Released,
        abi::CV_EV_WOKE => Kind::Woke,
        abi::CV_EV_COND_WAIT => Kind::CondWait,
        abi::CV_EV_COND_WOKEN => Kind::CondWoken,
        abi::CV_EV_SIGNAL => Kind::Signal,
        abi::CV_EV_BROADCAST => Kind::Broadcast,
        abi::CV_EV_BARRIER_ARRIVE => Kind::BarrierArrive,
        abi::CV_EV_BARRIER_LEAVE => Kind::BarrierLeave,
        abi::CV_EV_BARRIER_LEAVE_LAST => return Some((Kind::BarrierLeave, 1)),
        abi::CV_EV_SEM_REQUEST => Kind::SemRequest,
        abi::CV_EV_SEM_ACQUIRED => Kind::SemAcquired,
        abi::CV_EV_SEM_POST => Kind::SemPost,
        abi::CV_EV_ONCE_BEGIN => Kind::OnceBegin,
        abi::CV_EV_ONCE_END => Kind::OnceEnd,
        abi::CV_EV_FUTEX_WAIT => Kind::FutexWait,
        abi::CV_EV_FUTEX_WOKEN => Kind::FutexWoken,
        abi::CV_EV_FUTEX_WAKE => Kind::FutexWake,
        abi::CV_EV_CREATE => Kind::Create,
        abi::CV_EV_JOIN_BEGIN => Kind::JoinBegin,
        abi::CV_EV_JOIN_END => Kind::JoinEnd,
        abi::CV_EV_START => Kind::Start,
        abi::CV_EV_END => Kind::End,
        abi::CV_EV_PREEMPTED => Kind::Preempted,
        abi::CV_EV_CPU_TIME => Kind::CpuTime,
        abi::CV_EV_OFF_CPU => Kind::OffCpu,
        abi::CV_EV_LOST => Kind::Lost,
        _ => return None,
    };
    Some((kind, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: u8 = 7;

    fn word(delta: u32, kind: u8, entry: u8, cpu: u16) -> u64 {
        u64::from(delta) | u64::from(kind) << 32 | u64::from(entry) << 40 | u64::from(cpu) << 48
    }

    /// In nanoseconds, from 1000 on.
    fn chunk(words: &[u64]) -> Chunk {
        Chunk {
            head: abi::EventsChunk {
                ticks: 1000,
                words: words.len() as u32,
                clock_kind: abi::CV_CLOCK_MONOTONIC,
                ..abi::EventsChunk::default()
            },
            words: words.to_vec(),
        }
    }

    fn parse(words: &[u64]) -> (Vec<Event>, Tables) {
        let clock = Clock::load(&abi::Session::default());
        let (mut events_found, mut tables) = (Vec::new(), Tables::default());
        events(&chunk(words), &clock, &mut tables, &mut events_found);
        (events_found, tables)
    }

    fn define(object: u64, ra: u64) -> [u64; 4] {
        let kind = abi::CV_OBJECT_MUTEX as u16;
        [
            word(0, abi::CV_EV_DEFINE, ENTRY, kind),
            object,
            ra,
            5 | 1 << 32,
        ]
    }

    #[test]
    fn records_become_events_in_order() {
        let mut words = define(0xa0, 0xb0).to_vec();
        words.push(word(5, abi::CV_EV_ACQUIRED, ENTRY, 1));
        words.extend([word(0, abi::CV_EV_TIME, 0, 0xffff), 9_000_000_000]);
        words.push(word(3, abi::CV_EV_RELEASED, ENTRY, 0));
        words.extend([word(1, abi::CV_EV_PREEMPTED, 0, 0xffff), 42]);
        let (events, tables) = parse(&words);
        let short: Vec<_> = events
            .iter()
            .map(|e| (e.at_ns, e.kind, e.arg, e.cpu))
            .collect();
        assert_eq!(
            short,
            [
                (1005, Kind::Acquired, 0, 1),
                (9_000_000_003, Kind::Released, 0, 0),
                (9_000_000_004, Kind::Preempted, 42, NO_CPU),
            ]
        );
        assert_eq!((events[0].object, events[0].site), (0, 0));
        assert_eq!((events[2].object, events[2].site), (NO_OBJECT, NO_SITE));
        let mutex = Object {
            addr: 0xa0,
            kind: ObjectKind::Mutex,
            attr: 1,
        };
        assert_eq!(tables.objects, [mutex]);
        assert_eq!(tables.sites, [Site { pc: 0xb0, stack: 5 }]);
    }

    #[test]
    fn an_entry_that_changes_means_the_new_pair() {
        let mut words = define(0xa0, 0xb0).to_vec();
        words.push(word(0, abi::CV_EV_ACQUIRED, ENTRY, 0));
        words.extend(define(0xa1, 0xb0));
        words.push(word(0, abi::CV_EV_ACQUIRED, ENTRY, 0));
        let (events, _) = parse(&words);
        let about: Vec<_> = events.iter().map(|e| (e.object, e.site)).collect();
        assert_eq!(about, [(0, 0), (1, 0)]);
    }

    #[test]
    fn undefined_entries_and_unknown_kinds_lead_nowhere() {
        let (events, tables) = parse(&[
            word(0, abi::CV_EV_ACQUIRED, 9, 0),
            word(0, 0x30, 9, 0),
            word(0, 0xb0, 9, 0),
            77,
            word(0, abi::CV_EV_RELEASED, 9, 0),
        ]);
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|e| e.object == NO_OBJECT));
        assert_eq!(tables.damaged, 2);
    }

    #[test]
    fn times_never_fall_and_cut_records_end_the_chunk() {
        let (events, _) = parse(&[
            word(9, abi::CV_EV_END, 0, 0),
            word(0, abi::CV_EV_TIME, 0, 0),
            4,
            word(u32::MAX, abi::CV_EV_END, 0, 0),
            word(0, abi::CV_EV_TIME, 0, 0),
            u64::MAX,
            word(1, abi::CV_EV_END, 0, 0),
            word(0, abi::CV_EV_DEFINE, 0, 0),
        ]);
        assert_eq!(events.len(), 3);
        assert!(events.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    }
}
