//! Files that are damaged, and maps of generated code that cannot be trusted.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use convoy_profile::{Frame, Process, Reason, Symbol};
use convoy_symbols::{resolve, Options};
use support::*;

/// Resolves everything in a damaged copy of `file`; the outcome must be names or reasons, by no panic.
fn survive(file: &Path, bytes: &[u8], addresses: &[u64]) -> Process {
    let copy = file.with_extension("damaged");
    fs::write(&copy, bytes).expect("written");
    let mut process = process(file, text(&copy));
    for &a in addresses {
        add_exact(&mut process, a);
        add_mutex(&mut process, a);
    }
    resolve(&mut process, &Options::default());
    let source = &process.modules[0].symbols;
    assert!(
        !source.contains("failed on this file"),
        "a panic was caught: {source}"
    );
    assert!(process
        .frames
        .iter()
        .all(|f| f.symbol != Symbol::Unknown(Reason::NotResolved)));
    assert!(process
        .frames
        .iter()
        .all(|f| functions(&f.symbol).iter().all(|n| !n.is_empty())));
    process
}

fn reasons(process: &Process) -> Vec<Option<Reason>> {
    let reason = |f: &Frame| match f.symbol {
        Symbol::Unknown(reason) => Some(reason),
        Symbol::Known(_) => None,
    };
    process.frames.iter().map(reason).collect()
}

#[test]
fn truncated_files_give_reasons() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "statics.c", &["-O2", "-g"]);
    let whole = fs::read(&file).expect("read");
    let addresses = code_addresses(&file, 20);
    for cut in 0..64 {
        let process = survive(&file, &whole[..whole.len() * cut / 64], &addresses);
        // Section headers are at the end of the file.
        assert!(
            reasons(&process)
                .iter()
                .all(|r| *r == Some(Reason::BadSymbols)),
            "cut {cut}"
        );
        assert!(process.modules[0]
            .symbols
            .starts_with("none: not a usable ELF file"));
    }
    assert!(reasons(&survive(&file, &whole, &addresses))
        .iter()
        .all(Option::is_none));
}

#[test]
fn files_of_another_kind_give_reasons() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "statics.c", &["-O2"]);
    let script = survive(&file, b"#!/bin/sh\nexec true\n", &[0x1000]);
    assert_eq!(reasons(&script), [Some(Reason::BadSymbols)]);
    let empty = survive(&file, b"", &[0x1000]);
    assert_eq!(reasons(&empty), [Some(Reason::BadSymbols)]);
}

#[test]
fn random_damage_is_survived() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for (name, flags, rounds) in [
        ("statics.c", &["-O2", "-g"][..], 400),
        ("statics.c", &["-O2", "-gdwarf-4", "-gz"], 400),
        ("inlines.cc", &["-O2", "-g"], 40),
    ] {
        let file = build(dir.path(), name, flags);
        let whole = fs::read(&file).expect("read");
        let addresses = code_addresses(&file, 60);
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            // Far from the text, where there is nothing to break: debug sections and tables.
            let from = whole.len() / 4;
            for _ in 0..1 + random() % 60 {
                let at = from + (random() as usize) % (whole.len() - from);
                bytes[at] = random() as u8;
            }
            survive(&file, &bytes, &addresses);
        }
    }
}

fn generated(pid: u32) -> Process {
    let frame = |pc, exact| Frame {
        pc,
        module: None,
        offset: 0,
        exact,
        no_rule: true,
        symbol: Symbol::Unknown(Reason::NotResolved),
    };
    let frames = vec![
        frame(0x7000_0010, true),
        frame(0x7000_0100, false),
        frame(0x7000_0100, true),
    ];
    Process {
        pid,
        frames,
        ..Process::default()
    }
}

#[test]
fn generated_code_is_named_by_its_map() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options {
        jit_map_dir: dir.path().to_owned(),
        ..Options::default()
    };
    let map = "70000000 100 LazyCompile:*old app.js:1\n\
               not a line\n\
               70000000\n\
               7000000x 10 bad\n\
               70000000 100 LazyCompile:*hot app.js:1\n\
               fffffffffffffff0 ff wraps\n";
    fs::write(dir.path().join("perf-7.map"), map).expect("written");
    let mut process = generated(7);
    resolve(&mut process, &options);
    assert_eq!(
        functions(&process.frames[0].symbol),
        ["LazyCompile:*hot app.js:1"]
    );
    assert_eq!(
        functions(&process.frames[1].symbol),
        ["LazyCompile:*hot app.js:1"],
        "a return address"
    );
    assert_eq!(
        process.frames[2].symbol,
        Symbol::Unknown(Reason::NoModule),
        "one behind it"
    );
}

#[test]
fn a_map_that_cannot_be_trusted_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options {
        jit_map_dir: dir.path().to_owned(),
        ..Options::default()
    };
    let real = dir.path().join("real");
    fs::write(&real, "70000000 1000 fake\n").expect("written");
    symlink(&real, dir.path().join("perf-8.map")).expect("linked");
    run("mkfifo", &[text(&dir.path().join("perf-9.map"))]);
    for pid in [7, 8, 9] {
        let mut process = generated(pid);
        resolve(&mut process, &options);
        assert!(
            process
                .frames
                .iter()
                .all(|f| f.symbol == Symbol::Unknown(Reason::NoModule)),
            "{pid}"
        );
    }
}
