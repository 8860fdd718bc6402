//! The recording from start to end.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use convoy_abi as abi;
use convoy_profile::{Collector, Exit, Meta, Profile, Sched};

use crate::agent_file::{self, AgentFile, Build};
use crate::arena::Refs;
use crate::clock::{realtime_ns, Calibration, Clock};
use crate::collect::collect;
use crate::command::Command;
use crate::error::{Error, ErrorKind, Trouble};
use crate::events::{EventReader, Events, TraceOptions};
use crate::kernel::{self, Listener, Scheduler, Tier};
use crate::launch;
use crate::machine::{machine, processors_note};
use crate::others::Busy;
use crate::poll::Poller;
use crate::sections::{self, Diagnose, Traced, Tracer};
use crate::session::{self, Session};
use crate::signals::Forwarding;
use crate::store;
use crate::wait;

/// How to record. The defaults are right for nearly everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// One operation in this many is sampled, at random.
    pub sample_period: u32,
    /// Frames kept per call stack, at most 64.
    pub stack_depth: u32,
    /// Thread records per process; later threads reuse those of ended ones.
    pub max_threads: u32,
    /// Address space for the tables of one process; memory is used as needed.
    pub arena_bytes: u64,
    /// Where the session directory is made; `None` = the best place of this machine.
    pub session_parent: Option<PathBuf>,
    /// Where scheduler events come from.
    pub scheduler: Scheduler,
    /// CPU time between two samples of a processor's instruction pointer, nanoseconds.
    pub sched_sample_ns: u64,
    /// Intervals of the timeline kept at most; 0 = no timeline.
    pub timeline_intervals: u32,
    /// Look into critical sections.
    pub diagnose: Option<Diagnose>,
    /// Record synchronization events in time order. Not together with `diagnose`.
    pub trace: Option<TraceOptions>,
    /// Make causal experiments possible ([`crate::causal`]). Not together with `diagnose` or
    /// `trace`.
    pub causal: bool,
    /// Put the agent into processes that run already: the command that serves
    /// [`crate::serve_injection`] with the arguments that are appended. `None` = only their
    /// scheduler events are recorded.
    pub injector: Option<Vec<OsString>>,
    /// Files in place of the program's standard streams.
    pub streams: Streams,
}

/// Files in place of standard streams; `None` = it inherits ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Streams {
    /// Read from its beginning.
    pub input: Option<PathBuf>,
    /// Made, or emptied.
    pub output: Option<PathBuf>,
    /// Made, or emptied.
    pub errors: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sample_period: 64,
            stack_depth: 24,
            max_threads: 4096,
            arena_bytes: 1 << 30,
            session_parent: None,
            scheduler: Scheduler::Auto,
            sched_sample_ns: 3_000_000,
            timeline_intervals: 500_000,
            diagnose: None,
            trace: None,
            causal: false,
            injector: None,
            streams: Streams::default(),
        }
    }
}

/// Everything that is needed before a program can start.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    session: Session,
    agent: AgentFile,
    clock: Calibration,
    meta: Meta,
    warnings: Vec<Trouble>,
}

/// A program that runs and is recorded. One at a time: signals are passed on to the latest.
#[derive(Debug)]
pub struct Running {
    session: Session,
    clock: Clock,
    meta: Meta,
    warnings: Vec<Trouble>,
    signals: Forwarding,
    listener: Option<Listener>,
    scheduler: Collector,
    tracer: Option<Tracer>,
    events: Option<EventReader>,
    busy: Busy,
    pid: i32,
    /// Why the agent cannot be in the command; `None` if it can.
    agent_lacks: Option<String>,
}

/// What was recorded. Its session directory goes away with it.
#[derive(Debug)]
pub struct Recording {
    /// Not symbolized yet.
    pub profile: Profile,
    /// How the command ended.
    pub exit: Exit,
    /// What the user should know.
    pub warnings: Vec<Trouble>,
    session: Option<Session>,
    files: Vec<(u32, kernel::OpenFiles)>,
}

impl Recorder {
    /// Makes the session directory, puts the agent in place and looks at the machine.
    pub fn new(options: Options) -> Result<Self, Error> {
        let (session, warnings) = Session::create(options.session_parent.as_deref())?;
        let agent = agent_file::install(build(&options))?;
        let clock = Calibration::begin();
        let meta = Meta {
            convoy_version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine(),
            sample_period: options.sample_period.max(1),
            ..Meta::default()
        };
        Ok(Self {
            options,
            session,
            agent,
            clock,
            meta,
            warnings,
        })
    }

    /// Starts a command, also one that cannot be recorded: [`Running::take_warnings`] says so. `Err` with
    /// [`crate::ErrorKind::NotFound`] or `NotExecutable` if it cannot run; then nothing was started.
    pub fn launch(mut self, command: &[OsString]) -> Result<Running, Error> {
        let command = Command::resolve(command)?;
        let sample_ns = self.options.sched_sample_ns;
        let refusal = command.refusal();
        let scheduler = self.options.scheduler.for_command(refusal.is_none());
        let mut tier = Tier::for_next_child(scheduler, sample_ns)
            .map_err(|trouble| Error::new(ErrorKind::Attach, trouble))?;
        let agent_lacks = refusal.as_ref().map(|r| r.trouble().found.clone());
        if let Some(refusal) = refusal {
            let seen = tier.sees(&refusal);
            self.warnings.push(without_agent(refusal.trouble(), seen));
        }
        self.meta.command = command
            .arguments
            .iter()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        self.meta.cwd = std::env::current_dir()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        recording_has_room()?;
        let clock = self.clock.end();
        self.meta.started_unix_ns = realtime_ns();
        self.meta.start_ns = clock.now_ns();
        self.warnings.extend(file_limit_warning());
        self.session
            .write_session(&session_facts(&self.options, &clock))?;
        self.session.write_owner(&self.meta)?;
        let diagnose = self.options.diagnose.as_ref();
        if let Some(what) = diagnose {
            self.session.write_targets(&sections::targets_file(what))?;
        }
        let busy = Busy::now();

        let environment = launch::environment(
            std::env::vars_os(),
            &command,
            &self.agent,
            self.session.dir(),
        );
        let signals = Forwarding::start();
        tier.expect_child();
        let spawned = launch::spawn(&command, environment, &signals, &self.options.streams);
        tier.child_is(spawned.as_ref().ok().map(|pid| pid.unsigned_abs()));
        let pid = spawned?;
        self.warnings.extend(tier.warnings());
        signals.program_is(pid);
        // Not before the program runs: its user may have few threads left.
        let tracer = diagnose.map(|what| Tracer::start(&self.session, what));
        let trace = self.options.trace.as_ref();
        let events = trace.map(|options| EventReader::start(&self.session, options, clock));
        let (listener, scheduler) = tier.listen(sample_ns, self.options.timeline_intervals);
        let Self {
            session,
            meta,
            warnings,
            ..
        } = self;
        Ok(Running {
            session,
            clock,
            meta,
            warnings,
            signals,
            listener,
            scheduler,
            tracer,
            events,
            busy,
            pid,
            agent_lacks,
        })
    }

    /// Where the session is.
    pub fn session_dir(&self) -> &Path {
        self.session.dir()
    }
}

/// The agent for these options.
fn build(options: &Options) -> Build {
    match (&options.diagnose, &options.trace) {
        (Some(_), _) => Build::Tracing,
        (None, Some(_)) => Build::Events,
        (None, None) if options.causal => Build::Causal,
        (None, None) => Build::Normal,
    }
}

/// Stacks of a process image that other files of its agent name.
pub(crate) fn stacks(
    traced: Option<&Traced>,
    events: Option<&Events>,
    pid: u32,
    start_ns: u64,
) -> Refs {
    let mut all = traced.map_or_else(Refs::new, |t| t.stacks(pid, start_ns));
    all.extend(events.into_iter().flat_map(|e| e.stacks(pid, start_ns)));
    all
}

pub(crate) fn session_facts(options: &Options, clock: &Clock) -> abi::Session {
    let mut facts = abi::Session {
        magic: abi::CV_SESSION_MAGIC,
        version: abi::CV_ABI_VERSION,
        arena_bytes: options.arena_bytes.max(SMALLEST_ARENA_BYTES),
        sample_period: options.sample_period.max(1),
        stack_depth: options.stack_depth.clamp(1, abi::CV_STACK_MAX as u32),
        max_threads: options.max_threads.max(1),
        ..abi::Session::default()
    };
    clock.store(&mut facts);
    facts
}

impl Running {
    /// The program.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Where agents and convoy meet.
    pub fn session_dir(&self) -> &Path {
        self.session.dir()
    }

    /// What the user should know before the program has ended. Each is told once: the recording has the rest.
    pub fn take_warnings(&mut self) -> Vec<Trouble> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns when the program has ended. Processes that it leaves behind are recorded up to then.
    pub fn wait(self) -> Recording {
        let Self {
            session,
            clock,
            mut meta,
            mut warnings,
            signals,
            listener,
            scheduler,
            tracer,
            events,
            busy,
            pid,
            agent_lacks,
        } = self;
        let mut poller = Poller::new(listener.is_some());
        let ended = wait::wait(pid, &signals, session.dir(), &clock, &mut poller);
        drop(signals); // from here on Ctrl-C ends convoy
        let busy_at_end = Busy::now();
        let main = (pid.unsigned_abs(), ended.at_ns);
        // First of all: its rings and tables are not there any more when the agents' are read.
        let heard =
            listener.and_then(|listener| kernel::stop(listener, ended.at_ns, &mut warnings));
        let traced = tracer.and_then(Tracer::finish);
        let events = events.and_then(EventReader::finish);
        let stacks = |pid, start_ns| stacks(traced.as_ref(), events.as_ref(), pid, start_ns);
        let now_ns = Some(clock.now_ns());
        let collected = collect(session.dir(), &poller.seen, now_ns, Some(main), &stacks);

        meta.end_ns = ended.at_ns;
        meta.exit = ended.exit;
        meta.cpu_user_ns = ended.user_ns;
        meta.cpu_sys_ns = ended.sys_ns;
        meta.stolen_ns = busy_at_end.stolen_ns(&busy);
        let agent = agent_collector(!collected.processes.is_empty(), agent_lacks.as_deref());
        meta.collectors = vec![agent, scheduler];
        meta.notes.extend(collected.notes);
        if collected.running > 0 {
            meta.notes.push(format!(
                "{} process(es) still ran when the command ended: recorded until then",
                collected.running
            ));
        }
        meta.notes.extend(processors_note(meta.machine.cpus_online));
        meta.notes.extend(clock.drift_note());
        let mut processes = collected.processes;
        let without_agent = processes.is_empty();
        let (sched, files) = kernel::tables(heard, &mut processes);
        let is_unseen = sched.as_ref().is_none_or(|sched| sched.events == 0);
        if without_agent && is_unseen && agent_lacks.is_none() {
            warnings.push(Trouble::new(
                "no process of the command wrote anything",
                "the agent was not loaded, or could not make its tables: there is nothing to report",
                format!("convoy doctor -- {}", meta.command.first().map_or("", String::as_str)),
            ));
        }
        // Of children that nobody waited for only the agent or the scheduler know.
        let threads = processes.iter().flat_map(|process| &process.threads);
        let seen = sum(threads.map(|th| th.cpu_ns));
        let program_ns = ended
            .user_ns
            .saturating_add(ended.sys_ns)
            .max(seen)
            .max(running_ns(sched.as_ref()));
        busy_at_end.tell(&busy, program_ns, &mut meta);
        let late = |pid, start_ns| collected.late.get(&(pid, start_ns)).cloned();
        let sections = traced.map(|t| t.place(&mut processes, late, &mut warnings));
        let trace = events.map(|e| e.place(&mut processes, late, &mut warnings));
        let profile = Profile {
            meta,
            processes,
            sched,
            sections,
            live_curves: None,
            trace,
            experiments: None,
            second_run: None,
        };
        Recording::new(profile, warnings, Some(session), files)
    }
}

/// What all threads ran, as the scheduler has it.
pub(crate) fn running_ns(sched: Option<&Sched>) -> u64 {
    let threads = sched.map_or(&[][..], |sched| &sched.threads).iter();
    sum(threads.map(|th| th.running_ns))
}

/// What the program wrote itself may be nonsense.
fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

impl Recording {
    pub(crate) fn new(
        profile: Profile,
        warnings: Vec<Trouble>,
        session: Option<Session>,
        files: Vec<(u32, kernel::OpenFiles)>,
    ) -> Self {
        Self {
            exit: profile.meta.exit,
            profile,
            warnings,
            session,
            files,
        }
    }

    /// Where the files of a process's modules can still be read, by the path that the program saw: it may have
    /// ended, and its container with it.
    pub fn open_files(&self, process: usize) -> HashMap<String, PathBuf> {
        let Some(of) = self.profile.processes.get(process) else {
            return HashMap::new();
        };
        let files = self.of_process(process).flat_map(|files| &files.modules);
        files
            .filter_map(|(module, file)| {
                let path = of.modules.get(*module as usize)?.path.clone();
                Some((path, own_descriptor(file)))
            })
            .collect()
    }

    /// Where the process's map of generated code can still be read.
    pub fn open_jit_map(&self, process: usize) -> Option<PathBuf> {
        let map = self.of_process(process).find_map(|f| f.jit_map.as_ref())?;
        Some(own_descriptor(map))
    }

    fn of_process(&self, process: usize) -> impl Iterator<Item = &kernel::OpenFiles> {
        let of_it = self
            .files
            .iter()
            .filter(move |(p, _)| *p as usize == process);
        of_it.map(|(_, files)| files)
    }

    /// Writes the profile to a file. If that fails, it is put where there is room, or else the session directory
    /// stays; the error says where.
    pub fn save(&mut self, path: &Path) -> Result<(), Error> {
        let Err(error) = store::write_profile(path, &self.profile) else {
            return Ok(());
        };
        // The scheduler's part is nowhere else.
        let mut places = session::parents();
        places.push(std::env::temp_dir());
        places.reverse(); // disks first: they outlive a reboot
        if let Some(elsewhere) = store::put_elsewhere(&error, &self.profile, &places) {
            return Err(elsewhere);
        }
        Err(match &mut self.session {
            Some(session) => store::kept(&error, session.keep()),
            None => error,
        })
    }
}

fn own_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Nothing to be fixed for the scheduler's part of it.
fn without_agent(refusal: &Trouble, seen: bool) -> Trouble {
    if !seen {
        let effect = format!("{}; it runs unrecorded", refusal.effect);
        return Trouble::new(refusal.found.clone(), effect, refusal.fix.clone());
    }
    let effect = format!("{}; its scheduler events are recorded", refusal.effect);
    Trouble::new(refusal.found.clone(), effect, "")
}

/// The agent's smallest arena; with less it does not record.
const SMALLEST_ARENA_BYTES: u64 = 1 << 20;

/// Convoy's own limit on the size of files was raised as far as it may be: if that is not enough,
/// nothing can be kept.
fn recording_has_room() -> Result<(), Error> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit.filter(|limit| *limit < SMALLEST_ARENA_BYTES) {
        None => Ok(()),
        Some(limit) => Err(Error::new(
            ErrorKind::Session,
            Trouble::new(
                format!("files may have {limit} bytes at most (ulimit -f)"),
                "convoy cannot keep a recording: nothing was started",
                "raise it for this run: ulimit -f unlimited",
            ),
        )),
    }
}

/// A file that grows past the limit would raise SIGXFSZ in the program, so the agent keeps below it.
fn file_limit_warning() -> Option<Trouble> {
    let limit = crate::inherited::file_limit();
    (limit < SMALLEST_ARENA_BYTES).then(|| {
        Trouble::new(
            format!("files may have {limit} bytes at most (ulimit -f)"),
            "the agent has no room for its tables: nothing is recorded",
            "raise it for this run: ulimit -f unlimited",
        )
    })
}

/// `lacks`: why the agent cannot be in the command.
pub(crate) fn agent_collector(active: bool, lacks: Option<&str>) -> Collector {
    let all = "all locks, waits and threads";
    let (lost, enable) = match lacks {
        _ if active => (String::new(), String::new()),
        Some(lacks) => (format!("{all} ({lacks})"), String::new()),
        None => (all.to_owned(), "convoy doctor -- COMMAND".to_owned()),
    };
    Collector {
        name: "agent".into(),
        active,
        lost,
        enable,
    }
}
