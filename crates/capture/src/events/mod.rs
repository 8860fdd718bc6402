//! Synchronization events in time order: what the event build of the agent writes, read while the program
//! runs, kept within bounds, and put into the profile. docs/design/0005-trace.md says why it is so.
//!
//! Event files (`abi/convoy_events.h`) come out of the program like its arenas: nothing in them is believed.

mod chunk;
mod drain;
mod file;
mod kept;
mod places;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use convoy_profile::{Process, Trace, TraceMode, TraceWindow};

use crate::arena::{Late, Refs};
use crate::clock::Clock;
use crate::error::Trouble;
use crate::session::{self, Session};
use crate::side_file::{self, SideFile};
use chunk::Tables;
use drain::Drain;
use kept::Block;

pub use windows::Budget;

/// How to record events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOptions {
    /// Which events.
    pub mode: Mode,
    /// Encoded events kept at most, bytes; older ones go first.
    pub most_bytes: u64,
}

/// Which events are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All of them while they stay within the budget, else those in windows.
    Window(Budget),
    /// All of them.
    Full,
    /// All of them, of which those of the last nanoseconds are kept.
    Last(u64),
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Window(Budget::default()),
            most_bytes: 256 << 20,
        }
    }
}

/// Reads the event files of a session until it is told to stop.
#[derive(Debug)]
pub(crate) struct EventReader {
    stop: mpsc::Sender<()>,
    /// `None` where the program may have not one thread more: then the files are read at its end.
    thread: Option<JoinHandle<Drain>>,
    dir: PathBuf,
    options: TraceOptions,
    clock: Clock,
}

/// What was read, before the profile's indices are known.
#[derive(Debug)]
pub(crate) struct Events {
    images: Vec<Image>,
    options: TraceOptions,
}

/// A process image with an event file.
#[derive(Debug)]
struct Image {
    pid: u32,
    /// As its arena says.
    start_ns: u64,
    tables: Tables,
    blocks: Vec<Block>,
    windows: windows::Windows,
    lost: Vec<(String, u64)>,
    lost_windows: u64,
    sees_preemptions: bool,
    /// The program uses restartable sequences itself.
    foreign_rseq: bool,
    /// The session had no room for some of its events.
    no_room: bool,
}

/// What agents have recorded for a convoy that was killed; `None` if there are no event files.
pub(crate) fn left(dir: &Path) -> Option<Events> {
    if event_files(dir).is_empty() {
        return None;
    }
    let clock = Clock::load(&session::read_facts(dir)?);
    // What convoy had read is gone with it; what is left may be of any mode.
    let options = TraceOptions {
        mode: Mode::Full,
        ..TraceOptions::default()
    };
    let mut drain = Drain::new(dir, &options, clock);
    drain.finish();
    Some(drain.into_events())
}

impl EventReader {
    /// Starts to read what agents write.
    pub fn start(session: &Session, options: &TraceOptions, clock: Clock) -> Self {
        let (stop, stopped) = mpsc::channel();
        let drain = Drain::new(session.dir(), options, clock);
        let thread = Builder::new().spawn(move || drain::run(drain, &stopped));
        Self {
            stop,
            thread: thread.ok(),
            dir: session.dir().to_owned(),
            options: *options,
            clock,
        }
    }

    /// The program has ended: what there is. `None` after a panic of ours.
    pub fn finish(self) -> Option<Events> {
        // The receiver may have ended: then there is nobody to tell.
        let _ = self.stop.send(());
        let drain = match self.thread {
            Some(thread) => thread.join().ok()?,
            None => {
                let mut drain = Drain::new(&self.dir, &self.options, self.clock);
                drain.finish();
                drain
            }
        };
        Some(drain.into_events())
    }
}

impl Events {
    /// Stacks that call sites of a process image name.
    pub fn stacks(&self, pid: u32, start_ns: u64) -> Refs {
        let mut images = self.images.iter();
        let image = images.find(|i| i.pid == pid && i.start_ns == start_ns);
        let sites = image.into_iter().flat_map(|image| &image.tables.sites);
        sites.map(|site| site.stack).filter(|s| *s != 0).collect()
    }

    /// The traces of the profile; frames of call sites are added to its processes. `late`: of each process image, by
    /// pid and start, what its arena calls by numbers.
    pub fn place(
        self,
        processes: &mut [Process],
        late: impl Fn(u32, u64) -> Option<Late>,
        warnings: &mut Vec<Trouble>,
    ) -> Trace {
        let has_agent = |p: &Process| late(p.pid, p.start_ns).is_some();
        let agent = processes.iter().any(has_agent);
        let (mut traces, mut seen) = (Vec::new(), Seen::default());
        for image in self.images {
            let is_it = |p: &Process| p.pid == image.pid && p.start_ns == image.start_ns;
            let Some(ix) = processes.iter().position(is_it) else {
                continue;
            };
            let late = late(image.pid, image.start_ns).unwrap_or_default();
            seen.no_room |= image.no_room;
            seen.foreign_rseq |= image.foreign_rseq;
            let trace = places::trace(image, ix as u32, &mut processes[ix], &late);
            seen.windows |= trace.mode == TraceMode::Windows;
            seen.lost_windows += trace.lost_windows;
            seen.events += trace.event_count();
            traces.push(trace);
        }
        traces.sort_by_key(|trace| trace.process);
        warnings.extend(seen.troubles(agent, &self.options));
        Trace { processes: traces }
    }
}

/// What the user may have to know.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    windows: bool,
    lost_windows: u64,
    no_room: bool,
    foreign_rseq: bool,
}

impl Seen {
    fn troubles(&self, agent: bool, options: &TraceOptions) -> Vec<Trouble> {
        const ROOM: &str = "give the session more room: --session-dir, or ulimit -f unlimited";
        if !agent {
            return vec![Trouble::new(
                "no process of the command had loaded the agent (static program, Go, or setuid)",
                "there is no trace: events are recorded from within the process",
                "convoy doctor -- COMMAND says what is in the way",
            )];
        }
        if self.events == 0 {
            return vec![Trouble::new(
                "no process of the command could make a file for its events",
                "there is no trace",
                ROOM,
            )];
        }
        let mut all = Vec::new();
        if self.no_room {
            all.push(Trouble::new(
                "the file system of the session was full",
                "some events are missing from the trace",
                ROOM,
            ));
        }
        if self.windows {
            all.push(Trouble::new(
                "events came faster than the budget of the trace allows",
                "parts of the run were recorded in windows (10 ms in every 100 ms), not completely",
                "to record all of it, at a higher cost: --trace=full",
            ));
        }
        if self.lost_windows > 0 {
            all.push(Trouble::new(
                format!(
                    "the trace would have been larger than {} MB",
                    options.most_bytes >> 20
                ),
                "the middle of the run is missing from it",
                "allow more: --trace-size MB; or record the end only: --trace=last:10s",
            ));
        }
        if self.foreign_rseq {
            all.push(Trouble::new(
                "the program uses restartable sequences (rseq) itself",
                "preemptions of some of its threads are missing from the trace",
                "",
            ));
        }
        all
    }
}

/// The part of a recording that the trace of a process covers.
fn span(windows: &[TraceWindow], start_ns: u64, mode: TraceMode) -> u64 {
    match mode {
        TraceMode::Last(_) => windows.first().map_or(start_ns, |w| w.start_ns),
        TraceMode::Full | TraceMode::Windows => start_ns,
    }
}

/// Event files in a session.
fn event_files(dir: &Path) -> Vec<SideFile> {
    side_file::all_in(dir, 'e')
}
