//! The thread that reads what agents trace, and gives their room back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use convoy_abi as abi;
use convoy_profile::SectionEnd;
use convoy_sections::{Accounting, Block, Options, Section};

use super::file::TraceFile;
use super::modules::Modules;
use super::{trace_files, Diagnose, Image, Traced};
use crate::arena::{op_of, Refs};
use crate::poll::cpu_time;
use crate::procfs;
use crate::side_file::SideFile;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(2);
/// Between two looks for new files.
const FILES_INTERVAL: Duration = Duration::from_millis(20);
/// After a look it rests this many times as long as that took, so that the program keeps the processors; what it does
/// not read meanwhile is not traced, and other sections stand for it.
const REST: u32 = 3;
/// Files that are open at once.
const OPEN_FILES: usize = 256;

/// What was drained so far.
#[derive(Debug)]
pub(super) struct Drain {
    dir: PathBuf,
    accounting: Accounting,
    files: Vec<Drained>,
    known: HashMap<PathBuf, ()>,
    files_due: Option<Instant>,
}

#[derive(Debug)]
struct Drained {
    image: Image,
    /// Closed when the process has ended and all is read.
    file: Option<TraceFile>,
    /// The process as it is known here: its agent says how it knows itself, which in a PID namespace is another number.
    pid_here: u32,
    /// What is known of its threads' stacks.
    stacks: HashMap<u32, (u64, u64)>,
}

/// Until it is told to stop, or nobody is there to tell it.
pub(super) fn run(mut drain: Drain, stop: &Receiver<()>, every: bool) -> Drain {
    if !every {
        be_nice();
    }
    let mut pause = INTERVAL;
    while stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let before = cpu_time();
        drain.look(false);
        let cost = cpu_time().saturating_sub(before);
        pause = if every {
            INTERVAL
        } else {
            INTERVAL.max(cost * REST)
        };
    }
    drain.finish();
    drain
}

/// The program's threads come first.
fn be_nice() {
    // SAFETY: setpriority has no memory arguments; 0 = the calling thread. That it is refused does not matter.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

impl Drain {
    pub fn new(dir: &Path, what: &Diagnose) -> Self {
        Self {
            dir: dir.to_owned(),
            accounting: Accounting::new(Options {
                sampling: what.sampling(),
                ..Options::default()
            }),
            files: Vec::new(),
            known: HashMap::new(),
            files_due: None,
        }
    }

    /// The last look: also at what threads had not handed over.
    pub fn finish(&mut self) {
        self.files_due = None;
        self.look(true);
    }

    fn look(&mut self, last: bool) {
        let now = Instant::now();
        if self.files_due.is_none_or(|due| now >= due) {
            self.find_files();
            self.files_due = Some(now + FILES_INTERVAL);
        }
        for drained in &mut self.files {
            drained.look(&mut self.accounting, &self.dir, last);
        }
    }

    fn find_files(&mut self) {
        for SideFile { pid, path, .. } in trace_files(&self.dir) {
            let open = self.files.iter().filter(|f| f.file.is_some()).count();
            if self.known.contains_key(&path) || open >= OPEN_FILES {
                continue;
            }
            let Some(file) = TraceFile::open(&path) else {
                continue; // not ready yet
            };
            self.known.insert(path, ());
            let number = self.files.len() as u32;
            self.files.push(Drained {
                image: Image {
                    number,
                    pid,
                    start_ns: file.start_ns,
                    why_not: String::new(),
                    no_room: false,
                    stacks: Refs::new(),
                    modules: Modules::default(),
                },
                file: Some(file),
                pid_here: pid,
                stacks: HashMap::new(),
            });
        }
    }

    pub fn into_traced(self) -> Traced {
        Traced {
            accounting: self.accounting,
            images: self.files.into_iter().map(|f| f.image).collect(),
        }
    }
}

impl Drained {
    fn look(&mut self, accounting: &mut Accounting, dir: &Path, last: bool) {
        let Some(file) = &mut self.file else { return };
        let gone = last || !procfs::is_running_as(self.image.pid, &mut self.pid_here);
        let number = self.image.number;
        let chunks = file.take_chunks(gone);
        let mut blocks = Vec::new();
        file.new_blocks(|id, block| blocks.push((id, block)));
        self.image.meet(&blocks, accounting, dir, gone);
        for (id, block) in blocks {
            accounting.block(number, id, block);
        }
        let mut all = Vec::new();
        for chunk in &chunks {
            let (sections, damaged) = chunk.sections();
            file.damaged += damaged;
            all.extend(sections);
        }
        all.sort_by_key(|(head, _)| head.begin_ns);
        for (head, events) in all {
            let stack = (head.stack_lo, head.stack_hi);
            if stack.0 < stack.1 && self.stacks.insert(head.thread, stack) != Some(stack) {
                accounting.stack(number, head.thread, stack.0..stack.1);
            }
            if head.stack != 0 {
                self.image.stacks.insert(head.stack);
            }
            accounting.section(&section(number, &head, events));
        }
        if gone {
            self.close(accounting, !last);
        }
    }

    /// Nothing will come any more. `others`: other processes go on, and may need the room.
    fn close(&mut self, accounting: &mut Accounting, others: bool) {
        let Some(file) = self.file.take() else { return };
        let Some(header) = file.header() else { return };
        if others {
            file.clear();
        }
        for (id, count) in abi::TRACE_DROP_IDS.iter().zip(header.drops) {
            if count > 0 {
                accounting.dropped(id, count);
            }
        }
        if file.damaged > 0 {
            accounting.dropped("trace-damaged", file.damaged);
        }
        let why: Vec<u8> = header
            .why_not
            .iter()
            .copied()
            .take_while(|b| *b != 0)
            .collect();
        self.image.no_room = header.drops[abi::CV_TRACE_DROP_NO_ROOM] > 0;
        self.image.why_not = String::from_utf8_lossy(&why).into_owned();
    }
}

impl Image {
    /// Gets to know the modules that new code is of, before a section that ran it is accounted for.
    fn meet(&mut self, new: &[(u32, Block)], accounting: &mut Accounting, dir: &Path, gone: bool) {
        let (number, known) = (self.number, self.modules.all.len());
        let modules = &mut self.modules;
        let is_known = |modules: &Modules| new.iter().all(|(_, block)| modules.has(block.ip));
        let mut allocator = |ip, does| accounting.allocator(number, ip, does);
        if !is_known(modules) {
            modules.look_at_arena(dir, self.pid, self.start_ns, gone, &mut allocator);
        }
        if !is_known(modules) {
            modules.look_at_mappings(self.pid, &mut allocator);
        }
        let new = modules.all.iter().skip(known);
        for module in new.filter(|m| convoy_sections::is_linker(&m.path)) {
            accounting.linker(number, module.lo..module.hi);
        }
    }
}

fn section<'a>(process: u32, head: &abi::Section, events: &'a [u64]) -> Section<'a> {
    Section {
        process,
        thread: head.thread,
        object: head.object,
        ra: head.ra,
        stack_lo: head.stack_lo,
        stack: head.stack,
        op: op_of(head.op),
        begin_ns: head.begin_ns,
        end_ns: head.end_ns,
        end: SectionEnd::ALL
            .get(head.end as usize)
            .copied()
            .unwrap_or(SectionEnd::Left),
        weight: head.weight,
        waited: head.waited != 0,
        events,
    }
}
