//! The BPF programs, by clang: the one compiler in distributions that has that target.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::run;

/// Compiles them to this file, or copies a ready one.
pub fn build(root: &Path, object: &Path) {
    let sources = root.join("bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    if super::ready("CONVOY_BPF", object) {
        return;
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // Told by the build script of libbpf-sys, which unpacks them.
    let libbpf_headers = env::var_os("DEP_BPF_INCLUDE").expect("set by libbpf-sys");
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("the BPF programs do not know the registers of {other:?}"),
    };

    let mut command = Command::new(&clang);
    // Version 3 of the instruction set has the atomics; -g makes the type information for CO-RE.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-ffreestanding"]);
    command.args(["-Wall", "-Wextra"]);
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        command.arg("-Werror");
    }
    command.arg(format!("-D__TARGET_ARCH_{architecture}"));
    command.arg("-I").arg(root.join("abi"));
    command.arg("-I").arg(&sources);
    command.arg("-isystem").arg(libbpf_headers);
    command.arg("-c").arg(sources.join("convoy.bpf.c"));
    command.arg("-o").arg(object);
    run(command, "clang, or a ready object named by CONVOY_BPF");
    strip(&clang, object);
}

/// Leaves the type information and takes the debug information, which is most of the file. Not needed to
/// work, so a machine without the tool builds, too.
fn strip(clang: &OsString, object: &Path) {
    let versioned = clang.to_string_lossy().replace("clang", "llvm-strip");
    for tool in [versioned.as_str(), "llvm-strip"] {
        let mut command = Command::new(tool);
        command.arg("-g").arg(object);
        if command.output().is_ok_and(|output| output.status.success()) {
            return;
        }
    }
}
