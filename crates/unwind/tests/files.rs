//! Files that are not where the program found them.

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use convoy_unwind::{Files, Unwinder};
use support::*;

/// Expects the chain of the thread that waits for a semaphore, from the program's frames on.
fn expect_chain(program: &Running) -> convoy_unwind::Unwound {
    let sample = program.samples(4096)["sem"].clone();
    let (names, frames, unwound) = walk(program.pid, &sample);
    expect_order(&names, &["in_sem", "middle", "outer"]);
    assert!(frames.iter().all(|f| !f.no_rule), "{frames:?}");
    unwound
}

/// Whether this user may see through `/proc/PID/map_files` and make mount namespaces.
fn privileged() -> bool {
    let unshared = Command::new("unshare").args(["-m", "true"]).status();
    unshared.is_ok_and(|status| status.success())
}

#[test]
fn a_deleted_program_is_read_through_its_mapping() {
    if !privileged() {
        return; // the kernel lets only root look at mappings
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "blocked.c", &[]);
    let bytes = fs::read(&path).expect("read");
    let program = Running::program(&path);
    fs::remove_file(&path).expect("removed");
    let unwound = expect_chain(&program);
    let ix = unwound
        .modules
        .iter()
        .position(|m| m.path == text(&path))
        .expect("the path without the kernel's remark");
    // The file is kept for those who read symbols later.
    drop(program);
    let mut kept = vec![0; bytes.len()];
    let (_, file) = unwound
        .files
        .iter()
        .find(|(module, _)| *module as usize == ix)
        .expect("its file");
    file.read_exact_at(&mut kept, 0).expect("read");
    assert_eq!(kept, bytes);
}

#[test]
fn another_file_in_the_programs_place_is_not_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "blocked.c", &[]);
    let id = |unwound: &convoy_unwind::Unwound| {
        let module = unwound.modules.iter().find(|m| m.path == text(&path));
        module.expect("the program").build_id.clone()
    };
    let program = Running::program(&path);
    let before = id(&expect_chain(&program));
    fs::remove_file(&path).expect("removed");
    build(dir.path(), "blocked.c", &["-O1"]);
    let sample = program.samples(4096)["sem"].clone();
    let (_, _, unwound) = walk(program.pid, &sample);
    // With privilege it is the same file still, without it is none.
    let after = id(&unwound);
    assert!(after == before || after.is_empty());
    assert_eq!(after.is_empty(), !privileged());
}

#[test]
fn programs_of_other_mount_namespaces_and_roots_are_read() {
    if !privileged() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let built = tempfile::tempdir().expect("a directory");
    let path = build(built.path(), "blocked.c", &["-static"]);

    // Only the program's namespace has this file: here the directory is empty.
    let script = "mount -t tmpfs none \"$1\" && cp \"$2\" \"$1/inside\" && exec \"$1/inside\"";
    let inside = Running::start(
        Command::new("unshare")
            .args(["-m", "sh", "-c", script, "-"])
            .args([dir.path(), &path]),
    );
    assert!(!dir.path().join("inside").exists());
    let unwound = expect_chain(&inside);
    assert_eq!(unwound.modules[0].path, text(&dir.path().join("inside")));

    // A changed root without a namespace of its own.
    let root = tempfile::tempdir().expect("a directory");
    fs::copy(&path, root.path().join("blocked")).expect("copied");
    let chrooted = Running::start(Command::new("chroot").arg(root.path()).arg("/blocked"));
    expect_chain(&chrooted);
}

#[test]
fn a_stripped_program_is_walked_and_has_no_functions() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "blocked.c", &[]);
    run("strip", &[text(&path)]);
    let program = Running::program(&path);
    let (names, frames, unwound) = walk(program.pid, &program.samples(4096)["sem"]);
    let own: Vec<_> = (0..frames.len())
        .filter(|i| {
            let module = frames[*i].module.expect("a module");
            unwound.modules[module as usize].path == text(&path)
        })
        .collect();
    assert_eq!(own.len(), 3, "{names:?}");
    assert!(own.iter().all(|i| names[*i].is_empty()), "{names:?}");
}

#[test]
fn a_library_that_is_loaded_later_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let library = dir.path().join("late.so");
    let source = dir.path().join("late.c");
    let code = "#include <unistd.h>\nvolatile int n;\nvoid late(void) { pause(); n++; }\n";
    fs::write(&source, code).expect("written");
    run(
        "gcc",
        &[
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            text(&library),
            text(&source),
        ],
    );
    let source = dir.path().join("loads.c");
    let code = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
volatile int n;
int main(int argc, char **argv)
{
	void *library;
	puts("started");
	fflush(stdout);
	for (int i = 0; i < 40; i++)
		usleep(10000);
	library = dlopen(argv[1], RTLD_NOW);
	((void (*)(void))dlsym(library, "late"))();
	return n;
}
"#;
    fs::write(&source, code).expect("written");
    let path = dir.path().join("loads");
    run("gcc", &["-O2", "-o", text(&path), text(&source)]);
    let program = Running::start(Command::new(&path).arg(&library));
    let mut unwinder = Unwinder::new(program.pid, &Files::new());
    unwinder.refresh();
    std::thread::sleep(std::time::Duration::from_millis(800));
    let sample = program.samples(4096)["loads"].clone();
    unwinder.stack(sample.regs, &sample.bytes);
    let unwound = unwinder.finish();
    let ends = |name: &str| {
        unwound
            .modules
            .iter()
            .any(|m| Path::new(&m.path).ends_with(name))
    };
    assert!(ends("late.so") && ends("loads"), "{:?}", unwound.modules);
}

#[test]
fn a_process_that_is_gone_leaves_its_leaf() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "blocked.c", &[]);
    let program = Running::program(&path);
    let sample = program.samples(4096)["sem"].clone();
    let files = Files::new();
    let mut known = Unwinder::new(program.pid, &files);
    let stack = known.stack(sample.regs, &sample.bytes);
    let mut late = Unwinder::new(program.pid, &files);
    drop(program);

    let leaf = late.stack(sample.regs, &sample.bytes);
    assert_eq!(late.leaf(leaf), Some(sample.regs.ip));
    assert_eq!(late.code(sample.regs.ip, 8, 8), None);
    let late = late.finish();
    assert_eq!((late.missed, late.frames.len()), (1, 1));
    assert_eq!(late.frames[0].module, None);

    // What was read while it lived still holds.
    known.refresh();
    assert_eq!(known.stack(sample.regs, &sample.bytes), stack);
    let unwound = known.finish();
    assert_eq!(unwound.missed, 0);
    assert!(frames(&unwound, stack).len() > 5);
}
