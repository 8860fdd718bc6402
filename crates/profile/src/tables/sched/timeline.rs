//! What threads did when. Intervals that follow each other have only a length.

use super::{put_threads, threads};
use crate::bytes::{In, Malformed, Out};
use crate::tables::{option, options, zip_columns, Row};
use crate::{Doing, Interval, Mix, ThreadRef};

/// A lane without its intervals: these are rows of their own, those of one lane after those of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneRow {
    pub(crate) thread: ThreadRef,
    pub(crate) intervals: u32,
}

impl Row for LaneRow {
    const TAG: [u8; 4] = *b"SLAN";
    const NAME: &'static str = "lanes";

    fn pack(rows: &[Self], out: &mut Out) {
        put_threads(out, rows.iter().map(|row| row.thread));
        out.values(rows.iter().map(|row| row.intervals));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let thread = threads(rows, input)?;
        let intervals = input.values(rows)?;
        Ok(zip_columns!(rows, Self { thread, intervals }))
    }
}

const RUNNING: u8 = 0;
const SPINNING: u8 = 1;
const WOKEN: u8 = 2;
const PREEMPTED: u8 = 3;
const WAITING: u8 = 4;
/// The interval has shares.
const MIXED: u8 = 8;

/// What it did, as a number, and the row that says more.
fn code(doing: Doing) -> (u8, Option<u32>) {
    match doing {
        Doing::Running(slice) => (RUNNING, slice),
        Doing::Spinning(slice) => (SPINNING, slice),
        Doing::Woken => (WOKEN, None),
        Doing::Preempted(off) => (PREEMPTED, off),
        Doing::Waiting(off) => (WAITING, off),
    }
}

fn doing(code: u8, row: Option<u32>) -> Result<Doing, Malformed> {
    Ok(match code & !MIXED {
        RUNNING => Doing::Running(row),
        SPINNING => Doing::Spinning(row),
        WOKEN => Doing::Woken,
        PREEMPTED => Doing::Preempted(row),
        WAITING => Doing::Waiting(row),
        _ => return Err(Malformed::Number),
    })
}

/// From the end of the interval before to the begin of each: mostly nothing.
fn gaps(rows: &[Interval]) -> impl Iterator<Item = u64> + '_ {
    let ends = rows.iter().map(|row| row.end_ns);
    let before = std::iter::once(0).chain(ends);
    let gap = |(row, before): (&Interval, u64)| row.start_ns.wrapping_sub(before);
    rows.iter().zip(before).map(gap)
}

impl Row for Interval {
    const TAG: [u8; 4] = *b"SINT";
    const NAME: &'static str = "intervals";

    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        // The difference of two gaps that are none is none.
        out.deltas(gaps(rows));
        out.values(rows.iter().map(Self::ns));
        let codes = || rows.iter().map(|row| code(row.doing));
        let mixed = |row: &Self| if row.mix.is_some() { MIXED } else { 0 };
        out.values(codes().zip(rows).map(|((c, _), row)| c | mixed(row)));
        out.deltas(codes().map(|(_, row)| option(row)));
        out.values(rows.iter().map(|row| option(row.wake)));
        let mixes = || rows.iter().filter_map(|row| row.mix);
        out.values(mixes().map(|mix| mix.running));
        out.values(mixes().map(|mix| mix.spinning));
        out.values(mixes().map(|mix| mix.ready));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let gap: Vec<u64> = input.deltas(rows)?;
        let ns: Vec<u64> = input.values(rows)?;
        let code: Vec<u8> = input.values(rows)?;
        let row = options(input.deltas(rows)?)?;
        let wake = options(input.values(rows)?)?;
        let mixed = code.iter().filter(|&&code| code & MIXED != 0).count();
        let running = input.values(mixed)?;
        let spinning = input.values(mixed)?;
        let ready = input.values(mixed)?;
        let mixes = zip_columns!(
            mixed,
            Mix {
                running,
                spinning,
                ready
            }
        );
        if !mixes.iter().all(Mix::is_sound) {
            return Err(Malformed::Number);
        }
        let mut mixes = mixes.into_iter();
        let mut before = 0u64;
        let intervals = zip_columns!(rows, |gap, ns, code, row, wake| {
            let start_ns = before.wrapping_add(gap);
            let end_ns = start_ns.checked_add(ns).ok_or(Malformed::Number)?;
            before = end_ns;
            let mix = if code & MIXED == 0 {
                None
            } else {
                mixes.next()
            };
            Self {
                start_ns,
                end_ns,
                doing: doing(code, row)?,
                wake,
                mix,
            }
        });
        Ok(intervals)
    }
}
