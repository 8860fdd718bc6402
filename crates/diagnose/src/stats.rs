//! Shares and distributions of weighted samples.

/// A share of the sections of a site, with what the size of the sample allows to say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    /// Of the sample.
    pub share: f64,
    /// Lower end of the 95 % confidence interval (Wilson, 1927).
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How a quantity is distributed over sections.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Over all whole sections that were traced.
    pub mean: f64,
    /// Of the sample.
    pub median: f64,
    /// Of the sample: 95 % of the sections have at most this.
    pub p95: f64,
    /// Of all whole sections that were traced; of the sample where only that knows.
    pub max: f64,
}

/// A value, and how many sections have it.
type Weighted = (f64, f64);

impl Share {
    /// Of weighted items, those that are `true`. The sample counts as large as one of equal weights with the same
    /// variance (Kish, 1965): `sum(w)^2 / sum(w^2)`.
    pub(crate) fn of(items: impl Iterator<Item = (bool, u64)>) -> Self {
        let (mut all, mut squares, mut yes) = (0.0, 0.0, 0.0);
        for (is, weight) in items {
            let weight = weight as f64;
            all += weight;
            squares += weight * weight;
            if is {
                yes += weight;
            }
        }
        if all <= 0.0 {
            return Self {
                share: 0.0,
                low: 0.0,
                high: 1.0,
            };
        }
        let n = all * all / squares;
        let share = yes / all;
        let z = 1.96_f64;
        let middle = share + z * z / (2.0 * n);
        let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + z * z / n;
        Self {
            share,
            low: ((middle - half) / scale).max(0.0),
            high: ((middle + half) / scale).min(1.0),
        }
    }
}

impl Spread {
    /// Of a sample alone.
    pub(crate) fn of(values: impl Iterator<Item = Weighted>) -> Self {
        let mut values: Vec<Weighted> = values.collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = values.iter().map(|(_, weight)| weight).sum();
        let at = |share: f64| {
            let mut left = share * all;
            values
                .iter()
                .find(|(_, weight)| {
                    left -= weight;
                    left <= 0.0
                })
                .or(values.last())
                .map_or(0.0, |(value, _)| *value)
        };
        Self {
            mean: match all > 0.0 {
                true => values.iter().map(|(v, w)| v * w).sum::<f64>() / all,
                false => 0.0,
            },
            median: at(0.5),
            p95: at(0.95),
            max: values.last().map_or(0.0, |(value, _)| *value),
        }
    }

    /// The same, with the mean and maximum of all.
    pub(crate) fn with(self, sum: u64, n: u64, max: u64) -> Self {
        match n {
            0 => self,
            _ => Self {
                mean: sum as f64 / n as f64,
                max: max as f64,
                ..self
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_wilsons() {
        let of = |yes: u64, all: u64| Share::of((0..all).map(|i| (i < yes, 3)));
        let all = of(30, 30);
        assert!((all.share, (all.low * 1000.0).round()) == (1.0, 886.0));
        let half = of(50, 100);
        assert_eq!(
            ((half.low * 1e3).round(), (half.high * 1e3).round()),
            (404.0, 596.0)
        );
        assert_eq!(of(0, 0).high, 1.0);
    }

    #[test]
    fn one_heavy_section_is_a_small_sample() {
        let even = Share::of([(true, 1); 100].into_iter());
        let mut items = vec![(true, 1); 99];
        items.push((true, 10_000));
        assert!(Share::of(items.into_iter()).low < 0.3 && even.low > 0.95);
    }

    #[test]
    fn quantiles_count_weights() {
        let spread = Spread::of([(1.0, 90.0), (2.0, 9.0), (7.0, 1.0)].into_iter());
        assert_eq!((spread.median, spread.p95, spread.max), (1.0, 2.0, 7.0));
        assert!((spread.mean - 1.15).abs() < 1e-9);
        assert_eq!(spread.with(300, 100, 9).mean, 3.0);
    }
}
