//! What a finding about a lock says: its title, the numbers behind it, and what to keep in mind.

use std::collections::BTreeMap;

use convoy_model::finding::{Evidence, Gain};
use convoy_model::FindingId;

use super::Unit;
use crate::estimate::queueing::LOCKING;
use crate::facts::process_facts::ProcessFacts;
use crate::root_causes::shared_only;
use crate::tables::counters::Quadrant;
use crate::words::{count, duration, evidence, percent, place, plural};

impl Unit<'_> {
    pub(super) fn title(&self, cx: &ProcessFacts, id: FindingId) -> String {
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
            FindingId::AsymmetricContention => {
                let f = self.family.map_or(0.0, |f| f.top_tenth_waits);
                let few = match self.locks.len() {
                    0..=10 => "one",
                    _ => "a tenth",
                };
                format!("{name}: {few} of them gets {} of the waits", percent(f))
            }
            FindingId::FrequentLock => format!(
                "{name} {} taken {} times a second, hardly contended",
                if self.locks.len() == 1 { "is" } else { "are" },
                count(s.frequency_hz)
            ),
            _ => {
                let threads = |verb| match s.threads {
                    1 => format!("1 thread {verb}s"),
                    n => format!("{n} threads {verb}"),
                };
                let it = match self.locks.len() {
                    1 => "it",
                    _ => "them",
                };
                match self.locking(cx).filter(|x| *x > 2.0 * s.waited_ratio) {
                    Some(share) => format!(
                        "{name}: acquiring and releasing {it} takes {} of the CPU time of {}",
                        percent(share),
                        threads("run")
                    ),
                    None => format!(
                        "{name}: {} {} of {} time waiting for {it}",
                        threads("lose"),
                        percent(s.waited_ratio),
                        if s.threads == 1 { "its" } else { "their" }
                    ),
                }
            }
        }
    }

    /// Share of what its threads run that its own functions take, if that is so much that it decides what a fix buys.
    pub(super) fn locking(&self, cx: &ProcessFacts) -> Option<f64> {
        let shares = cx.view.lock_code.shares(cx.view, &self.locks);
        let share = shares.map(|shares| shares.locking);
        share.filter(|share| *share >= LOCKING)
    }

    /// Where is waited most, and for whom: call stacks that read the same are one. With their share of the waits.
    fn most_waited(&self, cx: &ProcessFacts) -> Option<((String, String), f64)> {
        let mut ends: BTreeMap<(String, String), f64> = BTreeMap::new();
        for w in &self.waits_for {
            let holder = convoy_model::telling(&w.holder)
                .map_or("an unknown place".into(), crate::words::frame_place);
            *ends.entry((place(cx.view, w.waiter), holder)).or_default() += w.share;
        }
        ends.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    pub(super) fn evidence(&self, cx: &ProcessFacts, baseline: f64) -> Vec<Evidence> {
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
        // Of a lock whose free acquisitions are not seen nobody knows how often it is taken.
        if s.frequency_hz > 0.0 {
            list.push(evidence(
                "frequency_hz",
                s.frequency_hz,
                format!(
                    "acquired {} times a second ({})",
                    count(s.frequency_hz),
                    quadrant_name(s.quadrant)
                ),
            ));
        }
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
        if let Some(share) = self.locking(cx) {
            list.push(evidence(
                "locking_ratio",
                share,
                format!(
                    "acquiring and releasing it takes {} of its threads' CPU time (samples)",
                    percent(share)
                ),
            ));
        }
        if let Some(((waiter, holder), share)) = self.most_waited(cx) {
            list.push(evidence(
                "pair_share",
                share,
                format!(
                    "{} of the wait: {waiter} waits for {holder}",
                    percent(share)
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

    pub(super) fn caveats(&self, cx: &ProcessFacts, gain: &Gain, id: FindingId) -> Vec<String> {
        let mut list = Vec::new();
        let s = self.stats;
        if gain.mid < cx.t.gain_mid && s.waited_ratio >= 0.05 && id != FindingId::FrequentLock {
            list.push(format!(
                "the waits are real, but taking them away buys nothing: {}",
                gain.limited_by
            ));
        }
        if id == FindingId::ContendedLock {
            list.extend(self.of_stuck(cx));
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

fn quadrant_name(q: Quadrant) -> &'static str {
    match q {
        Quadrant::Q1 => "Q1: few acquisitions, high contention",
        Quadrant::Q2 => "Q2: many acquisitions, high contention",
        Quadrant::Q3 => "Q3: few acquisitions, low contention",
        Quadrant::Q4 => "Q4: many acquisitions, low contention",
        Quadrant::Unknown => "quadrant not known",
    }
}
