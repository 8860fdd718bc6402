//! Objects are named after the variables that hold them.

mod support;

use std::path::Path;

use convoy_profile::{Memory, ObjectKind, Process};
use convoy_symbols::{resolve, Options};
use support::*;

/// Adds a mutex at each variable and `offset` behind it, and returns what they are called.
fn names(file: &Path, variables: &[&str], offset: u64) -> Vec<Option<String>> {
    let symbols = nm(file);
    let mut process = process(file, text(file));
    for name in variables {
        let symbol = symbols
            .iter()
            .find(|s| s.name == *name)
            .unwrap_or_else(|| panic!("no {name}"));
        add_mutex(&mut process, symbol.value + offset);
    }
    resolve(&mut process, &Options::default());
    assert!(process.objects.iter().all(|o| o.memory == Memory::Static));
    process.objects.into_iter().map(|o| o.symbol).collect()
}

fn owned(names: &[&str]) -> Vec<Option<String>> {
    names.iter().map(|n| Some((*n).to_owned())).collect()
}

#[test]
fn c_variables_of_all_classes() {
    let dir = tempfile::tempdir().expect("a directory");
    for flags in [&["-O2", "-g"][..], &["-O0", "-no-pie"]] {
        let file = build(dir.path(), "statics.c", flags);
        let symbols = nm(&file);
        let local = symbols
            .iter()
            .find(|s| s.name.starts_with("local_lock."))
            .expect("a local static");
        let all = [
            "global_lock",
            "file_lock",
            &local.name,
            "zeroed_locks",
            "pair",
        ];
        assert_eq!(names(&file, &all, 0), owned(&all));
        assert_eq!(
            names(&file, &["zeroed_locks"], 80),
            owned(&["zeroed_locks+0x50"])
        );
        assert_eq!(names(&file, &["pair"], 8), owned(&["pair+0x8"]));
    }
}

#[test]
fn cxx_statics_are_demangled() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "inlines.cc", &["-O2"]);
    let all = [
        "(anonymous namespace)::hidden",
        "bank::shared()::account",
        "bank::shared()::once",
        "bank::branch",
    ];
    assert_eq!(names(&file, &all, 0), owned(&all));
    assert_eq!(
        names(&file, &["bank::branch"], 48),
        owned(&["bank::branch+0x30"])
    );
}

#[test]
fn rust_statics_are_demangled() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "rusty.rs", &["-O"]);
    assert_eq!(names(&file, &["rusty::TABLE"], 0), owned(&["rusty::TABLE"]));
}

#[test]
fn exported_variables_of_a_stripped_library_have_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "statics.c", &["-O2", "-shared", "-fPIC"]);
    let value = |name: &str| {
        nm(&file)
            .into_iter()
            .find(|s| s.name == name)
            .expect("a variable")
            .value
    };
    let (global, hidden) = (value("global_lock"), value("file_lock"));
    run("strip", &[text(&file)]);
    let mut process = process(&file, text(&file));
    add_mutex(&mut process, global);
    add_mutex(&mut process, hidden);
    let stats = resolve(&mut process, &Options::default());
    assert_eq!(process.objects[0].symbol.as_deref(), Some("global_lock"));
    assert_eq!(process.objects[1].symbol, None, "never the nearest one");
    assert_eq!(process.objects[1].memory, Memory::Static);
    assert_eq!(stats.objects_named, 1);
}

#[test]
fn thread_local_variables_and_labels_name_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "statics.c", &["-O2"]);
    let symbols = nm(&file);
    let mut process = process(&file, text(&file));
    // The value of a thread-local symbol is an offset in its block: small, and no address.
    add_mutex(&mut process, 0);
    add_mutex(&mut process, 8);
    // Behind the last variable there is nothing, whatever labels (_end, __bss_start) lie there.
    let end = symbols
        .iter()
        .filter(|s| "bBdD".contains(s.kind))
        .map(|s| s.value + s.size)
        .max();
    add_mutex(&mut process, end.expect("variables"));
    resolve(&mut process, &Options::default());
    assert!(
        process.objects.iter().all(|o| o.symbol.is_none()),
        "{:?}",
        process.objects
    );
}

#[test]
fn regions_are_named_after_their_code_and_threads_are_not_looked_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "statics.c", &["-O2"]);
    let step = nm(&file)
        .into_iter()
        .find(|s| s.name == "step")
        .expect("a function")
        .value;
    let mut process = process(&file, text(&file));
    for kind in [ObjectKind::OmpRegion, ObjectKind::Mutex, ObjectKind::Thread] {
        add_mutex(&mut process, step);
        process.objects.last_mut().expect("just added").kind = kind;
    }
    resolve(&mut process, &Options::default());
    let symbols: Vec<_> = process
        .objects
        .iter()
        .map(|o| o.symbol.as_deref())
        .collect();
    assert_eq!(symbols, [Some("step"), None, None]);
}

#[test]
fn an_object_without_a_module_is_placed_by_address_if_only_one_module_can_hold_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = build(dir.path(), "statics.c", &["-O2"]);
    let lock = nm(&file)
        .into_iter()
        .find(|s| s.name == "global_lock")
        .expect("a variable")
        .value;
    let place = |process: &mut Process| {
        process.objects[0].module = None;
        process.objects[0].symbol = None;
        process.objects[0].memory = Memory::Unknown;
        resolve(process, &Options::default());
        (process.objects[0].symbol.clone(), process.objects[0].memory)
    };
    let mut process = process(&file, text(&file));
    add_mutex(&mut process, lock);
    assert_eq!(
        place(&mut process),
        (Some("global_lock".into()), Memory::Static)
    );
    process.modules.push(process.modules[0].clone());
    assert_eq!(
        place(&mut process),
        (None, Memory::Unknown),
        "one of the two was unloaded"
    );
    process.objects[0].memory = Memory::Heap;
    resolve(&mut process, &Options::default());
    assert_eq!(
        process.objects[0].memory,
        Memory::Heap,
        "the recorder knows better"
    );
}
