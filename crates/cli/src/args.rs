//! Arguments. Help, and what it says about units, defaults and costs, comes from here alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::output_args::{ReportFormat, Shape};
use crate::process::process;
use crate::recording::{time, Recording};
use crate::threshold_args::Limits;

const ABOUT: &str = "\
Says what keeps a multithreaded Linux program from running in parallel:
  Which lock, barrier, queue or group of threads costs the most time?
  Why, and who holds it while others wait?
  What would fixing it buy?
  What should I do, at which file and line?
No root, no recompilation, no frame pointers. Debug information (-g) gives lines.

Examples:
  convoy -- ./server --threads 16              run it, print the report at its end
  convoy record -o run.convoy -- ./server      only record
  sudo convoy -p 4242 --for 10s                look at a running process, its locks included
  convoy report run.convoy                     look at it, as often as you like
  convoy report run.convoy --lock cache_lock   all about one lock
  convoy diagnose run.convoy -- ./server       which of the possible causes it is
  convoy replay -- ./server                    what fixing each lock would save, by replay
  convoy diff before.convoy after.convoy       did the fix help?
  convoy top 4242                              the same live, of a process that convoy started
  convoy live 4242                             calls and time of its functions, threads, locks
  convoy serve 4242                            metrics for Prometheus, profiles for pprof
  convoy causal -- ./server                    what faster code would gain, by experiment
  convoy doctor ./server                       what can be seen here, and how to see more";

const EXIT_STATUS: &str = "\
Exit status:
  with a COMMAND       the command's, or 128 + n if signal n ended it;
                       125 if convoy itself failed, 126 if the command cannot be executed, 127 if it is missing
  report, replay FILE, export, top, live PID, serve PID, doctor, findings, recover
                       0, or 2 on failure
  diff                 0, 1 if a limit of --fail-on does not hold, else 2 if one cannot be judged or on failure";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "convoy",
    version = env!("CONVOY_VERSION"),
    about = ABOUT,
    after_help = EXIT_STATUS,
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}",
    override_usage = "convoy [OPTIONS] [--] COMMAND [ARGUMENT]...\n       convoy record|report|diagnose|replay|causal|try|investigate|diff|export|top|live|serve|doctor|findings|recover ...",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do; without one, run and report.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Run and report.
    #[command(flatten)]
    pub run: Run,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a command and keep what it did in a profile
    Record(Record),
    /// Say what a profile shows
    Report(Report),
    /// Run a command and look into the critical sections of its locks: what they touch, and so which fix is right
    Diagnose(Box<crate::diagnose::Diagnose>),
    /// Say what unnecessary lock contention costs, and what each fix would buy, by replay of a trace
    Replay(Box<crate::replay::Replay>),
    /// Say what changed between two runs, or two sets of runs
    Diff(crate::diff::Diff),
    /// Write a profile in the format of another tool
    Export(crate::export::Export),
    /// Show the tables of a running program that convoy records, or of a profile
    Top(crate::top::Top),
    /// Measure parts of a running program: functions, threads, locks; chosen while it runs
    Live(Box<crate::live::Live>),
    /// Serve metrics and profiles of a running program to Prometheus, pprof and OpenTelemetry
    Serve(Box<crate::serve::Serve>),
    /// Run a command and measure what it would gain if a function, lock or sleep were faster
    Causal(Box<crate::causal::Causal>),
    /// Run a command several times, under the method that narrows the answer most, and say what it needs
    Investigate(Box<crate::investigate::Investigate>),
    /// Run a command and measure what it would gain if threads waited for a mutex in another way
    Try(Box<crate::causal::Try>),
    /// Say what this machine, this user and a program allow, and how to get more
    Doctor(Doctor),
    /// List the findings that a report can have, or explain one
    Findings(crate::findings::Findings),
    /// Make a profile of what a killed convoy left behind
    Recover(Recover),
    /// Write man pages or shell completions
    Generate(crate::generate::Generate),
    /// The process of a native replay, started by convoy itself
    #[command(name = convoy_replayer::child::ARGUMENT, hide = true)]
    ReplayNative,
    /// The process that puts the agent into running ones, started by convoy itself
    #[command(name = convoy_capture::INJECTOR_ARGUMENT, hide = true)]
    Inject(Inject),
    /// The process that holds the probes of a running one, started by convoy itself
    #[command(name = convoy_capture::probes::ARGUMENT, hide = true)]
    HoldProbes(HoldProbes),
    /// A function called in a loop, probed by convoy itself to know what probes cost
    #[command(name = crate::live::LOOP_ARGUMENT, hide = true)]
    ProbedLoop,
    /// Empty critical sections, recorded by convoy itself to know what recording costs
    #[command(name = crate::recorder_cost::ARGUMENT, hide = true)]
    EmptySections,
}

/// Request to the injector.
#[derive(Debug, Args)]
pub struct Inject {
    /// Put in the agent that makes experiments
    #[arg(long)]
    pub experiments: bool,
    /// Directory of the session
    #[arg(value_name = "DIRECTORY")]
    pub session: PathBuf,
    /// Processes
    #[arg(value_name = "PID", required = true)]
    pub pids: Vec<u32>,
}

/// Request to the holder of probes.
#[derive(Debug, Args)]
pub struct HoldProbes {
    /// The process that is probed
    #[arg(value_name = "PID")]
    pub pid: u32,
}

/// `convoy -- COMMAND`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub view: View,

    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub report_to: Option<PathBuf>,

    /// Keep the profile, too, in this file: %e is the command's name, %p its process id
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub limits: Limits,

    #[command(flatten)]
    pub running: Running,

    /// Command to run and its arguments
    #[arg(
        value_name = "COMMAND",
        help_heading = None,
        trailing_var_arg = true,
        conflicts_with = "running"
    )]
    pub command: Vec<OsString>,

    /// Say nothing but the report and errors
    #[arg(short, long, help_heading = None)]
    pub quiet: bool,
}

/// `convoy record`.
#[derive(Debug, Args)]
#[command(
    override_usage = "convoy record [OPTIONS] [--] COMMAND [ARGUMENT]...\n       convoy record [OPTIONS] -p PID [--for TIME]"
)]
pub struct Record {
    /// File to write: %e is the command's name, %p its process id
    #[arg(short, long, value_name = "FILE", default_value = "%e.%p.convoy")]
    pub output: PathBuf,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub running: Running,

    /// Command to run and its arguments
    #[arg(
        value_name = "COMMAND",
        help_heading = None,
        trailing_var_arg = true,
        required_unless_present = "running",
        conflicts_with = "running"
    )]
    pub command: Vec<OsString>,

    /// Say nothing but errors
    #[arg(short, long, help_heading = None)]
    pub quiet: bool,
}

/// `convoy report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Profile to read; without one, the newest *.convoy file of this directory
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Show the run that convoy -- COMMAND kept last: on a terminal, without -o
    #[arg(long, conflicts_with = "file")]
    pub last: bool,

    #[command(flatten)]
    pub view: View,

    /// Write the report to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub report_to: Option<PathBuf>,

    /// Write a page with pictures to this file: a timeline, parallelism, locks, waits by code
    ///
    /// One HTML file that needs no network. docs/html.md says what is on it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["report_to", "format"])]
    pub html: Option<PathBuf>,

    /// Show the page with pictures in the browser
    ///
    /// It is written to the file of --html, or to a temporary file, which stays.
    #[arg(long, conflicts_with_all = ["report_to", "format"])]
    pub open: bool,

    #[command(flatten)]
    pub limits: Limits,

    /// Say nothing but the report and errors
    #[arg(short, long, help_heading = None)]
    pub quiet: bool,
}

/// `convoy doctor`.
#[derive(Debug, Args)]
#[command(override_usage = "convoy doctor [--] [PROGRAM]...")]
pub struct Doctor {
    /// Program to judge: can it be recorded, does it have names and lines?
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

/// `convoy recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// Session directory; `convoy doctor` lists those that are left
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,

    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "recovered.convoy")]
    pub output: PathBuf,

    /// Keep the directory
    ///
    /// Without this it is removed once the profile is written: it takes up memory.
    #[arg(long)]
    pub keep: bool,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// What of a report is shown, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to show")]
pub struct View {
    /// All findings in full, also those not worth a fix, and all tables
    #[arg(long, group = "page")]
    pub all: bool,

    /// All about one lock or other object: its name, address (0x...), a site that uses it, or a regular expression
    #[arg(long, value_name = "OBJECT", group = "page")]
    pub lock: Option<String>,

    /// Where the time of every thread group went, and how many threads of each would be best
    #[arg(long, group = "page")]
    pub thread_groups: bool,

    /// What the scheduler showed: how parallel it was, the code that ran while it was not, waits and who ended them
    #[arg(long, group = "page")]
    pub critical: bool,

    /// What traced critical sections touch, line by line, and what follows from it
    #[arg(long, group = "page")]
    pub sections: bool,

    /// Only this process of the recording, and only its locks
    #[arg(long, value_name = "PID")]
    pub process: Option<u32>,

    #[command(flatten)]
    pub shape: Shape<ReportFormat>,
}

/// What to look at instead of a command.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Running processes")]
#[group(id = "running", multiple = true)]
pub struct Running {
    /// Processes that run already, by number or name, with their threads and children
    ///
    /// Ctrl-C ends the recording, and the processes go on.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = process)]
    pub pid: Vec<u32>,

    /// All processes of a control group (systemd slice or service, container), by name or path
    #[arg(long, value_name = "NAME")]
    pub cgroup: Vec<PathBuf>,

    /// Whether the agent goes into the processes for that time, to count their locks
    ///
    /// It goes into the processes that -p names and their children, where they are 64-bit programs
    /// that use glibc, and out again at the end. Cost: all threads stop for about 2 ms twice, and
    /// the agent's library stays, idle. docs/live.md says what it cannot go into, and what is known
    /// to be unsafe. Of control groups only scheduler events are recorded; so they are where process
    /// 1 of the machine is named, unless this option is given.
    #[arg(long, value_name = "WHEN", value_enum)]
    pub agent: Option<Agent>,

    /// Stop after this time: 500ms, 10s, 2m [default: when the processes end, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub limit: Option<Duration>,
}

/// Whether the agent goes into running processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Agent {
    /// The agent enters each process that allows it; convoy says which do not, and why
    Auto,
    /// Only scheduler events are recorded
    #[default]
    Off,
}

/// Whether process 1 is one of a container: that of the machine is everybody's parent, also of
/// system services.
fn is_in_container() -> bool {
    // PROC_PID_INIT_INO of the kernel.
    const MACHINE: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace != Path::new(MACHINE))
}

impl Running {
    /// The command that puts the agent into running processes; `None` if it shall not.
    pub fn injector(&self) -> Option<Vec<OsString>> {
        let own = ["/proc/self/exe", convoy_capture::INJECTOR_ARGUMENT];
        let goes_in = match self.agent {
            Some(agent) => agent == Agent::Auto,
            None => !self.pid.contains(&1) || is_in_container(),
        };
        goes_in.then(|| own.map(OsString::from).to_vec())
    }

    /// For the recorder; `None` if no process was named.
    pub fn targets(&self) -> Option<convoy_capture::Targets> {
        let named = !self.pid.is_empty() || !self.cgroup.is_empty();
        named.then(|| convoy_capture::Targets {
            pids: self.pid.clone(),
            cgroups: self.cgroup.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Cli {
        Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{words:?}: {e}"))
    }

    fn words(command: &[OsString]) -> Vec<&str> {
        command.iter().map(|w| w.to_str().unwrap()).collect()
    }

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_puts_the_command_and_quiet_under_no_group_of_other_options() {
        let command = Cli::command();
        for id in ["command", "quiet"] {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id);
            assert_eq!(arg.and_then(|arg| arg.get_help_heading()), None, "{id}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_libraries() {
        let cli = parse(&["convoy", "x"]);
        assert_eq!(
            cli.run.recording.options(),
            convoy_capture::Options::default()
        );
        assert_eq!(cli.run.limits.params(), convoy_analysis::Params::default());
    }

    #[test]
    fn what_follows_the_command_is_the_command_s() {
        for line in [
            &[
                "convoy", "--all", "--", "./a", "--all", "-q", "--", "report",
            ][..],
            &["convoy", "--all", "./a", "--all", "-q", "--", "report"][..],
        ] {
            let cli = parse(line);
            assert!(
                cli.verb.is_none() && cli.run.view.all && !cli.run.quiet,
                "{line:?}"
            );
            assert_eq!(
                words(&cli.run.command),
                ["./a", "--all", "-q", "--", "report"],
                "{line:?}"
            );
        }
    }

    #[test]
    fn a_program_may_be_called_like_a_verb() {
        let cli = parse(&["convoy", "--", "report", "x"]);
        assert!(cli.verb.is_none());
        assert_eq!(words(&cli.run.command), ["report", "x"]);
        assert!(matches!(
            parse(&["convoy", "report", "x"]).verb,
            Some(Verb::Report(_))
        ));
        let cli = parse(&["convoy", "./a", "report"]);
        assert!(cli.verb.is_none());
        assert_eq!(words(&cli.run.command), ["./a", "report"]);
    }

    #[test]
    fn record_has_the_same_boundary() {
        for line in [
            &[
                "convoy", "record", "-o", "f", "-q", "--", "./a", "-o", "g", "-q",
            ][..],
            &["convoy", "record", "-o", "f", "-q", "./a", "-o", "g", "-q"][..],
        ] {
            let Some(Verb::Record(record)) = parse(line).verb else {
                panic!("{line:?}")
            };
            assert_eq!(record.output.to_str(), Some("f"));
            assert!(record.quiet);
            assert_eq!(words(&record.command), ["./a", "-o", "g", "-q"], "{line:?}");
        }
    }

    #[test]
    fn unknown_flags_before_the_command_are_errors_and_not_commands() {
        for line in [
            &["convoy", "--lokc", "x"][..],
            &["convoy", "record", "-x", "a"],
            &["convoy", "record"],
            &["convoy", "report", "--all", "--thread-groups"],
            &["convoy", "report", "--contention-ratio", "10"],
            &["convoy", "report", "--width", "10"],
            &["convoy", "record", "--stack-depth", "65", "a"],
        ] {
            assert!(Cli::try_parse_from(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn help_opens_with_questions_and_examples_and_names_units() {
        let mut command = Cli::command();
        let short = command.render_help().to_string();
        let examples = short
            .lines()
            .filter(|l| l.trim_start().starts_with("convoy "))
            .count();
        assert!(short.starts_with("Says what keeps"), "{short}");
        assert!(examples >= 5, "{short}");
        let long = command.render_long_help().to_string();
        for text in ["SyncPerf", "0..1", "Cost:", "[default: 0.1]", "Exit status"] {
            assert!(long.contains(text), "{text}: {long}");
        }
    }
}
