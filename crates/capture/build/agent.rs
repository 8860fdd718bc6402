//! The agent, by the system's C compiler: as it is, with the tracer of critical sections, with the
//! recorder of events, and with causal experiments.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run;

/// A build of the agent.
pub struct Agent {
    /// Names a ready library instead.
    ready: &'static str,
    soname: &'static str,
    /// What it has besides.
    part: Part,
}

/// What a build of the agent has that the normal one lacks.
#[derive(PartialEq)]
enum Part {
    None,
    /// Looks into critical sections.
    Tracing,
    /// Records events in time order.
    Events,
    /// Lengthens code.
    Causal,
}

/// Loaded by nearly everything.
pub const NORMAL: Agent = Agent {
    ready: "CONVOY_AGENT",
    soname: "libconvoy.so",
    part: Part::None,
};

/// Loaded by `convoy diagnose`.
pub const TRACING: Agent = Agent {
    ready: "CONVOY_AGENT_DIAGNOSE",
    soname: "libconvoy-diagnose.so",
    part: Part::Tracing,
};

/// Loaded for `--trace`.
pub const EVENTS: Agent = Agent {
    ready: "CONVOY_AGENT_EVENTS",
    soname: "libconvoy-events.so",
    part: Part::Events,
};

/// Loaded by `convoy causal`.
pub const CAUSAL: Agent = Agent {
    ready: "CONVOY_AGENT_CAUSAL",
    soname: "libconvoy-causal.so",
    part: Part::Causal,
};

/// Compiles it into this folder, or copies a ready one.
pub fn build(root: &Path, out: &Path, which: &Agent) {
    println!("cargo::rerun-if-changed={}", root.join("agent").display());
    let agent = out.join(which.soname);
    if super::ready(which.ready, &agent) {
        return;
    }
    println!("cargo::rerun-if-env-changed=CC");
    let translator = (which.part == Part::Tracing).then(|| translator(root, out));
    compile(root, &agent, which, translator.as_deref());
    separate_debug(&agent);
}

fn compile(root: &Path, agent: &Path, which: &Agent, translator: Option<&Path>) {
    let compiler = env::var_os("CC").unwrap_or_else(|| "gcc".into());
    let mut command = Command::new(&compiler);
    command.args([
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
    ]);
    command.args([
        "-fexceptions",
        "-ftls-model=initial-exec",
        "-Wall",
        "-Wextra",
        "-Wvla",
    ]);
    // A compiler newer than ours may know new warnings: they must not break a release build.
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        command.arg("-Werror");
    }
    command.args(["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,noexecstack"]);
    command.arg(format!("-Wl,-soname,{}", which.soname));
    command.arg(format!(
        "-Wl,--version-script={}",
        root.join("agent/exports.map").display()
    ));
    command.arg("-I").arg(root.join("abi"));
    let folder = root.join("agent/src");
    command.args(sources(&folder));
    if which.part == Part::Events {
        command.arg("-DCV_EVENTS");
        command.args(sources(&folder.join("events")));
    }
    if which.part == Part::Causal {
        command.arg("-DCV_EXPERIMENTS");
        command.args(sources(&folder.join("causal")));
    }
    if let Some(translator) = translator {
        command.arg("-DCV_TRACING");
        command.args(sources(&folder.join("tracing")));
        // Of the library only what is called stays, and none of it can be seen from outside.
        command.args(["-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"]);
        command.arg(translator);
    }
    command.arg("-o").arg(agent);
    run(command, "gcc and binutils");
}

/// The translator as a static library: the command is documented in its crate. A build of its own, since
/// it is made without the standard library.
fn translator(root: &Path, out: &Path) -> PathBuf {
    let source = root.join("crates/translate");
    for part in ["src", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", source.join(part).display());
    }
    let target = out.join("translate");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args([
        "rustc",
        "-p",
        "convoy-translate",
        "--lib",
        "--crate-type",
        "staticlib",
        "--no-default-features",
        "--features",
        "agent",
        "--profile",
        "agent",
        "--locked",
        "--target-dir",
    ]);
    command.arg(&target);
    // What the outer build set for itself.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let outer = ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS"];
        if outer.contains(&&*name) || name == "CARGO_ENCODED_RUSTFLAGS" || name == "CLIPPY_ARGS" {
            command.env_remove(&*name);
        }
    }
    run(command, "cargo");
    target.join("agent/libconvoy_translate.a")
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| {
            entry
                .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
                .path()
        })
        .filter(|path| path.extension().is_some_and(|x| x == "c" || x == "S"))
        .collect();
    files.sort(); // the same order everywhere: the same bytes everywhere
    files
}

/// Debug information would be most of the file; it stays in the build directory for developers.
fn separate_debug(agent: &Path) {
    let debug = agent.with_extension("so.debug");
    let mut command = Command::new("objcopy");
    command.arg("--only-keep-debug").arg(agent).arg(&debug);
    run(command, "gcc and binutils");
    let mut command = Command::new("objcopy");
    command.arg("--strip-unneeded").arg(agent);
    run(command, "gcc and binutils");
}
