//! Arguments of `convoy serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::Agent;
use crate::live::percent;
use crate::process::OneProcess;
use crate::recording::time;

const ABOUT: &str = "\
Serves metrics and profiles of a running program to Prometheus, Parca, Pyroscope, go tool pprof
and OpenTelemetry collectors.

  /metrics               CPU time, run-queue latency and blocked time by thread group; locks where
                         the agent counts them; whatever --metric asks for
  /debug/pprof/          profile, mutex, block: pprof profiles as Go programs serve them

Examples:
  sudo convoy serve 4242                          http://127.0.0.1:6060/metrics
  convoy serve -- ./server                        the same from the start, with its locks
  convoy serve 4242 --metric 'calls{function=\"compress\"}'
  convoy serve 4242 --otlp http://127.0.0.1:4318  metrics to a collector
  go tool pprof http://127.0.0.1:6060/debug/pprof/profile?seconds=10
  sudo convoy serve --always-on --match server    all processes, and the locks of each server";

const USAGE: &str = "\
convoy serve [OPTIONS] PID
       convoy serve [OPTIONS] -- COMMAND [ARGUMENT]...
       convoy serve [OPTIONS] --always-on [--cgroup NAME] [--match PATTERN]";

/// Where it listens without `--listen`.
const LISTEN: &str = "127.0.0.1:6060";

/// What can be served instead of all processes. An option that requires `--always-on` names them,
/// too: clap requires nothing that conflicts with what is there.
const OTHERS: [&str; 3] = ["pid", "running", "command"];

/// Most that convoy may cost without `--budget`: of the program's CPU time, and of one CPU.
const BUDGET: f64 = 0.03;
const BUDGET_ALWAYS: f64 = 0.01;

/// `convoy serve`.
#[derive(Debug, Args)]
#[command(
    about = ABOUT,
    long_about = ABOUT,
    override_usage = USAGE
)]
pub struct Serve {
    #[command(flatten)]
    pub process: OneProcess,

    /// Serve all processes of the machine, or of --cgroup, as they come and go
    ///
    /// CPU time, run-queue latency and blocked time by name of process, from the kernel's own
    /// counters: nothing is put into a process but by --match. It ends on Ctrl-C or SIGTERM.
    #[arg(long, group = "subject", conflicts_with_all = OTHERS, conflicts_with = "metric")]
    pub always_on: bool,

    /// With --always-on: processes of this control group (systemd slice or service, container) only
    #[arg(long, value_name = "NAME", requires = "always_on", conflicts_with_all = OTHERS)]
    pub cgroup: Vec<PathBuf>,

    /// With --always-on: the agent goes into processes of this name, to count their locks
    ///
    /// A name as `ps -e` shows it; * stands for any characters. Their threads are told apart by
    /// group. docs/live.md says what the agent cannot go into, and docs/serve.md what it costs.
    #[arg(
        long = "match",
        value_name = "PATTERN",
        requires = "always_on",
        conflicts_with_all = OTHERS
    )]
    pub matching: Vec<String>,

    /// Address to listen at; port 0 = any free one [default: 127.0.0.1:6060, with --otlp none]
    ///
    /// Whoever reaches that address reads names of functions and locks, and can start recordings.
    #[arg(short, long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// Collector to send metrics to, by OTLP over HTTP: http://HOST:4318
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,

    /// From one sending to the next
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s", requires = "otlp")]
    pub otlp_every: Duration,

    /// Metric and focus: METRIC{KEY="VALUE", ...}; may be given several times
    ///
    /// As of `convoy live`. Without this: cpu, run_queue and blocked of all threads; where the
    /// agent is in the process also acquisitions, contended, wait and hold of all locks.
    #[arg(short, long, value_name = "METRIC{FOCUS}")]
    pub metric: Vec<String>,

    /// From one reading of the process to the next
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub every: Duration,

    /// Most that probes may cost, in percent of the CPU time that the program uses [default: 3%]
    ///
    /// With --always-on: most that convoy's readings take of one CPU [default: 1%]; they become
    /// rarer where they would take more.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub budget: Option<f64>,

    /// Whether the agent goes into the process, to count its locks
    ///
    /// Not needed where the program runs under convoy. docs/live.md says what it cannot go into.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Agent::Off,
        conflicts_with = "always_on")]
    pub agent: Agent,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Command to run and its arguments
    #[arg(value_name = "COMMAND", last = true, group = "subject")]
    pub command: Vec<OsString>,
}

impl Serve {
    /// Most that convoy may cost, as a share.
    pub fn budget(&self) -> f64 {
        self.budget.unwrap_or(match self.always_on {
            true => BUDGET_ALWAYS,
            false => BUDGET,
        })
    }

    /// The address to listen at; `None` = metrics are only sent.
    pub fn address(&self) -> Option<&str> {
        match (&self.listen, &self.otlp) {
            (Some(address), _) => Some(address),
            (None, Some(_)) => None,
            (None, None) => Some(LISTEN),
        }
    }
}
