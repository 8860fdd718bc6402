//! Exports of real recordings, read by other people's parsers, and comparisons of two builds of a program.

mod diff;
mod formats;

use std::process::ExitCode;

use convoy_harness::case;

fn main() -> ExitCode {
    let mut trials = formats::trials();
    trials.extend(diff::trials());
    case::run(trials).exit_code()
}
