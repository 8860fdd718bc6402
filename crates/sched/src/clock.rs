//! Time as all threads see it: how many are active, and what each active one's share of the time is.
//!
//! The CMetric of a period is the sum over its switching intervals of `dt / n` (GAPP, section 3.1). With the
//! *virtual time* `G(t)`, the integral of `dt / n`, that is `G(end) - G(start)` for every thread that is active
//! meanwhile: as in processor sharing, one addition per event serves all of them. Histograms by the number of
//! active threads are differences of cumulative ones in the same way.
//!
//! Virtual time is in fixed point, so that sums over threads and rows are exact: they differ from the time
//! with at least one active thread only by the division's remainder, under 2^-32 ns per event and thread.

use std::sync::Arc;

use convoy_profile::{bucket, ByThreads};

/// Buckets that are compared and copied together: a cache line of them.
const BLOCK: usize = 8;
/// Time by bucket, in blocks.
type Buckets = Vec<[u64; BLOCK]>;
/// Up to so many blocks a mark keeps a copy of all of them.
const FEW_BLOCKS: usize = 4;
/// Beyond that it keeps those that changed since the last snapshot, which is taken every so many steps.
const SNAPSHOT_STEPS: u64 = 512;
/// Bits after the point of virtual time.
const FRACTION: u32 = 32;

/// An amount of virtual time, in units of 2^-32 ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CMetric(u128);

impl CMetric {
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

impl std::ops::AddAssign for CMetric {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// Time by bucket as a mark found it: a snapshot and what had changed since. With thousands of threads, each of which has
/// marks, whole copies would be most of the memory.
#[derive(Debug, Default, Clone)]
struct Baseline {
    snapshot: Option<Arc<Buckets>>,
    since: Vec<(usize, [u64; BLOCK])>,
}

impl Baseline {
    /// The block with this number.
    fn block(&self, b: usize) -> [u64; BLOCK] {
        let since = self.since.iter().find(|(block, _)| *block == b);
        let before = || self.snapshot.as_ref()?.get(b);
        since
            .map(|(_, ns)| ns)
            .or_else(before)
            .copied()
            .unwrap_or_default()
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
    /// What marks need not copy; None = all zero.
    snapshot: Option<Arc<Buckets>>,
    /// The step of the snapshot.
    snapshot_step: u64,
    /// Virtual time: the integral of `dt / n` where `n` is not 0.
    shares: CMetric,
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
            self.shares += CMetric::of(dt_ns, self.n);
        }
        if step - self.snapshot_step >= SNAPSHOT_STEPS && self.ns.len() > FEW_BLOCKS {
            self.take_snapshot(step);
        }
    }

    #[cold]
    fn take_snapshot(&mut self, step: u64) {
        self.snapshot = Some(Arc::new(self.ns.clone()));
        self.snapshot_step = step;
    }

    /// As `advance`, of a number that nobody takes laps by.
    fn count(&mut self, dt_ns: u64) {
        self.ns[self.at / BLOCK][self.at % BLOCK] += dt_ns;
    }

    /// Brings `seen`, made at `step`, up to date, and adds the difference to `into`. A block that has not changed
    /// since is not looked at: the cost is that of the levels reached meanwhile, not of all.
    fn lap(&self, seen: &mut Baseline, step: u64, into: Option<&mut Reached>) {
        if let Some(into) = into {
            for (b, now) in self.changed_since(step) {
                let old = seen.block(b);
                let sums = into.block(b);
                for i in 0..BLOCK {
                    sums[i] += now[i] - old[i];
                }
            }
        }
        let snapshot = self.snapshot.as_ref();
        if seen.snapshot.as_ref().map(Arc::as_ptr) != snapshot.map(Arc::as_ptr) {
            seen.snapshot = snapshot.cloned();
        }
        // Not one more than needed: each thread has some.
        let changed = self.changed_since(self.snapshot_step);
        seen.since.clear();
        seen.since.reserve_exact(changed.clone().count());
        seen.since.extend(changed.map(|(b, ns)| (b, *ns)));
    }

    fn changed_since(&self, step: u64) -> impl Iterator<Item = (usize, &[u64; BLOCK])> + Clone {
        let blocks = self.ns.iter().zip(&self.changed).enumerate();
        blocks.filter_map(move |(b, (ns, &changed))| (changed > step).then_some((b, ns)))
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
pub(crate) struct Snapshot {
    now_ns: u64,
    step: u64,
    active_share: CMetric,
    working_share: CMetric,
    active: Baseline,
    /// None = as `active`.
    working: Option<Baseline>,
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
pub(crate) struct Interval {
    pub from_ns: u64,
    pub ns: u64,
    pub cm: CMetric,
    /// None for a thread that did not work.
    pub cm_working: CMetric,
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
    pub fn lap(
        &self,
        mark: &mut Snapshot,
        mut into: Option<&mut Spread>,
        working: bool,
    ) -> Interval {
        let level = self.working.as_ref();
        let working_share = level.unwrap_or(&self.active).shares;
        let lap = Interval {
            from_ns: mark.now_ns,
            ns: self.now_ns.saturating_sub(mark.now_ns),
            cm: self.active.shares.since(mark.active_share),
            cm_working: if working {
                working_share.since(mark.working_share)
            } else {
                CMetric::default()
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

#[cfg(test)]
mod tests {
    use super::{bucket, flat, Change, Clock, Snapshot, Spread, FEW_BLOCKS, SNAPSHOT_STEPS};

    /// Marks that are many snapshots old, or none, add what whole copies would.
    #[test]
    fn laps_over_many_levels_are_differences_of_the_whole() {
        let mut clock = Clock::new();
        let mut random = 1u64;
        let mut next = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize
        };
        let mut marks: Vec<(Snapshot, Vec<u64>)> = (0..20).map(|_| Default::default()).collect();
        let (mut now_ns, mut n, mut all) = (0, 0usize, vec![0u64; 200]);
        for _ in 0..20 * SNAPSHOT_STEPS {
            let dt = next() as u64 % 100;
            now_ns += dt;
            clock.advance(now_ns);
            all[bucket(n)] += dt;
            let active = (next() % 101) as isize - if n > 2000 { 80 } else { 50 };
            let active = active.max(-(n as isize));
            n = n.saturating_add_signed(active);
            clock.change(Change {
                active,
                working: active,
                running: 0,
            });
            // Each is looked at every 400 steps or so: before and after snapshots.
            if let Some((mark, before)) = marks.get_mut(next() % 400) {
                let mut spread = Spread::default();
                clock.lap(mark, Some(&mut spread), true);
                let mut passed = spread.finish()[0].iter().copied().collect::<Vec<_>>();
                passed.resize(all.len(), 0);
                before.resize(all.len(), 0);
                let expected: Vec<u64> = all.iter().zip(&*before).map(|(a, b)| a - b).collect();
                assert_eq!(passed, expected);
                *before = all.clone();
            }
        }
        assert!(clock.active.ns.len() > FEW_BLOCKS && clock.active.snapshot.is_some());
        let whole = flat(clock.active.ns.clone());
        assert_eq!(whole, all[..whole.len()]);
    }
}
