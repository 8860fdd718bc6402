//! The thresholds of the analysis as flags.

use clap::Args;
use convoy_analysis::Params;

/// What counts as high. None of these has any effect on the recording: change them and look at the same
/// profile again.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Thresholds of the analysis (ratios are 0..1 unless said otherwise)")]
pub struct Limits {
    /// Contention rate above which a lock counts as contended (quadrants Q1, Q2)
    ///
    /// Contended acquisitions / acquisitions. Source: SyncPerf (EuroSys'17), section 3.1.
    #[arg(long, value_name = "RATIO", value_parser = share, hide_short_help = true,
          default_value_t = Params::default().contention_ratio)]
    contention_ratio: f64,

    /// Acquisitions per second above which a lock counts as often taken (quadrants Q2, Q4)
    ///
    /// All threads together, per second of run time. Source: SyncPerf, section 3.1.
    #[arg(long, value_name = "HZ", value_parser = positive, hide_short_help = true,
          default_value_t = Params::default().frequency_hz)]
    frequency_hz: f64,

    /// Highest over lowest contention rate of locks of one kind that is asymmetric
    ///
    /// A factor, 1 or more. Source: SyncPerf, section 3.1.
    #[arg(long, value_name = "FACTOR", value_parser = factor, hide_short_help = true,
          default_value_t = Params::default().asymmetry_ratio)]
    asymmetry_ratio: f64,

    /// Waits on locks of one kind below which their asymmetry is not judged
    ///
    /// A count. Source: ours; a rate made of a handful of waits says nothing.
    #[arg(long, value_name = "COUNT", hide_short_help = true,
          default_value_t = Params::default().asymmetry_min_waits)]
    asymmetry_min_waits: u64,

    /// Failed trylock calls / trylock calls that count as many
    ///
    /// Source: SyncPerf, section 3.1, which uses the limit of the contention rate.
    #[arg(long, value_name = "RATIO", value_parser = share, hide_short_help = true,
          default_value_t = Params::default().trylock_failure_ratio)]
    trylock_failure_ratio: f64,

    /// Relative difference of the work of thread groups, or of threads of a group, that is an imbalance
    ///
    /// Source: SyncPerf, section 3.2.3.
    #[arg(long, value_name = "RATIO", value_parser = share, hide_short_help = true,
          default_value_t = Params::default().imbalance_ratio)]
    imbalance_ratio: f64,

    /// Waits over run time of the threads concerned, above which a lock is looked at in any case
    ///
    /// Source: ours; SQLite loses half its throughput at a contention rate of 1 %.
    #[arg(long, value_name = "RATIO", value_parser = share, hide_short_help = true,
          default_value_t = Params::default().waited_ratio)]
    waited_ratio: f64,

    /// Threads below which parallelism is low [default: half of those that did real work]
    ///
    /// A number of threads, N_min. Source: GAPP (ICPE'20), section 3.1.
    #[arg(long, value_name = "THREADS", value_parser = factor, hide_short_help = true)]
    n_min: Option<f64>,

    /// Rows of the longer tables of the scheduler's page
    ///
    /// A count. Source: GAPP, section 4.
    #[arg(long, value_name = "ROWS", hide_short_help = true,
          default_value_t = convoy_analysis::Params::default().top)]
    top: usize,

    /// Expected gain from which on a finding is ranked
    ///
    /// Throughput after the fix / now, 1 or more. Source: ours, the noise of a good benchmark.
    #[arg(long, value_name = "FACTOR", value_parser = factor, hide_short_help = true,
          default_value_t = Params::default().gain_mid)]
    min_gain: f64,

    /// Upper bound of the gain from which on a finding with a smaller expected gain is ranked
    ///
    /// Throughput after the fix / now, 1 or more. Source: ours.
    #[arg(long, value_name = "FACTOR", value_parser = factor, hide_short_help = true,
          default_value_t = Params::default().gain_high)]
    min_gain_bound: f64,

    /// Set a parameter of the analysis by its name; docs/findings.md lists all
    ///
    /// Also those without an option of their own. It counts more than the option.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment, hide_short_help = true)]
    set: Vec<(String, f64)>,
}

impl Limits {
    /// For the analysis.
    pub fn params(&self) -> Params {
        let mut params = Params {
            contention_ratio: self.contention_ratio,
            frequency_hz: self.frequency_hz,
            asymmetry_ratio: self.asymmetry_ratio,
            asymmetry_min_waits: self.asymmetry_min_waits,
            trylock_failure_ratio: self.trylock_failure_ratio,
            imbalance_ratio: self.imbalance_ratio,
            waited_ratio: self.waited_ratio,
            gain_mid: self.min_gain,
            gain_high: self.min_gain_bound,
            n_min: self.n_min,
            top: self.top,
            ..Params::default()
        };
        for (name, value) in &self.set {
            // Refused by the parser otherwise.
            let _ = params.set(name, *value);
        }
        params
    }
}

fn assignment(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    let value = number(value)?;
    Params::default().set(name, value)?;
    Ok((name.to_owned(), value))
}

fn number(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|n| n.is_finite())
        .ok_or_else(|| "not a number".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    match number(text)? {
        n if (0.0..=1.0).contains(&n) => Ok(n),
        n if (1.0..=100.0).contains(&n) => {
            Err(format!("a share of 0..1; for {n} % write {}", n / 100.0))
        }
        _ => Err("a share of 0..1".into()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| {
        if n >= 0.0 {
            Ok(n)
        } else {
            Err("0 or more".into())
        }
    })
}

fn factor(text: &str) -> Result<f64, String> {
    number(text).and_then(|n| {
        if n >= 1.0 {
            Ok(n)
        } else {
            Err("a factor of 1 or more".into())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_assigned_by_name() {
        assert_eq!(assignment("gain_mid=1.2"), Ok(("gain_mid".into(), 1.2)));
        for bad in ["gain_mid", "gain_mid=", "gain_mid=0.5", "gain=2"] {
            assert!(assignment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        assert_eq!(share("0.1"), Ok(0.1));
        assert_eq!(
            share("10").unwrap_err(),
            "a share of 0..1; for 10 % write 0.1"
        );
        for bad in ["-1", "200", "x", "", "NaN", "inf"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        assert_eq!(factor("2"), Ok(2.0));
        assert!(factor("0.5").is_err() && positive("-3").is_err() && positive("nan").is_err());
    }
}
