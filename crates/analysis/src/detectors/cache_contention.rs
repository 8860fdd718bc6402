//! Threads that fight for cache lines without a lock: atomic counters, reference counts, neighbours in an array.

mod words;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{FunctionKey, LineUse, ObjectId, ProcessId, SiteId, SyncCode, ThreadId};

use crate::estimate::saving::Saving;
use crate::facts::cache_lines::{fought, Fight, Fought};
use crate::facts::concurrency::at_least;
use crate::facts::lanes::Lanes;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::evidence;
use words::{data, offsets, Words};

/// Samples that a finding needs, and from which on the evidence is strong.
const SAMPLES: f64 = 20.0;
const MANY: f64 = 100.0;
/// With so many, and so large a part of what the threads run, this part of the usual gain is
/// enough.
const LARGE: f64 = 0.2;
const HALF: f64 = 0.5;
/// Part of the time at the line that goes if no other thread wants it, of a thread that does nothing else. Of other work the
/// processor computes as much meanwhile, unseen, as there is: the smaller the share of the line, the less of it is expected.
const EXPECTED: f64 = 0.85;
/// The same of atomic operations: nothing after one begins before it has its line, so that the code behind waits as well.
const ATOMIC: f64 = 0.9;
/// Of what threads run at the line at most so much is waiting for it: the rest is what they do meanwhile, or would have to do. Measured
/// with hardly anything else to do: 0.85 to 0.96.
const WAITING: f64 = 0.96;
/// Of the time in which two threads or more are at work, the least in which two have processors: taking turns on one, they
/// take nothing from each other. With less of it, less is expected; the bound is that of a machine of one's own.
const ON_CPUS: f64 = 0.1;
/// So many of a thread's samples at atomic operations, those of locks among them, make it wait for its neighbours as at atomics.
const OF_ATOMICS: f64 = 0.2;
/// Code around the instructions that waits for them as well, bytes: at most its time goes, too. It is some thirty instructions before and
/// after, of the hundred and more that a processor has at work at once; with half of it, 6.7x was the most where 12.6x was measured.
const BEHIND: u64 = 128;
/// Share of the expected gain that is sure where the evidence is strong.
const SURE: f64 = 0.1;
/// Time in critical sections over time at the line, from which on the line may be what a lock guards.
const GUARDED: f64 = 0.5;
const METHOD: &str = "samples at instructions that touch the line, as far as others write to it";

pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let view = cx.view;
    if on_cpus(view) < ON_CPUS {
        return Vec::new();
    }
    let lanes = Lanes::of(view);
    let samples = Samples::of(view, &lanes);
    let mut places: BTreeMap<(ProcessId, Fight, FunctionKey), Place> = BTreeMap::new();
    for fought in fought(view, &lanes) {
        let function = hottest(view, &fought)
            .and_then(|site| view.shown(site))
            .map_or_else(FunctionKey::default, |frame| frame.key());
        let key = (fought.line.process, fought.fight, function);
        places.entry(key).or_default().add(fought);
    }
    let guards = Guards::of(view, &lanes, &samples);
    let places = places.into_iter();
    let places = places.map(|((_, fight, _), place)| (fight, place));
    let found = joined(places.collect()).into_iter();
    found
        .filter_map(|(fight, place)| place.finding(view, fight, &lanes, &samples, &guards))
        .collect()
}

/// Atomics that the same threads fight for are one finding: with one of them gone they come back to the others the sooner.
fn joined(mut places: Vec<(Fight, Place)>) -> Vec<(Fight, Place)> {
    places.sort_by(|(_, a), (_, b)| b.n().total_cmp(&a.n()));
    let mut all: Vec<(Fight, Place)> = Vec::new();
    for (fight, place) in places {
        let joins = |with: &&mut (Fight, Place)| {
            (with.0, fight) == (Fight::Atomic, Fight::Atomic)
                && place.n() >= SAMPLES
                && with.1.lost.keys().eq(place.lost.keys())
        };
        match all.iter_mut().find(joins) {
            Some((_, with)) => with.others.push(place),
            None => all.push((fight, place)),
        }
    }
    all
}

/// Of the time in which two threads or more are at work, that in which two have processors.
fn on_cpus(view: &RunView) -> f64 {
    let working = at_least(&view.sched.working, 2.0);
    let running = at_least(&view.sched.running, 2.0);
    (running / working.max(1.0)).min(1.0)
}

/// Samples of threads at work, and what these ran; threads in one lane are one.
struct Samples<'a> {
    of_thread: BTreeMap<ThreadId, f64>,
    /// Time at work, and on a processor.
    ran: BTreeMap<ThreadId, (f64, f64)>,
    /// By instruction.
    at: BTreeMap<(&'a str, u64), BTreeMap<ThreadId, f64>>,
}

impl<'a> Samples<'a> {
    fn of(view: &RunView<'a>, lanes: &Lanes) -> Self {
        let (mut of_thread, mut at) = (BTreeMap::new(), BTreeMap::new());
        let mut ran: BTreeMap<_, (f64, f64)> = BTreeMap::new();
        for (&id, thread) in &view.threads {
            let sum = ran.entry(lanes.first(id)).or_default();
            sum.0 += thread.working_ns() as f64;
            sum.1 += thread.cpu_work_ns() as f64;
        }
        let working = view
            .model
            .samples()
            .filter(|(slice, _)| slice.spin.is_none());
        for (slice, site) in working {
            let n = slice.n as f64;
            let thread = lanes.first(slice.thread);
            *of_thread.entry(thread).or_default() += n;
            if let Some(leaf) = site.and_then(|site| site.frames.first()) {
                let at: &mut BTreeMap<_, _> =
                    at.entry((leaf.module.as_str(), leaf.offset)).or_default();
                *at.entry(thread).or_default() += n;
            }
        }
        Self { of_thread, ran, at }
    }

    fn all(&self, id: ThreadId) -> f64 {
        self.of_thread.get(&id).copied().unwrap_or(0.0)
    }

    /// Of each thread, those at instructions near these.
    fn near(&self, instructions: &BTreeSet<(&str, u64)>) -> BTreeMap<ThreadId, f64> {
        let mut near: BTreeMap<ThreadId, f64> = BTreeMap::new();
        for (&(module, offset), threads) in &self.at {
            let around =
                (module, offset.saturating_sub(BEHIND))..=(module, offset.saturating_add(BEHIND));
            if instructions.range(around).next().is_some() {
                for (&id, n) in threads {
                    *near.entry(id).or_default() += n;
                }
            }
        }
        near
    }
}

/// The call stack with most samples at the line: among those in the code of shared pointers where there are some, since the
/// processor stands at the next instruction, which may be of another line of the program.
fn hottest(view: &RunView, fought: &Fought) -> Option<SiteId> {
    let (mut sites, mut counting) = (BTreeMap::new(), BTreeMap::new());
    let (mut all, mut n_counting) = (0.0, 0.0);
    for used in &fought.uses {
        let (Some(site), n) = (used.site, used.n as f64) else {
            continue;
        };
        all += n;
        *sites.entry(site).or_default() += n;
        if words::counts_references(view, site) {
            n_counting += n;
            *counting.entry(site).or_default() += n;
        }
    }
    most(match n_counting >= OF_ATOMICS * all {
        true if n_counting > 0.0 => counting,
        _ => sites,
    })
}

/// Lines that threads fight for in the same way in the same function.
#[derive(Default)]
struct Place<'a> {
    fought: Vec<Fought<'a>>,
    lost: BTreeMap<ThreadId, f64>,
    /// Other places of the same threads, where it is the same fault.
    others: Vec<Self>,
}

impl<'a> Place<'a> {
    /// Samples that are lost here.
    fn n(&self) -> f64 {
        self.lost.values().sum()
    }

    /// Samples that each thread loses here and at the other places.
    fn lost_in_all(&self) -> BTreeMap<ThreadId, f64> {
        let mut lost = self.lost.clone();
        for (&id, n) in self.others.iter().flat_map(|other| &other.lost) {
            *lost.entry(id).or_default() += n;
        }
        lost
    }

    /// Threads, also those that followed one another.
    fn in_all(&self, lanes: &Lanes) -> usize {
        lanes.members(|first| self.lost.contains_key(&first))
    }

    fn lines(&self) -> impl Iterator<Item = &Fought<'a>> {
        let others = self.others.iter().flat_map(|other| &other.fought);
        self.fought.iter().chain(others)
    }

    fn uses(&self) -> impl Iterator<Item = &'a LineUse> + '_ {
        self.lines().flat_map(|fought| fought.uses.iter().copied())
    }

    fn own_locks(&self) -> Vec<&'a LineUse> {
        let own = self.lines().flat_map(|fought| &fought.own_locks);
        own.copied().collect()
    }

    /// Whether atomic operations are so much of what a thread does there that they decide what it costs.
    fn is_atomic(&self, id: ThreadId, lanes: &Lanes) -> bool {
        let of_thread = self.uses().filter(|used| lanes.first(used.thread) == id);
        let (locked, all) = of_thread.fold((0, 0), |(locked, all), used| {
            (locked + if used.locked { used.n } else { 0 }, all + used.n)
        });
        locked as f64 >= OF_ATOMICS * all as f64
    }

    /// The line with most samples, and where they are.
    fn first(&self, view: &RunView) -> Option<(&Fought<'a>, SiteId)> {
        let first = self.fought.iter().max_by_key(|f| f.line.samples)?;
        Some((first, hottest(view, first)?))
    }

    fn add(&mut self, fought: Fought<'a>) {
        for (&id, n) in &fought.lost {
            *self.lost.entry(id).or_default() += n;
        }
        self.fought.push(fought);
    }

    fn finding(
        self,
        view: &RunView,
        fight: Fight,
        lanes: &Lanes,
        samples: &Samples,
        guards: &Guards,
    ) -> Option<Finding> {
        let of_thread = self.lost_in_all();
        let lost: f64 = of_thread.values().sum();
        let all: f64 = of_thread.keys().map(|id| samples.all(*id)).sum();
        let share = (lost / all.max(1.0)).min(1.0);
        let guarded = || guards.explain(&of_thread, &self.own_locks(), lanes, samples);
        if lost < SAMPLES || (fight != Fight::Atomic && guarded()) {
            return None;
        }
        let gain = self.saving(view, fight, lanes, &of_thread, samples).gain(
            view,
            METHOD,
            "the work itself",
        );
        // Nobody waits: that much time passes at a line says nothing if none of it is expected to
        // go. What is expected is a careful guess: where threads that fight lose a large part of
        // what they run, less of it is enough.
        let is_large = lost >= MANY && share >= LARGE;
        let enough = if is_large { HALF } else { 1.0 } * (view.t.gain_mid - 1.0);
        if gain.mid - 1.0 < enough {
            return None;
        }
        let (first, site) = self.first(view)?;
        let mut words = Words::of(view, fight, first, site);
        let mut caveats = vec![
            "samples tell where time passes, not what the processor computes meanwhile: the gain may be anything in its interval"
                .into(),
        ];
        for other in &self.others {
            let Some((first, site)) = other.first(view) else {
                continue; // without a place there is nothing to say of it
            };
            let other = Words::of(view, fight, first, site);
            words.title += &format!(", and {} at {}", data(first), view.place(Some(site)));
            words.cause.fix += &format!("; as well, {}", other.cause.fix);
        }
        if !self.others.is_empty() {
            caveats.push(
                "it is the gain of all of these changes: after one of them the threads come back to the rest the sooner"
                    .into(),
            );
        }
        let threads = match self.in_all(lanes) > of_thread.len() {
            true => format!("{} at a time", plural(of_thread.len(), "thread")),
            false => plural(of_thread.len(), "thread"),
        };
        Some(Finding {
            id: words.id,
            subject: Subject::Code(site),
            title: format!(
                "{threads} {} for {} of their CPU time",
                words.title,
                percent(share)
            ),
            evidence: self.evidence(view, lanes, first, lost, all),
            causes: vec![words.cause],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats,
        })
    }

    fn saving(
        &self,
        view: &RunView,
        fight: Fight,
        lanes: &Lanes,
        of_thread: &BTreeMap<ThreadId, f64>,
        samples: &Samples,
    ) -> Saving {
        let leaves = self
            .uses()
            .filter_map(|used| view.model.site(used.site?)?.frames.first())
            .map(|leaf| (leaf.module.as_str(), leaf.offset));
        let near = samples.near(&leaves.collect());
        let (mut expected, mut most, mut cpu) = (0.0, 0.0, (0.0, 0.0));
        for (id, &lost) in of_thread {
            let (working, cpu_work) = samples.ran.get(id).copied().unwrap_or_default();
            let share = |n: f64| (n / samples.all(*id).max(1.0)).min(WAITING);
            let behind = near.get(id).copied().unwrap_or(0.0);
            let lost = share(lost);
            let with_behind = lost.max(share(behind));
            // Whether it is the same word for all makes no difference to the processor.
            let holds_up = fight == Fight::Atomic
                || (fight == Fight::Neighbours && self.is_atomic(*id, lanes));
            let goes = match holds_up {
                true => ATOMIC * with_behind * (lost + with_behind) / 2.0,
                false => EXPECTED * lost * lost,
            };
            let parts = (on_cpus(view) * goes, with_behind);
            // Who needs a processor for less time waits less for one.
            expected += parts.0 * working;
            most += parts.1 * working;
            cpu.0 += parts.0 * cpu_work;
            cpu.1 += parts.1 * cpu_work;
        }
        let at_once = of_thread.len().min(view.workers_at_once).max(1) as f64;
        let n: f64 = of_thread.values().sum();
        Saving {
            expected: expected / at_once,
            most: most / at_once,
            sure: if n >= MANY { SURE } else { 0.0 },
            cpu,
        }
    }

    fn evidence(
        &self,
        view: &RunView,
        lanes: &Lanes,
        first: &Fought,
        lost: f64,
        all: f64,
    ) -> Vec<Evidence> {
        // Not less than what is lost: of many threads it is known of the first ones whose samples they are.
        let n = self.uses().map(|used| used.n).sum::<u64>().max(lost as u64);
        let data = match self.others.len() {
            0 => data(first),
            _ => "these".into(),
        };
        let mut list = vec![
            evidence(
                "line_samples",
                n as f64,
                format!("{n} of {all:.0} samples of these threads were at instructions that touch {data}"),
            ),
            evidence(
                "lost_samples",
                lost,
                format!("{lost:.0} of them at most can be due to what the others write there"),
            ),
            evidence(
                "turns",
                first.line.turns as f64,
                format!(
                    "of {} samples in a row, {} found another thread there than the one before: they use it at the same time",
                    first.line.samples, first.line.turns
                ),
            ),
            evidence("offsets", self.lost.len() as f64, offsets(view, lanes, first)),
        ];
        let threads = self.in_all(lanes);
        if threads > self.lost.len() {
            list.push(evidence(
                "threads",
                threads as f64,
                format!("one after the other it was {}", plural(threads, "thread")),
            ));
        }
        if self.fought.len() > 1 {
            list.push(evidence(
                "lines",
                self.fought.len() as f64,
                format!(
                    "{} in all, this one most",
                    plural(self.fought.len(), "cache line")
                ),
            ));
        }
        list
    }
}

/// Time that threads spend where they exclude one another: a line that is used only there is no fight.
struct Guards<'a> {
    view: &'a RunView<'a>,
    /// Share of its CPU time that each thread holds a lock.
    held: BTreeMap<ObjectId, BTreeMap<ThreadId, f64>>,
    /// Samples in functions of locks, by the function that uses them, and in loops that wait for them.
    locking: BTreeMap<(ThreadId, FunctionKey<'a>), f64>,
}

impl<'a> Guards<'a> {
    fn of(view: &'a RunView<'a>, lanes: &Lanes, samples: &Samples) -> Self {
        let mut held: BTreeMap<ObjectId, BTreeMap<ThreadId, f64>> = BTreeMap::new();
        for used in &view.model.uses {
            let id = lanes.first(used.thread);
            let (_, running) = samples.ran.get(&id).copied().unwrap_or_default();
            let of_lock = held.entry(used.object).or_default();
            *of_lock.entry(id).or_default() += used.hold_total_ns() / running.max(1.0);
        }
        let mut locking: BTreeMap<_, f64> = BTreeMap::new();
        for (slice, site) in view.model.samples() {
            let locks = site.is_some_and(|site| site.sync == Some(SyncCode::Lock));
            if locks || slice.spin.is_some() {
                let function = slice.site.and_then(|site| view.shown(site));
                let function = function.map_or_else(FunctionKey::default, |frame| frame.key());
                let key = (lanes.first(slice.thread), function);
                *locking.entry(key).or_default() += slice.n as f64;
            }
        }
        Self {
            view,
            held,
            locking,
        }
    }

    /// Whether so much of what these threads do is done under locks that the line may be what they guard. A lock that is
    /// taken for a short section costs as much as the section. One that only one of them takes guards nothing from the others.
    fn explain(
        &self,
        lost: &BTreeMap<ThreadId, f64>,
        own: &[&LineUse],
        lanes: &Lanes,
        samples: &Samples,
    ) -> bool {
        let own: BTreeSet<_> = own
            .iter()
            .filter_map(|used| {
                let frame = self.view.shown(used.site?)?;
                Some((lanes.first(used.thread), frame.key()))
            })
            .collect();
        let locking = self.locking.iter();
        let locking = locking.filter(|(key, _)| lost.contains_key(&key.0) && !own.contains(key));
        let locking: f64 = locking.map(|(_, n)| n).sum();
        let held = self.held.values().map(|of_lock| {
            let by = of_lock.iter().filter(|(id, _)| lost.contains_key(id));
            match by.clone().count() {
                0 | 1 => 0.0,
                _ => by.map(|(id, held)| held * samples.all(*id)).sum(),
            }
        });
        let at_line: f64 = lost.values().sum();
        held.sum::<f64>() + locking >= GUARDED * at_line
    }
}
