//! The agent, by the system's C compiler.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run;

/// Compiles it to this file, or copies a ready one.
pub fn build(root: &Path, agent: &Path) {
    println!("cargo::rerun-if-changed={}", root.join("agent").display());
    if super::ready("CONVOY_AGENT", agent) {
        return;
    }
    println!("cargo::rerun-if-env-changed=CC");
    compile(root, agent);
    separate_debug(agent);
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
    run(command, "gcc and binutils");
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
