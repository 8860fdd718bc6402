//! The agent keeps its own rules: it exports what its map says, needs nothing that may allocate, print
//! or lock, and never enters the program's allocator from a hook.

mod library;

use std::process::ExitCode;

use convoy_harness::case::{self, trial};
use convoy_harness::needs::missing;

fn main() -> ExitCode {
    let nm = || missing(&["nm".to_owned()]);
    let trials = vec![
        trial("exports", nm(), |_| library::exports_are_the_map()),
        trial("imports", nm(), |_| library::imports_are_allowed()),
        trial("static-tls", missing(&["nm".to_owned()]), |_| {
            library::static_tls_is_small()
        }),
        trial("malloc-in-hook", None, library::no_allocation_in_a_hook),
    ];
    case::run(trials).exit_code()
}
