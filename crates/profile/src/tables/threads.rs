//! Threads.

use super::{option, options, zip_columns, Row};
use crate::bytes::{In, Malformed, Out};
use crate::Thread;

impl Row for Thread {
    const TAG: [u8; 4] = *b"THRD";
    const NAME: &'static str = "threads";

    fn weight(&self) -> usize {
        96 + self.name.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.tid));
        out.deltas(rows.iter().map(|row| row.parent_tid));
        out.texts(rows.iter().map(|row| row.name.as_str()));
        out.values(rows.iter().map(|row| option(row.start)));
        out.values(rows.iter().map(|row| row.create_stack));
        out.deltas(rows.iter().map(|row| row.start_ns));
        out.deltas(rows.iter().map(|row| row.end_ns));
        out.values(rows.iter().map(|row| row.cpu_ns));
        out.values(rows.iter().map(|row| row.user_ns));
        out.values(rows.iter().map(|row| row.sys_ns));
        out.values(rows.iter().map(|row| u8::from(row.run_delay_ns.is_some())));
        out.values(rows.iter().filter_map(|row| row.run_delay_ns));
        out.values(rows.iter().map(|row| row.voluntary_switches));
        out.values(rows.iter().map(|row| row.involuntary_switches));
        out.values(rows.iter().map(|row| u8::from(row.cpu_exact)));
        out.values(rows.iter().map(|row| row.lives));
        out.deltas(rows.iter().map(|row| row.stack_lo));
        out.deltas(rows.iter().map(|row| row.stack_hi));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let tid = input.deltas(rows)?;
        let parent_tid = input.deltas(rows)?;
        let name = input.texts(rows)?;
        let start = options(input.values(rows)?)?;
        let create_stack = input.values(rows)?;
        let start_ns = input.deltas(rows)?;
        let end_ns = input.deltas(rows)?;
        let cpu_ns = input.values(rows)?;
        let user_ns = input.values(rows)?;
        let sys_ns = input.values(rows)?;
        let delayed: Vec<u8> = input.values(rows)?;
        let mut delays = input
            .values::<u64>(delayed.iter().filter(|&&flag| flag != 0).count())?
            .into_iter();
        let run_delay_ns: Vec<_> = delayed
            .into_iter()
            .map(|flag| if flag == 0 { None } else { delays.next() })
            .collect();
        let voluntary_switches = input.values(rows)?;
        let involuntary_switches = input.values(rows)?;
        let cpu_exact: Vec<u8> = input.values(rows)?;
        let lives = input.values(rows)?;
        let stack_lo = input.deltas(rows)?;
        let stack_hi = input.deltas(rows)?;
        Ok(zip_columns!(
            rows,
            |tid,
             parent_tid,
             name,
             start,
             create_stack,
             start_ns,
             end_ns,
             cpu_ns,
             user_ns,
             sys_ns,
             run_delay_ns,
             voluntary_switches,
             involuntary_switches,
             cpu_exact,
             lives,
             stack_lo,
             stack_hi| Self {
                tid,
                parent_tid,
                name,
                start,
                create_stack,
                start_ns,
                end_ns,
                cpu_ns,
                user_ns,
                sys_ns,
                run_delay_ns,
                voluntary_switches,
                involuntary_switches,
                cpu_exact: cpu_exact != 0,
                lives,
                stack_lo,
                stack_hi,
            }
        ))
    }
}
