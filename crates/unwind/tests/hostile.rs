//! Copies that are cut, and registers and stacks that hold anything.

mod support;

use convoy_unwind::{Files, Regs, Unwinder, MAX_FRAMES};
use support::*;

#[test]
fn copies_that_are_cut_give_the_leaf_most_frames() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "blocked.c", &[]));
    for sample in program.samples(8192).values() {
        let (_, whole, _) = walk(program.pid, sample);
        let mut longest = 0;
        for bytes in (0..=1024).step_by(56) {
            let mut cut = sample.clone();
            cut.bytes.truncate(bytes);
            let (_, frames, _) = walk(program.pid, &cut);
            let pcs = |frames: &[convoy_profile::Frame]| -> Vec<u64> {
                frames.iter().map(|f| f.pc).collect()
            };
            assert_eq!(pcs(&frames), pcs(&whole[..frames.len()]));
            assert!(frames.len() >= longest);
            // The copy ended: the rules did not.
            assert!(frames.iter().all(|f| !f.no_rule));
            longest = frames.len();
        }
        assert!(longest > 3, "512 bytes show more than the C library");
    }
}

/// A generator of numbers (Marsaglia's xorshift): the same ones in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_of(&mut self, values: &[u64]) -> u64 {
        values[(self.next() % values.len() as u64) as usize]
    }
}

#[test]
fn garbage_neither_panics_nor_loops() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "blocked.c", &[]));
    let samples = program.samples(2048);
    let mut unwinder = Unwinder::new(program.pid, &Files::new());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Addresses of all code, so that many rules are run on registers that they were not made for.
    let code: Vec<(u64, u64)> = std::fs::read_to_string(format!("/proc/{}/maps", program.pid))
        .expect("its map")
        .lines()
        .filter(|line| line.contains("r-xp"))
        .filter_map(|line| line.split_once(' ')?.0.split_once('-'))
        .filter_map(|(lo, hi)| {
            let hex = |text| u64::from_str_radix(text, 16).ok();
            Some((hex(lo)?, hex(hi)?))
        })
        .collect();
    let edges = [
        0,
        1,
        7,
        8,
        4096,
        u64::MAX,
        u64::MAX - 7,
        1 << 63,
        (1 << 63) - 8,
    ];
    let all: Vec<&Sample> = samples.values().collect();
    let mut deepest = 0;
    for round in 0..200_000 {
        let mut sample = all[round % all.len()].clone();
        let (lo, hi) = code[(random.next() % code.len() as u64) as usize];
        let mut any = |sp: u64| match random.next() % 4 {
            0 => random.next(),
            1 => random.one_of(&edges),
            2 => lo + random.next() % (hi - lo),
            _ => sp.wrapping_add((random.next() % 2048) & !7),
        };
        let sp = sample.regs.sp;
        let regs = Regs {
            ip: if round % 2 == 0 {
                lo + any(0) % (hi - lo)
            } else {
                any(sp)
            },
            sp: if round % 3 == 0 { any(sp) } else { sp },
            fp: any(sp),
            lr: any(sp),
        };
        for word in sample.bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&any(regs.sp).to_le_bytes());
        }
        let stack = unwinder.stack(regs, &sample.bytes);
        assert_eq!(stack == 0, regs.ip == 0);
        if round % 64 == 0 {
            let _ = unwinder.function(regs.ip);
            let _ = unwinder.code(regs.ip, 64, 64);
        }
    }
    let unwound = unwinder.finish();
    for stack in &unwound.stacks {
        deepest = deepest.max(stack.len());
    }
    assert!((3..=MAX_FRAMES).contains(&deepest), "{deepest}");
}

#[test]
fn a_frame_pointer_that_points_to_itself_ends_the_walk() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Running::program(&build(dir.path(), "blocked.c", &[]));
    let sp = 0x7000_0000_0000;
    let memory = program.samples(64)["sem"].clone();
    // Code in no file and no mapping: only the leaf is known.
    let mut unwinder = Unwinder::new(program.pid, &Files::new());
    let bytes: Vec<u8> = std::iter::repeat_n(u64::to_le_bytes(sp), 512)
        .flatten()
        .collect();
    let regs = Regs {
        ip: sp,
        sp,
        fp: sp,
        lr: 0,
    };
    let unknown = unwinder.stack(regs, &bytes);
    let regs = Regs {
        ip: memory.regs.ip,
        ..regs
    };
    let known = unwinder.stack(regs, &bytes);
    let unwound = unwinder.finish();
    assert_eq!(frames(&unwound, unknown).len(), 1);
    assert!(frames(&unwound, unknown)[0].no_rule);
    assert_eq!(frames(&unwound, known).len(), 1);
}
