//! The interpreter of a thread: operations, and the steps that they consist of.

use super::costs::ps;
use super::costs::Ps;
use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::futex::Word;
use super::outcome::WaitKind;
use super::state::Class;
use crate::program::Op;

/// What happens when a thread's delay is over. Each is an instant: an atomic operation takes
/// effect, a system call compares, an operation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    NextOp,
    /// A piece of work is done (SYNC).
    WorkPiece(Ps),
    FutexCompare,
    FutexBlock,
    FutexLookup,
    FutexWakeNext,
    MutexTry,
    MutexRetry,
    MutexExchange,
    MutexRelease,
    SpinTry,
    AdaptiveTry,
    SpinRelease,
    TicketTake,
    TicketCheck,
    TicketRelease,
    ReadRegister,
    ReadWait,
    ReadRelease,
    WriteTry,
    WriteRetry,
    WritePhaseWait,
    WriteRelease,
    WriteWakeWriters,
    /// The acquisition or release is over.
    LockDone,
    CondRegistered,
    CondCheck,
    CondReacquire,
    CondSignal,
    CondBroadcast,
    BarrierArrive,
    BarrierCheck,
    SemTry,
    SemCheck,
    SemPost,
    Spawned,
    JoinCheck,
    Exit,
}

impl Sim<'_> {
    /// Runs the step of the current thread that is due now.
    pub(super) fn step(&mut self, tid: Tid) -> Flow {
        match self.threads[tid as usize].step {
            Step::NextOp => self.next_op(tid),
            Step::WorkPiece(done) => self.work_piece(tid, done),
            Step::FutexCompare => self.futex_compare(tid),
            Step::FutexBlock => self.futex_block(tid),
            Step::FutexLookup => self.futex_lookup(tid),
            Step::FutexWakeNext => self.futex_wake_next(tid),
            Step::MutexTry => self.mutex_try(tid),
            Step::MutexRetry => self.mutex_retry(tid),
            Step::MutexExchange => self.mutex_exchange(tid),
            Step::MutexRelease => self.mutex_release(tid),
            Step::SpinTry => self.spin_try(tid),
            Step::AdaptiveTry => self.adaptive_try(tid),
            Step::SpinRelease => self.spin_release(tid),
            Step::TicketTake => self.ticket_take(tid),
            Step::TicketCheck => self.ticket_check(tid),
            Step::TicketRelease => self.ticket_release(tid),
            Step::ReadRegister => self.read_register(tid),
            Step::ReadWait => self.read_wait(tid),
            Step::ReadRelease => self.read_release(tid),
            Step::WriteTry => self.write_try(tid),
            Step::WriteRetry => self.write_retry(tid),
            Step::WritePhaseWait => self.write_phase_wait(tid),
            Step::WriteRelease => self.write_release(tid),
            Step::WriteWakeWriters => self.write_wake_writers(tid),
            Step::LockDone => self.lock_done(tid),
            Step::CondRegistered => self.cond_registered(tid),
            Step::CondCheck => self.cond_check(tid),
            Step::CondReacquire => self.cond_reacquire(tid),
            Step::CondSignal => self.cond_signal(tid),
            Step::CondBroadcast => self.cond_broadcast(tid),
            Step::BarrierArrive => self.barrier_arrive(tid),
            Step::BarrierCheck => self.barrier_check(tid),
            Step::SemTry => self.sem_try(tid),
            Step::SemCheck => self.sem_check(tid),
            Step::SemPost => self.sem_post(tid),
            Step::Spawned => self.spawned(tid),
            Step::JoinCheck => self.join_check(tid),
            Step::Exit => self.end_thread(tid),
        }
    }

    /// Begins the thread's next operation.
    fn next_op(&mut self, tid: Tid) -> Flow {
        let pos = self.threads[tid as usize].pos;
        let Some(&op) = self.program.threads[tid as usize].ops.get(pos) else {
            return self.exit(tid);
        };
        self.threads[tid as usize].current_op = pos;
        if self.turns.are_enforced() && !self.take_turn(tid, pos, op) {
            return self.wait_turn(tid, Step::NextOp);
        }
        self.threads[tid as usize].pos = pos + 1;
        self.ops += 1;
        if self.ops >= self.max_ops {
            return Flow::Off;
        }
        match op {
            Op::Work { ns } => self.work(tid, ps(f64::from(ns))),
            Op::Sleep { ns } => {
                let time = ps(f64::from(ns));
                self.turns_advance(tid, time);
                self.sleep(tid, time)
            }
            Op::Acquire {
                lock,
                shared,
                section,
            } => self.begin_acquire(tid, lock, shared, section, Step::NextOp),
            Op::TryAcquire { lock, section } => {
                self.begin_acquire(tid, lock, false, section, Step::NextOp)
            }
            Op::TryFail { lock } => {
                // It reads the word, and finds it taken.
                let cost = self.touch_lock(tid, lock, self.costs.atomic);
                self.then(tid, Class::Protocol, Step::NextOp, cost)
            }
            Op::Release { lock } => self.begin_release(tid, lock, Step::NextOp),
            Op::Await { cond, lock, need } => self.begin_await(tid, cond, lock, need),
            Op::Post { channel } => {
                let channel = &mut self.channels[channel as usize];
                channel.tokens += 1;
                channel.posted += 1;
                Flow::Run(0)
            }
            Op::Signal { cond } => self.begin_signal(tid, cond, Step::CondSignal),
            Op::Broadcast { cond } => self.begin_signal(tid, cond, Step::CondBroadcast),
            Op::Barrier { barrier } => self.begin_barrier(tid, barrier),
            Op::SemWait { sem } => self.begin_sem(tid, sem, Step::SemTry),
            Op::SemPost { sem } => self.begin_sem(tid, sem, Step::SemPost),
            Op::Spawn { thread } => {
                self.threads[tid as usize].operand = thread;
                self.then(tid, Class::Protocol, Step::Spawned, self.costs.spawn)
            }
            Op::Join { thread } => {
                self.threads[tid as usize].operand = thread;
                self.enter_wait(tid, WaitKind::Join);
                self.join_check(tid)
            }
        }
    }

    /// The thread spends so long on something of this class; then comes the step.
    pub(super) fn then(&mut self, tid: Tid, class: Class, step: Step, delay: Ps) -> Flow {
        self.enter(tid, class);
        self.threads[tid as usize].step = step;
        Flow::Run(delay)
    }

    /// On to the next operation, at once.
    pub(super) fn op_done(&mut self, tid: Tid) -> Flow {
        self.then(tid, Class::Protocol, Step::NextOp, 0)
    }

    fn work(&mut self, tid: Tid, time: Ps) -> Flow {
        match self.turns.work_piece() {
            None => self.then(tid, Class::Work, Step::NextOp, time),
            Some(piece) => {
                let first = time.min(piece);
                self.threads[tid as usize].work_left = time - first;
                self.then(tid, Class::Work, Step::WorkPiece(first), first)
            }
        }
    }

    fn work_piece(&mut self, tid: Tid, done: Ps) -> Flow {
        self.turns_advance(tid, done);
        match std::mem::take(&mut self.threads[tid as usize].work_left) {
            0 => self.op_done(tid),
            left => self.work(tid, left),
        }
    }

    fn spawned(&mut self, tid: Tid) -> Flow {
        let thread = &self.threads[tid as usize];
        let (child, cpu) = (thread.operand, thread.cpu as usize);
        self.live += 1;
        self.turns_spawned(tid, child);
        self.start_thread(child, Some(cpu));
        self.op_done(tid)
    }

    fn join_check(&mut self, tid: Tid) -> Flow {
        let word = Word::Exit(self.threads[tid as usize].operand);
        if self.is_unchanged(word) {
            return self.futex_wait(tid, word, Step::JoinCheck);
        }
        self.turns_joined(tid);
        self.op_done(tid)
    }

    /// The kernel wakes who joins while the thread exits.
    fn exit(&mut self, tid: Tid) -> Flow {
        self.enter(tid, Class::Protocol);
        self.turns_ended(tid);
        let queue = self.queue_of(Word::Exit(tid));
        // The kernel clears the word first: whoever compares from here on finds the thread ended.
        self.threads[tid as usize].is_exiting = true;
        self.threads[tid as usize].step = Step::Exit;
        if self.futexes[queue].is_empty() {
            return Flow::Run(0);
        }
        self.futex_wake(tid, Word::Exit(tid), u32::MAX, Step::Exit)
    }
}
