//! Names, lines and inline chains against binutils' addr2line, over the ways to build a program.

mod support;

use std::path::Path;

use convoy_symbols::{resolve, Options};
use support::*;

fn main_like(name: &str) -> String {
    // Spacing of templates, and the two demanglers' words for the same things, are no difference.
    name.chars()
        .filter(|c| !c.is_whitespace())
        .collect::<String>()
}

fn compare(file: &Path, max: usize) {
    let addresses = code_addresses(file, max);
    let mut process = process(file, text(file));
    for &a in &addresses {
        add_exact(&mut process, a);
    }
    let stats = resolve(&mut process, &Options::default());
    assert!(
        process.modules[0].symbols.starts_with("dwarf"),
        "{}",
        process.modules[0].symbols
    );
    assert!(stats.debug_bytes > 0);
    let (mut depth, mut lines, mut names, mut differ) = (0, 0, 0, Vec::new());
    for ((a, frame), theirs) in addresses
        .iter()
        .zip(&process.frames)
        .zip(oracle(file, &addresses))
    {
        let ours = levels(&frame.symbol);
        depth += usize::from(ours.len() == theirs.len());
        let same_lines = ours.iter().map(|l| &l.1).eq(theirs.iter().map(|l| &l.1));
        let same_names = ours
            .iter()
            .map(|l| main_like(&l.0))
            .eq(theirs.iter().map(|l| main_like(&l.0)));
        lines += usize::from(same_lines);
        names += usize::from(same_names);
        if !same_lines || !same_names {
            differ.push(format!("{a:#x}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    println!(
        "{}: {} addresses, depth {depth}, lines {lines}, names {names}",
        file.display(),
        addresses.len()
    );
    for d in differ
        .iter()
        .take(std::env::var("SHOW").map_or(0, |n| n.parse().unwrap()))
    {
        println!("{d}");
    }
}

macro_rules! variants {
    ($($name:ident: $source:literal, $flags:expr;)*) => {$(
        #[test]
        fn $name() {
            let dir = tempfile::tempdir().expect("a directory");
            compare(&build(dir.path(), $source, &$flags), 600);
        }
    )*};
}

variants! {
    cpp_dwarf_5_pie: "inlines.cc", ["-O2", "-gdwarf-5", "-fPIE", "-pie"];
    cpp_dwarf_4_no_pie: "inlines.cc", ["-O2", "-gdwarf-4", "-no-pie"];
    cpp_compressed: "inlines.cc", ["-O2", "-g", "-gz"];
    cpp_unoptimised: "inlines.cc", ["-O0", "-g"];
    c_dwarf_5: "statics.c", ["-O2", "-g"];
    rust_release: "rusty.rs", ["-O", "-g"];
    rust_v0: "rusty.rs", ["-O", "-g", "-Csymbol-mangling-version=v0"];
}
