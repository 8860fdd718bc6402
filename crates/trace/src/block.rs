//! A block: the events of one thread, in order, as bytes. docs/trace-format.md describes the layout.
//!
//! Columns, because neighbours in a column are alike and the profile's compression likes that: which
//! (kind, object, call site), the time since the event before, arguments, processors in runs. An event
//! takes at least two bytes, so that the length of a block bounds what it decodes to.

use crate::varint::{put, put_delta, Reader};
use crate::{Event, Kind, NO_CPU};

/// Kinds by the number that stands for them, their discriminant. A number never changes its meaning.
const KINDS: [Kind; 33] = [
    Kind::Acquired,
    Kind::AcquiredShared,
    Kind::Request,
    Kind::RequestShared,
    Kind::AcquiredAfterWait,
    Kind::TryAcquired,
    Kind::TryFailed,
    Kind::TimedOut,
    Kind::Released,
    Kind::Woke,
    Kind::CondWait,
    Kind::CondWoken,
    Kind::Signal,
    Kind::Broadcast,
    Kind::BarrierArrive,
    Kind::BarrierLeave,
    Kind::SemRequest,
    Kind::SemAcquired,
    Kind::SemPost,
    Kind::OnceBegin,
    Kind::OnceEnd,
    Kind::FutexWait,
    Kind::FutexWoken,
    Kind::FutexWake,
    Kind::Create,
    Kind::JoinBegin,
    Kind::JoinEnd,
    Kind::Start,
    Kind::End,
    Kind::Preempted,
    Kind::Lost,
    Kind::CpuTime,
    Kind::OffCpu,
];

/// Of an entry: its events have arguments.
const WITH_ARGUMENTS: u8 = 0x80;

/// What many events share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    object: u32,
    site: u32,
}

impl Entry {
    const fn of(event: &Event) -> Self {
        Self {
            kind: event.kind,
            object: event.object,
            site: event.site,
        }
    }
}

/// The entries of a block, and where each is found.
struct Entries {
    entries: Vec<Entry>,
    /// Numbers + 1 by hash, a power of two of them.
    index: Vec<u32>,
}

impl Entries {
    fn new() -> Self {
        Self {
            entries: Vec::new(),
            index: vec![0; 256],
        }
    }

    fn number(&mut self, entry: Entry) -> u32 {
        let mut at = self.place(&entry);
        loop {
            match self.index[at] {
                0 => break,
                found if self.entries[found as usize - 1] == entry => return found - 1,
                _ => at = (at + 1) % self.index.len(),
            }
        }
        self.entries.push(entry);
        let number = self.entries.len() as u32;
        self.index[at] = number;
        if self.entries.len() * 2 > self.index.len() {
            self.grow();
        }
        number - 1
    }

    fn place(&self, entry: &Entry) -> usize {
        let key = u64::from(entry.object) << 32 ^ u64::from(entry.site) << 8 ^ entry.kind as u64;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % self.index.len()
    }

    fn grow(&mut self) {
        self.index = vec![0; self.index.len() * 4];
        for number in 0..self.entries.len() {
            let mut at = self.place(&self.entries[number]);
            while self.index[at] != 0 {
                at = (at + 1) % self.index.len();
            }
            self.index[at] = number as u32 + 1;
        }
    }
}

/// The events of one thread as bytes. Times must not fall; the first one counts from `start_ns`.
pub fn encode(start_ns: u64, events: &[Event]) -> Vec<u8> {
    let mut entries = Entries::new();
    let codes: Vec<u32> = events
        .iter()
        .map(|event| entries.number(Entry::of(event)))
        .collect();
    let mut with_arguments = vec![false; entries.entries.len()];
    for (event, code) in events.iter().zip(&codes) {
        with_arguments[*code as usize] |= event.arg != 0;
    }
    let mut out = Vec::with_capacity(64 + events.len() * 4);
    put(&mut out, entries.entries.len() as u64);
    for (entry, with) in entries.entries.iter().zip(&with_arguments) {
        out.push(entry.kind as u8 | if *with { WITH_ARGUMENTS } else { 0 });
        put(&mut out, u64::from(entry.object.wrapping_add(1)));
        put(&mut out, u64::from(entry.site.wrapping_add(1)));
    }
    put(&mut out, events.len() as u64);
    codes
        .iter()
        .for_each(|code| put(&mut out, u64::from(*code)));
    let mut before = start_ns;
    for event in events {
        put(&mut out, event.at_ns.saturating_sub(before));
        before = before.max(event.at_ns);
    }
    let mut last = vec![0u64; entries.entries.len()];
    for (event, code) in events.iter().zip(&codes) {
        let code = *code as usize;
        if with_arguments[code] {
            put_delta(&mut out, event.arg.wrapping_sub(last[code]));
            last[code] = event.arg;
        }
    }
    let mut rest = events;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|e| e.cpu == first.cpu).count();
        put(&mut out, run as u64);
        put(&mut out, u64::from(first.cpu.wrapping_add(1)));
        rest = &rest[run..];
    }
    out
}

/// The events of a block; `None` if it makes no sense. `start_ns` as it was for [`encode`].
pub fn decode_block(start_ns: u64, bytes: &[u8]) -> Option<Vec<Event>> {
    let mut reader = Reader::new(bytes);
    let entries = count(&mut reader, 3)?;
    let entries: Option<Vec<(Entry, bool)>> = (0..entries).map(|_| entry(&mut reader)).collect();
    let entries = entries?;
    let n = count(&mut reader, 2)?;
    let mut codes = Vec::with_capacity(n);
    let mut events = Vec::with_capacity(n);
    for _ in 0..n {
        let code = u32::try_from(reader.number()?).ok()?;
        let (entry, _) = entries.get(code as usize)?;
        codes.push(code);
        events.push(Event {
            kind: entry.kind,
            object: entry.object,
            site: entry.site,
            cpu: NO_CPU,
            ..Event::default()
        });
    }
    let mut at_ns = start_ns;
    for event in &mut events {
        at_ns = at_ns.checked_add(reader.number()?)?;
        event.at_ns = at_ns;
    }
    let mut last = vec![0u64; entries.len()];
    for (event, code) in events.iter_mut().zip(&codes) {
        let code = *code as usize;
        if entries[code].1 {
            last[code] = last[code].wrapping_add(reader.delta()?);
            event.arg = last[code];
        }
    }
    let mut rest = events.as_mut_slice();
    while !rest.is_empty() {
        let run = usize::try_from(reader.number()?).ok()?;
        let cpu = index(reader.number()?)?;
        let (these, others) = rest.split_at_mut_checked(run.max(1))?;
        these.iter_mut().for_each(|event| event.cpu = cpu);
        rest = others;
    }
    (reader.left() == 0).then_some(events)
}

/// How many items follow, each of at least so many bytes.
fn count(reader: &mut Reader<'_>, bytes: usize) -> Option<usize> {
    let n = usize::try_from(reader.number()?).ok()?;
    (n <= reader.left() / bytes).then_some(n)
}

fn entry(reader: &mut Reader<'_>) -> Option<(Entry, bool)> {
    let kind = reader.byte()?;
    let index = |number: u64| Some(u32::try_from(number).ok()?.wrapping_sub(1));
    let entry = Entry {
        kind: *KINDS.get((kind & !WITH_ARGUMENTS) as usize)?,
        object: index(reader.number()?)?,
        site: index(reader.number()?)?,
    };
    Some((entry, kind & WITH_ARGUMENTS != 0))
}

/// A processor, stored one higher: 0 is the unknown one.
fn index(number: u64) -> Option<u16> {
    Some(u16::try_from(number).ok()?.wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NO_OBJECT, NO_SITE};

    /// Deterministic, of all kinds, with times that stand still and jump.
    fn events(n: usize) -> Vec<Event> {
        let mut x = 1u64;
        let mut at_ns = 1000;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            x >> 33
        };
        let event = |i: usize| {
            at_ns += match next() % 50 {
                0 => next() << 20,
                _ => next() % 200,
            };
            Event {
                at_ns,
                arg: if next() % 7 == 0 {
                    u64::MAX - next()
                } else {
                    0
                },
                object: if next() % 9 == 0 {
                    NO_OBJECT
                } else {
                    (next() % 300) as u32
                },
                site: if next() % 9 == 0 {
                    NO_SITE
                } else {
                    (next() % 5) as u32
                },
                kind: KINDS[i % KINDS.len()],
                cpu: if next() % 3 == 0 {
                    NO_CPU
                } else {
                    (next() % 2) as u16
                },
            }
        };
        (0..n).map(event).collect()
    }

    #[test]
    fn events_come_back_as_they_were() {
        for n in [0, 1, 2, 100, 5000] {
            let events = events(n);
            let bytes = encode(900, &events);
            assert_eq!(decode_block(900, &bytes), Some(events), "{n}");
        }
    }

    #[test]
    fn every_kind_has_its_number() {
        for (number, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
        // The last kind: one that is added behind it needs a number, too.
        assert_eq!(Kind::OffCpu as usize + 1, KINDS.len());
    }

    #[test]
    fn repeated_pairs_take_two_bytes_an_event() {
        let pair = |i: u64| Event {
            at_ns: i * 60,
            object: 1,
            site: (i % 2) as u32,
            kind: [Kind::Acquired, Kind::Released][i as usize % 2],
            ..Event::default()
        };
        let events: Vec<Event> = (0..1000).map(pair).collect();
        assert!(encode(0, &events).len() <= 2 * events.len() + 20);
    }

    #[test]
    fn damaged_blocks_are_refused_or_bounded() {
        let bytes = encode(0, &events(40));
        for at in 0..bytes.len() {
            assert_eq!(decode_block(0, &bytes[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                if let Some(events) = decode_block(0, &damaged) {
                    assert!(events.len() * 2 <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn lengths_without_bytes_behind_them_take_no_memory() {
        let mut bytes = vec![1, 0, 0, 0];
        put(&mut bytes, u64::MAX);
        assert_eq!(decode_block(0, &bytes), None);
        let mut bytes = Vec::new();
        put(&mut bytes, u64::from(u32::MAX));
        assert_eq!(decode_block(0, &bytes), None);
    }
}
