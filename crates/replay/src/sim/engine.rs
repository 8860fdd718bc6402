//! The simulation itself: its state, and the loop over events.

use super::costs::ps;
use super::costs::Costs;
use super::costs::Ps;
use super::events::Events;
use super::events::Next;
use super::events::Tid;
use super::events::Timer;
use super::outcome::FutexCounts;
use super::outcome::SectionTimes;
use super::outcome::WaitKind;
use super::rng::Rng;
use super::rules::Rules;
use super::schedule::Turns;
use super::state::BarrierState;
use super::state::ChannelState;
use super::state::Class;
use super::state::CondState;
use super::state::Cpu;
use super::state::FutexQueue;
use super::state::LockState;
use super::state::Place;
use super::state::SemState;
use super::state::Thread;
use super::state::NO_CPU;
use super::Options;
use crate::machine::Machine;
use crate::program::Op;
use crate::program::Program;
use crate::program::NO_SECTION;

/// How a thread goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It runs on its CPU for so long; then its next step is due.
    Run(Ps),
    /// It is off its CPU, which has been given to another thread or is idle.
    Off,
}

/// A run that takes so many times what all threads would take one after another comes to no end.
const TIMES: u64 = 16;

/// Operations after which a run that nobody cut has come to no end: a wait on a condition variable
/// that others get ahead of begins anew each time, and may do so for ever.
fn most_ops(program: &Program) -> u64 {
    const AT_LEAST: u64 = 100_000;
    TIMES * program.op_count() as u64 + AT_LEAST
}

/// Time after which a run has come to no end: threads that spin while the holder of the lock is off
/// the CPU may take turns for ever, without an operation.
fn most_time(program: &Program, machine: &Machine) -> Ps {
    let waits_ns = machine.futex_block_ns + machine.futex_wake_ipi_ns + machine.switch_ns;
    let serial_ns: f64 = program
        .threads
        .iter()
        .map(|thread| {
            let ops = thread.ops.iter().map(|op| match op {
                Op::Work { ns } | Op::Sleep { ns } => f64::from(*ns),
                _ => waits_ns,
            });
            thread.start_ns + ops.sum::<f64>()
        })
        .sum();
    ps(TIMES as f64 * (serial_ns + machine.slice_ns))
}

/// A run of a program, under way.
#[derive(Debug)]
pub(super) struct Sim<'a> {
    pub(super) program: &'a Program,
    pub(super) machine: &'a Machine,
    pub(super) costs: Costs,
    pub(super) rules: Rules,
    pub(super) rng: Rng,
    pub(super) now: Ps,
    pub(super) events: Events,
    pub(super) cpus: Vec<Cpu>,
    pub(super) threads: Vec<Thread>,
    pub(super) locks: Vec<LockState>,
    pub(super) conds: Vec<CondState>,
    pub(super) barriers: Vec<BarrierState>,
    pub(super) semaphores: Vec<SemState>,
    pub(super) channels: Vec<ChannelState>,
    pub(super) futexes: Vec<FutexQueue>,
    pub(super) turns: Turns,
    /// Threads in run queues.
    pub(super) queued: usize,
    /// Since when there are some; how long there were before.
    pub(super) queued_since: Ps,
    pub(super) queued_time: Ps,
    /// Timers of the tick are pending.
    pub(super) is_ticking: bool,
    /// The largest virtual run time of any thread.
    pub(super) max_vruntime: Ps,
    pub(super) futex_counts: FutexCounts,
    pub(super) unmatched_releases: u64,
    pub(super) sections: Vec<SectionTimes>,
    /// See [`super::Outcome::order`]; `None` = not asked for.
    pub(super) order: Option<Vec<Tid>>,
    /// Threads that have not ended, and will start.
    pub(super) live: usize,
    /// The run ends then.
    pub(super) max_time: Ps,
    /// Operations begun.
    pub(super) ops: u64,
    /// The run ends after so many.
    pub(super) max_ops: u64,
    /// That many were asked for; otherwise a run with more comes to no end.
    pub(super) is_limited: bool,
    /// Times that a thread was put into a run queue.
    pub(super) enqueued: u64,
}

impl<'a> Sim<'a> {
    pub(super) fn new(
        program: &'a Program,
        machine: &'a Machine,
        options: &Options<'_>,
        turns: Turns,
        sections: usize,
    ) -> Self {
        let cpus = options.cpus.unwrap_or(machine.cpus) as usize;
        let queues = 2 * program.locks.len()
            + 2 * program.conds.len()
            + program.barriers.len()
            + program.semaphores.len()
            + program.threads.len();
        Self {
            program,
            machine,
            costs: Costs::of(machine),
            rules: options.rules,
            rng: Rng::new(options.seed),
            now: 0,
            events: Events::new(cpus),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            threads: program.threads.iter().map(|_| Thread::new()).collect(),
            locks: program
                .locks
                .iter()
                .map(|lock| LockState::new(lock.kind))
                .collect(),
            conds: program
                .conds
                .iter()
                .map(|_| CondState {
                    line: NO_CPU,
                    ..CondState::default()
                })
                .collect(),
            barriers: program
                .barriers
                .iter()
                .map(|b| BarrierState {
                    count: b.count,
                    arrived: 0,
                    round: 0,
                    line: NO_CPU,
                })
                .collect(),
            semaphores: program
                .semaphores
                .iter()
                .map(|s| SemState {
                    value: s.value,
                    waiters: 0,
                    line: NO_CPU,
                })
                .collect(),
            channels: program
                .channels
                .iter()
                .map(|c| ChannelState {
                    tokens: u64::from(c.tokens),
                    posted: 0,
                })
                .collect(),
            futexes: vec![FutexQueue::new(); queues],
            turns,
            queued: 0,
            queued_since: 0,
            queued_time: 0,
            is_ticking: false,
            max_vruntime: 0,
            futex_counts: FutexCounts::default(),
            unmatched_releases: 0,
            sections: vec![SectionTimes::MISSING; sections],
            order: options.order.then(Vec::new),
            live: 0,
            ops: 0,
            max_time: most_time(program, machine),
            is_limited: options.max_ops.is_some(),
            max_ops: options.max_ops.unwrap_or_else(|| most_ops(program)),
            enqueued: 0,
        }
    }

    /// Runs until all threads have ended, or nothing can happen any more.
    pub(super) fn run(&mut self) {
        for (tid, thread) in self.program.threads.iter().enumerate() {
            if !thread.at_start {
                continue;
            }
            self.live += 1;
            let start = ps(thread.start_ns);
            self.turns_started(tid as Tid, start);
            if start == 0 {
                self.start_thread(tid as Tid, None);
            } else {
                self.events.set_timer(start, Timer::Wake(tid as Tid));
            }
        }
        while self.live > 0 && self.ops < self.max_ops {
            match self.events.next() {
                Next::Cpu(at, cpu) => {
                    self.now = at;
                    self.advance(cpu);
                }
                Next::Timer(at, Timer::Wake(tid)) => {
                    self.now = at;
                    match self.threads[tid as usize].place {
                        Place::NotStarted => self.start_thread(tid, None),
                        _ => self.end_sleep(tid),
                    }
                }
                Next::Timer(at, Timer::Tick(cpu)) => {
                    self.now = at;
                    if self.is_spinning_forever() || at > self.max_time {
                        break;
                    }
                    self.tick(cpu as usize);
                }
                Next::Nothing => break,
            }
        }
    }

    /// Runs the thread of a CPU, whose step is due now, until somebody else is to act.
    fn advance(&mut self, cpu: usize) {
        let Some(tid) = self.cpus[cpu].current else {
            self.events.set_cpu(cpu, super::costs::NEVER);
            return;
        };
        loop {
            match self.step(tid) {
                Flow::Run(delay) => {
                    let end = self.now.saturating_add(delay);
                    if !self.events.is_undisturbed_until(end) {
                        self.events.set_cpu(cpu, end);
                        return;
                    }
                    self.now = end;
                }
                Flow::Off => return,
            }
        }
    }

    /// What the thread's time from now on is spent on.
    pub(super) fn enter(&mut self, tid: Tid, class: Class) {
        self.threads[tid as usize].enter(class, self.now);
    }

    pub(super) fn enter_wait(&mut self, tid: Tid, kind: WaitKind) {
        self.enter(tid, Class::Wait(kind));
    }

    /// Price of an atomic operation that costs `local` on a line of one's own, and the line's new
    /// owner.
    pub(super) fn touch(line: &mut u32, cpu: u32, local: Ps, remote_extra: Ps) -> Ps {
        let is_remote = *line != cpu && *line != NO_CPU;
        *line = cpu;
        local + if is_remote { remote_extra } else { 0 }
    }

    /// All that run, or could, wait for a lock word to change, and nobody else is left to change
    /// it.
    fn is_spinning_forever(&self) -> bool {
        !self.events.has_sleepers()
            && self
                .threads
                .iter()
                .enumerate()
                .all(|(tid, thread)| match thread.place {
                    Place::Running | Place::Queued => self.is_spinning_in_vain(tid as Tid),
                    _ => true,
                })
    }

    /// The thread has what it waited for: its operation's place in the order.
    pub(super) fn note_order(&mut self, tid: Tid) {
        if let Some(order) = &mut self.order {
            order.push(tid);
        }
    }

    /// Writes the times of a section down, if asked to.
    pub(super) fn section_times(&mut self, section: u32) -> Option<&mut SectionTimes> {
        if section == NO_SECTION {
            return None;
        }
        self.sections.get_mut(section as usize)
    }
}
