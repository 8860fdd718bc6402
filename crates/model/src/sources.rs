//! Sources of a recording, and what none of them sees.
//!
//! The agent sees calls that go through the dynamic symbols of the C library. A lock that is inlined, or that the C
//! library keeps for itself, makes no such call: only the scheduler's events show it. What was not seen was
//! not ruled out.

use convoy_profile::Meta;

use crate::{Model, SchedSource};

/// Sources that a recording had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sources {
    /// The agent was in a process: operations of pthreads, OpenMP and C11, and futex calls by `syscall()`.
    pub agent: bool,
    /// Context switches; with eBPF also why threads wait and who wakes them.
    pub scheduler: Option<SchedSource>,
    /// How more would be seen.
    pub remedy: Remedy,
}

/// How a recording would see what it did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remedy {
    /// The user may not look: with root's rights it would.
    #[default]
    Root,
    /// The user did not ask for the scheduler's events.
    Ask,
    /// Neither: the report names what stands in the way.
    Other,
}

impl Remedy {
    /// An imperative without its full stop.
    pub fn text(self) -> &'static str {
        match self {
            Self::Root => "run with sudo",
            Self::Ask => "run with --scheduler auto",
            Self::Other => "enable scheduler events (below: how)",
        }
    }
}

/// Something that costs time and that a recording could not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlindSpot {
    /// Locks that the C library keeps for itself.
    LibcLocks,
    /// Locks whose fast path is compiled into the program.
    InlinedLocks,
    /// Locks of virtual machines and interpreters.
    RuntimeLocks,
    /// Busy waiting.
    Spinning,
    /// Cache lines that threads contend for.
    CacheLines,
    /// Files, sockets, pipes, sleep.
    Io,
}

impl BlindSpot {
    /// As JSON has it: stable.
    pub fn id(self) -> &'static str {
        match self {
            Self::LibcLocks => "libc-locks",
            Self::InlinedLocks => "inlined-locks",
            Self::RuntimeLocks => "runtime-locks",
            Self::Spinning => "spinning",
            Self::CacheLines => "cache-lines",
            Self::Io => "io",
        }
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::LibcLocks => "contention inside the C library (malloc, stdio, time zone, locale)",
            Self::InlinedLocks => "inlined locks (Rust, C++20, Abseil, Go)",
            Self::RuntimeLocks => "locks of runtimes (JVM, Python, Go)",
            Self::Spinning => "spinning",
            Self::CacheLines => "false sharing",
            Self::Io => "I/O",
        }
    }
}

impl Sources {
    /// Those of this recording.
    pub fn of(model: &Model) -> Self {
        let agent = |p: &crate::Process| !p.without_agent;
        Self {
            agent: model.processes.iter().any(agent),
            scheduler: model.sched.as_ref().map(|sched| sched.source),
            remedy: remedy(&model.meta),
        }
    }

    /// The scheduler's events say why threads wait: nothing that takes time is out of sight.
    pub fn see_reasons(&self) -> bool {
        self.scheduler == Some(SchedSource::Bpf)
    }

    /// What was out of sight, most likely first.
    pub fn blind_spots(&self) -> &'static [BlindSpot] {
        use BlindSpot::*;
        match self.scheduler {
            Some(SchedSource::Bpf) => &[],
            // Samples show loops that wait.
            Some(SchedSource::Perf) => &[LibcLocks, InlinedLocks, RuntimeLocks, CacheLines, Io],
            None => &[
                LibcLocks,
                InlinedLocks,
                RuntimeLocks,
                Spinning,
                CacheLines,
                Io,
            ],
        }
    }
}

fn remedy(meta: &Meta) -> Remedy {
    let scheduler = meta.collectors.iter().find(|c| c.name == "scheduler");
    match scheduler.map(|c| c.enable.as_str()) {
        Some(enable) if enable.starts_with("--scheduler") => Remedy::Ask,
        None => Remedy::Root,
        Some(enable) if enable.contains("sudo") => Remedy::Root,
        Some(_) => Remedy::Other,
    }
}

/// Share of the CPU time that was spent in the kernel, 0..1: of the command and the children that it waited for,
/// else of the threads that the agent saw. `None` if nobody counted.
pub fn kernel_share(model: &Model) -> Option<f64> {
    let meta = &model.meta;
    let command = meta.cpu_user_ns.saturating_add(meta.cpu_sys_ns);
    if command > 0 {
        return Some(meta.cpu_sys_ns as f64 / command as f64);
    }
    // The scheduler's events do not tell user from kernel: 0 is not counted then.
    let (cpu, sys) = model.threads.iter().fold((0.0, 0.0), |(cpu, sys), th| {
        (cpu + th.cpu_ns as f64, sys + th.sys_ns as f64)
    });
    (sys > 0.0 && cpu > 0.0).then(|| (sys / cpu).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_profile::Collector;

    fn scheduler(enable: &str) -> Meta {
        Meta {
            collectors: vec![Collector {
                name: "scheduler".into(),
                active: false,
                lost: String::new(),
                enable: enable.into(),
            }],
            ..Meta::default()
        }
    }

    #[test]
    fn only_ebpf_sees_everything() {
        let of = |scheduler| Sources {
            scheduler,
            ..Sources::default()
        };
        assert!(of(Some(SchedSource::Bpf)).blind_spots().is_empty());
        let perf = of(Some(SchedSource::Perf));
        assert!(!perf.blind_spots().contains(&BlindSpot::Spinning));
        assert!(perf.blind_spots().contains(&BlindSpot::LibcLocks));
        assert!(of(None).blind_spots().contains(&BlindSpot::Spinning));
    }

    #[test]
    fn remedy_is_what_would_enable_the_scheduler() {
        assert_eq!(remedy(&Meta::default()), Remedy::Root);
        assert_eq!(remedy(&scheduler("run convoy with sudo")), Remedy::Root);
        assert_eq!(remedy(&scheduler("--scheduler auto")), Remedy::Ask);
        assert_eq!(remedy(&scheduler("use another kernel")), Remedy::Other);
    }

    #[test]
    fn kernel_share_is_unknown_where_nobody_counted() {
        let mut model = Model::default();
        model.threads.push(crate::Thread {
            cpu_ns: 100,
            ..crate::Thread::default()
        });
        assert_eq!(kernel_share(&model), None);
        model.threads[0].sys_ns = 25;
        assert_eq!(kernel_share(&model), Some(0.25));
        (model.meta.cpu_user_ns, model.meta.cpu_sys_ns) = (300, 0);
        assert_eq!(kernel_share(&model), Some(0.0), "of the command");
    }
}
