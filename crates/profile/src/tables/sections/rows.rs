//! Code, words, calls, and what followed what.

use super::{codes, get_flags, get_lists, get_options, option, put_lists, zip_columns};
use crate::bytes::{In, Malformed, Out};
use crate::tables::{flags, names, put_names, Row};
use crate::{CallKind, SectionCall, SectionCode, SectionFollow, SectionWord, WordSeen};

impl Row for SectionCode {
    const TAG: [u8; 4] = *b"XCOD";
    const NAME: &'static str = "code of sections";

    fn weight(&self) -> usize {
        96 + 4 * self.words.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.site));
        out.deltas(rows.iter().map(|row| row.frame));
        out.values(rows.iter().map(|row| option(row.from)));
        out.values(rows.iter().map(|row| row.executions));
        out.values(rows.iter().map(|row| row.instructions));
        out.values(rows.iter().map(|row| row.allocator));
        out.values(rows.iter().map(|row| row.accesses));
        out.values(rows.iter().map(|row| row.size));
        out.values(rows.iter().map(|row| row.field.is_some()));
        out.deltas(
            rows.iter()
                .filter_map(|row| row.field)
                .map(|field| field as u32),
        );
        out.values(rows.iter().map(|row| row.reads));
        out.values(rows.iter().map(|row| row.writes));
        out.values(rows.iter().map(|row| row.atomic));
        put_lists(out, rows.iter().map(|row| &row.words));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let site = input.deltas(rows)?;
        let frame = input.deltas(rows)?;
        let from = get_options(rows, input)?;
        let executions = input.values(rows)?;
        let instructions = input.values(rows)?;
        let allocator = input.values(rows)?;
        let accesses = input.values(rows)?;
        let size = input.values(rows)?;
        let field = get_fields(rows, input)?;
        let reads = get_flags(rows, input)?;
        let writes = get_flags(rows, input)?;
        let atomic = get_flags(rows, input)?;
        let words = get_lists(rows, input)?;
        Ok(zip_columns!(
            rows,
            Self {
                site,
                frame,
                from,
                executions,
                instructions,
                allocator,
                accesses,
                size,
                field,
                reads,
                writes,
                atomic,
                words
            }
        ))
    }
}

/// Offsets in objects, of those rows that have one: the two's complement.
fn get_fields(rows: usize, input: &mut In<'_>) -> Result<Vec<Option<i32>>, Malformed> {
    let (has, count) = flags(rows, input)?;
    let mut fields = input.deltas(count)?.into_iter();
    let field = |has: bool| has.then(|| fields.next()).flatten();
    let fields = has.into_iter().map(field);
    Ok(fields
        .map(|field: Option<u32>| field.map(|field| field as i32))
        .collect())
}

/// The flags of a word, in bits.
fn bits(seen: &WordSeen) -> u64 {
    let flags = [
        seen.read,
        seen.written,
        seen.writers,
        seen.flow,
        seen.atomic,
        seen.allocator,
        seen.own_stack,
        seen.object,
    ];
    (0..).zip(flags).map(|(i, flag)| u64::from(flag) << i).sum()
}

fn seen(only: Option<u32>, sections: u8, bits: u8) -> WordSeen {
    let bit = |i: u8| bits >> i & 1 != 0;
    WordSeen {
        only,
        sections,
        read: bit(0),
        written: bit(1),
        writers: bit(2),
        flow: bit(3),
        atomic: bit(4),
        allocator: bit(5),
        own_stack: bit(6),
        object: bit(7),
    }
}

impl Row for SectionWord {
    const TAG: [u8; 4] = *b"XWRD";
    const NAME: &'static str = "words of memory";

    fn weight(&self) -> usize {
        64 + self.symbol.as_ref().map_or(0, String::len)
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.process));
        out.deltas(rows.iter().map(|row| row.address));
        out.values(rows.iter().map(|row| option(row.seen.only)));
        out.values(rows.iter().map(|row| row.seen.sections));
        out.values(rows.iter().map(|row| bits(&row.seen)));
        out.values(rows.iter().map(|row| option(row.allocated_by)));
        put_names(out, rows.iter().map(|row| row.symbol.as_deref()));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let process = input.deltas(rows)?;
        let address = input.deltas(rows)?;
        let only = get_options(rows, input)?;
        let sections = input.values(rows)?;
        let bits: Vec<u8> = input.values(rows)?;
        let allocated_by = get_options(rows, input)?;
        let symbol = names(rows, input)?;
        Ok(zip_columns!(rows, |process,
                               address,
                               only,
                               sections,
                               bits,
                               allocated_by,
                               symbol| {
            Self {
                process,
                address,
                seen: seen(only, sections, bits),
                allocated_by,
                symbol,
            }
        }))
    }
}

const SYSCALL: u8 = 0;
const OP: u8 = 1;
const AGENT: u8 = 2;
const RELEASE: u8 = 3;

impl Row for SectionCall {
    const TAG: [u8; 4] = *b"XCAL";
    const NAME: &'static str = "calls in sections";

    fn weight(&self) -> usize {
        96
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.site));
        out.values(rows.iter().map(|row| match row.kind {
            CallKind::Syscall(_) => SYSCALL,
            CallKind::Op(_) => OP,
            CallKind::Agent => AGENT,
            CallKind::Release => RELEASE,
        }));
        out.values(rows.iter().map(|row| match row.kind {
            CallKind::Syscall(nr) => nr,
            CallKind::Op(op) => u32::from(codes::op_code(Some(op))),
            CallKind::Agent | CallKind::Release => 0,
        }));
        out.values(rows.iter().map(|row| option(row.object)));
        out.values(rows.iter().map(|row| option(row.frame)));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.run));
        out.values(rows.iter().map(|row| row.sections));
        out.values(rows.iter().map(|row| row.waits));
        out.values(rows.iter().map(|row| row.wait_ns));
        out.values(rows.iter().map(|row| row.wait_max_ns));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let site = input.deltas(rows)?;
        let kinds: Vec<u8> = input.values(rows)?;
        let numbers: Vec<u32> = input.values(rows)?;
        let kind: Vec<CallKind> = kinds
            .into_iter()
            .zip(numbers)
            .map(|(kind, number)| call_kind(kind, number))
            .collect::<Result<_, _>>()?;
        let object = get_options(rows, input)?;
        let frame = get_options(rows, input)?;
        let n = input.values(rows)?;
        let run = input.values(rows)?;
        let sections = input.values(rows)?;
        let waits = input.values(rows)?;
        let wait_ns = input.values(rows)?;
        let wait_max_ns = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                site,
                kind,
                object,
                frame,
                n,
                run,
                sections,
                waits,
                wait_ns,
                wait_max_ns
            }
        ))
    }
}

fn call_kind(kind: u8, number: u32) -> Result<CallKind, Malformed> {
    match kind {
        SYSCALL => Ok(CallKind::Syscall(number)),
        OP => {
            let code = u8::try_from(number).map_err(|_| Malformed::Number)?;
            let op = codes::op(code)?.ok_or(Malformed::Number)?;
            Ok(CallKind::Op(op))
        }
        AGENT => Ok(CallKind::Agent),
        RELEASE => Ok(CallKind::Release),
        _ => Err(Malformed::Number),
    }
}

impl Row for SectionFollow {
    const TAG: [u8; 4] = *b"XFOL";
    const NAME: &'static str = "sections in a row";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.first));
        out.deltas(rows.iter().map(|row| row.then));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.gap_median_ns));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let first = input.deltas(rows)?;
        let then = input.deltas(rows)?;
        let n = input.values(rows)?;
        let gap_median_ns = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                first,
                then,
                n,
                gap_median_ns
            }
        ))
    }
}
