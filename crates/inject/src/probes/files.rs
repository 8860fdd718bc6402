//! What threads do to file descriptors, by the columns of the table.

use std::collections::{BTreeSet, HashMap};
use std::io;

use convoy_probes::table::{files_at, Entry, File, FILES, NOTED};
use convoy_probes::FileCell;
use zerocopy::FromBytes;

use super::columns::{Column, Counted, Now};
use crate::memory::Memory;

/// No file descriptor: the call was open when its probe came, and its argument is not known.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// All of a thread, calls that are open included. `cpu_ns`: its CPU time now.
pub(super) fn cells(
    memory: &Memory,
    column: Column,
    tid: u32,
    rows: &HashMap<u32, Counted>,
    (now, cpu_ns): (Now, Option<u64>),
) -> io::Result<Vec<FileCell>> {
    let mut bytes = vec![0; FILES * size_of::<File>()];
    memory.read(column.at + files_at(), &mut bytes)?;
    let files = bytes.chunks_exact(size_of::<File>());
    let files = files.filter_map(|bytes| File::read_from_bytes(bytes).ok());
    let mut cells: Vec<FileCell> = files.filter_map(|file| cell(tid, &file)).collect();
    // Behind them: a call that ends meanwhile is missing in this reading, and not in it twice.
    let head = column.head(memory)?;
    for entry in column.entries(memory, &head)? {
        let Some(group) = rows.get(&row_of(&entry)).and_then(|row| row.io_group) else {
            continue;
        };
        let Ok(descriptor) = u32::try_from(entry.descriptor) else {
            continue;
        };
        let wall_ns = now.ns(now.ticks.saturating_sub(entry.start));
        let cpu_ns = cpu_ns.map_or(0, |cpu| cpu.saturating_sub(entry.start_cpu));
        let wait_ns = wall_ns.saturating_sub(cpu_ns);
        let is_it = |cell: &&mut FileCell| (cell.group, cell.descriptor) == (group, descriptor);
        match cells.iter_mut().find(is_it) {
            Some(cell) => cell.wait_ns = cell.wait_ns.saturating_add(wait_ns),
            None => cells.push(FileCell {
                tid,
                group,
                descriptor,
                wait_ns,
                ..FileCell::default()
            }),
        }
    }
    Ok(cells)
}

/// Forgets a thread that has ended.
pub(super) fn clear(memory: &Memory, column: Column) -> io::Result<()> {
    memory.write(column.at + files_at(), &[0; FILES * size_of::<File>()])
}

/// Lets groups of rows begin at 0 again: amounts go, descriptors keep their places. All threads must
/// be stopped.
pub(super) fn restart(memory: &Memory, column: Column, groups: &BTreeSet<u8>) -> io::Result<()> {
    let mut bytes = vec![0; FILES * size_of::<File>()];
    memory.read(column.at + files_at(), &mut bytes)?;
    for bytes in bytes.chunks_exact_mut(size_of::<File>()) {
        let Ok(file) = File::read_from_bytes(bytes) else {
            continue;
        };
        if u8::try_from(file.group()).is_ok_and(|group| groups.contains(&group)) {
            bytes[size_of_val(&file.key)..].fill(0);
        }
    }
    memory.write(column.at + files_at(), &bytes)
}

fn row_of(entry: &Entry) -> u32 {
    u32::from(entry.row & !NOTED)
}

fn cell(tid: u32, file: &File) -> Option<FileCell> {
    Some(FileCell {
        tid,
        group: u8::try_from(file.group()).ok()?,
        descriptor: file.descriptor()?,
        read_bytes: file.read_bytes,
        write_bytes: file.write_bytes,
        wait_ns: file.wait_ns,
    })
}

/// Adds the cells of a thread to those of another column that it had.
pub(super) fn add(all: &mut HashMap<(u32, u8, u32), FileCell>, cell: FileCell) {
    let sum = all
        .entry((cell.tid, cell.group, cell.descriptor))
        .or_insert(FileCell {
            read_bytes: 0,
            write_bytes: 0,
            wait_ns: 0,
            ..cell
        });
    sum.read_bytes = sum.read_bytes.saturating_add(cell.read_bytes);
    sum.write_bytes = sum.write_bytes.saturating_add(cell.write_bytes);
    sum.wait_ns = sum.wait_ns.saturating_add(cell.wait_ns);
}
