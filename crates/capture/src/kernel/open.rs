//! Which source of scheduler events is used, and what to tell when it is not the best one.

use convoy_profile::Collector;

use super::bpf::{BpfOptions, BpfSource};
use super::listener::Listener;
use super::perf::{PerfOptions, PerfSource};
use super::raw::EventSource;
use crate::error::{os_text, Error, ErrorKind, Refusal, Trouble};

/// Which source of scheduler events to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The best that this user may use.
    #[default]
    Auto,
    /// eBPF, or fail.
    Bpf,
    /// Switch records of perf events, or fail.
    Perf,
    /// None.
    Off,
    /// The best that this user may use for a command that cannot load the agent; none for others.
    InsteadOfAgent,
}

impl Scheduler {
    /// For a command that can load the agent, or not.
    pub(crate) fn for_command(self, loads_agent: bool) -> Self {
        match self {
            Self::InsteadOfAgent if loads_agent => Self::Off,
            Self::InsteadOfAgent => Self::Auto,
            other => other,
        }
    }
}

/// What a report calls this collector.
const COLLECTOR: &str = "scheduler";

/// Looks for processes that began meanwhile, at most. Each finds only those that began since the one before it, whose parents were not
/// recorded yet.
const LATE_LOOKS: usize = 4;

/// What is not known without any scheduler events.
const LOST_WITHOUT: &str =
    "which code runs while the others wait, why threads are off the CPUs, who woke whom";

/// What perf events do not tell.
const LOST_WITH_PERF: &str = "why threads are off the CPUs, who woke whom, run-queue delays";

/// What comes of each source here, found out by opening it.
#[derive(Debug, Clone)]
pub struct Sources {
    /// eBPF works, or why not.
    pub bpf: Result<(), Trouble>,
    /// Perf events of this user's own processes work, or why not.
    pub perf: Result<(), Trouble>,
    /// What does not work although eBPF does.
    pub limits: Vec<Trouble>,
}

impl Sources {
    /// What is not known where perf events are all there is.
    pub const LOST_WITH_PERF: &'static str = LOST_WITH_PERF;
    /// What is not known without either.
    pub const LOST_WITHOUT: &'static str = LOST_WITHOUT;

    /// Opens each and closes it again. Nobody is recorded meanwhile.
    pub(crate) fn try_all() -> Self {
        let bpf = BpfSource::open(&BpfOptions::default());
        let limits = bpf.as_ref().map(|source| source.warnings().to_vec());
        Self {
            limits: limits.unwrap_or_default(),
            bpf: bpf.map(drop),
            perf: PerfSource::for_next_child(&PerfOptions::default()).map(drop),
        }
    }
}

/// A source that is ready, before the command is started or the processes are named.
#[derive(Debug)]
pub(crate) enum Opened {
    Bpf(BpfSource),
    Perf(PerfSource),
}

/// A source, if there is one, and what the profile says about it.
#[derive(Debug)]
pub(crate) struct Tier {
    pub source: Option<Opened>,
    pub collector: Collector,
    /// Why there is no source; empty if there is one.
    why: String,
}

impl Tier {
    /// For a command that this thread is about to start. `Err` only if the user asked for a certain source.
    pub fn for_next_child(choice: Scheduler, sample_period_ns: u64) -> Result<Self, Trouble> {
        let bpf = BpfOptions {
            adopts_running: false,
            ..bpf_options(sample_period_ns)
        };
        Self::open(choice, &bpf, || {
            PerfSource::for_next_child(&perf_options(sample_period_ns))
        })
    }

    /// For processes that run already. `meant` lists them once more: those that have begun until they are recorded join `pids`.
    pub fn for_running(
        choice: Scheduler,
        sample_period_ns: u64,
        pids: &mut Vec<u32>,
        meant: impl Fn() -> Result<Vec<u32>, Trouble>,
    ) -> Result<Self, Trouble> {
        let mut tier = Self::open(choice, &bpf_options(sample_period_ns), || {
            PerfSource::for_running(pids, &perf_options(sample_period_ns))
        })?;
        match &mut tier.source {
            Some(Opened::Bpf(source)) => {
                if source.adopt_running(pids)? == 0 {
                    return Err(ended(pids));
                }
                adopt_late(source, pids, meant);
                Ok(tier)
            }
            Some(Opened::Perf(_)) => Ok(tier),
            None => Err(Trouble::new(
                tier.why,
                "a running process cannot be recorded without the scheduler's events",
                tier.collector.enable,
            )),
        }
    }

    fn open(
        choice: Scheduler,
        options: &BpfOptions,
        perf: impl Fn() -> Result<PerfSource, Trouble>,
    ) -> Result<Self, Trouble> {
        let bpf = || BpfSource::open(options);
        match choice {
            Scheduler::Off | Scheduler::InsteadOfAgent => Ok(Self::without(
                "the scheduler's events were not asked for",
                "--scheduler auto",
            )),
            Scheduler::Bpf => Ok(Self::with_bpf(bpf()?)),
            Scheduler::Perf => Ok(Self::with_perf(perf()?, "")),
            Scheduler::Auto => Ok(match bpf() {
                Ok(source) => Self::with_bpf(source),
                Err(no_bpf) => match perf() {
                    Ok(source) => Self::with_perf(source, &no_bpf.fix),
                    Err(no_perf) => {
                        let why = format!("{}; {}", no_bpf.found, no_perf.found);
                        Self::without(&why, &no_bpf.fix)
                    }
                },
            }),
        }
    }

    fn with_bpf(source: BpfSource) -> Self {
        Self {
            source: Some(Opened::Bpf(source)),
            collector: collector(true, String::new(), ""),
            why: String::new(),
        }
    }

    fn with_perf(source: PerfSource, enable: &str) -> Self {
        Self {
            source: Some(Opened::Perf(source)),
            collector: collector(true, LOST_WITH_PERF.to_owned(), enable),
            why: String::new(),
        }
    }

    fn without(why: &str, enable: &str) -> Self {
        Self {
            source: None,
            collector: collector(false, format!("{LOST_WITHOUT} ({why})"), enable),
            why: why.to_owned(),
        }
    }

    /// Whether there are scheduler events of a program that cannot carry the agent for this reason.
    pub fn sees(&self, refusal: &Error) -> bool {
        match self.source {
            Some(Opened::Bpf(_)) => true,
            // The kernel stops measuring a process that gains rights which this user has not.
            Some(Opened::Perf(_)) => refusal.kind() != ErrorKind::Refused(Refusal::Privileged),
            None => false,
        }
    }

    /// From here on what the calling thread forks is recorded from its first instruction.
    pub fn expect_child(&self) {
        if let Some(Opened::Bpf(source)) = &self.source {
            source.adopt_children_of_self(true);
        }
    }

    /// The child is there, or could not be made.
    pub fn child_is(&mut self, pid: Option<u32>) {
        match &mut self.source {
            Some(Opened::Bpf(source)) => source.adopt_children_of_self(false),
            Some(Opened::Perf(source)) => pid.into_iter().for_each(|pid| source.started(pid)),
            None => {}
        }
    }

    /// What does not work although the source does.
    pub fn warnings(&self) -> Vec<Trouble> {
        match &self.source {
            Some(Opened::Bpf(source)) => source.warnings().to_vec(),
            Some(Opened::Perf(source)) => source.troubles().to_vec(),
            None => Vec::new(),
        }
    }

    /// Begins to take what comes, and keeps so many intervals of the timeline.
    pub fn listen(self, sample_period_ns: u64, intervals: u32) -> (Option<Listener>, Collector) {
        let source: Box<dyn EventSource> = match self.source {
            Some(Opened::Bpf(source)) => Box::new(source),
            Some(Opened::Perf(source)) => Box::new(source),
            None => return (None, self.collector),
        };
        match Listener::start(source, sample_period_ns, intervals) {
            Ok(listener) => (Some(listener), self.collector),
            // Where processes and threads are limited, the program comes first.
            Err(e) => {
                let why = format!(
                    "convoy may not make a thread, or what it sleeps on: {}",
                    os_text(&e)
                );
                let collector =
                    Self::without(&why, "raise the limits: ulimit -u, ulimit -n").collector;
                (None, collector)
            }
        }
    }
}

/// The source takes a tenth of a second to open. What the processes have started in that time nobody has told: a script may run its next
/// step by then.
fn adopt_late(
    source: &mut BpfSource,
    pids: &mut Vec<u32>,
    meant: impl Fn() -> Result<Vec<u32>, Trouble>,
) {
    for _ in 0..LATE_LOOKS {
        let now = meant().unwrap_or_default();
        let late: Vec<u32> = now.into_iter().filter(|pid| !pids.contains(pid)).collect();
        if late.is_empty() {
            break;
        }
        // One that has ended meanwhile is nothing to report.
        let _ = source.adopt_running(&late);
        pids.extend(late);
    }
}

/// Between the look at their number and the start of the recording.
fn ended(pids: &[u32]) -> Trouble {
    let which = match pids {
        [pid] => format!("process {pid} has ended"),
        _ => "all of the processes have ended".to_owned(),
    };
    Trouble::new(
        which,
        "nothing is recorded",
        "for a short program: convoy -- COMMAND",
    )
}

fn bpf_options(sample_period_ns: u64) -> BpfOptions {
    BpfOptions {
        sample_period_ns,
        ..BpfOptions::default()
    }
}

fn perf_options(sample_period_ns: u64) -> PerfOptions {
    PerfOptions {
        sample_period_ns,
        ..PerfOptions::default()
    }
}

fn collector(active: bool, lost: String, enable: &str) -> Collector {
    Collector {
        name: COLLECTOR.into(),
        active,
        lost,
        enable: enable.into(),
    }
}
