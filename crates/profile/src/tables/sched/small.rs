//! Tables with few rows: names, waiting loops, pieces of the run, losses.

use crate::bytes::{In, Malformed, Out};
use crate::tables::{codes, option, options, zip_columns, Row};
use crate::{Bin, Lost, SpinLoop};

/// A file, pipe or socket.
impl Row for String {
    const TAG: [u8; 4] = *b"SNAM";
    const NAME: &'static str = "names of files";

    fn weight(&self) -> usize {
        24 + self.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.texts(rows.iter().map(Self::as_str));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        input.texts(rows)
    }
}

impl Row for SpinLoop {
    const TAG: [u8; 4] = *b"SLUP";
    const NAME: &'static str = "waiting loops";

    fn weight(&self) -> usize {
        72 + self.evidence.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.process));
        out.values(rows.iter().map(|row| option(row.frame)));
        out.deltas(rows.iter().map(|row| row.lo));
        out.deltas(rows.iter().map(|row| row.hi));
        out.values(rows.iter().map(|row| codes::spin_kind_code(row.kind)));
        out.texts(rows.iter().map(|row| row.evidence.as_str()));
        out.values(rows.iter().map(|row| row.samples));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let process = input.deltas(rows)?;
        let frame = options(input.values(rows)?)?;
        let lo = input.deltas(rows)?;
        let hi = input.deltas(rows)?;
        let kinds: Vec<u8> = input.values(rows)?;
        let kind: Vec<_> = kinds
            .into_iter()
            .map(codes::spin_kind)
            .collect::<Result<_, _>>()?;
        let evidence = input.texts(rows)?;
        let samples = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                process,
                frame,
                lo,
                hi,
                kind,
                evidence,
                samples
            }
        ))
    }
}

impl Row for Bin {
    const TAG: [u8; 4] = *b"SBIN";
    const NAME: &'static str = "pieces of the run";

    fn weight(&self) -> usize {
        48
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.values(rows.iter().map(|row| row.active_ns));
        out.values(rows.iter().map(|row| row.working_ns));
        out.values(rows.iter().map(|row| row.running_ns));
        out.values(rows.iter().map(|row| row.idle_ns));
        out.values(rows.iter().map(|row| option(row.top)));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let active_ns = input.values(rows)?;
        let working_ns = input.values(rows)?;
        let running_ns = input.values(rows)?;
        let idle_ns = input.values(rows)?;
        let top = options(input.values(rows)?)?;
        Ok(zip_columns!(
            rows,
            Self {
                active_ns,
                working_ns,
                running_ns,
                idle_ns,
                top
            }
        ))
    }
}

impl Row for Lost {
    const TAG: [u8; 4] = *b"SLST";
    const NAME: &'static str = "records of lost events";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.from_ns));
        out.deltas(rows.iter().map(|row| row.to_ns));
        out.values(rows.iter().map(|row| row.events));
        out.values(rows.iter().map(|row| u8::from(row.stacks)));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let from_ns = input.deltas(rows)?;
        let to_ns = input.deltas(rows)?;
        let events = input.values(rows)?;
        let stacks: Vec<u8> = input.values(rows)?;
        Ok(zip_columns!(rows, |from_ns, to_ns, events, stacks| Self {
            from_ns,
            to_ns,
            events,
            stacks: stacks != 0,
        }))
    }
}
