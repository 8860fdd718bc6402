//! Who waits on which condition variable for what, and under which lock: what decides how the waits
//! of a program can be replayed without losing a wake-up.

use convoy_replay::program::{ChannelIx, CondIx, LockIx, Need, Op, Program};

use super::held::Held;

/// How a condition variable is replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CondPlan {
    /// By the C library's: all waits and all posts to what they wait for are made under one mutex.
    /// Otherwise (the lock was removed, is no mutex, or posts are made without it) by a futex word
    /// that every signal changes, which loses no wake-up whatever the locks.
    pub is_pthread: bool,
    /// Every signal wakes all waiters: they wait for different things, and one signal meant for a
    /// certain one would be lost on another.
    pub wakes_all: bool,
}

impl CondPlan {
    /// For waits that end in turn: who waits is woken by its turn, if what it waits for is there by
    /// then, else by any signal.
    pub const IN_TURN: Self = Self {
        is_pthread: false,
        wakes_all: true,
    };
}

/// What all threads' waits and posts have in common.
#[derive(Debug, Clone)]
pub(super) struct Needs {
    conds: Vec<CondUse>,
    posts: Vec<PostUse>,
    /// Condition variables on which somebody waits for the channel.
    waited_on: Vec<Vec<CondIx>>,
}

#[derive(Debug, Clone, Default)]
struct CondUse {
    /// `None` = nobody waits on it yet.
    lock: Option<LockIx>,
    /// Every wait holds this one lock, exclusively.
    is_uniform: bool,
    channels: Vec<ChannelIx>,
    counts: bool,
}

/// Locks held at every post to a channel; `None` = no post yet.
#[derive(Debug, Clone, Default)]
struct PostUse(Option<Vec<LockIx>>);

impl Needs {
    pub fn of(program: &Program) -> Self {
        let mut needs = Self {
            conds: vec![CondUse::default(); program.conds.len()],
            posts: vec![PostUse::default(); program.channels.len()],
            waited_on: vec![Vec::new(); program.channels.len()],
        };
        for thread in &program.threads {
            let mut held = Held::default();
            for op in &thread.ops {
                needs.see(op, &mut held);
            }
        }
        needs
    }

    fn see(&mut self, op: &Op, held: &mut Held) {
        match *op {
            Op::Acquire { lock, shared, .. } => {
                held.acquire(lock, shared);
            }
            Op::TryAcquire { lock, .. } => {
                held.acquire(lock, false);
            }
            Op::Release { lock } => {
                held.release(lock);
            }
            Op::Await { cond, lock, need } => self.see_wait(cond, lock, need, held),
            Op::Post { channel } => self.posts[channel as usize].see(held),
            _ => {}
        }
    }

    fn see_wait(&mut self, cond: CondIx, lock: LockIx, need: Need, held: &Held) {
        let (channel, counts) = match need {
            Need::Token(channel) => (channel, false),
            Need::Count(channel, _) => (channel, true),
        };
        let waited = &mut self.conds[cond as usize];
        let holds = held.get(lock).is_some_and(|hold| !hold.shared);
        waited.is_uniform = match waited.lock {
            None => holds,
            Some(before) => waited.is_uniform && holds && before == lock,
        };
        waited.lock = Some(lock);
        waited.counts |= counts;
        if !waited.channels.contains(&channel) {
            waited.channels.push(channel);
            self.waited_on[channel as usize].push(cond);
        }
    }

    /// How to replay a condition variable; `is_mutex` says which locks have a mutex to wait with.
    pub fn plan(&self, cond: CondIx, is_mutex: impl Fn(LockIx) -> bool) -> CondPlan {
        let waited = &self.conds[cond as usize];
        let Some(lock) = waited.lock else {
            return CondPlan {
                is_pthread: true,
                wakes_all: false,
            };
        };
        let mut posts = waited.channels.iter().map(|&ch| &self.posts[ch as usize]);
        CondPlan {
            is_pthread: waited.is_uniform && is_mutex(lock) && posts.all(|p| p.are_under(lock)),
            wakes_all: waited.counts || waited.channels.len() > 1,
        }
    }

    /// The condition variable to signal after a post that the recorded program signalled nobody of;
    /// `following` are the operations after it.
    pub fn silent(&self, channel: ChannelIx, following: &[Op]) -> Option<CondIx> {
        /// A signal that belongs to a post follows it closely, before the thread waits again.
        const WITHIN: usize = 8;
        let conds = &self.waited_on[channel as usize];
        let first = *conds.first()?;
        let near = following.iter().filter(|op| !matches!(op, Op::Work { .. }));
        for op in near.take(WITHIN) {
            match op {
                Op::Signal { cond } | Op::Broadcast { cond } if conds.contains(cond) => {
                    return None
                }
                Op::Acquire { .. } | Op::Await { .. } | Op::Barrier { .. } => break,
                Op::Sleep { .. } | Op::SemWait { .. } | Op::Join { .. } => break,
                _ => {}
            }
        }
        Some(first)
    }
}

impl PostUse {
    fn see(&mut self, held: &Held) {
        let held = held.locks().filter(|hold| !hold.shared);
        let mut held = held.map(|hold| hold.lock);
        match &mut self.0 {
            None => self.0 = Some(held.collect()),
            Some(common) => {
                let held: Vec<LockIx> = held.by_ref().collect();
                common.retain(|lock| held.contains(lock));
            }
        }
    }

    fn are_under(&self, lock: LockIx) -> bool {
        self.0.as_ref().is_none_or(|common| common.contains(&lock))
    }
}
