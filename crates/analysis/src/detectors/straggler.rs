//! Uneven work among threads of one kind: all wait for the last one, at a barrier, at the end of a
//! parallel region, or in join.
//!
//! In every phase the time is that of the slowest thread, and the mean wait is the distance from the
//! mean to the slowest. So perfectly even work shortens the phases by the mean wait, whether the
//! slowest is always the same thread or another one each time. CPUs permitting: four threads with
//! even work on two CPUs also wait for one another.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::{differs_by_chance, FindingId, GroupId, OffReason, ThreadId};
use convoy_profile::{ObjectKind, Op};

use crate::detectors::small_regions;
use crate::estimate::queueing::Saving;
use crate::facts::operations::Role;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::{ProcessView, ThreadTime};
use crate::root_causes::cause;
use crate::tables::counters::{EventClass, EventRow};
use crate::words::{duration, evidence, percent, place, plural};

/// Time from the last arrival until a sleeping thread runs again: no balance takes it away. At least,
/// and at most where hardly any wait was shorter (a virtual machine). Nanoseconds a wait.
const WAKE_UP_NS: (f64, f64) = (8_000.0, 50_000.0);
/// One thread that comes last this often is the straggler.
const ALWAYS_LAST: f64 = 0.6;
/// Even work cannot be had to the last bit.
const SURE: f64 = 0.4;
/// Of threads that end apart once, so much of it is expected to be had: whether it is the same again, nobody has seen.
const EXPECTED_ONCE: f64 = 0.8;
const METHOD: &str =
    "mean wait at the meeting point: the distance from the mean to the slowest thread";

pub(crate) fn findings(cx: &ProcessFacts, events: &[EventRow]) -> Vec<Finding> {
    let small = small_regions::findings(cx, events);
    let is_small = |e: &EventRow| small.iter().any(|(object, _)| *object == e.object);
    let meetings = events.iter().filter(|e| e.class == EventClass::Straggler);
    // Of thousands of processes hardly one has threads that end apart.
    let unseen = OnceCell::new();
    let mut all: Vec<Finding> = meetings
        .filter(|e| !is_small(e))
        .filter_map(|e| Meeting::of(cx.view, e).finding(cx, e))
        .collect();
    all.extend(small.into_iter().map(|(_, finding)| finding));
    all.extend(
        cx.view
            .groups()
            .into_iter()
            .filter_map(|g| at_the_end(cx, g, &unseen)),
    );
    all
}

/// What the threads that meet at one object did.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// Per thread: local index, wait, meetings, times it came last, time in the body.
    pub members: Vec<Member>,
    region: bool,
    /// What a wait took at least that ended as soon as it began, nanoseconds.
    wake_up: f64,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Member {
    pub thread: usize,
    pub wait: f64,
    pub meetings: f64,
    last: f64,
    pub body: f64,
    /// Time that it queued for a CPU during the run, within waits or not.
    queued: f64,
}

impl Member {
    fn of(view: &ProcessView, thread: usize) -> Self {
        let id = view.threads[thread].id.0 as usize;
        let recorded = view.model.threads.get(id).and_then(|t| t.run_delay_ns);
        Self {
            thread,
            queued: recorded.map_or(view.threads[thread].run_delay, |ns| ns as f64),
            ..Default::default()
        }
    }
}

impl Meeting {
    pub fn of(view: &ProcessView, event: &EventRow) -> Self {
        let mut members: BTreeMap<usize, Member> = BTreeMap::new();
        for u in view.uses_of(event.object) {
            let Some(thread) = view.thread(u.thread) else {
                continue;
            };
            if view.role(u) == Some(Role::Wait) {
                let m = members
                    .entry(thread)
                    .or_insert_with(|| Member::of(view, thread));
                m.wait += u.wait_ns as f64;
                m.meetings += u.calls as f64;
                m.last += u.last_arrivals as f64;
                m.body += u.busy_ns as f64;
            } else if matches!(u.op, Some(Op::CondBroadcast)) {
                // A barrier made of a condition variable: whoever broadcasts came last.
                let m = members
                    .entry(thread)
                    .or_insert_with(|| Member::of(view, thread));
                m.meetings += u.calls as f64;
                m.last += u.calls as f64;
            }
        }
        let region = view
            .object(event.object)
            .is_some_and(|o| o.kind == ObjectKind::OmpRegion);
        Self {
            members: members.into_values().collect(),
            region,
            wake_up: wake_up(&event.wait_hist),
        }
    }

    /// Time that even work would take off all phases together: expected, and at most. Nanoseconds.
    ///
    /// Waits while the last one queues for a CPU are not due to the work. Of a straggler that is how
    /// much longer it queued than the waiter. Where another thread is last each time, queueing is
    /// all that may be behind it, and counts twice: of the last one, and after the wake-up. So may
    /// time that a hypervisor took, for which all others wait.
    fn saved(&self, stolen: f64) -> (f64, f64) {
        let n = self.members.len() as f64;
        if n < 2.0 {
            return (0.0, 0.0);
        }
        let phases = self.members.iter().map(|m| m.meetings).fold(0.0, f64::max);
        let slowest = self.straggler().map(|(thread, _)| thread);
        let slowest = self.members.iter().find(|m| Some(m.thread) == slowest);
        let waited = |m: &Member| {
            let queued = slowest.map_or_else(
                || 2.0 * m.queued + stolen * (n - 1.0) / n,
                |s| (s.queued - m.queued).max(0.0),
            );
            (m.wait - phases.min(m.meetings) * self.wake_up - queued).max(0.0)
        };
        let expected = self.members.iter().map(waited).sum::<f64>() / n;
        let most = self.members.iter().map(|m| m.wait).sum::<f64>() / n;
        (expected.clamp(0.0, most), most)
    }

    /// The thread that comes last nearly always, if there is one, and how often.
    fn straggler(&self) -> Option<(usize, f64)> {
        let all: f64 = self.members.iter().map(|m| m.last).sum();
        let body: f64 = self.members.iter().map(|m| m.body).sum();
        if all >= 5.0 {
            let m = self
                .members
                .iter()
                .max_by(|a, b| a.last.total_cmp(&b.last))?;
            return (m.last >= ALWAYS_LAST * all).then_some((m.thread, m.last / all));
        }
        let longest = self
            .members
            .iter()
            .max_by(|a, b| a.body.total_cmp(&b.body))?;
        let others = (body - longest.body) / (self.members.len() as f64 - 1.0).max(1.0);
        (self.region && longest.body > 1.2 * others && others > 0.0)
            .then(|| (longest.thread, longest.body / body))
    }

    fn finding(&self, cx: &ProcessFacts, event: &EventRow) -> Option<Finding> {
        let view = cx.view;
        let (saved, saved_max) = self.saved(view.stolen());
        let start = self
            .members
            .iter()
            .map(|m| view.threads[m.thread].start)
            .fold(f64::INFINITY, f64::min);
        let end = self
            .members
            .iter()
            .map(|m| view.threads[m.thread].end)
            .fold(0.0, f64::max);
        let stretch = if self.region {
            self.members
                .iter()
                .map(|m| m.body + m.wait)
                .fold(0.0, f64::max)
                .min(end - start)
        } else {
            end - start
        };
        if stretch <= 0.0 || saved_max < cx.t.waited_ratio * view.wall() {
            return None;
        }
        let in_stretch = |m: &Member| {
            let t = &view.threads[m.thread];
            if self.region {
                m.body.min(t.cpu)
            } else {
                (t.cpu - t.spin).max(0.0)
            }
        };
        let saving = Saving {
            stretch,
            cpu: self.members.iter().map(in_stretch).sum(),
            saved,
            saved_max,
            sure: SURE,
        };
        let name = view.object_name(event.object);
        let here = event
            .sites
            .first()
            .map_or_else(|| name.clone(), |s| place(view, s.site));
        let n = self.members.len();
        let share = saved_max / stretch;
        let straggler = self.straggler();
        let mut list = vec![
            evidence(
                "mean_wait_ratio",
                share,
                format!(
                    "{} wait {} of the time for the last one",
                    plural(n, "thread"),
                    percent(share)
                ),
            ),
            evidence(
                "wait_ns",
                event.wait_ns as f64,
                format!(
                    "waited {} in all, {} at most",
                    duration(event.wait_ns as f64),
                    duration(event.wait_max_ns as f64)
                ),
            ),
        ];
        if let Some((thread, often)) = straggler {
            let tid = view
                .model
                .threads
                .get(view.threads[thread].id.0 as usize)
                .map_or(0, |t| t.tid);
            let what = if self.region {
                "of the work is done by"
            } else {
                "of the time the last to come is"
            };
            list.push(evidence(
                "last_ratio",
                often,
                format!("{} {what} thread {tid}", percent(often)),
            ));
        }
        let (id, title, subject) = match straggler {
            Some((thread, _)) => (
                FindingId::Straggler,
                format!(
                    "{name}: {} wait {} of the time for one of them",
                    plural(n, "thread"),
                    percent(share)
                ),
                Subject::Thread(view.threads[thread].id),
            ),
            None => (
                FindingId::BarrierImbalance,
                format!(
                    "{name}: {} wait {} of the time for whoever is last",
                    plural(n, "thread"),
                    percent(share)
                ),
                Subject::Object(event.object),
            ),
        };
        let mut gain = saving.gain(view, METHOD, "the mean of the work");
        let crowded = n as f64 > view.cpus_allowed;
        if crowded && straggler.is_none() {
            // More threads than CPUs: even work does not end evenly, and the counts cannot tell.
            (gain.low, gain.mid) = (1.0, 1.0);
        }
        let mut caveats = Vec::new();
        if crowded {
            caveats.push(format!(
                "{} on {:.0} CPUs: some always come late, however even the work is",
                plural(n, "thread"),
                view.cpus_allowed
            ));
        }
        Some(Finding {
            id,
            subject,
            title,
            evidence: list,
            causes: vec![uneven_work(&here, straggler.is_some())],
            undecided: String::new(),
            share_of_thread_time: share,
            caveats,
            gain,
        })
    }
}

/// The shortest waits are nothing but the wake-up. `hist[i]`: waits of [2^i, 2^(i+1)) ns.
fn wake_up(hist: &[u64]) -> f64 {
    let all: u64 = hist.iter().sum();
    let mut seen = 0;
    let tenth = hist.iter().position(|n| {
        seen += n;
        seen * 10 > all
    });
    let shortest = tenth.map_or(0.0, |bucket| 2f64.powi(bucket as i32));
    shortest.clamp(WAKE_UP_NS.0, WAKE_UP_NS.1)
}

fn uneven_work(here: &str, constant: bool) -> convoy_model::finding::Cause {
    cause(
        "uneven-work",
        if constant { "one thread gets more work than the others" } else { "the threads get different amounts of work in each phase" },
        format!("smaller parts, given out as threads become free, instead of fixed shares, before {here}"),
    )
}

/// Time of a thread that is no work, as the scheduler saw it and the agent did not. Nanoseconds.
#[derive(Debug, Default, Clone, Copy)]
struct Unseen {
    /// Asleep, whoever it waited for so.
    slept: f64,
    /// Beyond its known waits: for locks of the C library, which nobody intercepts.
    futex: f64,
    /// Kept from its processor beyond what the kernel's own count of that says (it misses most of it in some runs).
    kept: f64,
}

impl Unseen {
    fn of(view: &ProcessView) -> BTreeMap<ThreadId, Self> {
        let mut all: BTreeMap<ThreadId, Self> = BTreeMap::new();
        for off in view.model.sched.iter().flat_map(|sched| &sched.offs) {
            let this = all.entry(off.thread).or_default();
            match off.reason {
                OffReason::Sleep => this.slept += off.sum_ns as f64,
                OffReason::Futex => this.futex += off.sum_ns as f64,
                OffReason::Preempted => this.kept += off.sum_ns as f64,
                _ => {}
            }
        }
        for (id, this) in &mut all {
            if let Some(t) = view.thread(*id).map(|ix| &view.threads[ix]) {
                this.futex = (this.futex - t.lock_wait - t.event_wait).max(0.0);
                this.kept = (this.kept - t.run_delay).max(0.0);
            }
        }
        all
    }

    fn sum(self) -> f64 {
        self.slept + self.futex + self.kept
    }
}

/// Threads that are created together and end apart: whoever joins them waits for the last.
fn at_the_end(
    cx: &ProcessFacts,
    group: GroupId,
    unseen: &OnceCell<BTreeMap<ThreadId, Unseen>>,
) -> Option<Finding> {
    let view = cx.view;
    let unseen = |t: &ThreadTime| {
        let all = unseen.get_or_init(|| Unseen::of(view));
        all.get(&t.id).copied().unwrap_or_default()
    };
    let work = |t: &ThreadTime| (t.busy() - unseen(t).sum()).max(0.0);
    let mut threads: Vec<_> = view.group_threads(group).filter(|t| !t.main).collect();
    threads.sort_by(|a, b| a.start.total_cmp(&b.start));
    let (mut saved, mut saved_max, mut stretch, mut cpu, mut last) = (0.0, 0.0, 0.0, 0.0, None);
    let (mut means, mut most_beyond, mut times) = (0.0, 0.0, 0);
    for batch in batches(&threads) {
        let length = batch.end - batch.start;
        let n = batch.threads.len() as f64;
        let Some(slowest) = batch.threads.iter().max_by(|a, b| a.end.total_cmp(&b.end)) else {
            continue;
        };
        let early = batch.threads.iter().map(|t| batch.end - t.end).sum::<f64>() / n;
        if n < 2.0 || early < 0.5 * cx.t.imbalance_ratio * length {
            continue;
        }
        let mean = batch.threads.iter().map(|t| work(t)).sum::<f64>() / n;
        // Uneven ends alone may be threads that had to wait: it must be the work that is uneven. Not the time either
        // that a hypervisor took, perhaps from this one thread.
        let taken = view.stolen() * (length / view.wall()).min(1.0);
        let beyond = (work(slowest) - mean - taken * (n - 1.0) / n).max(0.0);
        let uneven = beyond.min(early);
        // Those who wait for a lock more than for the end go on in the order in which they are given it, and trying
        // to take it is not their work.
        let locks = |t: &&ThreadTime| t.lock_wait + unseen(t).futex;
        let by_locks = batch.threads.iter().map(locks).sum::<f64>() / n > early;
        if uneven < 0.5 * cx.t.imbalance_ratio * length || by_locks {
            continue;
        }
        times += 1;
        means += mean;
        most_beyond += beyond;
        saved += uneven;
        saved_max += early;
        stretch += length;
        cpu += batch
            .threads
            .iter()
            .map(|t| (t.cpu - t.spin).max(0.0))
            .sum::<f64>();
        last = Some(slowest.id);
    }
    let n = threads.len();
    let (expected, sure) = match times {
        1 => (EXPECTED_ONCE, 0.0),
        _ => (1.0, SURE),
    };
    let saving = Saving {
        stretch,
        cpu,
        saved: expected * saved,
        saved_max,
        sure,
    };
    let thread = last?;
    if saved < cx.t.waited_ratio * view.wall() || most_beyond < differs_by_chance(means) {
        return None;
    }
    let name = view.group_name(group);
    let share = saved / stretch;
    let row = |f: fn(f64, f64) -> f64, start| view.group_threads(group).map(work).fold(start, f);
    let (least, most) = (row(f64::min, f64::INFINITY), row(f64::max, 0.0));
    Some(Finding {
        id: FindingId::Straggler,
        subject: Subject::Thread(thread),
        title: format!(
            "{name}: {} begin together, but the last one ends {} of the time after the mean",
            plural(n, "thread"),
            percent(share)
        ),
        evidence: vec![
            evidence(
                "early_ratio",
                saved_max / stretch,
                format!(
                    "threads are gone for {} of the time until the last one ends",
                    percent(saved_max / stretch)
                ),
            ),
            evidence(
                "busy_max_ns",
                most,
                format!(
                    "work of a thread: {} to {}",
                    duration(least),
                    duration(most)
                ),
            ),
        ],
        causes: vec![uneven_work(&name, true)],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "work of the slowest thread against the mean of those created with it",
            "the mean of the work",
        ),
        share_of_thread_time: share,
        caveats: Vec::new(),
    })
}

struct Batch<'a> {
    start: f64,
    end: f64,
    threads: Vec<&'a crate::facts::process_view::ThreadTime>,
}

/// Threads whose lives overlap, sorted by start: one batch ends before the next begins.
fn batches<'a>(sorted: &[&'a crate::facts::process_view::ThreadTime]) -> Vec<Batch<'a>> {
    let mut all: Vec<Batch> = Vec::new();
    for t in sorted {
        match all.last_mut() {
            Some(b) if t.start < b.end => {
                b.end = b.end.max(t.end);
                b.threads.push(t);
            }
            _ => all.push(Batch {
                start: t.start,
                end: t.end,
                threads: vec![t],
            }),
        }
    }
    // A pool whose threads come and go at will is no batch: those start together.
    all.retain(|b| {
        b.threads
            .iter()
            .all(|t| t.start - b.start <= 0.2 * (b.end - b.start))
    });
    all
}
