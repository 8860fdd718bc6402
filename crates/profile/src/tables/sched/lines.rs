//! Cache lines that several threads use.

use crate::bytes::{In, Malformed, Out};
use crate::lines::LINE_BYTES;
use crate::tables::{names, put_names, zip_columns, Row};
use crate::{LineUse, SharedLine};

impl Row for SharedLine {
    const TAG: [u8; 4] = *b"SLIN";
    const NAME: &'static str = "shared cache lines";

    fn weight(&self) -> usize {
        80 + self.symbol.as_ref().map_or(0, String::len)
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.process));
        out.deltas(rows.iter().map(|row| row.address));
        put_names(out, rows.iter().map(|row| row.symbol.as_deref()));
        out.values(rows.iter().map(|row| row.samples));
        out.values(rows.iter().map(|row| row.waits));
        out.values(rows.iter().map(|row| row.turns));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let process = input.deltas(rows)?;
        let address = input.deltas(rows)?;
        let symbol = names(rows, input)?;
        let samples = input.values(rows)?;
        let waits = input.values(rows)?;
        let turns = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                process,
                address,
                symbol,
                samples,
                waits,
                turns
            }
        ))
    }
}

const LOCKED: u8 = 1;
const READS: u8 = 2;
const WRITES: u8 = 4;

impl Row for LineUse {
    const TAG: [u8; 4] = *b"SLUS";
    const NAME: &'static str = "uses of shared cache lines";

    fn weight(&self) -> usize {
        40
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.line));
        out.deltas(rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.stack));
        out.values(rows.iter().map(|row| row.offset));
        out.values(rows.iter().map(|row| row.size));
        out.values(rows.iter().map(|row| {
            let flag = |set, bit| if set { bit } else { 0 };
            flag(row.locked, LOCKED) | flag(row.reads, READS) | flag(row.writes, WRITES)
        }));
        out.values(rows.iter().map(|row| row.n));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let line = input.deltas(rows)?;
        let thread = input.deltas(rows)?;
        let stack = input.deltas(rows)?;
        let offset: Vec<u8> = input.values(rows)?;
        let size = input.values(rows)?;
        let access: Vec<u8> = input.values(rows)?;
        let n = input.values(rows)?;
        let known = LOCKED | READS | WRITES;
        if offset.iter().any(|&offset| u64::from(offset) >= LINE_BYTES)
            || access.iter().any(|access| access & !known != 0)
        {
            return Err(Malformed::Number);
        }
        Ok(zip_columns!(rows, |line,
                               thread,
                               stack,
                               offset,
                               size,
                               access,
                               n| Self {
            line,
            thread,
            stack,
            offset,
            size,
            locked: access & LOCKED != 0,
            reads: access & READS != 0,
            writes: access & WRITES != 0,
            n,
        }))
    }
}
