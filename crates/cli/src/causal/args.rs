//! Arguments of `convoy causal`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use convoy_capture::causal::TARGETS_MOST;
use convoy_causal::{too_many_targets, Estimator, Invalid, Point, Target};

use super::progress::Wanted;
use crate::output_args::Shape;
use crate::process::process;
use crate::recording::time;

const ABOUT: &str = "\
Runs a program and measures what it would gain if a function, a line, a lock's critical sections or
its sleeps were faster: by experiments on the running program, not by a model of it.

Examples:
  convoy causal -- ./server --threads 16        choose the targets, rank them by measured gain
  convoy causal --target lock:cache_lock --target fn:compress -- ./server
  convoy causal --progress fn:handle_request -- ./server
  convoy causal -p 4242 --for 60s               experiment on a process that runs
  convoy causal -o run.convoy -- ./server       keep all of it: convoy report run.convoy
  convoy causal --budget 10s --format json --report-to gains.json -- ./server";

/// `convoy causal`.
#[derive(Debug, Args)]
#[command(
    about = ABOUT,
    long_about = ABOUT,
    override_usage = "convoy causal [OPTIONS] -- COMMAND [ARGUMENT]...\n       convoy causal [OPTIONS] -p PID"
)]
pub struct Causal {
    /// What could be faster; several times
    ///
    /// fn:NAME (a function's own instructions), path:NAME (with its callees), path:OUTER>INNER (a call
    /// path), line:FILE:LINE, lock:NAME, threads:NAME (digits as #: worker-#) or wait:sleep.
    /// A lock is named by its name, address (0x...) or a function that takes it, as in the report's
    /// --lock. Without this, the functions of most samples and the locks of most waits are chosen.
    #[arg(short, long, value_name = "TARGET")]
    pub target: Vec<String>,

    /// What counts as progress: fn:NAME (calls), syscall:NAME or coz:NAME; several count together
    ///
    /// Probes count the calls of functions, at about 10 ns each; system calls are counted where the C
    /// library's function of that name is entered. Without this, points of coz.h, locks
    /// released, wake-ups or arrivals at barriers count.
    #[arg(long, value_name = "POINT")]
    pub progress: Vec<String>,

    /// Measure the time between two points instead: fn:BEGIN..fn:END, or coz:NAME
    #[arg(long, value_name = "POINTS", conflicts_with = "progress")]
    pub latency: Option<String>,

    /// Process that runs already, by number or name; at the end it goes on as before
    #[arg(
        short,
        long,
        value_name = "PID",
        value_parser = process,
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub pid: Option<u32>,

    /// Most time for experiments; they end earlier when all intervals are narrow
    ///
    /// A target takes about 2 s. While they last the program runs at about 0.6 of its speed.
    #[arg(
        long,
        visible_alias = "for",
        value_name = "TIME",
        value_parser = time,
        default_value = "20s"
    )]
    pub budget: Duration,

    /// Run a command that ends too early again, until enough is known or the budget is used
    ///
    /// The windows of all runs are added up; the status is that of the last run. What a run shows
    /// that ends before its experiments is known to the next one. After a run that fails there is no
    /// other.
    #[arg(long, conflicts_with = "pid")]
    pub repeat: bool,

    /// How gains are measured
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = Method::Dilate)]
    pub estimator: Method,

    /// Half-width of an interval that is narrow enough, in percent of the run time
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "4%")]
    pub precision: f64,

    /// Keep what was recorded and found in this profile, for `convoy report`
    ///
    /// %e and %p stand for the command's name and process id, as for `convoy record -o`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write a profile for Coz's viewer, too
    #[arg(long, value_name = "FILE")]
    pub coz: Option<PathBuf>,

    #[command(flatten)]
    pub running: Running,
}

/// The program under experiments, and its report.
#[derive(Debug, Args)]
pub struct Running {
    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub report_to: Option<PathBuf>,

    /// Where the program and convoy meet [default: /dev/shm]
    #[arg(long, value_name = "DIRECTORY", hide_short_help = true)]
    pub session_dir: Option<PathBuf>,

    #[command(flatten)]
    pub shape: Shape,

    /// Say nothing but the report and errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Command to run and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

/// Estimators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Everything but the target becomes slower: right if all that matters is inside the program
    Dilate,
    /// The target becomes slower: an upper bound of the gain, right with clients and timeouts, too
    Slow,
    /// As slow, all targets at once, each in half of the windows at random: for many targets
    Factorial,
}

impl From<Method> for Estimator {
    fn from(method: Method) -> Self {
        match method {
            Method::Dilate => Self::Dilate,
            Method::Slow => Self::Slow,
            Method::Factorial => Self::Factorial,
        }
    }
}

impl Causal {
    /// The targets that were named.
    pub fn targets(&self) -> Result<Vec<Target>, Invalid> {
        match self.target.len() {
            n if n > TARGETS_MOST => Err(too_many_targets(n, TARGETS_MOST)),
            _ => self.target.iter().map(|text| text.parse()).collect(),
        }
    }
}

impl Causal {
    /// What progress is to be measured by.
    pub fn progress(&self) -> Result<Wanted, Invalid> {
        if let Some(text) = &self.latency {
            return Ok(Wanted::Latency(text.parse()?));
        }
        let points: Result<Vec<Point>, Invalid> = self.progress.iter().map(|p| p.parse()).collect();
        Ok(match points? {
            none if none.is_empty() => Wanted::Any,
            points => Wanted::Points(points),
        })
    }
}

/// A share in percent, as a number from 0 to 1.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').trim_end().parse().ok();
    let percent = number.filter(|p| *p > 0.0 && *p <= 100.0);
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "give a percentage above 0 and up to 100: 4%".into())
}
