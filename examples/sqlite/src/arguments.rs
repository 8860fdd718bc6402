//! The command line.

use std::time::Duration;

const USAGE: &str =
    "usage: sqlite-threads [--threads N] [--operations N | --seconds S] [--one-transaction] [--no-memstatus]
  --threads N       threads, each with a database of its own (4)
  --operations N    inserts and selects of each thread (400000)
  --seconds S       run for this long instead
  --one-transaction everything in one transaction, instead of one for each statement
  --no-memstatus    switch SQLite's memory statistics off before anything else";

/// When each thread stops.
enum Until {
    Operations(u64),
    Elapsed(Duration),
}

/// What was asked for.
pub struct Arguments {
    /// How many threads.
    pub threads: usize,
    /// Whether SQLite keeps its memory statistics, as it does unless told otherwise.
    pub memstatus: bool,
    /// Whether each thread does all of its work in one transaction.
    pub one_transaction: bool,
    until: Until,
}

impl Arguments {
    /// Reads the arguments after the program's name.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            threads: 4,
            memstatus: true,
            one_transaction: false,
            until: Until::Operations(400_000),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_default();
            match word.as_str() {
                "--threads" => arguments.threads = positive(&word, &value())?,
                "--operations" => arguments.until = Until::Operations(positive(&word, &value())?),
                "--seconds" => {
                    let seconds: f64 = positive(&word, &value())?;
                    arguments.until = Until::Elapsed(Duration::from_secs_f64(seconds));
                }
                "--one-transaction" => arguments.one_transaction = true,
                "--no-memstatus" => arguments.memstatus = false,
                _ => return Err(format!("{word}: no such option\n{USAGE}")),
            }
        }
        Ok(arguments)
    }

    /// Whether a thread that did so much for so long may stop.
    pub fn is_done(&self, operations: u64, elapsed: Duration) -> bool {
        match self.until {
            Until::Operations(wanted) => operations >= wanted,
            Until::Elapsed(wanted) => elapsed >= wanted,
        }
    }
}

fn positive<T: std::str::FromStr + PartialOrd + From<u8>>(
    option: &str,
    value: &str,
) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| format!("{option}: found {value:?}, wanted a number from 1\n{USAGE}"))
}
