//! Records of a ring, as `perf_event_open(2)` describes them for the events that are opened here.

use super::existing_threads::ThreadSnapshot;
use crate::kernel::raw::{Outcome, Regs};

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Bytes of a record's header: kind, flags, length.
const HEADER: usize = 8;
/// Pid, tid, time and processor at the end of all records but samples.
const TRAILER: usize = 24;

/// Something that a ring, or a first look at /proc, says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// The thread came on a processor.
    In { tid: u32 },
    /// It left it; `ready`: it could have gone on.
    Out { tid: u32, ready: bool },
    /// `parent` made `tid` in process `pid`.
    Fork { parent: u32, tid: u32, pid: u32 },
    /// It ended.
    Exit { tid: u32 },
    /// It has a new name, `exec`: because its process has become another program.
    Name {
        pid: u32,
        tid: u32,
        comm: [u8; 16],
        exec: bool,
    },
    /// It was found here.
    Sample {
        tid: u32,
        regs: Regs,
        outcome: Option<Outcome>,
        stack: Box<[u8]>,
    },
    /// So many records before this one are missing.
    Lost {
        n: u64,
        /// Time of the last record before, which whoever reads the ring knows.
        from_ns: u64,
    },
    /// It was there before.
    ThreadSnapshot(Box<ThreadSnapshot>),
}

/// Bytes as numbers; beyond the end there are zeroes.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u32(self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }

    fn rest(self, at: usize) -> &'a [u8] {
        self.0.get(at..).unwrap_or_default()
    }
}

/// The records in these bytes that matter, each with its time.
pub(super) fn parse(mut bytes: &[u8]) -> impl Iterator<Item = (u64, What)> + '_ {
    std::iter::from_fn(move || loop {
        let header = Fields(bytes.get(..HEADER)?);
        let (kind, flags) = (header.u32(0), (header.u32(4) & 0xffff) as u16);
        let length = (header.u32(4) >> 16) as usize;
        // A length that cannot be: the kernel's rings have none.
        let record = bytes.get(HEADER..length)?;
        bytes = &bytes[length..];
        if let Some(found) = one(kind, flags, record) {
            return Some(found);
        }
    })
}

fn one(kind: u32, flags: u16, record: &[u8]) -> Option<(u64, What)> {
    if kind == SAMPLE {
        return Some(sample(Fields(record)));
    }
    let (body, trailer) = record.split_at_checked(record.len().checked_sub(TRAILER)?)?;
    let (body, trailer) = (Fields(body), Fields(trailer));
    let (tid, time) = (trailer.u32(4), trailer.u64(8));
    let what = match kind {
        SWITCH if flags & MISC_SWITCH_OUT == 0 => What::In { tid },
        SWITCH => What::Out {
            tid,
            ready: flags & MISC_SWITCH_OUT_PREEMPT != 0,
        },
        // pid, ppid, tid, ptid: of whom it is about, who need not be who was running.
        FORK => What::Fork {
            pid: body.u32(0),
            tid: body.u32(8),
            parent: body.u32(12),
        },
        EXIT => What::Exit { tid: body.u32(8) },
        COMM => What::Name {
            pid: body.u32(0),
            tid: body.u32(4),
            comm: comm(body.rest(8)),
            exec: flags & MISC_COMM_EXEC != 0,
        },
        LOST => What::Lost {
            n: body.u64(8),
            from_ns: 0,
        },
        LOST_SAMPLES => What::Lost {
            n: body.u64(0),
            from_ns: 0,
        },
        _ => return None,
    };
    Some((time, what))
}

/// A name, cut to what the kernel keeps of it.
pub(super) fn comm(name: &[u8]) -> [u8; 16] {
    let mut comm = [0; 16];
    let text = name.iter().copied().take_while(|&byte| byte != 0).take(15);
    comm.iter_mut().zip(text).for_each(|(to, byte)| *to = byte);
    comm
}

/// Pid, tid, time, processor; a word that says whether there are registers, and those; the room for the stack,
/// the room itself, and how much of it is filled.
fn sample(fields: Fields<'_>) -> (u64, What) {
    let (tid, time) = (fields.u32(4), fields.u64(8));
    let mut at = 24;
    let has_registers = fields.u64(at) != 0;
    at += 8;
    let (regs, outcome) = if has_registers {
        let (regs, outcome, bytes) = registers(fields, at);
        at += bytes;
        (regs, outcome)
    } else {
        (Regs::default(), None)
    };
    let room = fields.u64(at) as usize;
    let stack = fields.rest(at + 8);
    let stack = stack.get(..room).unwrap_or_default();
    let filled = fields.rest(at + 8 + stack.len());
    let filled = Fields(filled).u64(0) as usize;
    let stack = stack.get(..filled).unwrap_or_default().into();
    let what = What::Sample {
        tid,
        regs,
        outcome,
        stack,
    };
    (time, what)
}

#[cfg(target_arch = "x86_64")]
fn registers(fields: Fields<'_>, at: usize) -> (Regs, Option<Outcome>, usize) {
    let outcome = Outcome {
        accumulator: fields.u64(at),
        flags: fields.u32(at + 32),
    };
    let regs = Regs {
        fp: fields.u64(at + 8),
        sp: fields.u64(at + 16),
        ip: fields.u64(at + 24),
        lr: 0,
    };
    (regs, Some(outcome), 40)
}

#[cfg(target_arch = "aarch64")]
fn registers(fields: Fields<'_>, at: usize) -> (Regs, Option<Outcome>, usize) {
    let regs = Regs {
        fp: fields.u64(at),
        lr: fields.u64(at + 8),
        sp: fields.u64(at + 16),
        ip: fields.u64(at + 24),
    };
    (regs, None, 32)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn record(kind: u32, flags: u16, words: &[u64]) -> Vec<u8> {
        let length = (HEADER + 8 * words.len()) as u64;
        let header = u64::from(kind) | u64::from(flags) << 32 | length << 48;
        std::iter::once(header)
            .chain(words.iter().copied())
            .flat_map(u64::to_ne_bytes)
            .collect()
    }

    /// Two numbers of 32 bits.
    fn pair(low: u64, high: u64) -> u64 {
        low | high << 32
    }

    #[test]
    fn records_are_read_as_the_manual_has_them() {
        let trailer = [pair(7, 8), 1000, 0];
        let with = |body: &[u64]| [body, &trailer].concat();
        let name = u64::from_ne_bytes(*b"worker\0\0");
        let bytes = [
            record(SWITCH, 0, &trailer),
            record(SWITCH, MISC_SWITCH_OUT, &trailer),
            record(SWITCH, MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT, &trailer),
            record(FORK, 0, &with(&[pair(7, 1), pair(9, 8), 1000])),
            record(EXIT, 0, &with(&[pair(7, 7), pair(9, 9), 1000])),
            record(COMM, MISC_COMM_EXEC, &with(&[pair(7, 8), name])),
            record(77, 0, &trailer),
            record(LOST, 0, &with(&[5, 42])),
        ]
        .concat();
        let what: Vec<What> = parse(&bytes)
            .map(|(time, what)| {
                assert_eq!(time, 1000);
                what
            })
            .collect();
        let out = |ready| What::Out { tid: 8, ready };
        let expected = [
            What::In { tid: 8 },
            out(false),
            out(true),
            What::Fork {
                parent: 8,
                tid: 9,
                pid: 7,
            },
            What::Exit { tid: 9 },
            What::Name {
                pid: 7,
                tid: 8,
                comm: *b"worker\0\0\0\0\0\0\0\0\0\0",
                exec: true,
            },
            What::Lost { n: 42, from_ns: 0 },
        ];
        assert_eq!(what, expected);
    }

    #[test]
    fn of_a_stack_only_what_is_filled_is_taken() {
        let head = [pair(7, 8), 1000, 0];
        let full = [
            &head[..],
            &[2, 0xa, 0xb, 0x5, 0x1, 0x246],
            &[16, 0xaa, 0xbb, 8],
        ]
        .concat();
        let kernel_thread = [&head[..], &[0], &[0]].concat();
        let bytes = [record(SAMPLE, 0, &full), record(SAMPLE, 0, &kernel_thread)].concat();
        let sample = |regs, outcome, stack: &[u8]| {
            let stack = stack.into();
            (
                1000,
                What::Sample {
                    tid: 8,
                    regs,
                    outcome,
                    stack,
                },
            )
        };
        let regs = Regs {
            ip: 0x1,
            sp: 0x5,
            fp: 0xb,
            lr: 0,
        };
        let outcome = Outcome {
            accumulator: 0xa,
            flags: 0x246,
        };
        let expected = [
            sample(regs, Some(outcome), &0xaa_u64.to_ne_bytes()),
            sample(Regs::default(), None, &[]),
        ];
        assert_eq!(parse(&bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn bytes_cut_anywhere_do_no_harm() {
        let words = [pair(7, 8), 1000, 0, 2, 0, 1, 2, 3, 4, u64::MAX, 5, u64::MAX];
        let bytes = [record(SAMPLE, 0, &words), record(LOST, 0, &words[..4])].concat();
        for length in 0..bytes.len() {
            let whole = parse(&bytes[..length]).count();
            assert_eq!(whole, usize::from(length >= HEADER + 96), "{length}");
        }
        // A record that says it is shorter than its own header ends the reading.
        assert_eq!(parse(&record(SWITCH, 0, &[])).count(), 0);
        assert_eq!(parse(&[0; 64]).count(), 0);
    }
}
