//! Locks: what waits for them, parking and cache line transfer cost, and what is left without.

use std::collections::BTreeMap;

use convoy_model::finding::{Cause, Evidence, Finding, Gain, Subject};
use convoy_model::ObjectId;

use crate::causes::{cause, shared_only, Case};
use crate::gain::overhead::{local_acquire_ns, without_locks};
use crate::gain::{predict, Change};
use crate::rows::{FamilyRow, LockRow, LockStats, Quadrant, SiteShare, WaitsFor};
use crate::text::{count, duration, evidence, percent, place, plural};
use crate::waits_for::waits_for;
use crate::{Context, Thresholds};

/// Only so many locks and families are priced, those with most to lose: pricing costs time, and
/// nobody reads the hundredth.
const PRICED_MAX: usize = 48;
/// A lock that one thread alone takes is mentioned if it can cost this much: throughput ratio.
const PRIVATE_HIGH: f64 = 1.25;
/// One wait with this share of all of them is an accident, or parks a thread.
const ONE_WAIT_SHARE: f64 = 0.8;
/// One lock with this share of its family's waits is the culprit, not the family.
const ONE_LOCK_SHARE: f64 = 0.8;

/// Findings about locks, unranked.
pub(crate) fn findings(cx: &Context, locks: &[LockRow], families: &[FamilyRow]) -> Vec<Finding> {
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
    let stake = |u: &Unit| u.stats.wait_ns as f64 + passed(u) + u.acquire_price(cx, baseline).1;
    units.retain(|u| {
        let life = cx.users_life(&u.locks);
        u.stats.waited_ratio >= cx.t.waited_ratio
            || (life > 0.0 && stake(u) >= cx.t.waited_ratio * life)
    });
    units.sort_by(|a, b| stake(b).total_cmp(&stake(a)));
    units.truncate(PRICED_MAX);
    units.iter().map(|u| u.finding(cx, baseline)).collect()
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

fn units<'a>(cx: &Context, locks: &'a [LockRow], families: &'a [FamilyRow]) -> Vec<Unit<'a>> {
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
    fn acquire_price(&self, cx: &Context, baseline: f64) -> (f64, f64) {
        let calls = (self.stats.acquisitions + self.stats.try_calls) as f64;
        let excess = self
            .stats
            .acquire_ns
            .map_or(0.0, |ns| (ns - baseline).clamp(0.0, 400.0));
        let pair = match cx.view.model.meta.machine.mutex_pair_ns {
            ns if ns > 0.0 => ns,
            _ => 15.0,
        };
        (calls * excess, calls * (excess + pair))
    }

    fn contended(&self, t: &Thresholds) -> bool {
        self.stats.waited_ratio >= t.waited_ratio
            || (self.stats.contended >= t.asymmetry_min_waits
                && self
                    .stats
                    .contention_ratio
                    .is_some_and(|r| r > t.contention_ratio))
    }

    fn finding(&self, cx: &Context, baseline: f64) -> Finding {
        let asymmetric = self.family.is_some_and(|f| f.asymmetric);
        let case = self.case(cx);
        let (id, mut change, (causes, undecided)) = if asymmetric {
            (
                "asymmetric-contention",
                self.spread_evenly(cx, baseline),
                self.uneven(),
            )
        } else if self.contended(cx.t) {
            (
                "contended-lock",
                self.without_waits(cx, baseline),
                case.contended(),
            )
        } else {
            (
                "frequent-lock",
                self.without_price(cx, baseline),
                case.frequent(),
            )
        };
        if self.locks.iter().any(|id| cx.view.locks.guessed(*id)) {
            change.sure = 0.0;
        }
        let mut gain = predict(cx.view, cx.stations, cx.links, &change);
        if !self.passed.is_empty() {
            // What waiters hold while they wait is told from stacks and sampled holds.
            gain.high = 1.0 + 1.5 * (gain.high - 1.0);
        }
        if self.parks() {
            gain = parked(gain);
        }
        if id == "frequent-lock" && self.private(cx) && gain.high < PRIVATE_HIGH {
            gain = unused_price(gain);
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
        s.contended > 3
            && s.wait_max_ns as f64 >= ONE_WAIT_SHARE * s.wait_ns as f64
            && s.wait_ns > 0
    }

    fn case<'a>(&'a self, cx: &'a Context) -> Case<'a> {
        let users = cx.users(&self.locks);
        let sum = |f: &dyn Fn(&crate::view::ThreadTime) -> f64| {
            users.iter().map(|i| f(&cx.view.threads[*i])).sum()
        };
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
    fn without_waits(&self, cx: &Context, baseline: f64) -> Change {
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
    fn spread_evenly(&self, cx: &Context, baseline: f64) -> Change {
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
    fn without_price(&self, cx: &Context, baseline: f64) -> Change {
        let mut change = without_locks(cx.view, &self.locks, baseline);
        let pair = match cx.view.model.meta.machine.mutex_pair_ns {
            ns if ns > 0.0 => ns,
            _ => 15.0,
        };
        for id in &self.locks {
            for u in cx.view.uses_of(*id) {
                let Some(i) = cx.view.thread(u.thread) else {
                    continue;
                };
                let d = &mut change.deltas[i];
                // What takes its place, an atomic operation or a larger section, costs about half of it.
                for (sum, factor) in d.overhead.iter_mut().zip([0.0, 0.5, 1.0]) {
                    *sum += u.calls as f64 * pair * factor;
                }
                let spare = (cx.view.threads[i].cpu * 0.9).max(0.0);
                d.overhead.iter_mut().for_each(|x| *x = x.min(spare));
            }
        }
        change.sure = 0.2;
        change
    }

    /// Every lock is taken by one thread alone: kept apart on purpose, as a rule.
    fn private(&self, cx: &Context) -> bool {
        self.locks.iter().all(|id| {
            let uses = cx.view.uses_of(*id);
            uses.iter().all(|u| u.thread == uses[0].thread)
        })
    }

    fn title(&self, cx: &Context, id: &str) -> String {
        let s = self.stats;
        let name = match self.locks.as_slice() {
            [one] => cx.view.object_name(*one),
            many => format!(
                "{} locks taken at {}",
                many.len(),
                self.sites
                    .first()
                    .map_or(String::new(), |x| place(cx.view, x.site))
            ),
        };
        match id {
            "asymmetric-contention" => {
                let f = self.family.map_or(0.0, |f| f.top_tenth_waits);
                format!("{name}: a tenth of them gets {} of the waits", percent(f))
            }
            "frequent-lock" => format!(
                "{name} is taken {} times a second, hardly contended",
                count(s.frequency_hz)
            ),
            _ => format!(
                "{name}: {} lose {} of their time waiting for {}",
                plural(s.threads, "thread"),
                percent(s.waited_ratio),
                match self.locks.len() {
                    1 => "it",
                    _ => "them",
                }
            ),
        }
    }

    fn evidence(&self, cx: &Context, baseline: f64) -> Vec<Evidence> {
        let s = self.stats;
        let mut list = vec![
            evidence(
                "waited_ratio",
                s.waited_ratio,
                format!(
                    "waits took {} of the time of {}",
                    percent(s.waited_ratio),
                    plural(s.threads, "thread")
                ),
            ),
            evidence(
                "wait_ns",
                s.wait_ns as f64,
                format!(
                    "waited {} in all, {} at most",
                    duration(s.wait_ns as f64),
                    duration(s.wait_max_ns as f64)
                ),
            ),
        ];
        if let Some(r) = s.contention_ratio {
            list.push(evidence(
                "contention_ratio",
                r,
                format!(
                    "{} of {} acquisitions contended",
                    percent(r),
                    count(s.acquisitions as f64)
                ),
            ));
        } else if s.try_calls == 0 {
            list.push(evidence(
                "contended",
                s.contended as f64,
                format!(
                    "{} contended acquisitions; the others are not seen (raw futex)",
                    count(s.contended as f64)
                ),
            ));
        }
        list.push(evidence(
            "frequency_hz",
            s.frequency_hz,
            format!(
                "acquired {} times a second ({})",
                count(s.frequency_hz),
                quadrant_name(s.quadrant)
            ),
        ));
        if let Some(ns) = s.hold_sampled_ns.or(s.hold_contended_ns) {
            list.push(evidence(
                "hold_mean_ns",
                ns,
                format!(
                    "held for {} (mean of samples), {} at most",
                    duration(ns),
                    duration(s.hold_max_ns as f64)
                ),
            ));
            let share = (s.hold_total_ns / cx.view.wall()).max(0.0);
            if self.locks.len() == 1 && !shared_only(cx.view, &self.locks) {
                list.push(evidence(
                    "held_ratio",
                    share.min(1.0),
                    format!("held {} of the run", percent(share.min(1.0))),
                ));
            }
        }
        let (excess, _) = self.acquire_price(cx, baseline);
        let cpu: f64 = cx
            .users(&self.locks)
            .iter()
            .map(|i| cx.view.threads[*i].cpu)
            .sum();
        if cpu > 0.0 && excess > 0.01 * cpu {
            list.push(evidence(
                "transfer_ratio",
                (excess / cpu).min(1.0),
                format!("its cache line moves between cores: {} an acquire, {} of the threads' CPU time", duration(s.acquire_ns.unwrap_or(0.0)), percent((excess / cpu).min(1.0))),
            ));
        }
        if let Some(w) = self.waits_for.first() {
            let holder = convoy_model::telling(&w.holder)
                .map_or("an unknown place".into(), crate::text::frame_place);
            list.push(evidence(
                "pair_share",
                w.share,
                format!(
                    "{} of the wait: {} waits for {holder}",
                    percent(w.share),
                    place(cx.view, w.waiter)
                ),
            ));
        }
        if let Some((id, share)) = self.passed.first() {
            list.push(evidence(
                "passed_ratio",
                *share,
                format!(
                    "{} of the waits for {} are for this lock: holders of that one wait here",
                    percent(*share),
                    cx.view.object_name(*id)
                ),
            ));
        }
        if let Some(f) = self.family {
            list.push(evidence(
                "locks",
                f.locks.len() as f64,
                format!(
                    "contention rate of its locks: {} to {}, median {}",
                    percent(f.contention_min),
                    percent(f.contention_max),
                    percent(f.contention_median)
                ),
            ));
        }
        list
    }

    fn caveats(&self, cx: &Context, gain: &Gain, id: &str) -> Vec<String> {
        let mut list = Vec::new();
        let s = self.stats;
        if gain.mid < cx.t.gain_mid && s.waited_ratio >= 0.05 && id != "frequent-lock" {
            list.push(format!(
                "the waits are real, but taking them away buys nothing: {}",
                gain.limited_by
            ));
        }
        if let (Some(c), Some(u)) = (s.hold_contended_ns, s.hold_sampled_ns) {
            let delay: f64 = cx
                .users(&self.locks)
                .iter()
                .map(|i| cx.view.threads[*i].run_delay)
                .sum();
            if c > 5.0 * u && delay > 0.05 * cx.users_life(&self.locks) {
                list.push(format!(
                    "holders of contended acquisitions held it {} against {} otherwise: they were preempted, there are more threads than CPUs",
                    duration(c), duration(u)
                ));
            }
        }
        if let [lock] = self.locks.as_slice() {
            let on = cx.chains.passed_on(*lock);
            if on > 0.2 {
                list.push(format!(
                    "{} of its hold time its holders wait for another lock: fix that one first",
                    percent(on)
                ));
            }
        }
        if s.estimated {
            list.push(
                "the share of each lock in its site's acquisitions comes from samples".into(),
            );
        }
        if self.locks.iter().any(|id| cx.view.locks.guessed(*id)) {
            list.push("taken for a lock from the way that threads use it, not from a name".into());
        }
        list
    }
}

/// That the next run has such a wait, too, and that it is in anybody's way, one wait does not prove.
fn parked(gain: Gain) -> Gain {
    Gain {
        low: 1.0,
        mid: 1.0,
        limited_by: "one single wait: it may be a thread that is kept from running on purpose"
            .into(),
        ..gain
    }
}

/// The price of a lock that one thread alone takes is real, but such locks are mostly there on
/// purpose (one per thread or shard instead of a shared one): no gain is promised.
fn unused_price(gain: Gain) -> Gain {
    Gain {
        low: 1.0,
        mid: 1.0,
        limited_by: "nobody else takes it: it may be there on purpose".into(),
        ..gain
    }
}

fn quadrant_name(q: Quadrant) -> &'static str {
    match q {
        Quadrant::Q1 => "Q1: few acquisitions, high contention",
        Quadrant::Q2 => "Q2: many acquisitions, high contention",
        Quadrant::Q3 => "Q3: few acquisitions, low contention",
        Quadrant::Q4 => "Q4: many acquisitions, low contention",
        Quadrant::Unknown => "quadrant not known",
    }
}
