//! Threads that hand over messages of a few bytes through pipes and sockets, a call for each: what the calls cost is more than what
//! is done with a message.
//!
//! Only what flows one way can be gathered. Who asks and waits for the answer has nothing more to send meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{CallSamples, FindingId, FunctionKey, GroupId, NameId, OffReason, ThreadId};

use super::place::{Cpu, Entering, Place, Time};
use super::COLD;
use super::SAMPLES;
use super::SHARE;
use super::SMALL_BITS;
use crate::estimate::saving::{goes_with_larger_pieces, Saving, COLD_NS};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::knowledge::programs;
use crate::tables::paths::most;
use crate::words::{cause, evidence, time};

/// A single byte is no message: it is a token, wakes somebody, or is read so by a shell that must not read more.
const TOKEN_BITS: u8 = 1;
/// Waits that are a habit, and share of a thread's waits for messages that one other thread has to end to be waited for.
const HABIT: u64 = 20;
const AWAITED: f64 = 0.05;
/// Share of a thread's waits for messages of which nobody knows who ended them, from which on it may be an answer.
const UNKNOWN: f64 = 0.5;
/// A read with a large buffer gets what there is: with larger messages it gets more, how much more nobody knows.
const OF_LARGE_READS: f64 = 0.5;
/// Share of the expected gain that is sure.
const SURE: f64 = 0.2;
/// Places that are told.
const PLACES: usize = 4;
const METHOD: &str = "time in the calls, and waits for one another, gone";

/// Calls of one function of one thread.
struct Part {
    place: Place,
    thread: ThreadId,
    calls: Time,
    /// With a large buffer.
    large: bool,
}

/// What is said, and of which groups.
pub(crate) fn findings(cx: &RunFacts) -> Vec<(BTreeSet<GroupId>, Finding)> {
    let view = cx.view;
    let cpu = Cpu::of(view);
    let flow = Flow::of(view);
    let parts = parts(view, &cpu).into_iter();
    let parts: Vec<Part> = parts
        .filter(|part| !is_script(view, part.thread) && !flow.asks(view, part.thread))
        .collect();
    let sends = |part: &Part| !part.large && !part.place.reads;
    let senders: BTreeSet<ThreadId> = parts
        .iter()
        .filter(|p| sends(p))
        .map(|p| p.thread)
        .collect();
    let mut chains: BTreeMap<ThreadId, Vec<Part>> = BTreeMap::new();
    for part in parts {
        // A large buffer is of interest only where small messages come.
        let fed = || flow.peers(part.thread).any(|peer| senders.contains(&peer));
        if !part.large || fed() {
            chains
                .entry(flow.chain(part.thread))
                .or_default()
                .push(part);
        }
    }
    let found = chains.into_values().filter_map(|parts| {
        let chain = Chain(parts);
        let groups = chain.threads().iter().map(|id| view.role(*id)).collect();
        Some((groups, chain.finding(&cpu, &flow)?))
    });
    found.collect()
}

fn parts(view: &RunView, cpu: &Cpu) -> Vec<Part> {
    let entering = Entering::of(view);
    let mut places: BTreeMap<(ThreadId, bool, bool, FunctionKey), Place> = BTreeMap::new();
    // What is asked and answered at one socket says nothing of what goes elsewhere.
    let talks = talks(view);
    let is_message = |row: &&CallSamples| {
        row.size_class > TOKEN_BITS
            && is_stream(view, row.name)
            && !talks.contains(&(row.thread, row.name))
    };
    for row in view.sched.writes.iter().filter(is_message) {
        let large = row.size_class > SMALL_BITS;
        let (Some(name), Some(site)) = (row.name, row.site) else {
            continue;
        };
        if large && !row.reads {
            continue;
        }
        let function = view.shown(site).map(|frame| frame.key());
        let key = (row.thread, row.reads, large, function.unwrap_or_default());
        places.entry(key).or_default().add(row, site, name);
    }
    let part = |((thread, _, large, _), mut place): ((ThreadId, bool, bool, _), Place)| {
        place.grow(entering.factor(view, &place));
        Part {
            calls: cpu.time(&place.of_thread),
            place,
            thread,
            large,
        }
    };
    places.into_iter().map(part).collect()
}

/// Pipes, and sockets on which one byte follows the other: what two messages are nobody but the program knows.
fn is_stream(view: &RunView, name: Option<NameId>) -> bool {
    const STREAMS: [&str; 3] = ["pipe:", "socket: tcp", "socket: unix"];
    let name = view.file_name(name);
    name.is_some_and(|name| STREAMS.iter().any(|of| name.starts_with(of)))
}

/// What a script writes is a line for each command that it runs, and a shell gathers nothing.
fn is_script(view: &RunView, id: ThreadId) -> bool {
    let process = view.process_at(view.process(id));
    process.is_some_and(programs::is_shell)
}

/// Who waits for whom at pipes and sockets.
struct Flow {
    /// Whose messages, or questions, a thread waits for, and how often.
    awaited: BTreeMap<ThreadId, BTreeMap<ThreadId, u64>>,
    /// Waits for messages of which nobody knows who ended them.
    unknown: BTreeMap<ThreadId, u64>,
    /// Time that a thread waits for each other, for messages or for room, nanoseconds.
    waited: BTreeMap<ThreadId, BTreeMap<ThreadId, f64>>,
    /// Threads that hand over to one another are called by the first of them.
    chains: BTreeMap<ThreadId, ThreadId>,
}

impl Flow {
    fn of(view: &RunView) -> Self {
        let mut this = Self {
            awaited: BTreeMap::new(),
            unknown: BTreeMap::new(),
            waited: BTreeMap::new(),
            chains: BTreeMap::new(),
        };
        let writes = view.sched.writes.iter().filter(|row| !row.reads);
        let written: BTreeSet<_> = writes.map(|row| (row.thread, row.site)).collect();
        for wake in &view.sched.wakes {
            let Some(off) = view.sched.off(wake.off) else {
                continue;
            };
            if !matches!(
                off.reason,
                OffReason::Pipe | OffReason::Socket | OffReason::Poll
            ) {
                continue;
            }
            let for_room = written.contains(&(off.thread, off.site));
            match wake.waker {
                convoy_model::Waker::Thread(waker, _) if waker != off.thread => {
                    let of = this.waited.entry(off.thread).or_default();
                    *of.entry(waker).or_default() += wake.wait_ns as f64;
                    this.join(off.thread, waker);
                    if !for_room {
                        let of = this.awaited.entry(off.thread).or_default();
                        *of.entry(waker).or_default() += wake.n;
                    }
                }
                _ if !for_room => *this.unknown.entry(off.thread).or_default() += wake.n,
                _ => {}
            }
        }
        this
    }

    fn chain(&self, id: ThreadId) -> ThreadId {
        let mut at = id;
        while let Some(&next) = self.chains.get(&at) {
            at = next;
        }
        at
    }

    fn join(&mut self, a: ThreadId, b: ThreadId) {
        let (a, b) = (self.chain(a), self.chain(b));
        if a != b {
            self.chains.insert(a.max(b), a.min(b));
        }
    }

    /// Whose messages a thread waits for as a habit.
    fn peers(&self, id: ThreadId) -> impl Iterator<Item = ThreadId> + '_ {
        let of = self.awaited.get(&id);
        let all: u64 = of.map_or(0, |of| of.values().sum());
        let of = of.into_iter().flatten();
        of.filter(move |(_, n)| **n >= HABIT && **n as f64 >= AWAITED * all as f64)
            .map(|(id, _)| *id)
    }

    /// Whether a thread sends what others answer, or answers what others send: in the end it waits for itself, or nobody knows.
    fn asks(&self, view: &RunView, id: ThreadId) -> bool {
        let known: u64 = self.awaited.get(&id).map_or(0, |of| of.values().sum());
        let unknown = self.unknown.get(&id).copied().unwrap_or(0);
        let mut rows = view.sched.writes.iter();
        let may_ask = unknown >= HABIT
            && unknown as f64 >= UNKNOWN * (known + unknown) as f64
            && rows.any(|row| row.thread == id && !row.reads && is_stream(view, row.name));
        if may_ask {
            return true;
        }
        let mut seen = BTreeSet::new();
        let mut next: Vec<ThreadId> = self.peers(id).collect();
        while let Some(at) = next.pop() {
            if at == id {
                return true;
            }
            if seen.insert(at) {
                next.extend(self.peers(at));
            }
        }
        false
    }

    /// Time that a thread waits for these others.
    fn waited_for(&self, id: ThreadId, others: &BTreeSet<ThreadId>) -> f64 {
        let of = self.waited.get(&id).into_iter().flatten();
        of.filter(|(other, _)| others.contains(other))
            .map(|(_, ns)| ns)
            .sum()
    }
}

/// Threads that read from a socket and write to one of the same name: there they talk to whoever is at its other end.
fn talks(view: &RunView) -> BTreeSet<(ThreadId, Option<NameId>)> {
    let is_socket = |row: &&CallSamples| {
        let name = view.file_name(row.name);
        name.is_some_and(|name| name.starts_with("socket:"))
    };
    let mut ways: BTreeMap<(ThreadId, Option<NameId>), (bool, bool)> = BTreeMap::new();
    for row in view.sched.writes.iter().filter(is_socket) {
        let (reads, writes) = ways.entry((row.thread, row.name)).or_default();
        *reads |= row.reads;
        *writes |= !row.reads;
    }
    let both = ways.into_iter().filter(|(_, ways)| ways.0 && ways.1);
    both.map(|(of, _)| of).collect()
}

/// Calls of threads that hand over to one another.
struct Chain(Vec<Part>);

impl Chain {
    fn threads(&self) -> BTreeSet<ThreadId> {
        self.0.iter().map(|part| part.thread).collect()
    }

    fn finding(mut self, cpu: &Cpu, flow: &Flow) -> Option<Finding> {
        let view = cpu.view;
        self.0.sort_by(|a, b| b.calls.cpu.total_cmp(&a.calls.cpu));
        let threads = self.threads();
        let of_threads: f64 = threads.iter().filter_map(|id| cpu.all.get(id)).sum();
        let samples: f64 = self.0.iter().map(|part| part.place.all).sum();
        let share = (samples / of_threads.max(1.0)).min(1.0);
        let sent = self.0.iter().find(|part| !part.place.reads);
        let first = sent.or_else(|| self.0.iter().find(|part| !part.large))?;
        if samples < SAMPLES || share < SHARE {
            return None;
        }
        let saving = self.saving(view, flow, share);
        let gain = saving.gain(view, METHOD, "the work between the calls");
        if gain.mid < view.t.gain_mid {
            return None;
        }
        let site = most(first.place.sites.clone())?;
        let verb = if first.place.reads { "read" } else { "write" };
        let title = format!(
            "{} pass messages of a few bytes, most {verb} some {:.0} bytes a call at {}: the calls take {} of their CPU time",
            plural(threads.len(), "thread"),
            first.place.mean_bytes(),
            view.place(Some(site)),
            percent(share),
        );
        let places = |reads: bool| {
            let of = self.0.iter().filter(|part| part.place.reads == reads);
            let mut places: Vec<_> = of
                .map(|part| view.place(most(part.place.sites.clone())))
                .collect();
            places.dedup();
            places.truncate(2);
            (!places.is_empty()).then(|| places.join(" and at "))
        };
        let write = places(false).map(|at| {
            format!("gather some hundred messages in a buffer at {at} and write them at once")
        });
        let read = places(true)
            .map(|at| format!("read some 64 KB at once at {at}, and take the messages from there"));
        let fixes: Vec<_> = write.into_iter().chain(read).collect();
        Some(Finding {
            id: FindingId::SmallWrites,
            subject: Subject::Code(site),
            title,
            evidence: self.evidence(view, of_threads),
            causes: vec![cause(
                "message-per-call",
                "a call for one message costs nearly as much as one for hundreds, and so does waking who waits for it",
                fixes.join("; "),
            )],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: vec![
                "what is still in a buffer comes late: write it when there is nothing more to do, too".into(),
            ],
        })
    }

    /// What is left is the longest that one of them takes without its calls and without waiting for the others, or another thread.
    fn saving(&self, view: &RunView, flow: &Flow, share: f64) -> Saving {
        let threads = self.threads();
        let part = goes_with_larger_pieces(share);
        let goes = |calls: &Part| {
            let goes = part * calls.place.goes();
            goes * if calls.large { OF_LARGE_READS } else { 1.0 }
        };
        let sum = |of: &dyn Fn(&Part) -> f64| self.0.iter().map(of).sum::<f64>();
        let expected = sum(&|part| goes(part) * part.calls.cpu);
        // Who has a processor the sooner, as the others need it less.
        let queue = (1.0 - expected / view.cpu_work.max(1.0)).max(0.0);
        let (mut cold, mut longest, mut left) = (0.0, 0.0_f64, (0.0_f64, 0.0_f64));
        for id in &threads {
            let Some(th) = view.threads.get(id) else {
                continue;
            };
            let own = |of: &dyn Fn(&Part) -> f64| {
                let parts = self.0.iter().filter(|part| part.thread == *id);
                parts.map(of).sum::<f64>()
            };
            let (running, active) = (th.running_ns as f64, th.active_ns() as f64);
            let waits = th.life_ns() as f64 - active - flow.waited_for(*id, &threads);
            let gone = own(&|part| goes(part) * part.calls.cpu);
            let queued = (active - running) * (1.0 - gone / running.max(1.0)) * queue;
            let most = own(&|part| part.calls.cpu);
            let after = th.slices as f64 * COLD_NS + COLD * most;
            let after = after.min((running - most).max(0.0) / 2.0);
            longest = longest.max(th.life_ns() as f64);
            left.0 = left.0.max(waits.max(0.0) + running - gone + queued);
            left.1 = left.1.max(waits.max(0.0) + running - most - after);
            cold += after;
        }
        let cpu = (expected, sum(&|part| part.calls.cpu) + cold);
        let others = view.workers.iter().filter(|id| !threads.contains(id));
        let others = others.filter_map(|id| view.threads.get(id));
        let others = others.map(|th| th.cpu_work_ns() as f64).fold(0.0, f64::max);
        Saving {
            expected: (longest - left.0.max(others)).max(0.0),
            most: (longest - left.1.max(others)).max(0.0),
            sure: SURE,
            cpu,
        }
    }

    fn evidence(&self, view: &RunView, of_threads: f64) -> Vec<convoy_model::finding::Evidence> {
        let mut list = Vec::new();
        for part in self.0.iter().take(PLACES) {
            let (place, reads) = (&part.place, part.place.reads);
            let name = view.file_name(most(place.files.clone()));
            let how_much = match part.large {
                true => "whatever there is".into(),
                false => format!("less than {} bytes", 1 << SMALL_BITS),
            };
            list.push(evidence(
                if reads { "read_samples" } else { "write_samples" },
                place.all,
                format!(
                    "{:.0} of {of_threads:.0} samples of these threads were in calls that {} {how_much} at {} ({})",
                    place.all,
                    if reads { "read" } else { "write" },
                    view.place(most(place.sites.clone())),
                    name.unwrap_or_default(),
                ),
            ));
            let key = if reads { "read_ns" } else { "write_ns" };
            list.push(time(key, part.calls.cpu, "of CPU time in them"));
        }
        list
    }
}
