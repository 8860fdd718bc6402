//! Random schedules, the same for the same seed.

use convoy_profile::{OffReason, SchedSource};
use convoy_sched::{Event, Out, State, WakerIs};

use crate::tell::{at, by, exit, fork, init, run, sample, wake};

/// Xorshift.
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Now {
    Nothing,
    New,
    Off,
    Ready,
    Running,
}

/// A schedule that could have been: threads of process 1, with ids that are reused.
pub fn schedule(seed: u64, threads: usize, events: usize, source: SchedSource) -> Vec<Event> {
    draw(seed, threads, events, source, true)
}

/// The same with threads that stay.
pub fn steady(seed: u64, threads: usize, events: usize, source: SchedSource) -> Vec<Event> {
    draw(seed, threads, events, source, false)
}

fn draw(seed: u64, threads: usize, events: usize, source: SchedSource, mortal: bool) -> Vec<Event> {
    let mut d = Draw::new(seed);
    let mut all = Vec::new();
    let mut now = vec![Now::Nothing; threads];
    let mut ts = 1_000_000 * d.below(5);
    for (i, state) in now.iter_mut().enumerate().take(threads / 2 + 1) {
        let (next, what) = match d.below(3) {
            0 => (Now::Running, State::Running),
            1 => (Now::Ready, State::Ready),
            _ => (Now::Off, State::Blocked(at(9, OffReason::Unknown))),
        };
        *state = next;
        all.push(init(ts, i as u32 + 1, what));
    }
    while all.len() < events {
        ts += match d.below(20) {
            0..=3 => 0,
            4 => d.below(3_000_000),
            _ => d.below(1_000),
        };
        let i = d.below(threads as u64) as usize;
        let tid = i as u32 + 1;
        let stack = 1 + d.below(3) as u32;
        let (next, event) = match now[i] {
            Now::Nothing if d.below(4) > 0 => continue,
            Now::Nothing => (Now::New, fork(ts, tid, 1 + d.below(threads as u64) as u32)),
            Now::New | Now::Off if source == SchedSource::Perf => (Now::Running, run(ts, tid)),
            Now::New => (Now::Ready, wake(ts, tid, WakerIs::Unknown)),
            Now::Off => {
                let waker = match d.below(8) {
                    0 => WakerIs::Interrupt,
                    1 => WakerIs::Unknown,
                    2 => by(999, 0),
                    _ => by(1 + d.below(threads as u64) as u32, stack),
                };
                (Now::Ready, wake(ts, tid, waker))
            }
            Now::Ready => (Now::Running, run(ts, tid)),
            Now::Running => match d.below(100) {
                // The main thread stays, and so does the process.
                0 if mortal && i > 0 => (Now::Nothing, exit(ts, tid)),
                0..=20 => {
                    let how = Out::Preempted(at(stack, OffReason::Preempted));
                    (Now::Ready, Event::Out { ts, tid, how })
                }
                21..=50 => {
                    let reason = [OffReason::Futex, OffReason::Pipe][d.below(2) as usize];
                    let how = Out::Blocked(at(stack, reason));
                    (Now::Off, Event::Out { ts, tid, how })
                }
                n => {
                    let spin = (n > 85).then_some(stack);
                    (Now::Running, sample(ts, tid, stack, spin))
                }
            },
        };
        now[i] = next;
        all.push(event);
    }
    all
}
