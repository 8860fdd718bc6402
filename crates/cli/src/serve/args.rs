//! Arguments of `convoy serve`.

use std::ffi::OsString;
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
  go tool pprof http://127.0.0.1:6060/debug/pprof/profile?seconds=10";

const USAGE: &str = "\
convoy serve [OPTIONS] PID
       convoy serve [OPTIONS] -- COMMAND [ARGUMENT]...";

/// Where it listens without `--listen`.
const LISTEN: &str = "127.0.0.1:6060";

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

    /// Most that probes may cost, in percent of the CPU time that the program uses
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "3%")]
    pub budget: f64,

    /// Whether the agent goes into the process, to count its locks
    ///
    /// Not needed where the program runs under convoy. docs/live.md says what it cannot go into.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Agent::Off)]
    pub agent: Agent,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Command to run and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

impl Serve {
    /// The address to listen at; `None` = metrics are only sent.
    pub fn address(&self) -> Option<&str> {
        match (&self.listen, &self.otlp) {
            (Some(address), _) => Some(address),
            (None, Some(_)) => None,
            (None, None) => Some(LISTEN),
        }
    }
}
