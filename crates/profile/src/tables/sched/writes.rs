//! Samples in calls that write to files.

use super::{put_threads, threads};
use crate::bytes::{In, Malformed, Out};
use crate::tables::{option, options, zip_columns, Row};
use crate::WriteSamples;

impl Row for WriteSamples {
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
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let thread = threads(rows, input)?;
        let stack = input.deltas(rows)?;
        let name = options(input.values(rows)?)?;
        let size_class: Vec<u8> = input.values(rows)?;
        let n = input.values(rows)?;
        if size_class.iter().any(|&class| u32::from(class) > u32::BITS) {
            return Err(Malformed::Number);
        }
        Ok(zip_columns!(
            rows,
            Self {
                thread,
                stack,
                name,
                size_class,
                n
            }
        ))
    }
}
