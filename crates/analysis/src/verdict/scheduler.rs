//! The sentence at the head of the report.

use std::collections::BTreeMap;

use convoy_model::finding::SHORTEST_RUN_NS;
use convoy_model::words::{count, duration, gain, percent, plural};
use convoy_model::{kernel_share, Model, OffReason, SiteId, Sources, Waker};

use crate::facts::hot_function::hottest;
use crate::facts::run_view::{is_file_io, RunView};
use crate::tables::paths::most;
use crate::tables::scheduler::{Analysis, Parallelism};

/// CPUs busy for this share of the run are what limits a program.
const CPU_BOUND: f64 = 0.9;
/// Share of the run without any active thread that makes a program an idle one.
const IDLE: f64 = 0.5;
/// Share of the run at low parallelism that is worth a word.
const LOW: f64 = 0.1;
/// The same without any.
const NONE: f64 = 0.01;
/// One thread that is on a CPU for this share of the run is what limits it.
const BUSY: f64 = 0.8;
/// A function with this share of what it runs is named.
const MOST: f64 = 0.2;
/// Share of the run that a wait is worth a sentence.
const MUCH: f64 = 0.3;
/// Working threads over those that could: this is parallel.
const PARALLEL: f64 = 0.8;
/// CPU time in the kernel over all CPU time, from which on it is a reason to look.
const KERNEL_SHARE: f64 = 0.2;

/// How long so few worked, and how much of that none.
fn few(p: &Parallelism, wall: f64) -> String {
    let none = p.none_ns() as f64 / wall;
    let low = p.low_ns as f64 / wall + none;
    if low < LOW {
        return String::new();
    }
    // Of one thread there are no fewer than one but none.
    if p.low_below < 1.0 {
        return format!(" (none for {} of the run)", percent(none));
    }
    let few = format!("fewer than {:.0} for {}", p.low_below.ceil(), percent(low));
    match none >= NONE {
        true => format!(" ({few}, none for {} of the run)", percent(none)),
        false => format!(" ({few} of the run)"),
    }
}

/// Says how parallel the program was and what stood in its way.
pub(crate) fn verdict(view: &RunView, a: &Analysis) -> String {
    let p = &a.parallelism;
    let wall = view.wall;
    let idle = p.idle_ns as f64 / wall;
    // Where a thread is made for every task, none of them is there for long enough to count.
    let of = match p.workers_at_once {
        n if p.working_mean > n as f64 => "threads were".into(),
        1 => "of 1 worker thread was".into(),
        n => format!("of {} were", plural(n, "worker thread")),
    };
    let how = format!("On average {:.1} {of} active", p.working_mean);
    if let Some(f) = a.findings.first() {
        let few = few(p, wall);
        let gain = gain(&f.gain);
        return format!("{how}{few}. Main cause: {}. Expected gain {gain}.", f.title);
    }
    if p.workers == 0 {
        return "No thread did any work to speak of.".into();
    }
    if wall < SHORTEST_RUN_NS {
        return format!(
            "{how} for {:.1} ms: too short to judge. Give it work for {:.0} ms at least.",
            wall / 1e6,
            SHORTEST_RUN_NS / 1e6
        );
    }
    if idle >= IDLE {
        let tasks = match has_tasks(view.model) {
            true => " Its tasks may have waited for each other (tokio::sync): no thread waits then, and it is not seen.",
            false => "",
        };
        return format!(
            "No thread was active for {} of the run: the program waited for requests, time or other programs.{}{tasks}",
            percent(idle),
            waited_for(view).unwrap_or_default()
        );
    }
    if p.workers_at_once < 2 {
        return one_thread(view, p);
    }
    let unseen = unseen(view);
    let cpu_bound = p.cpus > 0 && p.running_mean >= CPU_BOUND * f64::from(p.cpus);
    if cpu_bound {
        return format!("{how}, and the {} CPUs were busy.{unseen}", p.cpus);
    }
    if p.working_mean >= PARALLEL * p.useful {
        return format!("{how}: threads hardly waited.{unseen}");
    }
    format!("{how}: no bottleneck was found.{unseen}")
}

/// What such numbers do not rule out.
fn unseen(view: &RunView) -> String {
    let sources = Sources::of(view.model);
    if !sources.see_reasons() {
        return format!(
            " Locks inside libc, inlined locks, false sharing and I/O are not seen: {}.",
            sources.remedy.text()
        );
    }
    match kernel_share(view.model).filter(|share| *share >= KERNEL_SHARE) {
        Some(share) => format!(
            " {} of the CPU time was in the kernel: `perf trace -s` counts the system calls.",
            percent(share)
        ),
        None => String::new(),
    }
}

/// What the thread that runs most waited for most.
fn waited_for(view: &RunView) -> Option<String> {
    let workers = view.workers.iter().filter_map(|id| view.threads.get(id));
    let busiest = workers.max_by_key(|th| th.cpu_work_ns())?.thread;
    let name = view.group_name(view.role(busiest));
    let mut ended: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let off = view.sched.off(wake.off).filter(|off| off.thread == busiest);
        let Some(off) = off.filter(|off| off.reason != OffReason::Preempted) else {
            continue;
        };
        let by = match wake.waker {
            Waker::Thread(id, _) if view.process(id) != view.process(busiest) => {
                let process = view.process_at(view.process(id))?;
                format!("{} ({})", process.title(), process.pid)
            }
            Waker::Thread(id, _) => view.group_name(view.role(id)),
            Waker::Interrupt if off.reason == OffReason::Sleep => "time (it slept)".into(),
            Waker::Interrupt => "time, a device or the network".into(),
            Waker::Outside(_) => "other programs".into(),
            Waker::Unknown => continue,
        };
        let (n, ns) = ended.entry(by).or_default();
        *n = n.saturating_add(wake.n);
        *ns += wake.wait_ns as f64;
    }
    let (by, (n, ns)) = ended.into_iter().max_by(|a, b| a.1 .1.total_cmp(&b.1 .1))?;
    let of_run = (ns / view.wall).min(1.0);
    (of_run >= MUCH).then(|| {
        let times = match n {
            1 => "once".into(),
            n => format!(
                "{} times, {} each",
                count(n as f64),
                duration(ns / n as f64)
            ),
        };
        format!(
            " What ran most, {name}, waited for {by} for {} of it: {times}.",
            percent(of_run)
        )
    })
}

/// Whether it has tasks that wait without a thread.
fn has_tasks(model: &Model) -> bool {
    let frames = || model.sites.iter().flat_map(|site| &site.frames);
    frames().any(|frame| frame.function.starts_with("tokio::runtime::"))
}

/// The program is not parallel: on several CPUs it could be, if somebody divided its work.
fn one_thread(view: &RunView, p: &Parallelism) -> String {
    let share = percent(p.running_mean.min(1.0));
    let said = format!("One thread at a time did the work, on a CPU {share} of the run");
    let in_files = in_files(view);
    if let Some(site) = most(in_files.clone()) {
        let ratio = in_files.values().sum::<f64>() / view.wall;
        if ratio >= LOW {
            return format!(
                "{said}, and waited for files for {}, most at {}.",
                percent(ratio.min(1.0)),
                view.place(Some(site))
            );
        }
    }
    if p.cpus < 2 || p.running_mean < BUSY {
        return format!("{said}: there is nothing parallel to judge.");
    }
    let most = hottest(view, |_| true);
    let most = most.filter(|of| !of.name.is_empty() && of.share >= MOST);
    let place = most.map_or(String::new(), |of| {
        format!(": {} of it is in {}()", percent(of.share), of.name)
    });
    let idle = match p.cpus {
        2 => "The other CPU was idle. Parallelize this work to use it".to_owned(),
        n => format!(
            "The other {} CPUs were idle. Parallelize this work to use them",
            n - 1
        ),
    };
    format!("{said}. {idle}{place}.")
}

/// What threads that work waited for files, by place.
fn in_files(view: &RunView) -> BTreeMap<SiteId, f64> {
    let mut sites = BTreeMap::new();
    let offs = view.sched.offs.iter();
    for off in offs.filter(|off| is_file_io(off.reason) && view.workers.contains(&off.thread)) {
        if let Some(site) = off.site {
            *sites.entry(site).or_default() += off.sum_ns as f64;
        }
    }
    sites
}
