//! Arguments of `convoy replay`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::output_args::Shape;
use crate::recording::Recording;
use crate::threshold_args::Limits;

/// `convoy replay`.
#[derive(Debug, Args)]
#[command(override_usage = "convoy replay [OPTIONS] [PROFILE]...\n       \
    convoy replay [OPTIONS] -- COMMAND [ARGUMENT]...")]
pub struct Replay {
    /// Profiles with a trace; several recordings of one program are compared
    ///
    /// `convoy record --trace` writes them. Without one, and without a command, the newest *.convoy
    /// file of this directory.
    #[arg(value_name = "PROFILE")]
    pub profiles: Vec<PathBuf>,

    /// A change of the program: 'remove L', 'L / 8', 'rwlock L', 'shorten L 50%', joined by ' + '
    ///
    /// docs/replay.md has all of them. Without one the locks of most waits are asked about.
    #[arg(long, value_name = "QUERY")]
    pub what_if: Vec<String>,

    /// Numbers of CPUs to replay on: 8, or 1..64
    #[arg(long, value_name = "RANGE", value_parser = range)]
    pub cpus: Option<Range>,

    /// Numbers of threads of a group to replay with: workers=1..64
    #[arg(long, value_name = "GROUP=RANGE", value_parser = group_range)]
    pub threads: Option<(String, Range)>,

    /// The order in which locks are acquired in the replay
    #[arg(long, value_enum, default_value_t = Schedule::Orig)]
    pub schedule: Schedule,

    /// Repetitions of each replay
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub times: u32,

    /// Do not replay natively: no process is started, and the answer is the simulator's alone
    #[arg(long)]
    pub simulate_only: bool,

    /// Most time for all native replays together
    ///
    /// Seconds. Those of the recorded run come first, what-ifs in their order; what is not done by
    /// then rests on the simulated replay alone. A busy machine, or a long run with many what-ifs,
    /// takes more.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub native_limit: u32,

    /// A profile of `convoy diagnose` of the same program: what its critical sections read and write
    #[arg(long, value_name = "PROFILE")]
    pub sections: Option<PathBuf>,

    /// Do not run the command a second time to see what its critical sections read and write
    #[arg(long)]
    pub no_sections: bool,

    /// Print a table of the paper (CGO'15): 1, 2 or 3
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub table: Option<u8>,

    /// Print a figure of the paper as a table: 2, 13 to 16 or 19
    #[arg(long, value_name = "NUMBER", conflicts_with = "table",
          value_parser = clap::value_parser!(u8).range(2..=19))]
    pub figure: Option<u8>,

    /// Show the source of every region, line by line
    #[arg(long, conflicts_with_all = ["table", "figure"])]
    pub source: bool,

    /// Everything: all rows of all tables
    #[arg(long, conflicts_with_all = ["table", "figure", "source"])]
    pub all: bool,

    /// The fixed program: it is measured against the recorded one in interleaved pairs
    ///
    /// Everything behind it is its command.
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub verify: Vec<OsString>,

    /// Also keep the profile of the timing run in a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report to this file instead of standard error (of a profile: standard output)
    #[arg(long, value_name = "FILE")]
    pub report_to: Option<PathBuf>,

    /// Write a page with pictures to this file: both runs, regions, what-ifs
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub shape: Shape,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub limits: Limits,

    /// Command to run and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,

    /// Say nothing but the report and errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// The order in which locks are acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Schedule {
    /// Whoever comes first
    Orig,
    /// As recorded
    Elsc,
    /// By deterministic logical time (Kendo, ASPLOS'09)
    Sync,
    /// A total order of the accesses to shared memory
    Mem,
}

/// Numbers from `first` to `last`, by factors of two where there are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: u32,
    last: u32,
}

/// Numbers up to this one are all replayed; beyond it, powers of two.
const EACH_UP_TO: u32 = 4;

impl Range {
    /// The numbers to replay with.
    pub fn numbers(self) -> Vec<u32> {
        let inside = |n: &u32| (self.first..=self.last).contains(n);
        let each = 1..=EACH_UP_TO;
        let doubled = (0..16).map(|i| EACH_UP_TO << i);
        let mut all: Vec<u32> = each.chain(doubled).filter(inside).collect();
        all.extend([self.first, self.last]);
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn range(text: &str) -> Result<Range, String> {
    let usage = || "give a number, or two: 8, or 1..64; at most 1024".to_owned();
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| {
        let n: u32 = text.trim().parse().map_err(|_| usage())?;
        (1..=1024).contains(&n).then_some(n).ok_or_else(usage)
    };
    let (first, last) = (number(first)?, number(last)?);
    (first <= last)
        .then_some(Range { first, last })
        .ok_or_else(usage)
}

fn group_range(text: &str) -> Result<(String, Range), String> {
    let usage = "give a thread group and its numbers: workers=1..64";
    let (group, numbers) = text.split_once('=').ok_or(usage)?;
    if group.is_empty() {
        return Err(usage.into());
    }
    Ok((group.to_owned(), range(numbers)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;

    fn parse(words: &[&str]) -> Replay {
        match Cli::try_parse_from(words).map(|cli| cli.verb) {
            Ok(Some(Verb::Replay(replay))) => *replay,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn profiles_and_a_command_are_told_apart_by_two_dashes() {
        let args = parse(&["convoy", "replay", "a.convoy", "b.convoy", "--times", "10"]);
        assert_eq!((args.profiles.len(), args.times), (2, 10));
        assert!(args.command.is_empty());
        let args = parse(&["convoy", "replay", "--", "./a", "--threads", "16"]);
        assert!(args.profiles.is_empty());
        assert_eq!(args.command, ["./a", "--threads", "16"]);
    }

    #[test]
    fn the_fixed_program_takes_all_that_follows() {
        let args = parse(&[
            "convoy",
            "replay",
            "run.convoy",
            "--verify",
            "./fixed",
            "--threads",
            "16",
        ]);
        assert_eq!(args.verify, ["./fixed", "--threads", "16"]);
        assert_eq!(args.threads, None);
    }

    #[test]
    fn ranges_are_every_small_number_and_then_powers_of_two() {
        assert_eq!(
            range("1..64").unwrap().numbers(),
            [1, 2, 3, 4, 8, 16, 32, 64]
        );
        assert_eq!(range("6..24").unwrap().numbers(), [6, 8, 16, 24]);
        assert_eq!(range("3").unwrap().numbers(), [3]);
        for text in ["", "0", "4..2", "1..2000", "a", "1..", "..4"] {
            assert!(range(text).is_err(), "{text}");
        }
        let (group, numbers) = group_range("workers=1..2").unwrap();
        assert_eq!((group.as_str(), numbers.numbers()), ("workers", vec![1, 2]));
        assert!(group_range("=1").is_err() && group_range("workers").is_err());
    }
}
