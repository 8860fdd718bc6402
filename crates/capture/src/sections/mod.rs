//! Critical sections: which ones the agent is to trace, and what it says of them while the program runs.
//!
//! The agent's trace files (`abi/convoy_trace.h`) come out of the program like its arenas, so nothing in them is
//! believed: a thread of ours drains them, and `convoy-sections` accounts for what is in them.

mod drain;
mod file;
mod modules;
mod places;
mod targets;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use convoy_profile::{Process, Sections};
use convoy_sections::Accounting;

use crate::arena::{Late, Refs};
use crate::error::Trouble;
use crate::session::Session;
use crate::side_file::{self, SideFile};
use drain::Drain;
use modules::Modules;

pub(crate) use targets::file as targets_file;
pub use targets::{Diagnose, Site};

/// Drains the trace files of a session until it is told to stop.
#[derive(Debug)]
pub(crate) struct Tracer {
    dir: PathBuf,
    what: Diagnose,
    stop: mpsc::Sender<()>,
    /// `None` where the program may have not one thread more: then the files are read at its end.
    thread: Option<JoinHandle<Drain>>,
}

/// What was learnt, before the profile's indices are known.
#[derive(Debug)]
pub(crate) struct Traced {
    accounting: Accounting,
    images: Vec<Image>,
}

/// A process image with a trace file.
#[derive(Debug)]
struct Image {
    /// Its number in the accounting.
    number: u32,
    pid: u32,
    /// As its arena says.
    start_ns: u64,
    /// Why nothing could be traced, empty if it could.
    why_not: String,
    /// The session had no room for some of its sections.
    no_room: bool,
    /// Stacks that its sections name.
    stacks: Refs,
    modules: Modules,
}

/// What agents have traced for a convoy that was killed; `None` if it had not asked for any.
pub(crate) fn left(dir: &Path) -> Option<Traced> {
    let what = targets::read(dir)?;
    let mut drain = Drain::new(dir, &what);
    drain.finish();
    Some(drain.into_traced())
}

impl Tracer {
    /// Starts to read what agents trace, which were told before ([`targets_file`]).
    pub fn start(session: &Session, what: &Diagnose) -> Self {
        let (stop, stopped) = mpsc::channel();
        let drain = Drain::new(session.dir(), what);
        let every = what.every;
        let thread = Builder::new().spawn(move || drain::run(drain, &stopped, every));
        Self {
            dir: session.dir().to_owned(),
            what: what.clone(),
            stop,
            thread: thread.ok(),
        }
    }

    /// The program has ended: what there is. `None` after a panic of ours.
    pub fn finish(self) -> Option<Traced> {
        // The receiver may have ended: then there is nobody to tell.
        let _ = self.stop.send(());
        let drain = match self.thread {
            Some(thread) => thread.join().ok()?,
            None => {
                let mut drain = Drain::new(&self.dir, &self.what);
                drain.finish();
                drain
            }
        };
        Some(drain.into_traced())
    }
}

impl Traced {
    /// Stacks that sections of a process image name.
    pub fn stacks(&self, pid: u32, start_ns: u64) -> Refs {
        let image = self.image(pid, start_ns);
        image.map(|i| i.stacks.clone()).unwrap_or_default()
    }

    fn image(&self, pid: u32, start_ns: u64) -> Option<&Image> {
        let mut images = self.images.iter();
        images.find(|i| i.pid == pid && i.start_ns == start_ns)
    }

    /// The tables of the profile; what the sections speak of is added to its processes. `late`: of each process
    /// image, by pid and start, what its arena calls by numbers.
    pub fn place(
        self,
        processes: &mut [Process],
        late: impl Fn(u32, u64) -> Option<Late>,
        warnings: &mut Vec<Trouble>,
    ) -> Sections {
        let has_agent = |p: &Process| late(p.pid, p.start_ns).is_some();
        warnings.extend(self.trouble(processes.iter().any(has_agent)));
        let Self {
            mut accounting,
            images,
        } = self;
        for image in &images {
            if let Some(lost) = image.modules.unread() {
                accounting.dropped("module-unreadable", lost);
            }
        }
        let mut places = places::OfProfile::new(processes, images, late);
        accounting.finish(&mut places)
    }

    /// What the user should know. `agent`: some process of the command had loaded it.
    fn trouble(&self, agent: bool) -> Option<Trouble> {
        const ROOM: &str = "give the session more room: --session-dir, or ulimit -f unlimited";
        let refused = self.images.iter().find(|i| !i.why_not.is_empty());
        if let Some(image) = refused {
            return Some(Trouble::new(
                format!("process {}: {}", image.pid, image.why_not),
                "its critical sections were not traced; its locks are in the profile",
                "",
            ));
        }
        if !agent {
            return Some(Trouble::new(
                "no process of the command had loaded the agent",
                "no critical section could be looked into: that is done from within",
                "convoy doctor -- COMMAND says what is in the way",
            ));
        }
        if self.images.is_empty() {
            return Some(Trouble::new(
                "no process of the command could make a file for its critical sections",
                "none was traced",
                ROOM,
            ));
        }
        if self.images.iter().any(|i| i.no_room) {
            return Some(Trouble::new(
                "the file system of the session was full",
                "not all of the critical sections were traced that should have been",
                ROOM,
            ));
        }
        (self.accounting.sections() == 0).then(|| {
            Trouble::new(
                "none of the locks that were asked for was taken in this run",
                "there is nothing to say about their critical sections",
                "give the program the work of the first run, or look at all locks: convoy diagnose -- COMMAND",
            )
        })
    }
}

/// Trace files in a session.
fn trace_files(dir: &Path) -> Vec<SideFile> {
    side_file::all_in(dir, 't')
}
