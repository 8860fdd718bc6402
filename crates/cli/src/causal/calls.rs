//! Calls of progress points, as totals that never fall: the probes tell the values of a thread that
//! has ended once more, and forget them.

use std::collections::HashMap;

use convoy_probes::Cell;

/// Totals by number of the point.
#[derive(Debug, Default)]
pub struct Calls {
    /// The last reading, by row and thread.
    last: HashMap<(u32, u32), u64>,
    totals: Vec<u64>,
}

impl Calls {
    /// Takes in a reading; returns the totals of the first `points`.
    pub fn take(&mut self, cells: &[Cell], points: usize) -> Vec<u64> {
        let of = cells.iter().map(|cell| ((cell.row, cell.tid), cell.calls));
        self.add(of, points)
    }

    fn add(&mut self, cells: impl Iterator<Item = ((u32, u32), u64)>, points: usize) -> Vec<u64> {
        self.totals.resize(points, 0);
        let mut now: HashMap<(u32, u32), u64> = HashMap::new();
        for (key, calls) in cells {
            let sum = now.entry(key).or_default();
            *sum = sum.saturating_add(calls);
        }
        for (key, calls) in &now {
            let before = self.last.get(key).copied().unwrap_or(0);
            // Fewer than before are those of another thread with the same number.
            let new = calls.checked_sub(before).unwrap_or(*calls);
            if let Some(total) = self.totals.get_mut(key.0 as usize) {
                *total = total.saturating_add(new);
            }
        }
        self.last = now;
        self.totals.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_come_and_go_add_up() {
        let mut calls = Calls::default();
        let mut reading = |cells: &[((u32, u32), u64)]| calls.add(cells.iter().copied(), 2);
        assert_eq!(reading(&[((0, 7), 10), ((1, 7), 1)]), [10, 1]);
        assert_eq!(reading(&[((0, 7), 12), ((0, 8), 5)]), [17, 1]);
        assert_eq!(reading(&[((0, 9), 4)]), [21, 1], "7 and 8 have ended");
        assert_eq!(reading(&[((0, 9), 1)]), [22, 1], "another thread 9");
        assert_eq!(reading(&[((5, 9), 1)]), [22, 1], "no point");
    }
}
