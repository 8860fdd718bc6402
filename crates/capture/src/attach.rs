//! Recording of processes that run already, for a while: their scheduler events, and what the agent
//! counts in those that it can be put into.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use convoy_profile::{Collector, Exit, Meta, Process, Profile};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fallocate, FallocateFlags};
use rustix::io::Errno;
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::agent_file::Build;
use crate::arena::{self, Refs};
use crate::clock::{realtime_ns, Calibration, Clock};
use crate::collect::collect;
use crate::error::{Error, ErrorKind, Trouble};
use crate::injector::Injector;
use crate::interrupt::Interrupt;
use crate::kernel::{self, Listener, Tier};
use crate::machine::{cpus_allowed, machine, processors_note};
use crate::others::Busy;
use crate::poll::Poller;
use crate::procfs;
use crate::recorder::{agent_collector, running_ns, session_facts, Options, Recording};
use crate::session::{self, Session};
use crate::targets::Targets;

/// Between two looks at whether the processes are still there, where their ends are told as well, and the control groups have no new ones...
const LOOK: Duration = Duration::from_secs(1);
/// ... and elsewhere.
const SHORT_LOOK: Duration = Duration::from_millis(50);
/// The ends of so many processes are waited for; of more none is: they would take descriptors that others need.
const ENDS: usize = 16;

/// Processes that are being recorded as they run.
#[derive(Debug)]
pub struct Attached {
    targets: Targets,
    /// With when each began, in clock ticks since boot: its number may be given to another one.
    recorded: BTreeMap<u32, u64>,
    first: u32,
    listener: Listener,
    scheduler: Collector,
    clock: Clock,
    meta: Meta,
    warnings: Vec<Trouble>,
    busy: Busy,
    interrupt: Interrupt,
    agents: Option<Agents>,
}

/// The agents in the processes, and where they write.
#[derive(Debug)]
pub(crate) struct Agents {
    session: Session,
    injector: Injector,
    poller: Poller,
}

impl Agents {
    /// The directory of their tables.
    pub(crate) fn session_dir(&self) -> &Path {
        self.session.dir()
    }
}

/// Begins to record processes that run, with their threads and children.
///
/// # Errors
/// [`ErrorKind::Attach`]: no such process, not allowed to look at it, or no source of scheduler events here.
pub fn attach(options: &Options, targets: Targets) -> Result<Attached, Error> {
    let failed = |trouble| Error::new(ErrorKind::Attach, trouble);
    let mut pids = targets.resolve().map_err(failed)?;
    let interrupt = Interrupt::watch();
    let calibration = Calibration::begin();
    let first = pids.first().copied().unwrap_or(0);
    let mut meta = Meta {
        convoy_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine(),
        command: procfs::command_line(first),
        started_unix_ns: realtime_ns(),
        exit: Exit::Running,
        ..Meta::default()
    };
    meta.machine.cpus_allowed = cpus_allowed(Pid::from_raw(first as i32));
    let (choice, sample_ns) = (options.scheduler, options.sched_sample_ns);
    let tier =
        Tier::for_running(choice, sample_ns, &mut pids, || targets.resolve()).map_err(failed)?;
    let warnings = tier.warnings();
    let clock = calibration.end();
    meta.start_ns = clock.now_ns();
    let busy = Busy::now();
    let (listener, scheduler) = tier.listen(sample_ns, options.timeline_intervals);
    let Some(listener) = listener else {
        return Err(failed(Trouble::new(
            "the scheduler's events cannot be had here",
            format!("a running process cannot be recorded: {}", scheduler.lost),
            scheduler.enable,
        )));
    };
    // The agent goes into the named processes and their children only: a control group may hold
    // system services.
    let named = Targets {
        cgroups: Vec::new(),
        ..targets.clone()
    };
    let named = named.resolve().unwrap_or_default();
    // Not before somebody listens: what the agents see began later than the recording.
    let mut warnings = warnings;
    let agents = match &options.injector {
        Some(command) if !named.is_empty() => {
            agents(options, command, &clock, &mut meta, &named, &mut warnings)?
        }
        _ => None,
    };
    Ok(Attached {
        targets,
        recorded: pids
            .into_iter()
            .filter_map(|pid| Some((pid, procfs::start_ticks(pid)?)))
            .collect(),
        agents,
        first,
        listener,
        scheduler,
        clock,
        meta,
        warnings,
        busy,
        interrupt,
    })
}

/// Puts the agent into the processes; `None` if it is in none of them, for which there are warnings
/// then.
pub(crate) fn agents(
    options: &Options,
    command: &[OsString],
    clock: &Clock,
    meta: &mut Meta,
    pids: &[u32],
    warnings: &mut Vec<Trouble>,
) -> Result<Option<Agents>, Error> {
    let (session, troubles) = Session::create(options.session_parent.as_deref())?;
    warnings.extend(troubles);
    meta.sample_period = options.sample_period.max(1);
    session.write_session(&session_facts(options, clock))?;
    session.write_owner(meta)?;
    let mut poller = Poller::new(true);
    poller.begin_now(pids);
    let build = match options.causal {
        true => Build::Causal,
        false => Build::Normal,
    };
    let mut injector = match Injector::start(command, build, session.dir(), pids) {
        Ok(injector) => injector,
        Err(e) => {
            warnings.push(Trouble::new(
                format!("the agent cannot be put into the processes: {e}"),
                "their locks have no names: only scheduler events are recorded",
                "",
            ));
            return Ok(None);
        }
    };
    warnings.append(&mut injector.troubles);
    let is_anywhere = !injector.attached.is_empty();
    Ok(is_anywhere.then(|| Agents {
        session,
        injector,
        poller,
    }))
}

/// The agent is in none of the processes.
fn no_agent() -> Collector {
    Collector {
        name: "agent".into(),
        active: false,
        lost: "locks by name, their waits and holders".into(),
        enable: "start the program with convoy -- COMMAND".into(),
    }
}

impl Attached {
    /// The first of the processes.
    pub fn pid(&self) -> u32 {
        self.first
    }

    /// Warnings so far, for the user. Each is returned once; the recording has the later ones.
    pub fn take_warnings(&mut self) -> Vec<Trouble> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns after `limit`, when the processes have ended, or on Ctrl-C: whatever comes first.
    pub fn wait(mut self, limit: Option<Duration>) -> Recording {
        let began = Instant::now();
        let mut ends = Ends::of(&self.recorded);
        let look = match ends.all && !self.targets.has_groups() {
            true => LOOK,
            false => SHORT_LOOK,
        };
        loop {
            let left = limit.map_or(look, |limit| limit.saturating_sub(began.elapsed()));
            if left.is_zero() || self.interrupt.asked() {
                break;
            }
            let next_poll = self.agents.as_mut().map_or(look, |agents| {
                agents.poller.poll(agents.session.dir(), &self.clock)
            });
            ends.wait(left.min(look).min(next_poll));
            self.recorded
                .retain(|pid, start| procfs::running_since(*pid) == Some(*start));
            self.adopt_newcomers();
            if self.recorded.is_empty() {
                self.meta.notes.push(convoy_profile::ALL_ENDED.into());
                break;
            }
        }
        self.finish()
    }

    /// Processes that came into a control group from elsewhere; children of recorded ones are known.
    fn adopt_newcomers(&mut self) {
        let own = std::process::id();
        let mut new = Vec::new();
        for pid in self.targets.in_groups() {
            let start = procfs::running_since(pid).filter(|_| pid != own);
            if let Some(start) = start {
                if self.recorded.insert(pid, start) != Some(start) {
                    new.push(pid);
                }
            }
        }
        if !new.is_empty() {
            // One that has ended meanwhile is nothing to report.
            self.listener.with(move |source| drop(source.adopt(&new)));
        }
    }

    fn finish(self) -> Recording {
        let mut meta = self.meta;
        let mut warnings = self.warnings;
        meta.end_ns = self.clock.now_ns();
        let busy = Busy::now();
        meta.stolen_ns = busy.stolen_ns(&self.busy);
        meta.notes.extend(processors_note(meta.machine.cpus_online));
        meta.notes.extend(self.clock.drift_note());
        let heard = kernel::stop(self.listener, meta.end_ns, &mut warnings);
        let (session, mut processes) = match self.agents {
            Some(agents) => agents.finish(&self.clock, &mut meta, &mut warnings),
            None => (None, Vec::new()),
        };
        let agent = match processes.is_empty() {
            true => no_agent(),
            false => agent_collector(true, None),
        };
        meta.collectors = vec![agent, self.scheduler];
        let (sched, files) = kernel::tables(heard, &mut processes);
        if sched.as_ref().is_some_and(|s| s.events == 0) {
            warnings.push(Trouble::new(
                "no thread of the processes was switched in or out",
                "there is nothing to report",
                "record for longer, while the program is under load",
            ));
        }
        busy.tell(&self.busy, running_ns(sched.as_ref()), &mut meta);
        Recording::new(
            Profile {
                meta,
                processes,
                sched,
                sections: None,
                live_curves: None,
                trace: None,
                experiments: None,
                second_run: None,
            },
            warnings,
            session,
            files,
        )
    }
}

/// Frees the memory of an arena that has been read, but for its header.
fn give_back_pages(path: &Path) {
    let Ok(file) = arena::open_to_write(path) else {
        return;
    };
    let bytes = file.metadata().map_or(0, |m| m.len());
    let header = convoy_abi::CV_ARENA_HEADER_BYTES as u64;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // An error is ignored: the kernel frees the pages when the process ends.
    let _ = fallocate(&file, how, header, bytes.saturating_sub(header));
}

impl Agents {
    /// Takes the hooks out and reads what was counted.
    fn finish(
        self,
        clock: &Clock,
        meta: &mut Meta,
        warnings: &mut Vec<Trouble>,
    ) -> (Option<Session>, Vec<Process>) {
        let Self {
            session,
            injector,
            mut poller,
        } = self;
        poller.finish(session.dir(), clock);
        let end = injector.finish();
        warnings.extend(end.troubles);
        let none = |_, _| Refs::new();
        let collected = collect(session.dir(), &poller.seen, Some(meta.end_ns), None, &none);
        meta.notes.extend(collected.notes);
        give_back_unused(&session, &end.unused);
        (Some(session), collected.processes)
    }

    /// Takes the hooks out, and says what has kept them in.
    pub(crate) fn leave(self) -> Vec<Trouble> {
        let end = self.injector.finish();
        give_back_unused(&self.session, &end.unused);
        end.troubles
    }
}

/// Memory of tables that no thread uses any more. Their processes keep the mapping: without this
/// its pages would stay until they end.
fn give_back_unused(session: &Session, pids: &[u32]) {
    for arena in session::arenas(session.dir()) {
        if pids.contains(&arena.pid) {
            give_back_pages(&arena.path);
        }
    }
}

/// Of processes that we have not started.
struct Ends {
    of: Vec<OwnedFd>,
    /// None is missing.
    all: bool,
}

impl Ends {
    fn of(processes: &BTreeMap<u32, u64>) -> Self {
        let pids = processes.keys().filter(|_| processes.len() <= ENDS);
        let of: Vec<OwnedFd> = pids
            .filter_map(|pid| pidfd_open(Pid::from_raw(*pid as i32)?, PidfdFlags::empty()).ok())
            .collect();
        let all = of.len() == processes.len();
        Self { of, all }
    }

    /// Returns after so long, when one has ended, or on a signal.
    fn wait(&mut self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let mut ended: Vec<PollFd> = self
            .of
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        // A signal is no error: whoever asked for an end is seen by the caller.
        if poll(&mut ended, limit.as_ref()).is_err_and(|e| e != Errno::INTR) {
            std::thread::sleep(SHORT_LOOK);
        }
        // Each tells its end once.
        let goes_on: Vec<bool> = ended.iter().map(|fd| fd.revents().is_empty()).collect();
        let mut goes_on = goes_on.into_iter();
        self.of.retain(|_| goes_on.next().unwrap_or(true));
    }
}
