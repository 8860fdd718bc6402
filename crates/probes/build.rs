//! Compiles what a probe runs in the probed process (runtime/), into plain bytes.
//!
//! `CC` names the compiler.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};

const SOURCE: &str = "runtime/runtime.c";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=runtime");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let is_native = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let text = match is_native {
        true => embedded(&compile(&out)),
        false => "const CODE: &[u8] = &[];\nconst ENTER: u64 = 0;\nconst EXIT: u64 = 0;\n".into(),
    };
    std::fs::write(out.join("runtime.rs"), text).expect("the build directory can be written");
}

fn compile(out: &Path) -> Vec<u8> {
    let object = out.join("runtime.o");
    let mut command = Command::new(env::var_os("CC").unwrap_or_else(|| "gcc".into()));
    command.args(["-std=gnu11", "-O2", "-ffreestanding", "-fPIC", "-c", SOURCE]);
    // It runs between any two instructions of a program: no vector register, no red zone.
    command.args([
        "-mgeneral-regs-only",
        "-mno-red-zone",
        "-fno-stack-protector",
    ]);
    // One section without data or relocations.
    command.args([
        "-fno-jump-tables",
        "-fno-asynchronous-unwind-tables",
        "-fcf-protection=none",
    ]);
    command.args([
        "-fno-builtin",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]);
    let output = command.arg("-o").arg(&object).output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e} (building needs gcc)"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
    std::fs::read(object).expect("the compiler has written it")
}

/// Rust source with the code and the offsets of its two functions.
fn embedded(object: &[u8]) -> String {
    let file = object::File::parse(object).expect("an ELF file");
    let mut code = None;
    for section in file.sections() {
        let is_loaded = section.kind() == object::SectionKind::Text
            || section.kind() == object::SectionKind::Data
            || section.kind() == object::SectionKind::ReadOnlyData
            || section.kind() == object::SectionKind::UninitializedData;
        if !is_loaded || section.size() == 0 {
            continue;
        }
        let name = section.name().unwrap_or_default();
        assert!(
            section.relocations().next().is_none() && code.is_none(),
            "{SOURCE}: section {name}: only one section is embedded, and none is relocated"
        );
        code = Some(section);
    }
    let code = code.expect("code");
    let offset = |name: &str| {
        let mut symbols = file.symbols();
        let symbol = symbols.find(|s| s.name() == Ok(name));
        symbol
            .unwrap_or_else(|| panic!("{SOURCE}: no {name}"))
            .address()
    };
    let mut text = String::new();
    let bytes = code.data().expect("bytes");
    let _ = writeln!(text, "const CODE: &[u8] = &{bytes:?};");
    let _ = writeln!(text, "const ENTER: u64 = {};", offset("probe_enter"));
    let _ = writeln!(text, "const EXIT: u64 = {};", offset("probe_exit"));
    text
}
