//! What waiting itself costs: into the kernel, off the processor, the waker's call, and back. That is CPU time, but
//! no work: it goes with the waits, however busy the processors are.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Model, OffReason, SchedThread, ThreadId};

use crate::gain::SWITCH_NS;
use crate::view::View;

/// At least this share of what threads run is work, also where nobody knows how much of it was in the kernel.
pub(crate) const WORK: f64 = 0.1;

/// Samples of a thread, and of threads together, from which on a share of them means something.
const SAMPLES: u64 = 30;

/// Samples of threads, and those of them where it waits for others, wakes them, takes a lock or lets it go.
#[derive(Debug, Default)]
pub(crate) struct SyncSamples(BTreeMap<ThreadId, (u64, u64)>);

impl SyncSamples {
    pub(crate) fn of(model: &Model) -> Self {
        let mut samples: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
        for (slice, site) in model.samples() {
            let (all, sync) = samples.entry(slice.thread).or_default();
            *all += slice.n;
            if site.is_some_and(|site| site.sync.is_some()) {
                *sync += slice.n;
            }
        }
        Self(samples)
    }

    /// Share of what a thread runs that is such code, 0..1: that of all of `threads` where it has too few samples of its
    /// own, and nothing where they have too few.
    pub(crate) fn share(&self, id: ThreadId, threads: &BTreeSet<ThreadId>) -> Option<f64> {
        let of = |id: &ThreadId| self.0.get(id).copied().unwrap_or_default();
        let (mut all, mut sync) = of(&id);
        if all < SAMPLES {
            (all, sync) = threads
                .iter()
                .map(of)
                .fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
        }
        (all >= SAMPLES).then(|| sync as f64 / all as f64)
    }
}

/// CPU time that waits cost, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Switching {
    /// Expected.
    pub(crate) expected: f64,
    /// At most.
    pub(crate) most: f64,
    /// Of it, as measured: the threads' time in the kernel, by this share of their waits. `None` = not known.
    pub(crate) in_kernel: Option<f64>,
}

impl Switching {
    /// `n` waits of these threads, and the calls that ended them. A system call that finds the word changed comes
    /// back at once: it is no wait, but costs the same, so that the bound is all time in the kernel. Expected is what
    /// `n` waits cost at most; where that is not known from the kernel, [`SWITCH_NS`] each.
    pub(crate) fn of(view: &View, threads: &BTreeSet<ThreadId>, n: f64) -> Self {
        let rows = threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows.map(|th| SchedThread::cpu_work_ns(th) as f64).sum();
        let cap = |ns: f64| ns.min((1.0 - WORK) * running);
        match kernel_share(view, threads) {
            Some(share) => {
                let of_all = (n / waits(view, threads).max(1.0)).min(1.0);
                let in_kernel = share * running * of_all;
                // Ticks miss short calls: not less than a cheap wait.
                Self {
                    expected: cap((n * SWITCH_NS.1).min(in_kernel)),
                    most: cap(in_kernel.max(n * SWITCH_NS.0)),
                    in_kernel: Some(in_kernel),
                }
            }
            None => Self {
                expected: cap(n * SWITCH_NS.0),
                most: cap(n * SWITCH_NS.1),
                in_kernel: None,
            },
        }
    }
}

/// Share of their CPU time that these threads were in the kernel. Only the agent tells; a thread alone has too few
/// ticks for it.
fn kernel_share(view: &View, threads: &BTreeSet<ThreadId>) -> Option<f64> {
    let known = threads.iter().filter_map(|&id| view.thread(id));
    let (cpu, sys) = known.fold((0.0, 0.0), |(cpu, sys), th| {
        (cpu + th.cpu_ns as f64, sys + th.sys_ns as f64)
    });
    (sys > 0.0).then(|| (sys / cpu.max(1.0)).min(1.0))
}

/// Times that these threads blocked.
fn waits(view: &View, threads: &BTreeSet<ThreadId>) -> f64 {
    let offs = view.sched.offs.iter();
    offs.filter(|off| off.reason != OffReason::Preempted && threads.contains(&off.thread))
        .map(|off| off.n as f64)
        .sum()
}
