//! Details: rows of numbers, some of them with a wait, each wait with a histogram.

use super::{codes, zip_columns, Row};
use crate::bytes::{In, Malformed, Out};
use crate::{Detail, Wait};

/// Bins of a histogram that are read, at most. The agent has 32; a reader takes what a 64-bit length
/// of time could need.
const HIST_BINS: u64 = 64;

impl Row for Detail {
    const TAG: [u8; 4] = *b"DETL";
    const NAME: &'static str = "details";

    fn weight(&self) -> usize {
        32 + self.wait.as_ref().map_or(0, |wait| 32 + wait.hist.len())
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.object));
        out.deltas(rows.iter().map(|row| row.stack));
        out.deltas(rows.iter().map(|row| row.thread));
        out.values(rows.iter().map(|row| codes::op_code(row.op)));
        out.values(rows.iter().map(|row| row.samples));
        out.values(rows.iter().map(|row| row.acquire_n));
        out.values(rows.iter().map(|row| row.acquire_sum_ns));
        out.values(rows.iter().map(|row| row.hold_n));
        out.values(rows.iter().map(|row| row.hold_sum_ns));
        out.values(rows.iter().map(|row| row.hold_sampled_n));
        out.values(rows.iter().map(|row| row.hold_sampled_sum_ns));
        out.values(rows.iter().map(|row| row.hold_max_us));
        out.values(rows.iter().map(|row| u8::from(row.wait.is_some())));
        let waits = || rows.iter().filter_map(|row| row.wait.as_ref());
        out.values(waits().map(|wait| wait.n));
        out.values(waits().map(|wait| wait.sum_ns));
        out.values(waits().map(|wait| wait.max_ns));
        out.values(waits().map(|wait| wait.timeouts));
        out.values(waits().map(|wait| wait.timeout_sum_ns));
        out.values(waits().map(|wait| wait.unfinished));
        out.values(waits().map(|wait| wait.unfinished_ns));
        out.values(waits().map(|wait| wait.last_arrivals));
        out.values(waits().map(|wait| wait.busy_sum_ns));
        out.values(waits().map(|wait| wait.hist.len().min(HIST_BINS as usize) as u64));
        for wait in waits() {
            out.values(wait.hist.iter().take(HIST_BINS as usize).copied());
        }
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let object = input.deltas(rows)?;
        let stack = input.deltas(rows)?;
        let thread = input.deltas(rows)?;
        let op: Vec<u8> = input.values(rows)?;
        let samples = input.values(rows)?;
        let acquire_n = input.values(rows)?;
        let acquire_sum_ns = input.values(rows)?;
        let hold_n = input.values(rows)?;
        let hold_sum_ns = input.values(rows)?;
        let hold_sampled_n = input.values(rows)?;
        let hold_sampled_sum_ns = input.values(rows)?;
        let hold_max_us = input.values(rows)?;
        let has_wait: Vec<u8> = input.values(rows)?;
        if has_wait.iter().any(|&flag| flag > 1) {
            return Err(Malformed::Number);
        }
        let mut waits =
            unpack_waits(has_wait.iter().filter(|&&flag| flag == 1).count(), input)?.into_iter();
        let mut details =
            zip_columns!(rows, |object,
                                stack,
                                thread,
                                samples,
                                acquire_n,
                                acquire_sum_ns,
                                hold_n,
                                hold_sum_ns,
                                hold_sampled_n,
                                hold_sampled_sum_ns,
                                hold_max_us| Self {
                object,
                stack,
                thread,
                op: None,
                samples,
                acquire_n,
                acquire_sum_ns,
                hold_n,
                hold_sum_ns,
                hold_sampled_n,
                hold_sampled_sum_ns,
                hold_max_us,
                wait: None,
            });
        for ((detail, op), flag) in details.iter_mut().zip(op).zip(has_wait) {
            detail.op = codes::op(op)?;
            if flag == 1 {
                detail.wait = waits.next();
            }
        }
        Ok(details)
    }
}

fn unpack_waits(rows: usize, input: &mut In<'_>) -> Result<Vec<Wait>, Malformed> {
    let n = input.values(rows)?;
    let sum_ns = input.values(rows)?;
    let max_ns = input.values(rows)?;
    let timeouts = input.values(rows)?;
    let timeout_sum_ns = input.values(rows)?;
    let unfinished = input.values(rows)?;
    let unfinished_ns = input.values(rows)?;
    let last_arrivals = input.values(rows)?;
    let busy_sum_ns = input.values(rows)?;
    let bins: Vec<u64> = input.values(rows)?;
    let mut waits =
        zip_columns!(rows, |n,
                            sum_ns,
                            max_ns,
                            timeouts,
                            timeout_sum_ns,
                            unfinished,
                            unfinished_ns,
                            last_arrivals,
                            busy_sum_ns| Wait {
            n,
            sum_ns,
            max_ns,
            timeouts,
            timeout_sum_ns,
            unfinished,
            unfinished_ns,
            last_arrivals,
            busy_sum_ns,
            hist: Vec::new(),
        });
    for (wait, bins) in waits.iter_mut().zip(bins) {
        if bins > HIST_BINS {
            return Err(Malformed::Number);
        }
        wait.hist = input.values(bins as usize)?;
    }
    Ok(waits)
}
