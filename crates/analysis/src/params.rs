//! Parameters of the analysis: every number with an option, its unit and its source. None of them is
//! used while recording. The table of docs/findings.md is printed from them.

use std::fmt;

/// Why a parameter has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A paper says so: which, and the section in it. "SyncPerf" is the EuroSys'17 paper; its own
    /// implementation uses other values than the text.
    Paper(&'static str),
    /// Chosen here: why.
    Judgement(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paper(section) => f.write_str(section),
            Self::Judgement(why) => write!(f, "Convoy: {why}"),
        }
    }
}

/// A value that a parameter can have.
trait Value: Sized {
    /// `None`: the analysis chooses.
    fn number(&self) -> Option<f64>;
    fn of(number: f64) -> Self;
}

impl Value for f64 {
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
    fn of(number: f64) -> Self {
        number
    }
}

impl Value for Option<f64> {
    fn number(&self) -> Option<f64> {
        *self
    }
    fn of(number: f64) -> Self {
        Some(number)
    }
}

impl Value for u64 {
    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
    fn of(number: f64) -> Self {
        number as Self
    }
}

impl Value for usize {
    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
    fn of(number: f64) -> Self {
        number as Self
    }
}

/// A parameter, by name.
#[derive(Debug)]
pub struct Param {
    /// As in `--set NAME=VALUE`.
    pub name: &'static str,
    /// What it is a number of.
    pub unit: &'static str,
    /// Least and largest value that make sense.
    pub range: (f64, f64),
    /// Why it is what it is.
    pub source: Source,
    /// What it decides.
    pub meaning: &'static str,
    get: fn(&Params) -> Option<f64>,
    set: fn(&mut Params, f64),
}

impl Param {
    /// Its value; `None` if the analysis chooses it.
    pub fn get(&self, params: &Params) -> Option<f64> {
        (self.get)(params)
    }
}

macro_rules! params {
    ($($field:ident: $type:ty = $default:expr, $unit:literal, $range:expr, $source:expr,
       $meaning:literal;)*) => {
        /// Parameters of the analysis.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Params {
            $(#[doc = concat!($meaning, ": ", $unit, ".")] pub $field: $type,)*
        }

        impl Default for Params {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// All parameters.
        pub const PARAMS: &[Param] = &[$(Param {
            name: stringify!($field),
            unit: $unit,
            range: $range,
            source: $source,
            meaning: $meaning,
            get: |params| params.$field.number(),
            set: |params, number| params.$field = Value::of(number),
        },)*];
    };
}

use Source::{Judgement, Paper};

const SHARE: (f64, f64) = (0.0, 1.0);
const FACTOR: (f64, f64) = (1.0, f64::MAX);
const NUMBER: (f64, f64) = (0.0, f64::MAX);

params! {
    contention_ratio: f64 = 0.10, "contended / acquisitions, 0..1", SHARE,
        Paper("SyncPerf 3.1"), "contention rate from which on a lock is in Q1 or Q2";
    frequency_hz: f64 = 1000.0, "acquisitions a second, all threads", NUMBER,
        Paper("SyncPerf 3.1"), "frequency from which on a lock is in Q2 or Q4";
    asymmetry_ratio: f64 = 2.0, "factor", FACTOR,
        Paper("SyncPerf 3.1"), "highest over lowest contention rate of locks of one kind";
    asymmetry_min_waits: u64 = 30, "contended acquisitions", NUMBER,
        Judgement("a rate of a handful of waits says nothing"),
        "waits below which asymmetry is not judged";
    trylock_failure_ratio: f64 = 0.10, "failed / trylock calls, 0..1", SHARE,
        Paper("SyncPerf 3.1"), "failed trylocks that are many";
    imbalance_ratio: f64 = 0.20, "relative difference of work, 0..1", SHARE,
        Paper("SyncPerf 3.2.3"), "difference between threads or groups that is an imbalance";
    waited_ratio: f64 = 0.01, "waits / life of the threads concerned, 0..1", SHARE,
        Judgement("SQLite loses half its throughput at 1 % contended"),
        "waits from which on a lock is judged whatever its contention rate";
    gain_mid: f64 = 1.05, "throughput after / now", FACTOR,
        Judgement("less is within the noise of most benchmarks"),
        "expected gain from which on a finding is ranked";
    gain_high: f64 = 1.10, "throughput after / now", FACTOR,
        Judgement("twice that noise"),
        "bound from which on a finding with a smaller expected gain is ranked, if it is a large loss";
    n_min: Option<f64> = None, "threads", FACTOR,
        Paper("GAPP 3.1"), "parallelism is low below it; without one, below half the workers";
    top: usize = 20, "rows", NUMBER,
        Judgement("two screens"), "rows of the longer tables";
    worker_ratio: f64 = 0.05, "work / work of the busiest thread, 0..1", SHARE,
        Judgement("a thread that only starts the others has less"),
        "work from which on a thread counts as a worker";
    off_path_ratio: f64 = 0.80, "share of a lock's waits, 0..1", SHARE,
        Judgement("a fifth of the waits may fall anywhere by chance"),
        "waits at full parallelism that take a lock off the critical path";
    asked_ratio: f64 = 0.20, "lost / thread time, 0..1", SHARE,
        Judgement("somebody will ask about so much"),
        "loss from which on a lock or pool is ranked although little is gained";
    asked_trylock_ratio: f64 = 0.05, "lost / thread time, 0..1", SHARE,
        Judgement("no other tool shows spinning"),
        "the same for trylock loops";
    burnt_ratio: f64 = 0.10, "CPU time / CPU time of all, 0..1", SHARE,
        Judgement("it is lost even where nothing is gained"),
        "CPU time from which on busy-waiting is ranked in any case";
    large_ratio: f64 = 0.15, "lost / run, 0..1", SHARE,
        Judgement("a bound over so much deserves its reason"),
        "loss from which on the bound of a finding of the scheduler is enough";
}

impl Params {
    /// Sets a parameter by name.
    ///
    /// # Errors
    /// A sentence, if there is no such parameter or the value is out of its range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let Some(param) = PARAMS.iter().find(|param| param.name == name) else {
            let names: Vec<&str> = PARAMS.iter().map(|param| param.name).collect();
            return Err(format!(
                "no parameter `{name}`; there are: {}",
                names.join(", ")
            ));
        };
        let (least, most) = param.range;
        if !(least..=most).contains(&value) {
            let limit = match most == f64::MAX {
                true => format!("{least} or more"),
                false => format!("{least} to {most}"),
            };
            return Err(format!("`{name}` is {limit} ({}), not {value}", param.unit));
        }
        (param.set)(self, value);
        Ok(())
    }
}

/// The parameters as a table in Markdown.
pub fn markdown() -> String {
    let defaults = Params::default();
    let mut table =
        String::from("| parameter | decides | unit | default | source |\n|---|---|---|---|---|\n");
    for param in PARAMS {
        let default = param.get(&defaults);
        let default = default.map_or_else(|| "by the run".into(), |number| number.to_string());
        table += &format!(
            "| `{}` | {} | {} | {default} | {} |\n",
            param.name, param.meaning, param.unit, param.source
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_by_name() {
        let mut params = Params::default();
        for param in PARAMS {
            params.set(param.name, 1.0).expect("in every range");
            assert_eq!(param.get(&params), Some(1.0), "{}", param.name);
        }
    }

    #[test]
    fn values_out_of_range_and_unknown_names_are_refused() {
        let mut params = Params::default();
        let refused = params.set("waited_ratio", 2.0).unwrap_err();
        assert!(refused.starts_with("`waited_ratio` is 0 to 1"), "{refused}");
        assert!(params.set("gain_mid", f64::NAN).is_err());
        assert!(params
            .set("waits", 1.0)
            .unwrap_err()
            .contains("waited_ratio"));
        assert_eq!(params, Params::default());
    }

    #[test]
    fn defaults_are_in_range() {
        for param in PARAMS {
            let default = param.get(&Params::default());
            let (least, most) = param.range;
            assert!(default.is_none_or(|number| (least..=most).contains(&number)));
        }
    }
}
