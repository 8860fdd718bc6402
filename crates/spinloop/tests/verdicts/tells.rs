//! Which samples in a lock's loop show that a thread waits.

use convoy_spinloop::{judge, Tells, Verdict};

/// Zero flag, carry flag.
const ZERO: u32 = 1 << 6;
const CARRY: u32 = 1;

fn tells(code: &[u8], at: u64) -> Tells {
    match judge(code, 0x1000, 0x1000 + at) {
        Verdict::Waits(found) => found.tells,
        other => panic!("{other:?}"),
    }
}

/// mov eax,ecx; lock cmpxchg [rdi],edx; jne
const COMPARE: [u8; 8] = [0x89, 0xc8, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf8];
/// mov eax,edx; xchg [rdi],al; test al,al; jne
const EXCHANGE: [u8; 8] = [0x89, 0xd0, 0x86, 0x07, 0x84, 0xc0, 0x75, 0xf8];
/// pause; lock bts dword [rdi],0; jc
const BIT: [u8; 9] = [0xf3, 0x90, 0xf0, 0x0f, 0xba, 0x2f, 0x00, 0x72, 0xf7];
/// lock dec dword [rdi]; jne +1; ret; pause; cmp dword [rdi],0; jg; jmp
const COUNT: [u8; 15] = [
    0xf0, 0xff, 0x0f, 0x75, 0x01, 0xc3, 0xf3, 0x90, 0x83, 0x3f, 0x00, 0x7e, 0xf9, 0xeb, 0xf1,
];

#[test]
fn behind_a_try_its_outcome_tells() {
    let failed = |mask, set| Tells::Flag { mask, set };
    assert_eq!(tells(&COMPARE, 6), failed(ZERO, false));
    assert_eq!(tells(&EXCHANGE, 4), Tells::Accumulator(0xff));
    assert_eq!(tells(&BIT, 7), failed(CARRY, true));
    assert_eq!(tells(&COUNT, 3), failed(ZERO, false));
}

#[test]
fn whoever_pauses_waits() {
    assert_eq!(tells(&BIT, 2), Tells::Waits);
    assert_eq!(tells(&COUNT, 8), Tells::Waits);
}

#[test]
fn before_a_try_nothing_is_told() {
    assert_eq!(tells(&COMPARE, 0), Tells::Nothing);
    assert_eq!(tells(&COMPARE, 2), Tells::Nothing);
    assert_eq!(tells(&EXCHANGE, 0), Tells::Nothing);
}
