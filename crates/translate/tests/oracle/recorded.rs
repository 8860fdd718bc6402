//! The translator's record as instructions. Layouts: abi/convoy_trace.h.

use std::collections::HashMap;

use crate::expected::Access;
use crate::files::{Section, Step};

/// An instruction that was executed.
#[derive(Debug)]
pub struct Executed {
    /// Of its block.
    pub ip: u64,
    pub code_bytes: u64,
    pub number: usize,
    /// Its offset in the block where an access tells.
    pub at: Option<u64>,
    pub accesses: Vec<Access>,
    /// Of an operand that one register leads to, the offset from it.
    pub field: Option<i32>,
    /// What the function returns that ends here.
    pub result: Option<u64>,
}

impl Executed {
    /// Whether it may be the instruction of a step.
    pub fn is(&self, step: &Step) -> bool {
        let at = step.rip.wrapping_sub(self.ip);
        at < self.code_bytes
            && (at == 0) == (self.number == 0)
            && self.at.is_none_or(|told| told == at)
    }
}

/// CV_ACCESS_FIELD
const FIELD: u8 = 16;

struct Block {
    ip: u64,
    code_bytes: u64,
    instructions: usize,
    words: usize,
    accesses: Vec<Kind>,
}

#[derive(Clone, Copy)]
struct Kind {
    at: u64,
    instruction: usize,
    kind: u8,
    flags: u8,
    lanes: u8,
    size: u64,
    field: Option<i32>,
}

fn u16_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(
        bytes[at..at + 4].try_into().expect("4 bytes"),
    ))
}

fn blocks(mut log: &[u8]) -> HashMap<u64, Block> {
    let mut blocks = HashMap::new();
    while !log.is_empty() {
        let bytes = u32_at(log, 0) as usize;
        let id = u32_at(log, 4);
        assert_eq!(
            id as usize,
            blocks.len() + 1,
            "blocks are numbered in order"
        );
        let count = u16_at(log, 22) as usize;
        assert_eq!(bytes, 32 + 16 * count);
        let accesses = (0..count)
            .map(|index| {
                let entry = &log[32 + 16 * index..];
                Kind {
                    at: u16_at(entry, 0),
                    instruction: u16_at(entry, 2) as usize,
                    kind: entry[4],
                    flags: entry[5] & !FIELD,
                    lanes: entry[6],
                    size: u32_at(entry, 8),
                    field: (entry[5] & FIELD != 0).then_some(u32_at(entry, 12) as u32 as i32),
                }
            })
            .collect();
        let block = Block {
            ip: u32_at(log, 8) | u32_at(log, 12) << 32,
            code_bytes: u32_at(log, 16),
            instructions: u16_at(log, 20) as usize,
            words: u32_at(log, 24) as usize,
            accesses,
        };
        blocks.insert(id, block);
        log = &log[bytes..];
    }
    blocks
}

/// What was executed, one by one.
pub fn instructions(section: &Section) -> Result<Vec<Executed>, String> {
    let blocks = blocks(&section.blocks);
    let mut executed = Vec::new();
    let mut words = section.words.as_slice();
    while let [event, rest @ ..] = words {
        let argument = event & 0x00ff_ffff_ffff_ffff;
        words = match event >> 56 {
            1 => {
                let block = blocks
                    .get(&argument)
                    .ok_or_else(|| format!("no block {argument}"))?;
                let (own, rest) = rest
                    .split_at_checked(block.words - 1)
                    .ok_or("cut in a block")?;
                expand(block, own, &mut executed);
                rest
            }
            2 => rest,
            3 | 6 => rest.get(1..).ok_or("cut in a hook")?,
            7 => rest.get(9..).ok_or("cut in the registers")?,
            5 => {
                executed.truncate(executed.len() - argument as usize);
                rest
            }
            other => return Err(format!("event {other}")),
        };
    }
    Ok(executed)
}

fn expand(block: &Block, words: &[u64], executed: &mut Vec<Executed>) {
    let mut words = words.iter().copied();
    let mut accesses = block.accesses.iter().copied().peekable();
    for number in 0..block.instructions {
        let mut at = None;
        let mut found = Vec::new();
        let (mut field, mut result) = (None, None);
        while let Some(kind) = accesses.next_if(|kind| kind.instruction == number) {
            at = Some(kind.at);
            field = field.or(kind.field);
            let mut word = || words.next().expect("as many words as the accesses say");
            let access = |address, bytes| Access {
                address,
                bytes,
                flags: kind.flags,
            };
            match kind.kind {
                0 => found.push(access(word(), kind.size)),
                1 => {
                    let (lowest, times) = (word(), word());
                    if times > 0 {
                        found.push(access(lowest, times * kind.size));
                    }
                }
                2 => {
                    let (address, bits) = (word(), word());
                    assert!(
                        kind.lanes >= 64 || bits >> kind.lanes == 0,
                        "no more bits than lanes"
                    );
                    let lanes = (0..u64::from(kind.lanes)).filter(|lane| bits >> lane & 1 != 0);
                    found.extend(lanes.map(|lane| access(address + lane * kind.size, kind.size)));
                }
                3 => {
                    let bits = word();
                    assert!(bits >> kind.lanes == 0, "no more bits than lanes");
                    for lane in 0..kind.lanes {
                        let address = word();
                        if bits >> lane & 1 != 0 {
                            found.push(access(address, kind.size));
                        }
                    }
                }
                4 => result = Some(word()),
                5 => {
                    word();
                }
                other => panic!("kind {other}"),
            }
        }
        executed.push(Executed {
            ip: block.ip,
            code_bytes: block.code_bytes,
            number,
            at,
            accesses: found,
            field,
            result,
        });
    }
    assert_eq!(words.next(), None, "no more words than the accesses say");
}
