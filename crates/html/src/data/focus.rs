//! The part of the timeline that a finding is about: the code, thread or lock that keeps others
//! waiting, and the waits for it.

use std::collections::HashSet;

use convoy_model::finding::{Finding, Subject};
use convoy_model::{GroupId, Model, OffReason, Sched, Site, SiteId, ThreadId, Waker};
use convoy_report::{names, sched_names, subject, Report};

/// Waits at a place over all time of threads there, from which the place is one to wait at.
const MIN_WAIT_SHARE: f64 = 0.05;
/// Causes of findings about code that works too much, not about code where threads wait.
const CAUSES_IN_RUNNING_CODE: [&str; 7] = [
    "serial-code",
    "serial-phase",
    "write-per-item",
    "fine-grained-tasks",
    "shared-atomic",
    "page-faults",
    "garbage-collection",
];
/// Share of the waits that threads of the waiter's own group end: from here on it is a lock.
const MIN_PEER_SHARE: f64 = 0.5;
/// A stage that is so much busier than the next one keeps the others waiting.
const MIN_BUSY_FACTOR: f64 = 1.5;

/// What is marked in the timeline. Numbers are those of rows of [`Sched`].
#[derive(Debug, Default)]
pub(crate) struct Focus {
    /// What keeps others waiting, for the legend; empty = not known.
    pub(crate) culprit: String,
    /// The same in a word.
    pub(crate) verb: &'static str,
    /// Waits for it; empty = not known.
    pub(crate) blocked: String,
    culprit_slices: HashSet<u32>,
    culprit_offs: HashSet<u32>,
    culprit_threads: HashSet<ThreadId>,
    blocked_slices: HashSet<u32>,
    blocked_offs: HashSet<u32>,
    /// Waits for a lock: whoever ends one has held it.
    pub(crate) has_holders: bool,
    /// Waits of others count as waits for the culprit while it runs.
    pub(crate) is_meanwhile: bool,
    /// Threads whose waits count so; empty: all.
    waiters: HashSet<ThreadId>,
    /// Only waits that other threads could have shortened count so.
    is_shortenable_only: bool,
}

impl Focus {
    pub(crate) fn of(report: &Report<'_>, finding: &Finding) -> Self {
        let Some(sched) = &report.model.sched else {
            return Self::default();
        };
        let mut focus = Self::of_subject(report, sched, finding);
        if focus.waiters.is_empty() {
            // A background thread of a server waits for the whole run, whoever runs.
            let rows = report
                .critical
                .map_or(&[][..], |critical| &critical.threads);
            focus.waiters = rows
                .iter()
                .filter(|row| row.worker)
                .map(|row| row.thread)
                .collect();
            focus.is_shortenable_only = true;
        }
        focus
    }

    fn of_subject(report: &Report<'_>, sched: &Sched, finding: &Finding) -> Self {
        let ids = subject::ids(&finding.subject);
        match &finding.subject {
            Subject::Object(_) | Subject::Objects(_) | Subject::Site(..) => {
                of_objects(report, sched, &ids)
            }
            Subject::Code(site) => {
                let causes = finding.causes.iter();
                let mut ids = causes.map(|cause| cause.id);
                let runs = ids.any(|id| CAUSES_IN_RUNNING_CODE.contains(&id));
                of_code(report.model, sched, *site, runs)
            }
            Subject::File(..) => of_file(report.model, sched, &ids),
            Subject::Loop(id) => {
                let place = subject::spin_loop(report.model, *id).map(sched_names::loop_place);
                Self {
                    blocked: format!("busy-waits at {}", place.unwrap_or_default()),
                    blocked_slices: slices(sched, |slice| slice.spin == Some(*id)),
                    ..Self::default()
                }
            }
            Subject::Thread(id) => of_threads(names::thread_of(report.model, *id), [*id]),
            Subject::Group(group) => of_group(report.model, *group, false),
            Subject::Groups(groups) => of_stages(report, groups),
            Subject::Processes(processes) if processes.len() > 1 => {
                of_processes(report.model, sched, processes)
            }
            Subject::Processes(_) | Subject::Run => Self::default(),
        }
    }

    /// The thread does what others wait for when it runs this row.
    pub(crate) fn is_culprit(&self, thread: ThreadId, slice: Option<u32>) -> bool {
        self.culprit_threads.contains(&thread)
            || slice.is_some_and(|row| self.culprit_slices.contains(&row))
    }

    pub(crate) fn is_culprits_wait(&self, off: Option<u32>) -> bool {
        off.is_some_and(|row| self.culprit_offs.contains(&row))
    }

    pub(crate) fn is_blocked(&self, off: Option<u32>) -> bool {
        off.is_some_and(|row| self.blocked_offs.contains(&row))
    }

    /// Whether a wait of this thread counts while the culprit runs. `is_shortenable`: other threads
    /// could have ended it sooner.
    pub(crate) fn is_waiter(&self, thread: ThreadId, is_shortenable: bool) -> bool {
        let is_one = self.waiters.is_empty() || self.waiters.contains(&thread);
        self.is_meanwhile
            && is_one
            && (is_shortenable || !self.is_shortenable_only)
            && !self.culprit_threads.contains(&thread)
    }

    pub(crate) fn is_busy_wait(&self, slice: Option<u32>) -> bool {
        slice.is_some_and(|row| self.blocked_slices.contains(&row))
    }
}

fn slices(sched: &Sched, is: impl Fn(&convoy_model::Slice) -> bool) -> HashSet<u32> {
    let rows = (0u32..).zip(&sched.slices);
    rows.filter(|(_, row)| is(row)).map(|(i, _)| i).collect()
}

fn offs(sched: &Sched, is: impl Fn(&convoy_model::OffCpu) -> bool) -> HashSet<u32> {
    let rows = (0u32..).zip(&sched.offs);
    let blocked = rows.filter(|(_, row)| row.reason != OffReason::Preempted);
    blocked.filter(|(_, row)| is(row)).map(|(i, _)| i).collect()
}

fn of_objects(report: &Report<'_>, sched: &Sched, ids: &subject::Ids) -> Focus {
    let name = match ids.objects.as_slice() {
        [one] => names::object_of(report.model, *one),
        _ => "these locks".into(),
    };
    let is_lock = subject::lock(report.analysis, ids).is_some();
    Focus {
        culprit: if is_lock {
            format!("holds {name} while others wait")
        } else {
            String::new()
        },
        verb: "holds",
        blocked: format!("waits for {name}"),
        blocked_offs: offs(sched, |off| {
            off.object.is_some_and(|id| ids.objects.contains(&id))
        }),
        has_holders: is_lock,
        ..Focus::default()
    }
}

/// Code is either where threads wait for one another, or what runs while others wait.
fn of_code(model: &Model, sched: &Sched, site: SiteId, runs: bool) -> Focus {
    let functions = sched_names::functions(model, Some(site));
    let here = sites(model, |id| {
        id == site || sched_names::functions(model, Some(id)) == functions
    });
    let through = sites(model, |id| passes_through(model, id, site));
    let is_in = |set: &HashSet<SiteId>, id: Option<SiteId>| id.is_some_and(|id| set.contains(&id));
    let blocked_offs = offs(sched, |off| is_in(&here, off.site));
    let culprit_slices = slices(sched, |row| is_in(&through, row.site));
    let sum = |rows: &HashSet<u32>, ns: &dyn Fn(usize) -> u64| -> f64 {
        rows.iter().map(|&row| ns(row as usize) as f64).sum()
    };
    let waited = sum(&blocked_offs, &|row| sched.offs[row].sum_ns);
    let ran = sum(&culprit_slices, &|row| sched.slices[row].running_ns);
    let place = names::site_of(model, site);
    let is_lock = !runs
        && waited >= MIN_WAIT_SHARE * (waited + ran)
        && peers_share(model, sched, &blocked_offs) >= MIN_PEER_SHARE;
    if is_lock {
        return Focus {
            culprit: "is there while others wait".into(),
            verb: "in it",
            blocked: format!("waits at {place}"),
            blocked_offs,
            has_holders: true,
            ..Focus::default()
        };
    }
    if !runs && waited > ran {
        return Focus {
            blocked: format!("waits at {place}"),
            blocked_offs,
            ..Focus::default()
        };
    }
    Focus {
        culprit: format!("runs {place}"),
        verb: "runs it",
        blocked: "waits meanwhile".into(),
        culprit_slices,
        is_meanwhile: true,
        ..Focus::default()
    }
}

/// Rows name few sites, but each of them often.
fn sites(model: &Model, is: impl Fn(SiteId) -> bool) -> HashSet<SiteId> {
    let all = (0..model.sites.len() as u32).map(SiteId);
    all.filter(|id| is(*id)).collect()
}

/// Whether a call stack goes through the function that tells most of another one.
fn passes_through(model: &Model, id: SiteId, site: SiteId) -> bool {
    if id == site {
        return true;
    }
    let key = model
        .site(site)
        .and_then(Site::shown_frame)
        .map(|f| f.key());
    let frames = model.site(id).map_or(&[][..], |stack| &stack.frames);
    key.is_some_and(|key| frames.iter().any(|frame| frame.key() == key))
}

/// Share of the time of these waits that ended by a thread of the waiter's own group.
fn peers_share(model: &Model, sched: &Sched, waits: &HashSet<u32>) -> f64 {
    let group = |id: ThreadId| model.threads.get(id.0 as usize).map(|t| t.group);
    let (mut all, mut peers) = (0.0, 0.0);
    for wake in sched
        .wakes
        .iter()
        .filter(|wake| waits.contains(&wake.off.0))
    {
        let Some(off) = sched.off(wake.off) else {
            continue;
        };
        let ns = wake.wait_ns as f64;
        all += ns;
        if let Waker::Thread(id, _) = wake.waker {
            if group(id) == group(off.thread) {
                peers += ns;
            }
        }
    }
    if all > 0.0 {
        peers / all
    } else {
        0.0
    }
}

fn of_file(model: &Model, sched: &Sched, ids: &subject::Ids) -> Focus {
    let name = ids.names.first().map(|id| sched_names::file_of(model, *id));
    Focus {
        culprit: format!("waits for {}", name.unwrap_or_else(|| "the file".into())),
        verb: "I/O",
        blocked: "waits meanwhile".into(),
        culprit_offs: offs(sched, |off| {
            off.name.is_some_and(|id| ids.names.contains(&id))
        }),
        is_meanwhile: true,
        ..Focus::default()
    }
}

fn of_threads(name: String, threads: impl IntoIterator<Item = ThreadId>) -> Focus {
    Focus {
        culprit: format!("{name} runs"),
        verb: "runs",
        blocked: "waits meanwhile".into(),
        culprit_threads: threads.into_iter().collect(),
        is_meanwhile: true,
        ..Focus::default()
    }
}

fn of_group(model: &Model, id: GroupId, is_meanwhile: bool) -> Focus {
    let Some(group) = model.groups.get(id.0 as usize) else {
        return Focus::default();
    };
    let mut focus = of_threads(names::group(group), group.threads.iter().copied());
    focus.is_meanwhile = is_meanwhile;
    if !is_meanwhile {
        focus.blocked.clear();
    }
    focus
}

fn of_stages(report: &Report<'_>, groups: &[GroupId]) -> Focus {
    match limiting(report, groups) {
        Some(id) => of_group(report.model, id, true),
        None => of_peers(report.model, groups),
    }
}

/// Groups that wait for one another in turn.
fn of_peers(model: &Model, groups: &[GroupId]) -> Focus {
    let Some(sched) = &model.sched else {
        return Focus::default();
    };
    let is_theirs = |id: ThreadId| {
        let thread = model.threads.get(id.0 as usize);
        thread.is_some_and(|thread| groups.contains(&thread.group))
    };
    let is_handoff = |reason| {
        matches!(
            reason,
            OffReason::Futex | OffReason::Pipe | OffReason::Socket
        )
    };
    Focus {
        blocked: "waits for the other".into(),
        blocked_offs: offs(sched, |off| is_handoff(off.reason) && is_theirs(off.thread)),
        ..Focus::default()
    }
}

/// The stage that is busy while those before and after it wait for it; `None`: no stage is much
/// busier than the next one.
pub(crate) fn limiting(report: &Report<'_>, groups: &[GroupId]) -> Option<GroupId> {
    let mut rows: Vec<_> = groups
        .iter()
        .map(|id| (busy_share(report, *id), *id))
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, id) = *rows.first()?;
    let next = rows.get(1).map_or(0.0, |(busy, _)| *busy);
    (most > 0.0 && most >= MIN_BUSY_FACTOR * next).then_some(id)
}

/// Share of a group's time in which it worked or wanted a CPU. The scheduler's events tell it of any
/// program, the agent only of those that carry it.
fn busy_share(report: &Report<'_>, id: GroupId) -> f64 {
    let share = |active: u64, life: u64| active as f64 / life.max(1) as f64;
    let seen = report.critical.map_or(&[][..], |critical| &critical.groups);
    if let Some(row) = seen.iter().find(|row| row.group == id) {
        let working = row.running_ns.saturating_sub(row.spinning_ns);
        let wanting = row.delayed_ns.saturating_add(row.preempted_ns);
        return share(working.saturating_add(wanting), row.life_ns);
    }
    let of_agent = report.analysis.groups.iter().find(|row| row.group == id);
    of_agent.map_or(0.0, |row| {
        let wanting = row.run_delay_ns.unwrap_or(0);
        share(row.busy_ns.saturating_add(wanting), row.life_ns)
    })
}

/// Of processes that are one program, the one that works most keeps the others waiting.
fn of_processes(model: &Model, sched: &Sched, all: &[convoy_model::ProcessId]) -> Focus {
    let ran = |process: &convoy_model::ProcessId| -> u64 {
        let rows = sched.threads.iter();
        let own = rows.filter(|row| {
            let thread = model.threads.get(row.thread.0 as usize);
            thread.is_some_and(|thread| thread.process == *process)
        });
        own.map(|row| row.running_ns).sum()
    };
    let Some(busiest) = all.iter().max_by_key(|id| ran(id)) else {
        return Focus::default();
    };
    let threads = |id: &convoy_model::ProcessId| {
        let process = model.processes.get(id.0 as usize);
        process.map_or(Vec::new(), |process| process.threads.clone())
    };
    let name = sched_names::process_of(model, *busiest);
    let others = all.iter().filter(|id| *id != busiest);
    Focus {
        waiters: others.flat_map(threads).collect(),
        ..of_threads(name, threads(busiest))
    }
}
