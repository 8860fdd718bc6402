//! Traced sections of a synthetic profile: what each one executes, step by step, and from that every table, by the
//! accounting that real traces go through.

use std::collections::{BTreeMap, HashMap};

use convoy_profile::{FrameIx, ObjectIx, Op, Process, Profile, SectionEnd, StackIx, ThreadIx};
use convoy_sections::{Access, AccessKind, Accounting, Allocator, Block, Options, Places, Section};

use crate::ProfileBuilder;

/// Something that a section does at a place.
#[derive(Debug, Clone)]
pub enum Step {
    /// Reads eight bytes.
    Read(FrameIx, u64),
    /// Writes eight bytes.
    Write(FrameIx, u64),
    /// Reads and writes them in one instruction.
    Add(FrameIx, u64),
    /// So many instructions without memory.
    Work(FrameIx, u16),
    /// A call at this place, and what is done in it.
    Call(FrameIx, Vec<Self>),
    /// Takes and releases another lock, with what is done in between.
    Lock(FrameIx, ObjectIx, Vec<Self>),
    /// Enters the kernel.
    Syscall(FrameIx, u32),
    /// Reads and writes eight bytes of the object at this address, so far behind its begin.
    AddField(FrameIx, u64, i32),
    /// A call at this place of an allocator, which uses this word of its own, and hands out the memory behind it.
    Allocate(FrameIx, u64),
}

/// Sections in the making. Everything is in the first process.
#[derive(Debug)]
pub struct Traces {
    accounting: Accounting,
    blocks: HashMap<(FrameIx, Shape), u32>,
    /// Frames by the first address of their blocks.
    frames: BTreeMap<u64, FrameIx>,
    now_ns: u64,
    weight: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    Access(bool, bool),
    Field(i32),
    Work(u16),
    Call,
    Return,
    Kernel,
    Allocator,
}

const BASE: u64 = 0x5500_0008_0000;
const ALLOCATOR: u64 = 0x5500_000f_0000;
const STACK: u64 = 0x7ffd_0000_0000;
const LOCK_NS: u64 = 40;

impl Default for Traces {
    fn default() -> Self {
        Self::new()
    }
}

impl Traces {
    /// No section yet.
    pub fn new() -> Self {
        let mut accounting = Accounting::new(Options::default());
        accounting.allocator(0, ALLOCATOR, Allocator::HandsOut);
        Self {
            accounting,
            blocks: HashMap::new(),
            frames: BTreeMap::new(),
            now_ns: 8_000_000_000,
            weight: 1,
        }
    }

    /// Sections that each of those that follow stands for.
    pub fn weight(&mut self, weight: u32) -> &mut Self {
        self.weight = weight;
        self
    }

    /// A whole section, `gap_ns` after the one before.
    pub fn section(
        &mut self,
        p: &mut crate::ProfileBuilder,
        thread: ThreadIx,
        lock: ObjectIx,
        site: StackIx,
        gap_ns: u64,
        steps: &[Step],
    ) -> &mut Self {
        let mut events = Vec::new();
        self.steps(p, steps, 0, &mut events);
        let process = p.raw();
        let object = process.objects.get(lock as usize);
        let frames = process
            .stacks
            .get(site as usize)
            .and_then(|stack| stack.first());
        let begin_ns = self.now_ns + gap_ns;
        let end_ns = begin_ns + LOCK_NS + events.len() as u64 * 2;
        self.now_ns = end_ns;
        self.accounting.section(&Section {
            process: 0,
            thread,
            object: object.map_or(0, |object| object.addr),
            ra: frames.copied().map_or(0, u64::from),
            stack_lo: 0,
            stack: site,
            op: Some(match object.map(|object| object.kind) {
                Some(convoy_profile::ObjectKind::RwLock) => Op::RwlockWr,
                _ => Op::MutexLock,
            }),
            begin_ns,
            end_ns,
            end: SectionEnd::Released,
            weight: self.weight,
            waited: false,
            events: &events,
        });
        self
    }

    fn steps(
        &mut self,
        p: &mut crate::ProfileBuilder,
        steps: &[Step],
        depth: u64,
        out: &mut Vec<u64>,
    ) {
        let slot = STACK - 64 * depth;
        for step in steps {
            match step {
                Step::Read(frame, word) => {
                    self.run(*frame, Shape::Access(true, false), &[*word], out)
                }
                Step::Write(frame, word) => {
                    self.run(*frame, Shape::Access(false, true), &[*word], out)
                }
                Step::Add(frame, word) => {
                    self.run(*frame, Shape::Access(true, true), &[*word], out)
                }
                Step::AddField(frame, object, field) => {
                    let address = object.wrapping_add_signed(i64::from(*field));
                    self.run(*frame, Shape::Field(*field), &[address], out);
                }
                Step::Work(frame, n) => self.run(*frame, Shape::Work(*n), &[], out),
                Step::Call(frame, inner) => {
                    self.run(*frame, Shape::Call, &[slot], out);
                    self.steps(p, inner, depth + 1, out);
                    self.run(*frame, Shape::Return, &[slot], out);
                }
                Step::Lock(frame, lock, inner) => {
                    let objects = &p.raw().objects;
                    let address = objects.get(*lock as usize).map_or(0, |object| object.addr);
                    self.run(*frame, Shape::Call, &[slot], out);
                    out.extend([3 << 56 | 1, address]);
                    self.steps(p, inner, depth, out);
                    self.run(*frame, Shape::Call, &[slot], out);
                    out.extend([6 << 56, address]);
                }
                Step::Syscall(frame, nr) => {
                    self.run(*frame, Shape::Kernel, &[], out);
                    out.push(2 << 56 | u64::from(*nr));
                }
                Step::Allocate(frame, word) => {
                    self.run(*frame, Shape::Call, &[slot], out);
                    self.run(*frame, Shape::Allocator, &[*word, slot, *word + 8], out);
                }
            }
        }
    }

    fn run(&mut self, frame: FrameIx, shape: Shape, words: &[u64], out: &mut Vec<u64>) {
        let id = self.block(frame, shape);
        out.push(1 << 56 | u64::from(id));
        out.extend(words);
    }

    fn block(&mut self, frame: FrameIx, shape: Shape) -> u32 {
        if let Some(&id) = self.blocks.get(&(frame, shape)) {
            return id;
        }
        let id = self.blocks.len() as u32 + 1;
        self.blocks.insert((frame, shape), id);
        let (ip, instructions, accesses) = match shape {
            Shape::Access(reads, writes) => (None, 1, vec![access(0, reads, writes, false)]),
            Shape::Field(field) => {
                let access = access(0, true, true, false);
                let field = Some(field);
                (None, 1, vec![Access { field, ..access }])
            }
            Shape::Work(n) => (None, n, vec![]),
            Shape::Call => (None, 1, vec![access(0, false, true, true)]),
            Shape::Return => (None, 1, vec![access(0, true, false, true)]),
            Shape::Kernel => (None, 1, vec![]),
            Shape::Allocator => (
                Some(ALLOCATOR),
                20,
                vec![
                    access(3, true, true, false),
                    access(19, true, false, true),
                    Access {
                        kind: AccessKind::Result,
                        ..access(19, true, false, true)
                    },
                ],
            ),
        };
        let ip = ip.unwrap_or(BASE + u64::from(id) * 0x1000);
        self.frames.insert(ip, frame);
        self.accounting.block(
            0,
            id,
            Block {
                ip,
                code_bytes: u32::from(instructions) * 4,
                instructions,
                accesses,
            },
        );
        id
    }

    /// The profile with its sections, as it is read from a file.
    pub fn recorded(self, builder: ProfileBuilder) -> Profile {
        let mut profile = builder.build();
        self.put(&mut profile);
        let bytes = profile.to_bytes().expect("a profile can be written");
        let (profile, warnings) = Profile::read(&bytes).expect("and read");
        assert_eq!(warnings, []);
        profile
    }

    /// The profile with its sections.
    pub fn put(self, profile: &mut Profile) {
        let Some(process) = profile.processes.first() else {
            return;
        };
        let mut names = Names {
            process,
            frames: &self.frames,
        };
        let mut sections = self.accounting.finish(&mut names);
        sections.sampling.all_sites = true;
        profile.sections = Some(sections);
    }
}

fn access(instruction: u16, reads: bool, writes: bool, implicit: bool) -> Access {
    Access {
        at: instruction * 4,
        instruction,
        kind: AccessKind::Plain,
        reads,
        writes,
        atomic: false,
        implicit,
        lanes: 0,
        size: 8,
        field: None,
    }
}

struct Names<'a> {
    process: &'a Process,
    frames: &'a BTreeMap<u64, FrameIx>,
}

impl Places for Names<'_> {
    fn process(&mut self, process: u32) -> Option<u32> {
        Some(process)
    }
    fn instruction(&mut self, _: u32, ip: u64) -> FrameIx {
        let before = self.frames.range(..=ip).next_back();
        before.map_or(0, |(_, frame)| *frame)
    }
    fn return_address(&mut self, _: u32, ra: u64) -> FrameIx {
        ra as FrameIx
    }
    fn stack(&mut self, _: u32, stack: u32) -> StackIx {
        stack
    }
    fn object(&mut self, _: u32, address: u64) -> Option<ObjectIx> {
        let objects = self.process.objects.iter();
        (0..)
            .zip(objects)
            .find(|(_, o)| o.addr == address)
            .map(|(ix, _)| ix)
    }
    fn thread(&mut self, _: u32, thread: u32) -> Option<ThreadIx> {
        ((thread as usize) < self.process.threads.len()).then_some(thread)
    }
    fn op(&mut self, op: u32) -> Option<Op> {
        (op == 1).then_some(Op::MutexLock)
    }
}
