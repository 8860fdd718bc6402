//! What ended waits.

use super::{put_threads, threads};
use crate::bytes::{In, Malformed, Out};
use crate::section::SECTION_BYTES;
use crate::tables::{zip_columns, Row};
use crate::{OffIx, Wake, Waker};

const UNKNOWN: u8 = 0;
const INTERRUPT: u8 = 1;
const THREAD: u8 = 2;
const OUTSIDE: u8 = 3;

impl Row for Wake {
    const TAG: [u8; 4] = *b"SWAK";
    const NAME: &'static str = "wakers";

    fn weight(&self) -> usize {
        96 + 16 * self.waker_off.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.off));
        out.values(rows.iter().map(|row| match row.waker {
            Waker::Unknown => UNKNOWN,
            Waker::Interrupt => INTERRUPT,
            Waker::Thread(..) => THREAD,
            Waker::Outside(_) => OUTSIDE,
        }));
        let inside = || {
            rows.iter().filter_map(|row| match row.waker {
                Waker::Thread(thread, stack) => Some((thread, stack)),
                _ => None,
            })
        };
        put_threads(out, inside().map(|(thread, _)| thread));
        out.deltas(inside().map(|(_, stack)| stack));
        out.deltas(rows.iter().filter_map(|row| match row.waker {
            Waker::Outside(tid) => Some(tid),
            _ => None,
        }));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.wait_ns));
        out.values(rows.iter().map(|row| row.max_ns));
        out.values(rows.iter().map(|row| row.waker_running_ns));
        out.values(rows.iter().map(|row| row.waker_delayed_ns));
        out.values(rows.iter().map(|row| row.waker_off.len() as u64));
        let waits = || rows.iter().flat_map(|row| &row.waker_off);
        out.deltas(waits().map(|&(off, _)| off));
        out.values(waits().map(|&(_, ns)| ns));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let off = input.deltas(rows)?;
        let waker = wakers(rows, input)?;
        let n = input.values(rows)?;
        let wait_ns = input.values(rows)?;
        let max_ns = input.values(rows)?;
        let waker_running_ns = input.values(rows)?;
        let waker_delayed_ns = input.values(rows)?;
        let waker_off = waits_of_wakers(rows, input)?;
        Ok(zip_columns!(
            rows,
            Self {
                off,
                waker,
                n,
                wait_ns,
                max_ns,
                waker_running_ns,
                waker_delayed_ns,
                waker_off
            }
        ))
    }
}

fn wakers(rows: usize, input: &mut In<'_>) -> Result<Vec<Waker>, Malformed> {
    let kinds: Vec<u8> = input.values(rows)?;
    let of = |kind: u8| kinds.iter().filter(|&&k| k == kind).count();
    let inside = of(THREAD);
    let mut thread = threads(inside, input)?.into_iter();
    let mut stack = input.deltas(inside)?.into_iter();
    let mut outside = input.deltas(of(OUTSIDE))?.into_iter();
    let waker = |kind| {
        Some(match kind {
            UNKNOWN => Waker::Unknown,
            INTERRUPT => Waker::Interrupt,
            THREAD => Waker::Thread(thread.next()?, stack.next()?),
            OUTSIDE => Waker::Outside(outside.next()?),
            _ => return None,
        })
    };
    let wakers: Option<Vec<Waker>> = kinds.iter().copied().map(waker).collect();
    wakers.ok_or(Malformed::Number)
}

fn waits_of_wakers(rows: usize, input: &mut In<'_>) -> Result<Vec<Vec<(OffIx, u64)>>, Malformed> {
    let lengths: Vec<u64> = input.values(rows)?;
    let total = lengths
        .iter()
        .fold(0u64, |sum, &length| sum.saturating_add(length));
    // In memory each is eight times as large as it can be in the file.
    if total > (SECTION_BYTES / 16) as u64 {
        return Err(Malformed::Rows);
    }
    let off = input.deltas(total as usize)?;
    let ns: Vec<u64> = input.values(total as usize)?;
    let mut waits = off.into_iter().zip(ns);
    Ok(lengths
        .into_iter()
        .map(|length| waits.by_ref().take(length as usize).collect())
        .collect())
}
