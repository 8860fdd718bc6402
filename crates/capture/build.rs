//! Compiles the agent and the BPF programs with the system's C compilers, so that one `cargo build` gives one
//! file.
//!
//! `CC` names the compiler of the agent, `CLANG` that of the BPF programs. `CONVOY_AGENT` names a ready
//! libconvoy.so to embed instead, `CONVOY_AGENT_DIAGNOSE` a libconvoy-diagnose.so, `CONVOY_AGENT_EVENTS` a
//! libconvoy-events.so, `CONVOY_AGENT_CAUSAL` a libconvoy-causal.so, `CONVOY_BPF` a ready object of
//! the BPF programs (for packagers who build them elsewhere, e.g. against an older C library or
//! without clang).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "build/agent.rs"]
mod agent;
#[path = "build/bpf.rs"]
mod bpf;

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed={}", root.join("abi").display());
    agent::build(&root, &out, &agent::NORMAL);
    agent::build(&root, &out, &agent::TRACING);
    agent::build(&root, &out, &agent::EVENTS);
    agent::build(&root, &out, &agent::CAUSAL);
    bpf::build(&root, &out.join("convoy.bpf.o"));
}

/// Copies the file that a variable names, if it is set.
fn ready(variable: &str, to: &Path) -> bool {
    println!("cargo::rerun-if-env-changed={variable}");
    let Some(ready) = env::var_os(variable) else {
        return false;
    };
    let ready = Path::new(&ready);
    println!("cargo::rerun-if-changed={}", ready.display());
    std::fs::copy(ready, to).unwrap_or_else(|e| panic!("{variable}={}: {e}", ready.display()));
    true
}

fn run(mut command: Command, needs: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(e) => panic!("{command:?}: {e} (building needs {needs})"),
    }
}
