//! Values of the table: one column a thread, also those of threads that have ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use convoy_probes::table::{
    bytes_at, column_at, entries_at, first_column, keys_at, returned_at, value_at, ColumnHead,
    Entry, Returned, Value, DEPTH, KEY_CLEARED, KEY_FREE, KEY_RETIRED, ROWS,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{cpu_clock, files};
use crate::memory::Memory;
use crate::namespace::Numbers;
use convoy_probes::{Also, Cell, Counts, FileCell, Probe};

/// Where the table is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub at: u64,
    pub columns: u64,
}

/// A number of ticks as nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub ticks: u64,
    pub ns_per_tick: f64,
    pub has_cpu_clock: bool,
}

/// What is to be read of a row in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    is_timed: bool,
    has_bytes: bool,
    /// Files that its calls are counted into.
    pub io_group: Option<u8>,
}

impl Counted {
    pub fn of(probe: &Probe, is_timed: bool) -> Self {
        Self {
            is_timed,
            has_bytes: matches!(probe.also, Also::Bytes(_)),
            io_group: match probe.also {
                Also::Io(_, group) if is_timed => Some(group),
                _ => None,
            },
        }
    }
}

impl Now {
    pub fn ns(self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }
}

/// What has been read so far.
#[derive(Debug)]
pub(super) struct Columns {
    numbers: Numbers,
    /// Last results: times must not go back.
    last: HashMap<(u32, u32), Times>,
    /// Of threads that have ended.
    lost_files: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    wall_ns: u64,
    own_wall_ns: u64,
    cpu_ns: u64,
    returned_ns: u64,
}

impl Table {
    fn keys(&self, memory: &Memory) -> Vec<u64> {
        memory.words(self.at + keys_at(), self.columns as usize)
    }

    fn key_at(&self, column: u64) -> u64 {
        self.at + keys_at() + column * 8
    }

    fn column_at(&self, column: u64) -> u64 {
        self.at + column_at(self.columns, column)
    }

    /// Columns that some thread has, or had.
    fn used(&self, memory: &Memory) -> Vec<(u64, u64)> {
        let keys = (0..).zip(self.keys(memory));
        keys.filter(|(_, key)| *key > KEY_CLEARED).collect()
    }

    /// The column of a thread, as its first probe would find or take it; `None` = all are taken.
    /// All threads must be stopped.
    pub fn column_for(
        &self,
        memory: &Memory,
        thread_pointer: u64,
        tid: u32,
    ) -> io::Result<Option<Column>> {
        if thread_pointer == 0 {
            return Ok(None);
        }
        let first = first_column(self.columns, thread_pointer);
        let places = || (0..self.columns).map(|n| (first + n) & (self.columns - 1));
        for place in places() {
            match memory.get::<u64>(self.key_at(place))? {
                KEY_FREE => break,
                key if key == thread_pointer => {
                    let column = Column {
                        at: self.column_at(place),
                    };
                    match column.head(memory)?.tid {
                        // Its thread is just making it.
                        0 => return Ok(None),
                        own if own == tid => return Ok(Some(column)),
                        _ => {}
                    }
                    // Of a thread that has ended and had the same memory.
                    memory.put(self.key_at(place), &KEY_RETIRED)?;
                }
                _ => {}
            }
        }
        for place in places() {
            if memory.get::<u64>(self.key_at(place))? <= KEY_CLEARED {
                let column = Column {
                    at: self.column_at(place),
                };
                let head = ColumnHead {
                    tid,
                    ..ColumnHead::new_zeroed()
                };
                memory.put(column.at, &head)?;
                memory.put(self.key_at(place), &thread_pointer)?;
                return Ok(Some(column));
            }
        }
        Ok(None)
    }

    /// Sets these rows to 0 in all columns, those with times (`true`) and those without. All threads
    /// must be stopped: neighbours are written at once.
    pub fn clear_rows(&self, memory: &Memory, rows: &BTreeMap<u32, bool>) -> io::Result<()> {
        let runs = runs(rows);
        let longest = runs.iter().map(|(run, _)| run.len()).max().unwrap_or(0);
        let zeros = vec![0; longest * size_of::<Returned>()];
        // Columns that are free again, too: the next thread goes on with what is there.
        let keys = (0..).zip(self.keys(memory));
        for (column, _) in keys.filter(|(_, key)| *key != KEY_FREE) {
            let at = self.column_at(column);
            for (run, has_times) in &runs {
                memory.write(
                    at + value_at(run.start),
                    &zeros[..run.len() * size_of::<Value>()],
                )?;
                memory.write(at + bytes_at(run.start), &zeros[..run.len() * 8])?;
                if *has_times {
                    let length = run.len() * size_of::<Returned>();
                    memory.write(at + returned_at(run.start), &zeros[..length])?;
                }
            }
        }
        Ok(())
    }
}

impl Table {
    /// Lets these groups of rows count files from 0 in all columns. All threads must be stopped.
    pub fn restart_files(&self, memory: &Memory, groups: &BTreeSet<u8>) -> io::Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let keys = (0..).zip(self.keys(memory));
        for (column, _) in keys.filter(|(_, key)| *key != KEY_FREE) {
            let at = self.column_at(column);
            files::restart(memory, Column { at }, groups)?;
        }
        Ok(())
    }
}

/// Rows that are next to each other and alike.
fn runs(rows: &BTreeMap<u32, bool>) -> Vec<(Range<u32>, bool)> {
    let mut runs: Vec<(Range<u32>, bool)> = Vec::new();
    for (row, has_times) in rows {
        match runs.last_mut() {
            Some((run, times)) if run.end == *row && times == has_times => run.end += 1,
            _ => runs.push((*row..*row + 1, *has_times)),
        }
    }
    runs
}

/// What one thread did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub at: u64,
}

impl Column {
    /// Its beginning.
    pub fn head(self, memory: &Memory) -> io::Result<ColumnHead> {
        memory.get(self.at)
    }

    /// Its open calls, the outermost first.
    pub fn entries(self, memory: &Memory, head: &ColumnHead) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; (head.entries as usize).min(DEPTH) * size_of::<Entry>()];
        memory.read(self.at + entries_at(), &mut bytes)?;
        let entries = bytes.chunks_exact(size_of::<Entry>());
        Ok(entries
            .filter_map(|bytes| Entry::read_from_bytes(bytes).ok())
            .collect())
    }

    /// Replaces them; the head says how many there are.
    pub fn put_entries(self, memory: &Memory, entries: &[Entry]) -> io::Result<()> {
        memory.write(self.at + entries_at(), entries.as_bytes())
    }
}

impl Columns {
    /// Of a process; nothing has been read yet.
    pub fn of(pid: u32) -> Self {
        Self {
            numbers: Numbers::of(pid),
            last: HashMap::new(),
            lost_files: 0,
        }
    }

    /// Forgets what ended threads did in these rows.
    pub fn forget_rows(&mut self, rows: &[u32]) {
        self.last.retain(|(_, row), _| !rows.contains(row));
    }

    /// Reads all columns. That of a thread that has ended is free when its last values are read:
    /// later readings do not have it. `rows`: those in use. `threads`: those that are alive.
    pub fn read(
        &mut self,
        (memory, pid): (&Memory, u32),
        table: Table,
        rows: &HashMap<u32, Counted>,
        threads: &BTreeSet<u32>,
        now: Now,
    ) -> io::Result<Counts> {
        let mut all: HashMap<(u32, u32), Cell> = HashMap::new();
        let mut of_files: HashMap<(u32, u8, u32), FileCell> = HashMap::new();
        let mut lost_files = self.lost_files;
        let has_io = rows.values().any(|row| row.io_group.is_some());
        let mut ended: Vec<(u32, u32)> = Vec::new();
        self.numbers.look(threads);
        for (column, key) in table.used(memory) {
            let at = table.column_at(column);
            let head: ColumnHead = memory.get(at)?;
            if head.tid == 0 {
                continue; // just being made
            }
            let tid = self.numbers.here(head.tid);
            // Of open calls; read before the values, so that no call counts twice.
            let cpu = now
                .has_cpu_clock
                .then(|| cpu_clock::of_thread(pid, tid))
                .flatten();
            let cells = cells(memory, at, tid, rows, (now, cpu))?;
            lost_files = lost_files.saturating_add(head.lost_files);
            if has_io {
                let found = files::cells(memory, Column { at }, tid, rows, (now, cpu))?;
                found.into_iter().for_each(|f| files::add(&mut of_files, f));
            }
            if key == KEY_RETIRED {
                for mut cell in cells {
                    cell.inside = 0;
                    ended.push((cell.tid, cell.row));
                    add(&mut all, cell);
                }
                self.lost_files = self.lost_files.saturating_add(head.lost_files);
                clear_column(memory, at, rows)?;
                memory.put(table.key_at(column), &KEY_CLEARED)?;
                continue;
            }
            for cell in cells {
                add(&mut all, cell);
            }
            if !threads.contains(&tid) {
                // Read as the last one next time: its last probe may have been after this look.
                memory.put(table.key_at(column), &KEY_RETIRED)?;
            }
        }
        let mut all: Vec<Cell> = all.into_values().collect();
        all.sort_by_key(|cell| (cell.row, cell.tid));
        for cell in &mut all {
            self.forward(cell);
        }
        for key in &ended {
            self.last.remove(key);
        }
        Ok(Counts {
            cells: all,
            files: of_files.into_values().collect(),
            lost_files,
            ..Counts::default()
        })
    }

    /// A call that ends between two loads, or a better measured frequency, must not take time
    /// back.
    fn forward(&mut self, cell: &mut Cell) {
        let last = self.last.entry((cell.tid, cell.row)).or_default();
        cell.wall_ns = cell.wall_ns.max(last.wall_ns);
        cell.own_wall_ns = cell.own_wall_ns.max(last.own_wall_ns);
        cell.cpu_ns = cell.cpu_ns.map(|ns| ns.max(last.cpu_ns));
        cell.returned_ns = cell.returned_ns.max(last.returned_ns);
        *last = Times {
            wall_ns: cell.wall_ns,
            own_wall_ns: cell.own_wall_ns,
            cpu_ns: cell.cpu_ns.unwrap_or(0),
            returned_ns: cell.returned_ns,
        };
    }
}

fn clear_column(memory: &Memory, at: u64, rows: &HashMap<u32, Counted>) -> io::Result<()> {
    for row in rows.keys() {
        memory.put(at + value_at(*row), &Value::default())?;
        memory.put(at + returned_at(*row), &Returned::NONE)?;
        memory.put(at + bytes_at(*row), &0u64)?;
    }
    // Also where no row counts into files now: what is there would be the next thread's.
    files::clear(memory, Column { at })?;
    memory.put(at, &ColumnHead::new_zeroed())
}

/// What one column says about the rows in use.
fn cells(
    memory: &Memory,
    at: u64,
    tid: u32,
    rows: &HashMap<u32, Counted>,
    (now, cpu): (Now, Option<u64>),
) -> io::Result<Vec<Cell>> {
    let most = rows
        .keys()
        .max()
        .map_or(0, |row| (*row as usize + 1).min(ROWS));
    let mut bytes = vec![0; most * size_of::<Value>()];
    memory.read(at + value_at(0), &mut bytes)?;
    let mut cells = Vec::new();
    for (row, bytes) in (0u32..).zip(bytes.chunks_exact(size_of::<Value>())) {
        let Some(counted) = rows.get(&row) else {
            continue;
        };
        let Ok(value) = Value::read_from_bytes(bytes) else {
            continue;
        };
        if value.calls == 0 && value.skipped == 0 && value.depth == 0 && value.wall == 0 {
            continue;
        }
        let mut cell = cell(tid, row, &value, (now, cpu));
        if counted.has_bytes {
            cell.bytes = memory.get(at + bytes_at(row))?;
        }
        if counted.is_timed {
            let returned: Returned = memory.get(at + returned_at(row))?;
            cell.returned_ns = now.ns(returned.wall);
            cell.histogram = returned.buckets;
        }
        cells.push(cell);
    }
    Ok(cells)
}

fn cell(tid: u32, row: u32, value: &Value, (now, cpu): (Now, Option<u64>)) -> Cell {
    // Without the open call the time of a function that never returns would be 0.
    let open = match value.since {
        0 => 0,
        since => now.ticks.saturating_sub(since),
    };
    let open_cpu = match value.since {
        0 => 0,
        _ => cpu.map_or(0, |cpu| cpu.saturating_sub(value.since_cpu)),
    };
    Cell {
        calls: value.calls,
        wall_ns: now.ns(value.wall.saturating_add(open)),
        own_wall_ns: now.ns(value.own_wall),
        cpu_ns: now
            .has_cpu_clock
            .then_some(value.cpu.saturating_add(open_cpu)),
        own_cpu_ns: now.has_cpu_clock.then_some(value.own_cpu),
        inside: value.depth,
        skipped: value.skipped.into(),
        ..Cell::new(tid, row)
    }
}

/// Adds a cell to that of the same thread and row.
fn add(all: &mut HashMap<(u32, u32), Cell>, cell: Cell) {
    match all.get_mut(&(cell.tid, cell.row)) {
        Some(sum) => sum.add(&cell),
        None => {
            all.insert((cell.tid, cell.row), cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_neighbours_and_alike_are_cleared_at_once() {
        let rows = BTreeMap::from([(1, false), (2, false), (3, true), (5, true), (6, true)]);
        assert_eq!(runs(&rows), [(1..3, false), (3..4, true), (5..7, true)]);
        assert!(runs(&BTreeMap::new()).is_empty());
    }
}
