//! The tables of a process as columns: one module per table.
//!
//! A table is cut into chunks of rows; each is a section of the file by itself: the number of its first
//! row, the number of rows, then column after column.

mod codes;
mod details;
mod frames;
mod objects;
mod rows;
mod sched;
mod sections;
mod stacks;
mod texts;
mod threads;
mod trace;

use crate::bytes::{In, Malformed, Out};

/// Rows in a section, at most.
pub(crate) const CHUNK_ROWS: usize = 32_768;

/// A table whose rows are written column by column.
pub(crate) trait Row: Sized {
    /// The section's tag.
    const TAG: [u8; 4];
    /// What a warning calls it.
    const NAME: &'static str;

    /// A guess of the bytes that a row needs, texts included. Chunks are cut by it.
    fn weight(&self) -> usize {
        32
    }
    /// Writes the columns of these rows.
    fn pack(rows: &[Self], out: &mut Out);
    /// Reads the columns of `n` rows, `n` at most [`CHUNK_ROWS`].
    fn unpack(n: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed>;
}

/// Bytes of texts and the like in a section, about.
const CHUNK_BYTES: usize = 8 << 20;

/// The payloads of the sections of a table, or of the part of it that begins with row `start`.
pub(crate) fn chunks<R: Row>(start: u64, rows: &[R]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut first = 0;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |row: &&R| {
            bytes += row.weight();
            bytes <= CHUNK_BYTES
        };
        let n = rows[first..]
            .iter()
            .take(CHUNK_ROWS)
            .take_while(fits)
            .count();
        // A row of its own if it is too heavy for any chunk.
        let n = n.max(1).min(rows.len() - first);
        if n == 0 {
            return None;
        }
        let mut out = Out::default();
        out.number(start + first as u64);
        out.number(n as u64);
        R::pack(&rows[first..first + n], &mut out);
        first += n;
        Some(out.into_bytes())
    })
}

/// The rows of one section and the number of the first one.
pub(crate) fn unpack<R: Row>(payload: &[u8]) -> Result<(u64, Vec<R>), Malformed> {
    let mut input = In::new(payload);
    let first = input.number()?;
    let n = input.number()?;
    if n > CHUNK_ROWS as u64 {
        return Err(Malformed::Rows);
    }
    let rows = R::unpack(n as usize, &mut input)?;
    input.end()?;
    Ok((first, rows))
}

/// A column of lengths and their sum, each standing for so many items that follow: as an item takes at least one
/// byte, there are not more than that.
fn lengths(rows: usize, input: &mut In<'_>) -> Result<(Vec<u64>, usize), Malformed> {
    let lengths: Vec<u64> = input.values(rows)?;
    let total = lengths.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
    if total > input.left() as u64 {
        return Err(Malformed::Short);
    }
    Ok((lengths, total as usize))
}

/// `None` as 0, anything else one higher. The one number that has no place is not worth more room.
fn option(value: Option<u32>) -> u64 {
    value.map_or(0, |value| u64::from(value) + 1)
}

fn options(column: Vec<u64>) -> Result<Vec<Option<u32>>, Malformed> {
    let decode = |value: u64| match value.checked_sub(1) {
        None => Ok(None),
        Some(value) => u32::try_from(value)
            .map(Some)
            .map_err(|_| Malformed::Number),
    };
    column.into_iter().map(decode).collect()
}

/// A column of flags, and how many are set: so long are the columns that only those rows have.
fn flags(rows: usize, input: &mut In<'_>) -> Result<(Vec<bool>, usize), Malformed> {
    let flags: Vec<u8> = input.values(rows)?;
    if flags.iter().any(|&flag| flag > 1) {
        return Err(Malformed::Number);
    }
    let flags: Vec<bool> = flags.into_iter().map(|flag| flag == 1).collect();
    let set = flags.iter().filter(|&&flag| flag).count();
    Ok((flags, set))
}

/// A column of names that not all rows have: flags, then the names.
fn put_names<'a>(out: &mut Out, names: impl Iterator<Item = Option<&'a str>> + Clone) {
    out.values(names.clone().map(|name| u8::from(name.is_some())));
    out.texts(names.flatten());
}

fn names(rows: usize, input: &mut In<'_>) -> Result<Vec<Option<String>>, Malformed> {
    let (named, count) = flags(rows, input)?;
    let mut names = input.texts(count)?.into_iter();
    let name = |named: bool| named.then(|| names.next()).flatten();
    Ok(named.into_iter().map(name).collect())
}

/// Takes a row's value out of each column: panics never, as all columns have the same length.
/// Where the columns are the row's fields, their names are written once.
macro_rules! zip_columns {
    ($n:expr, $row:ident { $($column:ident),+ $(,)? }) => {
        zip_columns!($n, |$($column),+| $row { $($column),+ })
    };
    ($n:expr, |$($column:ident),+| $row:expr) => {{
        $(let mut $column = $column.into_iter();)+
        let mut rows = Vec::with_capacity($n);
        while let ($(Some($column),)+) = ($($column.next(),)+) {
            rows.push($row);
        }
        rows
    }};
}
use zip_columns;

pub(crate) use sched::{LaneRow, THREAD_BUCKETS};
pub(crate) use stacks::Stack;
