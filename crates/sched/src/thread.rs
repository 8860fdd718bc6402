//! One thread's life: what it does now, and where the time goes.
//!
//! ```text
//! Off --wake--> Woken --run--> Running --block--> Off
//!                  Preempted <--preempt-- | --end--> Gone
//!                          +----run------>
//! ```
//!
//! A thread is active from `wake` to `block`: that is a *slice*. Its time and CMetric go to the code that
//! samples find it in: what passed since the sample before, or since the slice's begin, goes to the sample's
//! call stack; what is left at the end goes to that of the last one. A slice without samples goes to the
//! place at which it blocked.

use convoy_profile::{
    CodeFrom, LoopIx, OffIx, OffReason, SchedThread, SliceIx, StackIx, ThreadRef, WakeIx, Waker,
};

use crate::bins::Timeline;
use crate::clock::{CMetric, Change, Clock, Interval, Snapshot};
use crate::event::Place;
use crate::history::{Doing, History};
use crate::lanes::{Did, Lanes};
use crate::off_cpu::{Offs, Where};
use crate::slices::{Code, Slices};
use crate::table::Last;

/// Where the time is written down.
#[derive(Debug)]
pub(crate) struct Tables {
    pub clock: Clock,
    pub slices: Slices,
    pub offs: Offs,
    pub timeline: Timeline,
    pub lanes: Lanes,
    pub sample_period_ns: u64,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Made, and not yet started.
    New,
    Off(OffIx),
    Woken,
    Preempted(OffIx),
    Running,
    Gone,
}

/// The rows that a thread was in last.
#[derive(Debug, Default)]
pub(crate) struct LastRows {
    blocked: Last<Where>,
    preempted: Last<Where>,
    unsampled: Last<Code>,
    sampled: Last<Code>,
    pub wake: Last<(OffIx, Waker)>,
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub phase: Phase,
    pub history: History,
    pub last: LastRows,
    /// Its place among the lanes.
    lane: u32,
    /// The phase began, or was written down last.
    since_ns: u64,
    /// Up to here its activity has been attributed, or its wait began.
    mark: Snapshot,
    /// Where it was preempted last: within a slice.
    preempted: Option<Box<Snapshot>>,
    /// Time on a processor since `mark`.
    running_ns: u64,
    /// It waits in a loop: active, not working.
    spinning: bool,
    /// Row of the slice's last sample.
    sampled: Option<u32>,
    cm: CMetric,
    cm_working: CMetric,
    sums: SchedThread,
}

impl Thread {
    pub fn new(thread: ThreadRef, lane: u32, now_ns: u64) -> Self {
        Self {
            phase: Phase::New,
            history: History::default(),
            last: LastRows::default(),
            lane,
            since_ns: now_ns,
            mark: Snapshot::default(),
            preempted: None,
            running_ns: 0,
            spinning: false,
            sampled: None,
            cm: CMetric::default(),
            cm_working: CMetric::default(),
            sums: SchedThread {
                thread,
                start_ns: now_ns,
                end_ns: now_ns,
                ..SchedThread::default()
            },
        }
    }

    pub fn thread(&self) -> ThreadRef {
        self.sums.thread
    }

    /// When its phase began.
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// It may run: a slice begins. Only for a thread that is not active. `wake`: what ended its wait.
    pub fn wake(&mut self, books: &mut Tables, wake: Option<WakeIx>) {
        self.settle(books, None, wake);
        match self.phase {
            Phase::Off(row) => books.offs.add(row, &books.clock, &mut self.mark, true),
            Phase::New => {
                books.clock.lap(&mut self.mark, None, true);
            }
            _ => return,
        }
        books.clock.change(Change {
            active: 1,
            working: 1,
            running: 0,
        });
        self.sums.slices += 1;
        self.set(Phase::Woken, Doing::Ready);
    }

    /// It is on a processor. Only for a thread that is active and is not on one.
    pub fn run(&mut self, books: &mut Tables) {
        self.settle(books, None, None);
        match self.phase {
            Phase::Preempted(row) => self.resume(books, row, true),
            Phase::Woken => {}
            _ => return,
        }
        books.clock.change(Change {
            running: 1,
            ..Change::default()
        });
        self.set(Phase::Running, Doing::Running);
    }

    /// It has to leave its processor, and could go on. Only for a running thread.
    pub fn preempt(&mut self, books: &mut Tables, place: &Place) {
        self.settle(books, self.sampled, None);
        let thread = self.thread();
        let last = &mut self.last.preempted;
        let row = books.offs.row(last, thread, place, OffReason::Preempted);
        let mark = self.preempted.get_or_insert_default();
        books.clock.lap(mark, None, true);
        books.clock.change(Change {
            running: -1,
            ..Change::default()
        });
        self.sums.preemptions += 1;
        self.set(Phase::Preempted(row), Doing::Ready);
    }

    /// It waits: the slice ends. Only for a running thread.
    pub fn block(&mut self, books: &mut Tables, place: &Place) {
        let row = self.code(books, place.stack);
        self.settle(books, Some(row), None);
        self.close(books, row);
        self.wait(books, place);
    }

    /// It was there at the start of the recording, and waited. Only for a new thread.
    pub fn begin_off(&mut self, books: &mut Tables, place: &Place) {
        self.settle(books, None, None);
        books.clock.lap(&mut self.mark, None, true);
        self.wait(books, place);
    }

    fn wait(&mut self, books: &mut Tables, place: &Place) {
        let thread = self.thread();
        let last = &mut self.last.blocked;
        let row = books.offs.row(last, thread, place, place.reason);
        self.set(Phase::Off(row), Doing::Off(row));
    }

    /// It was found here. Only for a running thread.
    ///
    /// With `spin` it is known to wait in a loop from now on. It did so before, too, for up to a sampling
    /// period: that counts in its own `spinning_ns`, but not in the number of working threads, by which others
    /// have been measured meanwhile.
    pub fn sample(
        &mut self,
        books: &mut Tables,
        stack: StackIx,
        spin: Option<LoopIx>,
        fault: bool,
    ) {
        let code = Code {
            thread: self.thread(),
            stack,
            from: CodeFrom::Sample,
            spin,
        };
        let row = books.slices.row(&mut self.last.sampled, code);
        books.slices.count(row, fault);
        let known = self.spinning;
        self.spinning = spin.is_some();
        self.settle(books, Some(row), None);
        self.spinning = known;
        if spin.is_some() {
            let known = self.spinning || books.sample_period_ns == 0;
            self.sums.spinning_ns += if known {
                self.running_ns
            } else {
                self.running_ns.min(books.sample_period_ns)
            };
        }
        self.attribute(books, row);
        self.sampled = Some(row);
        if self.spinning != spin.is_some() {
            self.spinning = spin.is_some();
            books.clock.change(Change {
                working: if self.spinning { -1 } else { 1 },
                ..Change::default()
            });
        }
    }

    /// Its last moment; or, not `finished`, that of the recording.
    pub fn end(&mut self, books: &mut Tables, finished: bool) {
        self.settle(books, self.sampled, None);
        match self.phase {
            Phase::Gone => return,
            Phase::New => {}
            Phase::Off(row) => books.offs.add(row, &books.clock, &mut self.mark, finished),
            Phase::Preempted(row) => {
                self.resume(books, row, finished);
                self.close_unknown(books);
            }
            Phase::Woken | Phase::Running => self.close_unknown(books),
        }
        self.set(Phase::Gone, Doing::Nothing);
        self.sums.end_ns = self.since_ns;
        // A life's end leaves a few sums, not the histograms of everybody.
        self.mark = Snapshot::default();
        self.preempted = None;
    }

    pub fn finish(self) -> SchedThread {
        SchedThread {
            cm_ns: self.cm.ns(),
            cm_working_ns: self.cm_working.ns(),
            ..self.sums
        }
    }

    fn set(&mut self, phase: Phase, doing: Doing) {
        self.phase = phase;
        self.history.push(self.since_ns, doing);
    }

    /// Writes down the time of the phase so far: that of a running thread belongs to the code of `row`, that of
    /// one that waited was ended by `wake`.
    fn settle(&mut self, books: &mut Tables, row: Option<SliceIx>, wake: Option<WakeIx>) {
        let now = books.clock.now_ns();
        let ns = now.saturating_sub(self.since_ns);
        let (did, row) = match self.phase {
            Phase::Running => {
                self.sums.running_ns += ns;
                self.running_ns += ns;
                let did = match self.spinning {
                    true => Did::Spinning,
                    false => Did::Running,
                };
                (did, row)
            }
            Phase::Woken => {
                self.sums.delayed_ns += ns;
                (Did::Woken, None)
            }
            Phase::Preempted(row) => {
                self.sums.preempted_ns += ns;
                (Did::Preempted, Some(row))
            }
            Phase::Off(row) => {
                self.sums.blocked_ns += ns;
                (Did::Waiting, Some(row))
            }
            Phase::New => {
                // The microsecond between fork() and the first wake-up is nobody's.
                self.sums.start_ns = now;
                self.since_ns = now;
                return;
            }
            Phase::Gone => return,
        };
        let (lane, since) = (self.lane, self.since_ns);
        books.lanes.push(lane, since, now, did, row, wake);
        self.since_ns = now;
    }

    /// The time since it was preempted goes to `row`; it goes on counting as activity.
    fn resume(&mut self, books: &mut Tables, row: OffIx, finished: bool) {
        if let Some(mark) = &mut self.preempted {
            books.offs.add(row, &books.clock, mark, finished);
        }
    }

    /// The row of the slice's end: that of its last sample, or of the place where it ends.
    fn code(&mut self, books: &mut Tables, stack: StackIx) -> SliceIx {
        self.sampled.take().unwrap_or_else(|| {
            let code = Code {
                thread: self.thread(),
                stack,
                from: match stack {
                    0 => CodeFrom::Unknown,
                    _ => CodeFrom::StackTop,
                },
                spin: None,
            };
            let row = books.slices.row(&mut self.last.unsampled, code);
            books.slices.count(row, false);
            row
        })
    }

    /// Ends the slice, nobody knows where.
    fn close_unknown(&mut self, books: &mut Tables) {
        let row = self.code(books, 0);
        self.close(books, row);
    }

    /// Ends the slice; its rest belongs to the code of `row`.
    fn close(&mut self, books: &mut Tables, row: SliceIx) {
        if self.spinning {
            self.sums.spinning_ns += self.running_ns;
        }
        self.attribute(books, row);
        books.clock.change(Change {
            active: -1,
            working: if self.spinning { 0 } else { -1 },
            running: if self.phase == Phase::Running { -1 } else { 0 },
        });
        self.spinning = false;
    }

    /// The activity since the last time goes to slice row `row`.
    fn attribute(&mut self, books: &mut Tables, row: u32) {
        let Interval {
            from_ns,
            ns,
            cm,
            cm_working,
        } = books.slices.add(
            row,
            &books.clock,
            &mut self.mark,
            self.running_ns,
            !self.spinning,
        );
        self.running_ns = 0;
        self.cm += cm;
        self.cm_working += cm_working;
        books.timeline.credit(row, from_ns, from_ns + ns, cm.ns());
    }
}
