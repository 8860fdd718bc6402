//! Calls on the objects of a synthetic profile: counts, samples, waits, pairs.

use convoy_profile::{
    Count, Detail, FrameIx, ObjectIx, ObjectKind, Op, Pair, StackIx, ThreadIx, Unattributed, Wait,
};

use crate::time::{ns, us};
use crate::ProfileBuilder;

/// Calls in the making. They are in the profile when this is dropped, at the end of the statement.
#[derive(Debug)]
pub struct Calls<'a> {
    builder: &'a mut ProfileBuilder,
    object: ObjectIx,
    stack: StackIx,
    thread: ThreadIx,
    op: Op,
    n: u64,
    failed: u64,
    samples: u32,
    hold_ns: Option<u64>,
    cost_ns: Option<u64>,
    wait: Option<Wait>,
    pair: Option<Pair>,
}

impl ProfileBuilder {
    /// `n` acquisitions that found the lock free: one in 64 sampled, 20 ns each, held for 100 ns.
    pub fn acquires(&mut self, t: ThreadIx, lock: ObjectIx, at: StackIx, n: u64) -> Calls<'_> {
        let op = self.blocking_op(lock);
        self.op(t, lock, at, op, n).cost(ns(20)).hold(ns(100))
    }

    /// `n` acquisitions that had to wait, `wait_ns` in all. They come on top of those of
    /// [`Self::acquires`].
    pub fn contended(
        &mut self,
        t: ThreadIx,
        lock: ObjectIx,
        at: StackIx,
        n: u64,
        wait_ns: u64,
    ) -> Calls<'_> {
        let op = self.blocking_op(lock);
        self.op(t, lock, at, op, n).waits(n, wait_ns).hold(us(1))
    }

    /// `n` trylock calls, of which `failed` failed.
    pub fn trylocks(
        &mut self,
        t: ThreadIx,
        lock: ObjectIx,
        at: StackIx,
        n: u64,
        failed: u64,
    ) -> Calls<'_> {
        let op = match self.kind(lock) {
            ObjectKind::RwLock => Op::RwlockTrywr,
            ObjectKind::Spin => Op::SpinTrylock,
            ObjectKind::Sem => Op::SemTrywait,
            ObjectKind::OmpLock => Op::OmpTrylock,
            _ => Op::MutexTrylock,
        };
        self.op(t, lock, at, op, n).failed(failed)
    }

    /// `n` condition waits, `wait_ns` in all.
    pub fn cond_waits(
        &mut self,
        t: ThreadIx,
        cond: ObjectIx,
        at: StackIx,
        n: u64,
        wait_ns: u64,
    ) -> Calls<'_> {
        self.op(t, cond, at, Op::CondWait, n).waits(n, wait_ns)
    }

    /// `n` arrivals at a barrier, `wait_ns` of waiting in all, `last` times as the last one.
    pub fn barrier_waits(
        &mut self,
        t: ThreadIx,
        barrier: ObjectIx,
        at: StackIx,
        n: u64,
        wait_ns: u64,
        last: u64,
    ) -> Calls<'_> {
        let mut calls = self
            .op(t, barrier, at, Op::BarrierWait, n)
            .waits(n - last, wait_ns);
        calls.wait.get_or_insert_default().last_arrivals = last;
        calls
    }

    /// One join that took `wait_ns`.
    pub fn join(&mut self, t: ThreadIx, joined: ThreadIx, at: StackIx, wait_ns: u64) -> Calls<'_> {
        let object = self.join_of(joined);
        self.op(t, object, at, Op::Join, 1).waits(1, wait_ns)
    }

    /// `n` calls of any operation, one in 64 sampled.
    pub fn op(
        &mut self,
        thread: ThreadIx,
        object: ObjectIx,
        stack: StackIx,
        op: Op,
        n: u64,
    ) -> Calls<'_> {
        let period = u64::from(self.meta().sample_period.max(1));
        Calls {
            object,
            stack,
            thread,
            op,
            n,
            failed: 0,
            samples: (n / period) as u32,
            hold_ns: None,
            cost_ns: None,
            wait: None,
            pair: None,
            builder: self,
        }
    }

    /// `n` calls whose object was not counted apart; `at` is the leaf frame.
    pub fn unattributed(&mut self, thread: ThreadIx, at: FrameIx, op: Op, n: u64) -> &mut Self {
        self.raw().unattributed.push(Unattributed {
            frame: at,
            thread,
            op,
            n,
            failed: 0,
        });
        self
    }

    fn kind(&mut self, object: ObjectIx) -> ObjectKind {
        self.raw().objects[object as usize].kind
    }

    fn blocking_op(&mut self, lock: ObjectIx) -> Op {
        match self.kind(lock) {
            ObjectKind::RwLock => Op::RwlockWr,
            ObjectKind::Spin => Op::SpinLock,
            ObjectKind::Sem => Op::SemWait,
            ObjectKind::Futex => Op::FutexWait,
            ObjectKind::OmpLock => Op::OmpLock,
            ObjectKind::OmpCritical => Op::OmpCritical,
            _ => Op::MutexLock,
        }
    }
}

impl Calls<'_> {
    /// Of these calls, `n` waited, `wait_ns` in all; the longest took four times the mean.
    pub fn waits(mut self, n: u64, wait_ns: u64) -> Self {
        let mean_ns = wait_ns.checked_div(n).unwrap_or(0);
        let mut hist = vec![0; mean_ns.max(1).ilog2().min(31) as usize + 1];
        if let Some(bin) = hist.last_mut() {
            *bin = n as u32;
        }
        self.wait = Some(Wait {
            n,
            sum_ns: wait_ns,
            max_ns: (mean_ns * 4).min(wait_ns),
            hist,
            ..Wait::default()
        });
        self
    }

    /// The longest wait.
    pub fn longest(mut self, max_ns: u64) -> Self {
        self.wait.get_or_insert_default().max_ns = max_ns;
        self
    }

    /// Of the waits, `n` ended without the object, `sum_ns` in all. They count as failed calls.
    pub fn timeouts(mut self, n: u64, sum_ns: u64) -> Self {
        let wait = self.wait.get_or_insert_default();
        wait.timeouts = n;
        wait.timeout_sum_ns = sum_ns;
        self.failed = n;
        self
    }

    /// Of the waits, one still went on at the end and had lasted this long.
    pub fn unfinished(mut self, lasted_ns: u64) -> Self {
        let wait = self.wait.get_or_insert_default();
        wait.unfinished = 1;
        wait.unfinished_ns = lasted_ns;
        self
    }

    /// OMP regions: time in the body. Trylocks: time spent trying in vain.
    pub fn busy(mut self, busy_ns: u64) -> Self {
        self.wait.get_or_insert_default().busy_sum_ns = busy_ns;
        self
    }

    /// Of these calls, `n` failed or timed out.
    pub fn failed(mut self, n: u64) -> Self {
        self.failed = n;
        self
    }

    /// Each of these acquisitions held the lock this long: the sampled ones are timed, or, if they
    /// waited, all.
    pub fn hold(mut self, hold_ns: u64) -> Self {
        self.hold_ns = Some(hold_ns);
        self
    }

    /// Each sampled acquire itself took this long.
    pub fn cost(mut self, cost_ns: u64) -> Self {
        self.cost_ns = Some(cost_ns);
        self
    }

    /// The sampler drew this many of these calls, not one in 64.
    pub fn samples(mut self, n: u32) -> Self {
        self.samples = n;
        self
    }

    /// The waits were for `holder`, who had acquired at `acquired_at` and released at `released_at`.
    pub fn held_by(mut self, holder: ThreadIx, acquired_at: FrameIx, released_at: StackIx) -> Self {
        self.pair = Some(Pair {
            peer: Some(holder),
            peer_frame: Some(acquired_at),
            peer_stack: released_at,
            ..Pair::default()
        });
        self
    }

    /// The waits were ended by `waker`, who signalled, posted or arrived at `at`.
    pub fn woken_by(mut self, waker: ThreadIx, at: StackIx) -> Self {
        self.pair = Some(Pair {
            peer: Some(waker),
            peer_stack: at,
            ..Pair::default()
        });
        self
    }

    fn add_count(&mut self) {
        let process = self.builder.raw();
        let Some(&frame) = process
            .stacks
            .get(self.stack as usize)
            .and_then(|s| s.first())
        else {
            panic!(
                "calls need a stack with at least one frame, got stack {}",
                self.stack
            );
        };
        let key = (self.object, frame, self.thread, self.op);
        let counts = &mut process.counts;
        let at = counts
            .iter()
            .position(|c| (c.object, c.frame, c.thread, c.op) == key)
            .unwrap_or_else(|| {
                let (object, frame, thread, op) = key;
                counts.push(Count {
                    object,
                    frame,
                    thread,
                    op,
                    n: 0,
                    failed: 0,
                    sampled: 0,
                });
                counts.len() - 1
            });
        counts[at].n += self.n;
        counts[at].failed += self.failed;
    }

    fn add_detail(&mut self) {
        let waited = self.wait.as_ref().map_or(0, |w| w.n) as u32;
        if self.samples == 0 && self.wait.is_none() {
            return;
        }
        let details = &mut self.builder.raw().details;
        let key = (self.object, self.stack, self.thread, Some(self.op));
        let at = details
            .iter()
            .position(|d| (d.object, d.stack, d.thread, d.op) == key)
            .unwrap_or_else(|| {
                let (object, stack, thread, op) = key;
                details.push(Detail {
                    object,
                    stack,
                    thread,
                    op,
                    ..Detail::default()
                });
                details.len() - 1
            });
        let detail = &mut details[at];
        detail.samples += self.samples;
        if let Some(cost_ns) = self.cost_ns {
            detail.acquire_n += self.samples;
            detail.acquire_sum_ns += u64::from(self.samples) * cost_ns;
        }
        if let Some(hold_ns) = self.hold_ns {
            let timed = if waited > 0 { waited } else { self.samples };
            detail.hold_n += timed;
            detail.hold_sum_ns += u64::from(timed) * hold_ns;
            if waited == 0 {
                detail.hold_sampled_n += timed;
                detail.hold_sampled_sum_ns += u64::from(timed) * hold_ns;
            }
            detail.hold_max_us = detail.hold_max_us.max(hold_ns.div_ceil(1000) as u32);
        }
        if let Some(wait) = self.wait.take() {
            add_wait(detail.wait.get_or_insert_default(), &wait);
        }
    }
}

fn add_wait(to: &mut Wait, wait: &Wait) {
    to.n += wait.n;
    to.sum_ns += wait.sum_ns;
    to.max_ns = to.max_ns.max(wait.max_ns);
    to.timeouts += wait.timeouts;
    to.timeout_sum_ns += wait.timeout_sum_ns;
    to.unfinished += wait.unfinished;
    to.unfinished_ns += wait.unfinished_ns;
    to.last_arrivals += wait.last_arrivals;
    to.busy_sum_ns += wait.busy_sum_ns;
    if to.hist.len() < wait.hist.len() {
        to.hist.resize(wait.hist.len(), 0);
    }
    for (to, n) in to.hist.iter_mut().zip(&wait.hist) {
        *to += n;
    }
}

impl Drop for Calls<'_> {
    fn drop(&mut self) {
        if let (Some(pair), Some(wait)) = (self.pair.take(), &self.wait) {
            let pair = Pair {
                object: self.object,
                stack: self.stack,
                thread: self.thread,
                n: wait.n,
                wait_sum_ns: wait.sum_ns,
                wait_max_ns: wait.max_ns,
                ..pair
            };
            self.builder.raw().pairs.push(pair);
        }
        self.add_count();
        self.add_detail();
    }
}
