//! What waiting itself costs: into the kernel, off the processor, the waker's call, and back. That is CPU time, but
//! no work: it goes with the waits, however busy the processors are.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{FunctionKey, Model, OffReason, SchedThread, Site, SyncCode, ThreadId};

use crate::estimate::saving::{NO_WORK, SWITCH_NS};
use crate::facts::run_view::RunView;

/// Samples of a thread, and of threads together, from which on a share of them means something.
const SAMPLES: f64 = 30.0;
/// Where all are of one kind, there may be so many of another kind for these (rule of three).
const UNSEEN: f64 = 3.0;

/// Samples of threads at work.
#[derive(Debug, Default)]
pub(crate) struct SyncSamples<'a>(BTreeMap<ThreadId, Samples<'a>>);

#[derive(Debug, Default)]
struct Samples<'a> {
    all: u64,
    /// Where it waits for others or wakes them.
    handing_over: u64,
    /// Where it takes a lock or lets it go, by who called that.
    locking: BTreeMap<FunctionKey<'a>, u64>,
}

impl<'a> SyncSamples<'a> {
    pub(crate) fn of(model: &'a Model) -> Self {
        let mut samples: BTreeMap<ThreadId, Samples> = BTreeMap::new();
        let working = model.samples().filter(|(slice, _)| slice.spin.is_none());
        for (slice, site) in working {
            let of = samples.entry(slice.thread).or_default();
            of.all = of.all.saturating_add(slice.n);
            match site.and_then(|site| site.sync) {
                Some(SyncCode::HandOver) => {
                    of.handing_over = of.handing_over.saturating_add(slice.n);
                }
                Some(SyncCode::Lock) => {
                    if let Some(caller) = site.and_then(Site::shown_frame) {
                        let n = of.locking.entry(caller.key()).or_default();
                        *n = n.saturating_add(slice.n);
                    }
                }
                None => {}
            }
        }
        Self(samples)
    }

    /// Share of what each thread runs that hands over, 0..1: with the locks that are taken in these functions, and with all.
    /// That of all threads where one has too few samples of its own, and nothing where they have too few.
    pub(crate) fn shares(
        &self,
        threads: &BTreeSet<ThreadId>,
        at: &BTreeSet<FunctionKey>,
    ) -> BTreeMap<ThreadId, (f64, f64)> {
        let of = |id: &ThreadId| {
            self.0.get(id).map_or([0.0; 3], |of| {
                let locks = |all: bool| {
                    let locks = of.locking.iter();
                    let there = locks.filter(|(caller, _)| all || at.contains(*caller));
                    there.map(|(_, n)| *n as f64).sum::<f64>()
                };
                let handing_over = of.handing_over as f64;
                [
                    of.all as f64,
                    handing_over + locks(false),
                    handing_over + locks(true),
                ]
            })
        };
        let all = threads.iter().map(of);
        let all = all.fold([0.0; 3], |sum, n| {
            [sum[0] + n[0], sum[1] + n[1], sum[2] + n[2]]
        });
        let share = |[all, there, any]: [f64; 3]| {
            let of_all = |n: f64| n.min(all * all / (all + UNSEEN)) / all.max(1.0);
            (of_all(there), of_all(any))
        };
        let known = |id: &ThreadId| match of(id) {
            own if own[0] >= SAMPLES => Some((*id, share(own))),
            _ => (all[0] >= SAMPLES).then(|| (*id, share(all))),
        };
        threads.iter().filter_map(known).collect()
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
    pub(crate) fn of(view: &RunView, threads: &BTreeSet<ThreadId>, n: f64) -> Self {
        let rows = threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows.map(|th| SchedThread::cpu_work_ns(th) as f64).sum();
        let cap = |ns: f64| ns.min(NO_WORK * running);
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

/// Share of their CPU time that these threads were in the kernel, as the agent counted; a thread alone has too few
/// ticks for it. Of a program without the agent that is one process, the whole command's.
fn kernel_share(view: &RunView, threads: &BTreeSet<ThreadId>) -> Option<f64> {
    let known = threads.iter().filter_map(|&id| view.thread(id));
    let (cpu, sys) = known.fold((0.0, 0.0), |(cpu, sys), th| {
        (cpu + th.cpu_ns as f64, sys + th.sys_ns as f64)
    });
    if sys > 0.0 {
        return Some((sys / cpu.max(1.0)).min(1.0));
    }
    match view.model.processes.as_slice() {
        [one] if one.without_agent => convoy_model::kernel_share(view.model),
        _ => None,
    }
}

/// Times that these threads blocked.
fn waits(view: &RunView, threads: &BTreeSet<ThreadId>) -> f64 {
    let offs = view.sched.offs.iter();
    offs.filter(|off| off.reason != OffReason::Preempted && threads.contains(&off.thread))
        .map(|off| off.n as f64)
        .sum()
}
