//! Time as all threads see it: how many are active, and what each active one's share of the time is.
//!
//! The CMetric of a period is the sum over its switching intervals of `dt / n` (GAPP, section 3.1). With the
//! *virtual time* `G(t)`, the integral of `dt / n`, that is `G(end) - G(start)` for every thread that is active
//! meanwhile: as in processor sharing, one addition per event serves all of them. Histograms by the number of
//! active threads are differences of cumulative ones in the same way.
//!
//! Virtual time is in fixed point, so that sums over threads and rows are exact: they differ from the time
//! with at least one active thread only by the division's remainder, under 2^-32 ns per event and thread.

use convoy_profile::{bucket, ByThreads};

/// Buckets that are compared and copied together: a cache line of them.
const BLOCK: usize = 8;
/// Time by bucket, in blocks.
type Buckets = Vec<[u64; BLOCK]>;
/// Bits after the point of virtual time.
const FRACTION: u32 = 32;

/// An amount of virtual time, in units of 2^-32 ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share(u128);

impl Share {
    /// `dt_ns / n`.
    fn of(dt_ns: u64, n: usize) -> Self {
        let n = n.max(1) as u64;
        // Nearly every interval is short enough for the processor's own division.
        Self(if dt_ns < 1 << FRACTION {
            u128::from((dt_ns << FRACTION) / n)
        } else {
            (u128::from(dt_ns) << FRACTION) / u128::from(n)
        })
    }

    pub fn ns(self) -> f64 {
        self.0 as f64 / (1u64 << FRACTION) as f64
    }

    fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// A number of threads over time.
#[derive(Debug, Default, Clone)]
struct Level {
    n: usize,
    /// The bucket of `n`.
    at: usize,
    /// Time spent in each bucket so far.
    ns: Buckets,
    /// By block: the last step that changed it.
    changed: Vec<u64>,
    /// Virtual time: the integral of `dt / n` where `n` is not 0.
    shares: Share,
}

impl Level {
    fn new() -> Self {
        let mut level = Self::default();
        level.set(0);
        level
    }

    fn set(&mut self, n: usize) {
        self.n = n;
        self.at = bucket(n);
        let blocks = self.at / BLOCK + 1;
        if self.changed.len() < blocks {
            self.changed.resize(blocks, 0);
            self.ns.resize(blocks, [0; BLOCK]);
        }
    }

    fn change(&mut self, by: isize) {
        if by != 0 {
            self.set(self.n.saturating_add_signed(by));
        }
    }

    fn advance(&mut self, dt_ns: u64, step: u64) {
        self.count(dt_ns);
        self.changed[self.at / BLOCK] = step;
        if self.n > 0 {
            self.shares += Share::of(dt_ns, self.n);
        }
    }

    /// As `advance`, of a number that nobody takes laps by.
    fn count(&mut self, dt_ns: u64) {
        self.ns[self.at / BLOCK][self.at % BLOCK] += dt_ns;
    }

    /// Brings `copy`, made at step `seen`, up to date, and adds the difference to `into`. A block that has
    /// not changed since is not looked at: the cost is that of the levels reached meanwhile, not of all.
    fn lap(&self, copy: &mut Buckets, seen: u64, mut into: Option<&mut Reached>) {
        lengthen(copy, self.ns.len());
        let blocks = self.ns.iter().zip(copy.iter_mut()).zip(&self.changed);
        for (b, ((now, old), &changed)) in blocks.enumerate() {
            if changed <= seen {
                continue;
            }
            if let Some(into) = into.as_deref_mut() {
                let sums = into.block(b);
                for i in 0..BLOCK {
                    sums[i] += now[i] - old[i];
                }
            }
            *old = *now;
        }
    }
}

/// Time by bucket, without the blocks that were never reached: there may be a hundred thousand rows, of which each knows few
/// of the heights that the number of threads has been at.
#[derive(Debug, Default, Clone)]
struct Reached(Vec<(usize, [u64; BLOCK])>);

impl Reached {
    /// The block with this number.
    fn block(&mut self, b: usize) -> &mut [u64; BLOCK] {
        let at = self.0.iter().position(|(block, _)| *block >= b);
        let at = at.unwrap_or(self.0.len());
        if self.0.get(at).is_none_or(|(block, _)| *block != b) {
            self.0.reserve_exact(1);
            self.0.insert(at, (b, [0; BLOCK]));
        }
        &mut self.0[at].1
    }

    fn flat(&self) -> ByThreads {
        let mut all = Buckets::new();
        for (b, sums) in &self.0 {
            all.resize(*b, [0; BLOCK]);
            all.push(*sums);
        }
        flat(all).into()
    }
}

/// At least so many blocks. Not one more: each thread has some, and they grow only where the number of active threads
/// reaches a new height.
fn lengthen(buckets: &mut Buckets, blocks: usize) {
    if let Some(missing) = blocks.checked_sub(buckets.len()).filter(|n| *n > 0) {
        buckets.reserve_exact(missing);
        buckets.resize(blocks, [0; BLOCK]);
    }
}

/// Time and the numbers of threads.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ns: u64,
    /// Steps in time so far.
    step: u64,
    active: Level,
    /// None until a thread waits in a loop for the first time: up to then it is `active`. Most programs never
    /// do that, and need not pay for it.
    working: Option<Level>,
    running: Level,
}

/// The state of the clock when somebody looked last.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    now_ns: u64,
    step: u64,
    active_share: Share,
    working_share: Share,
    active: Buckets,
    /// None = as `active`.
    working: Option<Buckets>,
}

/// Time by the number of active and of working threads.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    active: Reached,
    /// None = as `active`.
    working: Option<Reached>,
}

impl Spread {
    /// By active and by working threads.
    pub fn finish(self) -> [ByThreads; 2] {
        let active = self.active.flat();
        let working = self.working.map(|working| working.flat());
        [active.clone(), working.unwrap_or(active)]
    }
}

/// What passed between two looks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lap {
    pub from_ns: u64,
    pub ns: u64,
    pub cm: Share,
    /// None for a thread that did not work.
    pub cm_working: Share,
}

/// By how much the numbers of threads change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    pub active: isize,
    pub working: isize,
    pub running: isize,
}

impl Clock {
    pub fn new() -> Self {
        Self {
            now_ns: 0,
            step: 0,
            active: Level::new(),
            working: None,
            running: Level::new(),
        }
    }

    /// The time at which all begins.
    pub fn start(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Threads active, working and running.
    pub fn numbers(&self) -> [usize; 3] {
        let working = self.working.as_ref().unwrap_or(&self.active).n;
        [self.active.n, working, self.running.n]
    }

    /// Goes on to `ts`, with the numbers as they are; the time that passed. An earlier `ts` changes nothing.
    pub fn advance(&mut self, ts: u64) -> u64 {
        let dt = ts.saturating_sub(self.now_ns);
        if dt > 0 {
            self.now_ns = ts;
            self.step += 1;
            self.active.advance(dt, self.step);
            if let Some(working) = &mut self.working {
                working.advance(dt, self.step);
            }
            self.running.count(dt);
        }
        dt
    }

    pub fn change(&mut self, by: Change) {
        if self.working.is_none() && by.working != by.active {
            self.working = Some(self.active.clone());
        }
        self.active.change(by.active);
        if let Some(working) = &mut self.working {
            working.change(by.working);
        }
        self.running.change(by.running);
    }

    /// What passed since `mark`, which is set to now. Added to `into`; by working threads only if `working`.
    pub fn lap(&self, mark: &mut Mark, mut into: Option<&mut Spread>, working: bool) -> Lap {
        let level = self.working.as_ref();
        let working_share = level.unwrap_or(&self.active).shares;
        let lap = Lap {
            from_ns: mark.now_ns,
            ns: self.now_ns.saturating_sub(mark.now_ns),
            cm: self.active.shares.since(mark.active_share),
            cm_working: if working {
                working_share.since(mark.working_share)
            } else {
                Share::default()
            },
        };
        if let Some(level) = level {
            // What has no histogram of its own dates from when both were the same.
            let copy = mark.working.get_or_insert_with(|| mark.active.clone());
            let sums = into.as_deref_mut().map(|s| {
                let active = &s.active;
                s.working.get_or_insert_with(|| active.clone())
            });
            level.lap(copy, mark.step, sums.filter(|_| working));
        }
        let sums = into.map(|s| &mut s.active);
        self.active.lap(&mut mark.active, mark.step, sums);
        mark.now_ns = self.now_ns;
        mark.step = self.step;
        mark.active_share = self.active.shares;
        mark.working_share = working_share;
        lap
    }

    /// Time by the number of active, working and running threads.
    pub fn histograms(self) -> [Vec<u64>; 3] {
        let working = self.working.unwrap_or_else(|| self.active.clone());
        [self.active.ns, working.ns, self.running.ns].map(flat)
    }
}

fn flat(buckets: Buckets) -> Vec<u64> {
    // Without trailing zeroes.
    let mut hist = buckets.into_flattened();
    let used = hist.iter().rposition(|&n| n != 0).map_or(0, |i| i + 1);
    hist.truncate(used);
    hist.shrink_to_fit();
    hist
}
