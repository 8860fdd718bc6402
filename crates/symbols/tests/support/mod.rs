//! Builds fixtures, asks binutils what it thinks of them, and makes processes that hold their addresses.

#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_profile::{Frame, Module, Object, ObjectKind, Process, Reason, Symbol};

/// Runs a tool; panics with its words if it fails.
pub fn run(tool: &str, args: &[&str]) -> String {
    let out = Command::new(tool)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{tool}: {e}; install it to run this test"));
    assert!(
        out.status.success(),
        "{tool} {args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("tools print UTF-8")
}

/// A path as text, for command lines.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Path of a fixture's source.
pub fn source(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a fixture with the compiler that its name asks for.
pub fn build(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let out = dir.join(name.split('.').next().expect("a name"));
    let compiler = match name.rsplit('.').next() {
        Some("c") => "gcc",
        Some("cc") => "g++",
        Some("go") => "go",
        _ => "rustc",
    };
    let source = source(name);
    let mut args = flags.to_vec();
    if compiler == "go" {
        args.insert(0, "build");
    }
    args.extend(["-o", text(&out), &source]);
    if compiler.starts_with('g') && compiler != "go" {
        args.push("-pthread");
    }
    run(compiler, &args);
    out
}

/// The build-id, as the kernel maps it.
pub fn build_id(file: &Path) -> Vec<u8> {
    let notes = run("readelf", &["-n", text(file)]);
    let hex = notes
        .lines()
        .find_map(|l| l.trim().strip_prefix("Build ID: "))
        .unwrap_or_default();
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

/// One symbol of `nm -S`: value, size, kind, demangled name.
pub struct Nm {
    pub value: u64,
    pub size: u64,
    pub kind: char,
    pub name: String,
}

/// The sized symbols of a file.
pub fn nm(file: &Path) -> Vec<Nm> {
    run("nm", &["-S", "-C", "--defined-only", text(file)])
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(4, ' ');
            let value = u64::from_str_radix(parts.next()?, 16).ok()?;
            let size = u64::from_str_radix(parts.next()?, 16).ok()?;
            let kind = parts.next()?.chars().next()?;
            Some(Nm {
                value,
                size,
                kind,
                name: parts.next()?.to_owned(),
            })
        })
        .collect()
}

/// Addresses spread over all functions of a file: at most `max` of them.
pub fn code_addresses(file: &Path, max: usize) -> Vec<u64> {
    let functions: Vec<Nm> = nm(file)
        .into_iter()
        .filter(|s| "tTwWi".contains(s.kind) && s.size > 0)
        .collect();
    let bytes: u64 = functions.iter().map(|s| s.size).sum();
    let step = (bytes / max as u64).max(1);
    let mut out: Vec<u64> = functions
        .iter()
        .flat_map(|s| (s.value..s.value + s.size).step_by(step as usize))
        .collect();
    out.sort_unstable();
    out.dedup();
    assert!(out.len() > 5, "{} has code", file.display());
    out
}

/// Load bias of every process made here: nothing may depend on it being zero.
pub const BIAS: u64 = 0x5555_0000_0000;

/// A process that has `file` mapped as `path`.
pub fn process(file: &Path, path: &str) -> Process {
    let module = Module {
        path: path.to_owned(),
        build_id: build_id(file),
        bias: BIAS,
        lo: BIAS,
        hi: BIAS + (1 << 30),
        symbols: String::new(),
    };
    Process {
        pid: 1,
        modules: vec![module],
        ..Process::default()
    }
}

/// Adds the address as an exact frame of module 0.
pub fn add_exact(process: &mut Process, address: u64) {
    process.frames.push(frame(address, true));
}

/// Adds the return address of a call that ends at `address`.
pub fn add_return(process: &mut Process, address: u64) {
    process.frames.push(frame(address, false));
}

fn frame(address: u64, exact: bool) -> Frame {
    Frame {
        pc: BIAS + address,
        module: Some(0),
        offset: address,
        exact,
        no_rule: false,
        symbol: Symbol::Unknown(Reason::NotResolved),
    }
}

/// Adds a mutex at `address` of module 0.
pub fn add_mutex(process: &mut Process, address: u64) {
    process.objects.push(Object {
        addr: BIAS + address,
        kind: ObjectKind::Mutex,
        module: Some(0),
        ..Object::default()
    });
}

/// One inlined or real function as a line of text: `function file:line`.
pub type Level = (String, String);

/// What binutils says: for each address its functions, innermost first.
pub fn oracle(file: &Path, addresses: &[u64]) -> Vec<Vec<Level>> {
    let mut out = Vec::new();
    for chunk in addresses.chunks(500) {
        let hex: Vec<String> = chunk.iter().map(|a| format!("{a:#x}")).collect();
        let mut args = vec!["-a", "-i", "-f", "-C", "-e", text(file)];
        args.extend(hex.iter().map(String::as_str));
        let said = run("addr2line", &args);
        let mut lines = said.lines().peekable();
        while let Some(address) = lines.next() {
            assert!(address.starts_with("0x"), "{address}");
            let mut levels = Vec::new();
            while let Some(function) = lines.next_if(|l| !l.starts_with("0x")) {
                let at = lines.next().expect("a line for each function");
                let at = at.split(" (discriminator").next().unwrap_or(at);
                levels.push((function.to_owned(), at.to_owned()));
            }
            out.push(levels);
        }
    }
    out
}

/// What Convoy says, in the same form.
pub fn levels(symbol: &Symbol) -> Vec<Level> {
    match symbol {
        Symbol::Unknown(reason) => vec![(format!("{reason:?}"), String::new())],
        Symbol::Known(locations) => locations
            .iter()
            .map(|l| {
                let file = l.file.as_deref().unwrap_or("??");
                let line = l.line.map_or("?".to_owned(), |l| l.to_string());
                (l.function.clone(), format!("{file}:{line}"))
            })
            .collect(),
    }
}

/// The functions of a symbol, innermost first; empty when it has no name.
pub fn functions(symbol: &Symbol) -> Vec<&str> {
    match symbol {
        Symbol::Known(locations) => locations.iter().map(|l| l.function.as_str()).collect(),
        Symbol::Unknown(_) => Vec::new(),
    }
}
