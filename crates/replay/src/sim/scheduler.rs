//! The scheduler: run queues, time slices, placement of woken threads. After EEVDF (Linux 6.6 and
//! later), as far as it decides when a thread of one program runs.

use super::costs::ns;
use super::costs::sample_wake;
use super::costs::Ps;
use super::costs::NEVER;
use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::events::Timer;
use super::state::Class;
use super::state::Place;
use super::thread::Step;

/// A slice is over when this share of it is: ticks do not hit its end exactly.
const SLICE_SHARE: f64 = 0.9;
/// A busy CPU looks for threads to take over this often, times the number of CPUs, nanoseconds:
/// Linux's `sd_weight` milliseconds, times the domain's `busy_factor` of 16.
const BUSY_BALANCE_NS: f64 = 16e6;

impl Sim<'_> {
    /// Puts a thread onto a CPU that has none; it goes on after `delay`.
    fn dispatch(&mut self, tid: Tid, cpu: usize, delay: Ps) {
        let at = self.now + delay;
        let thread = &mut self.threads[tid as usize];
        thread.account(thread.queued_class(), at);
        thread.place = Place::Running;
        thread.cpu = cpu as u32;
        thread.on_cpu_since = at;
        let end = at.saturating_add(thread.rest);
        thread.rest = 0;
        let cpu_state = &mut self.cpus[cpu];
        cpu_state.current = Some(tid);
        cpu_state.slice_began = self.now;
        cpu_state.needs_switch = false;
        self.events.set_cpu(cpu, end);
    }

    /// Accounts for the CPU time of a thread that runs, until now.
    fn charge_cpu(&mut self, tid: Tid) {
        let thread = &mut self.threads[tid as usize];
        let ran = self.now.saturating_sub(thread.on_cpu_since);
        thread.on_cpu_since = thread.on_cpu_since.max(self.now);
        thread.cpu_time += ran;
        thread.vruntime += ran;
        self.max_vruntime = self.max_vruntime.max(thread.vruntime);
    }

    /// Takes the current thread off its CPU. What becomes of it, and of the CPU, is the caller's.
    fn leave_cpu(&mut self, tid: Tid, place: Place) -> usize {
        self.charge_cpu(tid);
        let thread = &mut self.threads[tid as usize];
        thread.account(thread.class.index(), self.now);
        thread.place = place;
        let cpu = thread.cpu as usize;
        self.cpus[cpu].current = None;
        self.events.set_cpu(cpu, NEVER);
        cpu
    }

    /// So many threads are in run queues from now on.
    pub(super) fn set_queued(&mut self, queued: usize) {
        match (self.queued, queued) {
            (0, _) => self.queued_since = self.now,
            (_, 0) => self.queued_time += self.now - self.queued_since,
            _ => {}
        }
        self.queued = queued;
    }

    fn enqueue(&mut self, tid: Tid, cpu: usize) {
        self.limit_debt(tid, cpu);
        let thread = &mut self.threads[tid as usize];
        thread.place = Place::Queued;
        thread.cpu = cpu as u32;
        self.cpus[cpu].queue.push(tid);
        self.set_queued(self.queued + 1);
        self.enqueued += 1;
        if !self.is_ticking {
            self.is_ticking = true;
            for cpu in 0..self.cpus.len() {
                if !self.cpus[cpu].has_tick {
                    self.set_tick(cpu);
                }
            }
        }
    }

    /// CPUs tick at different times, as the kernel's skewed ticks do.
    fn set_tick(&mut self, cpu: usize) {
        let tick = self.costs.tick;
        let phase = tick * (cpu as Ps + 1) / (self.cpus.len() as Ps + 1);
        let passed = (self.now + tick - phase) / tick;
        self.cpus[cpu].has_tick = true;
        self.events
            .set_timer(passed * tick + phase, Timer::Tick(cpu as u32));
    }

    /// The thread of a CPU's queue that has run least, taken out.
    fn dequeue_first(&mut self, cpu: usize) -> Option<Tid> {
        let queue = &self.cpus[cpu].queue;
        let least = (0..queue.len()).min_by_key(|&i| self.threads[queue[i] as usize].vruntime)?;
        self.set_queued(self.queued - 1);
        Some(self.cpus[cpu].queue.remove(least))
    }

    /// The CPU has no thread: takes one of its queue, or of another CPU's, or stays idle.
    fn pick_next(&mut self, cpu: usize) {
        if let Some(next) = self.dequeue_first(cpu) {
            self.dispatch(next, cpu, self.costs.switch);
            return;
        }
        self.cpus[cpu].idle_since = self.now;
        if ns(self.cpus[cpu].average_idle) > self.rules.newidle_min_idle_ns {
            self.pull(cpu);
        }
    }

    /// An idle CPU takes the thread that has waited longest in another one's queue.
    fn pull(&mut self, cpu: usize) {
        let from = (0..self.cpus.len()).max_by_key(|&other| self.cpus[other].queue.len());
        let Some(from) = from.filter(|&from| !self.cpus[from].queue.is_empty()) else {
            return;
        };
        let tid = self.cpus[from].queue.remove(0);
        self.set_queued(self.queued - 1);
        self.dispatch(tid, cpu, self.costs.switch);
    }

    /// A busy CPU takes a thread of another one's queue now and then, if that one has two more.
    fn balance(&mut self, cpu: usize) {
        let interval = BUSY_BALANCE_NS * self.cpus.len() as f64;
        if ns(self.now - self.cpus[cpu].balanced) < interval {
            return;
        }
        self.cpus[cpu].balanced = self.now;
        let from = (0..self.cpus.len()).max_by_key(|&other| self.cpus[other].queue.len());
        let most = from.map_or(0, |from| self.cpus[from].queue.len());
        let Some(from) = from.filter(|_| most >= self.cpus[cpu].queue.len() + 2) else {
            return;
        };
        let tid = self.cpus[from].queue.remove(0);
        self.set_queued(self.queued - 1);
        self.enqueue(tid, cpu);
    }

    /// The scheduler's tick: ends slices, and balances towards idle CPUs.
    pub(super) fn tick(&mut self, cpu: usize) {
        if self.queued == 0 {
            // Nobody to give a CPU to: the ticks stop, each when its timer expires.
            self.is_ticking = false;
            self.cpus[cpu].has_tick = false;
            return;
        }
        self.set_tick(cpu);
        match self.cpus[cpu].current {
            None => self.pull(cpu),
            Some(tid) => {
                self.balance(cpu);
                let ran = self.now - self.cpus[cpu].slice_began;
                if ns(ran) < SLICE_SHARE * ns(self.costs.slice) {
                    return;
                }
                self.charge_cpu(tid);
                let vruntime = self.threads[tid as usize].vruntime;
                let queue = &self.cpus[cpu].queue;
                let is_due = |other: &Tid| self.threads[*other as usize].vruntime < vruntime;
                if queue.iter().any(is_due) {
                    self.preempt(cpu);
                }
            }
        }
    }

    /// The current thread of a CPU goes back into its queue, another one runs.
    pub(super) fn preempt(&mut self, cpu: usize) {
        let Some(tid) = self.cpus[cpu].current else {
            return;
        };
        let is_spinning = self.is_spinning(tid);
        let thread = &mut self.threads[tid as usize];
        let end = self.events.cpu(cpu);
        thread.rest = match is_spinning {
            // It looks at the lock again as soon as it runs.
            true => self.costs.atomic,
            false => end.saturating_sub(self.now.max(thread.accounted)),
        };
        thread.involuntary += 1;
        let next = self.dequeue_first(cpu);
        self.leave_cpu(tid, Place::Queued);
        self.enqueue(tid, cpu);
        match next {
            Some(next) => self.dispatch(next, cpu, self.costs.switch),
            None => self.pick_next(cpu),
        }
    }

    /// The current thread blocks; its next step is due when it was woken and runs.
    pub(super) fn block(&mut self, tid: Tid, next: Step) -> Flow {
        let thread = &mut self.threads[tid as usize];
        thread.step = next;
        thread.voluntary += 1;
        let cpu = self.leave_cpu(tid, Place::Blocked);
        self.pick_next(cpu);
        Flow::Off
    }

    /// The current thread ends.
    pub(super) fn end_thread(&mut self, tid: Tid) -> Flow {
        self.threads[tid as usize].end = self.now;
        self.live -= 1;
        let cpu = self.leave_cpu(tid, Place::Ended);
        self.pick_next(cpu);
        Flow::Off
    }

    /// The current thread leaves the kernel: a thread that it woke may preempt it here.
    pub(super) fn leave_kernel(&mut self, tid: Tid, next: Step) -> Flow {
        self.threads[tid as usize].step = next;
        let cpu = self.threads[tid as usize].cpu as usize;
        if !std::mem::take(&mut self.cpus[cpu].needs_switch) || self.cpus[cpu].queue.is_empty() {
            return Flow::Run(0);
        }
        self.events.set_cpu(cpu, self.now);
        self.preempt(cpu);
        Flow::Off
    }

    /// Wakes a blocked thread by a system call of a thread on CPU `waker`, which has been in that
    /// call for `elapsed`. Says what is left of the call for the waker.
    pub(super) fn wake(&mut self, tid: Tid, waker: usize, elapsed: Ps) -> Ps {
        self.futex_counts.wakes += 1;
        if self.threads[tid as usize].place != Place::Blocked {
            // Still on its way into sleep.
            self.threads[tid as usize].is_woken = true;
            return self.costs.wake_none;
        }
        let previous = self.threads[tid as usize].cpu as usize;
        if let Some(cpu) = self.idle_cpu(previous) {
            let idle = self.now - self.cpus[cpu].idle_since;
            self.note_idle(cpu, idle);
            let wake = sample_wake(self.machine, idle, &mut self.rng);
            let latency = wake.latency.saturating_sub(elapsed);
            self.limit_lag(tid, self.max_vruntime, self.costs.slice);
            self.dispatch(tid, cpu, latency);
            if wake.is_ipi {
                self.futex_counts.ipis += 1;
                return self.costs.wake_ipi;
            }
            return self.costs.wake_one;
        }
        let cpu = if self.rng.chance(self.rules.waker_cpu) {
            waker
        } else {
            previous
        };
        self.wake_busy(tid, cpu, waker);
        self.costs.wake_one
    }

    /// Queues a woken thread on a CPU that runs another one, and preempts that if the rules say so.
    fn wake_busy(&mut self, tid: Tid, cpu: usize, waker: usize) {
        if let Some(current) = self.cpus[cpu].current {
            self.charge_cpu(current);
            let vruntime = self.threads[current as usize].vruntime;
            self.limit_lag(tid, vruntime, self.costs.slice / 2);
        }
        self.enqueue(tid, cpu);
        if !self.rng.chance(self.rules.wakeup_preemption) {
            return;
        }
        if cpu == waker {
            self.cpus[cpu].needs_switch = true;
        } else {
            self.preempt(cpu);
        }
    }

    /// A thread that has slept gets no more than so much credit.
    fn limit_lag(&mut self, tid: Tid, reference: Ps, lag: Ps) {
        let thread = &mut self.threads[tid as usize];
        thread.vruntime = thread.vruntime.max(reference.saturating_sub(lag));
    }

    /// A thread that has run more than its share waits for that no longer than a slice: run times
    /// are compared within a queue, and threads of another one may have run for much less.
    fn limit_debt(&mut self, tid: Tid, cpu: usize) {
        let current = self.cpus[cpu].current;
        if let Some(current) = current {
            self.charge_cpu(current);
        }
        let queue = self.cpus[cpu].queue.iter().copied().chain(current);
        let least = queue
            .map(|other| self.threads[other as usize].vruntime)
            .min();
        if let Some(least) = least {
            let thread = &mut self.threads[tid as usize];
            thread.vruntime = thread.vruntime.min(least.saturating_add(self.costs.slice));
        }
    }

    fn note_idle(&mut self, cpu: usize, idle: Ps) {
        let average = &mut self.cpus[cpu].average_idle;
        *average = (*average / 8) * 7 + idle / 8;
    }

    /// The preferred CPU if it is idle, else any idle one.
    fn idle_cpu(&self, preferred: usize) -> Option<usize> {
        let count = self.cpus.len();
        (0..count)
            .map(|offset| (preferred + offset) % count)
            .find(|&cpu| self.cpus[cpu].current.is_none())
    }

    /// Starts a thread: on an idle CPU, else where the fewest wait. `creator` is the CPU of the
    /// thread that spawned it, if any: then an idle CPU has to be woken.
    pub(super) fn start_thread(&mut self, tid: Tid, creator: Option<usize>) {
        let thread = &mut self.threads[tid as usize];
        (thread.start, thread.accounted) = (self.now, self.now);
        thread.vruntime = self.max_vruntime;
        thread.step = Step::NextOp;
        let Some(cpu) = self.idle_cpu(0) else {
            let shortest = (0..self.cpus.len()).min_by_key(|&cpu| self.cpus[cpu].queue.len());
            self.enqueue(tid, shortest.unwrap_or(0));
            return;
        };
        let mut latency = 0;
        if creator.is_some() {
            let idle = self.now - self.cpus[cpu].idle_since;
            self.note_idle(cpu, idle);
            latency = sample_wake(self.machine, idle, &mut self.rng).latency;
        }
        self.dispatch(tid, cpu, latency);
    }

    /// The current thread sleeps for so long; its next step is due after that.
    pub(super) fn sleep(&mut self, tid: Tid, time: Ps) -> Flow {
        self.enter(tid, Class::Sleep);
        self.events
            .set_timer(self.now.saturating_add(time), Timer::Wake(tid));
        self.block(tid, Step::NextOp)
    }

    /// A sleep is over. The recorded one ended when the thread ran, so that only what waits for a
    /// CPU here is added.
    pub(super) fn end_sleep(&mut self, tid: Tid) {
        self.enter(tid, Class::Protocol);
        self.resume(tid);
    }

    /// Makes a blocked thread runnable, at nobody's expense.
    pub(super) fn resume(&mut self, tid: Tid) {
        let previous = self.threads[tid as usize].cpu as usize;
        self.limit_lag(tid, self.max_vruntime, self.costs.slice);
        match self.idle_cpu(previous) {
            Some(cpu) => self.dispatch(tid, cpu, 0),
            None => self.enqueue(tid, previous),
        }
    }
}
