//! Threads of one kind, or processes of one program (MPI ranks), of which one works while the others wait
//! for it: at a barrier, or at the end.

mod not_worked;
mod peers;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{duration, percent, plural};
use convoy_model::{
    differs_by_chance, FindingId, GroupId, OffReason, ProcessId, SchedThread, ThreadId, Waker,
};

use self::not_worked::{for_members, HELPS};
use crate::estimate::saving::{Saving, SWITCH_NS};
use crate::facts::concurrency::low_cm;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{cause, evidence};

/// Members are there together for this share of the longest life, and each beside the busiest one for this share of its own.
const TOGETHER: f64 = 0.6;
const BESIDE: f64 = 0.5;
/// The busiest one is at work for this share of its life: one that waits for work itself has no more of it.
const BUSY: f64 = 0.7;
/// A process that only waits for it, too: it may itself wait for members for this share of its work.
const ITSELF: f64 = 0.3;
/// Share of what is known to be lost for the busiest one that is waits for such pieces, if it is them that are uneven.
const MOSTLY_FED: f64 = 0.5;
/// Share of the others' waiting that must be for members.
const FOR_MEMBERS: f64 = 0.5;
/// Share of what was lost for members from which on time after their ends is most of it: members that meet in between wait there.
const ENDS: f64 = 0.8;
/// Waits of the one process for the other that make a habit, and how often, as a share of them, the other waits for the one.
const TURNS: (f64, f64) = (100.0, 0.5);
/// Who only takes turns with others on a processor is left on it for longer, in nanoseconds.
const TICK_NS: f64 = 1e6;
/// Even work cannot be had to the last bit.
const EXPECTED: f64 = 0.8;
const SURE: f64 = 0.4;
/// Why threads that are fed do not get the same, and what to do.
const HANDED_OUT: (&str, &str) = (
    "most of what is handed out goes to one of them, and who hands it out waits for that one",
    "smaller parts, each to a thread that has none (one queue for all of them); or, where a key chooses the thread (hash, shard, \
     customer), another one that spreads the work evenly",
);
const METHOD: &str = "work of the busiest against the mean, while few others worked";

/// How work is measured. CPU time does not depend on who else wants CPUs; but where a loop that waits is not
/// recognised in each sample, only the time that work took tells.
#[derive(Debug, Clone, Copy)]
enum By {
    Cpu,
    Time,
}

/// A thread of a group, or all threads of a process.
struct Member<'a> {
    threads: Vec<&'a SchedThread>,
    process: ProcessId,
}

impl Member<'_> {
    fn sum(&self, of: impl Fn(&SchedThread) -> u64) -> f64 {
        self.threads.iter().map(|th| of(th) as f64).sum()
    }

    /// CPU time that is work. Waiting for a processor is not: what others have makes nobody's part larger.
    fn working(&self) -> f64 {
        self.sum(SchedThread::cpu_work_ns)
    }

    fn work(&self, by: By, view: &RunView) -> f64 {
        match by {
            By::Cpu => self.working(),
            By::Time => self.took(view),
        }
    }

    /// The time that this took, delays included.
    fn took(&self, view: &RunView) -> f64 {
        (self.sum(SchedThread::active_ns) - self.spun(view)).max(self.working())
    }

    fn spun(&self, view: &RunView) -> f64 {
        self.of(&view.spun)
    }

    fn of(&self, sums: &BTreeMap<ThreadId, f64>) -> f64 {
        let ids = self.threads.iter().map(|th| th.thread);
        ids.filter_map(|id| sums.get(&id)).sum()
    }

    fn start(&self) -> u64 {
        self.threads.iter().map(|th| th.start_ns).min().unwrap_or(0)
    }

    fn end(&self) -> u64 {
        self.threads.iter().map(|th| th.end_ns).max().unwrap_or(0)
    }

    fn life(&self) -> f64 {
        self.end().saturating_sub(self.start()) as f64
    }

    fn has(&self, id: ThreadId) -> bool {
        self.threads.iter().any(|th| th.thread == id)
    }
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut all = Vec::new();
    // Where a runtime gives tasks to any of its threads, which one works says nothing: the code does.
    let roles = view.groups().into_iter();
    for group in roles.filter(|&group| !view.roles.is_shared(group)) {
        let members: Vec<Member> = view
            .members(group)
            .into_iter()
            .map(|th| Member {
                threads: vec![th],
                process: view.process(th.thread),
            })
            .collect();
        all.extend(judge(cx, &members, &view.group_name(group), false));
    }
    for (name, members) in ranks(view) {
        all.extend(judge(cx, &members, &name, true));
    }
    all
}

/// Processes that run the same code.
fn ranks<'a>(view: &RunView<'a>) -> Vec<(String, Vec<Member<'a>>)> {
    let mut by_process: BTreeMap<ProcessId, Vec<&SchedThread>> = BTreeMap::new();
    for th in view.threads.values() {
        by_process
            .entry(view.process(th.thread))
            .or_default()
            .push(th);
    }
    let mut by_code: BTreeMap<_, Vec<Member>> = BTreeMap::new();
    for (process, threads) in by_process {
        let of = view.process_at(process);
        if let Some(of) = of.filter(|_| !view.roles.is_parent(process)) {
            by_code
                .entry((of.program(), &of.script))
                .or_default()
                .push(Member { threads, process });
        }
    }
    by_code
        .into_iter()
        .map(|(((_, name), _), members)| (format!("processes of {name}"), peers::of(view, members)))
        .collect()
}

/// Whether two processes ask and answer: the one that works more waits for the other about as often as that waits for it, or is
/// interrupted by it, on one processor. Who has more of the same to do is waited for.
fn take_turns(view: &RunView, members: &[Member], busiest: usize) -> bool {
    let [a, b] = members else {
        return false;
    };
    let (more, less) = if busiest == 0 { (a, b) } else { (b, a) };
    let ended = |waits: &Member, ends: &Member| -> f64 {
        let wakes = view.sched.wakes.iter().filter(|wake| {
            let off = view.sched.off(wake.off);
            let pipe = off.is_some_and(|off| {
                let hands_over = matches!(off.reason, OffReason::Pipe | OffReason::Socket);
                hands_over && view.process(off.thread) == waits.process
            });
            pipe && matches!(wake.waker, Waker::Thread(id, _) if view.process(id) == ends.process)
        });
        wakes.map(|wake| wake.n as f64).sum()
    };
    let offs = view.sched.offs.iter();
    let interrupted = offs.filter(|off| {
        off.reason == OffReason::Preempted && view.process(off.thread) == more.process
    });
    let interrupted: f64 = interrupted.map(|off| off.n as f64).sum();
    let by_the_other = match interrupted * TICK_NS >= more.working() {
        true => interrupted,
        false => 0.0,
    };
    let asked = ended(less, more);
    asked >= TURNS.0 && ended(more, less) + by_the_other >= TURNS.1 * asked
}

fn judge(
    cx: &RunFacts,
    members: &[Member],
    name: &str,
    processes: bool,
) -> Option<(Vec<GroupId>, Finding)> {
    let by = |by| judge_by(cx, members, name, processes, by);
    by(By::Cpu).or_else(|| by(By::Time))
}

fn judge_by(
    cx: &RunFacts,
    members: &[Member],
    name: &str,
    processes: bool,
    by: By,
) -> Option<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    if members.len() < 2 {
        return None;
    }
    let by_work = |a: &(usize, &Member), b: &(usize, &Member)| {
        let work = a.1.work(by, view).total_cmp(&b.1.work(by, view));
        work.then(b.0.cmp(&a.0))
    };
    let (at, busiest) = members.iter().enumerate().max_by(by_work)?;
    let mean = members.iter().map(|m| m.work(by, view)).sum::<f64>() / members.len() as f64;
    let most = busiest.work(by, view);
    let longest = members.iter().map(Member::life).fold(0.0, f64::max);
    // They begin together; who has less to do may end before.
    let start = members.iter().map(Member::start).min()?;
    let beside = |m: &Member| {
        let end = m.end().min(busiest.end());
        end.saturating_sub(m.start().max(busiest.start())) as f64 >= BESIDE * m.life()
    };
    let together = members
        .iter()
        .all(|m| m.start().saturating_sub(start) as f64 <= (1.0 - TOGETHER) * longest && beside(m));
    if !together
        || mean <= 0.0
        || most - mean < view.t.imbalance_ratio * mean
        || is_fed(view, members, at, processes)
        || (processes && take_turns(view, members, at))
    {
        return None;
    }
    let lost = for_members(cx, members, at, processes);
    // Who waits at barriers waits for the same one again and again; ends are compared only once.
    let once = lost.gone > ENDS * lost.known;
    if lost.all <= 0.0
        || lost.known < FOR_MEMBERS * lost.all
        || (once && most - mean < differs_by_chance(mean))
    {
        return None;
    }
    // What is uneven, and only as far as it passed while few others worked.
    let alone: f64 = view
        .sched
        .slices
        .iter()
        .filter(|s| s.spin.is_none() && busiest.has(s.thread))
        .map(|s| low_cm(&s.by_working, view.useful))
        .sum();
    let uneven = ((most - mean) * busiest.took(view) / most).min(alone);
    let saving = Saving {
        expected: EXPECTED * uneven,
        most: uneven,
        // That one ended last once is no sign that it would again.
        sure: if once { 0.0 } else { SURE },
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let least = members
        .iter()
        .map(|m| m.work(by, view))
        .fold(most, f64::min);
    let n = members.len();
    let who = if processes {
        let pid = pid_of(view, busiest.process);
        // Launchers start their processes in order: who counts ranks finds it by that.
        let before = members
            .iter()
            .filter(|m| pid_of(view, m.process) < pid)
            .count();
        format!("process {pid} ({} of {n} by id)", ordinal(before + 1))
    } else {
        let thread = busiest
            .threads
            .first()
            .and_then(|th| view.thread(th.thread));
        thread.map_or_else(
            || "one thread".into(),
            |th| format!("thread {} ({})", th.tid, th.name),
        )
    };
    let subject = match busiest.threads.first() {
        Some(th) if !processes => Subject::Thread(th.thread),
        _ => Subject::Processes(members.iter().map(|m| m.process).collect()),
    };
    let mut groups: Vec<GroupId> = members
        .iter()
        .flat_map(|m| m.threads.iter().map(|th| view.role(th.thread)))
        .collect();
    let kind = if processes { "process" } else { "thread" };
    groups.extend(&lost.feeders);
    groups.sort_unstable();
    groups.dedup();
    let fed = lost.fed >= MOSTLY_FED * lost.known;
    let (why, fix) = if fed {
        (HANDED_OUT.0.to_owned(), HANDED_OUT.1)
    } else {
        let kinds = match processes {
            true => format!("{n} processes"),
            false => plural(n, kind),
        };
        (
            format!("{kinds} of one kind get different amounts of work"),
            "give out smaller parts as threads become free, or parts of equal cost",
        )
    };
    let saving = match fed {
        // Who hands out waits for each place in the full queue, and is woken: fewer such waits are no work.
        true => Saving {
            sure: 0.0,
            cpu: (0.0, waits_for(view, busiest, &lost.feeders) * SWITCH_NS.1),
            ..saving
        },
        false => saving,
    };
    let share = uneven / view.wall;
    Some((
        groups,
        Finding {
            id: FindingId::ThreadImbalance,
            subject,
            title: format!(
                "{name}: {who} works {:.1} times as much as the mean of {n}, and the others wait for it",
                most / mean
            ),
            evidence: vec![
                evidence(
                    "working_max_ns",
                    most,
                    format!("work of a {kind}: {} to {}", duration(least), duration(most)),
                ),
                evidence(
                    "low_cmetric_ns",
                    alone,
                    format!("the busiest one worked {} without enough others", duration(alone)),
                ),
                evidence(
                    "uneven_ratio",
                    share,
                    format!("{} of the run are its work beyond the mean", percent(share)),
                ),
            ],
            causes: vec![cause("uneven-work", why, fix)],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the mean of the work"),
            share_of_thread_time: share,
            caveats: match fed {
                true => vec!["whether parts of one key may go to several threads is not known: they may need the same data, or their order".into()],
                false => Vec::new(),
            },
        },
    ))
}

/// How often threads of these groups waited for this one.
fn waits_for(view: &RunView, member: &Member, groups: &BTreeSet<GroupId>) -> f64 {
    let waits = view.sched.ended_by_threads();
    let theirs = waits
        .filter(|(_, off, waker, _)| member.has(*waker) && groups.contains(&view.role(off.thread)));
    theirs.map(|(wake, ..)| wake.n as f64).sum()
}

fn pid_of(view: &RunView, id: ProcessId) -> u32 {
    let process = view.process_at(id);
    process.map_or(0, |p| p.pid)
}

fn ordinal(n: usize) -> String {
    match n {
        1 => "first".into(),
        2 => "second".into(),
        3 => "third".into(),
        n => format!("number {n}"),
    }
}

/// Whether the busiest one waits for work itself. Processes begin and end at their own pace: of them only what they
/// wait for one another counts.
fn is_fed(view: &RunView, members: &[Member], busiest_at: usize, processes: bool) -> bool {
    let busiest = &members[busiest_at];
    let work = busiest.took(view);
    if !processes {
        return work < BUSY * busiest.life();
    }
    let mut waited = 0.0;
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        if busiest.has(off.thread) && !busiest.has(waker) && members.iter().any(|m| m.has(waker)) {
            waited += wake.wait_ns as f64;
        }
    }
    waited > ITSELF * work
}
