//! What a thread did lately: enough to say what a waker did while others waited for it.

use convoy_profile::OffIx;

use crate::history_rollup::Past;

/// Periods remembered one by one per thread. What came before them is remembered in sums.
const KEPT: usize = 64;

/// What a thread does in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Running,
    /// Active without a processor.
    Ready,
    Off(OffIx),
    /// Not born, or ended.
    Nothing,
}

/// A ring of periods; each lasts until the next one begins.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// When they began, and what they are.
    periods: Vec<(u64, Doing)>,
    /// The oldest one, once the ring is full.
    oldest: usize,
    /// Before them.
    past: Option<Box<Past>>,
}

impl History {
    /// From `start_ns` on the thread does this.
    pub fn push(&mut self, start_ns: u64, doing: Doing) {
        if self.periods.len() < KEPT {
            self.periods.push((start_ns, doing));
            return;
        }
        let next = (self.oldest + 1) % KEPT;
        let end = self.periods[next].0;
        let slot = &mut self.periods[self.oldest];
        let (since, did) = std::mem::replace(slot, (start_ns, doing));
        self.oldest = next;
        self.past.get_or_insert_default().push(since, end, did);
    }

    /// What the thread did between these times, latest first.
    pub fn overlap(&self, from_ns: u64, to_ns: u64, mut each: impl FnMut(Doing, u64)) {
        let (newer, older) = self.periods.split_at(self.oldest);
        let mut end = to_ns;
        for &(start, doing) in newer.iter().rev().chain(older.iter().rev()) {
            let begin = start.max(from_ns);
            if end > begin {
                each(doing, end - begin);
                end = begin;
            }
            if start <= from_ns {
                return;
            }
        }
        if let Some(past) = &self.past {
            past.overlap(from_ns, end, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Doing, History, KEPT};

    fn alternating(n: u64) -> History {
        let mut h = History::default();
        for i in 0..n {
            let doing = if i % 2 == 0 {
                Doing::Running
            } else {
                Doing::Off(1)
            };
            h.push(i * 10, doing);
        }
        h
    }

    #[test]
    fn overlap_is_cut_to_the_wait() {
        let n = KEPT as u64 + 10;
        let mut seen = Vec::new();
        alternating(n).overlap(n * 10 - 25, n * 10 + 5, |d, ns| seen.push((d, ns)));
        assert_eq!(
            seen,
            [
                (Doing::Off(1), 15),
                (Doing::Running, 10),
                (Doing::Off(1), 5),
            ]
        );
    }

    #[test]
    fn what_is_long_ago_is_known_in_sum() {
        for n in [10, KEPT as u64, 100, 1000, 50_000] {
            let h = alternating(n);
            let (mut off, mut all) = (0, 0);
            h.overlap(0, n * 10, |doing, ns| {
                all += ns;
                off += if doing == Doing::Off(1) { ns } else { 0 };
            });
            assert_eq!((off, all), (n * 5, n * 10), "{n}");
        }
    }

    #[test]
    fn a_wait_that_began_within_a_sum_gets_its_part() {
        // Long polls, then a lot of short ones: the last wait of the first kind is as old as it is.
        let mut h = History::default();
        for i in 0..2000 {
            h.push(i * 1000, Doing::Off(1));
        }
        for i in 0..2000 {
            h.push(2_000_000 + i * 10, Doing::Off(2));
        }
        let mut seen = [0; 3];
        h.overlap(1_000_000, 2_020_000, |doing, ns| {
            if let Doing::Off(off) = doing {
                seen[off as usize] += ns;
            }
        });
        assert_eq!(seen[1] + seen[2], 1_020_000);
        assert!((15_000..25_000).contains(&seen[2]), "{seen:?}");
    }
}
