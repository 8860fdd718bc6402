//! The way through a recording in the order of time, with both orders side by side.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use convoy_trace::{Event, Kind, Recording, SiteIx};

use super::clocks::{Channel, Order};
use super::{Race, RaceKind, RaceSide, Races, MAX_SECTIONS, MAX_THREADS};
use crate::sections::{Section, SectionIx, Sections};
use crate::sets::{Access, WordIx};
use crate::transform::{LockPlan, Replacement};
use crate::ulcp::{Class, Classifier};

pub(super) struct Walk<'a, 'c> {
    recording: &'a Recording,
    sections: &'a Sections,
    classifier: &'a mut Classifier<'c>,
    plan: &'a LockPlan,
    /// With the recorded locks.
    recorded: Order,
    /// With the locks of the plan.
    free: Order,
    /// By thread: its next section.
    next: Vec<SectionIx>,
    /// By thread: open sections.
    open: Vec<Vec<SectionIx>>,
    /// By word.
    words: Vec<Vec<Touched>>,
    races: BTreeMap<(WordIx, RaceSide, RaceSide, RaceKind), u64>,
    result: Races,
}

/// The latest access of a thread to a word.
#[derive(Clone, Copy)]
struct Touched {
    thread: usize,
    section: SectionIx,
    side: RaceSide,
    recorded_at: u32,
    free_at: u32,
}

impl<'a, 'c> Walk<'a, 'c> {
    pub(super) fn new(
        recording: &'a Recording,
        sections: &'a Sections,
        classifier: &'a mut Classifier<'c>,
        plan: &'a LockPlan,
    ) -> Self {
        let threads = recording.threads.len().min(MAX_THREADS);
        let first = |thread: usize| {
            sections
                .all
                .partition_point(|section| (section.thread as usize) < thread)
        };
        let next = (0..threads).map(|thread| first(thread) as SectionIx);
        Self {
            recording,
            sections,
            plan,
            recorded: Order::new(threads),
            free: Order::new(threads),
            next: next.collect(),
            open: vec![Vec::new(); threads],
            words: vec![Vec::new(); classifier.sets().words.len()],
            classifier,
            races: BTreeMap::new(),
            result: Races {
                sections: sections.all.len() as u64,
                ..Races::default()
            },
        }
    }

    pub(super) fn run(mut self) -> Races {
        let recording = self.recording;
        let events = |thread: usize| recording.threads[thread].events.as_slice();
        let mut heap: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
        for thread in 0..self.open.len() {
            let first = events(thread).first();
            heap.extend(first.map(|event| Reverse((event.at_ns, thread, 0))));
        }
        while let Some(Reverse((_, thread, ix))) = heap.pop() {
            if let Some(event) = events(thread).get(ix) {
                self.event(thread, ix as u32, event);
            }
            if self.result.looked_at >= MAX_SECTIONS {
                break;
            }
            let next = events(thread).get(ix + 1);
            heap.extend(next.map(|event| Reverse((event.at_ns, thread, ix + 1))));
        }
        let races = std::mem::take(&mut self.races).into_iter();
        let races = races.map(|((word, first, second, kind), times)| Race {
            word,
            first,
            second,
            kind,
            times,
        });
        self.result.races = races.collect();
        self.result.races.sort_by_key(|race| Reverse(race.times));
        self.result
    }

    fn event(&mut self, thread: usize, ix: u32, event: &Event) {
        let object = Channel::Object(event.object);
        let other = u32::try_from(event.arg).map(Channel::Thread);
        match event.kind {
            Kind::Released => self.release(thread, event.object),
            Kind::CondWait => self.release(thread, event.arg as u32),
            Kind::Signal | Kind::Broadcast | Kind::SemPost | Kind::FutexWake => {
                self.send(thread, object);
            }
            Kind::BarrierArrive | Kind::OnceEnd => self.send(thread, object),
            Kind::BarrierLeave | Kind::SemAcquired | Kind::FutexWoken | Kind::OnceBegin => {
                self.receive(thread, object);
            }
            Kind::CondWoken => self.receive(thread, object),
            Kind::Create => other.into_iter().for_each(|other| self.send(thread, other)),
            Kind::Start => self.receive(thread, Channel::Thread(thread as u32)),
            Kind::End => self.send(thread, Channel::Thread(thread as u32)),
            Kind::JoinEnd => other
                .into_iter()
                .for_each(|other| self.receive(thread, other)),
            _ => {}
        }
        let next = self.next[thread];
        let begins =
            |section: &Section| section.thread as usize == thread && section.acquire_event == ix;
        if self.sections.get(next).is_some_and(begins) {
            self.next[thread] += 1;
            self.acquire(thread, next);
        }
    }

    fn send(&mut self, thread: usize, channel: Channel) {
        self.recorded.send(thread, channel, false);
        self.free.send(thread, channel, false);
    }

    fn receive(&mut self, thread: usize, channel: Channel) {
        self.recorded.receive(thread, channel, false);
        self.free.receive(thread, channel, false);
    }

    fn acquire(&mut self, thread: usize, ix: SectionIx) {
        let Some(section) = self.sections.get(ix) else {
            return;
        };
        let lock = Channel::Object(section.lock);
        self.recorded.receive(thread, lock, section.shared);
        match self.plan.replacement(ix) {
            Replacement::Recorded => self.free.receive(thread, lock, section.shared),
            Replacement::Locks(uses) => {
                for of in uses {
                    let shared = section.shared || of.shared;
                    self.free.receive(thread, Channel::Aux(of.aux), shared);
                }
            }
        }
        self.open[thread].push(ix);
    }

    fn release(&mut self, thread: usize, lock: u32) {
        let of_lock = |ix: &SectionIx| self.sections.get(*ix).is_some_and(|it| it.lock == lock);
        let Some(at) = self.open[thread].iter().rposition(of_lock) else {
            return;
        };
        let ix = self.open[thread].remove(at);
        let Some(section) = self.sections.get(ix) else {
            return;
        };
        self.access(thread, ix, section);
        let lock = Channel::Object(lock);
        self.recorded.send(thread, lock, section.shared);
        match self.plan.replacement(ix) {
            Replacement::Recorded => self.free.send(thread, lock, section.shared),
            Replacement::Locks(uses) => {
                for of in uses {
                    let shared = section.shared || of.shared;
                    self.free.send(thread, Channel::Aux(of.aux), shared);
                }
            }
        }
    }

    /// The accesses of a section, all at its end.
    fn access(&mut self, thread: usize, ix: SectionIx, section: &Section) {
        self.result.looked_at += 1;
        let sample = self.classifier.sets().sample(self.classifier.sample_of(ix));
        let Some(sample) = sample else {
            self.result.unobserved += 1;
            return;
        };
        self.result.unobserved += u64::from(!sample.complete);
        for access in &sample.accesses {
            let now = Touched {
                thread,
                section: ix,
                side: side(section.acquire_site, access),
                recorded_at: self.recorded.now(thread),
                free_at: self.free.now(thread),
            };
            self.compare(access.word, &now);
            let Some(of_word) = self.words.get_mut(access.word as usize) else {
                continue;
            };
            let is_same =
                |old: &&mut Touched| old.thread == thread && old.side.writes == now.side.writes;
            match of_word.iter_mut().find(is_same) {
                Some(old) => *old = now,
                None => of_word.push(now),
            }
        }
    }

    fn compare(&mut self, word: WordIx, now: &Touched) {
        let Some(before) = self.words.get(word as usize) else {
            return;
        };
        for old in before {
            let conflicts = old.thread != now.thread && (old.side.writes || now.side.writes);
            let (recorded, free) = (&self.recorded, &self.free);
            if conflicts
                && recorded.is_after(now.thread, old.thread, old.recorded_at)
                && !free.is_after(now.thread, old.thread, old.free_at)
            {
                let lock = |ix: SectionIx| self.sections.get(ix).map(|section| section.lock);
                let same_lock = lock(old.section) == lock(now.section);
                let class = self.classifier.class(old.section, now.section);
                let kind = match same_lock && class == Class::Benign {
                    true => RaceKind::Benign,
                    false => RaceKind::Ordered,
                };
                *self
                    .races
                    .entry((word, old.side, now.side, kind))
                    .or_default() += 1;
            }
        }
    }
}

fn side(site: SiteIx, access: &Access) -> RaceSide {
    RaceSide {
        site,
        place: match access.written {
            true => access.written_at,
            false => access.read_at,
        },
        writes: access.written,
    }
}
