//! Shares with their uncertainty.

/// A share, 0..1, with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Lower end.
    pub low: f64,
    /// As counted.
    pub mid: f64,
    /// Upper end.
    pub high: f64,
}

impl Share {
    /// Of `n` independent draws (Wilson, 1927). Nothing is known of no draws: 0..1.
    pub fn of_draws(mid: f64, n: f64) -> Self {
        if n <= 0.0 {
            return Self {
                low: 0.0,
                mid,
                high: 1.0,
            };
        }
        const Z: f64 = 1.96;
        let center = mid + Z * Z / (2.0 * n);
        let half = Z * (mid * (1.0 - mid) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        Self {
            low: ((center - half) / scale).clamp(0.0, mid),
            mid,
            high: ((center + half) / scale).clamp(mid, 1.0),
        }
    }
}
