//! Threads and slices: activity with its CMetric. Most programs never wait in a loop; their working figures are
//! the others once more, and take no room.

use super::{hists, put_hists, put_threads, threads, THREAD_BUCKETS};
use crate::bytes::{In, Malformed, Out};
use crate::tables::{codes, flags, option, options, zip_columns, Row};
use crate::{ByThreads, SchedThread, Slice};

impl Row for SchedThread {
    const TAG: [u8; 4] = *b"STHR";
    const NAME: &'static str = "scheduled threads";

    fn weight(&self) -> usize {
        112
    }

    fn pack(rows: &[Self], out: &mut Out) {
        put_threads(out, rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.start_ns));
        out.deltas(rows.iter().map(|row| row.end_ns));
        out.values(rows.iter().map(|row| row.running_ns));
        out.values(rows.iter().map(|row| row.delayed_ns));
        out.values(rows.iter().map(|row| row.preempted_ns));
        out.values(rows.iter().map(|row| row.spinning_ns));
        out.values(rows.iter().map(|row| row.blocked_ns));
        out.floats(rows.iter().map(|row| row.cm_ns));
        out.floats(rows.iter().map(|row| row.cm_working_ns));
        out.values(rows.iter().map(|row| row.slices));
        out.values(rows.iter().map(|row| row.preemptions));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let thread = threads(rows, input)?;
        let start_ns = input.deltas(rows)?;
        let end_ns = input.deltas(rows)?;
        let running_ns = input.values(rows)?;
        let delayed_ns = input.values(rows)?;
        let preempted_ns = input.values(rows)?;
        let spinning_ns = input.values(rows)?;
        let blocked_ns = input.values(rows)?;
        let cm_ns = input.floats(rows)?;
        let cm_working_ns = input.floats(rows)?;
        let slices = input.values(rows)?;
        let preemptions = input.values(rows)?;
        Ok(zip_columns!(
            rows,
            Self {
                thread,
                start_ns,
                end_ns,
                running_ns,
                delayed_ns,
                preempted_ns,
                spinning_ns,
                blocked_ns,
                cm_ns,
                cm_working_ns,
                slices,
                preemptions
            }
        ))
    }
}

/// Whether the working figures of a slice are not those of all activity.
fn differs(row: &Slice) -> bool {
    row.cm_working_ns != row.cm_ns || row.by_working != row.by_active
}

impl Row for Slice {
    const TAG: [u8; 4] = *b"SLIC";
    const NAME: &'static str = "slices";

    fn weight(&self) -> usize {
        128 + 8 * (self.by_active.len() + self.by_working.len())
    }

    fn pack(rows: &[Self], out: &mut Out) {
        put_threads(out, rows.iter().map(|row| row.thread));
        out.deltas(rows.iter().map(|row| row.stack));
        out.values(rows.iter().map(|row| codes::code_from_code(row.from)));
        out.values(rows.iter().map(|row| option(row.spin)));
        out.values(rows.iter().map(|row| row.n));
        out.values(rows.iter().map(|row| row.active_ns));
        out.values(rows.iter().map(|row| row.running_ns));
        out.floats(rows.iter().map(|row| row.cm_ns));
        put_hists(out, rows.iter().map(|row| &row.by_active), THREAD_BUCKETS);
        out.values(rows.iter().map(|row| u8::from(differs(row))));
        let apart = || rows.iter().filter(|row| differs(row));
        out.floats(apart().map(|row| row.cm_working_ns));
        put_hists(out, apart().map(|row| &row.by_working), THREAD_BUCKETS);
        out.values(rows.iter().map(|row| row.faults));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let thread = threads(rows, input)?;
        let stack = input.deltas(rows)?;
        let from: Vec<u8> = input.values(rows)?;
        let from: Vec<_> = from
            .into_iter()
            .map(codes::code_from)
            .collect::<Result<_, _>>()?;
        let spin = options(input.values(rows)?)?;
        let n = input.values(rows)?;
        let active_ns = input.values(rows)?;
        let running_ns = input.values(rows)?;
        let cm_ns: Vec<f64> = input.floats(rows)?;
        let by_active = hists(rows, input, THREAD_BUCKETS)?;
        let (differs, apart) = flags(rows, input)?;
        let mut cm_apart = input.floats(apart)?.into_iter();
        let mut by_apart = hists(apart, input, THREAD_BUCKETS)?.into_iter();
        // Not in profiles of before November 2026.
        let faults = match input.left() {
            0 => vec![0; rows],
            _ => input.values(rows)?,
        };
        let mut slices =
            zip_columns!(rows, |thread,
                                stack,
                                from,
                                spin,
                                n,
                                faults,
                                active_ns,
                                running_ns,
                                cm_ns,
                                by_active| Self {
                thread,
                stack,
                from,
                spin,
                n,
                faults,
                active_ns,
                running_ns,
                cm_ns,
                cm_working_ns: cm_ns,
                by_active,
                by_working: ByThreads::default(),
            });
        for (slice, differs) in slices.iter_mut().zip(differs) {
            if !differs {
                slice.by_working = slice.by_active.clone();
            } else if let (Some(cm), Some(by)) = (cm_apart.next(), by_apart.next()) {
                slice.cm_working_ns = cm;
                slice.by_working = by;
            }
        }
        Ok(slices)
    }
}
