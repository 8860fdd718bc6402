//! The timeline of a run by role, in few enough columns to be drawn without a script, with what
//! the first finding is about marked.

use std::collections::HashMap;

use convoy_model::finding::Finding;
use convoy_model::{Doing, Interval, Lane, Sched, ThreadId, Waker};
use convoy_report::Report;

use super::focus::Focus;
use super::holds::{holds, EndedWait, Hold};
use super::lanes::Shortenable;
use crate::roles::Roles;

/// Columns of the picture: as many as a telephone has pixels to spare, twice.
pub(crate) const COLUMNS: usize = 240;
/// Roles with a band of their own.
const BANDS: usize = 6;
/// A role with less than this share of all threads' time has no band, unless it is marked.
const MIN_SHARE: f64 = 0.002;

/// What a thread does, in the order in which it is stacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Culprit,
    Blocked,
    Running,
    Spinning,
    Ready,
    Other,
}

pub(crate) const PARTS: usize = 6;

/// A role's time by column.
#[derive(Debug, Clone)]
pub(crate) struct Band {
    /// Its place in [`Roles::list`]; `None`: several roles.
    pub(crate) role: Option<usize>,
    /// Roles that it stands for.
    pub(crate) roles: usize,
    /// Nanoseconds by [`Part`] and column.
    pub(crate) columns: Vec<[f64; PARTS]>,
    /// Most threads in a column.
    pub(crate) at_once: f64,
}

impl Band {
    fn new(role: usize) -> Self {
        Self {
            role: Some(role),
            roles: 1,
            columns: vec![[0.0; PARTS]; COLUMNS],
            at_once: 0.0,
        }
    }

    /// Nanoseconds of a part.
    pub(crate) fn sum(&self, part: Part) -> f64 {
        self.columns
            .iter()
            .map(|column| column[part as usize])
            .sum()
    }

    pub(crate) fn total(&self) -> f64 {
        self.columns.iter().flatten().sum()
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.sum(Part::Culprit) + self.sum(Part::Blocked) > 0.0
    }

    fn add(&mut self, other: &Self) {
        for (column, more) in self.columns.iter_mut().zip(&other.columns) {
            for (ns, more) in column.iter_mut().zip(more) {
                *ns += more;
            }
        }
    }
}

/// The whole picture.
#[derive(Debug)]
pub(crate) struct Bands {
    /// Marked ones first, then those that work most.
    pub(crate) bands: Vec<Band>,
    pub(crate) end_ns: u64,
    pub(crate) culprit: String,
    /// The same in a word.
    pub(crate) verb: &'static str,
    pub(crate) blocked: String,
}

impl Bands {
    /// Something of the finding is in it.
    pub(crate) fn is_marked(&self) -> bool {
        self.bands.iter().any(Band::is_marked)
    }
}

/// `None`: no timeline was kept.
pub(crate) fn bands(report: &Report<'_>, first: Option<&Finding>, roles: &Roles) -> Option<Bands> {
    let sched = report.model.sched.as_ref()?;
    let lanes = &sched.timeline.as_ref()?.lanes;
    if lanes.iter().all(|lane| lane.intervals.is_empty()) || sched.wall_ns() == 0 {
        return None;
    }
    let focus = first.map_or_else(Focus::default, |finding| Focus::of(report, finding));
    let mut painter = Painter::new(report, sched, focus, roles);
    lanes.iter().for_each(|lane| painter.lane(lane));
    Some(painter.finish())
}

struct Painter<'a> {
    report: &'a Report<'a>,
    sched: &'a Sched,
    shortenable: Shortenable,
    focus: Focus,
    roles: &'a Roles,
    width_ns: f64,
    bands: Vec<Band>,
    /// Waits that may be for the culprit, by role and column.
    meanwhile: Vec<Vec<f64>>,
    holds: HashMap<ThreadId, Vec<Hold>>,
    /// The interval before was a wait for the culprit.
    was_blocked: bool,
}

impl<'a> Painter<'a> {
    fn new(report: &'a Report<'a>, sched: &'a Sched, focus: Focus, roles: &'a Roles) -> Self {
        let mut of: HashMap<ThreadId, Vec<Hold>> = HashMap::new();
        if focus.has_holders {
            for hold in holds(ended_waits(sched, &focus)) {
                of.entry(hold.holder).or_default().push(hold);
            }
        }
        Self {
            report,
            sched,
            shortenable: Shortenable::of(report),
            focus,
            roles,
            width_ns: sched.wall_ns() as f64 / COLUMNS as f64,
            bands: (0..roles.list.len()).map(Band::new).collect(),
            meanwhile: vec![vec![0.0; COLUMNS]; roles.list.len()],
            holds: of,
            was_blocked: false,
        }
    }

    fn lane(&mut self, lane: &Lane) {
        let Some(role) = self.roles.of_thread(self.report.model, lane.thread) else {
            return;
        };
        let holds = self.holds.remove(&lane.thread).unwrap_or_default();
        let mut next = 0;
        self.was_blocked = false;
        for interval in &lane.intervals {
            // The parts of it in which the thread held the lock are the culprit's.
            let mut from = interval.start_ns;
            while let Some(hold) = holds
                .get(next)
                .filter(|hold| hold.start_ns < interval.end_ns)
            {
                let start = hold.start_ns.max(from);
                let end = hold.end_ns.min(interval.end_ns);
                self.paint(role, lane.thread, interval, from, start);
                self.add(role, Part::Culprit, start, end, 1.0);
                from = end.max(from);
                if hold.end_ns > interval.end_ns {
                    break;
                }
                next += 1;
            }
            self.paint(role, lane.thread, interval, from, interval.end_ns);
            self.was_blocked =
                matches!(interval.doing, Doing::Waiting(row) if self.focus.is_blocked(row));
        }
        self.holds.insert(lane.thread, holds);
    }

    /// Adds what an interval says of the time between two instants.
    fn paint(&mut self, role: usize, thread: ThreadId, interval: &Interval, from: u64, to: u64) {
        if to <= from {
            return;
        }
        let times = interval.times();
        let all = times.all_ns().max(1) as f64;
        let focus = &self.focus;
        let (running, spinning, waiting) = match interval.doing {
            Doing::Running(row) if focus.is_culprit(thread, row) => {
                (Part::Culprit, Part::Spinning, None)
            }
            Doing::Running(row) if focus.is_busy_wait(row) => (Part::Blocked, Part::Blocked, None),
            Doing::Spinning(row) if focus.is_busy_wait(row) => (Part::Running, Part::Blocked, None),
            Doing::Waiting(row) if focus.is_culprits_wait(row) => {
                (Part::Running, Part::Spinning, Some(Part::Culprit))
            }
            Doing::Waiting(row) if focus.is_blocked(row) => {
                (Part::Running, Part::Spinning, Some(Part::Blocked))
            }
            _ if focus.is_culprit(thread, None) => (Part::Culprit, Part::Spinning, None),
            _ => (Part::Running, Part::Spinning, None),
        };
        let is_meanwhile = match interval.doing {
            Doing::Waiting(row) if waiting.is_none() => {
                focus.is_waiter(thread, self.shortenable.is(self.sched, row))
            }
            _ => false,
        };
        let share = |ns: u64| ns as f64 / all;
        self.add(role, running, from, to, share(times.running_ns));
        self.add(role, spinning, from, to, share(times.spinning_ns));
        // A wait for a lock ends when the lock is acquired, which takes a CPU.
        let is_acquiring = waiting == Some(Part::Blocked)
            || (self.was_blocked && matches!(interval.doing, Doing::Woken));
        let ready = match is_acquiring {
            true => Part::Blocked,
            false => Part::Ready,
        };
        self.add(role, ready, from, to, share(times.ready_ns));
        if is_meanwhile {
            self.each_column(from, to, |painter, column, ns| {
                painter.meanwhile[role][column] += ns * share(times.waiting_ns);
            });
        } else {
            let waiting = waiting.unwrap_or(Part::Other);
            self.add(role, waiting, from, to, share(times.waiting_ns));
        }
    }

    fn add(&mut self, role: usize, part: Part, from: u64, to: u64, share: f64) {
        if share > 0.0 {
            self.each_column(from, to, |painter, column, ns| {
                painter.bands[role].columns[column][part as usize] += ns * share;
            });
        }
    }

    fn each_column(&mut self, from: u64, to: u64, mut add: impl FnMut(&mut Self, usize, f64)) {
        let start_ns = self.sched.start_ns;
        let at = |ns: u64| ns.saturating_sub(start_ns) as f64 / self.width_ns;
        let (from, to) = (at(from), at(to).min(COLUMNS as f64));
        // Nothing, as where a damaged file has a gap.
        if to <= from {
            return;
        }
        let width_ns = self.width_ns;
        let mut column = from.floor();
        while column < to {
            let part = to.min(column + 1.0) - from.max(column);
            add(self, column as usize, part * width_ns);
            column += 1.0;
        }
    }

    fn finish(mut self) -> Bands {
        // While the culprit runs half of the time, half of the others' time is spent on it.
        for column in 0..COLUMNS {
            let culprit: f64 = self.bands.iter().map(|b| b.columns[column][0]).sum();
            let share = (culprit / self.width_ns).min(1.0);
            for (band, meanwhile) in self.bands.iter_mut().zip(&self.meanwhile) {
                let ns = meanwhile[column];
                band.columns[column][Part::Blocked as usize] += ns * share;
                band.columns[column][Part::Other as usize] += ns * (1.0 - share);
            }
        }
        let all: f64 = self.bands.iter().map(Band::total).sum();
        let mut bands = self.bands;
        bands.retain(|band| band.is_marked() || band.total() > MIN_SHARE * all);
        let rank = |band: &Band| {
            let marked = [Part::Culprit, Part::Blocked].map(|part| band.sum(part));
            (marked[0] + marked[1], band.sum(Part::Running))
        };
        bands.sort_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        if bands.len() > BANDS {
            let others = bands.split_off(BANDS - 1);
            let mut sum = Band {
                role: None,
                roles: others.len(),
                ..Band::new(0)
            };
            others.iter().for_each(|band| sum.add(band));
            bands.push(sum);
        }
        for band in &mut bands {
            let threads = |column: &[f64; PARTS]| column.iter().sum::<f64>() / self.width_ns;
            band.at_once = band.columns.iter().map(threads).fold(0.0, f64::max);
        }
        let marked = |part, text: String| {
            let is_there = bands.iter().any(|band| band.sum(part) > 0.0);
            if is_there {
                text
            } else {
                String::new()
            }
        };
        Bands {
            culprit: marked(Part::Culprit, self.focus.culprit),
            blocked: marked(Part::Blocked, self.focus.blocked),
            verb: self.focus.verb,
            end_ns: self.sched.wall_ns(),
            bands,
        }
    }
}

/// Waits for the lock that a thread ended. Joined intervals do not say which one did.
fn ended_waits(sched: &Sched, focus: &Focus) -> Vec<EndedWait> {
    let timeline = sched.timeline.as_ref();
    let lanes = timeline.map_or(&[][..], |timeline| &timeline.lanes);
    let intervals = lanes.iter().flat_map(|lane| &lane.intervals);
    let waits = intervals.filter(|interval| {
        let is_blocked = matches!(interval.doing, Doing::Waiting(row) if focus.is_blocked(row));
        is_blocked && interval.mix.is_none()
    });
    let ended = waits.filter_map(|interval| {
        let wake = sched.wakes.get(interval.wake? as usize)?;
        let Waker::Thread(waker, _) = wake.waker else {
            return None;
        };
        Some(EndedWait {
            start_ns: interval.start_ns,
            end_ns: interval.end_ns,
            waker,
        })
    });
    ended.collect()
}

#[cfg(test)]
#[path = "band_tests.rs"]
mod tests;
