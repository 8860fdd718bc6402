//! Threads that fight for cache lines without a lock: atomic counters, reference counts, neighbours in an array.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Cause, Evidence, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{FunctionKey, LineUse, ProcessId, SiteId, SyncCode, ThreadId};

use super::Context;
use crate::gain::Saving;
use crate::lanes::Lanes;
use crate::levels::at_least;
use crate::lines::{fought, Fight, Fought};
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Samples that a finding needs, and from which on the evidence is strong.
const SAMPLES: f64 = 20.0;
const MANY: f64 = 100.0;
/// Part of the time at the line that goes if no other thread wants it, of a thread that does nothing else. Of other work the
/// processor computes as much meanwhile, unseen, as there is: the smaller the share of the line, the less of it is expected.
const EXPECTED: f64 = 0.85;
/// Of what threads run at the line at most so much is waiting for it: the rest is what they do meanwhile, or would have to do. Measured
/// with hardly anything else to do: 0.85 to 0.96.
const WAITING: f64 = 0.96;
/// Of the time in which two threads or more are at work, the least in which two have processors: taking turns on one, they
/// take nothing from each other. With less of it, less is expected; the bound is that of a machine of one's own.
const ON_CPUS: f64 = 0.1;
/// Code around the instructions that waits for them as well, bytes: at most its time goes, too.
const BEHIND: u64 = 64;
/// Share of the expected gain that is sure where the evidence is strong.
const SURE: f64 = 0.1;
/// Time in critical sections over time at the line, from which on the line may be what a lock guards.
const GUARDED: f64 = 0.5;
const METHOD: &str = "samples at instructions that touch the line, as far as others write to it";

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    let view = cx.view;
    if on_cpus(view) < ON_CPUS {
        return Vec::new();
    }
    let lanes = Lanes::of(view);
    let samples = Samples::of(view, &lanes);
    let mut places: BTreeMap<(ProcessId, Fight, FunctionKey), Place> = BTreeMap::new();
    for fought in fought(view, &lanes) {
        let function = hottest(&fought)
            .and_then(|site| view.shown(site))
            .map_or_else(FunctionKey::default, |frame| frame.key());
        let key = (fought.line.process, fought.fight, function);
        places.entry(key).or_default().add(fought);
    }
    let guards = Guards::of(view, &lanes, &samples);
    let places = places
        .into_iter()
        .map(|((process, fight, _), place)| (process, fight, place));
    let found = joined(places.collect()).into_iter();
    found
        .filter_map(|(fight, place)| place.finding(view, fight, &lanes, &samples, &guards))
        .collect()
}

/// Atomics that the same threads fight for are one finding: with one of them gone they come back to the others the sooner.
fn joined(mut places: Vec<(ProcessId, Fight, Place)>) -> Vec<(Fight, Place)> {
    places.sort_by(|(_, _, a), (_, _, b)| b.n().total_cmp(&a.n()));
    let mut all: Vec<(ProcessId, Fight, Place)> = Vec::new();
    for (process, fight, place) in places {
        let joins = |with: &&mut (ProcessId, Fight, Place)| {
            fight == Fight::Atomic
                && (with.0, with.1) == (process, fight)
                && place.n() >= SAMPLES
                && with.2.lost.keys().eq(place.lost.keys())
        };
        match all.iter_mut().find(joins) {
            Some(with) => with.2.others.push(place),
            None => all.push((process, fight, place)),
        }
    }
    let all = all.into_iter();
    all.map(|(_, fight, place)| (fight, place)).collect()
}

/// Of the time in which two threads or more are at work, that in which two have processors.
fn on_cpus(view: &View) -> f64 {
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
    fn of(view: &View<'a>, lanes: &Lanes) -> Self {
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

/// The call stack with most samples at the line.
fn hottest(fought: &Fought) -> Option<SiteId> {
    let mut sites = BTreeMap::new();
    for used in &fought.uses {
        if let Some(site) = used.site {
            *sites.entry(site).or_default() += used.n as f64;
        }
    }
    most(sites)
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

    fn uses(&self) -> impl Iterator<Item = &'a LineUse> + '_ {
        let others = self.others.iter().flat_map(|other| &other.fought);
        let fought = self.fought.iter().chain(others);
        fought.flat_map(|fought| fought.uses.iter().copied())
    }

    /// The line with most samples, and where they are.
    fn first(&self) -> Option<(&Fought<'a>, SiteId)> {
        let first = self.fought.iter().max_by_key(|f| f.line.samples)?;
        Some((first, hottest(first)?))
    }

    fn add(&mut self, fought: Fought<'a>) {
        for (&id, n) in &fought.lost {
            *self.lost.entry(id).or_default() += n;
        }
        self.fought.push(fought);
    }

    fn finding(
        self,
        view: &View,
        fight: Fight,
        lanes: &Lanes,
        samples: &Samples,
        guards: &Guards,
    ) -> Option<Finding> {
        let of_thread = self.lost_in_all();
        let lost: f64 = of_thread.values().sum();
        let all: f64 = of_thread.keys().map(|id| samples.all(*id)).sum();
        let share = (lost / all.max(1.0)).min(1.0);
        if lost < SAMPLES || (fight != Fight::Atomic && guards.explain(&of_thread, samples)) {
            return None;
        }
        let gain = self
            .saving(view, &of_thread, samples)
            .gain(view, METHOD, "the work itself");
        // Nobody waits: that much time passes at a line says nothing if none of it is expected to go.
        if gain.mid < view.t.gain_mid {
            return None;
        }
        let (first, site) = self.first()?;
        let mut words = Words::of(view, fight, first, site);
        let mut caveats = vec![
            "samples tell where time passes, not what the processor computes meanwhile: the gain may be anything in its interval"
                .into(),
        ];
        for other in &self.others {
            let (first, site) = other.first()?;
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
        let in_all = lanes.members(|first| of_thread.contains_key(&first)).len();
        let threads = match in_all > of_thread.len() {
            true => format!("{} at a time", plural(of_thread.len(), "thread")),
            false => plural(in_all, "thread"),
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
        view: &View,
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
            let parts = (
                EXPECTED * on_cpus(view) * lost * lost,
                lost.max(share(behind)),
            );
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
        view: &View,
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
        let threads = lanes.members(|first| self.lost.contains_key(&first)).len();
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

/// What the bytes are called.
fn data(fought: &Fought) -> String {
    match fought.line.symbol.as_str() {
        "" => format!("{:#x} (heap or stack)", fought.line.address),
        symbol => symbol.to_owned(),
    }
}

/// Which bytes of the line each thread uses.
fn offsets(view: &View, lanes: &Lanes, fought: &Fought) -> String {
    /// Threads that are listed.
    const LISTED: usize = 8;
    let mut of_thread: BTreeMap<ThreadId, BTreeMap<(u8, u8), u64>> = BTreeMap::new();
    for used in &fought.uses {
        let bytes = (
            used.offset,
            used.offset.saturating_add(used.size.saturating_sub(1)),
        );
        *of_thread
            .entry(lanes.first(used.thread))
            .or_default()
            .entry(bytes)
            .or_default() += used.n;
    }
    let name = |id: &ThreadId| match view.thread(*id) {
        Some(thread) if !thread.name.is_empty() => format!("{} ({})", thread.name, thread.tid),
        Some(thread) => format!("thread {}", thread.tid),
        None => "a thread".into(),
    };
    let most_used = |bytes: &BTreeMap<(u8, u8), u64>| {
        let most = bytes.iter().max_by_key(|(_, n)| **n);
        most.map_or((0, 0), |(bytes, _)| *bytes)
    };
    let listed = of_thread.iter().take(LISTED).map(|(id, bytes)| {
        let (first, last) = most_used(bytes);
        format!("{} most at bytes {first} to {last}", name(id))
    });
    let listed: Vec<String> = listed.collect();
    format!("in the line: {}", listed.join(", "))
}

/// How a fight is told.
struct Words {
    id: &'static str,
    title: String,
    cause: Cause,
}

impl Words {
    fn of(view: &View, fight: Fight, first: &Fought, site: SiteId) -> Self {
        let (place, data) = (view.place(Some(site)), data(first));
        let (id, title, because, why, fix) = match fight {
            Fight::Atomic if counts_references(view, site) => (
                "contended-atomic",
                format!("change the reference count {data} at {place}"),
                "shared-reference-count",
                "each copy of a shared pointer and the end of each changes the same count, which goes from processor to processor",
                format!("pass a reference instead of a copy at {place}, or copy the pointer once per thread and not once per item"),
            ),
            Fight::Atomic => (
                "contended-atomic",
                format!("change the same atomic {data} at {place}"),
                "shared-atomic",
                "every change takes the cache line away from the others, and each waits for it",
                format!("at {place} count in a variable per thread and add up when it is read (sharding), or add several steps at once"),
            ),
            Fight::Plain => (
                "contended-line",
                format!("read and write the same bytes of {data} at {place}"),
                "true-sharing",
                "data that several threads use and some write goes from processor to processor with each write",
                format!("at {place} work on a copy per thread and write it back once for many steps"),
            ),
            Fight::Neighbours => (
                "false-sharing",
                format!("use neighbouring bytes of one cache line, {data}, at {place}"),
                "false-sharing",
                "each thread has its own data, but they are in one cache line, which goes from processor to processor with each write",
                format!("keep the data of {place} of each thread 64 bytes apart (alignas(64), #[repr(align(64))], CachePadded), or in local variables until the end"),
            ),
        };
        let cause = cause(because, why, fix);
        Self { id, title, cause }
    }
}

/// Whether the code is that of a shared pointer.
fn counts_references(view: &View, site: SiteId) -> bool {
    const NAMES: [&str; 5] = [
        "sync::Arc<",
        "shared_ptr",
        "_Sp_counted",
        "shared_count",
        "Arc::",
    ];
    let site = view.model.site(site);
    let mut frames = site.into_iter().flat_map(|site| &site.frames);
    // Up to the function that was compiled: whoever called it copied something else.
    let compiled = frames.clone().position(|frame| !frame.inlined).unwrap_or(0);
    frames
        .by_ref()
        .take(compiled + 1)
        .any(|frame| NAMES.iter().any(|name| frame.function.contains(name)))
}

/// Time that threads spend where they exclude one another: a line that is used only there is no fight.
struct Guards {
    /// Share of its CPU time that each thread holds locks that others take as well.
    held: BTreeMap<ThreadId, f64>,
    /// Samples in functions of locks, and in loops that wait for them.
    locking: BTreeMap<ThreadId, f64>,
}

impl Guards {
    fn of(view: &View, lanes: &Lanes, samples: &Samples) -> Self {
        let mut users: BTreeMap<_, BTreeSet<ThreadId>> = BTreeMap::new();
        for used in &view.model.uses {
            users.entry(used.object).or_default().insert(used.thread);
        }
        let mut held: BTreeMap<ThreadId, f64> = BTreeMap::new();
        for used in &view.model.uses {
            if users.get(&used.object).is_some_and(|of| of.len() > 1) {
                *held.entry(lanes.first(used.thread)).or_default() += used.hold_total_ns();
            }
        }
        for (id, held) in &mut held {
            let (_, running) = samples.ran.get(id).copied().unwrap_or_default();
            *held /= running.max(1.0);
        }
        let mut locking: BTreeMap<ThreadId, f64> = BTreeMap::new();
        for (slice, site) in view.model.samples() {
            let locks = site.is_some_and(|site| site.sync == Some(SyncCode::Lock));
            if locks || slice.spin.is_some() {
                *locking.entry(lanes.first(slice.thread)).or_default() += slice.n as f64;
            }
        }
        Self { held, locking }
    }

    /// Whether so much of what these threads do is done under locks that the line may be what they guard. A lock that is
    /// taken for a short section costs as much as the section.
    fn explain(&self, lost: &BTreeMap<ThreadId, f64>, samples: &Samples) -> bool {
        let n = |of: &BTreeMap<ThreadId, f64>, id| of.get(id).copied().unwrap_or(0.0);
        let at_line: f64 = lost.values().sum();
        let under: f64 = lost
            .keys()
            .map(|id| n(&self.held, id) * samples.all(*id) + n(&self.locking, id))
            .sum();
        under >= GUARDED * at_line
    }
}
