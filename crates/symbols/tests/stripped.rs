//! What is known of libraries whose names were stripped.

mod support;

use std::path::{Path, PathBuf};

use convoy_profile::{Frame, Module, Process, Reason, Symbol};
use convoy_symbols::{resolve, Options};
use support::*;

fn libc_file() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("/libc.so"));
    path.expect("the tests are linked with it").into()
}

/// Its symbols in the debug file of package libc6-dbg.
fn libc_symbols(libc: &Path) -> Vec<Nm> {
    let id: String = build_id(libc).iter().map(|b| format!("{b:02x}")).collect();
    let file = format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    nm(Path::new(&file))
}

/// As on a machine without debug files.
fn without_debug_files() -> Options {
    Options {
        debug_roots: Vec::new(),
        ..Options::default()
    }
}

#[test]
fn glibcs_own_locks_are_known_by_their_instructions_and_nothing_else_is() {
    let libc = libc_file();
    let symbols = libc_symbols(&libc);
    let functions: Vec<&Nm> = symbols
        .iter()
        .filter(|s| s.kind == 't' && s.size > 4)
        .collect();
    assert!(functions.len() > 1000, "libc6-dbg has local functions");
    let mut process = process(&libc, text(&libc));
    for function in &functions {
        add_exact(&mut process, function.value + 4);
    }
    resolve(&mut process, &without_debug_files());
    let mut found = Vec::new();
    for (function, frame) in functions.iter().zip(&process.frames) {
        let names = support::functions(&frame.symbol);
        let is = function.name.trim_start_matches("__GI_");
        if let "__lll_lock_wait" | "__lll_lock_wake" = is {
            assert_eq!(names, [is]);
            found.push(is);
        } else {
            let lock = names.iter().any(|name| name.starts_with("__lll_lock_w"));
            assert!(!lock || is.starts_with(names[0]), "{is} is not {names:?}");
        }
    }
    for name in ["__lll_lock_wait", "__lll_lock_wake"] {
        assert!(found.contains(&name), "{name} is a local function here");
    }
}

/// The return addresses of the calls in `main()`, by what objdump says is called.
fn calls(program: &Path) -> Vec<(String, u64)> {
    let listing = run("objdump", &["-d", "--no-show-raw-insn", text(program)]);
    let main = listing.split("<main>:").nth(1).expect("there is a main()");
    let lines: Vec<&str> = main
        .lines()
        .skip(1)
        .take_while(|l| !l.trim().is_empty())
        .collect();
    let calls = lines.windows(2).filter(|pair| pair[0].contains("call"));
    calls
        .map(|pair| {
            let back = pair[1].trim().split(':').next().expect("an address");
            let back = u64::from_str_radix(back, 16).expect("hexadecimal");
            (pair[0].to_owned(), back)
        })
        .collect()
}

/// A stack: code of libc without a name, called by the program.
fn called(program: &Path, back: &[u64]) -> Process {
    let mut process = process(program, text(program));
    let libc = libc_file();
    process.modules.push(Module {
        path: text(&libc).to_owned(),
        build_id: build_id(&libc),
        bias: 1 << 40,
        lo: 1 << 40,
        hi: (1 << 40) + (1 << 30),
        symbols: String::new(),
    });
    let symbols = libc_symbols(&libc);
    let hidden = symbols.iter().find(|s| s.name == "__tz_convert");
    let offset = hidden.expect("libc6-dbg names it").value;
    process.frames.push(Frame {
        pc: (1 << 40) + offset,
        module: Some(1),
        offset,
        exact: true,
        no_rule: false,
        symbol: Symbol::Unknown(Reason::NotResolved),
    });
    for (ix, &back) in (1..).zip(back) {
        add_return(&mut process, back);
        process.stacks.push(vec![0, ix]);
    }
    process
}

#[test]
fn a_function_without_a_name_is_called_what_its_callers_call() {
    for flags in [
        &["-O2"][..],
        &["-O2", "-fno-plt"],
        &["-O2", "-fcf-protection"],
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let program = build(dir.path(), "calls.c", flags);
        let calls = calls(&program);
        run("strip", &[text(&program)]);
        let name = |back: &[u64]| {
            let mut process = called(&program, back);
            resolve(&mut process, &without_debug_files());
            let names = support::functions(&process.frames[0].symbol);
            names.first().map(|name| (*name).to_owned())
        };
        let all: Vec<_> = calls.iter().map(|(_, back)| name(&[*back])).collect();
        let known: Vec<_> = all.iter().flatten().map(String::as_str).collect();
        assert_eq!(known, ["time", "localtime", "puts"], "{flags:?} {calls:?}");
        assert_eq!(all.len(), 4, "and one through a pointer: {calls:?}");
        let backs: Vec<u64> = calls.iter().map(|(_, back)| *back).collect();
        assert_eq!(name(&backs[..2]), None, "two names are none");
    }
}

#[test]
fn functions_without_a_name_are_told_by_where_they_begin() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = build(dir.path(), "statics.c", &["-O2", "-rdynamic"]);
    let symbols = nm(&program);
    let of = |name: &str| symbols.iter().find(|s| s.name == name).expect("a function");
    let (step, twice) = (of("step"), of("twice"));
    run("strip", &[text(&program)]);
    let mut process = process(&program, text(&program));
    add_exact(&mut process, step.value + step.size - 1);
    add_exact(&mut process, twice.value);
    add_return(&mut process, step.value + step.size);
    add_exact(&mut process, 1 << 20);
    resolve(&mut process, &without_debug_files());
    let starts: Vec<_> = process
        .starts
        .iter()
        .map(|of| (of.frame, of.address))
        .collect();
    assert_eq!(
        starts,
        [(0, step.value), (2, step.value)],
        "twice() has a name"
    );
}
