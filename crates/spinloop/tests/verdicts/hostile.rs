//! What is no code, or none that a compiler makes.

use std::time::{Duration, Instant};

use convoy_spinloop::{judge, Verdict, Why};

/// A verdict on code made to be slow, in a build without optimisation.
const MOST: Duration = Duration::from_millis(300);

fn random(mut x: u64) -> impl FnMut() -> u64 {
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    }
}

#[test]
fn random_bytes_are_judged_soon() {
    let mut next = random(0x9e37_79b9_7f4a_7c15);
    let mut slowest = Duration::ZERO;
    for round in 0..2_000 {
        let mut code: Vec<u8> = (0..600).map(|_| next() as u8).collect();
        // Short branches, everywhere: many loops within loops.
        if round % 2 == 0 {
            for at in (0..code.len() - 2).step_by(3 + round % 5) {
                code[at] = 0x70 + (next() % 16) as u8;
                code[at + 1] = next() as u8;
            }
        }
        let ip = 0x40_0000 + next() % 600;
        // The quickest of a few tries: on a busy machine any of them may lose its processor.
        let mut quickest = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            judge(&code, 0x40_0000, ip);
            quickest = quickest.min(began.elapsed());
            if quickest < MOST {
                break;
            }
        }
        slowest = slowest.max(quickest);
    }
    assert!(slowest < MOST, "{slowest:?}");
}

#[test]
fn addresses_outside_the_code_are_no_code() {
    let code = [0x90; 16];
    for ip in [0, 0xfff, 0x1010, u64::MAX] {
        assert_eq!(
            judge(&code, 0x1000, ip),
            Verdict::Unknown(Why::NoCode),
            "{ip:#x}"
        );
    }
    assert_eq!(judge(&[], 0, 0), Verdict::Unknown(Why::NoCode));
    assert_eq!(
        judge(&[0xeb], 0x1000, 0x1000),
        Verdict::Unknown(Why::NoCode)
    );
}

#[test]
fn addresses_at_the_end_of_memory_do_not_overflow() {
    let code = [
        0xf3, 0x90, 0xeb, 0xfc, 0x7f, 0x7f, 0x0f, 0x8f, 0xff, 0xff, 0xff, 0x7f,
    ];
    for base in [u64::MAX - 11, u64::MAX - 3, 0] {
        for at in 0..12 {
            judge(&code, base, base.wrapping_add(at));
        }
    }
}
