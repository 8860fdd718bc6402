//! From a program to what its threads run: compact steps, with work in iterations of the work loop.

use convoy_replay::program::{ChannelIx, LockIx, LockKind, Need, Op, Program, Thread, ThreadIx};
use rustc_hash::FxHashMap;

use super::check::check;
use super::held::{Held, Released};
use super::needs::{CondPlan, Needs};
use super::outcome::{NativeError, Simplified};
use super::rates::Rates;
use super::step::{Kind, Step};
use super::turns::{Gates, Turns};
use super::Schedule;

/// A program as replayed threads run it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub rates: Rates,
    pub gates: Gates,
    pub locks: Vec<LockKind>,
    pub conds: Vec<CondPlan>,
    /// Threads that meet at each.
    pub barriers: Vec<u32>,
    /// Values at the start.
    pub semaphores: Vec<u32>,
    /// Tokens at the start.
    pub channels: Vec<u32>,
    pub awaits: Vec<Await>,
    pub threads: Vec<ThreadPlan>,
    /// Acquisitions of each lock that leave no count in it: shared ones, and of removed locks.
    pub uncounted: Vec<u64>,
    pub simplified: Simplified,
    pub work_ns: f64,
    pub segments: u64,
    pub below_floor: u64,
    pub excess_ns: f64,
}

/// One thread.
#[derive(Debug, Default)]
pub(super) struct ThreadPlan {
    pub at_start: bool,
    pub start_ns: f64,
    pub steps: Vec<Step>,
    /// Lengths of its sleeps in order, nanoseconds.
    pub sleeps: Vec<f32>,
    /// Turns of its operations that have one, in order, [`NO_TURN`] = at any time; empty where the
    /// order is free.
    pub turns: Vec<u32>,
}

/// The order says nothing of this acquisition.
pub(super) const NO_TURN: u32 = u32::MAX;

/// A wait on a condition variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Await {
    pub cond: u32,
    pub lock: LockIx,
    /// The thread holds the lock, and gives it up meanwhile.
    pub holds: bool,
    /// Shared, then.
    pub shared: bool,
    pub need: Need,
}

/// What tells waits apart.
type AwaitKey = (u32, LockIx, bool, bool, ChannelIx, Option<u32>);

impl Await {
    fn key(&self) -> AwaitKey {
        let (channel, count) = match self.need {
            Need::Token(channel) => (channel, None),
            Need::Count(channel, count) => (channel, Some(count)),
        };
        (
            self.cond,
            self.lock,
            self.holds,
            self.shared,
            channel,
            count,
        )
    }
}

/// Compiles a program. Takes it, and frees each thread's operations when they are compiled.
///
/// # Errors
///
/// [`NativeError::Invalid`].
pub(super) fn compile(
    mut program: Program,
    schedule: &Schedule,
    rates: &Rates,
) -> Result<Plan, NativeError> {
    check(&program)?;
    let needs = Needs::of(&program);
    let has_mutex = |lock: LockIx| {
        let kind = program.locks[lock as usize].kind;
        matches!(kind, LockKind::Mutex | LockKind::Adaptive { .. })
    };
    let turns = Turns::new(schedule, program.threads.len());
    let gates = turns.gates();
    let conds = 0..program.conds.len() as u32;
    let mut compiler = Compiler {
        plan: Plan {
            rates: *rates,
            gates,
            locks: program.locks.iter().map(|lock| lock.kind).collect(),
            conds: conds
                .map(|cond| match gates {
                    Gates::One => CondPlan::IN_TURN,
                    _ => needs.plan(cond, has_mutex),
                })
                .collect(),
            barriers: program
                .barriers
                .iter()
                .map(|barrier| barrier.count)
                .collect(),
            semaphores: program.semaphores.iter().map(|sem| sem.value).collect(),
            channels: program
                .channels
                .iter()
                .map(|channel| channel.tokens)
                .collect(),
            uncounted: vec![0; program.locks.len()],
            ..Plan::default()
        },
        needs,
        awaits: FxHashMap::default(),
        turns,
    };
    for (index, thread) in program.threads.iter_mut().enumerate() {
        let thread = std::mem::take(thread);
        let compiled = compiler.thread(index as ThreadIx, &thread)?;
        compiler.plan.threads.push(compiled);
    }
    compiler.turns.end()?;
    Ok(compiler.plan)
}

struct Compiler {
    plan: Plan,
    needs: Needs,
    awaits: FxHashMap<AwaitKey, u32>,
    turns: Turns,
}

impl Compiler {
    fn thread(&mut self, index: ThreadIx, thread: &Thread) -> Result<ThreadPlan, NativeError> {
        let mut plan = ThreadPlan {
            at_start: thread.at_start,
            start_ns: thread.start_ns,
            ..ThreadPlan::default()
        };
        let mut segments = Segments::default();
        let mut held = Held::default();
        for (position, op) in thread.ops.iter().enumerate() {
            if let Op::Work { ns } = *op {
                segments.pending_ns += f64::from(ns);
                continue;
            }
            let following = &thread.ops[position + 1..];
            let Some((kind, object)) = self.operation(op, following, &mut held) else {
                continue;
            };
            if let Op::Sleep { ns } = *op {
                plan.sleeps.push(ns);
            }
            let is_absent = |lock| self.plan.locks[lock as usize] == LockKind::Absent;
            plan.turns.extend(self.turns.of(op, index, is_absent)?);
            segments.end(&mut plan.steps, &mut self.plan, kind, object);
        }
        for hold in held.locks().rev() {
            self.plan.simplified.unreleased += 1;
            segments.end(
                &mut plan.steps,
                &mut self.plan,
                release(hold.shared),
                hold.lock,
            );
        }
        segments.end(&mut plan.steps, &mut self.plan, Kind::Work, 0);
        self.plan.excess_ns += -segments.carry_ns.min(0.0);
        plan.steps.shrink_to_fit();
        Ok(plan)
    }

    /// What a step does for an operation; `None` = nothing.
    fn operation(&mut self, op: &Op, following: &[Op], held: &mut Held) -> Option<(Kind, u32)> {
        Some(match *op {
            Op::Work { .. } => return None,
            Op::Sleep { .. } => (Kind::Sleep, 0),
            Op::Acquire { lock, shared, .. } => return self.acquire(lock, shared, held),
            Op::TryAcquire { lock, .. } => return self.acquire(lock, false, held),
            Op::TryFail { lock } => (Kind::TouchLock, lock),
            Op::Release { lock } => match held.release(lock) {
                Released::Fully(hold) => (release(hold.shared), lock),
                Released::Inner => return None,
                Released::NotHeld => {
                    self.plan.simplified.unmatched_releases += 1;
                    return None;
                }
            },
            Op::Await { cond, lock, need } => {
                let hold = held.get(lock);
                let index = self.await_index(Await {
                    cond,
                    lock,
                    holds: hold.is_some(),
                    shared: hold.is_some_and(|hold| hold.shared),
                    need,
                });
                (Kind::Await, index)
            }
            Op::Post { channel } => match self.needs.silent(channel, following) {
                None => (Kind::Post, channel),
                Some(cond) => {
                    self.plan.simplified.silent_posts += 1;
                    // The same table as waits: channel and condition variable.
                    let index = self.await_index(Await {
                        cond,
                        lock: 0,
                        holds: false,
                        shared: false,
                        need: Need::Token(channel),
                    });
                    (Kind::PostAndWake, index)
                }
            },
            Op::Signal { cond } => (Kind::Signal, cond),
            Op::Broadcast { cond } => (Kind::Broadcast, cond),
            Op::Barrier { barrier } => (Kind::Barrier, barrier),
            Op::SemWait { sem } => (Kind::SemWait, sem),
            Op::SemPost { sem } => (Kind::SemPost, sem),
            Op::Spawn { thread } => (Kind::Spawn, thread),
            Op::Join { thread } => (Kind::Join, thread),
        })
    }

    fn acquire(&mut self, lock: LockIx, shared: bool, held: &mut Held) -> Option<(Kind, u32)> {
        let kind = self.plan.locks[lock as usize];
        // A lock without shared mode has no shared holders.
        let shared = shared && kind == LockKind::RwLock;
        if !held.acquire(lock, shared) {
            self.plan.simplified.recursive += 1;
            return None;
        }
        if shared || kind == LockKind::Absent {
            self.plan.uncounted[lock as usize] += 1;
        }
        let kind = if shared {
            Kind::AcquireShared
        } else {
            Kind::Acquire
        };
        Some((kind, lock))
    }

    fn await_index(&mut self, wait: Await) -> u32 {
        *self.awaits.entry(wait.key()).or_insert_with(|| {
            self.plan.awaits.push(wait);
            self.plan.awaits.len() as u32 - 1
        })
    }
}

fn release(shared: bool) -> Kind {
    if shared {
        Kind::ReleaseShared
    } else {
        Kind::Release
    }
}

/// Segments of the least length that later ones make up for.
const MADE_UP_SEGMENTS: f64 = 64.0;

/// Stretches of work between a thread's operations, in iterations of the work loop.
#[derive(Debug, Default)]
struct Segments {
    pending_ns: f64,
    /// What the segments before took too little; negative: too long.
    carry_ns: f64,
}

impl Segments {
    /// Ends a segment with an operation.
    fn end(&mut self, steps: &mut Vec<Step>, plan: &mut Plan, kind: Kind, index: u32) {
        let rates = plan.rates;
        let ns = std::mem::take(&mut self.pending_ns);
        plan.work_ns += ns;
        plan.segments += 1;
        plan.below_floor += u64::from(ns < rates.entry_ns);
        let mut iterations = self.iterations(ns, &rates);
        while iterations > u64::from(u32::MAX) {
            steps.push(Step::new(u32::MAX, Kind::Work, 0));
            iterations -= u64::from(u32::MAX);
        }
        let is_nothing = kind == Kind::Work && iterations == 0;
        if !is_nothing {
            steps.push(Step::new(iterations as u32, kind, index));
        }
        // A long segment does not vanish to make up for any number of others.
        let limit = -MADE_UP_SEGMENTS * rates.entry_ns;
        if self.carry_ns < limit {
            plan.excess_ns += limit - self.carry_ns;
            self.carry_ns = limit;
        }
    }

    fn iterations(&mut self, ns: f64, rates: &Rates) -> u64 {
        let wanted = ns + self.carry_ns;
        if wanted < rates.entry_ns + rates.iteration_ns / 2.0 {
            self.carry_ns = wanted - rates.step_ns;
            return 0;
        }
        let iterations = ((wanted - rates.entry_ns) / rates.iteration_ns).round();
        self.carry_ns = wanted - rates.entry_ns - iterations * rates.iteration_ns;
        iterations as u64
    }
}
