//! Threads that wait in the C library, which has no frame pointers.

mod support;

use convoy_unwind::{Files, Unwinder};
use support::*;

#[test]
fn blocked_threads_show_their_callers() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "blocked.c", &[]));
    let samples = program.samples(8192);
    for thread in [
        "mutex",
        "cond",
        "sem",
        "rwlock",
        "read",
        "poll",
        "nanosleep",
    ] {
        let (names, frames, unwound) = walk(program.pid, &samples[thread]);
        let block = format!("in_{thread}");
        let at = names.iter().position(|n| *n == block);
        let at = at.unwrap_or_else(|| panic!("{block} in {names:?}"));
        assert_eq!(names[at + 1..at + 3], ["middle", "outer"], "{names:?}");
        // Above the start routine are start_thread and clone3, and no more.
        assert_eq!(frames.len(), at + 5, "{names:?}");
        assert!(frames.iter().all(|f| !f.no_rule && f.module.is_some()));
        assert!(frames[0].exact && frames[1..].iter().all(|f| !f.exact));
        let module = |frame: &convoy_profile::Frame| {
            &unwound.modules[frame.module.expect("a module") as usize]
        };
        assert!(module(&frames[0]).path.contains("libc"), "{unwound:?}");
        assert!(
            module(&frames[at]).path.ends_with("/blocked"),
            "{unwound:?}"
        );
        assert_eq!(unwound.files.len(), unwound.modules.len());
        for frame in &frames {
            let module = module(frame);
            assert_eq!(frame.offset, frame.pc - module.bias);
            assert!((module.lo..module.hi).contains(&frame.pc));
            assert_eq!(module.build_id.len(), 20);
        }
    }
}

#[test]
fn the_main_thread_ends_in_its_entry() {
    let dir = tempfile::tempdir().expect("a directory");
    for flags in [&[][..], &["-static"], &["-no-pie"], &["-static-pie"]] {
        let program = Running::program(&build(dir.path(), "blocked.c", flags));
        let (names, frames, _) = walk(program.pid, &program.samples(8192)["blocked"]);
        expect_order(&names, &["main"]);
        assert_eq!(
            names.last().expect("frames"),
            "_start",
            "{flags:?} {names:?}"
        );
        assert!(frames.iter().all(|f| !f.no_rule), "{flags:?} {frames:?}");
    }
}

#[test]
fn equal_stacks_have_one_number_and_files_are_read_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = build(dir.path(), "blocked.c", &[]);
    let (first, second) = (Running::program(&path), Running::program(&path));
    let files = Files::new();
    let finished: Vec<_> = [&first, &second]
        .into_iter()
        .map(|program| {
            let samples = program.samples(4096);
            let mut unwinder = Unwinder::new(program.pid, &files);
            let stack = |unwinder: &mut Unwinder, name: &str| {
                unwinder.stack(samples[name].regs, &samples[name].bytes)
            };
            let cond = stack(&mut unwinder, "cond");
            let sem = stack(&mut unwinder, "sem");
            assert!(cond != 0 && sem != 0 && cond != sem);
            assert_eq!(stack(&mut unwinder, "cond"), cond);
            assert_eq!(unwinder.leaf(cond), Some(samples["cond"].regs.ip));
            assert_eq!(unwinder.leaf(0), None);
            unwinder.finish()
        })
        .collect();
    assert_eq!(finished[0].stacks.len(), 3);
    assert!(finished[0].stacks[0].is_empty());
    // Both hold the very same open files.
    for ((_, one), (_, other)) in finished[0].files.iter().zip(&finished[1].files) {
        assert!(std::ptr::eq(&**one, &**other));
    }
    assert_eq!(finished[0].files.len(), 2);
}

#[test]
fn code_and_functions_around_an_address_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "blocked.c", &[]));
    let sample = program.samples(4096)["sem"].clone();
    let (names, frames, _) = walk(program.pid, &sample);
    let at = names.iter().position(|n| n == "in_sem").expect("it");
    let pc = frames[at].pc;

    let mut unwinder = Unwinder::new(program.pid, &Files::new());
    unwinder.stack(sample.regs, &sample.bytes);
    let code = unwinder.code(pc, 16, 32).expect("code");
    assert_eq!((code.lo, code.bytes.len()), (pc - 16, 48));
    assert_eq!(code.bytes, program.memory(pc - 16, 48));
    let function = unwinder.function(pc).expect("a function");
    assert_eq!(function.name, "in_sem");
    assert!((function.lo..function.hi).contains(&pc));
    // At the end of a mapping there is less.
    let code = unwinder.code(pc, usize::MAX, 0).expect("code");
    assert!(code.lo < pc && pc - code.lo == code.bytes.len() as u64);
    assert_eq!(unwinder.code(8, 1, 1), None);
    assert_eq!(unwinder.function(8), None);
}

#[test]
fn calls_into_other_files_are_named() {
    /// Bytes of `call rel32` and of `call [rip+rel32]`.
    const DIRECT: usize = 5;
    const THROUGH_MEMORY: usize = 6;
    let dir = tempfile::tempdir().expect("a directory");
    let stubs = ["-fcf-protection=none", "-Wl,-z,lazy"];
    let marked = ["-fcf-protection", "-Wl,-z,ibtplt"];
    let words = ["-fno-plt", "-Wl,-z,now"];
    for (flags, length) in [(stubs, DIRECT), (marked, DIRECT), (words, THROUGH_MEMORY)] {
        let program = Running::program(&build(dir.path(), "blocked.c", &flags));
        let sample = program.samples(4096)["sem"].clone();
        let (names, frames, _) = walk(program.pid, &sample);
        let at = names.iter().position(|n| n == "in_sem").expect("it");
        let back = frames[at].pc;

        let mut unwinder = Unwinder::new(program.pid, &Files::new());
        unwinder.stack(sample.regs, &sample.bytes);
        let call = unwinder.code(back, length, 0).expect("code").bytes.to_vec();
        let distance: [u8; 4] = call[length - 4..].try_into().expect("four bytes");
        let target = back.wrapping_add_signed(i32::from_le_bytes(distance).into());
        let callee = unwinder.callee(back, target);
        assert_eq!(callee.as_deref(), Some("sem_wait"), "{flags:?} {call:x?}");
        assert_eq!(unwinder.callee(back, back).as_deref(), Some("in_sem"));
        assert_eq!(unwinder.callee(back, 8), None);
    }
}
