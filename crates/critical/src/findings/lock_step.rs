//! Threads that hand over one small piece after the other: what the hand-over costs, and that they work in turns, is
//! then more than their work.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{GroupId, OffReason, SiteId, ThreadId, Waker};
use convoy_profile::ObjectKind;

use super::contended_futex::looks_like_a_lock;
use super::limiting_stage::is_team;
use super::Context;
use crate::gain::{Saving, SWITCH_NS};
use crate::levels::{at_least, low};
use crate::switching::Switching;
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Hand-overs that are a habit: fewer are a start or an end.
const WAITS: u64 = 200;
/// Share of its life that a thread of each side waits for the other, and that both do in the mean.
const WAITED: (f64, f64) = (0.1, 0.2);
/// Work between two waits, nanoseconds. Longer steps are phases, and whether those can overlap nobody knows: only two
/// threads that work at once for this share of the run can, and gain by it if at least one waits for as long.
const STEP_NS: f64 = 5.0 * SWITCH_NS.1;
const OVERLAP: f64 = 0.1;
/// The same where threads of one kind meet. Uneven steps that are longer than this are a matter of balance.
const MEETING_NS: f64 = 20.0 * SWITCH_NS.0;
/// Buffers and larger steps let the sides overlap, but nobody knows whether they may. Steps that are not much longer
/// than the hand-over itself cost more than they do.
const EXPECTED: (f64, f64) = (0.5, 0.8);
/// To wake an idle processor and get to it, nanoseconds: twice that of a virtual machine.
const WAKE_NS: f64 = 2.0 * SWITCH_NS.1;
const METHOD: &str = "work of the busiest thread without waits and switches (asymptotic bound)";

/// Waits of one group that threads of another, or of itself, ended.
#[derive(Debug, Clone, Default)]
struct Link {
    n: u64,
    ns: f64,
    waiters: BTreeSet<ThreadId>,
    sites: BTreeMap<SiteId, f64>,
}

/// Findings with the groups that they explain. `told`: groups of which another finding says why they wait.
pub(crate) fn findings(cx: &Context, told: &BTreeSet<GroupId>) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let links = links(view);
    let mut found = Vec::new();
    for (&(a, b), there) in &links {
        let Some(back) = links.get(&(b, a)).filter(|_| a <= b) else {
            continue;
        };
        let mut groups = vec![a, b];
        groups.dedup();
        if !groups.iter().all(|group| told.contains(group)) {
            let finding = finding(cx, &groups, [there, back]);
            found.extend(finding.map(|finding| (groups, finding)));
        }
    }
    found
}

/// Who waits for whom to hand something over: for locks, for the end of threads and for requests nobody does.
fn links(view: &View) -> BTreeMap<(GroupId, GroupId), Link> {
    let mut links: BTreeMap<(GroupId, GroupId), Link> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let (Some(off), Waker::Thread(waker, at)) = (view.sched.off(wake.off), wake.waker) else {
            continue;
        };
        let object = off
            .object
            .and_then(|id| view.model.objects.get(id.0 as usize));
        let lock = match object.map(|object| object.kind) {
            Some(
                ObjectKind::Mutex
                | ObjectKind::RwLock
                | ObjectKind::Spin
                | ObjectKind::OmpLock
                | ObjectKind::OmpCritical
                | ObjectKind::Thread,
            ) => true,
            Some(ObjectKind::Barrier | ObjectKind::OmpBarrier | ObjectKind::OmpRegion) => false,
            _ => view.role(off.thread) == view.role(waker) && looks_like_a_lock(view, off.site, at),
        };
        let hands_over = matches!(off.reason, OffReason::Futex | OffReason::Pipe);
        // The main thread of an OpenMP program is one of its team.
        let team = view.role(off.thread) != view.role(waker) && is_team(view, off);
        if !hands_over || lock || team || waker == off.thread {
            continue;
        }
        let link = links
            .entry((view.role(off.thread), view.role(waker)))
            .or_default();
        link.n = link.n.saturating_add(wake.n);
        // Woken, it may queue for the processor that the other one is on: that is still its turn.
        link.ns += wake.wait_ns as f64 + view.back_on_cpu(off.thread, wake.n as f64);
        link.waiters.insert(off.thread);
        if let Some(site) = off.site {
            *link.sites.entry(site).or_default() += wake.wait_ns as f64;
        }
    }
    links
}

fn finding(cx: &Context, groups: &[GroupId], links: [&Link; 2]) -> Option<Finding> {
    let view = cx.view;
    let meet = groups.len() == 1;
    let life = |id: &ThreadId| view.threads.get(id).map_or(0.0, |th| th.life_ns() as f64);
    let waited = |link: &Link| link.ns / link.waiters.iter().map(life).sum::<f64>().max(1.0);
    let habit = |link: &&Link| link.n >= WAITS && waited(link) >= WAITED.0;
    let mean = (waited(links[0]) + waited(links[1])) / 2.0;
    if !links.iter().all(habit) || mean < WAITED.1 {
        return None;
    }
    let threads: BTreeSet<ThreadId> = links
        .iter()
        .flat_map(|link| &link.waiters)
        .copied()
        .collect();
    let threads: Vec<ThreadId> = threads.into_iter().collect();
    let rows: Vec<_> = threads
        .iter()
        .filter_map(|id| view.threads.get(id))
        .collect();
    // More of one kind than there are processors meet late because they take turns: that is said of their number.
    if rows.len() < 2 || (meet && rows.len() as f64 > view.cpus) {
        return None;
    }
    let running =
        |th: &convoy_model::SchedThread| th.running_ns.saturating_sub(th.spinning_ns) as f64;
    let all: f64 = rows.iter().map(|th| running(th)).sum();
    let slices: f64 = rows.iter().map(|th| th.slices as f64).sum();
    let step = all / slices.max(1.0);
    let of_run = |ns: f64| ns >= OVERLAP * view.wall;
    let working = &view.sched.working;
    let overlap = of_run(at_least(working, 2.0)) && of_run(low(working, view.low_below));
    let overlap = overlap && rows.len() == 2;
    let fine = if meet {
        step <= MEETING_NS
    } else {
        step <= STEP_NS || overlap
    };
    if !fine {
        return None;
    }
    let n: f64 = links
        .iter()
        .take(groups.len())
        .map(|link| link.n as f64)
        .sum();
    let cost = Switching::of(view, &threads, n);
    // What is left is the work of the busiest, if the sides need not wait for each other. Being woken takes its time,
    // but who waits for a processor for longer has none because others have it: that is expected to stay.
    let longest = rows
        .iter()
        .map(|th| th.life_ns() as f64)
        .fold(0.0, f64::max);
    let left = |cost: f64, queues: bool| {
        let of = |th: &&&convoy_model::SchedThread| {
            let queued = th.delayed_ns as f64 - th.slices as f64 * WAKE_NS;
            let queued = queued.max(0.0) + th.preempted_ns as f64;
            running(th) * (1.0 - cost / all.max(1.0)) + if queues { queued } else { 0.0 }
        };
        rows.iter().map(of).fold(0.0, f64::max)
    };
    let expected = if step < STEP_NS {
        EXPECTED.1
    } else {
        EXPECTED.0
    };
    let saving = Saving {
        expected: expected * (longest - left(cost.expected, true)).max(0.0),
        most: (longest - left(cost.most, false)).max(0.0),
        sure: 0.0,
        cpu: (expected * cost.expected, cost.most),
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let names: Vec<String> = groups.iter().map(|&group| view.group_name(group)).collect();
    let waited: f64 = links.iter().take(groups.len()).map(|link| link.ns).sum();
    let lives: f64 = threads.iter().map(life).sum();
    let share = (waited / lives.max(1.0)).min(1.0);
    let place = |link: &Link| view.place(most(link.sites.clone()));
    let (title, text, fix) = if meet {
        (
            format!(
                "threads of {} meet {} times a second at {}, after {} of work each",
                names.join(""),
                count(n / rows.len() as f64 / view.wall * 1e9),
                place(links[0]),
                duration(step)
            ),
            "threads wait for one another after every small step",
            format!("larger steps between two waits at {}", place(links[0])),
        )
    } else {
        (
            format!(
                "{} work in turns: they hand over {} times a second, after {} of work each",
                names.join(" and "),
                count(n / view.wall * 1e9),
                duration(step)
            ),
            "each side waits for the other after every small piece",
            format!(
                "hand over many pieces at once, or let more of them wait between {} and {}",
                place(links[0]),
                place(links[1])
            ),
        )
    };
    let mut list = vec![evidence(
        "hand_overs",
        n,
        format!(
            "{} waits that the other side ended, {} together",
            count(n),
            duration(waited)
        ),
    )];
    list.push(evidence(
        "step_ns",
        step,
        format!(
            "{} on a processor between two waits, the switch included",
            duration(step)
        ),
    ));
    list.push(evidence(
        "switch_cpu_ns",
        cost.expected,
        format!(
            "{} of their CPU time are these switches, at most {}",
            percent(cost.expected / all.max(1.0)),
            percent(cost.most / all.max(1.0))
        ),
    ));
    Some(Finding {
        id: "lock-step",
        subject: Subject::Groups(groups.to_vec()),
        title,
        evidence: list,
        causes: vec![cause("lock-step", text, fix)],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the work of the busiest of them"),
        share_of_thread_time: share,
        caveats: vec![
            "whether a piece may be handed over later than it is ready is not known".into(),
        ],
    })
}
