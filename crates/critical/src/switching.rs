//! What waiting itself costs: into the kernel, off the processor, the waker's call, and back. That is CPU time, but
//! no work: it goes with the waits, however busy the processors are.

use std::collections::BTreeSet;

use convoy_model::{OffReason, SchedThread, ThreadId};

use crate::gain::SWITCH_NS;
use crate::view::View;

/// At least this share of what threads run is work, also where nobody knows how much of it was in the kernel.
const WORK: f64 = 0.1;

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
