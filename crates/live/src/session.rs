//! A session: what is asked for, the probes that it takes, and the curves that come of it.
//!
//! The caller owns the clock: it calls [`Session::drive`] at least when [`Session::next_ms`] says,
//! and [`Session::sample`] once per interval. `steering` changes the probes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::curve::{Curve, CurveId, Notice, Point, Probed};
use crate::focus::Key;
use crate::governor::{share_at, Governor, Prices};
use crate::io::Descriptors;
use crate::library_calls::Extra;
use crate::lock::{LockChanges, LockReading};
use crate::place::Place;
use crate::probe::Probes;
use crate::request::Request;
use crate::row::{Function, Gate, Row, RowId, State};
use crate::thread::{Changes, Roster, Snapshot};
use convoy_probes::table::IO_GROUPS;
use convoy_probes::{Also, Counts, Refusal};

/// From the insertion of a counter to the decision about its timer, milliseconds.
pub const TRIAL_MS: u64 = 100;

/// Points of a curve that are kept.
const MOST_POINTS: usize = 3_600;

/// A probe that has been in for less says nothing yet, seconds.
pub(crate) const SHORTEST: f64 = 0.02;

/// What is measured, and how far it has come.
#[derive(Debug)]
pub struct Session {
    pub(crate) governor: Governor,
    pub(crate) rows: BTreeMap<RowId, Row>,
    pub(crate) curves: BTreeMap<CurveId, Curve>,
    pub(crate) next_id: usize,
    pub(crate) next_number: u32,
    pub(crate) roster: Roster,
    pub(crate) locks: LockChanges,
    /// For the load between decisions.
    pub(crate) load: Roster,
    pub(crate) load_ms: u64,
    pub(crate) sampled_ms: u64,
    /// Moments at which probes were read, at last and for the last sample: on a busy machine they
    /// may be read long after the threads.
    pub(crate) read_ms: u64,
    pub(crate) probes_sampled_ms: u64,
    pub(crate) interval: f64,
    /// CPU time that the program uses, in CPUs.
    pub(crate) cpu: f64,
    pub(crate) cost_share: f64,
    pub(crate) lost_calls: Lost,
    pub(crate) descriptors: Descriptors,
    /// Gates whose calls count into files, by their group.
    io_gates: Vec<Gate>,
    /// Rows and threads of the latest reading.
    reported: HashSet<(u32, u32)>,
    pub(crate) notices: Vec<Notice>,
}

/// Calls for which there was no room, at the latest reading and at the last sample.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub latest: u64,
    pub sampled: u64,
}

impl Lost {
    pub fn change(&self) -> u64 {
        self.latest.saturating_sub(self.sampled)
    }
}

impl Session {
    /// Nothing is measured yet.
    pub fn new(governor: Governor) -> Self {
        Self {
            governor,
            rows: BTreeMap::new(),
            curves: BTreeMap::new(),
            next_id: 0,
            next_number: 0,
            roster: Roster::default(),
            locks: LockChanges::default(),
            load: Roster::default(),
            load_ms: 0,
            sampled_ms: 0,
            read_ms: 0,
            probes_sampled_ms: 0,
            interval: 0.0,
            cpu: 0.0,
            cost_share: 0.0,
            lost_calls: Lost::default(),
            descriptors: Descriptors::default(),
            io_gates: Vec::new(),
            reported: HashSet::new(),
            notices: Vec::new(),
        }
    }

    /// The prices of probes, before the first function is added.
    pub fn set_prices(&mut self, prices: Prices) {
        self.governor.prices = prices;
    }

    /// Adds a curve. Of a function it has its ranges of addresses (a compiler may have made several
    /// copies), each for every range of addresses that it is called from.
    ///
    /// # Errors
    /// The probes could not be put in: nothing was added.
    pub fn add(
        &mut self,
        probes: &mut dyn Probes,
        request: Request,
        place: &Place,
    ) -> Result<CurveId, Refusal> {
        let needs_timer = request.needs_timer();
        let outer = place.within.as_ref();
        let within = outer.map(|f| self.use_row(f, Gate::default(), Also::Nothing, true));
        let callers = place.callers.iter().cloned().map(Some);
        let callers = match place.callers.is_empty() {
            true => vec![None],
            false => callers.collect(),
        };
        let gate = |caller| Gate {
            within,
            caller,
            holding: place.holding,
        };
        let mut rows: Vec<RowId> = Vec::new();
        let mut io_group = None;
        for function in &place.functions {
            let extra = request.extra(&function.name, &function.module);
            for caller in &callers {
                let gate = gate(caller.clone());
                let also = match extra {
                    Extra::Nothing => Also::Nothing,
                    Extra::Bytes(bytes) => Also::Bytes(bytes),
                    Extra::Io(io) => {
                        let group = self.io_group(&gate)?;
                        io_group = Some(group);
                        Also::Io(io, group)
                    }
                };
                rows.push(self.use_row(function, gate, also, needs_timer));
            }
        }
        rows.extend(within);
        let id = CurveId(self.fresh_id());
        let curve = Curve {
            request,
            points: VecDeque::new(),
            rows,
            io_group,
        };
        self.curves.insert(id, curve);
        if let Err(refusal) = self.insert_new(probes) {
            // Nothing of it is in.
            let _ = self.remove(probes, id);
            return Err(refusal);
        }
        Ok(id)
    }

    /// The group of files that calls behind a gate count into. Groups are not used again: what was
    /// counted before belongs to the same gate.
    fn io_group(&mut self, gate: &Gate) -> Result<u8, Refusal> {
        let known = self.io_gates.iter().position(|known| known == gate);
        let group = known.unwrap_or(self.io_gates.len());
        if known.is_none() {
            self.io_gates.push(gate.clone());
        }
        u8::try_from(group).map_err(|_| {
            Refusal::new(
                format!("files were measured in {IO_GROUPS} parts of the program already"),
                "begin another session",
            )
        })
    }

    /// Removes a curve, and the probes that no other one uses.
    ///
    /// # Errors
    /// The probes could not be taken out.
    pub fn remove(&mut self, probes: &mut dyn Probes, id: CurveId) -> Result<(), Refusal> {
        let Some(curve) = self.curves.remove(&id) else {
            return Ok(());
        };
        let needs_timer = curve.request.needs_timer();
        let mut numbers = Vec::new();
        for row_id in curve.rows {
            let Some(row) = self.rows.get_mut(&row_id) else {
                continue;
            };
            row.users = row.users.saturating_sub(1);
            let is_outer = curve.request.focus.get(Key::In).is_some() && row.gate.within.is_none();
            if needs_timer || is_outer {
                row.timer_users = row.timer_users.saturating_sub(1);
            }
            if row.users == 0 {
                numbers.extend(row.is_in().then_some(row.number));
                self.rows.remove(&row_id);
            }
        }
        match numbers.is_empty() {
            true => Ok(()),
            false => probes.remove(&numbers),
        }
    }

    /// The curves, in the order in which they were added.
    pub fn curves(&self) -> impl Iterator<Item = (CurveId, &Curve)> {
        self.curves.iter().map(|(id, curve)| (*id, curve))
    }

    /// A curve.
    pub fn curve(&self, id: CurveId) -> Option<&Curve> {
        self.curves.get(&id)
    }

    /// What the probes of a curve have counted, by function and thread. Rows that are not (yet) as
    /// the curve needs them are left out.
    pub fn probed(&self, id: CurveId) -> impl Iterator<Item = Probed<'_>> {
        let curve = self.curves.get(&id);
        let is_inner = curve.is_some_and(|curve| curve.request.focus.get(Key::In).is_some());
        let rows = curve.into_iter().flat_map(|curve| &curve.rows);
        let rows = rows.filter_map(|id| Some((*id, self.rows.get(id)?)));
        let rows = rows.filter(move |(_, row)| {
            let is_measured = row.gate.within.is_some() == is_inner;
            row.is_in() && is_measured && row.is_confined == row.gate.is_there()
        });
        rows.flat_map(|(id, row)| {
            row.totals().into_iter().map(move |cell| Probed {
                row: id,
                function: &row.function,
                is_timed: row.state == State::Timing,
                cell,
            })
        })
    }

    /// The threads.
    pub fn threads(&self) -> &Roster {
        &self.roster
    }

    /// The locks at the last sample, with what came since the one before.
    pub fn locks(&self) -> &LockChanges {
        &self.locks
    }

    /// The moment of the last sample, milliseconds since the start.
    pub fn sampled_ms(&self) -> u64 {
        self.sampled_ms
    }

    /// Seconds between the last two samples.
    pub fn interval(&self) -> f64 {
        self.interval
    }

    /// What all probes cost, as a share of the program's CPU time.
    pub fn cost_share(&self) -> f64 {
        self.cost_share
    }

    /// Functions of a curve whose calls the kernel counts by uprobes.
    pub fn uprobes(&self, id: CurveId) -> usize {
        let rows = self.curves.get(&id).into_iter().flat_map(|c| &c.rows);
        let rows = rows.filter_map(|id| self.rows.get(id));
        rows.filter(|row| row.is_in() && row.uprobe_ns.is_some())
            .count()
    }

    /// The program's CPU time per second, in CPUs.
    pub fn cpu(&self) -> f64 {
        self.cpu
    }

    /// The budget: a share of the program's CPU time.
    pub fn budget(&self) -> f64 {
        self.governor.budget
    }

    /// Names of the files and sockets that the program has open, by descriptor: read shortly before
    /// a sample, for metrics of files.
    pub fn name_files(&mut self, names: impl Iterator<Item = (u32, String)>) {
        self.descriptors.name(names);
    }

    /// Whether a metric of files is measured.
    pub fn needs_file_names(&self) -> bool {
        self.curves.values().any(|curve| curve.io_group.is_some())
    }

    /// Adds a notice of the caller's.
    pub fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The moment of the next decision; `None` = there is nothing to decide.
    pub fn next_ms(&self) -> Option<u64> {
        let rows = self.rows.values();
        let undecided = rows.filter(|row| self.is_undecided(row));
        undecided.map(|row| row.inserted_ms + TRIAL_MS).min()
    }

    fn is_undecided(&self, row: &Row) -> bool {
        row.state == State::Counting
            && row.no_timer.is_none()
            && (row.timer_users > 0 || (row.gate.is_there() && !row.is_confined))
    }

    /// Reads the probes, and decides about them.
    ///
    /// # Errors
    /// The process is gone, or probes cannot be changed.
    pub fn drive(
        &mut self,
        probes: &mut dyn Probes,
        now_ms: u64,
        threads: &Snapshot,
    ) -> Result<(), Refusal> {
        self.read(probes, now_ms)?;
        self.measure_load(now_ms, threads);
        self.govern(probes, self.read_ms)
    }

    fn read(&mut self, probes: &mut dyn Probes, now_ms: u64) -> Result<(), Refusal> {
        self.read_ms = now_ms;
        if self.rows.values().any(Row::is_in) {
            self.take(probes.read()?);
            self.read_ms = probes.now_ms().max(now_ms);
        }
        Ok(())
    }

    /// Measures the program's CPU time per second.
    fn measure_load(&mut self, now_ms: u64, threads: &Snapshot) {
        let elapsed_ms = now_ms.saturating_sub(self.load_ms);
        if elapsed_ms >= TRIAL_MS {
            self.load.update(threads.clone());
            self.cpu = self.load.cpu_ns() as f64 / 1e6 / elapsed_ms as f64;
            self.load_ms = now_ms;
        }
    }

    /// Reads everything, and adds a point to every curve. Between two samples lies an interval.
    ///
    /// # Errors
    /// As of [`Session::drive`].
    pub fn sample(
        &mut self,
        probes: &mut dyn Probes,
        now_ms: u64,
        threads: Snapshot,
        locks: Option<LockReading>,
    ) -> Result<Changes, Refusal> {
        let alive: HashSet<u32> = self.roster.alive().map(|thread| thread.tid).collect();
        for row in self.rows.values_mut() {
            let number = row.number;
            let is_reported = |tid| self.reported.contains(&(number, tid));
            row.forget_ended(|tid| alive.contains(&tid) || is_reported(tid));
        }
        self.read(probes, now_ms)?;
        let changes = self.roster.update(threads.clone());
        let has_locks = locks.is_some();
        if let Some(locks) = locks {
            self.locks.update(locks);
        }
        self.measure_load(now_ms, &threads);
        let costs = self.costs(self.read_ms);
        self.cost_share = costs
            .iter()
            .fold(0.0, |sum, (id, share)| sum + share * self.users(*id));
        let ids: Vec<CurveId> = self.curves.keys().copied().collect();
        for id in ids {
            let Some(curve) = self.curves.get(&id) else {
                continue;
            };
            let measured = self.measure(curve, now_ms, has_locks);
            let own = curve.rows.iter().filter_map(|row| costs.get(row));
            let cost_share = own.fold(0.0, |sum, share| sum + share);
            if let Some(curve) = self.curves.get_mut(&id) {
                if curve.points.len() == MOST_POINTS {
                    curve.points.pop_front();
                }
                curve.points.push_back(Point {
                    t_ms: now_ms,
                    value: measured.value,
                    gap: measured.gap,
                    cost_share,
                    by_thread: measured.by_thread,
                    histogram: measured.histogram,
                });
            }
        }
        for row in self.rows.values_mut() {
            row.sampled = row.latest.clone();
        }
        self.lost_calls.sampled = self.lost_calls.latest;
        self.descriptors.sampled();
        self.probes_sampled_ms = self.read_ms;
        self.interval = now_ms.saturating_sub(self.sampled_ms) as f64 / 1e3;
        self.sampled_ms = now_ms;
        self.drive(probes, now_ms, &threads)?;
        Ok(changes)
    }

    /// Seconds since the last sample of a row, or since its probe was put in.
    pub(crate) fn seconds(&self, row: &Row, now_ms: u64) -> f64 {
        let since = self.probes_sampled_ms.max(row.inserted_ms);
        now_ms.saturating_sub(since) as f64 / 1e3
    }

    fn users(&self, id: RowId) -> f64 {
        self.rows.get(&id).map_or(0.0, |row| row.users as f64)
    }

    /// Cost of each row for each of its users.
    fn costs(&self, now_ms: u64) -> HashMap<RowId, f64> {
        let rows = self.rows.iter().filter(|(_, row)| row.is_in());
        rows.map(|(id, row)| {
            let rate = row.recent_rate(self.seconds(row, now_ms).max(SHORTEST));
            let share = match row.uprobe_ns {
                Some(ns) => share_at(ns, rate, self.cpu),
                None => self.governor.share(rate, row.measure(), self.cpu),
            };
            (*id, share / row.users.max(1) as f64)
        })
        .collect()
    }

    fn fresh_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    /// The row of a function, new or used by others already.
    fn use_row(&mut self, function: &Function, gate: Gate, also: Also, timer: bool) -> RowId {
        let same = |row: &Row| {
            row.function.addresses == function.addresses && row.gate == gate && row.also == also
        };
        let found = self.rows.iter().find(|(_, row)| same(row));
        let id = match found {
            Some((id, _)) => *id,
            None => {
                let id = RowId(self.fresh_id());
                let row = Row::new(function.clone(), gate, also);
                self.rows.insert(id, row);
                id
            }
        };
        if let Some(row) = self.rows.get_mut(&id) {
            row.users += 1;
            row.timer_users += usize::from(timer);
        }
        id
    }

    fn take(&mut self, counts: Counts) {
        self.lost_calls.latest = counts.lost_calls;
        self.descriptors.take(counts.files, counts.lost_files);
        let numbers: HashMap<u32, RowId> = self
            .rows
            .iter()
            .filter(|(_, row)| row.is_in())
            .map(|(id, row)| (row.number, *id))
            .collect();
        self.reported = counts.cells.iter().map(|c| (c.row, c.tid)).collect();
        for cell in counts.cells {
            let row = numbers.get(&cell.row).and_then(|id| self.rows.get_mut(id));
            if let Some(row) = row {
                row.latest.insert(cell.tid, cell);
            }
        }
    }
}
