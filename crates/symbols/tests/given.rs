//! Files and maps that the caller opened while the process lived.

mod support;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use convoy_profile::{Frame, Process, Reason, Symbol};
use convoy_symbols::{resolve, Options};
use support::*;

/// The name of an open file that outlives its name in the file system.
fn by_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn given(path: &str, file: &File) -> Options {
    Options {
        files: HashMap::from([(path.to_owned(), by_descriptor(file))]),
        ..Options::default()
    }
}

fn twice(file: &Path) -> u64 {
    let symbols = nm(file);
    let twice = symbols.iter().find(|s| s.name == "twice");
    twice.expect("a function").value
}

#[test]
fn a_file_of_another_root_is_read_through_its_descriptor() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "statics.c", &["-O2", "-g"]);
    let inside = "/only/inside/statics";
    let mut process = process(&path, inside);
    add_exact(&mut process, twice(&path));
    let file = File::open(&path).expect("opened");
    fs::remove_file(&path).expect("removed");

    resolve(&mut process, &Options::default());
    assert_eq!(
        process.frames[0].symbol,
        Symbol::Unknown(Reason::ModuleUnreadable)
    );
    resolve(&mut process, &given(inside, &file));
    assert_eq!(process.modules[0].symbols, "dwarf");
    assert_eq!(functions(&process.frames[0].symbol), ["twice"]);
}

#[test]
fn a_given_file_of_another_build_is_not_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "statics.c", &["-O2"]);
    let mut process = process(&path, text(&path));
    add_exact(&mut process, twice(&path));
    let other = build(dir.path(), "statics.c", &["-O1"]);
    let file = File::open(other).expect("opened");
    resolve(&mut process, &given(text(&path), &file));
    assert_eq!(
        process.frames[0].symbol,
        Symbol::Unknown(Reason::ModuleChanged)
    );
}

#[test]
fn a_given_file_is_older_than_the_recording_by_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "statics.c", &["-O2", "-Wl,--build-id=none"]);
    let mut process = process(&path, text(&path));
    add_exact(&mut process, twice(&path));
    let file = File::open(&path).expect("opened");
    let started = Some(std::time::SystemTime::UNIX_EPOCH);
    let mut options = Options {
        started,
        ..Options::default()
    };
    resolve(&mut process, &options);
    assert_eq!(
        process.frames[0].symbol,
        Symbol::Unknown(Reason::ModuleChanged)
    );
    options.files = given(text(&path), &file).files;
    resolve(&mut process, &options);
    assert_eq!(functions(&process.frames[0].symbol), ["twice"]);
}

#[test]
fn the_debug_file_of_a_given_file_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "statics.c", &["-O2", "-g"]);
    let (address, debug) = (twice(&path), dir.path().join("statics.dbg"));
    run("objcopy", &["--only-keep-debug", text(&path), text(&debug)]);
    run("strip", &[text(&path)]);
    let link = format!("--add-gnu-debuglink={}", text(&debug));
    run("objcopy", &[&link, text(&path)]);
    // In the mirror of the directory that the program has inside of its container.
    let mirror = dir.path().join("root/only/inside");
    fs::create_dir_all(&mirror).expect("made");
    fs::rename(&debug, mirror.join("statics.dbg")).expect("moved");
    let inside = "/only/inside/statics";
    let mut process = process(&path, inside);
    add_exact(&mut process, address);
    let file = File::open(&path).expect("opened");
    let options = Options {
        debug_roots: vec![dir.path().join("root")],
        ..given(inside, &file)
    };
    resolve(&mut process, &options);
    let source = &process.modules[0].symbols;
    assert!(source.ends_with("root/only/inside/statics.dbg"), "{source}");
}

#[test]
fn a_given_map_names_generated_code() {
    let mut map = tempfile::NamedTempFile::new().expect("a file");
    let frame = |pc| Frame {
        pc,
        module: None,
        offset: pc,
        exact: true,
        no_rule: false,
        symbol: Symbol::Unknown(Reason::NotResolved),
    };
    let mut process = Process {
        frames: vec![frame(0x7f00_0010), frame(0x7f00_0040)],
        ..Process::default()
    };
    let options = Options {
        jit_map: Some(by_descriptor(map.as_file())),
        ..Options::default()
    };
    // Written after it was opened: the process went on.
    std::io::Write::write_all(&mut map, b"7f000000 20 LazyCompile:*work app.js:3\n")
        .expect("written");
    map.as_file().sync_all().expect("written");
    fs::remove_file(map.path()).expect("removed");
    resolve(&mut process, &options);
    assert_eq!(
        functions(&process.frames[0].symbol),
        ["LazyCompile:*work app.js:3"]
    );
    assert_eq!(process.frames[1].symbol, Symbol::Unknown(Reason::NoModule));
}
