//! Traces: windows, objects, call sites, threads, blocks of events.

use super::{codes, lengths, option, options, zip_columns, Row};
use crate::bytes::{In, Malformed, Out};
use crate::{TraceBlock, TraceObject, TraceSite, TraceThread, TraceWindow};

impl Row for TraceWindow {
    const TAG: [u8; 4] = *b"EWIN";
    const NAME: &'static str = "windows of the trace";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.start_ns));
        out.values(
            rows.iter()
                .map(|row| row.end_ns.saturating_sub(row.start_ns)),
        );
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let start_ns: Vec<u64> = input.deltas(rows)?;
        let length: Vec<u64> = input.values(rows)?;
        Ok(zip_columns!(rows, |start_ns, length| Self {
            start_ns,
            end_ns: start_ns.saturating_add(length),
        }))
    }
}

impl Row for TraceObject {
    const TAG: [u8; 4] = *b"EOBJ";
    const NAME: &'static str = "objects of the trace";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.addr));
        out.values(rows.iter().map(|row| codes::kind_code(row.kind)));
        out.values(rows.iter().map(|row| row.attr));
        out.values(rows.iter().map(|row| option(row.object)));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let addr = input.deltas(rows)?;
        let kinds: Vec<u8> = input.values(rows)?;
        let kinds = kinds.into_iter().map(codes::kind);
        let kind: Vec<_> = kinds.collect::<Result<_, _>>()?;
        let attr = input.values(rows)?;
        let object = options(input.values(rows)?)?;
        Ok(zip_columns!(
            rows,
            Self {
                addr,
                kind,
                attr,
                object
            }
        ))
    }
}

impl Row for TraceSite {
    const TAG: [u8; 4] = *b"ESIT";
    const NAME: &'static str = "call sites of the trace";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.pc));
        out.deltas(rows.iter().map(|row| row.frame));
        out.values(rows.iter().map(|row| row.stack));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let pc = input.deltas(rows)?;
        let frame = input.deltas(rows)?;
        let stack = input.values(rows)?;
        Ok(zip_columns!(rows, Self { pc, frame, stack }))
    }
}

impl Row for TraceThread {
    const TAG: [u8; 4] = *b"ETHR";
    const NAME: &'static str = "threads of the trace";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.number));
        out.deltas(rows.iter().map(|row| row.thread));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let number = input.deltas(rows)?;
        let thread = input.deltas(rows)?;
        Ok(zip_columns!(rows, Self { number, thread }))
    }
}

impl Row for TraceBlock {
    const TAG: [u8; 4] = *b"EBLK";
    const NAME: &'static str = "blocks of events";

    fn weight(&self) -> usize {
        64 + self.bytes.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.start_ns));
        out.values(
            rows.iter()
                .map(|row| row.end_ns.saturating_sub(row.start_ns)),
        );
        out.values(rows.iter().map(|row| row.events));
        out.values(rows.iter().map(|row| row.bytes.len() as u64));
        rows.iter().for_each(|row| out.bytes(&row.bytes));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let thread = input.deltas(rows)?;
        let start_ns: Vec<u64> = input.deltas(rows)?;
        let length: Vec<u64> = input.values(rows)?;
        let events = input.values(rows)?;
        let (sizes, _) = lengths(rows, input)?;
        let bytes = sizes.into_iter().map(|size| input.bytes(size as usize));
        let bytes: Vec<Vec<u8>> = bytes.collect::<Result<_, _>>()?;
        Ok(zip_columns!(rows, |thread,
                               start_ns,
                               length,
                               events,
                               bytes| {
            Self {
                thread,
                start_ns,
                end_ns: start_ns.saturating_add(length),
                events,
                bytes,
            }
        }))
    }
}
