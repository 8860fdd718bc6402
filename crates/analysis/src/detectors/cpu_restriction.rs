//! Threads that could run and wait for a CPU, while CPUs that the program seems to have are idle: affinity or a quota keeps them off.

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent, plural};
use convoy_model::FindingId;

use crate::estimate::saving::Saving;
use crate::facts::concurrency::levels;
use crate::facts::run_facts::RunFacts;
use crate::words::{cause, evidence};

/// A thread that was taken off its CPU waits for so long on average, nanoseconds. One that had to give way to another one
/// for a moment is back sooner, and within a few milliseconds the scheduler gives it an idle CPU if it may.
const LONG_NS: f64 = 2e6;
/// So many of these make a habit.
const TIMES: f64 = 20.0;
/// Idle while threads wait, as a share of one CPU over the run.
const IDLE: f64 = 0.15;
/// Share of the CPUs' time that other programs, or a hypervisor's other guests, had: from it on
/// threads wait for those.
const OTHERS: f64 = 0.1;
/// Where more events than this share were lost, a thread that has gone may seem to wait.
const LOST: f64 = 0.01;
/// How much of it the work can use is not known, nor whether the limit can go.
const EXPECTED: f64 = 0.9;
const SURE: f64 = 0.4;

pub(crate) fn finding(cx: &RunFacts) -> Option<Finding> {
    let view = cx.view;
    let quality = &cx.rows.quality;
    if !view.cpus.is_finite() || quality.lost_events as f64 > LOST * quality.events as f64 {
        return None;
    }
    let workers = || view.workers.iter().filter_map(|id| view.threads.get(id));
    let n: f64 = workers().map(|th| th.preemptions as f64).sum();
    let waited: f64 = workers().map(|th| th.preempted_ns as f64).sum();
    if n < TIMES || waited < LONG_NS * n {
        return None;
    }
    let used = view.cpus_used();
    let ran = used * view.wall;
    let could_run: f64 = levels(&view.sched.active)
        .map(|(n, ns)| n.min(view.cpus) * ns)
        .sum();
    // Of the CPUs that convoy may use itself: those of the program, or more.
    let spare = view.spare();
    // When others ran is not known: they may have had the CPUs just while threads waited.
    let meta = &view.model.meta;
    let others = meta.others_ns.saturating_add(meta.stolen_ns) as f64;
    if others > OTHERS * view.cpus * view.wall {
        return None;
    }
    let idle = (could_run - ran - others).min(spare).min(waited);
    if idle < IDLE * view.wall {
        return None;
    }
    let most = view.wall * idle / (ran + idle).max(1.0);
    let saving = Saving {
        expected: EXPECTED * most,
        most,
        sure: SURE,
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let life = view.lives(&view.workers);
    Some(Finding {
        id: FindingId::KeptOffCpus,
        subject: Subject::Run,
        title: format!(
            "{} are runnable, but only {used:.1} of {:.0} CPUs run them: the others are idle",
            plural(view.workers_at_once, "thread"),
            view.cpus
        ),
        evidence: vec![
            evidence(
                "preempted_ns",
                waited,
                format!("taken off a CPU {} times, and back after {} on average", count(n), duration(waited / n)),
            ),
            evidence(
                "idle_ratio",
                idle / view.wall,
                format!("{} of a CPU was idle over the run while threads waited for one", percent(idle / view.wall)),
            ),
        ],
        causes: vec![cause(
            "kept-off-cpus",
            "threads may not use the CPUs that are idle: they are pinned, or a quota stops them",
            "look for what limits them: Cpus_allowed_list in /proc/PID/task/*/status (taskset, sched_setaffinity(), OMP_PLACES, a \
             cpuset), nr_throttled in cpu.stat of the cgroup (cpu.max: a container's CPU limit)",
        )],
        undecided: String::new(),
        gain: saving.gain(view, "threads that wait, on the CPUs that are idle", "how well the work scales"),
        share_of_thread_time: (waited / life.max(1.0)).min(1.0),
        caveats: vec!["whether the limit is meant is not known".into()],
    })
}
