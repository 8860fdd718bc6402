//! The static library and the test program, built once.

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        out.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The static library, as the build of the agent makes it.
pub fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-build");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root());
    cargo.args([
        "rustc",
        "-q",
        "--locked",
        "-p",
        "convoy-translate",
        "--lib",
        "--crate-type",
        "staticlib",
    ]);
    cargo.args([
        "--no-default-features",
        "--features",
        "agent",
        "--profile",
        "agent",
    ]);
    cargo.arg("--target-dir").arg(&target);
    run(&mut cargo);
    target.join("agent/libconvoy_translate.a")
}

fn compile(name: &str, source: &str) -> PathBuf {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{source}.o"));
    let mut compiler = Command::new(if source.ends_with(".cpp") {
        "g++"
    } else {
        "gcc"
    });
    compiler.args([
        "-g",
        "-O2",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-D_GNU_SOURCE",
        "-c",
    ]);
    compiler
        .arg("-I")
        .arg(root().join("abi"))
        .arg("-I")
        .arg(root().join("agent/src"));
    compiler.arg(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/host")
            .join(source),
    );
    compiler.arg("-o").arg(&object);
    run(&mut compiler);
    object
}

/// A test program: what plays the agent, and a library of what it runs, which gets the C library's functions and not
/// the translator's own.
pub fn program(name: &str, host: &[&str], cases: &[&str], libraries: &[&str]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, shared) = (dir.join(name), dir.join(format!("lib{name}.so")));
    let mut linker = Command::new("g++");
    linker
        .arg("-shared")
        .args(cases.iter().map(|source| compile(name, source)));
    linker.arg("-o").arg(&shared).args(libraries);
    run(&mut linker);
    let mut linker = Command::new("g++");
    linker
        .args(host.iter().map(|source| compile(name, source)))
        .arg(library());
    linker.arg(&shared).arg("-o").arg(&program);
    linker.args(["-rdynamic", "-Wl,--gc-sections", "-lpthread"]);
    linker.arg(format!("-Wl,-rpath,{}", dir.display()));
    run(&mut linker);
    program
}
