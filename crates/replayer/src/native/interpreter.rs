//! What each thread of a replay does: its steps, one after the other.
//!
//! The uncontended way through a section is as short as it can be: what is counted on it, or
//! between its acquire and its release, would become part of the program.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustc_hash::FxHashMap;
use rustix::thread::{clock_nanosleep_relative, sched_yield, NanosleepRelativeResult};
use rustix::time::{ClockId, Timespec};

use super::histogram::Histogram;
use super::locks::Data;
use super::objects::Objects;
use super::plan::{Await, Plan, ThreadPlan, NO_TURN};
use super::step::{Kind, Step};
use super::turns::Gates;
use crate::clock::Clock;
use crate::work::work;

/// Waits that are kept while an outer section is open.
const MOST_UNRECORDED: usize = 64;

/// One thread at work.
pub(super) struct Interpreter<'a> {
    plan: &'a Plan,
    /// The thread's number in the plan.
    index: u64,
    thread: &'a ThreadPlan,
    objects: &'a Objects,
    clock: Clock,
    /// Where the thread waits: position of the step + 1; 0 = nowhere.
    waits_at: &'a AtomicU32,
    /// Data of the exclusive locks that it holds, innermost last.
    held: Vec<(usize, *mut Data)>,
    /// What work outside of sections touches.
    own: Box<u64>,
    sleeps: std::slice::Iter<'a, f32>,
    turns: std::slice::Iter<'a, u32>,
    /// Gates whose turn the thread has to pass on.
    in_turn: Vec<usize>,
    /// Waits inside of sections that are still open: written down after their release.
    unrecorded: Vec<(usize, u64)>,
    pub waits: Waits,
}

/// What a thread waited, in ticks.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Contended acquisitions and their waits, by lock.
    pub locks: FxHashMap<usize, (u64, u64)>,
    pub lock_ticks: u64,
    pub other_ticks: u64,
    pub histogram: Histogram,
}

impl<'a> Interpreter<'a> {
    pub fn new(
        plan: &'a Plan,
        index: usize,
        objects: &'a Objects,
        waits_at: &'a AtomicU32,
        clock: Clock,
    ) -> Self {
        let thread = &plan.threads[index];
        Self {
            plan,
            index: index as u64,
            thread,
            objects,
            clock,
            waits_at,
            held: Vec::with_capacity(16),
            own: Box::new(index as u64),
            sleeps: thread.sleeps.iter(),
            turns: thread.turns.iter(),
            in_turn: Vec::with_capacity(16),
            unrecorded: Vec::with_capacity(16),
            waits: Waits::default(),
        }
    }

    /// Runs all steps; `spawn` starts another thread.
    pub fn run(&mut self, mut spawn: impl FnMut(usize)) {
        for (position, &step) in self.thread.steps.iter().enumerate() {
            if step.work != 0 {
                self.work(step.work);
            }
            self.operation(position, step, &mut spawn);
        }
        // The value must not look unused, or the work would be.
        std::hint::black_box(*self.own);
    }

    #[inline]
    fn work(&mut self, iterations: u32) {
        match self.held.last() {
            // SAFETY: the thread holds that lock exclusively.
            Some(&(_, data)) => unsafe {
                let value = Data::value(data);
                value.write(work(iterations, value.read()));
            },
            None => *self.own = work(iterations, *self.own),
        }
    }

    #[inline]
    fn operation(&mut self, position: usize, step: Step, spawn: &mut impl FnMut(usize)) {
        let index = step.index();
        let objects = self.objects;
        match step.kind() {
            Kind::Acquire => self.acquire(position, index, false),
            Kind::Release => self.release(index),
            Kind::AcquireShared => self.acquire(position, index, true),
            Kind::ReleaseShared => self.release_shared(index),
            Kind::Work => {}
            Kind::Sleep => self.sleep(),
            Kind::TouchLock => objects.locks[index].touch(),
            Kind::Await => self.wait_for(position, self.plan.awaits[index]),
            Kind::Post => objects.channels[index].post(),
            Kind::PostAndWake => {
                let Await { cond, need, .. } = self.plan.awaits[index];
                objects.channels[channel(need)].post();
                objects.conds[cond as usize].signal_waiters();
            }
            Kind::Signal => objects.conds[index].signal(),
            Kind::Broadcast => objects.conds[index].broadcast(),
            Kind::Barrier => self.waiting(position, || objects.barriers[index].wait()),
            Kind::SemWait => {
                self.await_turn_of_all(position);
                if !objects.semaphores[index].try_wait() {
                    self.waiting(position, || objects.semaphores[index].wait());
                }
                self.pass_turn_of_all();
            }
            Kind::SemPost => objects.semaphores[index].post(),
            Kind::Spawn => spawn(index),
            Kind::Join => {
                if !objects.ends[index].has_come() {
                    self.waiting(position, || objects.ends[index].wait());
                }
            }
        }
    }

    #[inline]
    fn acquire(&mut self, position: usize, index: usize, shared: bool) {
        let turn = self.turns.next().copied();
        if let Some(turn) = turn {
            self.await_turn(position, index, turn);
        }
        let lock = &self.objects.locks[index];
        if !lock.try_acquire(shared) {
            self.acquire_contended(position, index, shared);
        }
        // The turns of others come now: they may hold it at the same time, or are not after this
        // lock.
        self.pass_turn_of_all();
        if shared {
            self.pass_turn(index);
        } else if let Some(data) = lock.data() {
            // SAFETY: the lock was acquired exclusively just now.
            unsafe {
                (*data).acquisitions += 1;
                if turn.is_some() {
                    (*data).acquired_by(self.index);
                }
            }
            self.held.push((index, data));
        }
    }

    #[cold]
    fn acquire_contended(&mut self, position: usize, index: usize, shared: bool) {
        let start = self.clock.ticks();
        self.waits_at.store(position as u32 + 1, Ordering::Relaxed);
        self.objects.locks[index].acquire(shared, &self.clock);
        self.waits_at.store(0, Ordering::Relaxed);
        let waited = self.clock.ticks().saturating_sub(start);
        self.unrecorded.push((index, waited));
    }

    #[inline]
    fn release(&mut self, index: usize) {
        match self.held.last() {
            Some(&(innermost, _)) if innermost == index => {
                self.held.pop();
            }
            _ => self.held.retain(|&(lock, _)| lock != index),
        }
        self.objects.locks[index].release();
        self.after_release(index);
    }

    #[inline]
    fn release_shared(&mut self, index: usize) {
        self.objects.locks[index].release();
        self.after_release(index);
    }

    #[inline]
    fn after_release(&mut self, index: usize) {
        if !self.in_turn.is_empty() {
            self.pass_turn(index);
        }
        if !self.unrecorded.is_empty()
            && (self.held.is_empty() || self.unrecorded.len() > MOST_UNRECORDED)
        {
            self.record();
        }
    }

    #[cold]
    fn record(&mut self) {
        for (lock, ticks) in self.unrecorded.drain(..) {
            let entry = self.waits.locks.entry(lock).or_default();
            entry.0 += 1;
            entry.1 += ticks;
            self.waits.lock_ticks += ticks;
            self.waits.histogram.add(ticks);
        }
    }

    #[cold]
    fn await_turn(&mut self, position: usize, index: usize, turn: u32) {
        if turn == NO_TURN {
            return;
        }
        let gate = match self.plan.gates {
            Gates::One => 0,
            _ => index,
        };
        let turns = &self.objects.turns[gate];
        if !turns.is(turn) {
            let start = self.clock.ticks();
            self.waits_at.store(position as u32 + 1, Ordering::Relaxed);
            turns.wait(turn);
            self.waits_at.store(0, Ordering::Relaxed);
            let waited = self.clock.ticks().saturating_sub(start);
            self.unrecorded.push((index, waited));
        }
        self.in_turn.push(gate);
    }

    /// In one order of all operations: waits for the turn of one that acquires nothing.
    fn await_turn_of_all(&mut self, position: usize) {
        let Some(turn) = self.next_turn_of_all() else {
            return;
        };
        let turns = &self.objects.turns[0];
        if !turns.is(turn) {
            self.waiting(position, || turns.wait(turn));
        }
        self.in_turn.push(0);
    }

    fn next_turn_of_all(&mut self) -> Option<u32> {
        match self.plan.gates {
            Gates::One => self.turns.next().copied(),
            Gates::None | Gates::ByLock => None,
        }
    }

    fn pass_turn_of_all(&mut self) {
        if self.plan.gates == Gates::One {
            self.pass_turn(0);
        }
    }

    fn pass_turn(&mut self, index: usize) {
        if let Some(at) = self.in_turn.iter().position(|&lock| lock == index) {
            self.in_turn.swap_remove(at);
            self.objects.turns[index].pass();
        }
    }

    /// A wait on a condition variable, until what it waits for is there.
    fn wait_for(&mut self, position: usize, wait: Await) {
        let objects = self.objects;
        let channel = &objects.channels[channel(wait.need)];
        let turn = self.next_turn_of_all();
        let is_due = turn.is_none_or(|turn| objects.turns[0].is(turn));
        if !is_due || !channel.meets(wait.need) {
            self.wait_while(position, wait, turn);
        }
        if turn.is_some() {
            objects.turns[0].pass();
        }
    }

    /// `turn`: the wait ends in it; `None` = as soon as what it waits for is there.
    fn wait_while(&mut self, position: usize, wait: Await, turn: Option<u32>) {
        let objects = self.objects;
        let channel = &objects.channels[channel(wait.need)];
        // Whoever is to make it true may need this lock before its turn.
        if self.plan.gates == Gates::ByLock {
            self.pass_turn(wait.lock as usize);
        }
        let cond = &objects.conds[wait.cond as usize];
        let lock = &objects.locks[wait.lock as usize];
        let clock = self.clock;
        cond.enter();
        self.waiting(position, || match lock.mutex() {
            Some(mutex) if cond.is_pthread() => {
                while !channel.meets(wait.need) {
                    // SAFETY: the lock is alive; that its condition variable is the C library's
                    // means that every wait on it is made with it held.
                    unsafe { cond.wait(mutex) };
                }
            }
            _ => loop {
                // In this order: a signal after the look at its turn is not missed.
                let sequence = cond.sequence();
                let early = turn.filter(|&turn| !objects.turns[0].is(turn));
                if early.is_none() && channel.meets(wait.need) {
                    break;
                }
                if wait.holds {
                    lock.release();
                }
                match early {
                    Some(turn) => objects.turns[0].wait(turn),
                    None => cond.wait_beyond(sequence),
                }
                if wait.holds && !lock.try_acquire(wait.shared) {
                    lock.acquire(wait.shared, &clock);
                }
            },
        });
        cond.leave();
    }

    fn waiting(&mut self, position: usize, wait: impl FnOnce()) {
        let start = self.clock.ticks();
        self.waits_at.store(position as u32 + 1, Ordering::Relaxed);
        wait();
        self.waits_at.store(0, Ordering::Relaxed);
        self.waits.other_ticks += self.clock.ticks().saturating_sub(start);
    }

    fn sleep(&mut self) {
        let ns = self.sleeps.next().copied().unwrap_or(0.0);
        sleep_ns(f64::from(ns) - self.plan.rates.sleep_ns);
    }
}

/// Sleeps; for less than nothing as short as possible.
pub(super) fn sleep_ns(ns: f64) {
    let rest = Duration::from_nanos((ns as u64).max(1));
    let mut rest = Timespec::try_from(rest).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    });
    loop {
        match clock_nanosleep_relative(ClockId::Monotonic, &rest) {
            NanosleepRelativeResult::Ok => return,
            NanosleepRelativeResult::Interrupted(left) => rest = left,
            NanosleepRelativeResult::Err(_) => return sched_yield(),
        }
    }
}

/// The channel of a need.
fn channel(need: convoy_replay::program::Need) -> usize {
    use convoy_replay::program::Need;
    match need {
        Need::Token(channel) | Need::Count(channel, _) => channel as usize,
    }
}
