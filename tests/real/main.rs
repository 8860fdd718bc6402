//! Programs as a distribution ships them, bare and recorded under the same load: they must do the
//! same work, nothing of what was recorded may be lost, and the report must have the right locks.

mod batch;
mod compressors;
mod databases;
mod machine;
mod runtimes;
mod sections;
mod server;
mod servers;
mod small;
mod sqlite;
mod twice;
mod verdict;

use std::process::ExitCode;

use convoy_harness::case;

fn main() -> ExitCode {
    let trials = [
        sqlite::trials(),
        compressors::trials(),
        servers::trials(),
        databases::trials(),
        runtimes::trials(),
        small::trials(),
        batch::trials(),
        sections::trials(),
    ];
    case::run(trials.into_iter().flatten().collect()).exit_code()
}
