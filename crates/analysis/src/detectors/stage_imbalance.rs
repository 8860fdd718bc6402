//! Load imbalance between groups that work for one another: stages of a pipeline, producers and
//! consumers.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::upper_bound::with_error;
use convoy_model::{runs, serves_a_machine, FindingId, GroupId};

use crate::facts::idle_wait::SATURATED;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::ProcessView;
use crate::facts::thread_assignment::Demands;
use crate::root_causes::cause;
use crate::tables::counters::{Assignment, AssignmentOption};
use crate::words::{evidence, percent};

/// Wake-ups between two groups that make them partners: a few at start or end are not a pipeline.
const LINK_WAKES: u64 = 20;
/// Share of a group's life that it must wait for the partner: less, and neither limits the other.
const LINK_SHARE: f64 = 0.02;
/// A stage that is off CPU for more of its work is paced from outside.
const EXTERNAL: f64 = 0.5;
/// If the others do less than this share of what the main thread does, together, it is the program, and they help it.
const HELPS: f64 = 0.1;
/// Share of the gain that is kept at least, if the slow group has shown that several threads can do its work.
const SURE: f64 = 0.4;
const METHOD: &str = "work of each group over its threads, bounded by CPUs (asymptotic bound)";

/// Groups of the process that wake one another, each set with its assignments, and the findings.
pub(crate) fn findings(cx: &ProcessFacts) -> (Vec<Finding>, Vec<Assignment>) {
    let mut all = (Vec::new(), Vec::new());
    for groups in linked(cx) {
        let Some(stages) = Stages::of(cx.view, groups) else {
            continue;
        };
        let (finding, assignment) = stages.judge(cx);
        all.0.extend(finding);
        all.1.push(assignment);
    }
    all
}

/// Connected sets of two or more groups.
fn linked(cx: &ProcessFacts) -> Vec<Vec<GroupId>> {
    let mut life: BTreeMap<GroupId, f64> = BTreeMap::new();
    for t in &cx.view.threads {
        *life.entry(t.group).or_default() += t.life;
    }
    // What compiles or collects garbage takes a part in the work of no stage.
    let serves = |g: &GroupId| {
        let group = cx.view.model.groups.get(g.0 as usize);
        let of = group.and_then(|group| cx.view.model.processes.get(group.process.0 as usize));
        of.is_some_and(|process| runs(&process.name).is_some())
            && group.is_some_and(|group| serves_a_machine(&group.name_pattern))
    };
    let strong = cx.links.iter().filter(|((waiter, by), (n, ns))| {
        *n >= LINK_WAKES
            && !serves(waiter)
            && !serves(by)
            && *ns as f64 >= LINK_SHARE * life.get(waiter).copied().unwrap_or(f64::INFINITY)
    });
    let mut sets: Vec<BTreeSet<GroupId>> = Vec::new();
    for ((a, b), _) in strong {
        let mut joined: BTreeSet<GroupId> = [*a, *b].into();
        sets.retain(|s| {
            let touches = s.contains(a) || s.contains(b);
            if touches {
                joined.extend(s);
            }
            !touches
        });
        sets.push(joined);
    }
    sets.into_iter().map(|s| s.into_iter().collect()).collect()
}

struct Stages {
    groups: Vec<GroupId>,
    demands: Demands,
    /// Share of its life that each group waits for locks.
    lock_wait: Vec<f64>,
    /// Share of its work that each group is off CPU: I/O, sleep.
    off: Vec<f64>,
    /// Largest and smallest share of life at work.
    busiest: f64,
    laziest: f64,
}

impl Stages {
    fn of(view: &ProcessView, groups: Vec<GroupId>) -> Option<Self> {
        // While the group that came last and the group that went first are both there.
        let span = |g: GroupId| {
            view.group_threads(g)
                .fold((f64::INFINITY, 0.0_f64), |a, t| {
                    (a.0.min(t.start), a.1.max(t.end))
                })
        };
        let start = groups.iter().map(|g| span(*g).0).fold(0.0, f64::max);
        let end = groups
            .iter()
            .map(|g| span(*g).1)
            .fold(f64::INFINITY, f64::min);
        let length = end - start;
        if length <= 0.0 {
            return None;
        }
        let mut this = Self {
            groups,
            demands: Demands {
                cpus: view.cpus,
                ..Default::default()
            },
            lock_wait: Vec::new(),
            off: Vec::new(),
            busiest: 0.0,
            laziest: f64::INFINITY,
        };
        for g in &this.groups {
            let (mut work, mut off, mut life, mut locks, mut main) = (0.0, 0.0, 0.0, 0.0, false);
            for t in view.group_threads(*g) {
                let inside = (t.end.min(end) - t.start.max(start)).max(0.0);
                let part = inside / t.life;
                // A group that was there before or stays after has done its work in this time: the main thread
                // that then only waits for the others to end.
                let here = if t.main { 1.0 } else { part };
                work += t.busy() * here;
                off += t.off * here;
                life += inside;
                locks += t.lock_wait * part;
                main |= t.main;
            }
            let threads = (life / length).round().max(1.0) as u32;
            this.demands.work.push(work.min(life) / length);
            this.demands.now.push(threads);
            this.demands.movable.push(!main);
            this.lock_wait
                .push(if life > 0.0 { locks / life } else { 0.0 });
            this.off.push(if work > 0.0 { off / work } else { 0.0 });
            let ratio = work.min(life) / length / f64::from(threads);
            this.busiest = this.busiest.max(ratio);
            this.laziest = this.laziest.min(ratio);
        }
        this.demands.cpu = view
            .threads
            .iter()
            .map(|t| {
                (t.cpu - t.spin).max(0.0) * (t.end.min(end) - t.start.max(start)).max(0.0) / t.life
            })
            .sum::<f64>()
            / length;
        Some(this)
    }

    fn judge(&self, cx: &ProcessFacts) -> (Option<Finding>, Assignment) {
        let d = &self.demands;
        let best = d.best();
        let now = d.throughput(&d.now);
        let relative = |n: &[u32]| {
            if now > 0.0 {
                d.throughput(n) / now
            } else {
                1.0
            }
        };
        let option = |n: Vec<u32>| AssignmentOption {
            throughput: relative(&n),
            threads: n,
        };
        let mut options: Vec<_> = d.options().into_iter().map(option).collect();
        if let Some((_, rest)) = options.split_first_mut() {
            rest.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
        }
        let limited_by = self.limit(cx.view, &best);
        let assignment = Assignment {
            process: cx.view.process,
            groups: self.groups.clone(),
            now: d.now.clone(),
            ideal: d.ideal(),
            options,
            limited_by: limited_by.clone(),
        };

        // Nobody is at work all the time: something outside of these groups sets the pace.
        let uneven = self.busiest - self.laziest > cx.t.imbalance_ratio * self.busiest;
        if self.busiest < SATURATED * 0.75 || !uneven {
            return (None, assignment);
        }
        let slow = d.bottleneck(&d.now);
        if self.off[slow] > EXTERNAL {
            return (Some(self.external(cx, slow)), assignment);
        }
        let finding = if relative(&best) >= cx.t.gain_mid && best != d.now {
            self.imbalance(cx, slow, &best, relative(&best), limited_by)
        } else if self.is_whole_program(slow) {
            // What it does may depend on what it did before: nothing that is seen tells.
            return (None, assignment);
        } else {
            self.slow_stage(cx, slow)
        };
        (Some(finding), assignment)
    }

    /// Whether this is the main thread with a helper or two (a logger, the threads of a runtime): no stage among others.
    fn is_whole_program(&self, slow: usize) -> bool {
        !self.demands.movable[slow] && self.does_everything(slow)
    }

    /// Whether the other groups do next to nothing.
    fn does_everything(&self, slow: usize) -> bool {
        let work = &self.demands.work;
        let others = work.iter().sum::<f64>() - work[slow];
        others < HELPS * work[slow]
    }

    /// The same threads, spread otherwise, pass more.
    fn imbalance(
        &self,
        cx: &ProcessFacts,
        slow: usize,
        best: &[u32],
        gain: f64,
        limited_by: String,
    ) -> Finding {
        let d = &self.demands;
        let names: Vec<String> = self.groups.iter().map(|g| cx.view.group_name(*g)).collect();
        let list = |n: &[u32]| n.iter().map(u32::to_string).collect::<Vec<_>>().join(" : ");
        let high = self.best_case(cx.view, best).max(gain);
        // One thread that does everything has not shown that its work can be divided.
        let sure = match d.now[slow] == 1 && self.does_everything(slow) {
            true => 0.0,
            false => SURE,
        };
        Finding {
            id: FindingId::LoadImbalance,
            subject: Subject::Groups(self.groups.clone()),
            title: self.title(&names[slow]),
            evidence: self.evidence(&names),
            causes: vec![cause(
                "wrong-thread-assignment",
                "threads are not spread over the groups in proportion to their work",
                format!(
                    "{} threads {} instead of {} ({})",
                    best.iter().sum::<u32>(),
                    list(best),
                    list(&d.now),
                    names.join(" : ")
                ),
            )],
            undecided: String::new(),
            gain: Gain {
                low: 1.0 + sure * (gain - 1.0),
                mid: gain,
                high,
                method: METHOD.into(),
                limited_by,
                estimates: Vec::new(),
            },
            share_of_thread_time: 1.0 - self.laziest.min(1.0),
            caveats: self.caveats(cx, slow),
        }
    }

    /// Throughput if all allowed CPUs are there, with a tenth of the gain for errors of measurement.
    fn best_case(&self, view: &ProcessView, n: &[u32]) -> f64 {
        let all_cpus = Demands {
            cpus: view.cpus_allowed,
            ..self.demands.clone()
        };
        with_error(all_cpus.throughput(n).max(1.0))
    }

    /// The slow stage sleeps or does I/O: a timer, a peer or a disk sets its pace, as a rule, and more
    /// threads for the same source do not make it faster. Nothing is promised.
    fn external(&self, cx: &ProcessFacts, slow: usize) -> Finding {
        let mut f = self.slow_stage(cx, slow);
        f.gain.mid = 1.0;
        f.gain.high = f.gain.high.min(2.0);
        f.gain.limited_by = format!(
            "{} sleeps or does I/O {} of its work",
            cx.view.group_name(self.groups[slow]),
            percent(self.off[slow])
        );
        f.caveats.push(
            "if it waits for input (a timer, the network), there is simply no more to do".into(),
        );
        f
    }

    /// The threads are where they should be, or CPUs are short, or there is one each: the stage itself is slow.
    fn slow_stage(&self, cx: &ProcessFacts, slow: usize) -> Finding {
        let d = &self.demands;
        let names: Vec<String> = self.groups.iter().map(|g| cx.view.group_name(*g)).collect();
        let mut more = d.now.clone();
        more[slow] += 1;
        let now = d.throughput(&d.now);
        let with_one_more = if now > 0.0 {
            (d.throughput(&more) / now).max(1.0)
        } else {
            1.0
        };
        // The stage gone altogether: the next one or the CPUs limit.
        let mut without = d.clone();
        without.work[slow] = 0.0;
        let limit = without.throughput(&d.now).min(d.cpu_bound()).max(1.0);
        let (mid, fix) = if d.movable[slow] {
            (
                with_one_more,
                format!("one thread more for {}, or less work in it", names[slow]),
            )
        } else {
            (
                1.0 + 0.3 * (with_one_more - 1.0),
                format!(
                    "less work in {}: hand part of it to the threads that wait",
                    names[slow]
                ),
            )
        };
        Finding {
            id: FindingId::SlowStage,
            subject: Subject::Group(self.groups[slow]),
            title: self.title(&names[slow]),
            evidence: self.evidence(&names),
            causes: vec![cause(
                "slow-stage",
                "one stage works all the time while those before and after it wait",
                fix,
            )],
            undecided: String::new(),
            gain: Gain {
                low: 1.0,
                mid: mid.min(limit.max(1.0)),
                high: limit.max(mid),
                method: METHOD.into(),
                limited_by: self.limit(cx.view, &more),
                estimates: Vec::new(),
            },
            share_of_thread_time: 1.0 - self.laziest.min(1.0),
            caveats: self.caveats(cx, slow),
        }
    }

    fn title(&self, slow: &str) -> String {
        format!(
            "{slow} is the pipeline's bottleneck: busy {} of its time; \
             the groups it works with {} at least",
            percent(self.busiest.min(1.0)),
            percent(self.laziest)
        )
    }

    fn evidence(&self, names: &[String]) -> Vec<convoy_model::finding::Evidence> {
        let d = &self.demands;
        let row = |i: usize| {
            let ratio = d.work[i] / f64::from(d.now[i]);
            evidence(
                "busy_ratio",
                ratio,
                format!(
                    "{}: {} x {} working",
                    names[i],
                    d.now[i],
                    percent(ratio.min(1.0))
                ),
            )
        };
        let mut list: Vec<_> = (0..names.len()).map(row).collect();
        list.sort_by(|a, b| b.value.total_cmp(&a.value));
        if d.cpus.is_finite() {
            let ratio = (d.cpu / d.cpus).min(1.0);
            list.push(evidence(
                "cpu_ratio",
                ratio,
                format!("{} of the CPUs' time is used", percent(ratio)),
            ));
        }
        list
    }

    fn limit(&self, view: &ProcessView, n: &[u32]) -> String {
        let d = &self.demands;
        if d.cpu_bound() < d.stage_bound(n) {
            format!("CPUs: {:.0} of them would be busy all the time", d.cpus)
        } else {
            view.group_name(self.groups[d.bottleneck(n)])
        }
    }

    fn caveats(&self, cx: &ProcessFacts, slow: usize) -> Vec<String> {
        let mut list = Vec::new();
        if self.lock_wait[slow] > 0.1 {
            list.push(format!(
                "it also waits for locks {} of its time: fix those first",
                percent(self.lock_wait[slow])
            ));
        }
        if !self.demands.movable[slow] {
            list.push("it is the main thread: there is only one of it".into());
        }
        let busy = self.demands.cpu / self.demands.cpus;
        if busy > 0.9 {
            list.push(format!(
                "the {:.0} CPUs are {} busy already: no assignment buys much here",
                cx.view.cpus,
                percent(busy.min(1.0))
            ));
        }
        list
    }
}
