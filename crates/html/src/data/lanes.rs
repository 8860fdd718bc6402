//! The timeline: what every thread did when.

use std::collections::{HashMap, HashSet};

use convoy_analysis::counters::EventClass;
use convoy_model::{Doing, Interval, Lane, ObjectId, OffCpu, OffReason, Sched, ThreadId, Waker};
use convoy_report::{sched_names, Report};
use serde::Serialize;

use super::strings::Strings;
use super::thin;
use crate::bytes;

/// Intervals that a page carries at most: some eight bytes each.
const MOST: usize = 800_000;

/// The rows that intervals name.
#[derive(Debug, Serialize)]
pub(crate) struct Rows {
    end_ns: u64,
    pub(crate) intervals: usize,
    joined_below_ns: u64,
    threads_left_out: u64,
    /// What is waited for: a text, the object if there is one, where, and 1 if somebody could shorten it.
    offs: Vec<(u32, Option<u32>, u32, u8)>,
    /// Where a thread ran.
    slices: Vec<u32>,
    /// Who woke: the thread's place among the lanes, what to say of one that has none, and where it was.
    wakes: Vec<(Option<u32>, u32, u32)>,
}

pub(crate) struct Lanes {
    pub(crate) rows: Rows,
    /// For each thread in order: the number of its intervals; of each: the gap before it, its length, what it did
    /// and whether it is mixed, the row, the waker, the shares.
    pub(crate) intervals: Vec<u8>,
    pub(crate) joined_below_ns: u64,
}

const RUNNING: u64 = 0;
const SPINNING: u64 = 1;
const WOKEN: u64 = 2;
const PREEMPTED: u64 = 3;
const WAITING: u64 = 4;
const MIXED: u64 = 8;

pub(crate) fn lanes(
    report: &Report<'_>,
    order: &[ThreadId],
    strings: &mut Strings,
) -> Option<Lanes> {
    let sched = report.model.sched.as_ref()?;
    let timeline = sched.timeline.as_ref()?;
    let (thinner, joined) = thin::thinned(&timeline.lanes, MOST);
    let all: &[Lane] = thinner.as_deref().unwrap_or(&timeline.lanes);
    let mut of: HashMap<ThreadId, Vec<&Lane>> = HashMap::new();
    for lane in all {
        of.entry(lane.thread).or_default().push(lane);
    }
    let mut writer = Writer {
        report,
        sched,
        strings,
        place: (0u32..).zip(order).map(|(at, &id)| (id, at)).collect(),
        offs: Table::default(),
        shortenable: Shortenable::of(report),
        slices: Table::default(),
        wakes: Table::default(),
        bytes: Vec::new(),
    };
    for id in order {
        let mut intervals: Vec<_> = of.get(id).into_iter().flatten().collect();
        intervals.sort_by_key(|lane| lane.intervals.first().map(|i| i.start_ns));
        writer.thread(intervals.iter().flat_map(|lane| &lane.intervals));
    }
    let joined_below_ns = timeline.merged_below_ns.max(joined);
    let rows = Rows {
        end_ns: sched.wall_ns(),
        intervals: all.iter().map(|lane| lane.intervals.len()).sum(),
        joined_below_ns,
        threads_left_out: timeline.threads_left_out,
        offs: writer.offs.rows,
        slices: writer.slices.rows,
        wakes: writer.wakes.rows,
    };
    Some(Lanes {
        rows,
        intervals: writer.bytes,
        joined_below_ns,
    })
}

/// The rows that occur, in the order in which they do.
#[derive(Default)]
struct Table<R> {
    index: HashMap<u32, u32>,
    rows: Vec<R>,
}

impl<R> Table<R> {
    fn row(&mut self, id: Option<u32>, make: impl FnOnce(usize) -> Option<R>) -> Option<u32> {
        let id = id?;
        if let Some(&row) = self.index.get(&id) {
            return Some(row);
        }
        let row = self.rows.len() as u32;
        self.rows.push(make(id as usize)?);
        self.index.insert(id, row);
        Some(row)
    }
}

/// Which waits other threads could have shortened: those for locks, and for events that did not
/// merely come when they came.
pub(super) struct Shortenable(HashSet<ObjectId>);

impl Shortenable {
    pub(super) fn of(report: &Report<'_>) -> Self {
        let locks = report.analysis.locks.iter().map(|row| row.object);
        let events = report.analysis.events.iter();
        let events = events.filter(|row| row.class != EventClass::Idle);
        Self(locks.chain(events.map(|row| row.object)).collect())
    }

    /// By the number of the wait's row.
    pub(super) fn is(&self, sched: &Sched, row: Option<u32>) -> bool {
        let off = row.and_then(|row| sched.offs.get(row as usize));
        off.is_some_and(|off| self.is_wait(off))
    }

    fn is_wait(&self, off: &OffCpu) -> bool {
        // Without an agent nobody knows the object, but a futex is always a wait for somebody.
        let unknown = off.reason == OffReason::Futex;
        off.object.map_or(unknown, |id| self.0.contains(&id))
    }
}

struct Writer<'a> {
    report: &'a Report<'a>,
    sched: &'a Sched,
    strings: &'a mut Strings,
    place: HashMap<ThreadId, u32>,
    offs: Table<(u32, Option<u32>, u32, u8)>,
    shortenable: Shortenable,
    slices: Table<u32>,
    wakes: Table<(Option<u32>, u32, u32)>,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    fn thread<'i>(&mut self, intervals: impl Iterator<Item = &'i Interval> + Clone) {
        bytes::number(&mut self.bytes, intervals.clone().count() as u64);
        let mut before = self.sched.start_ns;
        for interval in intervals {
            // Those of a damaged file may overlap.
            let start = interval.start_ns.max(before);
            let end = interval.end_ns.max(start);
            bytes::number(&mut self.bytes, start - before);
            bytes::number(&mut self.bytes, end - start);
            before = end;
            self.did(interval);
        }
    }

    fn did(&mut self, interval: &Interval) {
        let (did, row) = match interval.doing {
            Doing::Running(slice) => (RUNNING, self.slice(slice)),
            Doing::Spinning(slice) => (SPINNING, self.slice(slice)),
            Doing::Woken => (WOKEN, None),
            Doing::Preempted(off) => (PREEMPTED, self.off(off)),
            Doing::Waiting(off) => (WAITING, self.off(off)),
        };
        let mixed = if interval.mix.is_some() { MIXED } else { 0 };
        bytes::number(&mut self.bytes, did | mixed);
        bytes::option(&mut self.bytes, row);
        let wake = self.wake(interval.wake);
        bytes::option(&mut self.bytes, wake);
        if let Some(mix) = &interval.mix {
            // In 255ths: finer than the height of a lane.
            self.bytes
                .extend([mix.running, mix.spinning, mix.ready].map(|share| (share >> 8) as u8));
        }
    }

    fn slice(&mut self, id: Option<u32>) -> Option<u32> {
        let (sched, model, strings) = (self.sched, self.report.model, &mut *self.strings);
        self.slices.row(id, |id| {
            let slice = sched.slices.get(id)?;
            Some(strings.id(sched_names::path_of(model, slice.site, 3)))
        })
    }

    fn off(&mut self, id: Option<u32>) -> Option<u32> {
        let (sched, model, strings) = (self.sched, self.report.model, &mut *self.strings);
        let shortenable = &self.shortenable;
        self.offs.row(id, |id| {
            let off = sched.offs.get(id)?;
            let reason = sched_names::reason(off.reason);
            let text = match sched_names::waited_for(model, off.object, off.name) {
                Some(name) => format!("{reason}: {name}"),
                None => reason.into(),
            };
            let place = strings.id(sched_names::path_of(model, off.site, 3));
            let matters = shortenable.is_wait(off);
            let object = off.object.map(|id| id.0);
            Some((strings.id(text), object, place, u8::from(matters)))
        })
    }

    fn wake(&mut self, id: Option<u32>) -> Option<u32> {
        let (sched, model, strings) = (self.sched, self.report.model, &mut *self.strings);
        let place = &self.place;
        self.wakes.row(id, |id| {
            let wake = sched.wakes.get(id)?;
            let (lane, site) = match wake.waker {
                Waker::Thread(thread, site) => (place.get(&thread).copied(), site),
                _ => (None, None),
            };
            let text = match lane {
                Some(_) => String::new(),
                None => sched_names::waker(model, wake.waker, None),
            };
            let at = strings.id(sched_names::path_of(model, site, 3));
            Some((lane, strings.id(text), at))
        })
    }
}
