//! Samples in calls that read or write files.

use super::{put_threads, threads};
use crate::bytes::{In, Malformed, Out};
use crate::tables::{option, options, zip_columns, Row};
use crate::CallSamples;

impl Row for CallSamples {
    const TAG: [u8; 4] = *b"SWRI";
    const NAME: &'static str = "samples in writes";

    fn weight(&self) -> usize {
        40
    }

    fn pack(rows: &[Self], out: &mut Out) {
        put_threads(out, rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.stack));
        out.values(rows.iter().map(|row| option(row.name)));
        out.values(rows.iter().map(|row| row.size_class));
        out.values(rows.iter().map(|row| row.n));
        if rows.iter().any(|row| row.reads) {
            out.values(rows.iter().map(|row| row.reads));
        }
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let thread = threads(rows, input)?;
        let stack = input.deltas(rows)?;
        let name = options(input.values(rows)?)?;
        let size_class: Vec<u8> = input.values(rows)?;
        let n = input.values(rows)?;
        let reads: Vec<u8> = match input.left() {
            0 => vec![0; rows],
            _ => input.values(rows)?,
        };
        let sizes = size_class.iter().map(|&class| u32::from(class));
        if sizes.max() > Some(u32::BITS) || reads.iter().max() > Some(&1) {
            return Err(Malformed::Number);
        }
        let reads = reads.into_iter().map(|reads| reads == 1);
        Ok(zip_columns!(
            rows,
            Self {
                thread,
                stack,
                name,
                size_class,
                n,
                reads
            }
        ))
    }
}
