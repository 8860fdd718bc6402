//! The order in which causes explain one another. What is said first takes what it explains from what comes later: low
//! parallelism of a group, a place, a process is put down to one thing. What is not worth its fix explains nothing.

use std::collections::BTreeSet;

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{FindingId, FunctionKey, GroupId, ProcessId, SiteId};

use crate::detectors::blocking_calls;
use crate::detectors::blocking_io;
use crate::detectors::busy_waiting;
use crate::detectors::cache_contention;
use crate::detectors::contended_futex;
use crate::detectors::cpu_restriction;
use crate::detectors::file_lock;
use crate::detectors::gc_pressure;
use crate::detectors::go_processors;
use crate::detectors::goroutine_lock;
use crate::detectors::goroutine_pool;
use crate::detectors::goroutine_stage;
use crate::detectors::handoff;
use crate::detectors::holder_off_cpu;
use crate::detectors::holder_off_cpu::Found as Holder;
use crate::detectors::interpreter_lock;
use crate::detectors::limiting_stage;
use crate::detectors::load_imbalance;
use crate::detectors::lock_overhead;
use crate::detectors::memory_management;
use crate::detectors::pool_of_processes;
use crate::detectors::serial_code;
use crate::detectors::serial_jobs;
use crate::detectors::serial_requests;
use crate::detectors::short_processes;
use crate::detectors::sleep_polling;
use crate::detectors::small_calls;
use crate::detectors::small_io;
use crate::detectors::small_io::Functions;
use crate::detectors::task_granularity;
use crate::detectors::thread_count;
use crate::detectors::write_through::WriteThrough;
use crate::estimate::saving::{by_cpus, together};
use crate::facts::run_facts::site;
use crate::facts::run_facts::RunFacts;
use crate::scheduler::add_sleepers;
use crate::words::evidence;

/// Threads that spend so much of what they run in small writes have little else to share.
const MOSTLY: f64 = 0.7;

/// What is said so far, and what it explains.
struct Told<'a> {
    cx: &'a RunFacts<'a>,
    findings: Vec<Finding>,
    /// Low parallelism of these groups is explained otherwise: it is not serial code as well.
    explained: BTreeSet<GroupId>,
    /// Processes that hand out work to others, and those: they take turns because there is so much of that.
    pooled: BTreeSet<ProcessId>,
    /// Processes whose threads take turns on an interpreter's lock.
    interpreters: BTreeSet<ProcessId>,
    /// Processes whose goroutines fight for a lock.
    fought: BTreeSet<ProcessId>,
    /// Where the file is that is written under a lock of files.
    batched: BTreeSet<SiteId>,
    /// Calls that are made under a lock of goroutines.
    in_calls: BTreeSet<FunctionKey<'a>>,
}

/// Everything that could be said of a program of several workers, in no particular order.
pub(crate) fn all(cx: &RunFacts) -> Vec<Finding> {
    let mut told = Told {
        cx,
        findings: Vec::new(),
        explained: BTreeSet::new(),
        pooled: BTreeSet::new(),
        interpreters: BTreeSet::new(),
        fought: BTreeSet::new(),
        batched: BTreeSet::new(),
        in_calls: BTreeSet::new(),
    };
    let pools = told.pools();
    told.add(short_processes::findings(cx));
    told.interpreters();
    told.uneven();
    let holders = holder_off_cpu::findings(cx);
    told.futexes(&holders);
    told.file_locks();
    let written_through = told.goroutines();
    let limited = told.processors_of_go();
    told.turns();
    told.sleepers();
    told.code();
    let under_a_lock = told.holders(holders);
    told.files(&under_a_lock, written_through);
    told.loops();
    told.memory();
    told.tasks(pools);
    told.threads(limited);
    told.findings
}

impl<'a> Told<'a> {
    /// Says them; those worth their fix explain their groups.
    fn add(&mut self, found: impl IntoIterator<Item = (Vec<GroupId>, Finding)>) {
        for (groups, finding) in found {
            if self.cx.is_worth(&finding) {
                self.explained.extend(groups);
            }
            self.findings.push(finding);
        }
    }

    fn pools(&mut self) -> Vec<Finding> {
        let pools = pool_of_processes::findings(self.cx);
        let worth = pools.iter().filter(|(_, found)| self.cx.is_worth(found));
        self.pooled = worth.flat_map(|(ids, _)| ids.clone()).collect();
        pools.into_iter().map(|(_, finding)| finding).collect()
    }

    fn interpreters(&mut self) {
        let mut found = interpreter_lock::findings(self.cx);
        found.retain(|(_, finding)| !is_of_one_of(self.cx, &self.pooled, finding));
        let worth = found.iter().map(|(_, f)| f).filter(|f| self.cx.is_worth(f));
        self.interpreters = worth.filter_map(|f| self.cx.process(f)).collect();
        self.add(found);
    }

    /// That threads hand out work to other processes is no imbalance between them and those.
    fn uneven(&mut self) {
        let mut uneven = load_imbalance::findings(self.cx);
        uneven.retain(|(_, found)| match &found.subject {
            Subject::Processes(ids) => !ids.iter().any(|id| self.pooled.contains(id)),
            _ => !is_of_one_of(self.cx, &self.pooled, found),
        });
        // They explain as well if they are not worth it: how long a stage takes, and how even the work is, are facts.
        for (groups, finding) in uneven.into_iter().chain(limiting_stage::findings(self.cx)) {
            self.explained.extend(groups);
            self.findings.push(finding);
        }
    }

    fn futexes(&mut self, holders: &[Holder]) {
        let model = self.cx.view.model;
        let is_interpreters = |f: &Finding| {
            let its_wait = |at| interpreter_lock::is_its_wait(model, at);
            is_of_one_of(self.cx, &self.interpreters, f) && site(&f.subject).is_some_and(its_wait)
        };
        let mut found = contended_futex::findings(self.cx);
        found.retain(|(_, f)| !is_interpreters(f));
        for (groups, finding) in found {
            if self.cx.is_worth(&finding) {
                self.explained.extend(groups);
            }
            if !is_explained(&finding, holders) {
                self.findings.push(finding);
            }
        }
    }

    fn file_locks(&mut self) {
        let found = file_lock::findings(self.cx);
        let worth = found
            .iter()
            .filter(|found| self.cx.is_worth(&found.finding));
        self.batched = worth.flat_map(|found| found.syncs.clone()).collect();
        self.add(found.into_iter().map(|f| (f.groups, f.finding)));
    }

    /// Locks and pools of goroutines, and stages between them. What is written through, for later.
    fn goroutines(&mut self) -> Vec<(&'a WriteThrough, Finding)> {
        let cx = self.cx;
        let mut locks = goroutine_lock::findings(cx);
        let mut shared = goroutine_pool::findings(cx);
        // A lock that is kept during a call is told once.
        locks.retain(|(_, f)| {
            let of = self.cx.process(f);
            let held = |held: &goroutine_pool::Found| {
                Some(held.process) == of
                    && held.is_of_a_lock()
                    && held.finding.gain.mid > f.gain.mid
            };
            !shared.iter().any(held)
        });
        let written_through = cx.written_through.all();
        let written_through: Vec<(_, Finding)> = written_through
            .filter_map(|of| Some((of, of.finding(cx)?)))
            .collect();
        shared.retain(|held| {
            let fought = |(_, f): &(_, Finding)| self.cx.process(f) == Some(held.process);
            let told = written_through
                .iter()
                .any(|(_, of)| held.is_told(cx.view, of));
            !held.is_of_a_lock() || !told && !locks.iter().any(fought)
        });
        let calls = shared.iter().filter(|held| held.is_of_a_lock());
        let calls = calls.filter_map(|held| self.cx.function(held.call?));
        self.in_calls = calls.collect();
        let worth = locks.iter().map(|(_, f)| f).filter(|f| self.cx.is_worth(f));
        self.fought = worth.filter_map(|f| self.cx.process(f)).collect();
        self.add(locks);
        self.add(goroutine_stage::findings(cx));
        self.findings.extend(shared.into_iter().map(|f| f.finding));
        written_through
    }

    fn processors_of_go(&mut self) -> Vec<Finding> {
        let found = go_processors::findings(self.cx).into_iter();
        found
            .map(|(groups, finding)| {
                if go_processors::explains(&finding) {
                    self.explained.extend(groups);
                }
                finding
            })
            .collect()
    }

    /// Threads that take turns. Pieces that are a call each are said once: with what buys more.
    fn turns(&mut self) {
        let cx = self.cx;
        let mut turns = handoff::findings(cx, &self.explained);
        turns.retain(|(_, found)| {
            let are_idle = |id| goroutine_pool::are_idle(cx.view, id);
            let idle = cx.process(found).is_some_and(are_idle);
            !is_of_one_of(cx, &self.pooled, found) && !idle
        });
        let mut messages = small_io::messages::findings(cx);
        let same =
            |of: &BTreeSet<GroupId>, turns: &[GroupId]| turns.iter().all(|id| of.contains(id));
        messages.retain(|(of, found)| {
            let mut better = turns.iter().filter(|(_, f)| f.gain.mid > found.gain.mid);
            !better.any(|(groups, _)| same(of, groups))
        });
        turns.retain(|(groups, _)| !messages.iter().any(|(of, _)| same(of, groups)));
        let messages = messages.into_iter();
        self.add(messages.map(|(groups, found)| (groups.into_iter().collect(), found)));
        self.add(turns);
    }

    /// Threads that sleep, or wait for an answer. Who sleeps in its work looks for none there.
    fn sleepers(&mut self) {
        let blocked = blocking_calls::finding(self.cx);
        let in_work = |sleeps: &Finding| blocked.iter().any(|(_, f)| f.subject == sleeps.subject);
        let sleeps = sleep_polling::finding(self.cx).filter(|(_, sleeps)| !in_work(sleeps));
        self.add(blocked);
        self.add(sleeps);
        self.add(serial_requests::findings(self.cx));
    }

    /// Code that runs alone, as far as nothing above explains it.
    fn code(&mut self) {
        let locks = lock_overhead::findings(self.cx, &self.explained);
        self.findings.extend(locks);
        let alone = serial_code::findings(self.cx, &self.explained);
        self.findings.extend(alone);
    }

    /// Where they wait under their locks, and others for these.
    fn holders(&mut self, holders: Vec<Holder>) -> BTreeSet<SiteId> {
        let findings: Vec<Finding> = holders.into_iter().map(|found| found.finding).collect();
        let worth = findings.iter().filter(|f| self.cx.is_worth(f));
        let sites = worth.filter_map(|f| site(&f.subject)).collect();
        self.findings.extend(findings);
        sites
    }

    /// I/O under a lock is said once, of the lock; and what small writes wait for, of them.
    fn files(
        &mut self,
        under_a_lock: &BTreeSet<SiteId>,
        written_through: Vec<(&WriteThrough, Finding)>,
    ) {
        let cx = self.cx;
        let function = |f: &Finding| cx.function(site(&f.subject)?);
        let futexes = self
            .findings
            .iter()
            .filter(|f| f.id == FindingId::ContendedFutex);
        let small = small_io::findings(self.cx, &futexes.filter_map(function).collect());
        let worth = small.iter().filter(|(_, f)| self.cx.is_worth(f));
        let written: BTreeSet<_> = worth.flat_map(|(of, _)| &of.writes).collect();
        let in_call = |site| {
            self.cx
                .function(site)
                .is_some_and(|at| self.in_calls.contains(&at))
        };
        let under =
            |site| under_a_lock.contains(&site) || self.batched.contains(&site) || in_call(site);
        let through = written_through.into_iter();
        let through = through.filter(|(of, _)| !of.is_mostly_at(under));
        let mut found: Vec<Finding> = through.map(|(_, finding)| finding).collect();
        found.extend(blocking_io::findings(self.cx).into_iter().filter(|f| {
            let of_a_lock = site(&f.subject).is_some_and(under);
            !of_a_lock && function(f).is_none_or(|of| !written.contains(&of))
        }));
        self.findings
            .retain(|f| function(f).is_none_or(|at| !goes_with(&small, f, &at)));
        self.findings.extend(found);
        self.findings
            .extend(small.into_iter().map(|(_, finding)| finding));
    }

    /// What is spun for a lock, by goroutines, or for a monitor of Java's before they sleep for it, is part of what that costs.
    fn loops(&mut self) {
        let view = self.cx.view;
        let mut loops = busy_waiting::findings(self.cx);
        loops.retain(|found| match found.subject {
            Subject::Loop(id) => {
                !is_of_one_of(self.cx, &self.fought, found)
                    || !goroutine_lock::is_its_loop(view, id)
            }
            _ => true,
        });
        loops.retain(|spin| {
            if !busy_waiting::is_of_monitors(view, spin) {
                return true;
            }
            let one = self.findings.iter().position(|f| {
                f.gain.mid >= spin.gain.mid
                    && self.cx.is_worth(f)
                    && contended_futex::is_of_monitors(view, f)
                    && self.cx.process(f) == self.cx.process(spin)
            });
            if let Some(monitor) = one {
                self.findings[monitor].evidence.push(spun_before(spin));
            }
            one.is_none()
        });
        for finding in &mut self.findings {
            with_loops(self.cx, finding, &loops);
        }
        self.frequent(&mut loops);
        self.findings.extend(loops);
    }

    /// A lock that threads spin for is told once: what its functions take besides belongs to it.
    fn frequent(&mut self, loops: &mut [Finding]) {
        let cx = self.cx;
        self.findings.retain(|frequent| {
            let taker = site(&frequent.subject).and_then(|at| cx.function(at));
            let (Some(taker), FindingId::FrequentLock) = (taker, frequent.id) else {
                return true;
            };
            let spins = loops.iter_mut().find(|spin| {
                cx.is_worth(spin)
                    && spin.gain.mid >= frequent.gain.mid
                    && busy_waiting::is_for_the_lock_of(cx, spin, &taker)
            });
            if let Some(spin) = spins {
                let ratio = frequent.share_of_thread_time;
                let text = format!(
                    "acquiring and releasing it takes {} more of the CPU time",
                    percent(ratio)
                );
                spin.evidence.push(evidence("locking_ratio", ratio, text));
                return false;
            }
            true
        });
    }

    fn memory(&mut self) {
        self.findings.extend(memory_management::findings(self.cx));
        self.findings.extend(cache_contention::findings(self.cx));
        add_sleepers(self.cx, &mut self.findings);
    }

    /// What handing over work costs. The scheduler runs as well where goroutines wait for a lock.
    fn tasks(&mut self, pools: Vec<Finding>) {
        let mut hand_overs = task_granularity::findings(self.cx);
        hand_overs.retain(|f| !is_of_one_of(self.cx, &self.fought, f));
        self.findings.extend(hand_overs);
        self.findings.extend(pools);
        self.findings.extend(small_calls::findings(self.cx));
        self.findings.extend(gc_pressure::findings(self.cx));
    }

    /// How many threads, jobs and processors there are.
    fn threads(&mut self, limited: Vec<Finding>) {
        if !self
            .findings
            .iter()
            .any(|f| f.id == FindingId::TooFewThreads)
        {
            self.findings.extend(thread_count::finding(self.cx));
        }
        if !self.findings.iter().any(|f| self.cx.is_worth(f)) {
            self.findings.extend(serial_jobs::finding(self.cx));
        }
        self.findings.extend(limited);
        self.findings.extend(cpu_restriction::finding(self.cx));
    }
}

fn is_of_one_of(cx: &RunFacts, processes: &BTreeSet<ProcessId>, finding: &Finding) -> bool {
    cx.process(finding)
        .is_some_and(|id| processes.contains(&id))
}

/// Whether threads wait for a lock mostly because of what its holders wait for: then that is what is said.
fn is_explained(contended: &Finding, holders: &[Holder]) -> bool {
    const HALF: f64 = 0.5;
    let waited = contended.evidence.iter().find(|e| e.key == "wait_ns");
    let waited = waited.map_or(f64::INFINITY, |e| e.value);
    let at = site(&contended.subject);
    let same = |found: &&Holder| at.is_some_and(|at| found.waiters.contains(&at));
    let explained: f64 = holders
        .iter()
        .filter(same)
        .map(|found| found.waited_ns)
        .sum();
    explained >= HALF * waited
}

/// What small writes buy more of is the lock that they are made under, and the code that waits are for because it makes them.
fn goes_with(small: &[(Functions, Finding)], found: &Finding, at: &FunctionKey) -> bool {
    let mut better = small.iter().filter(|(_, f)| f.gain.mid >= found.gain.mid);
    match found.id {
        FindingId::ContendedFutex => better.any(|(of, _)| of.locks.contains(at)),
        FindingId::SerialCode => {
            better.any(|(of, f)| of.writes.contains(at) && f.share_of_thread_time >= MOSTLY)
        }
        _ => false,
    }
}

/// Processes that wait in loops for the one that has most work do so because of it: with even work, both go.
fn with_loops(cx: &RunFacts, imbalance: &mut Finding, loops: &[Finding]) {
    let processes = match &imbalance.subject {
        Subject::Processes(processes) if imbalance.id == FindingId::ThreadImbalance => {
            processes.clone()
        }
        _ => return,
    };
    let spins = |f: &&Finding| match f.subject {
        Subject::Loop(id) => {
            let of = cx.view.sched.loops.get(id.0 as usize);
            of.is_some_and(|of| processes.contains(&of.process))
        }
        _ => false,
    };
    for spin in loops.iter().filter(spins) {
        together(&mut imbalance.gain, &spin.gain, by_cpus(cx.view));
        imbalance.evidence.push(evidence(
            "spin_gain",
            spin.gain.mid,
            format!("meanwhile, {}", spin.title),
        ));
    }
}

/// What threads spun for a lock before they slept for it.
fn spun_before(spin: &Finding) -> Evidence {
    let ns = spin.evidence.iter().find(|e| e.key == "spinning_ns");
    let (ns, share) = (ns.map_or(0.0, |e| e.value), spin.share_of_thread_time);
    evidence(
        "spinning_ns",
        ns,
        format!(
            "before they sleep they spin for it, {} of the CPU time",
            percent(share)
        ),
    )
}
