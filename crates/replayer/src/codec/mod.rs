//! Programs as bytes, for the process that replays them: 4 to 6 bytes an operation.
//!
//! Integers are LEB128 varints; times are the four bytes of a float. Written and read by the same
//! build of Convoy: there is a version, and no compatibility.

use convoy_replay::program::{
    Barrier, Channel, Cond, Lock, LockKind, Need, Op, Program, Semaphore, Thread, NO_SECTION,
};

/// First bytes of an encoded program: name and version.
const MAGIC: &[u8; 8] = b"cvprog\x00\x01";

/// Why bytes are not a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another kind of data, or of another version of Convoy.
    #[error("these bytes are not a program of this version of Convoy")]
    NotAProgram,
    /// The bytes end within the program.
    #[error("the program is cut at byte {0}")]
    Cut(usize),
    /// A value that nothing has.
    #[error("the program has an unknown value at byte {0}")]
    Unknown(usize),
}

/// A program as bytes.
pub fn encode(program: &Program) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(64 + 5 * program.op_count()));
    out.0.extend_from_slice(MAGIC);
    out.int(program.locks.len() as u64);
    for lock in &program.locks {
        out.int(lock.recorded.into());
        out.lock_kind(lock.kind);
    }
    out.int(program.conds.len() as u64);
    for cond in &program.conds {
        out.int(cond.recorded.into());
    }
    out.int(program.barriers.len() as u64);
    for barrier in &program.barriers {
        out.int(barrier.recorded.into());
        out.int(barrier.count.into());
    }
    out.int(program.semaphores.len() as u64);
    for semaphore in &program.semaphores {
        out.int(semaphore.recorded.into());
        out.int(semaphore.value.into());
        out.int(semaphore.permits.into());
    }
    out.int(program.channels.len() as u64);
    for channel in &program.channels {
        out.int(channel.tokens.into());
    }
    out.int(program.threads.len() as u64);
    for thread in &program.threads {
        out.int(thread.recorded.into());
        out.byte(thread.at_start.into());
        out.0.extend_from_slice(&thread.start_ns.to_le_bytes());
        out.int(thread.ops.len() as u64);
        let mut section = 0;
        for op in &thread.ops {
            out.op(op, &mut section);
        }
    }
    out.0
}

/// Reads what [`encode`] wrote.
///
/// # Errors
///
/// Bytes that are cut, or that no program has. Memory is bounded by a multiple of their length.
pub fn decode(bytes: &[u8]) -> Result<Program, DecodeError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(DecodeError::NotAProgram)?;
    let mut reader = Reader {
        bytes,
        at: bytes.len() - rest.len(),
    };
    let program = Program {
        locks: reader.list(|reader| {
            Ok(Lock {
                recorded: reader.int32()?,
                kind: reader.lock_kind()?,
                // Lines go from CPU to CPU by themselves here.
                transfer: None,
            })
        })?,
        conds: reader.list(|reader| {
            Ok(Cond {
                recorded: reader.int32()?,
            })
        })?,
        barriers: reader.list(|reader| {
            Ok(Barrier {
                recorded: reader.int32()?,
                count: reader.int32()?,
            })
        })?,
        semaphores: reader.list(|reader| {
            Ok(Semaphore {
                recorded: reader.int32()?,
                value: reader.int32()?,
                permits: reader.int32()?,
            })
        })?,
        channels: reader.list(|reader| {
            Ok(Channel {
                tokens: reader.int32()?,
            })
        })?,
        threads: reader.list(Reader::thread)?,
    };
    if reader.at == bytes.len() {
        Ok(program)
    } else {
        Err(DecodeError::Unknown(reader.at))
    }
}

/// First byte of an operation. Acquires have a variant without a section.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Tag {
    Work,
    Sleep,
    Acquire,
    AcquireShared,
    AcquireUnnamed,
    AcquireSharedUnnamed,
    TryAcquire,
    TryAcquireUnnamed,
    TryFail,
    Release,
    AwaitToken,
    AwaitCount,
    Post,
    Signal,
    Broadcast,
    Barrier,
    SemWait,
    SemPost,
    Spawn,
    Join,
}

impl Tag {
    const ALL: [Self; 20] = [
        Self::Work,
        Self::Sleep,
        Self::Acquire,
        Self::AcquireShared,
        Self::AcquireUnnamed,
        Self::AcquireSharedUnnamed,
        Self::TryAcquire,
        Self::TryAcquireUnnamed,
        Self::TryFail,
        Self::Release,
        Self::AwaitToken,
        Self::AwaitCount,
        Self::Post,
        Self::Signal,
        Self::Broadcast,
        Self::Barrier,
        Self::SemWait,
        Self::SemPost,
        Self::Spawn,
        Self::Join,
    ];
}

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn int(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    fn float(&mut self, value: f32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn lock_kind(&mut self, kind: LockKind) {
        match kind {
            LockKind::Mutex => self.byte(0),
            LockKind::Adaptive { spin_ns } => {
                self.byte(1);
                self.float(spin_ns);
            }
            LockKind::Spin => self.byte(2),
            LockKind::RwLock => self.byte(3),
            LockKind::Ticket => self.byte(4),
            LockKind::Absent => self.byte(5),
        }
    }

    /// Sections are numbered about in the order of each thread: differences are small.
    fn section(&mut self, section: u32, before: &mut u32) {
        let difference = i64::from(section) - i64::from(*before);
        self.int((difference << 1 ^ difference >> 63) as u64);
        *before = section;
    }

    fn op(&mut self, op: &Op, section_before: &mut u32) {
        let mut tagged = |tag: Tag, index: u32| {
            self.byte(tag as u8);
            self.int(index.into());
        };
        match *op {
            Op::Work { ns } => {
                self.byte(Tag::Work as u8);
                self.float(ns);
            }
            Op::Sleep { ns } => {
                self.byte(Tag::Sleep as u8);
                self.float(ns);
            }
            Op::Acquire {
                lock,
                shared,
                section,
            } => {
                let named = section != NO_SECTION;
                tagged(
                    match (shared, named) {
                        (false, true) => Tag::Acquire,
                        (true, true) => Tag::AcquireShared,
                        (false, false) => Tag::AcquireUnnamed,
                        (true, false) => Tag::AcquireSharedUnnamed,
                    },
                    lock,
                );
                if named {
                    self.section(section, section_before);
                }
            }
            Op::TryAcquire { lock, section } => {
                if section == NO_SECTION {
                    tagged(Tag::TryAcquireUnnamed, lock);
                } else {
                    tagged(Tag::TryAcquire, lock);
                    self.section(section, section_before);
                }
            }
            Op::TryFail { lock } => tagged(Tag::TryFail, lock),
            Op::Release { lock } => tagged(Tag::Release, lock),
            Op::Await { cond, lock, need } => match need {
                Need::Token(channel) => {
                    tagged(Tag::AwaitToken, cond);
                    self.int(lock.into());
                    self.int(channel.into());
                }
                Need::Count(channel, count) => {
                    tagged(Tag::AwaitCount, cond);
                    self.int(lock.into());
                    self.int(channel.into());
                    self.int(count.into());
                }
            },
            Op::Post { channel } => tagged(Tag::Post, channel),
            Op::Signal { cond } => tagged(Tag::Signal, cond),
            Op::Broadcast { cond } => tagged(Tag::Broadcast, cond),
            Op::Barrier { barrier } => tagged(Tag::Barrier, barrier),
            Op::SemWait { sem } => tagged(Tag::SemWait, sem),
            Op::SemPost { sem } => tagged(Tag::SemPost, sem),
            Op::Spawn { thread } => tagged(Tag::Spawn, thread),
            Op::Join { thread } => tagged(Tag::Join, thread),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or(DecodeError::Cut(self.at))?;
        self.at += 1;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let array = *rest.first_chunk().ok_or(DecodeError::Cut(self.at))?;
        self.at += N;
        Ok(array)
    }

    fn int(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Unknown(self.at))
    }

    fn int32(&mut self) -> Result<u32, DecodeError> {
        let at = self.at;
        u32::try_from(self.int()?).map_err(|_| DecodeError::Unknown(at))
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    /// A list, whose length comes first; each element takes at least a byte.
    fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let length = self.int()?;
        if length > (self.bytes.len() - self.at) as u64 {
            return Err(DecodeError::Cut(self.bytes.len()));
        }
        (0..length).map(|_| element(self)).collect()
    }

    fn lock_kind(&mut self) -> Result<LockKind, DecodeError> {
        Ok(match self.byte()? {
            0 => LockKind::Mutex,
            1 => LockKind::Adaptive {
                spin_ns: self.float()?,
            },
            2 => LockKind::Spin,
            3 => LockKind::RwLock,
            4 => LockKind::Ticket,
            5 => LockKind::Absent,
            _ => return Err(DecodeError::Unknown(self.at - 1)),
        })
    }

    fn thread(&mut self) -> Result<Thread, DecodeError> {
        let recorded = self.int32()?;
        let at_start = self.byte()? != 0;
        let start_ns = f64::from_le_bytes(self.array()?);
        let mut section = 0;
        Ok(Thread {
            recorded,
            at_start,
            start_ns,
            ops: self.list(|reader| reader.op(&mut section))?,
        })
    }

    fn section(&mut self, before: &mut u32) -> Result<u32, DecodeError> {
        let coded = self.int()?;
        let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        let section = i64::from(*before).checked_add(difference);
        let section = section.and_then(|section| u32::try_from(section).ok());
        *before = section.ok_or(DecodeError::Unknown(self.at))?;
        Ok(*before)
    }

    fn op(&mut self, section_before: &mut u32) -> Result<Op, DecodeError> {
        let tag = Tag::ALL.get(usize::from(self.byte()?)).copied();
        let tag = tag.ok_or(DecodeError::Unknown(self.at - 1))?;
        Ok(match tag {
            Tag::Work => Op::Work { ns: self.float()? },
            Tag::Sleep => Op::Sleep { ns: self.float()? },
            Tag::Acquire | Tag::AcquireShared => Op::Acquire {
                lock: self.int32()?,
                shared: matches!(tag, Tag::AcquireShared),
                section: self.section(section_before)?,
            },
            Tag::AcquireUnnamed | Tag::AcquireSharedUnnamed => Op::Acquire {
                lock: self.int32()?,
                shared: matches!(tag, Tag::AcquireSharedUnnamed),
                section: NO_SECTION,
            },
            Tag::TryAcquire => Op::TryAcquire {
                lock: self.int32()?,
                section: self.section(section_before)?,
            },
            Tag::TryAcquireUnnamed => Op::TryAcquire {
                lock: self.int32()?,
                section: NO_SECTION,
            },
            Tag::TryFail => Op::TryFail {
                lock: self.int32()?,
            },
            Tag::Release => Op::Release {
                lock: self.int32()?,
            },
            Tag::AwaitToken => Op::Await {
                cond: self.int32()?,
                lock: self.int32()?,
                need: Need::Token(self.int32()?),
            },
            Tag::AwaitCount => Op::Await {
                cond: self.int32()?,
                lock: self.int32()?,
                need: self.count()?,
            },
            Tag::Post => Op::Post {
                channel: self.int32()?,
            },
            Tag::Signal => Op::Signal {
                cond: self.int32()?,
            },
            Tag::Broadcast => Op::Broadcast {
                cond: self.int32()?,
            },
            Tag::Barrier => Op::Barrier {
                barrier: self.int32()?,
            },
            Tag::SemWait => Op::SemWait { sem: self.int32()? },
            Tag::SemPost => Op::SemPost { sem: self.int32()? },
            Tag::Spawn => Op::Spawn {
                thread: self.int32()?,
            },
            Tag::Join => Op::Join {
                thread: self.int32()?,
            },
        })
    }

    fn count(&mut self) -> Result<Need, DecodeError> {
        let channel = self.int32()?;
        Ok(Need::Count(channel, self.int32()?))
    }
}

#[cfg(test)]
mod tests;
