//! The probes of one convoy in one process, from the first stop to the last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use convoy_probes::table::{
    function_at, row_at, table_bytes, FunctionRows, Head, FUNCTION_ROWS, MAGIC, NONE, TIMED,
};
use zerocopy::IntoBytes;

use super::area::Session;
use super::borrow::{gadgets, open, unmap};
use super::clock::{fixed_point, TickClock};
use super::code::{Code, Known};
use super::columns::{Columns, Counted, Now, Table};
use super::inside::{Inside, Timed};
use super::leftovers::{take_out, take_over, turn};
use super::patching::apply;
use super::row::described;
use super::thread_pointer::{self, ThreadPointer};
use super::{cpu_clock, table_memory};
use crate::gadgets::Found;
use crate::memory::Memory;
use crate::owner::Owner;
use crate::refusal;
use crate::safe_point::refused;
use crate::tracee::threads;
use crate::tracer::retry;
use crate::turn::Turn;
use convoy_probes::Refusal;
use convoy_probes::{Also, Counts, Inserted, Probe, ROWS};

/// How long it is waited for what keeps probes out and may pass.
const LIMIT: Duration = Duration::from_secs(3);

const LOST_AT: u64 = offset_of!(Head, no_room) as u64;

/// The probes in a process. [`Probes::end`], or dropping it, takes them out.
#[derive(Debug)]
pub struct Probes {
    pid: u32,
    owner: Owner,
    memory: Memory,
    found: Found,
    pointer: ThreadPointer,
    clock: TickClock,
    /// Since the first insertion.
    counting: Option<Counting>,
    code: Code,
    /// Rows in use.
    rows: HashMap<u32, RowState>,
    /// Rows that were ever in use, and whether any of their probes was timed: they are not 0.
    used: BTreeMap<u32, bool>,
    /// Insertions so far: entries that an earlier use of a row has left are told by it.
    generation: u16,
    columns: Columns,
    inside: Arc<Inside>,
    last_stop: Duration,
    is_ended: bool,
}

/// The table in the process.
#[derive(Debug, Clone, Copy)]
struct Counting {
    session: Session,
    table: Table,
    has_cpu_clock: bool,
}

#[derive(Debug)]
struct RowState {
    is_timed: bool,
    /// What is counted in it, and when.
    probe: Probe,
    /// Numbers of the functions that count into it, and whether their calls are timed.
    functions: Vec<(u32, bool)>,
}

impl Probes {
    /// Finds out whether a process can be probed. Nothing is mapped or patched yet. What a convoy
    /// that was killed has left is taken out.
    ///
    /// # Errors
    /// The process cannot be traced, has no thread pointer to tell threads by, or another convoy
    /// probes it.
    pub fn begin(pid: u32, owner: Owner) -> Result<Self, Refusal> {
        let turn = turn(pid)?;
        retry(LIMIT, || refusal::check(pid))?;
        let memory = open(pid)?;
        let found = gadgets(pid, &memory)?;
        take_over(pid, &memory, Some(&found))?;
        drop(turn);
        Ok(Self {
            pid,
            owner,
            pointer: thread_pointer::look(pid)?,
            memory,
            found,
            clock: TickClock::begin(),
            counting: None,
            code: Code::new(pid),
            rows: HashMap::new(),
            used: BTreeMap::new(),
            generation: 0,
            columns: Columns::of(pid),
            inside: Arc::new(Inside::new(pid)),
            last_stop: Duration::ZERO,
            is_ended: false,
        })
    }

    /// Takes out what a convoy has left in a process that was killed.
    ///
    /// # Errors
    /// Another convoy probes the process, or it cannot be traced.
    pub fn clean_up(pid: u32) -> Result<(), Refusal> {
        let _turn = turn(pid)?;
        let memory = open(pid)?;
        // Without them the memory stays mapped.
        let found = gadgets(pid, &memory).ok();
        take_over(pid, &memory, found.as_ref())
    }

    /// Puts probes in, all in one stop. The results are in the order of `probes`.
    ///
    /// # Errors
    /// The process is gone, or its threads cannot be stopped at a place where nothing is in the
    /// way: nothing has changed then.
    pub fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        self.check_image()?;
        if probes.is_empty() {
            return Ok(Vec::new());
        }
        retry(LIMIT, || refusal::check(self.pid))?;
        // Until an area in the process says whose it is.
        let (counting, _turn) = self.begin_counting()?;
        self.generation = self.generation.wrapping_add(1);
        let mut results = self.code.prepare(
            &self.memory,
            (&self.found, &counting.session),
            probes.iter().map(|p| (&p.function, p.measure)),
        )?;
        self.check_rows(probes, &mut results);
        let mut next: HashMap<u32, FunctionRows> = HashMap::new();
        for (probe, result) in probes.iter().zip(&mut results) {
            if let Ok(known) = result {
                let rows = next
                    .entry(known.number)
                    .or_insert_with(|| self.rows_of(known.number, &BTreeSet::new()));
                if !add_row(rows, probe.row, known.is_timed) {
                    let why = format!("{FUNCTION_ROWS} rows count this function already");
                    *result = Err(why);
                }
            }
        }
        self.put_in(counting.table, probes, &results, &next)?;
        Ok(results.into_iter().map(inserted).collect())
    }

    /// Maps the table, the first time.
    fn begin_counting(&mut self) -> Result<(Counting, Option<Turn>), Refusal> {
        if let Some(counting) = self.counting {
            return Ok((counting, None));
        }
        let pid = self.pid;
        let turn = turn(pid)?;
        take_over(pid, &self.memory, Some(&self.found))?;
        let gadgets = self.found.gadgets;
        let descriptor = cpu_clock::prepare(pid, &self.memory, gadgets, self.pointer.rseq)?;
        let (at, columns) = table_memory::map(pid, gadgets, threads(pid).len() as u64)?;
        let bytes = table_bytes(columns);
        let ns_per_tick = self.clock.now().1;
        let about = (self.pointer, descriptor);
        if let Err(e) = write_head(&self.memory, at, columns, about, ns_per_tick) {
            // It fails only if the image is gone.
            let _ = unmap(pid, gadgets, vec![(at, bytes)]);
            return Err(refused(pid, e.into()));
        }
        let counting = Counting {
            session: Session {
                target: pid,
                owner_pid: self.owner.pid,
                owner_start: self.owner.start_ticks,
                table: at,
                table_bytes: bytes,
            },
            table: Table { at, columns },
            has_cpu_clock: descriptor.is_some(),
        };
        self.code.counts_into(columns, self.pointer.tid_offset);
        self.counting = Some(counting);
        Ok((counting, Some(turn)))
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
        table: Table,
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
                probe: probe.clone(),
                functions: Vec::new(),
            });
            state.is_timed |= known.is_timed;
            state.functions.push((known.number, known.is_timed));
        }
        if states.is_empty() {
            return Ok(());
        }
        let io_group = |probe: &Probe| match probe.also {
            Also::Io(_, group) => Some(group),
            _ => None,
        };
        let timed_rows = self.rows.values().filter(|row| row.is_timed);
        let counting: BTreeSet<u8> = timed_rows.filter_map(|row| io_group(&row.probe)).collect();
        let with_time = good().filter(|(_, known)| known.is_timed);
        let restarted: BTreeSet<u8> = with_time
            .filter_map(|(probe, _)| io_group(probe))
            .filter(|group| !counting.contains(group))
            .collect();
        let mut new = Vec::new();
        let mut written = of_functions(table, next);
        for (row, state) in states.iter().filter(|(r, _)| !self.rows.contains_key(r)) {
            let about = described(&state.probe, self.generation);
            written.push((table.at + row_at(*row), about.as_bytes().to_vec()));
            new.push(*row);
        }
        let changes = self.code.changes_in(good().map(|(_, known)| known));
        let again = new
            .iter()
            .filter_map(|row| Some((*row, *self.used.get(row)?)));
        let cleared: BTreeMap<u32, bool> = again.collect();
        let written = joined(written);
        // A row that was there before goes on as it is.
        let timed = good().filter(|(probe, known)| known.is_timed && new.contains(&probe.row));
        let mut timed: Vec<Timed> = timed
            .filter_map(|(probe, known)| Timed::of(probe, known.number))
            .collect();
        timed.sort_by_key(|timed| timed.within.is_some());
        let (inside, generation) = (Arc::clone(&self.inside), self.generation);
        if !timed.is_empty() {
            inside.prepare();
        }
        self.last_stop = apply(
            self.pid,
            changes,
            &self.found.signal_returns,
            move |stopped, memory| {
                table.clear_rows(memory, &cleared)?;
                table.restart_files(memory, &restarted)?;
                write_all(memory, &written)?;
                inside.note(stopped, memory, table, (&timed, generation))
            },
        )?;
        self.code.note_in(good().map(|(_, known)| known));
        self.columns.forget_rows(&new);
        for (row, state) in states {
            *self.used.entry(row).or_default() |= state.is_timed;
            match self.rows.get_mut(&row) {
                Some(before) => before.functions.extend(state.functions),
                None => drop(self.rows.insert(row, state)),
            }
        }
        Ok(())
    }

    /// Rows that a function counts into, but for some.
    fn rows_of(&self, number: u32, but: &BTreeSet<u32>) -> FunctionRows {
        let mut rows = FunctionRows {
            row: [NONE; FUNCTION_ROWS],
        };
        for (row, state) in self.rows.iter().filter(|(row, _)| !but.contains(row)) {
            for (_, is_timed) in state.functions.iter().filter(|(n, _)| *n == number) {
                add_row(&mut rows, *row, *is_timed);
            }
        }
        rows
    }

    /// Takes the probes of these rows out; rows that are not in use are ignored.
    ///
    /// # Errors
    /// The process is gone, or its threads cannot be stopped: all of them are still in.
    pub fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        self.check_image()?;
        let known = rows.iter().copied().filter(|r| self.rows.contains_key(r));
        let removed: BTreeSet<u32> = known.collect();
        let states = removed.iter().filter_map(|row| self.rows.get(row));
        let functions = states.flat_map(|s| s.functions.iter().map(|f| f.0));
        let numbers: BTreeSet<u32> = functions.collect();
        let left = numbers.iter().map(|n| (*n, self.rows_of(*n, &removed)));
        let left: HashMap<u32, FunctionRows> = left.collect();
        let unused = left.iter().filter(|(_, rows)| rows.row[0] == NONE);
        let unused: Vec<u32> = unused.map(|(number, _)| *number).collect();
        if let Some(counting) = self.counting.filter(|_| !numbers.is_empty()) {
            let changes = self.code.changes_out(&unused);
            let written = joined(of_functions(counting.table, &left));
            self.last_stop = apply(
                self.pid,
                changes,
                &self.found.signal_returns,
                move |_, memory| write_all(memory, &written),
            )?;
        }
        self.code.note_out(&unused);
        self.rows.retain(|row, _| !removed.contains(row));
        Ok(())
    }

    /// How long the threads stood still at most when probes were put in or taken out last.
    pub fn last_stop(&self) -> Duration {
        self.last_stop
    }

    /// All values. Those of a thread that has ended are in one reading more, the last values, and
    /// are forgotten then.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(&mut self) -> Result<Counts, Refusal> {
        self.check_image()?;
        let alive: BTreeSet<u32> = threads(self.pid).into_iter().collect();
        let fault = |e: io::Error| refused(self.pid, e.into());
        let Some(counting) = &mut self.counting else {
            return Ok(Counts::default());
        };
        // The CPU clock asks the kernel now and then, for which a filter may end the thread.
        if counting.has_cpu_clock && alive.iter().any(|tid| refusal::has_filter(*tid)) {
            let field = offset_of!(Head, descriptor) as u64;
            self.memory
                .put(counting.table.at + field, &0u64)
                .map_err(fault)?;
            counting.has_cpu_clock = false;
        }
        let rows = self
            .rows
            .iter()
            .map(|(row, state)| (*row, Counted::of(&state.probe, state.is_timed)))
            .collect();
        let (ticks, ns_per_tick) = self.clock.now();
        let now = Now {
            ticks,
            ns_per_tick,
            has_cpu_clock: counting.has_cpu_clock,
        };
        let table = counting.table;
        let cells = self
            .columns
            .read((&self.memory, self.pid), table, &rows, &alive, now);
        let lost = self.memory.get::<u64>(table.at + LOST_AT);
        let counts = cells.and_then(|mut counts| {
            counts.lost_calls = lost?;
            Ok(counts)
        });
        counts.map_err(fault)
    }

    /// Takes everything out: every byte of the program is as before. Stubs that a thread is in stay
    /// mapped.
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
        let Some(Counting { session, .. }) = self.counting else {
            return Ok(());
        };
        let table = (session.table, session.table_bytes);
        match take_out(self.pid, &self.found, self.code.areas(), table) {
            Err(refusal) if !refusal.is_gone && self.check_image().is_ok() => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Whether the process runs the image that was probed.
    fn check_image(&self) -> Result<(), Refusal> {
        let is_there = match &self.counting {
            Some(counting) => matches!(self.memory.get(counting.table.at), Ok(MAGIC)),
            None => self.memory.get::<u8>(self.found.gadgets.syscall).is_ok(),
        };
        match is_there {
            true => Ok(()),
            false => Err(Refusal::gone(self.pid)),
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

type Written = Vec<(u64, Vec<u8>)>;

fn write_all(memory: &Memory, all: &Written) -> io::Result<()> {
    all.iter()
        .try_for_each(|(at, bytes)| memory.write(*at, bytes))
}

/// Neighbours at once: each write is a system call while the process stands still.
fn joined(mut all: Written) -> Written {
    all.sort_by_key(|(at, _)| *at);
    let mut joined: Written = Vec::new();
    for (at, bytes) in all {
        match joined.last_mut() {
            Some((from, before)) if *from + before.len() as u64 == at => before.extend(bytes),
            _ => joined.push((at, bytes)),
        }
    }
    joined
}

/// Where it is written which rows functions count into.
fn of_functions(table: Table, all: &HashMap<u32, FunctionRows>) -> Written {
    let entry = |(number, rows): (&u32, &FunctionRows)| {
        (table.at + function_at(*number), rows.as_bytes().to_vec())
    };
    all.iter().map(entry).collect()
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
        tid_offset: pointer.tid_offset,
        ns_per_tick: fixed_point(ns_per_tick),
        no_room: 0,
        descriptor: descriptor.unwrap_or(0),
        rseq_offset: pointer.rseq.map_or(0, |rseq| rseq.offset),
        reserved: [0; 8],
    };
    memory.put(at, &head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_next_to_each_other_is_written_at_once() {
        let all = vec![
            (16, vec![3, 4]),
            (8, vec![9]),
            (14, vec![1, 2]),
            (20, vec![5]),
        ];
        let expected = [(8, vec![9]), (14, vec![1, 2, 3, 4]), (20, vec![5])];
        assert_eq!(joined(all), expected);
    }
}
