//! Bytes as a profile: every intact section, and what was wrong with the others.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::bytes::Malformed;
use crate::error::ReadError;
use crate::head::{
    Head, SchedHead, COSTS, END, EXPERIMENTS, GOROUTINES, INPUTS, LINES, LISTENS, MAKES_THREADS,
    META, MODULES, NO_AGENT, OTHERS, PROCESS, SCHED, SECTIONS, TIMELINE, TRACE, WRITES,
};
use crate::live_curves::{LIVE_CURVE, LIVE_SESSION};
use crate::sched_parts::{Found, SchedParts};
use crate::second_run::{self, SECOND_RUN};
use crate::section::{
    BadPayload, Header, Tag, FILE_BYTES, FILE_HEADER_BYTES, FORMAT_VERSION, HEADER_BYTES, MAGIC,
};
use crate::sections_parts::{SectionsHead, SectionsParts};
use crate::tables::{unpack, LaneRow, Row, Stack};
use crate::trace_parts::{TraceHead, TraceParts};
use crate::validate::{Allowance, Numbered, Parts};
use crate::warning::ReadWarning;
use crate::{
    Bin, CallSamples, Count, Detail, Experiments, Frame, FunctionStart, GoProgram, Interval,
    LineUse, LiveCurve, LiveCurves, Lost, Meta, Object, OffCpu, Pair, Process, ProcessTrace,
    Profile, SchedThread, SectionCall, SectionCode, SectionFollow, SectionInput, SectionSample,
    SectionSite, SectionWord, SharedLine, Slice, SpinLoop, Thread, Trace, TraceBlock, TraceObject,
    TraceSite, TraceThread, TraceWindow, Unattributed, Wake, MOST_LIVE_CURVES,
};

/// More processes than a machine can have.
const PROCESSES: u32 = 1 << 22;

/// More than three histograms and some numbers can have.
const SCHED_HEAD_BYTES: usize = 64 << 10;

/// More than a writer keeps of the goroutines of one program.
const GO_PROGRAM_BYTES: usize = 1 << 20;

/// More than the windows of a day.
const EXPERIMENTS_BYTES: usize = 48 << 20;

impl Profile {
    /// Reads a profile. A file that was cut short or damaged gives every section that is intact, and
    /// a warning for each that is not; indices that lead nowhere do not survive.
    pub fn read(bytes: &[u8]) -> Result<(Self, Vec<ReadWarning>), ReadError> {
        check_file_header(bytes)?;
        let mut reader = Reader {
            budget: FILE_BYTES,
            ..Reader::default()
        };
        reader.read(bytes);
        reader.finish(bytes.len() as u64)
    }
}

fn check_file_header(bytes: &[u8]) -> Result<(), ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    let magic = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        let found = bytes[..bytes.len().min(8)].escape_ascii();
        return Err(ReadError::Foreign {
            found: format!("\"{found}\""),
        });
    }
    match bytes.get(MAGIC.len()) {
        Some(&FORMAT_VERSION) => Ok(()),
        Some(&found) if found > FORMAT_VERSION => Err(ReadError::NewerVersion {
            found,
            supported: FORMAT_VERSION,
        }),
        _ => Err(ReadError::NothingIntact {
            bytes: bytes.len() as u64,
        }),
    }
}

#[derive(Default)]
struct Reader {
    meta: Option<Meta>,
    others_ns: u64,
    costs: String,
    processes: BTreeMap<u32, Parts>,
    sched: SchedParts,
    sections: SectionsParts,
    live_curves: Option<LiveCurves>,
    experiments: Option<Experiments>,
    second_run: second_run::Found,
    /// Of the run that is read now.
    is_second: bool,
    traces: BTreeMap<u32, TraceParts>,
    warnings: Vec<ReadWarning>,
    /// Bytes that may yet be unpacked.
    budget: usize,
    allowance: Allowance,
    complete: bool,
    intact: u64,
}

impl Reader {
    fn read(&mut self, bytes: &[u8]) {
        let mut at = FILE_HEADER_BYTES;
        while at < bytes.len() {
            let Some(header) = Header::read(&bytes[at..]) else {
                let next = next_header(bytes, at + 1);
                let skipped = (next - at) as u64;
                self.allowance.grant();
                self.warnings.push(ReadWarning::Skipped {
                    offset: at as u64,
                    bytes: skipped,
                });
                at = next;
                continue;
            };
            match self.section(&header, &bytes[at..]) {
                Ok(true) => self.intact += 1,
                Ok(false) => self.warnings.push(ReadWarning::UnknownSection {
                    tag: header.tag.escape_ascii().to_string(),
                    offset: at as u64,
                }),
                Err(why) => {
                    self.allowance.grant();
                    self.warnings.push(ReadWarning::Damaged {
                        section: section_name(header.tag),
                        process: (!is_of_the_run(header.tag)).then_some(header.process),
                        offset: at as u64,
                        why: why.to_string(),
                    });
                }
            }
            at = at.saturating_add(header.end());
        }
    }

    /// Takes a section in. `Ok(false)`: of a kind that is not known.
    fn section(&mut self, header: &Header, bytes: &[u8]) -> Result<bool, BadPayload> {
        let payload = self.payload(header, bytes)?;
        match header.tag {
            END => self.complete = true,
            META => self.meta = Some(fixed(&payload)?),
            OTHERS => self.others_ns = fixed(&payload)?,
            COSTS => self.costs = fixed(&payload)?,
            PROCESS => self.parts(header)?.head = Some(fixed::<Head>(&payload)?),
            NO_AGENT => self.parts(header)?.process.without_agent = true,
            LISTENS => self.parts(header)?.process.listens = true,
            MAKES_THREADS => self.parts(header)?.process.makes_threads = true,
            MODULES => self.parts(header)?.process.modules = fixed(&payload)?,
            Frame::TAG => self.table(header, &payload, |process| &mut process.frames)?,
            FunctionStart::TAG => self.rows(header, &payload, |process| &mut process.starts)?,
            Stack::TAG => self.table(header, &payload, |process| &mut process.stacks)?,
            Thread::TAG => self.table(header, &payload, |process| &mut process.threads)?,
            Object::TAG => self.table(header, &payload, |process| &mut process.objects)?,
            Count::TAG => self.rows(header, &payload, |process| &mut process.counts)?,
            Unattributed::TAG => {
                self.rows(header, &payload, |process| &mut process.unattributed)?;
            }
            Detail::TAG => self.rows(header, &payload, |process| &mut process.details)?,
            Pair::TAG => self.rows(header, &payload, |process| &mut process.pairs)?,
            SCHED => self.sched.head = Some(sched_head(&payload)?),
            String::TAG => self.sched_rows(&payload, |sched| &mut sched.names)?,
            SpinLoop::TAG => self.sched_rows(&payload, |sched| &mut sched.loops)?,
            SchedThread::TAG => self.sched_rows(&payload, |sched| &mut sched.threads)?,
            Lost::TAG => self.sched_rows(&payload, |sched| &mut sched.lost)?,
            Slice::TAG => self.sched_rows(&payload, |sched| &mut sched.slices)?,
            Bin::TAG => self.sched_rows(&payload, |sched| &mut sched.bins)?,
            OffCpu::TAG => self.sched_rows(&payload, |sched| &mut sched.offs)?,
            Wake::TAG => self.sched_rows(&payload, |sched| &mut sched.wakes)?,
            TIMELINE => self.sched.timeline.head = Some(fixed(&payload)?),
            LaneRow::TAG => self.sched_rows(&payload, |sched| &mut sched.timeline.lanes)?,
            Interval::TAG => self.sched_rows(&payload, |sched| &mut sched.timeline.intervals)?,
            LINES => self.sched.lines.head = Some(fixed(&payload)?),
            SharedLine::TAG => self.sched_rows(&payload, |sched| &mut sched.lines.lines)?,
            LineUse::TAG => self.sched_rows(&payload, |sched| &mut sched.lines.uses)?,
            WRITES => self.sched.writes_head = fixed(&payload)?,
            CallSamples::TAG => self.sched_rows(&payload, |sched| &mut sched.writes)?,
            GOROUTINES => {
                let program = go_program(&payload)?;
                self.charge(program.weight())?;
                self.sched.goroutines.push(program);
            }
            SECTIONS => self.sections.head = Some(sections_head(&payload)?),
            SectionSite::TAG => self.section_rows(&payload, |of| &mut of.sites)?,
            SectionWord::TAG => self.section_rows(&payload, |of| &mut of.words)?,
            SectionCode::TAG => self.section_rows(&payload, |of| &mut of.code)?,
            SectionCall::TAG => self.section_rows(&payload, |of| &mut of.calls)?,
            SectionFollow::TAG => self.section_rows(&payload, |of| &mut of.follows)?,
            SectionSample::TAG => self.section_rows(&payload, |of| &mut of.samples)?,
            INPUTS => {
                let inputs: Vec<SectionInput> = fixed(&payload)?;
                let weight = |input: &SectionInput| {
                    size_of::<SectionInput>() + size_of_val(input.found.as_slice())
                };
                self.charge(inputs.iter().map(weight).sum())?;
                self.sections.inputs.extend(inputs);
            }
            EXPERIMENTS => {
                let experiments = experiments(&payload)?;
                self.charge(experiments.weight())?;
                self.experiments = Some(experiments);
            }
            SECOND_RUN if self.is_second => return Err(Malformed::Number.into()),
            SECOND_RUN => self.second_run.take(header.process, payload),
            LIVE_SESSION => {
                let session = LiveCurves::read(&payload)?;
                self.charge(session.weight())?;
                let curves = self.live_curves.take().unwrap_or_default().curves;
                self.live_curves = Some(LiveCurves { curves, ..session });
            }
            LIVE_CURVE => {
                let curve = LiveCurve::read(&payload)?;
                self.charge(curve.weight())?;
                let curves = &mut self.live_curves.get_or_insert_default().curves;
                if curves.len() == MOST_LIVE_CURVES {
                    return Err(Malformed::Rows.into());
                }
                curves.push(curve);
            }
            TRACE => self.trace(header)?.head = Some(trace_head(&payload)?),
            TraceWindow::TAG => {
                let (_, rows) = self.unpack::<TraceWindow>(&payload)?;
                self.trace(header)?.trace.windows.extend(rows);
            }
            TraceThread::TAG => {
                let (_, rows) = self.unpack::<TraceThread>(&payload)?;
                self.trace(header)?.trace.threads.extend(rows);
            }
            TraceBlock::TAG => {
                let (_, rows) = self.unpack::<TraceBlock>(&payload)?;
                self.trace(header)?.trace.blocks.extend(rows);
            }
            TraceObject::TAG => self.trace_table(header, &payload, |trace| &mut trace.objects)?,
            TraceSite::TAG => self.trace_table(header, &payload, |trace| &mut trace.sites)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn trace(&mut self, header: &Header) -> Result<&mut TraceParts, BadPayload> {
        self.check_process(header)?;
        Ok(self.traces.entry(header.process).or_default())
    }

    fn trace_table<R: Row + Default + Clone>(
        &mut self,
        header: &Header,
        payload: &[u8],
        of: fn(&mut ProcessTrace) -> &mut Vec<R>,
    ) -> Result<(), BadPayload> {
        let (first, rows) = self.unpack::<R>(payload)?;
        self.check_process(header)?;
        let parts = self.traces.entry(header.process).or_default();
        match parts.append(first, rows, of, &mut self.allowance) {
            true => Ok(()),
            false => Err(Malformed::Number.into()),
        }
    }

    fn payload(&mut self, header: &Header, bytes: &[u8]) -> Result<Vec<u8>, BadPayload> {
        let too_large = BadPayload::TooLarge(header.raw_bytes() as u64);
        let left = self
            .budget
            .checked_sub(header.raw_bytes())
            .ok_or(too_large)?;
        let payload = header.payload(bytes)?;
        self.budget = left;
        Ok(payload)
    }

    fn check_process(&self, header: &Header) -> Result<(), BadPayload> {
        if header.process < PROCESSES {
            Ok(())
        } else {
            Err(Malformed::Number.into())
        }
    }

    fn parts(&mut self, header: &Header) -> Result<&mut Parts, BadPayload> {
        self.check_process(header)?;
        Ok(self.processes.entry(header.process).or_default())
    }

    /// Rows that others refer to by number: those of a lost section leave a gap, which is filled.
    fn table<R: Numbered>(
        &mut self,
        header: &Header,
        payload: &[u8],
        of: fn(&mut Process) -> &mut Vec<R>,
    ) -> Result<(), BadPayload> {
        let (first, rows) = self.unpack::<R>(payload)?;
        self.check_process(header)?;
        let parts = self.processes.entry(header.process).or_default();
        if parts.append(first, rows, of, &mut self.allowance) {
            Ok(())
        } else {
            Err(Malformed::Number.into())
        }
    }

    fn rows<R: Row>(
        &mut self,
        header: &Header,
        payload: &[u8],
        of: fn(&mut Process) -> &mut Vec<R>,
    ) -> Result<(), BadPayload> {
        let (_, rows) = self.unpack::<R>(payload)?;
        of(&mut self.parts(header)?.process).extend(rows);
        Ok(())
    }

    fn sched_rows<R: Row>(
        &mut self,
        payload: &[u8],
        of: fn(&mut SchedParts) -> &mut Found<R>,
    ) -> Result<(), BadPayload> {
        let (first, rows) = self.unpack::<R>(payload)?;
        Ok(of(&mut self.sched).append(first, rows)?)
    }

    fn section_rows<R: Row>(
        &mut self,
        payload: &[u8],
        of: fn(&mut SectionsParts) -> &mut Found<R>,
    ) -> Result<(), BadPayload> {
        let (first, rows) = self.unpack::<R>(payload)?;
        Ok(of(&mut self.sections).append(first, rows)?)
    }

    /// Unpacked rows are charged too: they can be many times larger than their bytes.
    fn unpack<R: Row>(&mut self, payload: &[u8]) -> Result<(u64, Vec<R>), BadPayload> {
        let (first, rows) = unpack::<R>(payload)?;
        self.charge(rows.iter().map(Row::weight).sum())?;
        Ok((first, rows))
    }

    fn charge(&mut self, bytes: usize) -> Result<(), BadPayload> {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.ok_or(BadPayload::TooLarge(bytes as u64))?;
        Ok(())
    }

    fn finish(mut self, bytes: u64) -> Result<(Profile, Vec<ReadWarning>), ReadError> {
        if self.intact == 0 || (self.meta.is_none() && self.processes.is_empty()) {
            return Err(ReadError::NothingIntact { bytes });
        }
        if !self.complete {
            self.warnings.push(ReadWarning::Truncated { bytes });
            self.allowance.grant();
        }
        if self.meta.is_none() {
            self.warnings.push(ReadWarning::NoMeta);
        }
        let warnings = &mut self.warnings;
        let allowance = &mut self.allowance;
        let numbers: Vec<u32> = self.processes.keys().copied().collect();
        let processes = self.processes.into_iter();
        let processes: Vec<_> = processes
            .map(|(ix, parts)| parts.finish(ix, allowance, warnings))
            .collect();
        let sched = self.sched.finish(&numbers, &processes, warnings);
        let sections = self.sections.finish(&numbers, &processes, warnings);
        let traces = self.traces.into_iter().filter_map(|(number, parts)| {
            let ix = numbers.binary_search(&number).ok()?;
            Some(parts.finish(ix as u32, processes.get(ix)?, warnings))
        });
        let traces: Vec<ProcessTrace> = traces.collect();
        let trace = (!traces.is_empty()).then_some(Trace { processes: traces });
        let mut meta = self.meta.unwrap_or_default();
        meta.others_ns = self.others_ns;
        meta.costs = self.costs;
        let second_run = second_run(self.second_run.bytes(), self.budget, &mut self.warnings);
        let profile = Profile {
            meta,
            processes,
            sched,
            sections,
            live_curves: self.live_curves,
            trace,
            experiments: self.experiments,
            second_run,
        };
        Ok((profile, self.warnings))
    }
}

/// The second run in these bytes. What is wrong with it is told with the rest.
fn second_run(
    bytes: Vec<u8>,
    budget: usize,
    warnings: &mut Vec<ReadWarning>,
) -> Option<Box<Profile>> {
    if bytes.is_empty() || check_file_header(&bytes).is_err() {
        return None;
    }
    let mut reader = Reader {
        budget,
        is_second: true,
        ..Reader::default()
    };
    reader.read(&bytes);
    let (profile, of_it) = reader.finish(bytes.len() as u64).ok()?;
    warnings.extend(of_it);
    Some(Box::new(profile))
}

/// A structure that postcard wrote, and nothing after it.
pub(crate) fn fixed<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(payload) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(Malformed::Long),
        Err(_) => Err(Malformed::Structure),
    }
}

fn sched_head(payload: &[u8]) -> Result<SchedHead, Malformed> {
    // In memory it may be eight times as large.
    if payload.len() > SCHED_HEAD_BYTES {
        return Err(Malformed::Long);
    }
    let head: SchedHead = fixed(payload)?;
    match head.is_sound() {
        true => Ok(head),
        false => Err(Malformed::Number),
    }
}

fn go_program(payload: &[u8]) -> Result<GoProgram, Malformed> {
    match payload.len() <= GO_PROGRAM_BYTES {
        true => fixed(payload),
        false => Err(Malformed::Long),
    }
}

fn experiments(payload: &[u8]) -> Result<Experiments, Malformed> {
    if payload.len() > EXPERIMENTS_BYTES {
        return Err(Malformed::Long);
    }
    let experiments: Experiments = fixed(payload)?;
    match experiments.is_sound() {
        true => Ok(experiments),
        false => Err(Malformed::Number),
    }
}

fn sections_head(payload: &[u8]) -> Result<SectionsHead, Malformed> {
    match payload.len() <= SCHED_HEAD_BYTES {
        true => fixed(payload),
        false => Err(Malformed::Long),
    }
}

fn trace_head(payload: &[u8]) -> Result<TraceHead, Malformed> {
    match payload.len() <= SCHED_HEAD_BYTES {
        true => fixed(payload),
        false => Err(Malformed::Long),
    }
}

/// Where the next intact header is, or the end.
fn next_header(bytes: &[u8], from: usize) -> usize {
    let last = bytes.len().saturating_sub(HEADER_BYTES);
    (from..=last)
        .find(|&at| Header::read(&bytes[at..]).is_some())
        .unwrap_or(bytes.len())
}

/// Whether sections of this kind are about no process.
fn is_of_the_run(tag: Tag) -> bool {
    matches!(
        tag,
        END | META
            | INPUTS
            | EXPERIMENTS
            | SECOND_RUN
            | OTHERS
            | COSTS
            | SCHED
            | String::TAG
            | SpinLoop::TAG
            | SchedThread::TAG
            | Lost::TAG
            | Slice::TAG
            | Bin::TAG
            | OffCpu::TAG
            | Wake::TAG
            | TIMELINE
            | LaneRow::TAG
            | Interval::TAG
            | LINES
            | WRITES
            | GOROUTINES
            | SharedLine::TAG
            | LineUse::TAG
            | SECTIONS
            | LIVE_SESSION
            | LIVE_CURVE
            | SectionSite::TAG
            | SectionWord::TAG
            | SectionCode::TAG
            | SectionCall::TAG
            | SectionFollow::TAG
            | SectionSample::TAG
    )
}

fn section_name(tag: Tag) -> String {
    match tag {
        END => "end mark",
        INPUTS => "values of critical sections",
        EXPERIMENTS => "experiments",
        SECOND_RUN => "second run",
        META => "run",
        OTHERS => "other programs",
        COSTS => "costs of the machine",
        PROCESS => "process",
        NO_AGENT => "without agent",
        LISTENS => "listens",
        MAKES_THREADS => "makes threads",
        SCHED => "scheduler",
        MODULES => "modules",
        Frame::TAG => Frame::NAME,
        FunctionStart::TAG => FunctionStart::NAME,
        Stack::TAG => Stack::NAME,
        Thread::TAG => Thread::NAME,
        Object::TAG => Object::NAME,
        Count::TAG => Count::NAME,
        Unattributed::TAG => Unattributed::NAME,
        Detail::TAG => Detail::NAME,
        Pair::TAG => Pair::NAME,
        String::TAG => String::NAME,
        SpinLoop::TAG => SpinLoop::NAME,
        SchedThread::TAG => SchedThread::NAME,
        Lost::TAG => Lost::NAME,
        Slice::TAG => Slice::NAME,
        Bin::TAG => Bin::NAME,
        OffCpu::TAG => OffCpu::NAME,
        Wake::TAG => Wake::NAME,
        TIMELINE => "timeline",
        LaneRow::TAG => LaneRow::NAME,
        Interval::TAG => Interval::NAME,
        LINES => "cache lines",
        SharedLine::TAG => SharedLine::NAME,
        LineUse::TAG => LineUse::NAME,
        WRITES => "lengths of writes",
        CallSamples::TAG => CallSamples::NAME,
        GOROUTINES => "goroutines",
        SECTIONS => "critical sections",
        LIVE_SESSION => "session",
        LIVE_CURVE => "curve of a session",
        SectionSite::TAG => SectionSite::NAME,
        SectionWord::TAG => SectionWord::NAME,
        SectionCode::TAG => SectionCode::NAME,
        SectionCall::TAG => SectionCall::NAME,
        SectionFollow::TAG => SectionFollow::NAME,
        SectionSample::TAG => SectionSample::NAME,
        TRACE => "trace",
        TraceWindow::TAG => TraceWindow::NAME,
        TraceObject::TAG => TraceObject::NAME,
        TraceSite::TAG => TraceSite::NAME,
        TraceThread::TAG => TraceThread::NAME,
        TraceBlock::TAG => TraceBlock::NAME,
        _ => return tag.escape_ascii().to_string(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::{Header, Reader, GOROUTINES};
    use crate::section::encode;
    use crate::{GoProgram, GoWait};

    #[test]
    fn goroutines_are_charged_by_what_they_take_in_memory() {
        let program = GoProgram {
            waits: vec![GoWait::default(); 1000],
            ..GoProgram::default()
        };
        let payload = postcard::to_stdvec(&program).unwrap();
        let section = encode(GOROUTINES, 0, &payload).unwrap();
        let header = Header::read(&section).unwrap();
        let taken = |budget| {
            let mut reader = Reader {
                budget,
                ..Reader::default()
            };
            let taken = reader.section(&header, &section);
            (taken.is_ok(), reader.sched.goroutines.len())
        };
        let in_memory = 1000 * size_of::<GoWait>();
        assert!(payload.len() * 4 < in_memory);
        assert_eq!(taken(payload.len() + in_memory), (false, 0));
        assert_eq!(taken(payload.len() + in_memory + 1000), (true, 1));
    }
}
