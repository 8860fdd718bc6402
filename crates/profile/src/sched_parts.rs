//! What the scheduler said, put together from its sections. Rows that were lost leave gaps, which are closed: the
//! indices of other rows are translated, and those that led to a lost row do not survive.

use crate::bytes::Malformed;
use crate::head::SchedHead;
use crate::lines_parts::LinesParts;
use crate::tables::Row;
use crate::timeline_parts::{Tables, TimelineParts};
use crate::warning::ReadWarning;
use crate::{
    Bin, Bins, CallSamples, GoProgram, Lost, OffCpu, Process, Sched, SchedThread, Slice, SpinLoop,
    StackIx, ThreadRef, Wake, Waker,
};

/// Rows as they were found, each with its number in the file.
#[derive(Debug)]
pub(crate) struct Found<R> {
    rows: Vec<R>,
    /// Ascending.
    numbers: Vec<u32>,
}

impl<R> Default for Found<R> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            numbers: Vec::new(),
        }
    }
}

/// What can be kept of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Whole,
    /// It says enough without what it referred to.
    Repaired,
    Bad,
}

impl Verdict {
    pub(crate) fn of(keep: bool, whole: bool) -> Self {
        match (keep, whole) {
            (false, _) => Self::Bad,
            (true, false) => Self::Repaired,
            (true, true) => Self::Whole,
        }
    }
}

impl<R: Row> Found<R> {
    /// Adds the rows of a section that begins with row `first`.
    pub(crate) fn append(&mut self, first: u64, rows: Vec<R>) -> Result<(), Malformed> {
        let next = self.numbers.last().map_or(0, |&last| u64::from(last) + 1);
        let end = first.checked_add(rows.len() as u64);
        if first < next || end.is_none_or(|end| end > u64::from(u32::MAX)) {
            return Err(Malformed::Number);
        }
        self.numbers
            .extend((first..).map(|n| n as u32).take(rows.len()));
        self.rows.extend(rows);
        Ok(())
    }

    /// For rows that are known by their place alone: behind a gap none can be used.
    pub(crate) fn cut_at_gap(&mut self) {
        let whole = (0..).zip(&self.numbers).take_while(|(at, &n)| *at == n);
        let whole = whole.count();
        self.rows.truncate(whole);
        self.numbers.truncate(whole);
    }

    /// The rows, in order of their numbers.
    pub(crate) fn rows(&self) -> &[R] {
        &self.rows
    }

    /// Those that are left of the rows with these numbers.
    pub(crate) fn range(&self, first: u64, end: u64) -> &[R] {
        let place = |number| self.numbers.partition_point(|&n| u64::from(n) < number);
        self.rows.get(place(first)..place(end)).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where the row with this number is now.
    fn place(&self, number: u32) -> Option<u32> {
        let place = self.numbers.binary_search(&number).ok()?;
        Some(place as u32)
    }

    /// The same for an index that may be missing; false if it led nowhere and is now `None`.
    pub(crate) fn translate(&self, number: &mut Option<u32>) -> bool {
        let was = *number;
        *number = was.and_then(|was| self.place(was));
        number.is_some() == was.is_some()
    }

    /// Where the row with this number is now; false if it is lost.
    pub(crate) fn move_to(&self, number: &mut u32) -> bool {
        match self.place(*number) {
            Some(place) => {
                *number = place;
                true
            }
            None => false,
        }
    }

    /// The same for many, without those that are lost; false if there were such.
    pub(crate) fn translate_all(&self, numbers: &mut Vec<u32>) -> bool {
        let were = numbers.len();
        numbers.retain_mut(|number| self.move_to(number));
        numbers.len() == were
    }

    /// The rows, and no longer their numbers.
    pub(crate) fn into_rows(self) -> Vec<R> {
        self.rows
    }

    /// Judges and counts. `of`: rows there were.
    pub(crate) fn check(
        &mut self,
        of: u64,
        warnings: &mut Vec<ReadWarning>,
        mut judge: impl FnMut(&mut R) -> Verdict,
    ) {
        let table = R::NAME.to_owned();
        let found = self.rows.len() as u64;
        if found < of {
            let (table, rows) = (table.clone(), of - found);
            warnings.push(ReadWarning::SchedCut { table, rows, of });
        }
        let (mut bad, mut repaired) = (0, 0);
        let rows = std::mem::take(&mut self.rows).into_iter();
        let numbers = std::mem::take(&mut self.numbers).into_iter();
        for (mut row, number) in rows.zip(numbers) {
            match judge(&mut row) {
                Verdict::Bad => {
                    bad += 1;
                    continue;
                }
                Verdict::Repaired => repaired += 1,
                Verdict::Whole => {}
            }
            self.rows.push(row);
            self.numbers.push(number);
        }
        let pid = None;
        if bad > 0 {
            let (table, rows) = (table.clone(), bad);
            warnings.push(ReadWarning::Dropped { table, pid, rows });
        }
        if repaired > 0 {
            let rows = repaired;
            warnings.push(ReadWarning::Repaired { table, pid, rows });
        }
    }
}

/// What has been read of it.
#[derive(Debug, Default)]
pub(crate) struct SchedParts {
    pub(crate) head: Option<SchedHead>,
    pub(crate) names: Found<String>,
    pub(crate) loops: Found<SpinLoop>,
    pub(crate) threads: Found<SchedThread>,
    pub(crate) lost: Found<Lost>,
    pub(crate) slices: Found<Slice>,
    pub(crate) bins: Found<Bin>,
    pub(crate) offs: Found<OffCpu>,
    pub(crate) wakes: Found<Wake>,
    pub(crate) timeline: TimelineParts,
    pub(crate) lines: LinesParts,
    /// How many rows of the next there are.
    pub(crate) writes_head: u64,
    pub(crate) writes: Found<CallSamples>,
    pub(crate) goroutines: Vec<GoProgram>,
}

impl SchedParts {
    /// All of it, sound; `None` if nobody listened, or if even the times of the recording are lost.
    /// `numbers`: of the processes in the file, ascending.
    pub(crate) fn finish(
        self,
        numbers: &[u32],
        processes: &[Process],
        warnings: &mut Vec<ReadWarning>,
    ) -> Option<Sched> {
        let Some(head) = self.head else {
            if self.has_rows() {
                warnings.push(ReadWarning::NoSched);
            }
            return None;
        };
        let known = Known { numbers, processes };
        let mut names = self.names;
        names.check(head.names, warnings, |_| Verdict::Whole);
        let mut loops = self.loops;
        loops.check(head.loops, warnings, |row| known.spin_loop(row));
        let mut threads = self.threads;
        threads.check(head.threads, warnings, |row| known.sched_thread(row));
        let mut lost = self.lost;
        lost.check(head.lost, warnings, |_| Verdict::Whole);
        let mut slices = self.slices;
        slices.check(head.slices, warnings, |row| known.slice(row, &loops));
        let mut bins = self.bins;
        bins.cut_at_gap();
        bins.check(head.bins, warnings, |bin| {
            Verdict::of(true, slices.translate(&mut bin.top))
        });
        let mut offs = self.offs;
        offs.check(head.offs, warnings, |row| known.off(row, &names));
        let mut wakes = self.wakes;
        wakes.check(head.wakes, warnings, |row| known.wake(row, &offs));
        let lines = self.lines.finish(&known, warnings);
        let mut writes = self.writes;
        writes.check(self.writes_head, warnings, |row| known.write(row, &names));
        let mut goroutines = self.goroutines;
        goroutines.retain_mut(|program| known.go_program(program, warnings));
        let tables = Tables {
            slices: &slices,
            offs: &offs,
            wakes: &wakes,
        };
        let timeline = self.timeline.finish(&known, &tables, warnings);
        Some(Sched {
            source: head.source,
            start_ns: head.start_ns,
            end_ns: head.end_ns,
            events: head.events,
            sample_period_ns: head.sample_period_ns,
            active: head.active,
            working: head.working,
            running: head.running,
            bins: Bins {
                width_ns: head.bin_width_ns,
                bins: bins.rows,
            },
            threads: threads.rows,
            slices: slices.rows,
            offs: offs.rows,
            wakes: wakes.rows,
            loops: loops.rows,
            names: names.rows,
            lost: lost.rows,
            contradictions: head.contradictions,
            timeline,
            lines,
            writes: writes.rows,
            goroutines,
        })
    }

    fn has_rows(&self) -> bool {
        !(self.names.is_empty()
            && self.loops.is_empty()
            && self.threads.is_empty()
            && self.lost.is_empty()
            && self.slices.is_empty()
            && self.bins.is_empty()
            && self.offs.is_empty()
            && self.wakes.is_empty()
            && self.timeline.lanes.is_empty()
            && self.lines.lines.is_empty()
            && self.writes.is_empty()
            && self.goroutines.is_empty())
    }
}

/// The processes that rows may be about.
pub(crate) struct Known<'a> {
    pub(crate) numbers: &'a [u32],
    pub(crate) processes: &'a [Process],
}

/// A length of time that can be.
fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

impl Known<'_> {
    /// Processes without one intact section are not in the profile, and the others have moved up.
    pub(crate) fn process(&self, number: &mut u32) -> Option<&Process> {
        let place = self.numbers.binary_search(number).ok()?;
        *number = place as u32;
        self.processes.get(place)
    }

    /// The process of a thread that is known.
    pub(crate) fn thread(&self, thread: &mut ThreadRef) -> Option<&Process> {
        self.process(&mut thread.process)
            .filter(|process| (thread.thread as usize) < process.threads.len())
    }

    fn spin_loop(&self, row: &mut SpinLoop) -> Verdict {
        let Some(process) = self.process(&mut row.process) else {
            return Verdict::Bad;
        };
        let had = row.frame.is_some();
        row.frame = row.frame.filter(|&ix| (ix as usize) < process.frames.len());
        Verdict::of(true, row.frame.is_some() == had)
    }

    fn sched_thread(&self, row: &mut SchedThread) -> Verdict {
        let amounts = is_amount(row.cm_ns) && is_amount(row.cm_working_ns);
        Verdict::of(amounts && self.thread(&mut row.thread).is_some(), true)
    }

    fn slice(&self, row: &mut Slice, loops: &Found<SpinLoop>) -> Verdict {
        let amounts = is_amount(row.cm_ns) && is_amount(row.cm_working_ns);
        match self.thread(&mut row.thread) {
            Some(process) if amounts => {
                let whole = keep_stack(process, &mut row.stack) & loops.translate(&mut row.spin);
                Verdict::of(true, whole)
            }
            _ => Verdict::Bad,
        }
    }

    fn off(&self, row: &mut OffCpu, names: &Found<String>) -> Verdict {
        match self.thread(&mut row.thread) {
            Some(process) => {
                let whole = keep_stack(process, &mut row.stack) & names.translate(&mut row.name);
                Verdict::of(true, whole)
            }
            None => Verdict::Bad,
        }
    }

    fn write(&self, row: &mut CallSamples, names: &Found<String>) -> Verdict {
        match self.thread(&mut row.thread) {
            Some(process) => {
                let whole = keep_stack(process, &mut row.stack) & names.translate(&mut row.name);
                Verdict::of(true, whole)
            }
            None => Verdict::Bad,
        }
    }

    /// Whether it is of a process that is there. Its rows refer to one another by their places, so that those that lead nowhere lose
    /// only what they led to.
    fn go_program(&self, program: &mut GoProgram, warnings: &mut Vec<ReadWarning>) -> bool {
        let table = || "goroutines".to_owned();
        let Some(process) = self.process(&mut program.process) else {
            let (table, pid, rows) = (table(), None, 1);
            warnings.push(ReadWarning::Dropped { table, pid, rows });
            return false;
        };
        let (waits, places) = (program.waits.len(), program.places.len());
        let leads = |ix: &mut Option<u32>, rows: usize| {
            let had = ix.is_some();
            *ix = ix.filter(|&ix| (ix as usize) < rows);
            ix.is_some() == had
        };
        let mut repaired = 0;
        for wait in &mut program.waits {
            let whole = keep_stack(process, &mut wait.stack) & leads(&mut wait.place, places);
            repaired += u64::from(!whole);
        }
        for place in &mut program.places {
            let mut whole = keep_stack(process, &mut place.stack);
            for doing in &mut place.doing {
                whole &= leads(&mut doing.wait, waits);
            }
            repaired += u64::from(!whole);
        }
        if repaired > 0 {
            let (table, pid, rows) = (table(), None, repaired);
            warnings.push(ReadWarning::Repaired { table, pid, rows });
        }
        true
    }

    fn wake(&self, row: &mut Wake, offs: &Found<OffCpu>) -> Verdict {
        let Some(off) = offs.place(row.off) else {
            return Verdict::Bad;
        };
        row.off = off;
        let waker = match &mut row.waker {
            Waker::Unknown | Waker::Interrupt | Waker::Outside(_) => true,
            Waker::Thread(thread, stack) => match self.thread(thread) {
                Some(process) => keep_stack(process, stack),
                None => {
                    row.waker = Waker::Unknown;
                    false
                }
            },
        };
        let waits = row.waker_off.len();
        row.waker_off
            .retain_mut(|(wait, _)| match offs.place(*wait) {
                Some(place) => {
                    *wait = place;
                    true
                }
                None => false,
            });
        Verdict::of(true, waker && waits == row.waker_off.len())
    }
}

/// Stack 0 is the unknown one, whether it is there or not; false if this one had to become it.
pub(crate) fn keep_stack(process: &Process, stack: &mut StackIx) -> bool {
    let known = *stack == 0 || (*stack as usize) < process.stacks.len();
    if !known {
        *stack = 0;
    }
    known
}
