//! Reads what a running program has recorded so far. It is neither stopped nor slowed down: its tables lie in
//! shared memory, and the rest comes from /proc.

mod find;
mod held_locks;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use convoy_profile::{Exit, Meta, Process, Profile};

use crate::arena::{self, Context, Pieces};
use crate::clock::{monotonic_ns, Clock};
use crate::error::{Error, ErrorKind, Trouble};
use crate::poll::Seen;
use crate::procfs::{self, SchedStat};
use crate::recorder::agent_collector;
use crate::session;

pub use held_locks::HeldLocks;

/// With more threads than this, what changes slowly (names, switches) is not asked for at every reading.
const FEW_THREADS: usize = 200;

/// Then it is asked for once in so many readings.
const THOROUGH_EVERY: u64 = 8;

/// The size of arenas where the session does not say it.
const USUAL_BYTES: u64 = 1 << 30;

/// A program that is being recorded, watched from outside.
#[derive(Debug)]
pub struct Watch {
    dir: PathBuf,
    /// Of the recording, as far as it was known when it began.
    meta: Meta,
    clock: Option<Clock>,
    /// No arena of this recording has more.
    most_bytes: u64,
    scope: Scope,
    members: BTreeMap<u32, Member>,
    stat_files: HashMap<(u32, u32), SchedStat>,
    readings: u64,
}

/// What was read at one moment.
#[derive(Debug)]
pub struct Reading {
    /// Everything since the start of each process; not symbolized.
    pub profile: Profile,
    /// Whether any of its processes still runs. If not, this is how it ended, and there is nothing more to come.
    pub running: bool,
}

/// The processes that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// One and its descendants.
    Tree(u32),
    /// All of the recording.
    Session,
}

/// A process with its arena. The file stays open: when the recording ends its name goes away, and what is in it can
/// still be read.
#[derive(Debug)]
struct Member {
    image: u32,
    file: File,
    start_ticks: u64,
    seen: Seen,
}

impl Watch {
    /// Finds the tables of a process, or of a whole recording by the pid of its convoy.
    ///
    /// # Errors
    /// There is no such process, it carries no agent, or its tables may not be read.
    pub fn of(pid: u32) -> Result<Self, Error> {
        let found = find::session_of(pid)?;
        let scope = if found.recorder {
            Scope::Session
        } else {
            Scope::Tree(pid)
        };
        let watch = Self::of_session(found.dir, scope);
        if watch.members.is_empty() {
            return Err(unreadable(pid, &watch.dir));
        }
        Ok(watch)
    }

    /// The watch of a process whose agent writes into this session directory.
    pub fn of_process_in(dir: PathBuf, pid: u32) -> Self {
        Self::of_session(dir, Scope::Tree(pid))
    }

    fn of_session(dir: PathBuf, scope: Scope) -> Self {
        let facts = session::read_facts(&dir);
        let owner = session::read_owner(&dir);
        let mut meta = owner.map_or_else(Meta::default, |owner| owner.meta);
        meta.sample_period = facts
            .as_ref()
            .map_or(meta.sample_period, |facts| facts.sample_period)
            .max(1);
        let mut watch = Self {
            dir,
            meta,
            clock: facts.as_ref().map(Clock::load),
            most_bytes: facts
                .as_ref()
                .map_or(USUAL_BYTES, |facts| facts.arena_bytes),
            scope,
            members: BTreeMap::new(),
            stat_files: HashMap::new(),
            readings: 0,
        };
        watch.look_for_members();
        watch
    }

    /// The directory of the tables.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads everything once.
    pub fn read(&mut self) -> Reading {
        self.look_for_members();
        let running: Vec<u32> = self
            .members
            .iter()
            .filter(|(pid, member)| member.runs(**pid))
            .map(|(pid, _)| *pid)
            .collect();
        if !running.is_empty() {
            // What ended while others go on is no longer of interest.
            self.members.retain(|pid, _| running.contains(pid));
        }
        self.look_at_threads(&running);

        let now_ns = self.clock.map_or_else(monotonic_ns, |clock| clock.now_ns());
        let mut notes = Vec::new();
        let mut processes = Vec::new();
        for (pid, member) in &self.members {
            match member.read(now_ns, self.most_bytes) {
                Ok(mut process) => {
                    process.pid = *pid; // whatever the program has written there
                    member.seen.renumber(*pid, &mut process);
                    processes.push(process);
                }
                Err(why) => notes.push(format!("process {pid}: {why}")),
            }
        }
        self.readings += 1;
        Reading {
            profile: self.profile(processes, notes, now_ns, !running.is_empty()),
            running: !running.is_empty(),
        }
    }

    fn profile(
        &self,
        processes: Vec<Process>,
        notes: Vec<String>,
        now_ns: u64,
        running: bool,
    ) -> Profile {
        let mut meta = self.meta.clone();
        meta.end_ns = match running {
            true => now_ns,
            false => processes.iter().map(|p| p.end_ns).max().unwrap_or(now_ns),
        };
        if meta.start_ns == 0 {
            let first = processes.iter().map(|p| p.start_ns).min();
            meta.start_ns = first.unwrap_or(meta.end_ns);
        }
        meta.exit = if running {
            Exit::Running
        } else {
            Exit::Unknown
        };
        meta.collectors = vec![agent_collector(!processes.is_empty(), None)];
        meta.notes.extend(notes);
        Profile {
            meta,
            processes,
            ..Profile::default()
        }
    }

    /// Opens the arenas of processes that are new, and of those that run another program now.
    fn look_for_members(&mut self) {
        let mut newest: BTreeMap<u32, session::ArenaFile> = BTreeMap::new();
        for file in session::arenas(&self.dir) {
            newest.insert(file.pid, file); // in order: the last image of a pid stays
        }
        for (pid, file) in newest {
            let known = self.members.get(&pid).is_some_and(|m| m.image >= file.n);
            if known || !self.wants(pid) {
                continue;
            }
            let (Some(start_ticks), Ok(opened)) =
                (procfs::start_ticks(pid), arena::open(&file.path))
            else {
                continue;
            };
            // The agent needs a moment to make its tables.
            let ready = arena::head(&opened).is_ok_and(|head| arena::life(&head).is_ok());
            if ready {
                self.members.insert(
                    pid,
                    Member {
                        image: file.n,
                        file: opened,
                        start_ticks,
                        seen: Seen::of(pid),
                    },
                );
            }
        }
    }

    /// Whether a process is one to look at.
    fn wants(&self, pid: u32) -> bool {
        let Scope::Tree(root) = self.scope else {
            return procfs::is_running(pid);
        };
        // Its parents, up to the first that is looked at; there are no more than that, whatever happens meanwhile.
        const GENERATIONS: usize = 64;
        let parents = std::iter::successors(Some(pid), |pid| procfs::parent(*pid));
        parents
            .take(GENERATIONS)
            .take_while(|pid| *pid > 0)
            .any(|pid| pid == root || self.members.contains_key(&pid))
    }

    fn look_at_threads(&mut self, running: &[u32]) {
        let mut tids: Vec<(u32, u32)> = Vec::new();
        for &pid in running {
            let threads = procfs::threads(pid);
            if let Some(member) = self.members.get_mut(&pid) {
                member.seen.look_up(&threads);
            }
            tids.extend(threads.into_iter().map(|tid| (pid, tid)));
        }
        let thorough = tids.len() <= FEW_THREADS || self.readings % THOROUGH_EVERY == 0;
        if thorough {
            self.stat_files.clear(); // those of ended threads, too
        }
        for (pid, tid) in tids {
            if let Some(member) = self.members.get_mut(&pid) {
                member.seen.look(pid, tid, thorough, &mut self.stat_files);
            }
        }
    }
}

impl Member {
    /// Another process may have got the pid.
    fn runs(&self, pid: u32) -> bool {
        procfs::running_since(pid) == Some(self.start_ticks)
    }

    fn read(&self, now_ns: u64, most_bytes: u64) -> Result<Process, String> {
        // A program that makes the file larger would have us take so much memory.
        if self.file.metadata().is_ok_and(|m| m.len() > most_bytes) {
            return Err("its tables are larger than they can be: it is left out".to_owned());
        }
        let context = Context {
            seen_end_ns: now_ns,
            polled: &self.seen.threads_by_own_number(),
        };
        arena::read(&Pieces::new(&self.file), context)
            .map_err(|_| "its tables are damaged at their head: it is left out".to_owned())
    }
}

fn unreadable(pid: u32, dir: &std::path::Path) -> Error {
    Error::new(
        ErrorKind::Watch,
        Trouble::new(
            format!(
                "the tables of process {pid} in {} cannot be read",
                dir.display()
            ),
            "they are of another user, of another version of convoy, or not ready yet: nothing to show",
            "run convoy top as the user who started the program, with the convoy that records it",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::synthetic::Builder;
    use crate::session::{ArenaFile, Session};
    use convoy_abi as abi;

    /// A recording of this very process, as an agent would write it.
    fn recording() -> (Session, Watch) {
        let (session, _) = Session::create(None).unwrap();
        session.write_owner(&Meta::default()).unwrap();
        let facts = abi::Session {
            magic: abi::CV_SESSION_MAGIC,
            version: abi::CV_ABI_VERSION,
            arena_bytes: 1 << 20,
            sample_period: 7,
            ..abi::Session::default()
        };
        session.write_session(&facts).unwrap();
        let mut arena = Builder::new();
        arena.header.state = abi::CV_PROCESS_RUNNING;
        arena.header.end_ns = 0;
        arena.header.pid = 1; // a lie
        let main = abi::Thread {
            tid: std::process::id(),
            state: abi::CV_THREAD_RUNNING,
            start_ns: 2_000,
            ..abi::Thread::default()
        };
        arena.block(abi::CV_BLOCK_THREAD, 0, 0, &[main]);
        let pid = std::process::id();
        std::fs::write(session.dir().join(format!("p{pid}.0")), arena.finish()).unwrap();
        let watch = Watch::of_session(session.dir().to_owned(), Scope::Tree(pid));
        (session, watch)
    }

    #[test]
    fn a_running_program_is_read_again_and_again() {
        let (_session, mut watch) = recording();
        assert_eq!(watch.members.len(), 1);
        let first = watch.read();
        let second = watch.read();
        assert!(first.running && second.running);
        assert_eq!(first.profile.meta.sample_period, 7);
        assert_eq!(first.profile.meta.exit, Exit::Running);
        let process = &first.profile.processes[0];
        assert_eq!(process.pid, std::process::id(), "not what the arena says");
        assert!(process.threads[0].cpu_ns > 0, "from /proc");
        assert!(second.profile.meta.end_ns > first.profile.meta.end_ns);
        assert_eq!(
            second.profile.processes[0].threads[0].end_ns,
            second.profile.meta.end_ns
        );
    }

    #[test]
    fn what_was_opened_can_be_read_after_the_recording_is_gone() {
        let (session, mut watch) = recording();
        drop(session);
        assert!(!watch.dir.exists());
        assert_eq!(watch.read().profile.processes.len(), 1);
    }

    #[test]
    fn the_last_reading_is_that_of_the_end() {
        let (_session, mut watch) = recording();
        // As if another process had got the pid.
        for member in watch.members.values_mut() {
            member.start_ticks += 1;
        }
        let last = watch.read();
        assert!(!last.running);
        assert_eq!(last.profile.meta.exit, Exit::Unknown);
        assert_eq!(last.profile.processes.len(), 1);
    }

    #[test]
    fn tables_that_cannot_be_are_left_out_with_a_note() {
        let (session, mut watch) = recording();
        let path = session.dir().join(format!("p{}.0", std::process::id()));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let profile = watch.read().profile;
        assert!(profile.processes.is_empty());
        assert!(profile.meta.notes[0].contains("larger than they can be"));
        file.set_len(10).unwrap();
        let profile = watch.read().profile;
        assert!(profile.processes.is_empty());
        assert!(
            profile.meta.notes[0].contains("damaged"),
            "{:?}",
            profile.meta.notes
        );
    }

    #[test]
    fn another_image_of_a_process_takes_its_place() {
        let (session, mut watch) = recording();
        let pid = std::process::id();
        let of = |n| session.dir().join(format!("p{pid}.{n}"));
        std::fs::copy(of(0), of(1)).unwrap();
        watch.read();
        assert_eq!(watch.members[&pid].image, 1);
        let files: Vec<ArenaFile> = session::arenas(session.dir());
        assert_eq!(files.len(), 2);
    }
}
