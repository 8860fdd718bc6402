use convoy_profile::{FoundWord, SectionInput};

use super::flags::{add, subtract};
use super::vector::lane_by_lane;
use super::{compare, observe, Decoded, Outcome, Stop};

const BEGIN: u64 = 0x1000;
const RELEASE: u64 = 0x9000;
const LOCK: u64 = 0x5000;
const SHARED: u64 = 0x10_0000;

/// The code of a section: the given instructions, then the call of the release.
fn code(section: &[u8]) -> Vec<u8> {
    let mut bytes = section.to_vec();
    bytes.push(0xbf); // mov edi, LOCK
    bytes.extend((LOCK as u32).to_le_bytes());
    bytes.push(0xe8); // call RELEASE
    let next = BEGIN + bytes.len() as u64 + 4;
    bytes.extend((RELEASE.wrapping_sub(next) as u32).to_le_bytes());
    bytes
}

/// A section of a thread that found `shared` in the word that rbx points to, `own` in r12, and
/// loaded the shared word so many times, with nothing stored before.
fn input(thread: u64, instructions: u64, shared: u64, own: u64, loads: u32) -> SectionInput {
    let top = 0x70_0000 + thread * 0x10_0000;
    let digest = |sum, _| SectionInput::digest(sum, SHARED, shared);
    SectionInput {
        resume: BEGIN,
        object: LOCK,
        registers: [0, SHARED, 0, top, own, 0, 0, 0, 0x7000],
        stack_lo: top - 0x1_0000,
        instructions: instructions + 2,
        loads: (0..loads).fold(0, digest),
        found: vec![FoundWord {
            address: SHARED,
            value: shared,
            known: 0xff,
        }],
        ..SectionInput::default()
    }
}

fn outcome(section: &[u8], a: &SectionInput, b: &SectionInput) -> Result<Outcome, Stop> {
    let bytes = code(section);
    let at = |address: u64| Some(bytes.get(address.checked_sub(BEGIN)? as usize..)?.to_vec());
    let code = Decoded::new(&at);
    let (a, b) = (observe(a, &code)?, observe(b, &code)?);
    let outcome = compare(&a, &b, &code);
    assert_eq!(compare(&b, &a, &code), outcome, "symmetric");
    outcome
}

/// Of two sections with the same code that found 40, with these values in r12.
fn of_two(section: &[u8], instructions: u64, own: (u64, u64), loads: u32) -> Result<Outcome, Stop> {
    let a = input(1, instructions, 40, own.0, loads);
    let b = input(2, instructions, 40, own.1, loads);
    outcome(section, &a, &b)
}

/// mov rax, [rbx]; add rax, r12; mov [rbx], rax
const ADD: &[u8] = &[0x48, 0x8b, 0x03, 0x4c, 0x01, 0xe0, 0x48, 0x89, 0x03];

#[test]
fn additions_by_way_of_a_register_commute() {
    assert_eq!(of_two(ADD, 3, (5, 7), 1), Ok(Outcome::Same));
}

#[test]
fn sections_that_found_different_values_are_tried_on_both() {
    let (a, b) = (input(1, 3, 40, 5, 1), input(2, 3, 90, 7, 1));
    assert_eq!(outcome(ADD, &a, &b), Ok(Outcome::Same));
}

#[test]
fn a_product_and_a_sum_do_not_commute() {
    // mov rax, [rbx]; lea rax, [rax+rax*2]; add rax, r12; mov [rbx], rax
    let section = [
        ADD[..3].to_vec(),
        vec![0x48, 0x8d, 0x04, 0x40],
        ADD[3..].to_vec(),
    ]
    .concat();
    assert_eq!(of_two(&section, 4, (5, 7), 1), Ok(Outcome::Differs));
}

#[test]
fn stores_of_one_value_are_redundant_and_of_two_are_not() {
    let store = &[0x4c, 0x89, 0x23]; // mov [rbx], r12
    assert_eq!(of_two(store, 1, (5, 5), 0), Ok(Outcome::Same));
    assert_eq!(of_two(store, 1, (5, 7), 0), Ok(Outcome::Differs));
}

#[test]
fn bits_that_two_sections_toggle_are_disjoint() {
    let toggle = &[0x4c, 0x31, 0x23]; // xor [rbx], r12
    assert_eq!(of_two(toggle, 1, (1, 256), 1), Ok(Outcome::Same));
}

#[test]
fn a_value_that_outlives_the_section_tells_the_order() {
    // mov r13, [rbx]; add [rbx], r12
    let ticket = &[0x4c, 0x8b, 0x2b, 0x4c, 0x01, 0x23];
    assert_eq!(of_two(ticket, 2, (1, 1), 2), Ok(Outcome::Differs));
    // mov rax, [rbx]; add [rbx], r12: rax is dead when the release is called
    let counted = &[0x48, 0x8b, 0x03, 0x4c, 0x01, 0x23];
    assert_eq!(of_two(counted, 2, (1, 1), 2), Ok(Outcome::Same));
}

#[test]
fn stack_above_the_stack_pointer_outlives_the_section_and_below_it_does_not() {
    // mov rax, [rbx]; add [rbx], r12; mov [rsp-24], rax
    let below = &[
        0x48, 0x8b, 0x03, 0x4c, 0x01, 0x23, 0x48, 0x89, 0x44, 0x24, 0xe8,
    ];
    assert_eq!(of_two(below, 3, (1, 1), 2), Ok(Outcome::Same));
    // ... mov [rsp+24], rax
    let above = &[
        0x48, 0x8b, 0x03, 0x4c, 0x01, 0x23, 0x48, 0x89, 0x44, 0x24, 0x18,
    ];
    assert_eq!(of_two(above, 3, (1, 1), 2), Ok(Outcome::Differs));
}

/// cmp qword [rbx], 0; jne +3; mov [rbx], r12
const FIRST_WINS: &[u8] = &[0x48, 0x83, 0x3b, 0x00, 0x75, 0x03, 0x4c, 0x89, 0x23];

#[test]
fn the_second_section_takes_the_path_that_the_first_leaves_it() {
    let (a, b) = (input(1, 3, 0, 5, 1), input(2, 3, 0, 7, 1));
    assert_eq!(outcome(FIRST_WINS, &a, &b), Ok(Outcome::Differs));
    let (a, b) = (input(1, 2, 9, 5, 1), input(2, 2, 9, 7, 1));
    assert_eq!(outcome(FIRST_WINS, &a, &b), Ok(Outcome::Same));
}

#[test]
fn a_path_to_memory_that_nobody_found_is_unknown() {
    // cmp qword [rbx], 0; je +4; mov rax, [rbx+8] where the other section has stored
    let section = &[
        0x48, 0x83, 0x3b, 0x00, 0x74, 0x04, 0x48, 0x8b, 0x43, 0x08, 0x4c, 0x89, 0x23,
    ];
    let (a, b) = (input(1, 3, 0, 5, 1), input(2, 3, 0, 7, 1));
    assert_eq!(outcome(section, &a, &b), Err(Stop::UnknownValue));
}

#[test]
fn a_section_that_does_not_give_back_its_record_is_refused() {
    let mut other = input(1, 3, 40, 5, 1);
    other.loads ^= 1;
    assert_eq!(
        outcome(ADD, &other, &input(2, 3, 40, 7, 1)),
        Err(Stop::Diverged)
    );
    let mut other = input(1, 3, 40, 5, 1);
    other.object += 8;
    assert_eq!(
        outcome(ADD, &other, &input(2, 3, 40, 7, 1)),
        Err(Stop::Diverged)
    );
}

#[test]
fn two_sections_on_one_stack_are_no_pair() {
    let a = input(1, 3, 40, 5, 1);
    assert_eq!(outcome(ADD, &a, &a.clone()), Err(Stop::Diverged));
}

#[test]
fn what_is_not_modelled_is_refused() {
    let rdtsc = &[0x0f, 0x31];
    assert_eq!(of_two(rdtsc, 1, (0, 0), 0), Err(Stop::Unsupported));
    let syscall = &[0x0f, 0x05];
    assert_eq!(of_two(syscall, 1, (0, 0), 0), Err(Stop::Unsupported));
    let rep_movsb = &[0xf3, 0xa4];
    assert_eq!(of_two(rep_movsb, 1, (0, 0), 0), Err(Stop::Unsupported));
    let copy_rcx = &[0x48, 0x89, 0xc8]; // mov rax, rcx: undefined behind a call
    assert_eq!(of_two(copy_rcx, 1, (0, 0), 0), Err(Stop::UnknownValue));
}

#[test]
fn an_endless_loop_is_given_up() {
    // cmp qword [rbx], 40; jne -6: leaves only while the word is as it was found; add [rbx], r12
    let wait = &[0x48, 0x83, 0x3b, 40, 0x75, 0xfa, 0x4c, 0x01, 0x23];
    assert_eq!(of_two(wait, 3, (1, 1), 2), Err(Stop::TooLong));
}

#[test]
fn floating_point_sums_commute_where_they_are_exact() {
    // movq xmm0, r12; addsd xmm0, [rbx]; movsd [rbx], xmm0
    let section = &[
        0x66, 0x49, 0x0f, 0x6e, 0xc4, 0xf2, 0x0f, 0x58, 0x03, 0xf2, 0x0f, 0x11, 0x03,
    ];
    let of_two = |x: f64, a: f64, b: f64| {
        let a = input(1, 3, x.to_bits(), a.to_bits(), 1);
        let b = input(2, 3, x.to_bits(), b.to_bits(), 1);
        outcome(section, &a, &b)
    };
    assert_eq!(of_two(1.0, 0.5, 0.25), Ok(Outcome::Same));
    assert_eq!(of_two(1.0, 1e16, 1.0), Ok(Outcome::Differs));
}

#[test]
fn vectors_hold_two_words() {
    // movq xmm0, r12; punpcklqdq xmm0, xmm0; movups [rsp+16], xmm0; mov rax, [rsp+24];
    // add [rbx], rax
    let section = &[
        0x66, 0x49, 0x0f, 0x6e, 0xc4, 0x66, 0x0f, 0x6c, 0xc0, 0x0f, 0x11, 0x44, 0x24, 0x10, 0x48,
        0x8b, 0x44, 0x24, 0x18, 0x48, 0x01, 0x03,
    ];
    let both = |thread: u64| {
        let own = 5 * thread;
        let stack = 0x70_0000 + thread * 0x10_0000 + 24;
        let mut input = input(thread, 5, 40, own, 0);
        input.loads = SectionInput::digest(SectionInput::digest(0, stack, own), SHARED, 40);
        input
    };
    assert_eq!(outcome(section, &both(1), &both(2)), Ok(Outcome::Same));
}

#[test]
fn two_counters_that_one_instruction_adds_to_commute() {
    // movq xmm0, r12; punpcklqdq xmm0, xmm0; paddq xmm0, [rbx]; movaps [rbx], xmm0
    let section = &[
        0x66, 0x49, 0x0f, 0x6e, 0xc4, 0x66, 0x0f, 0x6c, 0xc0, 0x66, 0x0f, 0xd4, 0x03, 0x0f, 0x29,
        0x03,
    ];
    let both = |thread: u64| {
        let mut input = input(thread, 4, 40, 5 * thread, 0);
        input.found.push(FoundWord {
            address: SHARED + 8,
            value: 70,
            known: 0xff,
        });
        let low = SectionInput::digest(0, SHARED, 40);
        input.loads = SectionInput::digest(low, SHARED + 8, 70);
        input
    };
    assert_eq!(outcome(section, &both(1), &both(2)), Ok(Outcome::Same));
}

#[test]
fn lanes_of_a_vector_do_not_carry_into_one_another() {
    let (a, b) = (0x0102_ffff_u128, 0x0001_0001_u128);
    assert_eq!(lane_by_lane(a, b, 1, u64::wrapping_add), 0x0103_ff00);
    assert_eq!(lane_by_lane(a, b, 2, u64::wrapping_add), 0x0103_0000);
    assert_eq!(lane_by_lane(a, b, 4, u64::wrapping_add), 0x0104_0000);
    let upper = 1_u128 << 64;
    assert_eq!(
        lane_by_lane(upper, 1, 8, u64::wrapping_sub),
        upper | u128::from(u64::MAX)
    );
}

#[test]
fn sums_and_differences_set_the_flags_of_their_size() {
    let flags = |(result, flags): (u64, super::flags::Flags)| {
        (result, flags.carry, flags.overflow, flags.sign, flags.zero)
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(flags(add(0xff, 1, false, 1)), (0, yes, no, no, yes));
    assert_eq!(flags(add(0x7f, 1, false, 1)), (0x80, no, yes, yes, no));
    assert_eq!(flags(add(u64::MAX, 0, true, 8)), (0, yes, no, no, yes));
    assert_eq!(
        flags(subtract(0, 1, false, 4)),
        (0xffff_ffff, yes, no, yes, no)
    );
    assert_eq!(
        flags(subtract(0x8000_0000, 1, false, 4)),
        (0x7fff_ffff, no, yes, no, no)
    );
    assert_eq!(flags(subtract(5, 5, true, 8)), (u64::MAX, yes, no, yes, no));
}
