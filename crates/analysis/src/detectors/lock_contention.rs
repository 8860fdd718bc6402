//! Locks: what waits for them, parking and cache line transfer cost, and what is left without.

mod stuck;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Cause, Finding, Gain, Subject};
use convoy_model::{FindingId, GroupId, ObjectId, OffReason, ThreadId};

use self::stuck::{leave_stuck, TOLD};
use crate::estimate::queueing::overhead::{
    local_acquire_ns, pair_ns, without_locks, NO_WORK, PARK_NS,
};
use crate::estimate::queueing::{predict, Change};
use crate::facts::operations::Role;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::{ProcessView, ThreadTime};
use crate::facts::wait_pairs::waits_for;
use crate::root_causes::{cause, Case};
use crate::tables::counters::{FamilyRow, LockRow, LockStats, SiteShare, WaitsFor};

/// Only so many locks and families are priced, those with most to lose: pricing costs time, and
/// nobody reads the hundredth.
const PRICED_MAX: usize = 48;
/// A lock that one thread alone takes is mentioned if it can cost this much: throughput ratio.
const PRIVATE_HIGH: f64 = 1.25;
/// Most of its users' CPU time that a contended lock can cost if its acquisitions are not seen: the lock's cache line and
/// those of the data go from core to core each time. A hash map under Rust's `Mutex` cost four threads on two CPUs
/// three quarters of their CPU time.
const UNSEEN_PRICE: f64 = 0.7;
/// A lock that is held for this share of the run has sections that are most of what there is to do.
const HELD_MOSTLY: f64 = 0.5;
/// Most of what its users run that can be what they do under it.
const IN_SECTIONS: f64 = 0.9;
/// Share of what its users run and sleep that they run, from which on what they do while they have it is work.
const AWAKE: f64 = 0.8;
/// So much more is worth to be told apart from what is to be had if the work is only done elsewhere.
const LESS_WORK: f64 = 1.1;
/// Wake-ups from which on threads hand over to one another, and do not only start or end one
/// another.
const HABIT: u64 = 10;
/// One wait with this share of all of them is an accident, or parks a thread.
const ONE_WAIT_SHARE: f64 = 0.8;
/// Of what is sure for other locks, the part that is for one whose sections are shorter than its hand-overs.
const SURE_OF_SHORT: f64 = 0.2;
/// One lock with this share of its family's waits is the culprit, not the family.
const ONE_LOCK_SHARE: f64 = 0.8;

/// Findings about locks, unranked.
pub(crate) fn findings(
    cx: &ProcessFacts,
    locks: &[LockRow],
    families: &[FamilyRow],
) -> Vec<Finding> {
    let baseline = local_acquire_ns(cx.view);
    let mut units = units(cx, locks, families);
    let waits: BTreeMap<ObjectId, f64> = locks
        .iter()
        .map(|r| (r.object, r.stats.wait_ns as f64))
        .collect();
    for u in &mut units {
        u.passed = u
            .locks
            .iter()
            .flat_map(|id| cx.chains.waiting_for(*id))
            .collect();
        u.passed
            .sort_by(|a, b| (b.1 * waits[&b.0]).total_cmp(&(a.1 * waits[&a.0])));
    }
    let passed = |u: &Unit| {
        u.passed
            .iter()
            .map(|(id, share)| waits[id] * share)
            .sum::<f64>()
    };
    let stake = |u: &Unit| {
        let price = u.acquire_price(cx, baseline).1.max(u.fought_for(cx));
        u.stats.wait_ns as f64 + passed(u) + price
    };
    let mut at_stake: Vec<(f64, Unit)> = units.into_iter().map(|u| (stake(&u), u)).collect();
    at_stake.retain(|(stake, u)| {
        let life = cx.users_life(&u.locks);
        u.stats.waited_ratio >= cx.t.waited_ratio
            || (life > 0.0 && *stake >= cx.t.waited_ratio * life)
    });
    at_stake.sort_by(|a, b| b.0.total_cmp(&a.0));
    at_stake.truncate(PRICED_MAX);
    let priced = at_stake.iter().map(|(_, u)| u.finding(cx, baseline));
    priced.collect()
}

/// A lock, or locks that are judged together.
struct Unit<'a> {
    locks: Vec<ObjectId>,
    stats: &'a LockStats,
    sites: Vec<SiteShare>,
    waits_for: Vec<WaitsFor>,
    family: Option<&'a FamilyRow>,
    /// Locks whose waiters really wait for this one: their holders do. With the share of their waits.
    passed: Vec<(ObjectId, f64)>,
}

fn units<'a>(cx: &ProcessFacts, locks: &'a [LockRow], families: &'a [FamilyRow]) -> Vec<Unit<'a>> {
    let whole_family = |f: &FamilyRow, top: &LockRow| {
        f.asymmetric
            || (top.stats.wait_ns as f64) < ONE_LOCK_SHARE * f.stats.wait_ns as f64
            || f.stats.wait_ns == 0
    };
    let mut by_family: Vec<Option<&LockRow>> = vec![None; families.len()];
    let mut units = Vec::new();
    for row in locks {
        let single = |family| Unit {
            locks: vec![row.object],
            stats: &row.stats,
            sites: row.sites.clone(),
            waits_for: row.waits_for.clone(),
            family,
            passed: Vec::new(),
        };
        match row.family.and_then(|i| families.get(i).map(|f| (i, f))) {
            None => units.push(single(None)),
            Some((i, f)) if by_family[i].is_none() => {
                // Rows are sorted: the first of a family is waited for most.
                by_family[i] = Some(row);
                if whole_family(f, row) {
                    units.push(Unit {
                        locks: f.locks.clone(),
                        stats: &f.stats,
                        sites: vec![SiteShare {
                            site: f.site,
                            acquisitions: f.stats.acquisitions,
                            contended: f.stats.contended,
                            wait_ns: f.stats.wait_ns,
                        }],
                        waits_for: waits_for(
                            f.locks
                                .iter()
                                .take(1000)
                                .flat_map(|id| cx.pairs.get(*id))
                                .copied(),
                        ),
                        family: Some(f),
                        passed: Vec::new(),
                    });
                } else {
                    units.push(single(None));
                }
            }
            Some(_) => {}
        }
    }
    units
}

impl Unit<'_> {
    /// CPU time of all its acquisitions that a cheaper or no lock would save, nanoseconds: the
    /// excess over a local lock, and that together with the pair of operations itself.
    fn acquire_price(&self, cx: &ProcessFacts, baseline: f64) -> (f64, f64) {
        let calls = self.stats.taken() as f64;
        let excess = self
            .stats
            .acquire_ns
            .map_or(0.0, |ns| (ns - baseline).clamp(0.0, 400.0));
        let pair = pair_ns(cx.view);
        (calls * excess, calls * (excess + pair))
    }

    /// What its users run in its functions, nanoseconds, if that is much of what they run and its acquisitions are not seen: threads that
    /// try again for a moment before they sleep hardly ever do.
    fn fought_for(&self, cx: &ProcessFacts) -> f64 {
        if self.stats.contention_ratio.is_some() {
            return 0.0;
        }
        let users = cx.users(&self.locks).into_iter();
        let ran = users.map(|i| cx.view.threads[i].cpu).sum::<f64>();
        self.locking(cx).map_or(0.0, |share| share * ran)
    }

    fn contended(&self, cx: &ProcessFacts) -> bool {
        let t = cx.t;
        self.stats.waited_ratio >= t.waited_ratio
            || self.fought_for(cx) > 0.0
            || (self.stats.contended >= t.asymmetry_min_waits
                && self
                    .stats
                    .contention_ratio
                    .is_some_and(|r| r > t.contention_ratio))
    }

    fn finding(&self, cx: &ProcessFacts, baseline: f64) -> Finding {
        let asymmetric = self.family.is_some_and(|f| f.asymmetric);
        let case = self.case(cx);
        let (id, mut change, (causes, undecided)) = if asymmetric {
            (
                FindingId::AsymmetricContention,
                self.spread_evenly(cx, baseline),
                self.uneven(),
            )
        } else if self.contended(cx) {
            (
                FindingId::ContendedLock,
                self.without_waits(cx, baseline),
                case.contended(),
            )
        } else {
            (
                FindingId::FrequentLock,
                self.without_price(cx, baseline),
                case.frequent(),
            )
        };
        let guessed = self.locks.iter().any(|id| cx.view.locks.guessed(*id));
        if guessed {
            change.sure = 0.0;
        } else if id == FindingId::ContendedLock && self.is_shorter_than_a_hand_over() {
            change.sure *= SURE_OF_SHORT;
        }
        let all = (id == FindingId::ContendedLock).then(|| change.clone());
        let less = all
            .as_ref()
            .and_then(|all| self.without_sections(cx, &case, all));
        let stuck = self
            .stuck(cx)
            .filter(|share| all.is_some() && *share >= TOLD);
        if let Some(stuck) = stuck {
            leave_stuck(&mut change, stuck);
        }
        let mut gain = predict(cx.view, cx.stations, cx.links, &change);
        if let Some(all) = all.filter(|_| stuck.is_some()) {
            let all = predict(cx.view, cx.stations, cx.links, &all);
            gain.high = gain.high.max(all.high);
        }
        if let Some(price) = self
            .unseen_price(cx, &case)
            .filter(|_| id == FindingId::ContendedLock)
        {
            let price = predict(cx.view, cx.stations, cx.links, &price);
            gain.high = gain.high.max(price.high);
        }
        if let Some(less) = less {
            let less = predict(cx.view, cx.stations, cx.links, &less);
            if less.high > LESS_WORK * gain.high {
                gain.high = less.high;
                gain.limited_by += "; more if what is done under the lock is not only done elsewhere, but gets less";
            }
        }
        if !self.passed.is_empty() {
            // What waiters hold while they wait is told from stacks and sampled holds.
            gain.high = 1.0 + 1.5 * (gain.high - 1.0);
        }
        if self.parks() {
            // That the next run has such a wait, too, and that it is in anybody's way, it does not prove.
            let why = "one single wait: it may be a thread that is kept from running on purpose";
            gain = unproven(gain, why);
        }
        if id == FindingId::FrequentLock && self.private(cx) && gain.high < PRIVATE_HIGH {
            // The price is real, but such locks are mostly there on purpose: one per thread or shard.
            gain = unproven(gain, "nobody else takes it: it may be there on purpose");
        }
        Finding {
            id,
            subject: match self.locks.as_slice() {
                [one] => Subject::Object(*one),
                many => Subject::Objects(many.to_vec()),
            },
            title: self.title(cx, id),
            evidence: self.evidence(cx, baseline),
            causes,
            undecided,
            share_of_thread_time: self.stats.waited_ratio,
            caveats: self.caveats(cx, &gain, id),
            gain,
        }
    }

    /// Among several waits one lasted longer than all others together by far: Redis, for one, keeps its
    /// idle I/O threads at a mutex.
    fn parks(&self) -> bool {
        let s = self.stats;
        s.contended > 1
            && s.wait_max_ns as f64 >= ONE_WAIT_SHARE * s.wait_ns as f64
            && s.wait_ns > 0
    }

    /// Whether its sections are shorter than handing the lock to a waiter takes. What is left after a fix
    /// that leaves a lock is then decided by how often it is handed over, which no accounting of this
    /// run says: with the formatting of a log moved out of the sink's lock, four threads met at it more
    /// often, and ran half as much again.
    fn is_shorter_than_a_hand_over(&self) -> bool {
        let taken = self.stats.taken() as f64;
        let mean = self.stats.hold_total_ns / taken.max(1.0);
        (f64::MIN_POSITIVE..PARK_NS[1]).contains(&mean)
    }

    /// What it may cost without any wait, if only its contended acquisitions are seen: nobody
    /// measured the others. If it guards a queue, larger pieces take all of that from either side,
    /// and their waits for each other with what these cost in the kernel. Waits for a language's
    /// own queue are not seen either: sleep may be one.
    fn unseen_price(&self, cx: &ProcessFacts, case: &Case) -> Option<Change> {
        if self.stats.contention_ratio.is_some() || self.stats.contended == 0 {
            return None;
        }
        let mut change = Change::none(cx.view);
        change.removed.extend(&self.locks);
        // Who is in the lock's functions most of the time finds the data under it with another processor each time, too.
        let with_data = self.locking(cx).map_or(0.0, |share| (1.0 + share) / 2.0);
        let price = UNSEEN_PRICE.max(with_data);
        let of_queue = case.guards_queue();
        let (threads, asleep) = match of_queue {
            true => (self.sides_of_queue(cx), asleep_at_futexes(cx.view)),
            false => (cx.users(&self.locks), None),
        };
        for i in threads {
            let (d, t) = (&mut change.deltas[i], &cx.view.threads[i]);
            let user = t.cpu - if of_queue { t.sys } else { 0.0 };
            d.overhead[2] = (t.cpu - (1.0 - price) * user).min(NO_WORK * t.cpu);
            if of_queue {
                // All of its sleep may be that where nobody saw a reason.
                let slept = asleep.as_ref().map_or(t.off, |of| {
                    of.get(&t.id).copied().unwrap_or_default().min(t.off)
                });
                d.wait = t.lock_wait + t.event_wait + slept;
            }
        }
        Some(change)
    }

    /// Its users, and the threads that they wake or are woken by again and again: some queues have
    /// a lock for each side.
    fn sides_of_queue(&self, cx: &ProcessFacts) -> Vec<usize> {
        let users = cx.users(&self.locks);
        let threads = &cx.view.threads;
        let of_users: BTreeSet<GroupId> = users.iter().map(|i| threads[*i].group).collect();
        let mut groups = of_users.clone();
        for ((a, b), _) in cx.links.iter().filter(|(_, (n, _))| *n >= HABIT) {
            if of_users.contains(a) || of_users.contains(b) {
                groups.extend([*a, *b]);
            }
        }
        let is_side = |i: &usize| groups.contains(&threads[*i].group);
        (0..threads.len()).filter(is_side).collect()
    }

    /// At best what is done under it does not have to be done at all: a list that is searched there can be a table.
    fn without_sections(
        &self,
        cx: &ProcessFacts,
        case: &Case,
        without_waits: &Change,
    ) -> Option<Change> {
        let view = cx.view;
        let [lock] = self.locks.as_slice() else {
            return None; // held side by side
        };
        let mut change = without_waits.clone();
        let mut held = 0.0;
        for u in view.uses_of(*lock) {
            if let (Some(i), Some(Role::Acquire)) = (view.thread(u.thread), view.role(u)) {
                held += u.hold_total_ns();
                change.deltas[i].overhead[2] += u.hold_total_ns();
            }
        }
        for (d, t) in change.deltas.iter_mut().zip(&view.threads) {
            d.overhead[2] = d.overhead[2].min(IN_SECTIONS * (t.cpu - d.spin).max(0.0));
        }
        // Who sleeps may do that while it has the lock.
        let is_awake = case.users_cpu >= AWAKE * (case.users_cpu + case.users_off);
        (is_awake && held >= HELD_MOSTLY * view.wall()).then_some(change)
    }

    fn case<'a>(&'a self, cx: &'a ProcessFacts) -> Case<'a> {
        let users = cx.users(&self.locks);
        let sum =
            |f: &dyn Fn(&ThreadTime) -> f64| users.iter().map(|i| f(&cx.view.threads[*i])).sum();
        Case {
            view: cx.view,
            locks: &self.locks,
            stats: self.stats,
            sites: &self.sites,
            waits_for: &self.waits_for,
            event_functions: &cx.event_functions,
            users_cpu: sum(&|t| t.cpu),
            users_off: sum(&|t| t.off),
            users_run_delay: sum(&|t| t.run_delay),
        }
    }

    /// Without the lock its waiters do not wait, and neither do those that wait for its waiters. But
    /// where its holders themselves wait for another lock, the waiters will wait for that one.
    fn without_waits(&self, cx: &ProcessFacts, baseline: f64) -> Change {
        let mut change = without_locks(cx.view, &self.locks, baseline);
        if let [lock] = self.locks.as_slice() {
            let own = 1.0 - cx.chains.passed_on(*lock);
            for d in &mut change.deltas {
                d.wait *= own;
                d.spin *= own;
            }
        }
        for (id, share) in &self.passed {
            for u in cx.view.uses_of(*id) {
                let Some(i) = cx.view.thread(u.thread) else {
                    continue;
                };
                let d = &mut change.deltas[i];
                d.wait = (d.wait + share * u.wait_ns as f64).min(cx.view.threads[i].life);
            }
            change.removed.insert(*id);
        }
        change
    }

    /// With the acquisitions spread over all locks of the family, a lock meets another thread that
    /// much more rarely; what an even family of this size would still wait stays.
    fn spread_evenly(&self, cx: &ProcessFacts, baseline: f64) -> Change {
        let mut change = without_locks(cx.view, &self.locks, baseline);
        let n = self.locks.len() as f64;
        let tenth = (self.locks.len().div_ceil(10)) as f64;
        let share = self.family.map_or(1.0, |f| f.top_tenth_acquisitions);
        // Chance to meet somebody at a lock of the hot tenth, against even use.
        let left = ((tenth / n) / share.max(tenth / n)).clamp(0.0, 0.9);
        for d in &mut change.deltas {
            d.wait *= 1.0 - left;
            d.spin *= 1.0 - left;
            d.overhead.iter_mut().for_each(|x| *x *= 1.0 - left);
        }
        change.sure = 0.3;
        change
    }

    fn uneven(&self) -> (Vec<Cause>, String) {
        let fix = "spread the work over all locks of the family: another hash function, smaller parts, or another key";
        (
            vec![cause(
                "uneven-partition",
                "a few locks of the family get most of the work",
                fix,
            )],
            String::new(),
        )
    }

    /// A lock without contention costs its own operations and the transfer of its cache line.
    fn without_price(&self, cx: &ProcessFacts, baseline: f64) -> Change {
        let mut change = without_locks(cx.view, &self.locks, baseline);
        let pair = pair_ns(cx.view);
        for id in &self.locks {
            for u in cx.view.uses_of(*id) {
                let Some(i) = cx.view.thread(u.thread) else {
                    continue;
                };
                let d = &mut change.deltas[i];
                // What takes its place, an atomic operation or a larger section, costs about half of it.
                d.overhead[1] += 0.5 * u.calls as f64 * pair;
                let spare = NO_WORK * cx.view.threads[i].cpu.max(0.0);
                d.overhead.iter_mut().for_each(|x| *x = x.min(spare));
            }
        }
        change.sure = 0.2;
        change
    }

    /// Every lock is taken by one thread alone: kept apart on purpose, as a rule.
    fn private(&self, cx: &ProcessFacts) -> bool {
        self.locks.iter().all(|id| {
            let uses = cx.view.uses_of(*id);
            uses.iter().all(|u| u.thread == uses[0].thread)
        })
    }
}

/// Sums what threads may sleep at words that they wait for without the C library, nanoseconds.
/// `None` = nobody saw why threads sleep.
fn asleep_at_futexes(view: &ProcessView) -> Option<BTreeMap<ThreadId, f64>> {
    let sched = view.model.sched.as_ref()?;
    let perhaps = sched.offs.iter();
    let perhaps = perhaps.filter(|off| matches!(off.reason, OffReason::Futex | OffReason::Unknown));
    let mut sums = BTreeMap::new();
    for off in perhaps {
        *sums.entry(off.thread).or_default() += off.sum_ns as f64;
    }
    Some(sums)
}

/// A gain that is possible, but not promised.
fn unproven(gain: Gain, why: &str) -> Gain {
    Gain {
        low: 1.0,
        mid: 1.0,
        limited_by: why.into(),
        ..gain
    }
}
