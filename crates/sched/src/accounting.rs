//! Events in, tables out: which thread an event is about, and what to make of it.

use std::collections::VecDeque;

use convoy_profile::{Lost, OffIx, Sched, SchedSource, ThreadRef, WakeIx, Waker};

use crate::bins::Timeline;
use crate::clock::Clock;
use crate::event::{Event, Options, Out, State, Tid, WakerIs};
use crate::history::History;
use crate::images::{Image, Images};
use crate::lanes::Lanes;
use crate::off_cpu::Offs;
use crate::slices::Slices;
use crate::table::Map;
use crate::thread::{Phase, Tables, Thread};
use crate::wakes::Wakes;

/// Rows kept of each kind. With long histograms a row is half a kilobyte, and twice that while the output is
/// made: together they stay under 60 MB in a recording, so that convoy stays under 120 MB with its rings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub slices: usize,
    pub offs: usize,
    pub wakes: usize,
}

const LIMITS: Limits = Limits {
    slices: 40_000,
    offs: 40_000,
    wakes: 40_000,
};

/// Ended threads of which it is remembered what they did last: their parents are woken after their end.
const REMEMBERED: usize = 64;

/// Stretches of lost events told apart; later ones are joined with the last of their kind.
const LOST: usize = 1_000;

/// What was learnt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// The tables. `process` in them is an index into `images`; `names`, `loops` and the kernel stacks
    /// are the caller's to fill in.
    pub sched: Sched,
    /// The processes. Ids of call stacks are those of the image's own unwinder: after an exec they begin anew.
    pub images: Vec<Image>,
    /// Parallel to [`Sched::offs`]: the first [`crate::Place::kernel_stack`] seen there that is not 0.
    pub off_kernel: Vec<u32>,
    /// Times that a call stack, or a waker, was left out because there were too many rows.
    pub folded: u64,
}

/// The accounting of a recording.
///
/// Memory grows with the number of distinct rows (bounded) and of threads, not with events.
#[derive(Debug)]
pub struct Accounting {
    options: Options,
    books: Tables,
    wakes: Wakes,
    images: Images,
    threads: Vec<Thread>,
    /// The thread that has, or had last, this id.
    tids: Map<Tid, u32>,
    /// Parallel to the images' lives: indices into `threads`.
    members: Vec<Vec<u32>>,
    /// Threads that ended lately, oldest first.
    ended: VecDeque<u32>,
    start_ns: Option<u64>,
    events: u64,
    lost: Vec<Lost>,
    contradictions: u64,
}

impl Accounting {
    /// Before the first event.
    pub fn new(options: Options) -> Self {
        Self::with_limits(options, LIMITS)
    }

    pub(crate) fn with_limits(options: Options, limits: Limits) -> Self {
        Self {
            books: Tables {
                clock: Clock::new(),
                slices: Slices::new(limits.slices),
                offs: Offs::new(limits.offs),
                timeline: Timeline::new(options.bins),
                lanes: Lanes::new(options.intervals),
                sample_period_ns: options.sample_period_ns,
            },
            options,
            wakes: Wakes::new(limits.wakes),
            images: Images::default(),
            threads: Vec::new(),
            tids: Map::default(),
            members: Vec::new(),
            ended: VecDeque::new(),
            start_ns: None,
            events: 0,
            lost: Vec::new(),
            contradictions: 0,
        }
    }

    /// The next event. One that is late counts as of now; one that contradicts what is known of its thread is
    /// counted and taken for the truth.
    pub fn push(&mut self, event: &Event) {
        if let Event::Lost {
            from,
            to,
            n,
            stacks,
        } = *event
        {
            // Told whenever it was found out: no moment in the order of events.
            return self.note_lost(Lost {
                from_ns: from,
                to_ns: to,
                events: n,
                stacks,
            });
        }
        self.events += 1;
        self.advance(event.ts());
        match *event {
            Event::Out { tid, ref how, .. } => self.out(tid, how),
            Event::In { tid, .. } => self.into(tid),
            Event::Wakeup { tid, waker, .. } => self.wakeup(tid, waker),
            Event::Fork {
                tid, pid, parent, ..
            } => self.fork(tid, pid, parent),
            Event::Exec { pid, old_tid, .. } => self.exec(pid, old_tid),
            Event::Exit { tid, .. } => self.exit(tid),
            Event::Init {
                tid,
                pid,
                ref state,
                ..
            } => self.init(tid, pid, state),
            Event::Sample {
                tid,
                stack,
                spin,
                fault,
                ..
            } => {
                if let Some(i) = self.on_processor(tid) {
                    self.threads[i].sample(&mut self.books, stack, spin, fault);
                }
            }
            Event::Lost { .. } => {}
        }
    }

    /// The thread that has, or had last, this id.
    pub fn thread(&self, tid: Tid) -> Option<ThreadRef> {
        let ix = *self.tids.get(&tid)?;
        self.threads.get(ix as usize).map(Thread::thread)
    }

    /// The recording is over at `end_ns`, or at the last event if that is later. Waits and slices
    /// that go on count up to then.
    pub fn finish(mut self, end_ns: u64) -> Output {
        self.advance(end_ns);
        let end_ns = self.books.clock.now_ns();
        for thread in &mut self.threads {
            if thread.phase != Phase::Gone {
                self.images.end(thread.thread(), end_ns, false);
                thread.end(&mut self.books, false);
            }
        }
        let offs = self.books.offs.finish();
        let (slices, slices_folded) = self.books.slices.finish();
        let (wakes, wakes_folded) = self.wakes.finish();
        let [active, working, running] = self.books.clock.histograms();
        let sched = Sched {
            source: self.options.source,
            start_ns: self.start_ns.unwrap_or(end_ns),
            end_ns,
            events: self.events,
            sample_period_ns: self.options.sample_period_ns,
            active,
            working,
            running,
            bins: self.books.timeline.finish(),
            threads: self.threads.into_iter().map(Thread::finish).collect(),
            slices,
            offs: offs.rows,
            wakes,
            lost: self.lost,
            contradictions: self.contradictions,
            timeline: self.books.lanes.finish(),
            ..Sched::default()
        };
        Output {
            sched,
            images: self.images.finish(),
            off_kernel: offs.kernel_stacks,
            folded: slices_folded + offs.folded + wakes_folded,
        }
    }

    fn advance(&mut self, ts: u64) {
        let books = &mut self.books;
        if self.start_ns.is_none() {
            self.start_ns = Some(ts);
            books.clock.start(ts);
            books.timeline.start(ts);
            books.lanes.start(ts);
        }
        let (from, numbers) = (books.clock.now_ns(), books.clock.numbers());
        if books.clock.advance(ts) > 0 {
            books.timeline.advance(from, ts, numbers);
        }
    }

    fn out(&mut self, tid: Tid, how: &Out) {
        if let Out::Dead = how {
            // After its exit; without one, that was lost.
            return self.exit(tid);
        }
        let Some(i) = self.on_processor(tid) else {
            return;
        };
        match how {
            Out::Preempted(place) => self.threads[i].preempt(&mut self.books, place),
            Out::Blocked(place) => self.threads[i].block(&mut self.books, place),
            Out::Dead => {}
        }
    }

    fn into(&mut self, tid: Tid) {
        let Some(i) = self.living(tid) else { return };
        match self.threads[i].phase {
            Phase::Running => self.contradictions += 1,
            Phase::Off(_) | Phase::New if self.options.source == SchedSource::Bpf => {
                self.contradictions += 1;
                self.activate(i, Waker::Unknown);
                self.threads[i].run(&mut self.books);
            }
            _ => {
                self.threads[i].wake(&mut self.books, None);
                self.threads[i].run(&mut self.books);
            }
        }
    }

    /// A thread that did not get to leave its processor may be woken, too: nothing comes of it.
    fn wakeup(&mut self, tid: Tid, waker: WakerIs) {
        let Some(i) = self.living(tid) else { return };
        let waker = match waker {
            WakerIs::Unknown => Waker::Unknown,
            // A blocked thread wakes nobody, itself least of all: an interrupt on its old processor did.
            WakerIs::Thread(by, _) if by == tid => Waker::Interrupt,
            WakerIs::Interrupt | WakerIs::Thread(0, _) => Waker::Interrupt,
            WakerIs::Thread(by, stack) => match self.tids.get(&by) {
                Some(&by) => Waker::Thread(self.threads[by as usize].thread(), stack),
                None => Waker::Outside(by),
            },
        };
        self.activate(i, waker);
    }

    /// Thread `i` may run; `waker` ended its wait if it was in one.
    fn activate(&mut self, i: usize, waker: Waker) {
        let wake = match self.threads[i].phase {
            Phase::Off(row) => Some(self.note_wake(i, row, waker)),
            _ => None,
        };
        self.threads[i].wake(&mut self.books, wake);
    }

    fn note_wake(&mut self, waiter: usize, row: OffIx, waker: Waker) -> WakeIx {
        let by = match waker {
            Waker::Thread(by, _) => self
                .members
                .get(by.process as usize)
                .and_then(|m| m.get(by.thread as usize))
                .and_then(|&t| self.threads.get(t as usize)),
            _ => None,
        };
        let from = self.threads[waiter].since_ns();
        let now = self.books.clock.now_ns();
        let mut last = self.threads[waiter].last.wake;
        let history = by.map(|t| &t.history);
        let wake = self.wakes.add(&mut last, row, waker, from, now, history);
        self.threads[waiter].last.wake = last;
        wake
    }

    fn fork(&mut self, tid: Tid, pid: u32, parent: Tid) {
        if self.living_quietly(tid).is_some() {
            // Its exit was lost.
            self.contradictions += 1;
            self.exit(tid);
        }
        let now = self.books.clock.now_ns();
        let image = match self.images.of(pid) {
            Some(image) if tid != pid => image,
            old => {
                if let Some(old) = old {
                    self.end_image(old);
                }
                let ppid = self.tids.get(&parent).and_then(|&t| {
                    let thread = self.threads.get(t as usize)?.thread();
                    Some(self.images.get(thread.process)?.pid)
                });
                self.begin(pid, ppid.filter(|_| tid == pid), 0, now)
            }
        };
        self.add(image, tid, Some(parent));
    }

    fn init(&mut self, tid: Tid, pid: u32, state: &State) {
        if let Some(i) = self.living_quietly(tid) {
            let image = self.threads[i].thread().process;
            if self.images.get(image).is_some_and(|image| image.pid == pid) {
                // Its events are newer than what /proc said.
                return;
            }
            self.contradictions += 1;
            self.exit(tid);
        }
        let now = self.books.clock.now_ns();
        let image = match self.images.of(pid) {
            Some(image) => image,
            None => self.begin(pid, None, 0, now),
        };
        let i = self.add(image, tid, None);
        let (thread, books) = (&mut self.threads[i], &mut self.books);
        match state {
            State::Blocked(place) => thread.begin_off(books, place),
            State::Ready => thread.wake(books, None),
            State::Running => {
                thread.wake(books, None);
                thread.run(books);
            }
        }
    }

    fn exec(&mut self, pid: u32, old_tid: Tid) {
        let now = self.books.clock.now_ns();
        let known = self.images.of(pid);
        if known.is_none() {
            self.contradictions += 1;
        }
        let old = known.and_then(|image| self.images.get(image));
        let (ppid, exec) = old.map_or((None, 0), |i| (i.ppid, i.exec + 1));
        let parent = old
            .and_then(|i| i.lives.iter().find(|l| l.main))
            .and_then(|l| l.parent);
        if let Some(image) = known {
            self.end_image(image);
        }
        for tid in [old_tid, pid] {
            if self.living_quietly(tid).is_some() {
                self.contradictions += 1;
                self.exit(tid);
            }
        }
        let image = self.begin(pid, ppid, exec, now);
        let i = self.add(image, pid, parent);
        self.threads[i].wake(&mut self.books, None);
        self.threads[i].run(&mut self.books);
    }

    fn exit(&mut self, tid: Tid) {
        if let Some(i) = self.living(tid) {
            self.end(i);
        }
    }

    fn end(&mut self, i: usize) {
        self.threads[i].end(&mut self.books, true);
        let now = self.books.clock.now_ns();
        self.images.end(self.threads[i].thread(), now, true);
        self.ended.push_back(i as u32);
        if self.ended.len() > REMEMBERED {
            let oldest = self.ended.pop_front();
            if let Some(thread) = oldest.and_then(|t| self.threads.get_mut(t as usize)) {
                thread.history = History::default();
            }
        }
    }

    /// All its threads end.
    fn end_image(&mut self, image: u32) {
        let members = self.members.get(image as usize).cloned();
        for i in members.unwrap_or_default() {
            if self.threads[i as usize].phase != Phase::Gone {
                self.end(i as usize);
            }
        }
    }

    fn begin(&mut self, pid: u32, ppid: Option<u32>, exec: u32, now_ns: u64) -> u32 {
        self.members.push(Vec::new());
        self.images.begin(pid, ppid, exec, now_ns)
    }

    /// A new thread; its index.
    fn add(&mut self, image: u32, tid: Tid, parent: Option<Tid>) -> usize {
        let now = self.books.clock.now_ns();
        let thread = self.images.add(image, tid, parent, now);
        let i = self.threads.len();
        let lane = self.books.lanes.begin(thread);
        self.threads.push(Thread::new(thread, lane, now));
        self.tids.insert(tid, i as u32);
        if let Some(members) = self.members.get_mut(image as usize) {
            members.push(i as u32);
        }
        i
    }

    /// The thread that an event is about. What comes after a thread's end is of no interest; a thread of which
    /// nothing was said is a contradiction.
    fn living(&mut self, tid: Tid) -> Option<usize> {
        let Some(&i) = self.tids.get(&tid) else {
            self.contradictions += 1;
            return None;
        };
        (self.threads[i as usize].phase != Phase::Gone).then_some(i as usize)
    }

    fn living_quietly(&self, tid: Tid) -> Option<usize> {
        let i = *self.tids.get(&tid)? as usize;
        (self.threads[i].phase != Phase::Gone).then_some(i)
    }

    /// The same for an event that only a thread on a processor can have: if it was not on one, it is now.
    fn on_processor(&mut self, tid: Tid) -> Option<usize> {
        let i = self.living(tid)?;
        if self.threads[i].phase != Phase::Running {
            self.contradictions += 1;
            self.activate(i, Waker::Unknown);
            self.threads[i].run(&mut self.books);
        }
        Some(i)
    }

    fn note_lost(&mut self, lost: Lost) {
        let full = self.lost.len() >= LOST;
        let before = self.lost.iter_mut().rev().find(|l| l.stacks == lost.stacks);
        match before {
            Some(l) if full || (l.from_ns <= lost.from_ns && lost.from_ns <= l.to_ns) => {
                l.from_ns = l.from_ns.min(lost.from_ns);
                l.to_ns = l.to_ns.max(lost.to_ns);
                l.events = l.events.saturating_add(lost.events);
            }
            _ => self.lost.push(lost),
        }
    }
}
