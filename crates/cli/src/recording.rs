//! How to record: the options that all verbs share which run a command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use convoy_capture::{Budget, TraceMode, TraceOptions};

use crate::message::Message;

/// A time with its unit; without one, seconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let digits = text.len()
        - text
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
            .len();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("give a number and a unit: 500ms, 10s, 2m, 1h".into()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "give a number and a unit: 500ms, 10s, 2m, 1h")?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| "too long")?;
    if time.is_zero() {
        return Err("more than nothing is needed".into());
    }
    Ok(time)
}

/// Where scheduler events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    /// eBPF where allowed (root, or CAP_BPF and CAP_PERFMON), else perf events, else nothing
    Auto,
    /// eBPF, or fail
    Bpf,
    /// Switch records of perf events, or fail
    Perf,
    /// Do not ask the kernel
    Off,
}

/// Which events a trace holds: `window`, `full` or `last:TIME`.
fn trace(text: &str) -> Result<TraceMode, String> {
    if let Some(span) = text.strip_prefix("last:") {
        let ns = time(span)?.as_nanos();
        return Ok(TraceMode::Last(u64::try_from(ns).unwrap_or(u64::MAX)));
    }
    match text {
        "window" => Ok(TraceMode::Window(Budget::default())),
        "full" => Ok(TraceMode::Full),
        _ => Err("give one of: window, full, last:TIME (last:10s)".into()),
    }
}

/// How to record.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub struct Recording {
    /// One uncontended operation in this many gets its call stack, hold and cost taken
    ///
    /// A count; contended ones always do. Cost: about 0.2 us for each one taken, so that 64 adds 3 ns to an
    /// operation and 1 adds 200 ns.
    #[arg(long, value_name = "COUNT", hide_short_help = true, default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub sample_period: u32,

    /// Frames kept of a call stack, at most 64
    ///
    /// A count. Cost: about 8 ns per frame of a stack that is taken.
    #[arg(long, value_name = "FRAMES", hide_short_help = true, default_value_t = 24,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub stack_depth: u32,

    /// Thread records per process; later threads share those of ended ones
    ///
    /// A count. Cost: 12 KB of memory for each thread that runs, or has run and has a record of its own.
    #[arg(long, value_name = "COUNT", hide_short_help = true, default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub max_threads: u32,

    /// Most memory for the tables of one process, MiB
    ///
    /// Address space; memory is taken as it is needed, about 400 bytes for each lock and thread that uses it.
    #[arg(long, value_name = "MIB", hide_short_help = true, default_value_t = 1024,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub arena_size: u64,

    /// Where the recording is kept until the command has ended [default: /dev/shm]
    ///
    /// A directory, best in memory (tmpfs). `convoy doctor` lists what can be used.
    #[arg(long, value_name = "DIRECTORY", hide_short_help = true)]
    pub session_dir: Option<PathBuf>,

    /// Where context switches, wake-ups and samples come from
    ///
    /// They say which code runs while the others wait, why threads are off the CPUs and who wakes them, in any
    /// language. Source: GAPP (ICPE'20). [default: auto; of `convoy diagnose`: off]
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub scheduler: Option<Scheduler>,

    /// CPU time between two samples of the running code
    ///
    /// Cost: about 5-20 us a sample, so that 3ms takes up to 0.6 % of a CPU.
    #[arg(long, value_name = "TIME", value_parser = time, hide_short_help = true, default_value = "3ms")]
    pub sample_every: Duration,

    /// Intervals kept of what every thread did when, for pictures and exports; 0 = none
    ///
    /// A count. When there are more, short ones are joined with their neighbours. Cost: 24 bytes of memory for
    /// each, and a few of the file.
    #[arg(long, value_name = "COUNT", hide_short_help = true, default_value_t = 500_000,
          value_parser = clap::value_parser!(u32).range(..=100_000_000))]
    pub timeline_events: u32,

    /// Keep every synchronization event in time order, too: what `convoy replay` works on
    ///
    /// window: all events while there are few, else those of 10 ms in every 100 ms; full: all events; last:TIME: those of
    /// the last TIME before the end. Cost, on top of the rest: about 25 ns for each event that is kept, in windows on
    /// average a tenth of that. [default of --trace alone: window]
    #[arg(long, value_name = "MODE", value_parser = trace, num_args = 0..=1, require_equals = true,
          default_missing_value = "window")]
    pub trace: Option<TraceMode>,

    /// Most memory for the events of a trace, MiB; older ones go first
    ///
    /// An event takes about 4 bytes in memory, and one to three in the file.
    #[arg(long, value_name = "MIB", hide_short_help = true, default_value_t = 256,
          value_parser = clap::value_parser!(u64).range(1..=400))]
    pub trace_size: u64,

    /// Accepted for scripts of older versions: a command that cannot be recorded runs anyway
    #[arg(long = "force", hide = true)]
    _force: bool,
}

impl Recording {
    /// For the recorder.
    pub fn options(&self) -> convoy_capture::Options {
        convoy_capture::Options {
            sample_period: self.sample_period,
            stack_depth: self.stack_depth,
            max_threads: self.max_threads,
            arena_bytes: self.arena_size << 20,
            session_parent: self.session_dir.clone(),
            scheduler: match self.scheduler.unwrap_or(Scheduler::Auto) {
                Scheduler::Auto => convoy_capture::Scheduler::Auto,
                Scheduler::Bpf => convoy_capture::Scheduler::Bpf,
                Scheduler::Perf => convoy_capture::Scheduler::Perf,
                Scheduler::Off => convoy_capture::Scheduler::Off,
            },
            sched_sample_ns: u64::try_from(self.sample_every.as_nanos()).unwrap_or(u64::MAX),
            timeline_intervals: self.timeline_events,
            diagnose: None,
            trace: self.trace.map(|mode| self.trace_of(mode)),
            causal: false,
            injector: None,
            streams: convoy_capture::Streams::default(),
        }
    }

    /// The trace that was asked for, or the usual one.
    pub fn trace_options(&self) -> TraceOptions {
        self.trace_of(self.trace.unwrap_or(TraceOptions::default().mode))
    }

    fn trace_of(&self, mode: TraceMode) -> TraceOptions {
        TraceOptions {
            mode,
            most_bytes: self.trace_size << 20,
        }
    }

    /// Refuses a trace where there cannot be one: of what (as a subject), and what to do.
    pub fn without_trace(&self, of: &str, fix: &str) -> Result<(), Message> {
        match self.trace {
            None => Ok(()),
            Some(_) => Err(Message::new(
                format!("--trace was given, but {of}"),
                "nothing was recorded",
                fix,
            )),
        }
    }
}
