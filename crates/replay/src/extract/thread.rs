//! One thread of a recording as a thread of a program.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use convoy_trace::{Event, Kind, Recording, ThreadIx, Window};

use super::objects::Role;
use super::occupancy::Occupancy;
use super::off_cpu::{begins_wait, Policy};
use super::tokens::Tokens;
use super::transfer::Transfers;
use super::work::Edge;
use super::{ObjectMap, Opaque, RecorderCost, SectionIds};
use crate::program::{CondIx, LockIx, Op, SectionId, Thread, NO_SECTION};

/// What all threads of a window are built with.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub recording: &'a Recording,
    pub window: Window,
    pub objects: &'a ObjectMap,
    pub sections: &'a SectionIds,
    pub tokens: &'a Tokens,
    pub off_cpu: &'a Policy,
    pub occupancy: &'a Occupancy,
    /// Cost of an uncontended lock and unlock, nanoseconds: replay adds it again.
    pub pair_ns: f64,
    /// Cost of leaving the CPU and of coming back, nanoseconds.
    pub switch_ns: f64,
    /// Costs of recording.
    pub recorder: RecorderCost,
    /// What threads paid for locks that came from other CPUs.
    pub transfers: &'a Transfers,
    /// Acquisitions of semaphores that were made anew just before, by thread and event.
    pub made_anew: BTreeSet<(ThreadIx, usize)>,
}

/// Waiters at a window's start take their turn after those who hold locks then, by so much.
const AFTER_HOLDERS_NS: f64 = 1.0;

impl Builder<'_> {
    /// Threads that do something in the window.
    pub fn present(&self) -> Vec<ThreadIx> {
        let threads = self.recording.threads.iter().enumerate();
        threads
            .filter(|(_, thread)| !thread.in_window(self.window).is_empty())
            .map(|(ix, _)| ix as ThreadIx)
            .collect()
    }

    /// The program of one thread. `present`: the recorded threads of the program, in its order.
    pub fn build(&self, recorded: ThreadIx, present: &[ThreadIx], opaque: &mut Opaque) -> Thread {
        let thread = &self.recording.threads[recorded as usize];
        let events = &thread.events;
        let Range { start: begin, end } = thread.in_window(self.window);
        let (first, last) = (events[begin..end].first(), events[begin..end].last());
        let started = first.filter(|e| e.kind == Kind::Start);
        let begin_ns = started.map_or(self.window.start_ns, |start| start.at_ns);
        let got_cpu_ns = first.and_then(|first| self.occupancy.got_cpu_ns(recorded, first));
        let mut walk = Walk {
            of: self,
            recorded,
            present,
            opaque,
            ops: Vec::with_capacity(2 * (end - begin)),
            free_since_ns: match started {
                Some(_) => begin_ns,
                None => begin_ns.max(got_cpu_ns.unwrap_or(0)),
            },
            after: Edge::Other,
            data_ns: 0.0,
            off_ns: 0.0,
            reading: None,
            read_at_op: 0,
            waited_ns: 0.0,
            held: Vec::new(),
            tried: None,
            timed_out: false,
            interrupted: None,
        };
        let waits = walk.state_before(&events[..begin]);
        // The event that began the wait is replayed, too: the wait ends in the window.
        let from = if waits { begin - 1 } else { begin };
        let mut i = from;
        while i < end {
            i += walk.step(events, i, end);
        }
        let ends = events[..end].last().is_some_and(|e| e.kind == Kind::End);
        if !ends && !events[..end].last().is_some_and(|e| begins_wait(e.kind)) {
            let lost = last.and_then(|last| self.occupancy.lost_cpu_ns(recorded, last));
            walk.work_until(lost.unwrap_or(self.window.end_ns), false);
        }
        walk.release_all();
        let end_ns = match events[..end].last() {
            Some(last) if ends => last.at_ns,
            _ => self.window.end_ns,
        };
        walk.opaque.thread_ns += end_ns.saturating_sub(begin_ns) as f64;
        Thread {
            recorded,
            at_start: true,
            start_ns: if waits { AFTER_HOLDERS_NS } else { 0.0 },
            ops: walk.ops,
        }
    }
}

fn ends_wait(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AcquiredAfterWait
            | Kind::TimedOut
            | Kind::CondWoken
            | Kind::BarrierLeave
            | Kind::SemAcquired
            | Kind::JoinEnd
            | Kind::FutexWoken
    )
}

/// The way through one thread's events.
pub(super) struct Walk<'a, 'b> {
    pub(super) of: &'a Builder<'a>,
    pub(super) recorded: ThreadIx,
    pub(super) present: &'a [ThreadIx],
    pub(super) opaque: &'b mut Opaque,
    pub(super) ops: Vec<Op>,
    /// The latest operation ended then; work has gone on since.
    pub(super) free_since_ns: u64,
    /// What that was.
    pub(super) after: Edge,
    /// Time since then for cache lines of what the lock guards, nanoseconds.
    pub(super) data_ns: f64,
    /// Time off the CPU since then, nanoseconds.
    pub(super) off_ns: f64,
    /// The latest reading of the CPU clock: when, CPU time. Both nanoseconds.
    pub(super) reading: Option<(u64, u64)>,
    /// Operations before that reading.
    pub(super) read_at_op: usize,
    /// Time in recorded waits since that reading, nanoseconds.
    pub(super) waited_ns: f64,
    /// Locks held now.
    pub(super) held: Vec<LockIx>,
    /// A loop of failed tries at this lock goes on, since then.
    pub(super) tried: Option<(LockIx, u64)>,
    /// The wait that goes on has timed out.
    pub(super) timed_out: bool,
    /// A signal handler runs within the wait for this lock; true = it is wanted shared.
    pub(super) interrupted: Option<(LockIx, bool)>,
}

impl Walk<'_, '_> {
    /// Takes the locks that are held when the window begins. True = the thread waits then.
    fn state_before(&mut self, before: &[Event]) -> bool {
        let mut held: BTreeMap<LockIx, (bool, usize)> = BTreeMap::new();
        for (i, event) in before.iter().enumerate() {
            let Some(lock) = self.of.objects.lock(event.object) else {
                continue;
            };
            match event.kind {
                Kind::Acquired | Kind::AcquiredAfterWait | Kind::TryAcquired => {
                    held.insert(lock, (false, i));
                }
                Kind::AcquiredShared => {
                    held.insert(lock, (true, i));
                }
                Kind::Released => {
                    held.remove(&lock);
                }
                _ => {}
            }
        }
        // Outside of windows only waits are recorded: a lock acquired after a wait may have been
        // released since, unseen. Whoever releases it in the window held it at its start.
        let waits = before.last().is_some_and(|e| begins_wait(e.kind));
        for (lock, (shared, event)) in held {
            if self.releases_first(before.len(), lock) {
                let section = self.section(event);
                self.take(lock, shared, section);
            }
        }
        waits
    }

    /// Whether the thread's first event on this lock from that index on releases it.
    fn releases_first(&self, from: usize, lock: LockIx) -> bool {
        let events = &self.of.recording.threads[self.recorded as usize].events;
        let object = self.of.objects.recorded(lock);
        let mut on_lock = events[from..].iter().filter(|e| Some(e.object) == object);
        on_lock.next().is_some_and(|e| e.kind == Kind::Released)
    }

    /// One event, or those that belong together: how many.
    fn step(&mut self, events: &[Event], i: usize, end: usize) -> usize {
        let event = &events[i];
        if begins_wait(event.kind) {
            return self.wait(events, i, end);
        }
        // A reading of the CPU clock is no operation of the thread's.
        let after = match event.kind {
            kind if kind.is_reading() => self.after,
            kind => Edge::of(kind),
        };
        let n = self.operate(event, i);
        self.after = after;
        n
    }

    fn operate(&mut self, event: &Event, i: usize) -> usize {
        match event.kind {
            Kind::Acquired | Kind::AcquiredShared | Kind::AcquiredAfterWait => {
                let lock = self.of.objects.lock(event.object);
                let resumed = self.interrupted.take_if(|(of, _)| Some(*of) == lock);
                if let Some((lock, shared)) = resumed {
                    self.acquire(lock, shared, Some(i));
                } else if let Some(lock) = lock {
                    let until = self.tried_since(lock, event.at_ns);
                    self.work_until_lock(until, lock, i);
                    self.acquire(lock, event.kind == Kind::AcquiredShared, Some(i));
                }
                self.free_at(event.at_ns);
                self.data_ns = lock.map_or(0.0, |lock| self.data_ns(lock, i));
            }
            Kind::TryAcquired => self.try_acquired(event, i),
            Kind::TryFailed => self.try_failed(event),
            Kind::Released => {
                if let Some(lock) = self.of.objects.lock(event.object) {
                    self.work_until(event.at_ns, false);
                    if let Some(channel) = self.of.tokens.post_at_release(self.recorded, i) {
                        self.ops.push(Op::Post { channel });
                    }
                    self.release(lock);
                }
                self.free_at(event.at_ns);
            }
            // The system call is the protocol's, which replay has its own of.
            Kind::Woke => self.free_at(event.at_ns),
            Kind::Signal | Kind::Broadcast => self.signal(event, i),
            Kind::SemPost => {
                if let Some(Role::Sem(sem)) = self.of.objects.role(event.object) {
                    self.work_until(event.at_ns, true);
                    self.ops.push(Op::SemPost { sem });
                    self.free_at(event.at_ns);
                }
            }
            Kind::SemAcquired => {
                if let Some(Role::Sem(sem)) = self.of.objects.role(event.object) {
                    self.work_until(event.at_ns, true);
                    if self.of.made_anew.contains(&(self.recorded, i)) {
                        self.ops.push(Op::SemPost { sem });
                    }
                    self.ops.push(Op::SemWait { sem });
                    self.free_at(event.at_ns);
                }
            }
            Kind::Create => {
                self.work_until(event.at_ns, true);
                if let Some(thread) = self.in_program(event.arg) {
                    self.ops.push(Op::Spawn { thread });
                }
                self.free_at(event.at_ns);
            }
            Kind::Start => self.free_at(event.at_ns),
            Kind::End => self.work_until(event.at_ns, true),
            kind if kind.is_reading() => self.read_cpu(event),
            Kind::Lost => {
                // What was done meanwhile is not known; taking it for work keeps the time.
                self.work_until(event.at_ns, true);
                self.free_at(event.at_ns);
            }
            _ => {}
        }
        1
    }

    /// A wait and the event that ends it.
    fn wait(&mut self, events: &[Event], i: usize, end: usize) -> usize {
        let begin = &events[i];
        let until = begin.at_ns.max(self.free_since_ns);
        match self.of.objects.lock(begin.object) {
            Some(lock) => self.work_until_lock(until, lock, i),
            None => self.work_until(until, true),
        }
        let mut j = i + 1;
        self.timed_out = false;
        while j < end && (events[j].kind == Kind::TimedOut || events[j].kind.is_reading()) {
            if events[j].kind == Kind::TimedOut {
                self.timed_out = true;
                if begin.kind != Kind::CondWait {
                    break;
                }
            }
            j += 1;
        }
        let over = events.get(j).filter(|_| j < end);
        let until = over.map_or(self.of.window.end_ns, |e| e.at_ns);
        let from = begin.at_ns.max(self.of.window.start_ns);
        let length = until.saturating_sub(from) as f64;
        self.waited_ns += length;
        if let Some(lock) = self.interrupted_wait(begin, &events[j..end]) {
            self.interrupted = Some((lock, begin.kind == Kind::RequestShared));
            self.free_at(until);
            return j - i;
        }
        self.operation(begin, i, over.map(|_| j), length);
        for reading in events[i + 1..j].iter().filter(|e| e.kind.is_reading()) {
            // Within the wait: the clock is read anew, nothing of it was work.
            self.read((reading.at_ns, reading.arg));
            self.waited_ns = until.saturating_sub(reading.at_ns) as f64;
        }
        self.free_at(until);
        self.after = Edge::Other;
        if let Some((over, lock)) = over.and_then(|e| Some((e, self.of.objects.lock(e.object)?))) {
            if over.kind == Kind::AcquiredAfterWait {
                self.after = Edge::Acquire;
                self.data_ns = self.data_ns(lock, j);
            }
        }
        // An event of another operation (some were lost) is looked at by itself.
        j + usize::from(over.is_some_and(|e| ends_wait(e.kind))) - i
    }

    /// The lock of a wait in the middle of which a signal handler has operations of its own: these
    /// come first. `rest`: the thread's events from the first one that is not the wait's own.
    fn interrupted_wait(&self, begin: &Event, rest: &[Event]) -> Option<LockIx> {
        let lock = self.of.objects.lock(begin.object)?;
        let other = rest.first().is_some_and(|e| e.object != begin.object);
        let mut on_lock = rest.iter().filter(|e| e.object == begin.object);
        let acquires = |e: &Event| e.kind == Kind::AcquiredAfterWait;
        (other && on_lock.next().is_some_and(acquires)).then_some(lock)
    }

    /// The operation that a wait was part of. `over`: the event that ended it.
    fn operation(&mut self, begin: &Event, i: usize, over: Option<usize>, length: f64) {
        match (begin.kind, self.of.objects.role(begin.object)) {
            (Kind::Request | Kind::RequestShared, Some(Role::Lock(lock))) => {
                if self.timed_out {
                    self.sleep(length);
                } else {
                    self.acquire(lock, begin.kind == Kind::RequestShared, over);
                    if over.is_none() {
                        self.release(lock);
                    }
                }
            }
            (Kind::CondWait, Some(Role::Cond(cond))) => {
                self.cond_wait(begin, i, cond, over, length);
            }
            (Kind::BarrierArrive, Some(Role::Barrier(barrier))) => {
                self.ops.push(Op::Barrier { barrier });
            }
            (Kind::SemRequest, Some(Role::Sem(sem))) if !self.timed_out => {
                self.ops.push(Op::SemWait { sem });
            }
            (Kind::JoinBegin, _) => match self.in_program(begin.arg) {
                Some(thread) => self.ops.push(Op::Join { thread }),
                None => self.sleep(length),
            },
            (Kind::FutexWait, _) => {
                self.opaque.futex_ns += length;
                self.sleep(length);
            }
            _ => self.sleep(length),
        }
    }

    fn cond_wait(
        &mut self,
        begin: &Event,
        i: usize,
        cond: CondIx,
        over: Option<usize>,
        length: f64,
    ) {
        let Some(lock) = self.of.objects.lock(begin.arg as u32) else {
            self.sleep(length);
            return;
        };
        if !self.held.contains(&lock) {
            // Taken before the recording began, or by a call that was not seen.
            self.acquire(lock, false, None);
        }
        let need = self.of.tokens.need(self.recorded, i);
        match need {
            Some(need) if !self.timed_out => {
                let wait = Op::Await { cond, lock, need };
                if !self.has_waited(&wait, lock) {
                    self.ops.push(wait);
                }
            }
            _ => {
                // A timer, or an order that depends on timing: its length is taken as given.
                if !self.timed_out {
                    self.opaque.timing_ns += length;
                }
                self.release(lock);
                self.sleep(length);
                self.acquire(lock, false, over);
            }
        }
    }

    /// A wait of the same section goes on: another thread was faster, but the predicate that the
    /// loop waits for is one, so that it takes one token.
    fn has_waited(&self, wait: &Op, lock: LockIx) -> bool {
        let before = self.ops.iter().rev();
        let mut section = before.take_while(|op| **op != Op::Release { lock });
        section.any(|op| op == wait)
    }

    fn acquire(&mut self, lock: LockIx, shared: bool, event: Option<usize>) {
        let section = match event {
            Some(event) => self.section(event),
            None => NO_SECTION,
        };
        let Some(event) = event.filter(|_| self.take(lock, shared, section)) else {
            return;
        };
        if let Some((cond, need)) = self.of.tokens.get_without_wait(self.recorded, event) {
            self.ops.push(Op::Await { cond, lock, need });
        }
    }

    /// False = its holder takes it again: a recursive mutex, whose section goes on.
    fn take(&mut self, lock: LockIx, shared: bool, section: SectionId) -> bool {
        let again = self.held.contains(&lock) && !shared;
        self.held.push(lock);
        if !again {
            self.ops.push(Op::Acquire {
                lock,
                shared,
                section,
            });
        }
        !again
    }

    fn section(&self, event: usize) -> SectionId {
        self.of.sections.get(self.recorded, event)
    }

    fn release(&mut self, lock: LockIx) {
        let Some(at) = self.held.iter().rposition(|held| *held == lock) else {
            return; // acquired before the window, or by another thread
        };
        self.held.remove(at);
        if !self.held.contains(&lock) {
            self.ops.push(Op::Release { lock });
        }
    }

    /// What is held at the window's end is released, so that others can go on.
    fn release_all(&mut self) {
        while let Some(lock) = self.held.last().copied() {
            self.release(lock);
        }
    }

    fn try_acquired(&mut self, event: &Event, i: usize) {
        let Some(lock) = self.of.objects.lock(event.object) else {
            return;
        };
        let spun = self.tried.take_if(|(tried, _)| *tried == lock);
        self.work_until(spun.map_or(event.at_ns, |(_, since)| since), spun.is_none());
        match spun {
            Some(_) => self.acquire(lock, event.arg == 1, Some(i)),
            None => {
                let section = self.section(i);
                self.held.push(lock);
                self.ops.push(Op::TryAcquire { lock, section });
            }
        }
        self.free_at(event.at_ns);
    }

    fn try_failed(&mut self, event: &Event) {
        let Some(lock) = self.of.objects.lock(event.object) else {
            return;
        };
        if event.arg > 1 {
            self.tried = Some((lock, event.at_ns));
            return;
        }
        self.work_until(event.at_ns, true);
        self.ops.push(Op::TryFail { lock });
        self.free_at(event.at_ns);
    }

    /// When spinning for a lock that is had now began; `at_ns` if it was not spun for.
    fn tried_since(&mut self, lock: LockIx, at_ns: u64) -> u64 {
        let spun = self.tried.take_if(|(tried, _)| *tried == lock);
        spun.map_or(at_ns, |(_, since)| since)
    }

    fn signal(&mut self, event: &Event, i: usize) {
        let Some(cond) = self.of.objects.cond(event.object) else {
            return;
        };
        self.work_until(event.at_ns, true);
        if let Some(channel) = self.of.tokens.post_at_signal(self.recorded, i) {
            self.ops.push(Op::Post { channel });
        }
        self.ops.push(if event.kind == Kind::Signal {
            Op::Signal { cond }
        } else {
            Op::Broadcast { cond }
        });
        self.free_at(event.at_ns);
    }

    fn in_program(&self, recorded: u64) -> Option<u32> {
        let recorded = ThreadIx::try_from(recorded).ok()?;
        self.present
            .binary_search(&recorded)
            .ok()
            .map(|ix| ix as u32)
    }
}
