//! Requests as filters of families: which threads, locks and functions are served.

use convoy_live::{Lock, Metric, Request, Subject, ThreadName};

use crate::family::Family;

/// What is served.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    requests: Vec<(Family, Request)>,
}

/// Served of the threads where nobody has asked for anything.
const OF_THREADS: [&str; 3] = ["cpu", "run_queue", "blocked"];

/// The same of the locks, where the agent counts them.
const OF_LOCKS: [&str; 4] = ["acquisitions", "contended", "wait", "hold"];

impl Selection {
    /// What was asked for.
    pub fn new(requests: Vec<Request>) -> Self {
        let requests = requests.into_iter();
        Self {
            requests: requests.filter_map(|r| Some((family_of(&r)?, r))).collect(),
        }
    }

    /// Whether a request is one that can be served.
    pub fn has_family(request: &Request) -> bool {
        family_of(request).is_some()
    }

    /// What costs little: CPU time and waits of the threads, and the locks if they are counted.
    pub fn cheap(has_locks: bool) -> Self {
        let of_locks = OF_LOCKS.iter().filter(|_| has_locks);
        let names = OF_THREADS.iter().chain(of_locks);
        Self::new(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// The requests.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().map(|(_, request)| request)
    }

    /// Whether any request for a family means this thread.
    pub(crate) fn has_thread(&self, family: Family, thread: &ThreadName<'_>) -> bool {
        let mut foci = self.foci(family);
        foci.any(|request| request.focus.holds(thread))
    }

    /// Whether any request for a family means what this thread does to this lock. `None`: a thread
    /// whose name was never read.
    pub(crate) fn has_lock(
        &self,
        family: Family,
        lock: &Lock,
        thread: Option<&ThreadName<'_>>,
    ) -> bool {
        self.foci(family).any(|request| {
            let focus = &request.focus;
            let is_lock = request.means(lock);
            is_lock && thread.map_or(!focus.selects_threads(), |thread| focus.holds(thread))
        })
    }

    fn foci(&self, family: Family) -> impl Iterator<Item = &Request> {
        let requests = self.requests.iter().filter(move |(f, _)| *f == family);
        requests.map(|(_, request)| request)
    }
}

/// The family that shows a request; `None` = there is none. Rates and means are for the scraper to
/// compute.
pub(crate) fn family_of(request: &Request) -> Option<Family> {
    let is_function = request.subject() == Subject::Function;
    Some(match request.metric {
        Metric::Calls | Metric::Allocations | Metric::Exceptions => Family::FunctionCalls,
        Metric::Wall => Family::FunctionWall,
        Metric::WallExclusive => Family::FunctionWallExclusive,
        Metric::Cpu if is_function => Family::FunctionCpu,
        Metric::Cpu => Family::ThreadCpu,
        Metric::CpuExclusive => Family::FunctionCpuExclusive,
        Metric::DurationMean | Metric::DurationP50 | Metric::DurationP99 => {
            Family::FunctionDuration
        }
        Metric::Inside => Family::FunctionInside,
        Metric::Acquisitions => Family::LockAcquisitions,
        Metric::Contended => Family::LockContentions,
        Metric::Wait | Metric::ConditionWait | Metric::BarrierWait | Metric::SemaphoreWait => {
            Family::LockWait
        }
        Metric::Hold => Family::LockHold,
        Metric::RunQueue => Family::ThreadRunQueue,
        Metric::Blocked => Family::ThreadBlocked,
        Metric::RunQueueMean
        | Metric::Switches
        | Metric::CMetric
        | Metric::ReadBytes
        | Metric::WriteBytes
        | Metric::IoWait
        | Metric::AllocatedBytes => return None,
    })
}
