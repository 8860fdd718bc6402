//! How numbers read in a sentence.

use crate::finding::Gain;

/// `42 %`, `4.2 %`, `0.42 %`: two figures that mean something.
pub fn percent(ratio: f64) -> String {
    let p = 100.0 * ratio;
    if p >= 10.0 || p == 0.0 {
        format!("{p:.0} %")
    } else if p >= 1.0 {
        format!("{p:.1} %")
    } else if p >= 0.005 {
        format!("{p:.2} %")
    } else {
        "under 0.01 %".into()
    }
}

/// `850 ns`, `12 us`, `3.4 ms`, `1.2 s`.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        x if x < 1e3 => (x, "ns"),
        x if x < 1e6 => (x / 1e3, "us"),
        x if x < 1e9 => (x / 1e6, "ms"),
        x => (x / 1e9, "s"),
    };
    if value < 10.0 && unit != "ns" {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// `980`, `1,252`, `12 k`, `2.1 M`.
pub fn count(n: f64) -> String {
    let (value, unit) = match n {
        x if x < 999.5 => return format!("{x:.0}"),
        x if x < 9_999.5 => {
            let n = x.round() as u64;
            return format!("{},{:03}", n / 1_000, n % 1_000);
        }
        x if x < 1e6 => (x / 1e3, "k"),
        x if x < 1e9 => (x / 1e6, "M"),
        x => (x / 1e9, "G"),
    };
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// `1 thread`, `4 threads`.
pub fn plural(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// Throughput as a multiple of today's: `1.00x`, `1.04x`, `1.9x`, `12x`, `>100x`.
pub fn factor(x: f64) -> String {
    if !x.is_finite() || x > 99.5 {
        ">100x".into()
    } else if x >= 9.95 {
        format!("{x:.0}x")
    } else if x >= 1.095 {
        format!("{x:.1}x")
    } else {
        format!("{x:.2}x")
    }
}

/// `1.9x (1.4–2.1x)`; `1.9x (1.4x or more)` where nothing bounds it; or that there is none.
pub fn gain(gain: &Gain) -> String {
    if gain.high < 1.005 {
        return "no gain".into();
    }
    let low = factor(gain.low);
    if gain.high.is_infinite() {
        return format!("{} ({low} or more)", factor(gain.mid));
    }
    format!(
        "{} ({}–{})",
        factor(gain.mid),
        low.trim_end_matches('x'),
        factor(gain.high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [
                percent(0.41),
                percent(0.0162),
                percent(0.002),
                percent(1e-6)
            ],
            ["41 %", "1.6 %", "0.20 %", "under 0.01 %"]
        );
        assert_eq!(
            [
                duration(850.0),
                duration(1500.0),
                duration(2.5e7),
                duration(3e9)
            ],
            ["850 ns", "1.5 us", "25 ms", "3.0 s"]
        );
        assert_eq!(
            [count(9999.0), count(12_000.0), count(2_100_000.0)],
            ["9,999", "12 k", "2.1 M"]
        );
    }
}
