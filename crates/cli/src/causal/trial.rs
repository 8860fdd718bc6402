//! `convoy try`: other ways to wait for a mutex, in some windows of the running program.

use std::time::Duration;

use clap::{Args, ValueEnum};
use convoy_capture::causal::Waiting;
use convoy_causal::Algorithm;
use convoy_replay::machine::Machine;
use convoy_replayer::calibrate::remeasure;

use super::args::{percent, Running};
use crate::message::Message;
use crate::recording::time;

const ABOUT: &str = "\
Runs a program and measures what it would gain if threads waited for a mutex in another way:
without a change of the program, in alternating windows, with the mutex as it is.

With --may-corrupt also whether it gains by sections that run together: holding the mutex as readers
(--as rwlock), or without it (--as none). Such a program may compute wrong results, crash or hang: the
command runs once as it is and once with the change, and its output and exit status are compared.

Examples:
  convoy try -- ./server --threads 16           the mutex for which threads wait longest, all ways
  convoy try --lock cache_lock --as adaptive --as ticket -- ./server
  convoy try --lock cache_lock --as rwlock --reads lookup --may-corrupt -- ./bench";

/// `convoy try`.
#[derive(Debug, Args)]
#[command(
    about = ABOUT,
    long_about = ABOUT,
    override_usage = "convoy try [OPTIONS] -- COMMAND [ARGUMENT]...",
    mut_arg("command", |command| command.required(true))
)]
pub struct Try {
    /// Mutex: its name, its address (0x...) or a function that takes it
    ///
    /// All mutexes of one name are tried together. Without this, the one for which threads wait
    /// longest.
    #[arg(short, long, value_name = "MUTEX")]
    pub lock: Option<String>,

    /// How threads are to wait for it; several times [default: adaptive, spin-then-park, ticket]
    #[arg(long = "as", value_name = "ALGORITHM", value_enum)]
    pub by: Vec<Way>,

    /// Allow rwlock and none, which can corrupt the program's data
    ///
    /// The command runs at least twice. Its standard output goes to a file, from which that of the
    /// run as it is is shown; a standard input that is no file is empty from the second run on.
    #[arg(long)]
    pub may_corrupt: bool,

    /// Function whose sections only read, for rwlock; several times. Without this all sections do
    #[arg(long, value_name = "FUNCTION")]
    pub reads: Vec<String>,

    /// Most time for experiments; they end earlier when all intervals are narrow
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub budget: Duration,

    /// Half-width of an interval that is narrow enough, in percent of the run time
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "3%")]
    pub precision: f64,

    #[command(flatten)]
    pub running: Running,
}

/// Ways to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Spin about as long as it has helped before, then sleep: PTHREAD_MUTEX_ADAPTIVE_NP
    Adaptive,
    /// Spin for as long as a sleep and a wake-up cost here, then sleep
    SpinThenPark,
    /// In the order in which threads came, spinning before they sleep
    Ticket,
    /// Sections that read hold it together (needs --may-corrupt)
    Rwlock,
    /// Not at all: sections run together (needs --may-corrupt)
    None,
}

impl From<Way> for Algorithm {
    fn from(way: Way) -> Self {
        match way {
            Way::Adaptive => Self::Adaptive,
            Way::SpinThenPark => Self::SpinThenPark,
            Way::Ticket => Self::Ticket,
            Way::Rwlock => Self::ReadWrite,
            Way::None => Self::None,
        }
    }
}

impl Try {
    /// What is to be tried, each once.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let mut named: Vec<Algorithm> = self.by.iter().map(|way| Algorithm::from(*way)).collect();
        named.sort_unstable();
        named.dedup();
        match named.is_empty() {
            true => Algorithm::EXCLUDING.to_vec(),
            false => named,
        }
    }

    /// Refuses what the user has not allowed, or what would have no effect.
    pub fn check(&self) -> Result<(), Message> {
        let algorithms = self.algorithms();
        let unsafe_one = algorithms.iter().find(|algorithm| algorithm.may_corrupt());
        if let (Some(algorithm), false) = (unsafe_one, self.may_corrupt) {
            return Err(Message::new(
                format!(
                    "--as {algorithm} lets threads into sections of the mutex at the same time"
                ),
                "the program may compute wrong results, crash or hang; nothing was started",
                "add --may-corrupt if nothing that matters can be lost by that",
            ));
        }
        if !self.reads.is_empty() && !algorithms.contains(&Algorithm::ReadWrite) {
            return Err(Message::new(
                format!(
                    "--reads {} without --as rwlock",
                    self.reads.join(" --reads ")
                ),
                "only readers of a rwlock hold it together; nothing was started",
                "add --as rwlock --may-corrupt",
            ));
        }
        Ok(())
    }
}

/// What the agent is to do for each algorithm, on this machine.
pub fn ways(algorithms: &[Algorithm]) -> Vec<(Algorithm, Waiting)> {
    let spin_ns = sleep_ns(&remeasure().machine);
    let way = |algorithm| match algorithm {
        Algorithm::Adaptive => Waiting::Adaptive,
        Algorithm::SpinThenPark => Waiting::Spin(spin_ns),
        Algorithm::Ticket => Waiting::Fifo(spin_ns),
        Algorithm::ReadWrite => Waiting::Shared(spin_ns),
        Algorithm::None => Waiting::Unlocked,
    };
    algorithms.iter().map(|a| (*a, way(*a))).collect()
}

/// What it costs a thread to sleep and be woken at once, nanoseconds.
fn sleep_ns(machine: &Machine) -> u32 {
    let latency = machine.wake_latency.first().map_or(0.0, |l| l.p50_ns);
    (machine.futex_block_ns + machine.futex_wake_ns + latency) as u32
}
