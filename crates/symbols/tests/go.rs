//! Go programs: with debug information, and with nothing but the table of their runtime.

mod support;

use std::path::{Path, PathBuf};

use convoy_profile::{Frame, Process};
use convoy_symbols::{resolve, Options};
use support::*;

/// The fixture, linked with and without symbols: the code is the same.
struct Gopher {
    _dirs: [tempfile::TempDir; 2],
    full: PathBuf,
    bare: PathBuf,
}

fn gopher(flags: &[&str]) -> Gopher {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let full = build(dirs[0].path(), "gopher.go", flags);
    let stripped = [flags, &["-ldflags=-s -w"]].concat();
    let bare = build(dirs[1].path(), "gopher.go", &stripped);
    Gopher {
        _dirs: dirs,
        full,
        bare,
    }
}

fn resolved(file: &Path, addresses: &[u64]) -> Process {
    let mut process = process(file, text(file));
    for &a in addresses {
        add_exact(&mut process, a);
    }
    resolve(&mut process, &Options::default());
    process
}

/// The start of a function's name: the two sources have different words for type arguments.
fn plain(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

#[test]
fn names_and_lines_come_from_debug_information() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "gopher.go", &[]);
    let worker = nm(&file)
        .into_iter()
        .find(|s| s.name == "main.worker")
        .expect("a function");
    let process = resolved(&file, &[worker.value]);
    assert_eq!(process.modules[0].symbols, "dwarf");
    let levels = levels(&process.frames[0].symbol);
    assert_eq!(levels[0].0, "main.worker");
    assert!(levels[0].1.ends_with("gopher.go:19"), "{levels:?}");
}

#[test]
fn without_symbols_the_runtimes_table_gives_the_same() {
    for flags in [&[][..], &["-buildmode=pie"]] {
        let gopher = gopher(flags);
        let addresses = code_addresses(&gopher.full, 3000);
        let full = resolved(&gopher.full, &addresses);
        let bare = resolved(&gopher.bare, &addresses);
        assert_eq!(bare.modules[0].symbols, "gopclntab", "{flags:?}");

        let (mut lines, mut equal) = (0, 0);
        for (with, without) in full.frames.iter().zip(&bare.frames) {
            let (with, without) = (levels(&with.symbol), levels(&without.symbol));
            let real = with.last().expect("a level");
            assert_eq!(plain(&without[0].0), plain(&real.0), "{flags:?}");
            assert_eq!(without.len(), 1);
            if without[0].1 != "??:?" {
                lines += 1;
                equal += usize::from(with[0].1 == without[0].1);
                assert_eq!(
                    with.len(),
                    1,
                    "the line of inlined code: {with:?} {without:?}"
                );
            }
        }
        assert!(
            lines * 2 > addresses.len(),
            "{lines} of {}",
            addresses.len()
        );
        assert_eq!(equal, lines, "{flags:?}");
    }
}

#[test]
fn a_damaged_table_is_survived() {
    let gopher = gopher(&[]);
    let addresses = code_addresses(&gopher.full, 300);
    let good = resolved(&gopher.bare, &addresses);
    let whole = std::fs::read(&gopher.bare).expect("read");
    let at = whole
        .windows(8)
        .position(|w| w == [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8])
        .expect("the table's header");
    let copy = gopher.bare.with_extension("damaged");
    // Each number of the header, set to what points elsewhere.
    let mut damaged = 0;
    for place in (0..72).step_by(8).map(|i| at + i) {
        for value in [1, u64::from(u32::MAX), u64::MAX / 2] {
            let mut bytes = whole.clone();
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
            std::fs::write(&copy, &bytes).expect("written");
            let bad = resolved(&copy, &addresses);
            assert!(!bad.modules[0].symbols.contains("failed on this file"));
            let changed = |(a, b): (&Frame, &Frame)| a.symbol != b.symbol;
            damaged += bad
                .frames
                .iter()
                .zip(&good.frames)
                .filter(|p| changed(*p))
                .count();
        }
    }
    assert!(damaged > 0, "the header is what is read");
}
