//! The thread that reads event files, gives their chunks back, and opens and closes windows.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use convoy_abi as abi;
use convoy_trace::{encode, Event};

use super::chunk::{events, Tables};
use super::file::EventFile;
use super::kept::{Block, Kept};
use super::windows::{Counted, Turn, Windows};
use super::{event_files, Events, Image, Mode, TraceOptions};
use crate::clock::Clock;
use crate::procfs;
use crate::side_file::SideFile;

/// Between two looks while there is something to read: the chunks in turn fit into a processor's cache.
const BUSY: Duration = Duration::from_millis(2);
/// Between two looks while there is not.
const IDLE: Duration = Duration::from_millis(20);
/// Between two looks for new files, and for processes that have ended.
const FILES_INTERVAL: Duration = Duration::from_millis(50);
/// Files that are open at once.
const OPEN_FILES: usize = 256;
/// Of the bytes that may be kept, the share that the first part of a process's run may have.
const FIRST_PART: u64 = 8;

/// What was read so far.
#[derive(Debug)]
pub(super) struct Drain {
    dir: PathBuf,
    options: TraceOptions,
    clock: Clock,
    files: Vec<Drained>,
    known: HashSet<PathBuf>,
    files_due: Option<Instant>,
}

/// An event file and what came out of it.
#[derive(Debug)]
struct Drained {
    pid: u32,
    /// Closed when the process has ended and all is read.
    file: Option<EventFile>,
    start_ns: u64,
    tables: Tables,
    kept: Kept,
    windows: Windows,
    /// Events since the rate was looked at, by thread.
    counted: HashMap<u32, u64>,
    lost: Vec<(String, u64)>,
    lost_windows: u64,
    flags: u32,
    no_room: bool,
    /// The process as it is known here: in a PID namespace it knows itself by another number.
    pid_here: u32,
}

/// Until it is told to stop, or nobody is there to tell it.
pub(super) fn run(mut drain: Drain, stop: &Receiver<()>) -> Drain {
    let mut pause = BUSY;
    while stop.recv_timeout(drain.until_turn(pause)) == Err(RecvTimeoutError::Timeout) {
        pause = match drain.look(false) {
            0 => (pause * 2).min(IDLE),
            _ => BUSY,
        };
    }
    drain.finish();
    drain
}

impl Drain {
    pub fn new(dir: &Path, options: &TraceOptions, clock: Clock) -> Self {
        Self {
            dir: dir.to_owned(),
            options: *options,
            clock,
            files: Vec::new(),
            known: HashSet::new(),
            files_due: None,
        }
    }

    /// The last look: also at what threads had not handed over.
    pub fn finish(&mut self) {
        self.files_due = None;
        self.look(true);
    }

    /// The pause, or less where a window is to be opened or closed before.
    fn until_turn(&self, pause: Duration) -> Duration {
        let open = self.files.iter().filter(|f| f.file.is_some());
        let due = open.filter_map(|f| f.windows.due_ns()).min();
        match due {
            Some(due) => pause.min(Duration::from_nanos(
                due.saturating_sub(self.clock.now_ns()),
            )),
            None => pause,
        }
    }

    /// Reads what there is; how many chunks that were.
    fn look(&mut self, last: bool) -> usize {
        let now = Instant::now();
        let files = self.files_due.is_none_or(|due| now >= due);
        if files {
            self.find_files();
            self.files_due = Some(now + FILES_INTERVAL);
        }
        let first_bytes = self.options.most_bytes / FIRST_PART;
        let mut taken = 0;
        for drained in &mut self.files {
            taken += drained.look(&self.clock, first_bytes, files, last);
        }
        self.bound();
        taken
    }

    fn find_files(&mut self) {
        for SideFile { pid, path, .. } in event_files(&self.dir) {
            let open = self.files.iter().filter(|f| f.file.is_some()).count();
            if self.known.contains(&path) || open >= OPEN_FILES {
                continue;
            }
            let Some(file) = EventFile::open(&path) else {
                continue; // not ready yet
            };
            self.known.insert(path);
            let start_ns = file.start_ns;
            self.files.push(Drained {
                pid,
                start_ns,
                file: Some(file),
                tables: Tables::default(),
                kept: Kept::default(),
                windows: Windows::new(self.options.mode, start_ns),
                counted: HashMap::new(),
                lost: Vec::new(),
                lost_windows: 0,
                flags: 0,
                no_room: false,
                pid_here: pid,
            });
        }
    }

    /// Gives up old events where there are too many.
    fn bound(&mut self) {
        if let Mode::Last(ns) = self.options.mode {
            let before = self.clock.now_ns().saturating_sub(ns);
            self.files
                .iter_mut()
                .for_each(|drained| drained.kept.give_up_before(before));
        }
        let bytes: u64 = self.files.iter().map(|f| f.kept.bytes()).sum();
        let Some(excess) = bytes.checked_sub(self.options.most_bytes) else {
            return;
        };
        // An eighth more, so that it is not done for each chunk; of the process that has the most.
        let excess = excess + self.options.most_bytes / 8;
        let largest = self.files.iter_mut().max_by_key(|f| f.kept.bytes());
        if let Some(drained) = largest {
            drained.give_up(excess);
        }
    }

    pub fn into_events(self) -> Events {
        let images = self.files.into_iter().map(|drained| Image {
            pid: drained.pid,
            start_ns: drained.start_ns,
            tables: drained.tables,
            blocks: drained.kept.into_blocks().collect(),
            windows: drained.windows,
            lost: drained.lost,
            lost_windows: drained.lost_windows,
            sees_preemptions: drained.flags & abi::CV_EVENTS_SWITCHES != 0,
            foreign_rseq: drained.flags & abi::CV_EVENTS_RSEQ_FOREIGN != 0,
            no_room: drained.no_room,
        });
        Events {
            images: images.collect(),
            options: self.options,
        }
    }
}

impl Drained {
    /// `thorough`: look whether the process is still there, too.
    fn look(&mut self, clock: &Clock, first_bytes: u64, thorough: bool, last: bool) -> usize {
        let Some(file) = &mut self.file else {
            return 0;
        };
        let gone = last || thorough && !procfs::is_running_as(self.pid, &mut self.pid_here);
        let mut chunks = Vec::new();
        let taken = file.take_chunks(gone, |chunk| chunks.push(chunk));
        // Of a thread they may lie in any order.
        chunks.sort_by_key(|chunk| (chunk.head.thread, chunk.head.number));
        let mut found: Vec<Event> = Vec::new();
        for chunk in &chunks {
            found.clear();
            events(chunk, clock, &mut self.tables, &mut found);
            let (Some(first), Some(latest)) = (found.first(), found.last()) else {
                continue;
            };
            *self.counted.entry(chunk.head.thread).or_default() += found.len() as u64;
            let block = Block {
                thread: chunk.head.thread,
                start_ns: first.at_ns,
                end_ns: latest.at_ns,
                events: found.len() as u32,
                bytes: encode(first.at_ns, &found),
            };
            self.kept.push(block, first_bytes);
        }
        self.turn(clock);
        if gone {
            self.close(!last);
        }
        taken
    }

    /// Opens or closes the window, where it is time to.
    fn turn(&mut self, clock: &Clock) {
        let now_ns = clock.now_ns();
        let Some(file) = self
            .file
            .as_ref()
            .filter(|_| self.windows.wants_count(now_ns))
        else {
            return;
        };
        let counted = Counted {
            process: self.counted.values().sum(),
            thread: self.counted.values().copied().max().unwrap_or(0),
        };
        self.counted.clear();
        match self.windows.turn(now_ns, counted) {
            Some(Turn::Open) => {
                file.set_window(true);
                self.windows.opened(clock.now_ns());
            }
            Some(Turn::Close) => {
                self.windows.closed(clock.now_ns());
                file.set_window(false);
            }
            None => {}
        }
    }

    fn give_up(&mut self, bytes: u64) {
        if let Some(hole) = self.kept.give_up(bytes) {
            self.lost_windows += self.windows.give_up(hole.from_ns, hole.to_ns);
        }
    }

    /// Nothing will come any more. `others`: other processes go on, and may need the room.
    fn close(&mut self, others: bool) {
        let Some(file) = self.file.take() else {
            return;
        };
        let Some(header) = file.header() else {
            return;
        };
        if others {
            file.clear();
        }
        for (id, count) in abi::EVENTS_DROP_IDS.iter().zip(header.drops) {
            if count > 0 {
                self.lost.push(((*id).to_owned(), count));
            }
        }
        let damaged = self.tables.damaged + file.damaged;
        if damaged > 0 {
            self.lost.push(("damaged".into(), damaged));
        }
        self.no_room = header.drops[abi::CV_EVENTS_DROP_NO_ROOM] > 0;
        self.flags = header.flags;
    }
}
