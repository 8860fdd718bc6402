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

/// mov rdx,rcx; shl rdx,6; add rdx,rsi; mov rax,[rdx]; test rax,rax; jne; add rcx,1; cmp rcx,rbx; jne: `dgetrf_parallel` of
/// OpenBLAS looks at the flags of its helpers, each in turn.
const EACH: [u8; 27] = [
    0x48, 0x89, 0xca, 0x48, 0xc1, 0xe2, 0x06, 0x48, 0x01, 0xf2, 0x48, 0x8b, 0x02, 0x48, 0x85, 0xc0,
    0x75, 0xf8, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x39, 0xd9, 0x75, 0xe5,
];
/// mov rax,[rdi]; test rax,rax; jne; add rdi,72; cmp rdi,rdx; jne: the same where both loops begin at once.
const AT_ONCE: [u8; 17] = [
    0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x75, 0xf8, 0x48, 0x83, 0xc7, 0x48, 0x48, 0x39, 0xd7, 0x75,
    0xef,
];

#[test]
fn whoever_stays_in_the_inner_loop_of_a_walk_waits() {
    for at in [10, 13, 16] {
        assert_eq!(tells(&EACH, at), Tells::Mostly);
    }
    for at in [0, 3, 6] {
        assert_eq!(tells(&AT_ONCE, at), Tells::Mostly);
    }
    // The walk itself works.
    let walks = [(&EACH[..], [0, 18, 25]), (&AT_ONCE[..], [8, 12, 15])];
    for (code, places) in walks {
        for at in places {
            let verdict = judge(code, 0x1000, 0x1000 + at);
            assert!(matches!(verdict, Verdict::Works(_)), "{at}: {verdict:?}");
        }
    }
}
