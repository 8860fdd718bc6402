//! Hypotheses about a slow program: the "why" axis of Paradyn's Performance Consultant (Miller et
//! al., The Paradyn Parallel Performance Measurement Tool, IEEE Computer 28(11), 1995).

/// A reason why threads do not get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hypothesis {
    /// They compute.
    CpuBound,
    /// They could run, and have no CPU.
    WaitsForCpu,
    /// They wait for a lock that another thread holds.
    WaitsForLocks,
    /// They wait for files, disks, or memory that is read in.
    WaitsForIo,
    /// They wait until another thread has done something: conditions, barriers, semaphores, joins.
    WaitsForEvents,
    /// They wait for sockets, pipes, timers or child processes.
    WaitsForOutside,
}

/// What a share of time is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Time that threads compute, or wait for locks and I/O. Idle threads of a pool do not count,
    /// nor does the load of the machine.
    Busy,
    /// The same, and the time that they wait for a CPU.
    BusyOrRunnable,
    /// The time of all threads.
    Life,
}

impl Hypothesis {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::CpuBound,
        Self::WaitsForCpu,
        Self::WaitsForLocks,
        Self::WaitsForIo,
        Self::WaitsForEvents,
        Self::WaitsForOutside,
    ];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuBound => "cpu_bound",
            Self::WaitsForCpu => "waits_for_cpu",
            Self::WaitsForLocks => "waits_for_locks",
            Self::WaitsForIo => "waits_for_io",
            Self::WaitsForEvents => "waits_for_events",
            Self::WaitsForOutside => "waits_for_outside",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::CpuBound => "CPU bound",
            Self::WaitsForCpu => "waits for a CPU",
            Self::WaitsForLocks => "waits for locks",
            Self::WaitsForIo => "waits for files and disks",
            Self::WaitsForEvents => "waits for conditions, barriers, joins",
            Self::WaitsForOutside => "waits for sockets, pipes, timers",
        }
    }

    /// The time that is measured, as part of a sentence.
    pub fn time(self) -> &'static str {
        match self {
            Self::CpuBound => "CPU time",
            Self::WaitsForCpu => "run-queue latency",
            Self::WaitsForLocks => "lock wait time",
            Self::WaitsForIo => "I/O wait time",
            Self::WaitsForEvents | Self::WaitsForOutside => "wait time",
        }
    }

    /// The metric of its value.
    pub fn metric(self) -> &'static str {
        match self {
            Self::CpuBound => "cpu",
            Self::WaitsForCpu => "run_queue",
            Self::WaitsForLocks | Self::WaitsForEvents => "wait",
            Self::WaitsForIo | Self::WaitsForOutside => "blocked",
        }
    }

    /// What its share is a share of.
    pub fn whole(self) -> Whole {
        match self {
            Self::WaitsForEvents | Self::WaitsForOutside => Whole::Life,
            Self::WaitsForCpu => Whole::BusyOrRunnable,
            _ => Whole::Busy,
        }
    }

    /// Whether threads that have nothing to do look like that, too: then it is no cause by itself.
    pub fn may_be_idle(self) -> bool {
        self.whole() == Whole::Life
    }
}
