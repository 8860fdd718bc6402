//! Nasty programs, bare and recorded: same output, same status, and nothing lost.

mod attach;
mod attach_hazards;
mod files;
mod live_agent;
mod scheduler;
mod table;
mod tracing;
mod tty;
mod unloadable;

use std::process::ExitCode;

use convoy_harness::case;

fn main() -> ExitCode {
    let mut trials = match table::trials() {
        Ok(trials) => trials,
        Err(message) => {
            eprintln!("tests/robustness/cases.toml: {message}");
            return ExitCode::FAILURE;
        }
    };
    trials.extend(files::trials());
    trials.extend(tty::trials());
    trials.extend(scheduler::trials());
    trials.extend(attach::trials());
    trials.extend(live_agent::trials());
    trials.extend(attach_hazards::trials());
    trials.extend(tracing::trials());
    trials.extend(unloadable::trials());
    case::run(trials).exit_code()
}
