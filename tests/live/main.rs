//! Fixture programs under a real recording: the right finding, the right place, exact counts, and no
//! finding once the program is fixed.

mod attach;
mod causal;
mod coverage;
mod diagnose;
mod expect;
mod finding;
mod fixture;
mod gain;
mod gates;
mod launch;
mod laws;
mod metrics;
mod perf_sched;
mod phases;
mod replay;
mod search;
mod sessions;
mod terminal;
mod top;
mod trace;
mod trial;

use std::process::ExitCode;

use convoy_harness::case;

fn main() -> ExitCode {
    let fixtures = match expect::all() {
        Ok(fixtures) => fixtures,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = vec![expect::every_finding_has_a_fixture(&fixtures)];
    for fixture in fixtures {
        trials.extend(fixture::trials(&fixture));
        trials.extend(replay::trials(&fixture));
    }
    trials.push(replay::of_the_command());
    trials.extend(causal::trials());
    trials.extend(coverage::trials());
    trials.extend(diagnose::trials());
    trials.extend(gates::trials());
    trials.extend(metrics::trials());
    trials.extend(phases::trials());
    trials.extend(perf_sched::trials());
    trials.extend(search::trials());
    trials.extend(sessions::trials());
    trials.extend(terminal::trials());
    trials.extend(top::trials());
    trials.extend(trace::trials());
    trials.extend(trial::trials());
    case::run(trials).exit_code()
}
