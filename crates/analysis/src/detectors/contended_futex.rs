//! Locks of programs without the agent: futex waits among threads of one group that the same functions end.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{
    passes_on, FindingId, GroupId, ObjectId, OffCpu, OffReason, Process, ProcessId, SchedThread,
    SiteFrame, SiteId, ThreadId,
};
use convoy_profile::ObjectKind;

use crate::estimate::saving::{Saving, NO_WORK, SWITCH_NS};
use crate::facts::call_path::PathId;
use crate::facts::concurrency::freed;
use crate::facts::lock_cost::LockCode;
use crate::facts::lock_recognition::{
    is_for_a_monitor, is_queued, sign_of_a_lock, LockPlaces, Sign,
};
use crate::facts::lock_waits::Excluded;
use crate::facts::musl_lock;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::{is_file_io, RunView};
use crate::facts::switch_cost::Switching;
use crate::knowledge::database_locks::{servers_lock, ServersLock};
use crate::knowledge::library_calls::LibraryCalls;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Share of the wait with a known waker that threads of the group must have ended, in the same function.
const OWN: f64 = 0.6;
/// Share of the wait whose waker is known.
const KNOWN: f64 = 0.5;
/// A lock can be split or its section made shorter; nobody knows how far. Only where threads work for no longer than
/// switches cost before they wait again, those are what takes the time, and go once nobody has to sleep.
const EXPECTED: f64 = 0.5;
const SURE: f64 = 0.2;
/// Part of a thread's waits and delays that goes at least, also where nothing tells that the lock itself costs.
const WAITS: f64 = 0.7;
/// Time in the kernel per wait from which some calls that want to wait come back at once, and from which most do. A wait
/// takes less than 20 us.
const HOT_NS: (f64, f64) = (15_000.0, 45_000.0);
const METHOD: &str = "waits for it while few threads worked, gone";

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// `None`: of all that share the lock.
    process: Option<ProcessId>,
    /// `None`: of all that enter the monitor.
    group: Option<GroupId>,
    place: PathId,
}

#[derive(Default)]
struct Case<'a> {
    waits: Excluded,
    code: LockCode<'a>,
    addresses: BTreeSet<u64>,
    known: f64,
    own: f64,
    /// Of `own`, in functions that are a lock's.
    named: f64,
    /// Of `own`, for conditions, where nothing says that they are a lock's but the function that waits and wakes.
    conditions: f64,
    /// Of `own`, ended where a database lets its locks go.
    of_server: BTreeMap<ServersLock, f64>,
    /// Waited while the one who had it, and handed it on, was itself in a file or a disk.
    in_files: f64,
    wakers: BTreeMap<SiteId, f64>,
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut cases: BTreeMap<Key, Case> = BTreeMap::new();
    let is_case = |off: &OffCpu| {
        let futex = off.reason == OffReason::Futex && may_be_a_lock(view, off.object);
        let waits = futex || servers_lock(view.model, off.site).is_some();
        // A collector's threads wait for something to do.
        waits && tells(view, off.site) && !view.roles.is_service(view.role(off.thread))
    };
    let mut places = LockPlaces::of(view, is_case);
    let kin = Kin::of(view);
    // Processes of one program that end one another's waits there have one lock, in memory that they share.
    let mut shared: BTreeSet<(GroupId, PathId)> = BTreeSet::new();
    for (_, off, waker, _) in view.sched.ended_by_threads() {
        let group = kin.of_thread(view, off.thread);
        let other = view.process(waker) != view.process(off.thread);
        if other && is_case(off) && kin.of_thread(view, waker) == group {
            shared.insert((group, places.of_site(off.site)));
        }
    }
    let key = |places: &mut LockPlaces, off: &OffCpu| {
        let (group, place) = (kin.of_thread(view, off.thread), places.of_site(off.site));
        match shared.contains(&(group, place)) {
            true => Key {
                process: None,
                group: Some(group),
                place,
            },
            false => Key {
                process: Some(view.process(off.thread)),
                group: (!is_for_a_monitor(view, off.site)).then(|| view.role(off.thread)),
                place,
            },
        }
    };
    for off in view.sched.offs.iter().filter(|off| is_case(off)) {
        let case = cases.entry(key(&mut places, off)).or_default();
        case.waits.add(view, off);
        case.addresses.insert(off.address);
    }
    for (wake, off, waker, site) in view.sched.ended_by_threads() {
        let Some(case) = cases
            .get_mut(&key(&mut places, off))
            .filter(|_| is_case(off))
        else {
            continue;
        };
        case.known += wake.wait_ns as f64;
        let held = cx.passed_on.holders_waits(view, wake).into_iter();
        let in_files = held.filter(|&(id, ..)| {
            let off = view.sched.off(id);
            off.is_some_and(|off| is_file_io(off.reason))
        });
        case.in_files += in_files.map(|(_, ns, _)| ns).sum::<f64>();
        let of_one_kind = is_for_a_monitor(view, off.site)
            || kin.of_thread(view, waker) == kin.of_thread(view, off.thread);
        let sign = || sign_of_a_lock(view, off.site, site);
        if let Some(sign) = (of_one_kind && waker != off.thread).then(sign).flatten() {
            case.own += wake.wait_ns as f64;
            match sign {
                Sign::Library => {
                    case.named += wake.wait_ns as f64;
                    if let Some(lock) = servers_lock(view.model, off.site) {
                        *case.of_server.entry(lock).or_default() += wake.wait_ns as f64;
                    }
                    case.code.add(view, off.site);
                    case.code.add(view, site);
                }
                // Whoever queues for a lock of Java's library parks at what is its own.
                Sign::Condition if is_queued(view, off.site) => {}
                Sign::Condition => case.conditions += wake.wait_ns as f64,
                Sign::Names | Sign::Function => {}
            }
            if let Some(site) = site {
                *case.wakers.entry(site).or_default() += wake.wait_ns as f64;
            }
        }
    }
    cases
        .into_iter()
        .filter_map(|(key, case)| Some((case.waits.roles(view), case.finding(cx, &key)?)))
        .collect()
}

/// Groups of threads by what they do, in whichever process of a program.
struct Kin {
    /// The first group of this kind.
    first: BTreeMap<GroupId, GroupId>,
}

impl Kin {
    fn of(view: &RunView) -> Self {
        let mut known = BTreeMap::new();
        let mut first = BTreeMap::new();
        for (ix, group) in (0u32..).zip(&view.model.groups) {
            let process = view.process_at(group.process);
            let names = (group.name.as_str(), group.name_pattern.as_str());
            let kind = (process.map(Process::program), names);
            first.insert(GroupId(ix), *known.entry(kind).or_insert(GroupId(ix)));
        }
        Self { first }
    }

    fn of_thread(&self, view: &RunView, id: ThreadId) -> GroupId {
        let role = view.role(id);
        self.first.get(&role).copied().unwrap_or(role)
    }
}

/// Locks that the agent knows are `detect`'s. A lock made of a condition variable or of a bare futex it cannot tell.
fn may_be_a_lock(view: &RunView, object: Option<ObjectId>) -> bool {
    let object = object.and_then(|id| view.model.objects.get(id.0 as usize));
    object.is_none_or(|o| {
        let bare = o.kind == ObjectKind::Futex && o.futex_of.is_none();
        bare || matches!(o.kind, ObjectKind::Unknown | ObjectKind::Cond)
    })
}

/// Whether a finding is of monitors of Java's.
pub(crate) fn is_of_monitors(view: &RunView, found: &Finding) -> bool {
    let Subject::Code(site) = found.subject else {
        return false;
    };
    found.id == FindingId::ContendedFutex && is_for_a_monitor(view, Some(site))
}

/// Whether the shown frame is the program's own: a runtime that parks its threads waits for work, not for locks.
fn tells(view: &RunView, site: Option<SiteId>) -> bool {
    let frame = site.and_then(|site| view.shown(site));
    frame.is_some_and(|frame| !passes_on(frame) || musl_lock::waits(frame))
}

/// Whether a thread enters a monitor of Java's there.
fn is_entered(view: &RunView, site: SiteId) -> bool {
    let enters =
        |name: &str| name.contains("ObjectMonitor::enter") || name.contains("Synchronizer::enter");
    let in_the_machine = |frame: &SiteFrame| frame.module.starts_with("libjvm.so");
    let shown = view.shown(site);
    shown.is_some_and(|frame| !in_the_machine(frame))
        && view
            .model
            .site(site)
            .is_some_and(|site| site.has_function(enters))
}

/// Where the lock is, and what to do there: of a monitor of Java's whose taker is not known, where it is let go.
fn place(view: &RunView, site: SiteId, released: Option<SiteId>) -> (String, String) {
    let in_the_machine = |id: SiteId| {
        let shown = view.shown(id);
        shown.is_none_or(|frame| frame.module.starts_with("libjvm.so"))
    };
    match released.filter(|at| in_the_machine(site) && !in_the_machine(*at)) {
        Some(at) => {
            let monitor = format!(
                "a monitor (synchronized) that {} leaves",
                view.place(Some(at))
            );
            let fix = format!("less work under {monitor}, or one per part of the data");
            (monitor, fix)
        }
        None if is_entered(view, site) => {
            let place = view.place(Some(site));
            let monitor = format!("a monitor (synchronized) that {place} enters");
            let fix = format!("less work under {monitor}, or one per part of the data");
            (monitor, fix)
        }
        None => {
            let place = view.place(Some(site));
            let fix =
                format!("less work under the lock at {place}, or one lock per part of the data");
            (place, fix)
        }
    }
}

impl Case<'_> {
    /// Who waits for one another.
    fn who(&self, view: &RunView, key: &Key) -> String {
        let threads = plural(self.waits.threads.len(), "thread");
        if key.process.is_some() {
            let roles = self.waits.roles(view);
            return match key
                .group
                .or(roles.first().copied().filter(|_| roles.len() == 1))
            {
                Some(group) => format!("{threads} of {}", view.group_name(group)),
                None => {
                    let names: Vec<String> = roles.iter().map(|&id| view.group_name(id)).collect();
                    format!("{threads} of {}", names.join(" and "))
                }
            };
        }
        let processes = self.waits.processes(view);
        let name = processes.first().and_then(|id| view.process_at(*id));
        let name = name.map_or("the program", |process| process.name.as_str());
        format!("{threads} of {} processes of {name}", processes.len())
    }

    fn saving(&self, view: &RunView) -> Saving {
        let waits = &self.waits;
        let rows = || waits.threads.iter().filter_map(|id| view.threads.get(id));
        let sum = |of: fn(&SchedThread) -> u64| rows().map(|th| of(th) as f64).sum::<f64>();
        let (n, threads) = (waits.n as f64, waits.threads.len() as f64);
        let running = sum(|th| th.running_ns);
        let delayed = sum(|th| th.delayed_ns) * (n / sum(|th| th.slices).max(1.0)).min(1.0);
        let switching = Switching::of(view, &waits.threads, n);
        // Each thread has its waits less, the delays of getting back, and the switches. One that was handed the lock
        // and has no processor yet keeps the others waiting. Nobody gets faster by what a disk takes.
        let waited = (waits.sum - self.in_files).max(0.0);
        // With less to run, they also wait less for a processor that was taken from them.
        let preempted = sum(|th| th.preempted_ns) / running.max(1.0);
        let each = |cpu: f64| {
            let time = waited + delayed + cpu * (1.0 + preempted);
            (time / threads).min(view.wall)
        };
        // Half of what they run, or more, may be switches.
        if running < 2.0 * n * SWITCH_NS.1 {
            let cpu = (n * SWITCH_NS.0, n * SWITCH_NS.1);
            return Saving {
                expected: each(cpu.0),
                most: each(cpu.1),
                sure: SURE,
                cpu,
            };
        }
        let freed = freed(&waits.meanwhile, &view.sched.working, view.useful);
        let perhaps =
            (freed * view.perhaps_low()).min(view.wall * (1.0 - 1.0 / view.useful.max(1.0)));
        // A word that changes before the kernel can look at it is fetched from processor to processor at every step
        // of the program, too: nobody knows what is left without that.
        let each_ns = switching.in_kernel.unwrap_or(0.0) / n.max(1.0);
        let hot = ((each_ns - HOT_NS.0) / (HOT_NS.1 - HOT_NS.0)).clamp(0.0, 1.0);
        let no_work = (NO_WORK * running - switching.most).max(0.0);
        let most_cpu = switching.most + hot * no_work;
        // What is only concluded to be a lock may hand over work: then delays are nobody's fault.
        let certain = self.named >= OWN * self.known;
        let expected = EXPECTED
            * if certain {
                freed.max(each(switching.expected))
            } else {
                freed
            };
        let code = self.code.shares(view, &waits.threads);
        let in_lock = code.expected * running;
        let gone = match code.expected > 0.0 {
            true => each(in_lock),
            false => WAITS * each(0.0),
        };
        let expected_cpu = switching.expected.max(in_lock);
        let most_cpu = most_cpu.max(code.with_section.min(NO_WORK) * running);
        Saving {
            expected: expected.max(gone.min(view.wall)),
            most: each(most_cpu).max(perhaps).max(freed),
            sure: SURE,
            cpu: (expected_cpu, most_cpu),
        }
    }

    fn caveats(&self, view: &RunView, site: SiteId, server: Option<ServersLock>) -> Vec<String> {
        if let Some(lock) = server {
            return vec![lock.caveat()];
        }
        let process = view.model.site(site).map(|site| site.process);
        let process = process.and_then(|id| view.process_at(id));
        let mut caveats = vec![match process {
            Some(process) if !process.without_agent => {
                "that it is a lock is inferred from who wakes whom where: the agent does not know this kind of lock".into()
            }
            _ => "that it is a lock is inferred from who wakes whom where; with the agent (convoy -- COMMAND) its \
                  acquisitions, holds and causes are known"
                .into(),
        }];
        if view
            .shown(site)
            .is_some_and(SiteFrame::is_unnamed_generated)
        {
            caveats.push(
                "the virtual machine left no names of the code that it made: java -XX:+UnlockDiagnosticVMOptions \
                 -XX:+DumpPerfMapAtExit and node --perf-basic-prof write them"
                    .into(),
            );
        }
        caveats
    }

    /// Whether each thread has a condition of its own, at which another one tells it that its turn has come: they follow one
    /// another, and where all have one condition, it is a lock that they made of it. (One has up to two words.)
    fn are_turns(&self) -> bool {
        self.conditions >= OWN * self.own && self.addresses.len() > self.waits.threads.len()
    }

    fn finding(&self, cx: &RunFacts, key: &Key) -> Option<Finding> {
        let view = cx.view;
        if !self.waits.is_a_convoy()
            || self.known < KNOWN * self.waits.sum
            || self.own < OWN * self.known
            || self.are_turns()
        {
            return None;
        }
        let saving = self.saving(view);
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let mut sites = self.waits.sites.clone();
        // Where the program enters a monitor tells more than where the virtual machine does.
        if sites.keys().any(|&site| is_entered(view, site)) {
            sites.retain(|&site, _| is_entered(view, site));
        }
        let site = most(sites)?;
        let released = most(self.wakers.clone());
        let most_own = |(_, ns): &(&ServersLock, &f64)| **ns >= OWN * self.own;
        let server = self.of_server.iter().find(most_own).map(|(lock, _)| *lock);
        let (place, fix) = server
            .map(ServersLock::said)
            .or_else(|| musl_lock::place(view, site))
            .unwrap_or_else(|| place(view, site, released));
        let mut gain = saving.gain(view, METHOD, "the section itself");
        let musl = musl_lock::place(view, site).is_some();
        if musl {
            // Calls that want to wait and come back at once are no waits, and what they burn is not seen.
            gain.high = f64::INFINITY;
        }
        let share = self.waits.share(view);
        let library = LibraryCalls::of(view.model, &self.waits.sites);
        let own = self.own / self.known.max(1.0);
        let mut list = self.waits.evidence();
        list.push(evidence(
            "own_wakes_ratio",
            own,
            format!(
                "{} of it was ended by threads {}, at {}",
                percent(own),
                if key.group.is_some() {
                    "of the same kind"
                } else {
                    "that left it"
                },
                view.place(released)
            ),
        ));
        if server.is_none() {
            let words = self.addresses.len();
            let text = match words {
                1 => "all on one futex word".into(),
                _ => format!("on {words} futex words"),
            };
            list.push(evidence("futexes", words as f64, text));
        }
        Some(Finding {
            id: FindingId::ContendedFutex,
            subject: Subject::Code(site),
            title: format!(
                "{} wait for one another {}{place}, {} of their time",
                self.who(view, key),
                match &library {
                    Some(calls) => format!("in {} of the C library, called at ", calls.names()),
                    None if server.is_some() => "to have ".into(),
                    None => "at ".into(),
                },
                percent(share)
            ),
            evidence: list,
            causes: vec![cause(
                "contended-futex",
                match key.group {
                    Some(_) => "threads of one kind exclude one another",
                    None => "threads exclude one another",
                },
                library.as_ref().map_or(fix, |calls| calls.fix(&place)),
            )],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: match musl {
                true => Vec::new(),
                false => self.caveats(view, site, server),
            },
        })
    }
}
