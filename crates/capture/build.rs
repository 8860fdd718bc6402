//! Compiles the agent with the system's C compiler, so that one `cargo build` gives one file.
//!
//! `CC` names the compiler. `CONVOY_AGENT` names a ready libconvoy.so to embed instead (for packagers
//! who build the agent elsewhere, e.g. against an older C library).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    let agent = out.join("libconvoy.so");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", root.join("agent").display());
    println!("cargo::rerun-if-changed={}", root.join("abi").display());
    for variable in ["CC", "CONVOY_AGENT"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }

    if let Some(ready) = env::var_os("CONVOY_AGENT") {
        println!("cargo::rerun-if-changed={}", Path::new(&ready).display());
        std::fs::copy(&ready, &agent).unwrap_or_else(|e| {
            panic!("CONVOY_AGENT={}: {e}", Path::new(&ready).display());
        });
        return;
    }
    compile(&root, &agent);
    separate_debug(&agent);
}

fn compile(root: &Path, agent: &Path) {
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
    command.args([
        "-Wl,-z,now",
        "-Wl,-z,relro",
        "-Wl,-z,noexecstack",
        "-Wl,-soname,libconvoy.so",
    ]);
    command.arg(format!(
        "-Wl,--version-script={}",
        root.join("agent/exports.map").display()
    ));
    command.arg("-I").arg(root.join("abi"));
    command.args(sources(&root.join("agent/src")));
    command.arg("-o").arg(agent);
    run(command);
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
    run(command);
    let mut command = Command::new("objcopy");
    command.arg("--strip-unneeded").arg(agent);
    run(command);
}

fn run(mut command: Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(e) => panic!("{command:?}: {e} (building needs gcc and binutils)"),
    }
}
