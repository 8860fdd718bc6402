//! Names, lines and inline chains against binutils' addr2line, over the ways to build a program.

mod support;

use std::path::{Path, PathBuf};

use convoy_profile::Process;
use convoy_symbols::{resolve, shorten, Options};
use support::*;

/// Whether two names are of one function: the demanglers differ in spacing, binutils marks clones, and
/// has bare names for local functions, where we have the symbol's.
fn same_name(ours: &str, theirs: &str) -> bool {
    let plain = |name: &str| {
        name.chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
    };
    let bare = |name: &str| shorten(name.trim_end_matches(".cold"), usize::MAX);
    plain(ours) == plain(theirs)
        || bare(ours) == bare(theirs)
        || bare(ours).ends_with(&format!("::{}", bare(theirs)))
        || bare(ours).ends_with("::{closure}") && theirs.starts_with("operator()")
}

/// Whether two places are one. Binutils 2.40 takes the first file of a DWARF 5 table for the
/// primary source file where it is repeated; the line is right then.
fn same_place(ours: &str, theirs: &str, source: &str) -> bool {
    let (our_file, our_line) = ours.rsplit_once(':').expect("file:line");
    let (their_file, their_line) = theirs.rsplit_once(':').expect("file:line");
    let unknown = |line: &str| line == "?" || line == "0";
    (unknown(our_line) && unknown(their_line))
        || (our_line == their_line && (our_file == their_file || their_file == source))
}

fn same(ours: &[Level], theirs: &[Level], source: &str) -> bool {
    let Some(real) = ours.last() else {
        return false;
    };
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).enumerate().all(|(depth, (o, t))| {
            // Binutils puts the symbol's name at the innermost level when DWARF has no linkage name there.
            let name = same_name(&o.0, &t.0) || depth == 0 && same_name(&real.0, &t.0);
            name && same_place(&o.1, &t.1, source)
        })
}

fn compare(file: &Path, source: &str, max: usize) {
    let addresses = code_addresses(file, max);
    let mut process = process(file, text(file));
    for &a in &addresses {
        add_exact(&mut process, a);
    }
    let stats = resolve(&mut process, &Options::default());
    assert_eq!(process.modules[0].symbols, "dwarf");
    assert_eq!(stats.frames_known, addresses.len());
    let theirs = oracle(file, &addresses);
    let differ: Vec<String> = addresses
        .iter()
        .zip(process.frames.iter().zip(&theirs))
        .map(|(address, (frame, theirs))| (address, levels(&frame.symbol), theirs))
        .filter(|(_, ours, theirs)| !same(ours, theirs, source))
        .map(|(address, ours, theirs)| {
            format!("{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}")
        })
        .collect();
    assert!(
        differ.is_empty(),
        "{} of {} addresses differ:\n{}",
        differ.len(),
        addresses.len(),
        differ[..differ.len().min(5)].join("\n")
    );
    let inlined = theirs.iter().filter(|levels| levels.len() > 1).count();
    println!(
        "{} addresses, {inlined} in inlined functions",
        addresses.len()
    );
}

macro_rules! variants {
    ($($name:ident: $source:literal, $flags:expr;)*) => {$(
        #[test]
        fn $name() {
            let dir = tempfile::tempdir().expect("a directory");
            compare(&build(dir.path(), $source, &$flags), &source($source), 600);
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

/// All code of a program with inlined functions of all shapes, named.
fn inlines(dir: &Path) -> (PathBuf, Process) {
    let file = build(dir, "inlines.cc", &["-O2", "-g"]);
    let mut process = process(&file, text(&file));
    for a in code_addresses(&file, 3000) {
        add_exact(&mut process, a);
    }
    resolve(&mut process, &Options::default());
    (file, process)
}

#[test]
fn inlined_constructors_and_instances_over_lambdas_have_their_scopes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, process) = inlines(dir.path());
    let names: std::collections::BTreeSet<String> = process
        .frames
        .iter()
        .filter(|f| levels(&f.symbol).iter().all(|l| !l.1.contains('?')))
        .flat_map(|f| functions(&f.symbol).into_iter().map(|n| shorten(n, 200)))
        .collect();
    let inlined = [
        "std::thread::thread",
        "std::vector::emplace_back",
        "std::thread::_State_impl::_State_impl",
    ];
    for name in inlined
        .into_iter()
        .chain(["bank::Ring::push", "work::{closure}"])
    {
        assert!(names.contains(name), "{name} is not in {names:#?}");
    }
    // Nothing of the library is left that a reader would take for the program's own.
    let bare: Vec<_> = names
        .iter()
        .filter(|n| !n.contains("::") && !n.starts_with("__gthread"))
        .collect();
    assert_eq!(bare, ["fold", "main", "work"]);
}

#[test]
fn code_with_closures_is_known_by_where_it_begins() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, process) = inlines(dir.path());
    let mut begins = std::collections::BTreeSet::new();
    for (ix, frame) in process.frames.iter().enumerate() {
        let row = process.starts.iter().find(|row| row.frame as usize == ix);
        let names = functions(&frame.symbol);
        let closure = names
            .iter()
            .any(|name| name.contains("{lambda") || name.contains("<lambda"));
        assert_eq!(row.is_some(), closure, "{names:?}");
        begins.extend(row.map(|row| row.address));
    }
    let functions: std::collections::BTreeSet<u64> = nm(&file).iter().map(|s| s.value).collect();
    assert!(begins.len() > 1, "sorting is compiled to several functions");
    assert!(begins.is_subset(&functions), "{begins:x?}");
}
