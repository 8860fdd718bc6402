//! Files that are damaged on purpose, with right checksums: nothing may panic, hang or eat memory.

use convoy_profile::{Profile, ReadWarning};

use crate::draw::{profile, Random};
use crate::round_trip::assert_sound;

/// Tag, process, uncompressed payload.
pub type Section = ([u8; 4], u32, Vec<u8>);

pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn sections(bytes: &[u8]) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut rest = &bytes[8..];
    while !rest.is_empty() {
        let (header, after) = rest.split_at(24);
        let (compressed, after) = after.split_at(word(header, 12) as usize);
        let payload = zstd::bulk::decompress(compressed, word(header, 8) as usize).unwrap();
        sections.push((header[..4].try_into().unwrap(), word(header, 4), payload));
        rest = after;
    }
    sections
}

pub fn file(sections: &[Section]) -> Vec<u8> {
    let sections = sections
        .iter()
        .map(|(tag, process, payload)| section(tag, *process, payload));
    [
        b"CONVOY\0\x01".to_vec(),
        sections.collect::<Vec<_>>().concat(),
    ]
    .concat()
}

pub fn section(tag: &[u8; 4], process: u32, payload: &[u8]) -> Vec<u8> {
    let compressed = zstd::bulk::compress(payload, 1).unwrap();
    let mut bytes = tag.to_vec();
    bytes.extend(process.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend((compressed.len() as u32).to_le_bytes());
    bytes.extend(crc32fast::hash(&compressed).to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(compressed);
    bytes
}

/// A varint.
pub fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

const TAGS: [[u8; 4]; 26] = [
    *b"PROC", *b"NOAG", *b"FRAM", *b"STAK", *b"OBJS", *b"CNTS", *b"SCHD", *b"SNAM", *b"SLUP",
    *b"STHR", *b"SLST", *b"SLIC", *b"SBIN", *b"SOFF", *b"SWAK", *b"STIM", *b"SLAN", *b"SINT",
    *b"OTHR", *b"EPRC", *b"EWIN", *b"EOBJ", *b"ESIT", *b"ETHR", *b"EBLK", *b"CAUS",
];

#[test]
fn lying_payloads_do_no_harm() {
    let mut unharmed = 0;
    for seed in 0..1000 {
        let mut r = Random::new(seed);
        let whole = profile(seed % 50, 6);
        let mut sections = sections(&whole.to_bytes().unwrap());
        for _ in 0..=r.below(4) {
            let at = r.below(sections.len() as u64) as usize;
            let (tag, process, payload) = &mut sections[at];
            let byte = r.below(payload.len() as u64) as usize;
            match r.below(6) {
                0 => payload.truncate(byte),
                1 => payload.extend(number(r.number())),
                2 => *process = r.number() as u32,
                3 => *tag = TAGS[r.below(TAGS.len() as u64) as usize],
                _ if payload.is_empty() => {}
                4 => payload[byte] = r.next() as u8,
                _ => drop(payload.splice(byte..=byte, number(r.number()))),
            }
        }
        if r.flag() {
            let (from, to) = (
                r.below(sections.len() as u64),
                r.below(sections.len() as u64),
            );
            sections.swap(from as usize, to as usize);
        }
        if let Ok((part, warnings)) = Profile::read(&file(&sections)) {
            assert_sound(&part);
            unharmed += u32::from(warnings.is_empty());
        }
    }
    assert!(
        unharmed < 500,
        "the lies are too small: {unharmed} files were read without a word"
    );
}

#[test]
fn few_bytes_cannot_claim_many_rows() {
    let whole = profile(3, 5);
    let mut sections = sections(&whole.to_bytes().unwrap());
    let end = sections.pop().unwrap();
    // A section of frames that begins at row 2^32, and one with 2^60 rows.
    sections.push((
        *b"FRAM",
        0,
        [number(1 << 32), number(0), number(0)].concat(),
    ));
    sections.push((
        *b"FRAM",
        0,
        [number(0), number(1 << 60), number(0)].concat(),
    ));
    // A stack of 2^40 frames.
    sections.push((
        *b"STAK",
        0,
        [number(0), number(1), number(1 << 40)].concat(),
    ));
    sections.push(end);
    let (part, warnings) = Profile::read(&file(&sections)).unwrap();
    assert_eq!(part, whole);
    let damaged = |w: &&ReadWarning| matches!(w, ReadWarning::Damaged { .. });
    assert_eq!(warnings.iter().filter(damaged).count(), 3, "{warnings:?}");
}

#[test]
fn one_long_text_cannot_be_named_often() {
    // 20,000 frames that all are called by the same 60,000 letters: 1.2 GB from 20 kB.
    let rows = 20_000u64;
    let name = "x".repeat(60_000);
    let mut payload = [number(0), number(rows), number(1), number(60_000)].concat();
    payload.extend(name.as_bytes());
    for per_row in [0, 0, 0, 0, 0, 1, 0, 0, 0] {
        payload.extend(std::iter::repeat_n(per_row, rows as usize));
    }
    let bytes = file(&[(*b"FRAM", 0, payload), (*b"END ", 0, vec![])]);
    assert!(bytes.len() < 20_000, "{}", bytes.len());
    assert!(Profile::read(&bytes).is_err(), "its one section is refused");
}

#[test]
fn many_sections_share_one_budget() {
    // 60 MB of zeroes: the depths of 32,768 empty stacks, then more than any column has.
    let zeroes = [number(0), number(32_768), vec![0; 60 << 20]].concat();
    let bomb = section(b"STAK", 0, &zeroes);
    let bytes = [&b"CONVOY\0\x01"[..], &bomb.repeat(1000)].concat();
    assert!(bytes.len() < 10_000_000, "{}", bytes.len());
    let start = std::time::Instant::now();
    assert!(Profile::read(&bytes).is_err(), "nothing in it is whole");
    assert!(start.elapsed().as_secs() < 20, "60 GB were unpacked");
}
