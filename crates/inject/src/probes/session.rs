//! The probes of one convoy in one process, from the first stop to the last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use convoy_probes::table::{
    function_at, row_at, table_bytes, FunctionRows, Head, Row, FUNCTION_ROWS, MAGIC, NONE, TIMED,
};

use super::area::{Area, Session};
use super::borrow::{gadgets, map_table, open, with_thread};
use super::clock::{fixed_point, TickClock};
use super::code::{Code, Known};
use super::columns::{Columns, Now, Table};
use super::cpu_clock;
use super::gadgets::Found;
use super::patching::{apply, stop_patiently, Changes};
use super::thread_pointer::{self, ThreadPointer};
use crate::attach::Owner;
use crate::memory::{regions, Memory};
use crate::refusal;
use crate::safe_point::refused;
use crate::tracee::threads;
use convoy_probes::Refusal;
use convoy_probes::{Counts, Inserted, Probe, ROWS};

/// Columns for threads that come later, besides as many as there are.
const SPARE_COLUMNS: u64 = 512;
const MAX_COLUMNS: u64 = 1 << 17;

const LOST_AT: u64 = std::mem::offset_of!(Head, no_room) as u64;

/// The probes in a process. [`Probes::end`], or dropping it, takes them out.
#[derive(Debug)]
pub struct Probes {
    pid: u32,
    memory: Memory,
    found: Found,
    session: Session,
    table: Table,
    clock: TickClock,
    code: Code,
    /// Rows in use.
    rows: HashMap<u32, RowState>,
    /// Insertions so far: entries that an earlier use of a row has left are told by it.
    generation: u16,
    columns: Columns,
    has_cpu_clock: bool,
    is_ended: bool,
}

#[derive(Debug)]
struct RowState {
    is_timed: bool,
    within: Option<u32>,
    /// Numbers of the functions that count into it, and whether their calls are timed.
    functions: Vec<(u32, bool)>,
}

impl Probes {
    /// Makes a process ready for probes: memory for the values. Nothing is patched. What a convoy
    /// that was killed has left is taken out.
    ///
    /// # Errors
    /// The process cannot be traced, has no thread pointer to tell threads by, or another convoy
    /// probes it.
    pub fn begin(pid: u32, owner: Owner) -> Result<Self, Refusal> {
        refusal::check(pid)?;
        let memory = open(pid)?;
        let found = gadgets(pid, &memory)?;
        take_over(pid, &memory, &found)?;
        let pointer = thread_pointer::look(pid)?;
        let count = threads(pid).len() as u64;
        let columns = (count * 2 + SPARE_COLUMNS)
            .next_power_of_two()
            .min(MAX_COLUMNS);
        let (at, columns) = map_table(pid, found.gadgets, columns, table_bytes)?;
        let clock = TickClock::begin();
        let descriptor = cpu_clock::prepare(pid, &memory, found.gadgets, pointer.rseq)?;
        write_head(&memory, at, columns, (pointer, descriptor), clock.now().1)
            .map_err(|e| refused(pid, e.into()))?;
        Ok(Self {
            pid,
            memory,
            found,
            session: Session {
                target: pid,
                owner_pid: owner.pid,
                owner_start: owner.start_ticks,
                table: at,
                table_bytes: table_bytes(columns),
            },
            table: Table { at, columns },
            clock,
            code: Code::new(pid),
            rows: HashMap::new(),
            generation: 0,
            columns: Columns::default(),
            has_cpu_clock: descriptor.is_some(),
            is_ended: false,
        })
    }

    /// Puts probes in, all in one stop. The results are in the order of `probes`.
    ///
    /// # Errors
    /// The process is gone, or its threads cannot be stopped at a place where nothing is in the
    /// way: nothing has changed then.
    pub fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        self.check_image()?;
        self.generation = self.generation.wrapping_add(1);
        let mut results = self.code.prepare(
            &self.memory,
            (&self.found, &self.session),
            probes.iter().map(|p| (&p.function, p.measure)),
        )?;
        self.check_rows(probes, &mut results);
        let mut next: HashMap<u32, FunctionRows> = HashMap::new();
        for (probe, result) in probes.iter().zip(&mut results) {
            if let Ok(known) = result {
                let rows = next
                    .entry(known.number)
                    .or_insert_with(|| self.rows_of(known.number));
                if !add_row(rows, probe.row, known.is_timed) {
                    let why = format!("{FUNCTION_ROWS} rows count this function already");
                    *result = Err(why);
                }
            }
        }
        self.put_in(probes, &results, &next)?;
        Ok(results.into_iter().map(inserted).collect())
    }

    /// Rows must be in the table, and refer to timed ones.
    fn check_rows(&self, probes: &[Probe], results: &mut [Result<Known, String>]) {
        let timed: BTreeSet<u32> = probes
            .iter()
            .zip(results.iter())
            .filter(|(_, r)| r.as_ref().is_ok_and(|known| known.is_timed))
            .map(|(p, _)| p.row)
            .collect();
        for (probe, result) in probes.iter().zip(results) {
            let is_timed =
                |row: u32| timed.contains(&row) || self.rows.get(&row).is_some_and(|r| r.is_timed);
            if probe.row >= ROWS {
                *result = Err(format!("row {} of {ROWS}", probe.row));
            } else if let Some(within) = probe.within.filter(|row| !is_timed(*row)) {
                *result = Err(format!("row {within}, which it depends on, is not timed"));
            }
        }
    }

    fn put_in(
        &mut self,
        probes: &[Probe],
        results: &[Result<Known, String>],
        next: &HashMap<u32, FunctionRows>,
    ) -> Result<(), Refusal> {
        let good = || {
            let both = probes.iter().zip(results);
            both.filter_map(|(probe, result)| Some((probe, result.as_ref().ok()?)))
        };
        let mut states: HashMap<u32, RowState> = HashMap::new();
        for (probe, known) in good() {
            let state = states.entry(probe.row).or_insert(RowState {
                is_timed: false,
                within: probe.within,
                functions: Vec::new(),
            });
            state.is_timed |= known.is_timed;
            state.functions.push((known.number, known.is_timed));
        }
        let new: Vec<u32> = states
            .keys()
            .filter(|r| !self.rows.contains_key(r))
            .copied()
            .collect();
        let mut changes = Changes::default();
        self.code
            .changes_in(good().map(|(_, known)| known), &mut changes);
        let (table, generation) = (self.table, self.generation);
        let old = &self.rows;
        let write = |memory: &Memory| -> io::Result<()> {
            table.clear_rows(memory, &new)?;
            for (row, state) in &states {
                if !old.contains_key(row) {
                    memory.put(table.at + row_at(*row), &described(state, generation))?;
                }
            }
            for (number, rows) in next {
                memory.put(table.at + function_at(*number), rows)?;
            }
            Ok(())
        };
        if !states.is_empty() {
            apply(self.pid, &changes, &self.found.signal_returns, write)?;
        }
        drop(changes);
        self.code.note_in(good().map(|(_, known)| known));
        self.columns.forget_rows(&new);
        for (row, state) in states {
            match self.rows.get_mut(&row) {
                Some(before) => before.functions.extend(state.functions),
                None => drop(self.rows.insert(row, state)),
            }
        }
        Ok(())
    }

    fn rows_of(&self, number: u32) -> FunctionRows {
        let mut rows = FunctionRows {
            row: [NONE; FUNCTION_ROWS],
        };
        for (row, state) in &self.rows {
            for (_, is_timed) in state.functions.iter().filter(|(n, _)| *n == number) {
                add_row(&mut rows, *row, *is_timed);
            }
        }
        rows
    }

    /// Takes the probes of these rows out; rows that are not in use are ignored.
    ///
    /// # Errors
    /// The process is gone, or its threads cannot be stopped.
    pub fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        self.check_image()?;
        let removed: Vec<u32> = rows
            .iter()
            .filter(|r| self.rows.contains_key(r))
            .copied()
            .collect();
        let states: Vec<RowState> = removed.iter().filter_map(|r| self.rows.remove(r)).collect();
        let numbers: BTreeSet<u32> = states
            .iter()
            .flat_map(|s| s.functions.iter().map(|f| f.0))
            .collect();
        let left: Vec<(u32, FunctionRows)> =
            numbers.iter().map(|n| (*n, self.rows_of(*n))).collect();
        let unused: Vec<u32> = left
            .iter()
            .filter(|(_, rows)| rows.row[0] == NONE)
            .map(|(number, _)| *number)
            .collect();
        let mut changes = Changes::default();
        self.code.changes_out(&unused, &mut changes);
        let table = self.table;
        let write = |memory: &Memory| -> io::Result<()> {
            let mut left = left.iter();
            left.try_for_each(|(number, rows)| memory.put(table.at + function_at(*number), rows))
        };
        if !numbers.is_empty() {
            apply(self.pid, &changes, &self.found.signal_returns, write)?;
        }
        drop(changes);
        self.code.note_out(&unused);
        Ok(())
    }

    /// All values, also of threads that have ended.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(&mut self) -> Result<Counts, Refusal> {
        self.check_image()?;
        let alive: BTreeSet<u32> = threads(self.pid).into_iter().collect();
        let rows = self
            .rows
            .iter()
            .map(|(row, state)| (*row, state.is_timed))
            .collect();
        let (ticks, ns_per_tick) = self.clock.now();
        let now = Now {
            ticks,
            ns_per_tick,
            has_cpu_clock: self.has_cpu_clock,
        };
        let cells = self
            .columns
            .read((&self.memory, self.pid), self.table, &rows, &alive, now);
        let lost = self.memory.get::<u64>(self.table.at + LOST_AT);
        let counts = cells.and_then(|cells| {
            let lost_calls = lost?;
            Ok(Counts { cells, lost_calls })
        });
        counts.map_err(|e| refused(self.pid, e.into()))
    }

    /// Takes everything out: every byte of the program is as before. The stubs stay mapped, since
    /// threads may be in them.
    ///
    /// # Errors
    /// The process cannot be stopped.
    pub fn end(mut self) -> Result<(), Refusal> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.is_ended, true) || self.check_image().is_err() {
            return Ok(());
        }
        let Some(stopped) = stop_patiently(self.pid)? else {
            return Ok(());
        };
        let restored = self.code.areas_mut().try_for_each(|area| {
            area.restore(&self.memory)?;
            area.leave(&self.memory)
        });
        drop(stopped);
        match restored {
            Ok(()) => Ok(()),
            Err(e) if self.check_image().is_ok() => Err(refused(self.pid, e.into())),
            Err(_) => Ok(()),
        }
    }

    /// Whether the process runs the image that was probed.
    fn check_image(&self) -> Result<(), Refusal> {
        match self.memory.get::<u64>(self.table.at) {
            Ok(MAGIC) => Ok(()),
            _ => Err(Refusal::gone(self.pid)),
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // Whoever wants to know whether it worked calls `end`.
        let _ = self.leave();
    }
}

fn inserted(result: Result<Known, String>) -> Inserted {
    match result {
        Err(why) => Inserted::No { why },
        Ok(Known { why: Some(why), .. }) => Inserted::CallsOnly { why },
        Ok(_) => Inserted::Whole,
    }
}

fn described(state: &RowState, generation: u16) -> Row {
    Row {
        within: state.within.map_or(NONE, |row| row as u16),
        generation,
        reserved: [0; 2],
    }
}

/// False: there is no room.
fn add_row(rows: &mut FunctionRows, row: u32, is_timed: bool) -> bool {
    let row = row as u16;
    let mut places = rows.row.iter_mut();
    match places.find(|place| **place == NONE || **place & !TIMED == row) {
        Some(place) => *place = if is_timed { row | TIMED } else { row },
        None => return false,
    }
    true
}

fn write_head(
    memory: &Memory,
    at: u64,
    columns: u64,
    (pointer, descriptor): (ThreadPointer, Option<u64>),
    ns_per_tick: f64,
) -> io::Result<()> {
    let head = Head {
        magic: MAGIC,
        columns,
        hash_shift: 64 - u64::from(columns.trailing_zeros()),
        tid_offset: pointer.tid_offset.unwrap_or(0),
        ns_per_tick: fixed_point(ns_per_tick),
        no_room: 0,
        descriptor: descriptor.unwrap_or(0),
        rseq_offset: pointer.rseq.map_or(0, |rseq| rseq.offset),
        reserved: [0; 8],
    };
    memory.put(at, &head)
}

/// Takes out what a convoy has left that was killed, or that probes the process from which this
/// one was forked, and frees its memory if no thread is in it.
fn take_over(pid: u32, memory: &Memory, found: &Found) -> Result<(), Refusal> {
    let gone = |_| Refusal::gone(pid);
    let mut areas = Area::find(memory, &regions(pid).map_err(gone)?);
    if areas.is_empty() {
        return Ok(());
    }
    let is_alive = |head: &super::area::Head| {
        let owner = Owner {
            pid: head.owner_pid,
            start_ticks: head.owner_start,
        };
        head.owner_pid != 0 && head.target == pid && owner.is_alive()
    };
    if let Some(area) = areas.iter().find(|a| is_alive(a.head())) {
        return Err(Refusal::new(
            format!(
                "another convoy (process {}) probes process {pid}",
                area.head().owner_pid
            ),
            "wait until it has ended",
        ));
    }
    let fault = |fault| refused(pid, fault);
    let Some(stopped) = stop_patiently(pid)? else {
        return Err(Refusal::gone(pid));
    };
    for area in &mut areas {
        let left = area.restore(memory).and_then(|()| area.leave(memory));
        left.map_err(|e| fault(e.into()))?;
    }
    let mut all_left = true;
    for area in &areas {
        all_left &= thread_pointer::is_left(&stopped, memory, &area.range()).map_err(fault)?;
    }
    drop(stopped);
    if !all_left {
        return Ok(());
    }
    // Without a patch nobody comes into them any more.
    with_thread(pid, found.gadgets, |thread| {
        // Areas of one session have one table. It is unmapped once: its place may be another
        // mapping's right after.
        let tables = areas.iter().map(|a| (a.head().table, a.head().table_bytes));
        let tables: BTreeMap<u64, u64> = tables.collect();
        let areas = areas.iter().map(|a| (a.at, a.head().bytes));
        for (at, bytes) in areas.chain(tables) {
            thread.system_call(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0])?;
        }
        Ok(())
    })
}
