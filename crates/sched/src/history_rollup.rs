//! What a thread did long ago: sums, the coarser the longer ago.

use convoy_profile::OffIx;

use crate::history::Doing;

/// Periods in the finest sum.
const FINEST: u32 = 16;
/// Sums of one size; of one more, the two oldest become one of twice the size. A sum then has never more than about a third
/// of the periods since: of a thread whose periods are alike, a third of the time.
const OF_A_SIZE: usize = 4;
/// Waits that a sum tells apart.
const WAITS: usize = 3;

/// Of so many periods.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    start_ns: u64,
    end_ns: u64,
    /// Two to the power of this times the finest.
    size: u8,
    running_ns: u64,
    ready_ns: u64,
    /// Longest first; without those that are shorter, and not here.
    off: [(OffIx, u64); WAITS],
}

impl Sum {
    fn add(&mut self, doing: Doing, ns: u64) {
        match doing {
            Doing::Running => self.running_ns += ns,
            Doing::Ready => self.ready_ns += ns,
            Doing::Off(off) => self.add_off(off, ns),
            Doing::Nothing => {}
        }
    }

    fn add_off(&mut self, off: OffIx, ns: u64) {
        let known = self.off.iter().position(|o| o.0 == off && o.1 > 0);
        let mut at = known.unwrap_or(WAITS - 1);
        if known.is_some() {
            self.off[at].1 += ns;
        } else if self.off[at].1 < ns {
            self.off[at] = (off, ns);
        }
        while at > 0 && self.off[at - 1].1 < self.off[at].1 {
            self.off.swap(at - 1, at);
            at -= 1;
        }
    }

    /// With the one that comes after it.
    fn join(&mut self, next: &Self) {
        self.end_ns = next.end_ns;
        self.size += 1;
        self.running_ns += next.running_ns;
        self.ready_ns += next.ready_ns;
        for &(off, ns) in &next.off {
            self.add_off(off, ns);
        }
    }
}

/// Sums, oldest first, and the one that is being made.
#[derive(Debug, Default)]
pub(crate) struct Past {
    sums: Vec<Sum>,
    open: Sum,
    periods: u32,
}

impl Past {
    /// The period that comes after all others.
    pub fn push(&mut self, start_ns: u64, end_ns: u64, doing: Doing) {
        if self.periods == 0 {
            self.open.start_ns = start_ns;
        }
        self.open.add(doing, end_ns.saturating_sub(start_ns));
        self.open.end_ns = end_ns;
        self.periods += 1;
        if self.periods == FINEST {
            self.sums.push(std::mem::take(&mut self.open));
            self.periods = 0;
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        for size in 0.. {
            // Sizes fall from the oldest to the newest.
            let first = self.sums.partition_point(|sum| sum.size > size);
            let after = self.sums.partition_point(|sum| sum.size >= size);
            if after - first <= OF_A_SIZE {
                return;
            }
            let next = self.sums.remove(first + 1);
            self.sums[first].join(&next);
        }
    }

    /// What the thread did between these times, latest first: of a sum that is cut, in proportion.
    pub fn overlap(&self, from_ns: u64, to_ns: u64, mut each: impl FnMut(Doing, u64)) {
        let sums = std::iter::once(&self.open).chain(self.sums.iter().rev());
        for sum in sums.take_while(|sum| sum.end_ns > from_ns || sum.end_ns == 0) {
            let whole = sum.end_ns - sum.start_ns;
            let part = sum
                .end_ns
                .min(to_ns)
                .saturating_sub(sum.start_ns.max(from_ns));
            if part == 0 {
                continue;
            }
            let of = |ns: u64| (u128::from(ns) * u128::from(part) / u128::from(whole)) as u64;
            each(Doing::Running, of(sum.running_ns));
            each(Doing::Ready, of(sum.ready_ns));
            for &(off, ns) in sum.off.iter().filter(|o| o.1 > 0) {
                each(Doing::Off(off), of(ns));
            }
        }
    }
}
