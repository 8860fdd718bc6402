//! Counts, unattributed counts and pairs: plain rows of numbers.

use super::{codes, option, options, zip_columns, Row};
use crate::bytes::{In, Malformed, Out};
use crate::{Count, Op, Pair, Unattributed};

fn ops(column: Vec<u8>) -> Result<Vec<Op>, Malformed> {
    column
        .into_iter()
        .map(|code| codes::op(code)?.ok_or(Malformed::Number))
        .collect()
}

impl Row for Count {
    const TAG: [u8; 4] = *b"CNTS";
    const NAME: &'static str = "counts";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.object));
        out.deltas(rows.iter().map(|row| row.frame));
        out.deltas(rows.iter().map(|row| row.thread));
        out.values(rows.iter().map(|row| codes::op_code(Some(row.op))));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.failed));
        out.values(rows.iter().map(|row| row.sampled));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let object = input.deltas(rows)?;
        let frame = input.deltas(rows)?;
        let thread = input.deltas(rows)?;
        let op = ops(input.values(rows)?)?;
        let n = input.values(rows)?;
        let failed = input.values(rows)?;
        let sampled = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                object,
                frame,
                thread,
                op,
                n,
                failed,
                sampled
            }
        ))
    }
}

impl Row for Unattributed {
    const TAG: [u8; 4] = *b"UNAT";
    const NAME: &'static str = "unattributed counts";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.frame));
        out.deltas(rows.iter().map(|row| row.thread));
        out.values(rows.iter().map(|row| codes::op_code(Some(row.op))));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.failed));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let frame = input.deltas(rows)?;
        let thread = input.deltas(rows)?;
        let op = ops(input.values(rows)?)?;
        let n = input.values(rows)?;
        let failed = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                frame,
                thread,
                op,
                n,
                failed
            }
        ))
    }
}

impl Row for Pair {
    const TAG: [u8; 4] = *b"PAIR";
    const NAME: &'static str = "pairs";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.object));
        out.deltas(rows.iter().map(|row| row.stack));
        out.deltas(rows.iter().map(|row| row.thread));
        out.values(rows.iter().map(|row| option(row.peer)));
        out.values(rows.iter().map(|row| option(row.peer_frame)));
        out.values(rows.iter().map(|row| row.peer_stack));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.wait_sum_ns));
        out.values(rows.iter().map(|row| row.wait_max_ns));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let object = input.deltas(rows)?;
        let stack = input.deltas(rows)?;
        let thread = input.deltas(rows)?;
        let peer = options(input.values(rows)?)?;
        let peer_frame = options(input.values(rows)?)?;
        let peer_stack = input.values(rows)?;
        let n = input.values(rows)?;
        let wait_sum_ns = input.values(rows)?;
        let wait_max_ns = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                object,
                stack,
                thread,
                peer,
                peer_frame,
                peer_stack,
                n,
                wait_sum_ns,
                wait_max_ns
            }
        ))
    }
}
