//! **F.** All targets in the same windows: each has its own random bit, 1 = slowed. One run gives
//! the slope of every target (full factorial design; Fisher, 1935), by least squares.

/// Windows summed up for a least-squares fit of the time per unit of progress: a constant, and what
/// each slowed target adds to it. A window weighs as much as it has progress, so that the fit is of
/// time over progress, not of the mean of such ratios.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// Columns: the constant, then targets.
    columns: usize,
    /// Products of columns, by row.
    products: Vec<f64>,
    /// Products of columns with the time.
    times: Vec<f64>,
}

impl Sums {
    /// No window yet.
    pub fn new(targets: usize) -> Self {
        let columns = targets + 1;
        Self {
            columns,
            products: vec![0.0; columns * columns],
            times: vec![0.0; columns],
        }
    }

    /// Adds a window: its length, and the units of progress in it. `is_slowed`: by number of the
    /// target.
    pub fn add(&mut self, is_slowed: impl Fn(usize) -> bool, seconds: f64, progress: f64) {
        if !seconds.is_finite() || !progress.is_finite() {
            return;
        }
        let has = |column: usize| column == 0 || is_slowed(column - 1);
        for row in (0..self.columns).filter(|row| has(*row)) {
            self.times[row] += seconds;
            for column in (0..self.columns).filter(|column| has(*column)) {
                self.products[row * self.columns + column] += progress;
            }
        }
    }

    /// Takes in the windows of another sum of as many targets.
    pub fn plus(&mut self, other: &Self) {
        let add = |own: &mut Vec<f64>, other: &[f64]| {
            own.iter_mut()
                .zip(other)
                .for_each(|(own, other)| *own += other);
        };
        add(&mut self.products, &other.products);
        add(&mut self.times, &other.times);
    }

    /// Time that a slowed target adds, as a share of that without any; `None` = its windows do not
    /// tell.
    pub fn slope(&self, target: usize) -> Option<f64> {
        let fit = self.fit()?;
        let (base, added) = (fit.first()?, fit.get(target + 1)?);
        (*base > 0.0).then(|| added / base)
    }

    /// Gaussian elimination with partial pivoting; `None` = two columns say the same.
    fn fit(&self) -> Option<Vec<f64>> {
        let n = self.columns;
        let mut rows: Vec<Vec<f64>> = (0..n)
            .map(|row| {
                let mut all = self.products[row * n..(row + 1) * n].to_vec();
                all.push(self.times[row]);
                all
            })
            .collect();
        let largest = self.products.iter().copied().fold(0.0, f64::max);
        for step in 0..n {
            let size = |row: &usize| rows[*row][step].abs();
            let pivot = (step..n).max_by(|a, b| size(a).total_cmp(&size(b)))?;
            rows.swap(step, pivot);
            if rows[step][step].abs() <= 1e-9 * largest {
                return None;
            }
            let (done, open) = rows.split_at_mut(step + 1);
            let pivot = &done[step];
            for row in open {
                let share = row[step] / pivot[step];
                for (own, top) in row.iter_mut().zip(pivot).skip(step) {
                    *own -= share * top;
                }
            }
        }
        let mut fit = vec![0.0; n];
        for row in (0..n).rev() {
            let known: f64 = (row + 1..n)
                .map(|column| rows[row][column] * fit[column])
                .sum();
            fit[row] = (rows[row][n] - known) / rows[row][row];
        }
        Some(fit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_the_slope_of_its_own() {
        // Target 1 adds 60 %, target 2 adds 10 %, target 0 nothing.
        let mut sums = Sums::new(3);
        for slowed in [0, 7, 1, 6, 2, 5, 3, 4, 4, 3, 0, 7] {
            let is_slowed = |target: usize| slowed >> target & 1 == 1;
            let added = |target, share| if is_slowed(target) { share } else { 0.0 };
            let progress = 1.0 + f64::from(slowed);
            let each = 2.0 * (1.0 + added(1, 0.6) + added(2, 0.1));
            sums.add(is_slowed, each * progress, progress);
        }
        for (target, truth) in [0.0, 0.6, 0.1].into_iter().enumerate() {
            let slope = sums.slope(target).unwrap();
            assert!((slope - truth).abs() < 1e-9, "{target}: {slope}");
        }
    }

    #[test]
    fn windows_without_progress_and_bits_that_never_change_tell_nothing() {
        let mut sums = Sums::new(1);
        sums.add(|_| false, 1.0, 1.0);
        sums.add(|_| true, 1.0, 0.0);
        assert_eq!(sums.slope(0), None);
    }
}
