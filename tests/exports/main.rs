//! Exports of real recordings and what `convoy serve` serves, read by other people's parsers, and
//! comparisons of two builds of a program.

mod diff;
mod formats;
mod profiles;
mod serve;

use std::process::ExitCode;

use convoy_harness::case;

fn main() -> ExitCode {
    let mut trials = formats::trials();
    trials.extend(diff::trials());
    trials.extend(profiles::trials());
    trials.extend(serve::trials());
    case::run(trials).exit_code()
}
