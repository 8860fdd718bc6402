//! Enforced schedules: who may take a lock, or make an access, when (PerfPlay, CGO'15, section on
//! replay).
//!
//! A turn is a gate in front of an operation. A thread that comes too early waits off the CPU,
//! which costs nothing besides the wait; past the gate it runs the operation's own protocol.

use super::costs::ps;
use super::costs::Ps;
use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::logical_time::LogicalTime;
use super::outcome::WaitKind;
use super::thread::Step;
use super::SimError;
use crate::program::LockIx;
use crate::program::LockKind;
use crate::program::Op;
use crate::program::Program;
use crate::program::SectionId;
use crate::program::ThreadIx;
use crate::program::NO_SECTION;

/// Which interleavings a run may take.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Schedule<'a> {
    /// ORIG: whoever comes first.
    #[default]
    Orig,
    /// ELSC, enforced locking serialization constraint: the acquisitions of each lock in the given
    /// order, one list a lock. Sections that the program does not have are skipped; sections that
    /// are in no list are free, and so are the returns from waits on condition variables. A thread
    /// passes when it is its turn and the lock is free, so that such acquisitions are never
    /// contended: what they wait is [`WaitKind::Turn`].
    Elsc(&'a [Vec<SectionId>]),
    /// SYNC: synchronization operations in the order of deterministic logical time, as Kendo has it
    /// (Olszewski and others, ASPLOS'09). The logical clock of a thread is the work that it has
    /// done; ties go to the lower thread.
    Sync {
        /// Clocks are published after so much work, nanoseconds.
        chunk_ns: f64,
    },
    /// MEM: a total order of the accesses to shared memory. `None`: they were not recorded, which
    /// is an error, never another schedule.
    Mem(Option<&'a [Access]>),
}

/// An access to shared memory: it takes place when the thread begins this operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// By whom.
    pub thread: ThreadIx,
    /// Index into [`crate::program::Thread::ops`].
    pub op: u32,
}

/// A gate that lets positions pass in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate {
    /// The position whose turn it is.
    next: u32,
    /// Positions of threads that wait.
    early: Vec<(u32, Tid)>,
}

impl Gate {
    fn is_open_for(&self, position: u32) -> bool {
        position <= self.next
    }

    fn wait(&mut self, position: u32, tid: Tid) {
        self.early.push((position, tid));
    }

    /// This position has passed: the next one's turn has come.
    fn pass(&mut self, position: u32) {
        self.next += u32::from(position == self.next);
    }

    /// The thread that waits for the position whose turn it is, taken out.
    fn first(&mut self) -> Option<Tid> {
        let index = self
            .early
            .iter()
            .position(|&(early, _)| early == self.next)?;
        Some(self.early.swap_remove(index).1)
    }
}

/// State of the schedule that is enforced.
#[derive(Debug)]
pub(super) enum Turns {
    Free,
    Elsc {
        /// Of each section in the order of its lock; `u32::MAX` = it is free.
        positions: Vec<u32>,
        gates: Vec<Gate>,
    },
    Logical(LogicalTime),
    Mem {
        /// Of each thread: operations that are accesses, and their positions, the next one last.
        accesses: Vec<Vec<(u32, u32)>>,
        gate: Gate,
    },
}

impl Turns {
    pub(super) fn new(schedule: Schedule<'_>, program: &Program) -> Result<Self, SimError> {
        match schedule {
            Schedule::Orig => Ok(Self::Free),
            Schedule::Sync { chunk_ns } => {
                // A clock that never advances would be no order.
                let piece = ps(chunk_ns).max(1000);
                let (threads, locks) = (program.threads.len(), program.locks.len());
                Ok(Self::Logical(LogicalTime::new(piece, threads, locks)))
            }
            Schedule::Elsc(orders) => elsc(orders, program),
            Schedule::Mem(None) => Err(SimError::AccessesNotRecorded),
            Schedule::Mem(Some(order)) => mem(order, program),
        }
    }

    pub(super) fn are_enforced(&self) -> bool {
        !matches!(self, Self::Free)
    }

    /// Work is done in pieces of this length.
    pub(super) fn work_piece(&self) -> Option<Ps> {
        match self {
            Self::Logical(time) => Some(time.piece),
            _ => None,
        }
    }
}

fn elsc(orders: &[Vec<SectionId>], program: &Program) -> Result<Turns, SimError> {
    if orders.len() != program.locks.len() {
        let (given, locks) = (orders.len(), program.locks.len());
        return Err(SimError::OrderOfOtherLocks { given, locks });
    }
    let acquisitions = program
        .threads
        .iter()
        .flat_map(|thread| &thread.ops)
        .filter_map(|op| match *op {
            Op::Acquire { lock, section, .. } | Op::TryAcquire { lock, section } => {
                Some((section, lock))
            }
            _ => None,
        });
    let mut lock_of = Vec::new();
    for (section, lock) in acquisitions.filter(|&(section, _)| section != NO_SECTION) {
        let index = section as usize;
        if lock_of.len() <= index {
            lock_of.resize(index + 1, LockIx::MAX);
        }
        lock_of[index] = lock;
    }
    let mut positions = vec![u32::MAX; lock_of.len()];
    for (lock, order) in orders.iter().enumerate() {
        if program.locks[lock].kind == LockKind::Absent {
            // What excludes nobody has no order.
            continue;
        }
        let mut position = 0;
        for &section in order {
            let index = section as usize;
            if lock_of.get(index) == Some(&(lock as LockIx)) && positions[index] == u32::MAX {
                positions[index] = position;
                position += 1;
            }
        }
    }
    Ok(Turns::Elsc {
        positions,
        gates: vec![Gate::default(); orders.len()],
    })
}

fn mem(order: &[Access], program: &Program) -> Result<Turns, SimError> {
    let mut accesses = vec![Vec::new(); program.threads.len()];
    for (position, access) in order.iter().enumerate() {
        let ops = program
            .threads
            .get(access.thread as usize)
            .map_or(0, |thread| thread.ops.len());
        if access.op as usize >= ops {
            return Err(SimError::UnknownAccess {
                thread: access.thread,
                op: access.op,
            });
        }
        accesses[access.thread as usize].push((access.op, position as u32));
    }
    for (thread, list) in accesses.iter_mut().enumerate() {
        if list.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(SimError::AccessesOutOfOrder {
                thread: thread as ThreadIx,
            });
        }
        list.reverse();
    }
    Ok(Turns::Mem {
        accesses,
        gate: Gate::default(),
    })
}

impl Sim<'_> {
    /// Whether the thread may begin the operation now. If not, it must wait, and is resumed when
    /// its turn may have come.
    pub(super) fn take_turn(&mut self, tid: Tid, pos: usize, op: Op) -> bool {
        match &mut self.turns {
            Turns::Free => true,
            Turns::Elsc { .. } => match op {
                Op::Acquire {
                    lock,
                    shared,
                    section,
                } => self.take_elsc_turn(tid, lock, shared, section),
                Op::TryAcquire { lock, section } => self.take_elsc_turn(tid, lock, false, section),
                _ => true,
            },
            Turns::Mem { accesses, gate } => {
                let own = &mut accesses[tid as usize];
                let Some(&(_, position)) = own.last().filter(|(op, _)| *op as usize == pos) else {
                    return true;
                };
                if !gate.is_open_for(position) {
                    gate.wait(position, tid);
                    return false;
                }
                own.pop();
                gate.pass(position);
                if let Some(next) = gate.first() {
                    self.resume(next);
                }
                true
            }
            Turns::Logical(_) => self.take_logical_turn(tid, op),
        }
    }

    /// The same for the lock with which a wait on a condition variable returns.
    pub(super) fn take_turn_for_lock(&mut self, tid: Tid, lock: LockIx) -> bool {
        match self.turns {
            Turns::Logical(_) => self.take_lock_turn(tid, lock, false),
            _ => true,
        }
    }

    /// The thread's turn has not come: off the CPU, then `step` again.
    pub(super) fn wait_turn(&mut self, tid: Tid, step: Step) -> Flow {
        let now = self.now;
        self.threads[tid as usize].turn_asked.get_or_insert(now);
        self.enter_wait(tid, WaitKind::Turn);
        self.block(tid, step)
    }

    fn take_elsc_turn(&mut self, tid: Tid, lock: LockIx, shared: bool, section: SectionId) -> bool {
        let is_free = self.is_free(lock, shared);
        let Turns::Elsc { positions, gates } = &mut self.turns else {
            return true;
        };
        let position = positions.get(section as usize).copied().unwrap_or(u32::MAX);
        if position == u32::MAX {
            return true;
        }
        let gate = &mut gates[lock as usize];
        let may_pass = gate.is_open_for(position) && is_free;
        if !may_pass {
            gate.wait(position, tid);
        }
        may_pass
    }

    /// A lock was acquired for a section.
    pub(super) fn turns_acquired(&mut self, lock: LockIx, section: SectionId) {
        let Turns::Elsc { positions, gates } = &mut self.turns else {
            return;
        };
        if let Some(&position) = positions.get(section as usize) {
            gates[lock as usize].pass(position);
            // Nobody but another reader can follow before the release.
            self.open_elsc_gate(lock);
        }
    }

    /// Lets the thread whose turn it is look at the lock again.
    pub(super) fn open_elsc_gate(&mut self, lock: LockIx) {
        let is_free = self.is_free(lock, true);
        let Turns::Elsc { gates, .. } = &mut self.turns else {
            return;
        };
        if !is_free {
            return;
        }
        if let Some(next) = gates[lock as usize].first() {
            self.resume(next);
        }
    }
}
