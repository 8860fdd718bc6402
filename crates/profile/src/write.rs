//! A profile as bytes.

use std::io::{self, Write};

use serde::Serialize;

use crate::head::{
    Head, SchedHead, COSTS, END, EXPERIMENTS, GOROUTINES, INPUTS, LINES, LISTENS, MAKES_THREADS,
    META, MODULES, NO_AGENT, OTHERS, PROCESS, SCHED, SECTIONS, TIMELINE, TRACE, WRITES,
};
use crate::lines_parts::LinesHead;
use crate::live_curves::{LIVE_CURVE, LIVE_SESSION};
use crate::second_run;
use crate::section::{encode, Tag, FORMAT_VERSION, MAGIC};
use crate::sections_parts::SectionsHead;
use crate::tables::{chunks, LaneRow, Row, CHUNK_ROWS};
use crate::timeline_parts::TimelineHead;
use crate::trace_parts::TraceHead;
use crate::{Interval, Lane, Process, ProcessTrace, Profile, Sched, Sections, Timeline};

/// A part of them is far below what a section may hold: one has 4,096 words at most.
const INPUT_ROWS: usize = 256;

impl Profile {
    /// Writes the profile. What other sections refer to comes first, so that a file that was cut
    /// short is of most use.
    ///
    /// Neighbouring rows that are alike make a small file: order `counts`, `details` and `pairs` by
    /// object, thread and frame or stack; the tables of `sched` by thread and stack.
    pub fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&[FORMAT_VERSION])?;
        write_fixed(&mut out, META, 0, &self.meta)?;
        if self.meta.others_ns > 0 {
            write_fixed(&mut out, OTHERS, 0, &self.meta.others_ns)?;
        }
        if !self.meta.costs.is_empty() {
            write_fixed(&mut out, COSTS, 0, &self.meta.costs)?;
        }
        for (ix, process) in self.processes.iter().enumerate() {
            let ix = u32::try_from(ix).map_err(io::Error::other)?;
            write_process(&mut out, ix, process)?;
        }
        if let Some(sched) = &self.sched {
            write_sched(&mut out, sched)?;
        }
        if let Some(sections) = &self.sections {
            write_sections(&mut out, sections)?;
        }
        if let Some(live) = &self.live_curves {
            write_fixed(&mut out, LIVE_SESSION, 0, live)?;
            for curve in &live.curves {
                write_fixed(&mut out, LIVE_CURVE, 0, curve)?;
            }
        }
        for trace in self.trace.iter().flat_map(|trace| &trace.processes) {
            write_trace(&mut out, trace)?;
        }
        if let Some(experiments) = &self.experiments {
            write_fixed(&mut out, EXPERIMENTS, 0, experiments)?;
        }
        if let Some(second) = &self.second_run {
            second_run::write(&mut out, second)?;
        }
        out.write_all(&encode(END, 0, &[])?)?;
        out.flush()
    }

    /// The profile's bytes.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }
}

fn write_process(out: &mut impl Write, ix: u32, process: &Process) -> io::Result<()> {
    write_fixed(out, PROCESS, ix, &Head::of(process))?;
    if process.without_agent {
        out.write_all(&encode(NO_AGENT, ix, &[])?)?;
    }
    if process.listens {
        out.write_all(&encode(LISTENS, ix, &[])?)?;
    }
    if process.makes_threads {
        out.write_all(&encode(MAKES_THREADS, ix, &[])?)?;
    }
    write_fixed(out, MODULES, ix, &process.modules)?;
    write_table(out, ix, &process.frames)?;
    write_table(out, ix, &process.starts)?;
    write_table(out, ix, &process.stacks)?;
    write_table(out, ix, &process.threads)?;
    write_table(out, ix, &process.objects)?;
    write_table(out, ix, &process.details)?;
    write_table(out, ix, &process.counts)?;
    write_table(out, ix, &process.unattributed)?;
    write_table(out, ix, &process.pairs)
}

/// The long tables last: threads, losses and names are of use without them.
fn write_sched(out: &mut impl Write, sched: &Sched) -> io::Result<()> {
    write_fixed(out, SCHED, 0, &SchedHead::of(sched))?;
    if let Some(timeline) = &sched.timeline {
        // It says what there should be, wherever the file ends.
        write_fixed(out, TIMELINE, 0, &TimelineHead::of(timeline))?;
    }
    if let Some(lines) = &sched.lines {
        write_fixed(out, LINES, 0, &LinesHead::of(lines))?;
    }
    if !sched.writes.is_empty() {
        write_fixed(out, WRITES, 0, &(sched.writes.len() as u64))?;
    }
    write_table(out, 0, &sched.names)?;
    write_table(out, 0, &sched.loops)?;
    write_table(out, 0, &sched.threads)?;
    write_table(out, 0, &sched.lost)?;
    write_table(out, 0, &sched.slices)?;
    write_table(out, 0, &sched.bins.bins)?;
    write_table(out, 0, &sched.offs)?;
    write_table(out, 0, &sched.wakes)?;
    if let Some(lines) = &sched.lines {
        write_table(out, 0, &lines.lines)?;
        write_table(out, 0, &lines.uses)?;
    }
    write_table(out, 0, &sched.writes)?;
    if let Some(timeline) = &sched.timeline {
        write_timeline(out, timeline)?;
    }
    let mut programs = sched.goroutines.iter();
    programs.try_for_each(|program| write_fixed(out, GOROUTINES, 0, program))
}

fn write_timeline(out: &mut impl Write, timeline: &Timeline) -> io::Result<()> {
    let row = |lane: &Lane| {
        let intervals = u32::try_from(lane.intervals.len()).map_err(io::Error::other)?;
        let thread = lane.thread;
        Ok(LaneRow { thread, intervals })
    };
    let lanes: io::Result<Vec<LaneRow>> = timeline.lanes.iter().map(row).collect();
    write_table(out, 0, &lanes?)?;
    let mut intervals = timeline.lanes.iter().flat_map(|lane| &lane.intervals);
    let mut first = 0;
    // Section by section: of all of them a second copy would be among the largest things in memory.
    loop {
        let part: Vec<Interval> = intervals.by_ref().take(CHUNK_ROWS).copied().collect();
        if part.is_empty() {
            return Ok(());
        }
        write_part(out, 0, first, &part)?;
        first += part.len() as u64;
    }
}

/// What the long tables refer to comes first.
fn write_sections(out: &mut impl Write, sections: &Sections) -> io::Result<()> {
    write_fixed(out, SECTIONS, 0, &SectionsHead::of(sections))?;
    write_table(out, 0, &sections.sites)?;
    write_table(out, 0, &sections.words)?;
    write_table(out, 0, &sections.code)?;
    write_table(out, 0, &sections.calls)?;
    write_table(out, 0, &sections.follows)?;
    write_table(out, 0, &sections.samples)?;
    let mut inputs = sections.inputs.chunks(INPUT_ROWS);
    inputs.try_for_each(|part| write_fixed(out, INPUTS, 0, &part))
}

/// Blocks last: they refer to all others.
fn write_trace(out: &mut impl Write, trace: &ProcessTrace) -> io::Result<()> {
    let ix = trace.process;
    write_fixed(out, TRACE, ix, &TraceHead::of(trace))?;
    write_table(out, ix, &trace.windows)?;
    write_table(out, ix, &trace.objects)?;
    write_table(out, ix, &trace.sites)?;
    write_table(out, ix, &trace.threads)?;
    write_table(out, ix, &trace.blocks)
}

fn write_fixed(out: &mut impl Write, tag: Tag, ix: u32, value: &impl Serialize) -> io::Result<()> {
    let payload = postcard::to_stdvec(value).map_err(io::Error::other)?;
    out.write_all(&encode(tag, ix, &payload)?)
}

fn write_table<R: Row>(out: &mut impl Write, ix: u32, rows: &[R]) -> io::Result<()> {
    write_part(out, ix, 0, rows)
}

/// The rows of a table from row `start` on.
fn write_part<R: Row>(out: &mut impl Write, ix: u32, start: u64, rows: &[R]) -> io::Result<()> {
    chunks(start, rows).try_for_each(|payload| out.write_all(&encode(R::TAG, ix, &payload)?))
}
