//! A number before and after, and how far chance could have made the difference.

/// Values of one number, one per run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// Of the runs before.
    pub before: Vec<f64>,
    /// Of the runs after.
    pub after: Vec<f64>,
}

/// With fewer runs a side than this the bootstrap's interval is much too narrow.
pub const MIN_RUNS: usize = 3;

/// Samples drawn from the runs.
const DRAWS: usize = 10_000;

impl Change {
    /// Mean before.
    pub fn mean_before(&self) -> f64 {
        mean(&self.before)
    }

    /// Mean after.
    pub fn mean_after(&self) -> f64 {
        mean(&self.after)
    }

    /// After minus before.
    pub fn difference(&self) -> f64 {
        self.mean_after() - self.mean_before()
    }

    /// Before over after: of run times, how many times faster it got. `None` if it took no time.
    pub fn speed(&self) -> Option<f64> {
        ratio(self.mean_before(), self.mean_after())
    }

    /// 95 % interval of [`Self::speed`]; `None` with fewer than three runs on a side.
    pub fn speed_interval(&self) -> Option<(f64, f64)> {
        self.interval(|before, after| ratio(before, after).unwrap_or(1.0))
    }

    /// 95 % interval of `of(mean before, mean after)`: the percentile bootstrap (Efron, 1979). Always the same
    /// for the same numbers. `None` with fewer than three runs on a side.
    pub fn interval(&self, of: impl Fn(f64, f64) -> f64) -> Option<(f64, f64)> {
        if self.before.len() < MIN_RUNS || self.after.len() < MIN_RUNS {
            return None;
        }
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut drawn: Vec<f64> = (0..DRAWS)
            .map(|_| {
                of(
                    dice.mean_of_draw(&self.before),
                    dice.mean_of_draw(&self.after),
                )
            })
            .collect();
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| {
            drawn
                .get((share * (DRAWS - 1) as f64).round() as usize)
                .copied()
        };
        at(0.025).zip(at(0.975))
    }
}

fn ratio(before: f64, after: f64) -> Option<f64> {
    (before > 0.0 && after > 0.0).then(|| before / after)
}

/// 0 for none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

/// Random numbers that are the same every time (splitmix64; Steele, Lea, Flood, OOPSLA'14).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The mean of as many values as there are, drawn with replacement.
    fn mean_of_draw(&mut self, values: &[f64]) -> f64 {
        let n = values.len() as u64;
        let sum: f64 = (0..n)
            .filter_map(|_| values.get((self.next() % n.max(1)) as usize))
            .sum();
        sum / n.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Change;

    #[test]
    fn an_interval_holds_the_ratio_and_grows_with_the_noise() {
        let change = |noise: f64| Change {
            before: vec![2.0 - noise, 2.0, 2.0 + noise, 2.0],
            after: vec![1.6, 1.6 + noise, 1.6 - noise],
        };
        let (low, high) = change(0.05).speed_interval().unwrap();
        assert!(low < 1.25 && 1.25 < high, "{low} {high}");
        assert!(high - low < 0.1, "{low} {high}");
        let (wide_low, wide_high) = change(0.5).speed_interval().unwrap();
        assert!(wide_high - wide_low > 3.0 * (high - low));
        assert_eq!(change(0.05).speed_interval(), change(0.05).speed_interval());
    }

    #[test]
    fn few_runs_claim_nothing() {
        let change = Change {
            before: vec![2.0, 2.1],
            after: vec![1.0, 1.0, 1.0],
        };
        assert_eq!(change.speed_interval(), None);
        assert_eq!(Change::default().speed(), None);
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // Normal-ish noise (sums of uniforms), ten runs a side: bootstrap intervals of small samples are a
        // little too narrow, so that 95 % is a bit less.
        let mut dice = super::Dice(7);
        let mut uniform = || (dice.next() >> 11) as f64 / (1u64 << 53) as f64;
        let mut covered = 0;
        for _ in 0..200 {
            let mut run = |mean: f64| mean + (0..6).map(|_| uniform() - 0.5).sum::<f64>() * 0.1;
            let change = Change {
                before: (0..10).map(|_| run(2.0)).collect(),
                after: (0..10).map(|_| run(1.6)).collect(),
            };
            let (low, high) = change.speed_interval().unwrap();
            covered += usize::from(low <= 1.25 && 1.25 <= high);
        }
        assert!((170..=199).contains(&covered), "{covered} of 200");
    }
}
