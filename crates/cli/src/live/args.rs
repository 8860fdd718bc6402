//! Arguments of `convoy live`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::Agent;
use crate::output_args::Shape;
use crate::process::OneProcess;
use crate::recording::time;

const ABOUT: &str = "\
Measures parts of a running program: calls and time of functions, CPU time of threads, waits at
locks and for files. What is measured is chosen while it runs, and taken out again at the end.

Examples:
  convoy live 4242 --metric 'calls{function=\"compress\"}' --for 30s --format json
  convoy live 4242 --metric 'wall{function=\"compress\", thread=\"pool-*\"}'
  convoy live 4242 --metric 'cpu{function=\"*\", in=\"compress\"}'   which callee takes the time
  convoy live 4242 --metric 'cpu{function=\"put\", holding=\"cache_lock\"}' --agent=auto
  convoy live 4242 --metric 'io_wait{file=\"*.log\"}'
  convoy live 4242                              choose on the screen
  convoy live 4242 --metric cpu --for 30s -o run.convoy    keep the curves for convoy report
  convoy live -- ./server                       the same from the start
  convoy live 4242 --search                     find out where the time goes
  convoy live 4242 --detach                     take out what a killed convoy left in";

const METRICS: &str = "\
Metrics of a function: calls, wall, wall_exclusive, cpu, cpu_exclusive, duration_mean, duration_p50,
duration_p99, inside. Of a lock: acquisitions, contended, wait, hold; of other objects: wait,
condition_wait, barrier_wait, semaphore_wait. Of threads: cpu, run_queue, run_queue_mean, switches,
blocked, cmetric, read_bytes, write_bytes. Of files: io_wait, read_bytes, write_bytes. Of the
program: allocations, allocated_bytes, exceptions. docs/live.md has their units and meanings.";

/// `convoy live`.
#[derive(Debug, Args)]
#[command(
    about = ABOUT,
    long_about = ABOUT,
    after_help = METRICS,
    override_usage = "convoy live [OPTIONS] PID\n       convoy live [OPTIONS] -- COMMAND [ARGUMENT]..."
)]
pub struct Live {
    #[command(flatten)]
    pub process: OneProcess,

    /// Metric and focus: METRIC{KEY="VALUE", ...}; may be given several times
    ///
    /// Keys: function, module, caller (function or file:line), in (only while inside that
    /// function), holding (only while that lock is held), thread and group (with * and ?), lock,
    /// file, process. function="*" with in="f" measures f and each function that it calls.
    /// Without this, the screen asks; in a file, the CPU time of the program is
    /// written.
    #[arg(short, long, value_name = "METRIC{FOCUS}")]
    pub metric: Vec<String>,

    /// Stop after this time: 500ms, 10s, 2m [default: when the process ends, or Ctrl-C]
    ///
    /// It begins when the probes of all metrics are in.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub limit: Option<Duration>,

    /// From one value to the next
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub every: Duration,

    /// Most that probes may cost, in percent of the CPU time that the program uses
    ///
    /// A probe begins as a counter. Its rate and the price of a timer, which is measured on this
    /// machine, decide whether a timer follows.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "3%")]
    pub budget: f64,

    /// Whether the agent goes into the process, to count its locks
    ///
    /// Not needed where the program runs under convoy. docs/live.md says what it cannot go into.
    /// Without this option it stays out, but for a search that suspects locks.
    #[arg(long, value_name = "WHEN", value_enum)]
    pub agent: Option<Agent>,

    /// Find out where the time goes: CPU, locks, files or other threads; in which threads,
    /// functions and objects
    ///
    /// Records the program for two seconds, then puts in probes, step by step where the time is,
    /// and takes them out again: some 15 seconds in all.
    #[arg(long, conflicts_with_all = ["metric", "detach", "every"])]
    pub search: bool,

    /// Take out what a killed convoy has left in the process, probes and the agent's hooks, and
    /// leave
    #[arg(long, conflicts_with_all = ["metric", "command"])]
    pub detach: bool,

    /// Keep the curves in this profile, for `convoy report`
    ///
    /// The last 3,600 values of each curve, those of the 16 threads with most, births and deaths of
    /// threads. From the screen, too: curves that were removed are kept as far as they went.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["search", "detach"])]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub shape: Shape,

    /// Say nothing but values and errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Command to run and its arguments
    #[arg(value_name = "COMMAND", last = true, group = "subject")]
    pub command: Vec<OsString>,
}

/// A share in percent, as a number from 0 to 1.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end();
    let percent: Option<f64> = number.parse().ok();
    let percent = percent.filter(|p| p.is_finite() && *p > 0.0 && *p <= 100.0);
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "give a percentage above 0 and up to 100: 3%".into())
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn budgets_are_percentages() {
        assert_eq!(percent("3%"), Ok(0.03));
        assert_eq!(percent("0.5 %"), Ok(0.005));
        for wrong in ["0", "101%", "-1", "NaN", "x", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
