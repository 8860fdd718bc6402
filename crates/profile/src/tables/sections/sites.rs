//! Where sections begin, and whole ones.

use super::{
    codes, get_flags, get_lists, get_ops, get_options, get_totals, lengths, option, put_lists,
    put_totals, zip_columns,
};
use crate::bytes::{In, Malformed, Out};
use crate::tables::Row;
use crate::{SectionSample, SectionSite, Touch};

impl Row for SectionSite {
    const TAG: [u8; 4] = *b"XSIT";
    const NAME: &'static str = "sites of sections";

    fn weight(&self) -> usize {
        384 + 4 * self.words.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.process));
        out.values(rows.iter().map(|row| option(row.object)));
        out.deltas(rows.iter().map(|row| row.stack));
        out.deltas(rows.iter().map(|row| row.frame));
        out.values(rows.iter().map(|row| codes::op_code(row.op)));
        out.values(rows.iter().map(|row| row.threads));
        out.values(rows.iter().map(|row| row.objects));
        out.values(rows.iter().map(|row| row.run));
        out.values(rows.iter().map(|row| row.waited));
        out.values(rows.iter().flat_map(|row| row.ends));
        put_totals(out, rows.iter().map(|row| &row.whole));
        put_totals(out, rows.iter().map(|row| &row.largest));
        out.values(rows.iter().map(|row| row.distinct_words));
        put_lists(out, rows.iter().map(|row| &row.words));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let process = input.deltas(rows)?;
        let object = get_options(rows, input)?;
        let stack = input.deltas(rows)?;
        let frame = input.deltas(rows)?;
        let op = get_ops(rows, input)?;
        let threads = input.values(rows)?;
        let objects = input.values(rows)?;
        let run = input.values(rows)?;
        let waited = input.values(rows)?;
        let ends: Vec<[u64; 9]> = (0..rows)
            .map(|_| {
                let ends = input.values(9)?;
                ends.try_into().map_err(|_| Malformed::Short)
            })
            .collect::<Result<_, _>>()?;
        let whole = get_totals(rows, input)?;
        let largest = get_totals(rows, input)?;
        let distinct_words = input.values(rows)?;
        let words = get_lists(rows, input)?;
        Ok(zip_columns!(
            rows,
            Self {
                process,
                object,
                stack,
                frame,
                op,
                threads,
                objects,
                run,
                waited,
                ends,
                whole,
                largest,
                distinct_words,
                words
            }
        ))
    }
}

impl Row for SectionSample {
    const TAG: [u8; 4] = *b"XSMP";
    const NAME: &'static str = "whole sections";

    fn weight(&self) -> usize {
        176 + 40 * self.touches.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.site));
        out.values(rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.object));
        out.values(rows.iter().map(|row| row.weight));
        out.deltas(rows.iter().map(|row| row.begin_ns));
        put_totals(out, rows.iter().map(|row| &row.totals));
        out.values(rows.iter().map(|row| row.untold));
        out.values(rows.iter().map(|row| row.touches.len() as u64));
        let touches = || rows.iter().flat_map(|row| &row.touches);
        out.deltas(touches().map(|touch| touch.word));
        out.values(touches().map(|touch| touch.reads));
        out.values(touches().map(|touch| touch.writes));
        out.values(touches().map(|touch| option(touch.read_by)));
        out.values(touches().map(|touch| option(touch.written_by)));
        out.values(touches().map(|touch| touch.read_first));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let site = input.deltas(rows)?;
        let thread = input.values(rows)?;
        let object = input.deltas(rows)?;
        let weight = input.values(rows)?;
        let begin_ns = input.deltas(rows)?;
        let totals = get_totals(rows, input)?;
        let untold = input.values(rows)?;
        let touches = touches(rows, input)?;
        Ok(zip_columns!(
            rows,
            Self {
                site,
                thread,
                object,
                weight,
                begin_ns,
                totals,
                untold,
                touches
            }
        ))
    }
}

fn touches(rows: usize, input: &mut In<'_>) -> Result<Vec<Vec<Touch>>, Malformed> {
    let (lengths, total) = lengths(rows, input)?;
    let word = input.deltas(total)?;
    let reads = input.values(total)?;
    let writes = input.values(total)?;
    let read_by = get_options(total, input)?;
    let written_by = get_options(total, input)?;
    let read_first = get_flags(total, input)?;
    let touches: Vec<Touch> = zip_columns!(
        total,
        Touch {
            word,
            reads,
            writes,
            read_by,
            written_by,
            read_first
        }
    );
    let mut touches = touches.into_iter();
    let list = |n: u64| touches.by_ref().take(n as usize).collect();
    Ok(lengths.into_iter().map(list).collect())
}
