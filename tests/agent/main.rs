//! The agent keeps its own rules: it exports what its map says, needs nothing that may allocate, print
//! or lock, and never enters the program's allocator from a hook.

mod library;

use std::process::ExitCode;

use convoy_harness::case::{self, trial};
use convoy_harness::needs::missing;
use library::Build;

fn main() -> ExitCode {
    let nm = || missing(&["nm".to_owned()]);
    let mut trials = Vec::new();
    for (build, suffix) in [
        (Build::Normal, ""),
        (Build::Tracing, "/diagnose"),
        (Build::Events, "/events"),
        (Build::Causal, "/causal"),
    ] {
        trials.push(trial(format!("exports{suffix}"), nm(), move |_| {
            library::exports_are_the_map(build)
        }));
        trials.push(trial(format!("imports{suffix}"), nm(), move |_| {
            library::imports_are_allowed(build)
        }));
        let name = format!("malloc-in-hook{suffix}");
        trials.push(trial(name, None, move |scratch| {
            library::no_allocation_in_a_hook(build, scratch)
        }));
    }
    for (build, suffix) in [
        (Build::Normal, ""),
        (Build::Events, "/events"),
        (Build::Causal, "/causal"),
    ] {
        trials.push(trial(format!("static-tls{suffix}"), nm(), move |_| {
            library::static_tls_is_small(build)
        }));
    }
    case::run(trials).exit_code()
}
