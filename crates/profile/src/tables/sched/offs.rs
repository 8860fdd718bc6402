//! Time off the processors.

use super::{hists, put_hists, put_threads, threads, THREAD_BUCKETS, TIME_BUCKETS};
use crate::bytes::{In, Malformed, Out};
use crate::tables::texts::{Dictionary, Texts};
use crate::tables::{codes, flags, lengths, option, options, zip_columns, Row};
use crate::{ByThreads, Log2Histogram, OffCpu};

impl Row for OffCpu {
    const TAG: [u8; 4] = *b"SOFF";
    const NAME: &'static str = "times off the processors";

    fn weight(&self) -> usize {
        let bins = self.hist.each().len() + self.by_active.len() + self.by_working.len();
        let names: usize = self.kernel_stack.iter().map(|name| 24 + name.len()).sum();
        192 + 8 * bins + names
    }

    fn pack(rows: &[Self], out: &mut Out) {
        let mut texts = Texts::default();
        let names = rows.iter().flat_map(|row| &row.kernel_stack);
        let names: Vec<u64> = names.map(|name| texts.id(name)).collect();
        texts.pack(out);
        put_threads(out, rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.stack));
        out.values(rows.iter().map(|row| row.kernel_stack.len() as u64));
        out.deltas(names);
        out.values(rows.iter().map(|row| codes::off_reason_code(row.reason)));
        out.deltas(rows.iter().map(|row| i64::from(row.nr) as u64));
        out.deltas(rows.iter().map(|row| row.address));
        out.values(rows.iter().map(|row| option(row.name)));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.sum_ns));
        out.values(rows.iter().map(|row| row.max_ns));
        out.values(rows.iter().map(|row| row.unfinished_ns));
        put_powers(out, rows.iter().map(|row| &row.hist));
        put_hists(out, rows.iter().map(|row| &row.by_active), THREAD_BUCKETS);
        let differs = |row: &&Self| row.by_working != row.by_active;
        out.values(rows.iter().map(|row| u8::from(differs(&row))));
        let apart = rows.iter().filter(differs);
        put_hists(out, apart.map(|row| &row.by_working), THREAD_BUCKETS);
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let mut texts = Dictionary::unpack(input)?;
        let thread = threads(rows, input)?;
        let stack = input.deltas(rows)?;
        let kernel_stack = kernel_stacks(rows, &mut texts, input)?;
        let reason: Vec<u8> = input.values(rows)?;
        let reason: Vec<_> = reason
            .into_iter()
            .map(codes::off_reason)
            .collect::<Result<_, _>>()?;
        let nr = input.deltas(rows)?;
        let nr: Vec<i16> = nr.into_iter().map(call).collect::<Result<_, _>>()?;
        let address = input.deltas(rows)?;
        let name = options(input.values(rows)?)?;
        let n = input.values(rows)?;
        let sum_ns = input.values(rows)?;
        let max_ns = input.values(rows)?;
        let unfinished_ns = input.values(rows)?;
        let hist = hists(rows, input, TIME_BUCKETS)?;
        let by_active: Vec<ByThreads> = hists(rows, input, THREAD_BUCKETS)?;
        let (differs, apart) = flags(rows, input)?;
        let mut apart = hists(apart, input, THREAD_BUCKETS)?.into_iter();
        let by_working: Vec<_> = differs
            .into_iter()
            .zip(&by_active)
            .map(|(differs, same)| match differs {
                true => apart.next().unwrap_or_default(),
                false => same.clone(),
            })
            .collect();
        Ok(zip_columns!(
            rows,
            Self {
                thread,
                stack,
                kernel_stack,
                reason,
                nr,
                address,
                name,
                n,
                sum_ns,
                max_ns,
                unfinished_ns,
                hist,
                by_active,
                by_working
            }
        ))
    }
}

/// Lengths, then the bins of all rows.
fn put_powers<'a>(out: &mut Out, powers: impl Iterator<Item = &'a Log2Histogram> + Clone) {
    out.values(powers.clone().map(|powers| powers.each().len() as u64));
    for powers in powers {
        out.values(powers.each());
    }
}

/// A system call's number as it was before it became a difference modulo 2^64.
fn call(nr: u64) -> Result<i16, Malformed> {
    i16::try_from(nr as i64).map_err(|_| Malformed::Number)
}

fn kernel_stacks(
    rows: usize,
    texts: &mut Dictionary,
    input: &mut In<'_>,
) -> Result<Vec<Vec<String>>, Malformed> {
    let (depths, total) = lengths(rows, input)?;
    let mut names = input.deltas::<u32>(total)?.into_iter();
    depths
        .into_iter()
        .map(|depth| {
            let names = names.by_ref().take(depth as usize);
            names.map(|id| texts.text(id)).collect()
        })
        .collect()
}
