//! Code without call frame information: generated code, and Go.

mod support;

use std::fs;

use convoy_profile::Frame;
use convoy_unwind::{Files, Regs, Unwinder};
use support::*;

#[test]
#[cfg(target_arch = "x86_64")] // the program brings machine code along
fn generated_code_is_walked_by_its_frame_pointer() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "generated.c", &[]));
    let at = u64::from_str_radix(program.said.trim_start_matches("0x"), 16).expect("an address");
    let map = std::path::PathBuf::from(format!("/tmp/perf-{}.map", program.pid));
    fs::write(&map, format!("{at:x} c generated\n")).expect("written");

    let mut sample = program.samples(4096)["generated"].clone();
    // The kernel does not tell the frame pointer of a waiting thread; nothing below the generated code changes it.
    let word = |i: usize| u64::from_le_bytes(sample.bytes[i..i + 8].try_into().expect("a word"));
    let ret = (0..sample.bytes.len() - 8)
        .step_by(8)
        .find(|i| word(*i) == at + 10)
        .expect("a return address in the generated code");
    // 64 bytes of locals are above it, then the saved frame pointer.
    sample.regs.fp = sample.regs.sp + ret as u64 + 8 + 64;

    let (names, frames, unwound) = walk(program.pid, &sample);
    fs::remove_file(&map).expect("removed");
    expect_order(&names, &["below", "", "above", "main", "_start"]);
    let generated: Vec<&Frame> = frames.iter().filter(|f| f.module.is_none()).collect();
    assert_eq!(generated.len(), 1);
    assert_eq!((generated[0].pc, generated[0].offset), (at + 10, at + 10));
    assert!(frames.iter().all(|f| !f.no_rule), "{frames:?}");
    // Found through the process's own view of /tmp.
    assert!(unwound.jit_map.is_some());

    // Its bytes are in the process's memory only.
    let mut unwinder = Unwinder::new(program.pid, &Files::new());
    let code = unwinder.code(at + 8, 8, 2).expect("code");
    assert_eq!(
        (code.lo, code.bytes.first(), code.bytes.len()),
        (at, Some(&0x55), 10)
    );

    // Without a frame pointer the walk ends there, and says why.
    sample.regs.fp = 3;
    let (names, frames, _) = walk(program.pid, &sample);
    assert_eq!(names.last().map(String::as_str), Some(""));
    assert!(frames.last().expect("a frame").no_rule);

    // A leaf in generated code: before its first instruction, and after it has made its frame.
    let above = frames[frames.len() - 2].pc;
    let fp = sample.regs.sp + 32;
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut unwinder = Unwinder::new(program.pid, &Files::new());
    for (ip, fp, stack) in [
        (at, 1, words(&[above, 0, 0, 0])),
        (at + 8, fp, words(&[7, 7, 7, 7, 0, above])),
    ] {
        let regs = Regs {
            ip,
            fp,
            ..sample.regs
        };
        unwinder.stack(regs, &stack);
    }
    // What lies on top of the stack may look like a return address: to somebody interrupted it may be one, at rest it is none.
    let regs = Regs {
        ip: at + 8,
        fp,
        ..sample.regs
    };
    let stack = words(&[at + 2, 7, 7, 7, 0, above]);
    let (interrupted, at_rest) = (
        unwinder.stack(regs, &stack),
        unwinder.stack_at_rest(regs, &stack),
    );
    let unwound = unwinder.finish();
    let caller = |stack| support::frames(&unwound, stack)[1].pc;
    for stack in 1..3 {
        assert_eq!(caller(stack), above, "{unwound:?}");
    }
    assert_eq!((caller(interrupted), caller(at_rest)), (at + 2, above));
}

/// Functions that a goroutine or a thread of Go begins with.
const STARTS: [&str; 4] = ["goexit", "clone", "mcall", "rt0_go"];

/// The functions of a thread that reads, on the stack of its goroutine.
const READS: [&str; 8] = [
    "internal/runtime/syscall/linux.Syscall6",
    "syscall.RawSyscall6",
    "syscall.Syscall",
    "syscall.read",
    "main.inRead",
    "main.worker",
    "main.main.func1",
    "runtime.goexit.abi0",
];

/// The functions of each thread.
fn chains(program: &Running) -> Vec<Vec<String>> {
    let threads = program.threads(8192).into_iter();
    threads.map(|sample| walk(program.pid, &sample).0).collect()
}

/// One thread reads, and is walked to where its goroutine began.
fn assert_reads(chains: &[Vec<String>]) {
    let reads = |names: &&Vec<String>| names.contains(&"main.inRead".to_owned());
    let reading: Vec<_> = chains.iter().filter(reads).collect();
    assert_eq!(reading, [&READS], "{chains:?}");
}

#[test]
fn threads_of_go_are_walked_to_their_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let chains = chains(&Running::program(&build(dir.path(), "parked.go", &[])));
    assert_reads(&chains);
    // The others wait in the scheduler, on stacks of the runtime.
    assert!(chains.len() > 2, "{chains:?}");
    for names in &chains {
        let last = names.last().expect("a frame");
        let start = last
            .trim_start_matches("runtime.")
            .trim_end_matches(".abi0");
        assert!(STARTS.contains(&start), "{names:?}");
    }
}

#[test]
fn code_of_go_beside_code_of_c_is_walked_by_its_own_rules() {
    let dir = tempfile::tempdir().expect("a directory");
    let with_c = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/with_c.go");
    let program = Running::program(&build(dir.path(), "parked.go", &[with_c]));
    assert_reads(&chains(&program));
}

#[test]
fn go_without_debug_information_is_walked_by_frame_pointers() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "parked.go", &["-ldflags=-w"]));
    let chains = program.threads(8192).into_iter().map(|mut sample| {
        // The kernel does not tell the frame pointer: it is one of the next words' addresses, or zero.
        (0..64u64)
            .map(|word| {
                sample.regs.fp = sample.regs.sp + 8 * word;
                walk(program.pid, &sample).0
            })
            .find(|names| *names == READS)
    });
    assert_eq!(chains.flatten().count(), 1);
}
