//! What a thread did lately: enough to say what a waker did while others waited for it.

use convoy_profile::OffIx;

/// Periods remembered per thread. A wait that began before them is only known in part.
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
}

impl History {
    /// From `start_ns` on the thread does this.
    pub fn push(&mut self, start_ns: u64, doing: Doing) {
        if self.periods.len() < KEPT {
            self.periods.push((start_ns, doing));
        } else if let Some(slot) = self.periods.get_mut(self.oldest) {
            *slot = (start_ns, doing);
            self.oldest = (self.oldest + 1) % KEPT;
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::{Doing, History, KEPT};

    #[test]
    fn overlap_is_cut_to_the_wait_and_to_what_is_remembered() {
        let mut h = History::default();
        let n = KEPT as u64 + 10;
        for i in 0..n {
            let doing = if i % 2 == 0 {
                Doing::Running
            } else {
                Doing::Off(i as u32)
            };
            h.push(i * 10, doing);
        }
        let mut seen = Vec::new();
        h.overlap(n * 10 - 25, n * 10 + 5, |d, ns| seen.push((d, ns)));
        assert_eq!(
            seen,
            [
                (Doing::Off(n as u32 - 1), 15),
                (Doing::Running, 10),
                (Doing::Off(n as u32 - 3), 5),
            ]
        );
        let mut known = 0;
        h.overlap(0, n * 10, |_, ns| known += ns);
        assert_eq!(known, KEPT as u64 * 10);
    }
}
