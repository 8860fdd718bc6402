//! A small discrete-event simulator of threads, CPUs and futex locks: the truth that predictions are
//! tested against. It knows what the prediction does not: parking and wake-up costs, barging,
//! time slices, cache line transfers.

pub mod model;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a thread does in one turn of its loop, in order. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    Compute(f64),
    /// A system call that has nothing to do with locks.
    Kernel(f64),
    Sleep(f64),
    Lock(usize),
    Unlock(usize),
}

/// Threads that run the same loop.
#[derive(Debug, Clone)]
pub struct Kind {
    pub threads: usize,
    pub turn: Vec<Step>,
}

#[derive(Debug, Clone)]
pub struct Program {
    pub cpus: usize,
    pub locks: usize,
    /// Locks that are split into one per thread.
    pub split: Vec<usize>,
    pub kinds: Vec<Kind>,
    /// Compute and sleep times vary by this factor at most around their mean (uniformly).
    pub jitter: f64,
    /// Parking, waking and switching cost this many times the usual.
    pub park_scale: f64,
    pub seed: u64,
}

/// What was counted of one thread at one lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Use {
    pub calls: u64,
    pub waits: u64,
    pub wait: f64,
    pub wait_max: f64,
    pub hold_contended: (u64, f64),
    pub hold_other: (u64, f64),
    pub acquire: (u64, f64),
}

#[derive(Debug, Clone, Default)]
pub struct Counted {
    pub kind: usize,
    pub turns: u64,
    pub cpu: f64,
    pub sys: f64,
    pub run_delay: f64,
    pub switches: u64,
    pub uses: Vec<Use>,
}

#[derive(Debug)]
pub struct Run {
    pub length: f64,
    pub threads: Vec<Counted>,
}

impl Run {
    /// Turns of the loops a second: what the program is there for.
    pub fn throughput(&self) -> f64 {
        self.threads.iter().map(|t| t.turns as f64).sum::<f64>() / self.length * 1e9
    }
}

const SLICE: f64 = 3_000_000.0;
const SWITCH: f64 = 1200.0;
const PARK: f64 = 1500.0;
const WAKE: f64 = 1500.0;
const WAKE_LATENCY: f64 = 3000.0;
const ACQUIRE: f64 = 10.0;
const TRANSFER: f64 = 60.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// Go on with the next step.
    Next,
    /// Try to take the lock (first time or after a wake-up).
    Try(usize),
    /// Sleep on the lock, unless it is free by now.
    Park(usize),
}

#[derive(Debug, Clone)]
struct Thread {
    kind: usize,
    step: usize,
    /// CPU time left before `then`.
    left: f64,
    in_kernel: bool,
    then: Then,
    ready_since: f64,
    wait_since: Option<f64>,
    hold_since: Vec<(f64, bool)>,
}

#[derive(Debug, Clone, Default)]
struct Lock {
    holder: Option<usize>,
    last: Option<usize>,
    waiters: VecDeque<usize>,
}

pub struct Sim<'a> {
    program: &'a Program,
    now: f64,
    random: u64,
    threads: Vec<Thread>,
    counted: Vec<Counted>,
    locks: Vec<Lock>,
    ready: VecDeque<usize>,
    /// Per CPU: thread, when its stretch began, when it will end, generation.
    running: Vec<Option<(usize, f64, u64)>>,
    generation: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    StretchEnds { cpu: usize, generation: u64 },
    WakesUp { thread: usize },
}

impl<'a> Sim<'a> {
    pub fn run(program: &'a Program, turns: u64) -> Run {
        let kinds: Vec<usize> = program
            .kinds
            .iter()
            .enumerate()
            .flat_map(|(k, kind)| vec![k; kind.threads])
            .collect();
        let n = kinds.len();
        let mut sim = Sim {
            program,
            now: 0.0,
            random: program.seed | 1,
            threads: kinds
                .iter()
                .map(|k| Thread {
                    kind: *k,
                    step: 0,
                    left: 0.0,
                    in_kernel: false,
                    then: Then::Next,
                    ready_since: 0.0,
                    wait_since: None,
                    hold_since: vec![(0.0, false); program.locks],
                })
                .collect(),
            counted: kinds
                .iter()
                .map(|k| Counted {
                    kind: *k,
                    uses: vec![Use::default(); program.locks],
                    ..Default::default()
                })
                .collect(),
            locks: vec![Lock::default(); program.locks * (n + 1)],
            ready: VecDeque::new(),
            running: vec![None; program.cpus],
            generation: 0,
            events: BinaryHeap::new(),
            sequence: 0,
        };
        for (i, kind) in kinds.iter().enumerate() {
            sim.begin(i, program.kinds[*kind].turn[0]);
        }
        sim.dispatch();
        let mut done = 0;
        while done < turns {
            let Some(Reverse((at, _, event))) = sim.events.pop() else {
                break;
            };
            sim.now = at as f64;
            match event {
                Event::WakesUp { thread } => sim.make_ready(thread),
                Event::StretchEnds { cpu, generation } => done += sim.stretch_ends(cpu, generation),
            }
            sim.dispatch();
        }
        sim.finish()
    }

    fn finish(mut self) -> Run {
        for i in 0..self.threads.len() {
            if let (Some(since), Then::Try(l) | Then::Park(l)) =
                (self.threads[i].wait_since, self.threads[i].then)
            {
                self.counted[i].uses[l].wait += self.now - since;
                self.counted[i].uses[l].waits += 1;
            }
        }
        Run {
            length: self.now,
            threads: self.counted,
        }
    }

    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn varied(&mut self, mean: f64) -> f64 {
        mean * (1.0 + self.program.jitter * (2.0 * self.uniform() - 1.0))
    }

    fn at(&mut self, time: f64, event: Event) {
        self.sequence += 1;
        self.events
            .push(Reverse((time.ceil() as u64, self.sequence, event)));
    }

    /// The lock that a thread means: its own copy if that lock is split.
    fn real(&self, thread: usize, lock: usize) -> usize {
        if self.program.split.contains(&lock) {
            self.program.locks * (thread + 1) + lock
        } else {
            lock
        }
    }

    fn make_ready(&mut self, i: usize) {
        self.threads[i].ready_since = self.now;
        self.ready.push_back(i);
    }

    /// Starts a step of a thread that is on no CPU yet or keeps the one it has.
    fn begin(&mut self, i: usize, step: Step) {
        let (left, then) = match step {
            Step::Compute(ns) | Step::Kernel(ns) => (self.varied(ns), Then::Next),
            Step::Sleep(ns) => {
                let wake = self.now + self.varied(ns);
                self.threads[i].then = Then::Next;
                self.threads[i].left = SWITCH * self.program.park_scale;
                self.threads[i].in_kernel = true;
                self.at(wake, Event::WakesUp { thread: i });
                return;
            }
            Step::Lock(l) => {
                let real = self.real(i, l);
                let far = self.locks[real].last.is_some_and(|t| t != i);
                let cost = ACQUIRE + if far { TRANSFER } else { 0.0 };
                let u = &mut self.counted[i].uses[l].acquire;
                *u = (u.0 + 1, u.1 + cost);
                (cost, Then::Try(l))
            }
            Step::Unlock(l) => (self.unlock(i, l), Then::Next),
        };
        let t = &mut self.threads[i];
        (t.left, t.then, t.in_kernel) = (left, then, matches!(step, Step::Kernel(_)));
        if !self.running.iter().flatten().any(|(t, _, _)| *t == i) && !self.ready.contains(&i) {
            self.make_ready(i);
        }
    }

    fn unlock(&mut self, i: usize, l: usize) -> f64 {
        let real = self.real(i, l);
        let (since, contended) = self.threads[i].hold_since[l];
        let u = &mut self.counted[i].uses[l];
        let hold = if contended {
            &mut u.hold_contended
        } else {
            &mut u.hold_other
        };
        *hold = (hold.0 + 1, hold.1 + self.now - since);
        let lock = &mut self.locks[real];
        lock.holder = None;
        match lock.waiters.pop_front() {
            Some(w) => {
                self.threads[w].then = Then::Try(l);
                self.threads[w].left = SWITCH * self.program.park_scale;
                self.threads[w].in_kernel = true;
                let at = self.now + WAKE_LATENCY * self.program.park_scale;
                self.at(at, Event::WakesUp { thread: w });
                let wake = WAKE * self.program.park_scale;
                self.counted[i].sys += wake;
                ACQUIRE + wake
            }
            None => ACQUIRE,
        }
    }

    /// Gives free CPUs to ready threads.
    fn dispatch(&mut self) {
        for cpu in 0..self.running.len() {
            if self.running[cpu].is_none() {
                let Some(i) = self.ready.pop_front() else {
                    return;
                };
                self.counted[i].run_delay += self.now - self.threads[i].ready_since;
                self.stretch(cpu, i);
            }
        }
    }

    fn stretch(&mut self, cpu: usize, i: usize) {
        self.generation += 1;
        self.running[cpu] = Some((i, self.now, self.generation));
        let ns = self.threads[i].left.min(SLICE);
        let generation = self.generation;
        self.at(self.now + ns, Event::StretchEnds { cpu, generation });
    }

    /// Accounts for a stretch on a CPU and goes on with the thread. Returns turns completed.
    fn stretch_ends(&mut self, cpu: usize, generation: u64) -> u64 {
        let Some((i, since, current)) = self.running[cpu] else {
            return 0;
        };
        if current != generation {
            return 0;
        }
        let ran = self.now - since;
        self.counted[i].cpu += ran;
        if self.threads[i].in_kernel {
            self.counted[i].sys += ran;
        }
        self.threads[i].left = (self.threads[i].left - ran).max(0.0);
        self.running[cpu] = None;
        if self.threads[i].left > 0.5 {
            self.make_ready(i);
            return 0;
        }
        let turns = self.go_on(cpu, i);
        // A thread that keeps computing keeps its CPU unless its slice is used up; a coarse model of
        // it: it goes to the back of the queue with the chance of the slice ending here.
        if let Some((t, _, _)) = self.running[cpu] {
            let chance = ran / SLICE;
            if !self.ready.is_empty() && self.uniform() < chance {
                self.running[cpu] = None;
                self.make_ready(t);
            }
        }
        turns
    }

    /// The CPU time of what the thread was at is spent: what is next? Keeps the CPU or blocks.
    fn go_on(&mut self, cpu: usize, i: usize) -> u64 {
        match self.threads[i].then {
            Then::Try(l) => {
                let real = self.real(i, l);
                if self.locks[real].holder.is_none() {
                    let contended = self.threads[i].wait_since.take();
                    if let Some(since) = contended {
                        let u = &mut self.counted[i].uses[l];
                        let wait = self.now - since;
                        (u.waits, u.wait, u.wait_max) =
                            (u.waits + 1, u.wait + wait, u.wait_max.max(wait));
                    }
                    self.locks[real].holder = Some(i);
                    self.locks[real].last = Some(i);
                    self.counted[i].uses[l].calls += 1;
                    self.threads[i].hold_since[l] = (self.now, contended.is_some());
                    return self.next_step(cpu, i);
                }
                let park = PARK * self.program.park_scale;
                let t = &mut self.threads[i];
                t.wait_since.get_or_insert(self.now);
                (t.left, t.then, t.in_kernel) = (park, Then::Park(l), true);
                self.stretch(cpu, i);
                0
            }
            Then::Park(l) => {
                let real = self.real(i, l);
                if self.locks[real].holder.is_none() {
                    self.threads[i].then = Then::Try(l);
                    return self.go_on(cpu, i);
                }
                self.counted[i].switches += 1;
                self.locks[real].waiters.push_back(i);
                0
            }
            Then::Next => self.next_step(cpu, i),
        }
    }

    fn next_step(&mut self, cpu: usize, i: usize) -> u64 {
        let turn = &self.program.kinds[self.threads[i].kind].turn;
        self.threads[i].step += 1;
        let mut turns = 0;
        if self.threads[i].step == turn.len() {
            self.threads[i].step = 0;
            self.counted[i].turns += 1;
            turns = 1;
        }
        let step = turn[self.threads[i].step];
        if matches!(step, Step::Sleep(_)) {
            self.counted[i].switches += 1;
            self.begin(i, step);
        } else {
            self.running[cpu] = Some((i, self.now, 0));
            self.begin(i, step);
            self.stretch(cpu, i);
        }
        turns
    }
}
