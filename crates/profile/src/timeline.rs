//! What every thread did when: the scheduler's events as intervals, few enough to keep.
//!
//! The recorder keeps all intervals of a run as long as there are few of them. When there are too many, those
//! shorter than a growing limit are joined with their neighbours: what is left covers the whole run, and an interval
//! that stands for several says how its time was divided ([`Mix`]).

use serde::{Deserialize, Serialize};

use crate::{OffIx, Profile, ThreadRef};

/// Index into [`crate::Sched::slices`].
pub type SliceIx = u32;
/// Index into [`crate::Sched::wakes`].
pub type WakeIx = u32;

/// What every thread did when. All indices lead into the tables of the [`crate::Sched`] that holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Intervals that were to be kept at most.
    pub limit: u64,
    /// Intervals shorter than this were joined with their neighbours, nanoseconds. 0 = all are as they were.
    pub merged_below_ns: u64,
    /// Threads that have no lane, because there were more threads than intervals to be kept.
    pub threads_left_out: u64,
    /// One per life of a thread: an exec begins another one.
    pub lanes: Vec<Lane>,
}

/// The life of a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Whose.
    pub thread: ThreadRef,
    /// In order of time. As recorded each begins where the one before it ends; in a file that was damaged there may
    /// be gaps.
    pub intervals: Vec<Interval>,
}

/// A time in which a thread did one thing, or, if `mix` is there, mainly one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Begin, monotonic.
    pub start_ns: u64,
    /// End, not before `start_ns`.
    pub end_ns: u64,
    /// What it did. Of several things: what it did longest, and of these the longest one.
    pub doing: Doing,
    /// Of a wait: the row that says who ended it, and where that one was. `None`: it went on to the end.
    pub wake: Option<WakeIx>,
    /// The interval stands for several: how its time was divided.
    pub mix: Option<Mix>,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doing {
    /// On a processor, in the code of this row. From one sample to the next it is the code of the latter.
    Running(Option<SliceIx>),
    /// On a processor, in a loop that waits.
    Spinning(Option<SliceIx>),
    /// Woken, and waits for a processor.
    Woken,
    /// Taken off a processor while it could have gone on.
    Preempted(Option<OffIx>),
    /// Off the processors, for this reason and at this place. `None`: that row is lost.
    Waiting(Option<OffIx>),
}

impl Default for Doing {
    fn default() -> Self {
        Self::Running(None)
    }
}

/// Shares of an interval's time, in units of 1 / [`Mix::WHOLE`]. What is missing to the whole was spent waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// On a processor, working.
    pub running: u16,
    /// On a processor, in a loop that waits.
    pub spinning: u16,
    /// Without a processor, but able to run: woken or preempted.
    pub ready: u16,
}

/// Nanoseconds by what was done in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// On a processor, working.
    pub running_ns: u64,
    /// On a processor, in a loop that waits.
    pub spinning_ns: u64,
    /// Without a processor, but able to run.
    pub ready_ns: u64,
    /// Off the processors.
    pub waiting_ns: u64,
}

impl Mix {
    /// All of the time.
    pub const WHOLE: u16 = u16::MAX;

    /// The shares of these times.
    pub fn of(times: &Times) -> Self {
        let all = u128::from(times.all_ns().max(1));
        // Rounded up to the sums before it, so that together they never are more than the whole.
        let upto = |ns: u64| (u128::from(ns) * u128::from(Self::WHOLE) / all) as u16;
        let running = upto(times.running_ns);
        let on_processor = upto(times.running_ns.saturating_add(times.spinning_ns));
        // Sums that are beyond any clock may not add up.
        let active = upto(times.all_ns().saturating_sub(times.waiting_ns)).max(on_processor);
        Self {
            running,
            spinning: on_processor - running,
            ready: active - on_processor,
        }
    }

    /// Together not more than the whole.
    pub(crate) fn is_sound(&self) -> bool {
        let [a, b, c] = [self.running, self.spinning, self.ready].map(u32::from);
        a + b + c <= u32::from(Self::WHOLE)
    }

    /// These shares of that time. Their sum is that time.
    pub fn times(&self, ns: u64) -> Times {
        let upto = |shares: u32| {
            (u128::from(ns) * u128::from(shares) / u128::from(Self::WHOLE)).min(u128::from(ns))
                as u64
        };
        let [running, spinning, ready] = [self.running, self.spinning, self.ready].map(u32::from);
        let on_processor = upto(running + spinning);
        let active = upto(running + spinning + ready);
        Times {
            running_ns: upto(running),
            spinning_ns: on_processor - upto(running),
            ready_ns: active - on_processor,
            waiting_ns: ns - active,
        }
    }
}

impl Times {
    /// Their sum.
    pub fn all_ns(&self) -> u64 {
        [self.spinning_ns, self.ready_ns, self.waiting_ns]
            .iter()
            .fold(self.running_ns, |sum, &ns| sum.saturating_add(ns))
    }
}

impl std::ops::AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
        self.spinning_ns = self.spinning_ns.saturating_add(other.spinning_ns);
        self.ready_ns = self.ready_ns.saturating_add(other.ready_ns);
        self.waiting_ns = self.waiting_ns.saturating_add(other.waiting_ns);
    }
}

impl Interval {
    /// Its length.
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// How its time was spent.
    pub fn times(&self) -> Times {
        let ns = self.ns();
        if let Some(mix) = &self.mix {
            return mix.times(ns);
        }
        let mut times = Times::default();
        match self.doing {
            Doing::Running(_) => times.running_ns = ns,
            Doing::Spinning(_) => times.spinning_ns = ns,
            Doing::Woken | Doing::Preempted(_) => times.ready_ns = ns,
            Doing::Waiting(_) => times.waiting_ns = ns,
        }
        times
    }
}

impl Profile {
    /// What every thread did when, if scheduler events were recorded and a timeline was asked for.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.sched.as_ref()?.timeline.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::{Mix, Times};

    #[test]
    fn shares_add_up() {
        for (running_ns, spinning_ns, ready_ns, waiting_ns) in [
            (1, 0, 0, 0),
            (1, 1, 1, 1),
            (u64::MAX / 2, 1, 0, u64::MAX / 2),
            (0, 0, 0, 0),
            (7, 1_000_000, 13, 3),
            (u64::MAX, u64::MAX, u64::MAX, u64::MAX),
        ] {
            let times = Times {
                running_ns,
                spinning_ns,
                ready_ns,
                waiting_ns,
            };
            let mix = Mix::of(&times);
            assert!(mix.is_sound(), "{mix:?}");
            for ns in [0, 1, 1000, u64::MAX] {
                assert_eq!(mix.times(ns).all_ns(), ns);
            }
        }
        let half = Mix::of(&Times {
            running_ns: 500_000,
            waiting_ns: 500_000,
            ..Times::default()
        });
        assert!(half.times(1_000_000).running_ns.abs_diff(500_000) < 20);
    }
}
