//! Numbers as a person reads them: three significant digits and a unit.
//!
//! Counts below 10,000 are given exactly, because "1,252 acquisitions" can be compared with what
//! the source says and "1.25 k" cannot.

use convoy_estimate::Interval;
pub use convoy_model::words::{factor, gain};

/// A length of time: `0 ns`, `870 ns`, `12.3 us`, `1.00 ms`, `3.21 s`, `2 min 5 s`, `1 h 2 min`.
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() || ns < 0.0 {
        return "?".into();
    }
    if ns < 999.5 {
        return format!("{ns:.0} ns");
    }
    for (unit, scale) in [("us", 1e3), ("ms", 1e6)] {
        if let Some(text) = three_digits(ns / scale) {
            return format!("{text} {unit}");
        }
    }
    let seconds = (ns / 1e9).round();
    if seconds < 100.0 {
        return match three_digits(ns / 1e9) {
            Some(text) => format!("{text} s"),
            None => "?".into(),
        };
    }
    let seconds = seconds as u64;
    if seconds < 3600 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else {
        let minutes = (seconds + 30) / 60;
        format!("{} h {} min", minutes / 60, minutes % 60)
    }
}

/// How many: `7`, `9,999`, `12.3 k`, `2.10 M`, `1.75 G`.
pub fn count(n: u64) -> String {
    if n < 1000 {
        return n.to_string();
    }
    if n < 10_000 {
        return format!("{},{:03}", n / 1000, n % 1000);
    }
    let n = n as f64;
    for (unit, scale) in [("k", 1e3), ("M", 1e6), ("G", 1e9)] {
        if let Some(text) = three_digits(n / scale) {
            return format!("{text} {unit}");
        }
    }
    format!("{:.0} G", n / 1e9)
}

/// How many with the noun that goes with it: `1 thread`, `12 threads`.
pub fn count_of(n: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(n), if n == 1 { singular } else { plural })
}

/// How often: `0.31/s`, `12.3/s`, `1.25 k/s`, `17.5 M/s`.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second < 0.0 {
        return "?".into();
    }
    if per_second == 0.0 {
        return "0/s".into();
    }
    for (unit, scale) in [("", 1.0), (" k", 1e3), (" M", 1e6), (" G", 1e9)] {
        if let Some(text) = three_digits(per_second / scale) {
            return format!("{text}{unit}/s");
        }
    }
    format!("{per_second:.0}/s")
}

/// A share of a whole, given as 0..1: `0 %`, `<0.01 %`, `0.23 %`, `1.6 %`, `41 %`, `100 %`.
pub fn percent(ratio: f64) -> String {
    let pct = ratio * 100.0;
    if !pct.is_finite() {
        "?".into()
    } else if pct == 0.0 {
        "0 %".into()
    } else if pct.abs() < 0.01 {
        "<0.01 %".into()
    } else if pct < 0.0 {
        format!("-{}", percent(-ratio))
    } else if pct < 0.995 {
        format!("{pct:.2} %")
    } else if pct < 9.95 {
        format!("{pct:.1} %")
    } else if pct > 99.5 && pct < 99.95 {
        // "100 %" is kept for what is really all of it.
        format!("{pct:.1} %")
    } else {
        format!("{pct:.0} %")
    }
}

/// Memory: `512 B`, `4.00 KiB`, `1.50 GiB`.
pub fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64;
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        value /= 1024.0;
        if let Some(text) = three_digits(value) {
            return format!("{text} {unit}");
        }
    }
    format!("{value:.0} TiB")
}

/// The one form of a predicted gain: `1.6x (1.1–3.6x)`, `1.6x (1.1x or more)` where nothing bounds it,
/// `no gain` where throughput stays as it is.
pub fn predicted_gain(gain: &Interval) -> String {
    let high = gain.high.filter(|high| *high <= MOST_FACTOR);
    if gain.low > 0.995 && high.is_some_and(|high| high < 1.005) {
        return "no gain".into();
    }
    // Of a small gain the second decimal counts, in all three numbers.
    let is_small = high.unwrap_or(gain.mid) < SMALL_FACTOR;
    let factor = |x: f64| {
        if is_small {
            format!("{x:.2}x")
        } else {
            factor(x)
        }
    };
    let (mid, low) = (factor(gain.mid), factor(gain.low));
    match high {
        Some(high) => format!("{mid} ({}–{})", low.trim_end_matches('x'), factor(high)),
        None => format!("{mid} ({low} or more)"),
    }
}

/// Below it a factor has two decimals beside others.
const SMALL_FACTOR: f64 = 1.5;

/// Above it a factor means nothing.
const MOST_FACTOR: f64 = 99.5;

/// How far a value is from what it should be: `+4.3 %`, `-12 %`, `0 %`.
pub fn deviation(value: f64, of: f64) -> String {
    let off = value / of - 1.0;
    if off.is_finite() && off.abs() < 0.0005 {
        return "0 %".into();
    }
    let sign = if off < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(off.abs()))
}

/// Something of which there are a few: `0.05`, `1.2`, `12`, for threads and processors in use.
pub fn few(x: f64) -> String {
    if !x.is_finite() {
        "?".into()
    } else if x >= 99.5 {
        format!("{x:.0}")
    } else if x >= 0.095 || x == 0.0 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    }
}

/// `value` with three significant digits, `None` if it needs the next larger unit.
fn three_digits(value: f64) -> Option<String> {
    if value < 9.995 {
        Some(format!("{value:.2}"))
    } else if value < 99.95 {
        Some(format!("{value:.1}"))
    } else if value < 999.5 {
        Some(format!("{value:.0}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_change_their_unit_at_the_boundary_of_what_is_printed() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (1.0, "1 ns"),
            (999.0, "999 ns"),
            (999.4, "999 ns"),
            (999.5, "1.00 us"),
            (1_000.0, "1.00 us"),
            (9_994.0, "9.99 us"),
            (9_995.0, "10.0 us"),
            (9_996.0, "10.0 us"),
            (99_940.0, "99.9 us"),
            (99_960.0, "100 us"),
            (999_400.0, "999 us"),
            (999_600.0, "1.00 ms"),
            (1_500_000.0, "1.50 ms"),
            (999_600_000.0, "1.00 s"),
            (3_210_000_000.0, "3.21 s"),
            (99_400_000_000.0, "99.4 s"),
            (99_600_000_000.0, "1 min 40 s"),
            (125_000_000_000.0, "2 min 5 s"),
            (3_599_400_000_000.0, "59 min 59 s"),
            (3_600_000_000_000.0, "1 h 0 min"),
            (3_720_000_000_000.0, "1 h 2 min"),
            (f64::NAN, "?"),
            (-1.0, "?"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn counts_are_exact_below_ten_thousand() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (9_999, "9,999"),
            (10_000, "10.0 k"),
            (99_949, "99.9 k"),
            (99_951, "100 k"),
            (999_499, "999 k"),
            (999_500, "1.00 M"),
            (2_100_000, "2.10 M"),
            (999_500_000, "1.00 G"),
            (u64::MAX, "18446744074 G"),
        ] {
            assert_eq!(count(n), text, "{n}");
        }
        assert_eq!(count_of(1, "thread", "threads"), "1 thread");
        assert_eq!(count_of(0, "thread", "threads"), "0 threads");
    }

    #[test]
    fn rates() {
        for (hz, text) in [
            (0.0, "0/s"),
            (0.31, "0.31/s"),
            (999.4, "999/s"),
            (999.6, "1.00 k/s"),
            (1_252.0, "1.25 k/s"),
            (17.5e6, "17.5 M/s"),
            (f64::INFINITY, "?"),
        ] {
            assert_eq!(rate(hz), text, "{hz}");
        }
    }

    #[test]
    fn percents_keep_what_small_shares_mean() {
        for (ratio, text) in [
            (0.0, "0 %"),
            (0.000_05, "<0.01 %"),
            (0.0001, "0.01 %"),
            (0.0023, "0.23 %"),
            (0.009_949, "0.99 %"),
            (0.009_951, "1.0 %"),
            (0.016, "1.6 %"),
            (0.0994, "9.9 %"),
            (0.0996, "10 %"),
            (0.41, "41 %"),
            (0.9949, "99 %"),
            (0.9971, "99.7 %"),
            (0.9999, "100 %"),
            (1.0, "100 %"),
            (1.5, "150 %"),
            (-0.12, "-12 %"),
            (f64::NAN, "?"),
        ] {
            assert_eq!(percent(ratio), text, "{ratio}");
        }
    }

    #[test]
    fn sizes() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1024 * 1024 - 1, "1.00 MiB"),
            (1536 * 1024 * 1024, "1.50 GiB"),
        ] {
            assert_eq!(bytes(n), text, "{n}");
        }
    }

    #[test]
    fn factors_show_small_gains_and_cap_absurd_ones() {
        for (x, text) in [
            (1.0, "1.00x"),
            (1.04, "1.04x"),
            (1.0949, "1.09x"),
            (1.096, "1.1x"),
            (1.94, "1.9x"),
            (9.96, "10x"),
            (99.4, "99x"),
            (120.0, ">100x"),
            (f64::INFINITY, ">100x"),
        ] {
            assert_eq!(factor(x), text, "{x}");
        }
    }

    #[test]
    fn a_predicted_gain_has_one_form() {
        let gain = |low, mid, high| Interval { low, mid, high };
        for (interval, text) in [
            (gain(1.1, 1.6, Some(3.6)), "1.6x (1.1–3.6x)"),
            (gain(1.2, 1.6, None), "1.6x (1.2x or more)"),
            (gain(1.2, 2.0, Some(1000.0)), "2.0x (1.2x or more)"),
            (gain(1.0, 1.0, Some(1.001)), "no gain"),
            (gain(0.7, 0.8, Some(0.9)), "0.80x (0.70–0.90x)"),
            (gain(1.08, 1.16, Some(1.2)), "1.16x (1.08–1.20x)"),
            (gain(0.97, 1.0, Some(1.03)), "1.00x (0.97–1.03x)"),
        ] {
            assert_eq!(predicted_gain(&interval), text);
        }
    }

    #[test]
    fn deviations_carry_their_sign() {
        for (value, of, text) in [
            (1.043, 1.0, "+4.3 %"),
            (0.88, 1.0, "-12 %"),
            (1.0001, 1.0, "0 %"),
            (1.0, 0.0, "+?"),
        ] {
            assert_eq!(deviation(value, of), text);
        }
    }

    #[test]
    fn a_few() {
        for (x, text) in [
            (0.0, "0.0"),
            (0.04, "0.04"),
            (1.21, "1.2"),
            (12.0, "12.0"),
            (130.2, "130"),
        ] {
            assert_eq!(few(x), text, "{x}");
        }
    }
}
