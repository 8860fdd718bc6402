//! The tables of [`crate::Sections`]: what traced critical sections touched.

mod rows;
mod sites;

use super::{codes, flags, lengths, option, options, zip_columns};
use crate::bytes::{In, Malformed, Out};
use crate::{Op, SectionTotals};

/// A column of lists of indices: lengths, then all items.
fn put_lists<'a>(out: &mut Out, lists: impl Iterator<Item = &'a Vec<u32>> + Clone) {
    out.values(lists.clone().map(|list| list.len() as u64));
    out.deltas(lists.flatten().copied());
}

fn get_lists(rows: usize, input: &mut In<'_>) -> Result<Vec<Vec<u32>>, Malformed> {
    let (lengths, total) = lengths(rows, input)?;
    let mut items = input.deltas(total)?.into_iter();
    let list = |n: u64| items.by_ref().take(n as usize).collect();
    Ok(lengths.into_iter().map(list).collect())
}

fn get_flags(rows: usize, input: &mut In<'_>) -> Result<Vec<bool>, Malformed> {
    Ok(flags(rows, input)?.0)
}

fn get_ops(rows: usize, input: &mut In<'_>) -> Result<Vec<Option<Op>>, Malformed> {
    input.values(rows)?.into_iter().map(codes::op).collect()
}

fn get_options(rows: usize, input: &mut In<'_>) -> Result<Vec<Option<u32>>, Malformed> {
    options(input.values(rows)?)
}

fn put_totals<'a>(out: &mut Out, totals: impl Iterator<Item = &'a SectionTotals> + Clone) {
    let mut column = |of: fn(&SectionTotals) -> u64| out.values(totals.clone().map(of));
    column(|t| t.traced_ns);
    column(|t| t.instructions);
    column(|t| t.accesses);
    column(|t| t.implicit);
    column(|t| t.reads);
    column(|t| t.writes);
    column(|t| t.allocator);
    column(|t| t.allocator_instructions);
    column(|t| t.syscalls);
    column(|t| t.words);
    column(|t| t.bytes);
}

fn get_totals(rows: usize, input: &mut In<'_>) -> Result<Vec<SectionTotals>, Malformed> {
    let traced_ns = input.values(rows)?;
    let instructions = input.values(rows)?;
    let accesses = input.values(rows)?;
    let implicit = input.values(rows)?;
    let reads = input.values(rows)?;
    let writes = input.values(rows)?;
    let allocator = input.values(rows)?;
    let allocator_instructions = input.values(rows)?;
    let syscalls = input.values(rows)?;
    let words = input.values(rows)?;
    let bytes = input.values(rows)?;
    Ok(zip_columns!(
        rows,
        SectionTotals {
            traced_ns,
            instructions,
            accesses,
            implicit,
            reads,
            writes,
            allocator,
            allocator_instructions,
            syscalls,
            words,
            bytes
        }
    ))
}
