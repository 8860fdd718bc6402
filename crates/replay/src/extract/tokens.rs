//! What waits on condition variables wait for: tokens, inferred from a recording.
//!
//! The predicate of a wait is not recorded. Two rules cover most programs:
//!
//! - *Queue*: the sections that wait on a condition variable all begin at some acquire sites, those that
//!   signal it at others, and there are about as many of the one as of the other. Then each section
//!   of the first kind takes a token (an item, or a free place), waited or not, and each section of
//!   the second kind gives one: the k-th get needs the k-th put. Tokens at the start are the least
//!   number with which the recorded order was possible (the tightest lag). Sections that begin at
//!   one site and wait on different condition variables (each thread has its own) are no such gets.
//! - *Phase*: otherwise a wait needs the signal that ended it in the recording: at least so many signals
//!   have been given. This keeps the recorded order and is right for flags and phases.
//!
//! A wait that no signal of the process ended (a timer, another process) has no rule.

use std::collections::{BTreeMap, BTreeSet};

use convoy_trace::{Event, Kind, Recording, SiteIx, ThreadIx, Window};

use super::ObjectMap;
use crate::program::{Channel, ChannelIx, CondIx, LockIx, Need};

/// An event: its thread, and its index there.
type At = (ThreadIx, usize);

/// The inferred rules, by event.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub channels: Vec<Channel>,
    needs: BTreeMap<At, Need>,
    gets: BTreeMap<At, (CondIx, Need)>,
    posts_at_release: BTreeMap<At, ChannelIx>,
    posts_at_signal: BTreeMap<At, ChannelIx>,
}

impl Tokens {
    /// What the wait that begins with this event waits for; `None` = no rule fits.
    pub fn need(&self, thread: ThreadIx, wait: usize) -> Option<Need> {
        self.needs.get(&(thread, wait)).copied()
    }

    /// The token that the section of this acquire takes without having waited for it.
    pub fn get_without_wait(&self, thread: ThreadIx, acquire: usize) -> Option<(CondIx, Need)> {
        self.gets.get(&(thread, acquire)).copied()
    }

    /// Where the section that ends with this release gives a token.
    pub fn post_at_release(&self, thread: ThreadIx, release: usize) -> Option<ChannelIx> {
        self.posts_at_release.get(&(thread, release)).copied()
    }

    /// Where this signal itself is the token.
    pub fn post_at_signal(&self, thread: ThreadIx, signal: usize) -> Option<ChannelIx> {
        self.posts_at_signal.get(&(thread, signal)).copied()
    }
}

/// A critical section, as far as condition variables go.
#[derive(Debug, Clone, Default)]
struct Section {
    thread: ThreadIx,
    lock: LockIx,
    site: SiteIx,
    acquire: usize,
    /// When it had the lock for good: after its last wait.
    passed_ns: u64,
    release: Option<usize>,
    waits: Vec<(CondIx, usize)>,
    signals: Vec<CondIx>,
}

/// A signal or broadcast.
#[derive(Debug, Clone, Copy)]
struct SignalAt {
    at_ns: u64,
    event: At,
}

/// Gets and puts of a queue may differ in number by what the queue holds.
const MOST_IN_QUEUE: usize = 64;
/// ... or by this share of them.
const IMBALANCE: f64 = 0.2;

/// Infers the rules of all condition variables in a window.
pub(super) fn infer(recording: &Recording, window: Window, objects: &ObjectMap) -> Tokens {
    let mut seen = Seen::default();
    for thread in 0..recording.threads.len() as ThreadIx {
        seen.thread(recording, thread, window, objects);
    }
    let mut tokens = Tokens::default();
    for (cond, lock) in seen.locks_of_conds() {
        if !seen.queue(cond, lock, &mut tokens) {
            seen.phase(recording, cond, &mut tokens);
        }
    }
    tokens
}

#[derive(Debug, Default)]
struct Seen {
    sections: Vec<Section>,
    signals: BTreeMap<CondIx, Vec<SignalAt>>,
    /// Waits: condition variable, mutex, begin.
    waits: Vec<(CondIx, LockIx, At)>,
}

impl Seen {
    fn thread(
        &mut self,
        recording: &Recording,
        thread: ThreadIx,
        window: Window,
        objects: &ObjectMap,
    ) {
        let thread_events = &recording.threads[thread as usize];
        let (events, within) = (&thread_events.events, thread_events.in_window(window));
        // A wait that goes on when the window begins belongs to it.
        let begin = within.start.saturating_sub(1);
        let end = within.end;
        let mut open: Vec<Section> = Vec::new();
        let mut last_closed: BTreeMap<LockIx, usize> = BTreeMap::new();
        for (i, event) in events.iter().enumerate().take(end).skip(begin) {
            match event.kind {
                Kind::Acquired | Kind::AcquiredAfterWait | Kind::TryAcquired => {
                    let Some(lock) = objects.lock(event.object) else {
                        continue;
                    };
                    open.push(Section {
                        thread,
                        lock,
                        site: event.site,
                        acquire: i,
                        passed_ns: event.at_ns,
                        ..Section::default()
                    });
                }
                Kind::Released => {
                    let lock = objects.lock(event.object);
                    let Some(at) = open.iter().rposition(|s| Some(s.lock) == lock) else {
                        continue;
                    };
                    let mut section = open.remove(at);
                    section.release = Some(i);
                    last_closed.insert(section.lock, self.sections.len());
                    self.sections.push(section);
                }
                Kind::CondWait => {
                    let mutex = objects.lock(event.arg as u32);
                    let Some((cond, lock)) = objects.cond(event.object).zip(mutex) else {
                        continue;
                    };
                    self.waits.push((cond, lock, (thread, i)));
                    if let Some(section) = open.iter_mut().rfind(|s| s.lock == lock) {
                        section.waits.push((cond, i));
                    }
                }
                Kind::CondWoken => {
                    let lock = objects.lock(event.arg as u32);
                    if let Some(section) = open.iter_mut().rfind(|s| Some(s.lock) == lock) {
                        section.passed_ns = event.at_ns;
                    }
                }
                Kind::Signal | Kind::Broadcast => {
                    let Some(cond) = objects.cond(event.object) else {
                        continue;
                    };
                    self.signals.entry(cond).or_default().push(SignalAt {
                        at_ns: event.at_ns,
                        event: (thread, i),
                    });
                    // Given inside of the section, or right after it.
                    match open.last_mut() {
                        Some(section) => section.signals.push(cond),
                        None => {
                            let latest = last_closed.values().max().copied();
                            if let Some(section) = latest.and_then(|ix| self.sections.get_mut(ix)) {
                                section.signals.push(cond);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        self.sections.append(&mut open);
    }

    /// The mutex that each condition variable is used with: the one of most waits.
    fn locks_of_conds(&self) -> BTreeMap<CondIx, LockIx> {
        let mut counts: BTreeMap<CondIx, BTreeMap<LockIx, usize>> = BTreeMap::new();
        for (cond, lock, _) in &self.waits {
            *counts.entry(*cond).or_default().entry(*lock).or_default() += 1;
        }
        counts
            .into_iter()
            .filter_map(|(cond, locks)| {
                let most = locks.into_iter().max_by_key(|(lock, n)| (*n, *lock))?;
                Some((cond, most.0))
            })
            .collect()
    }

    /// Tries the rule of queues.
    fn queue(&self, cond: CondIx, lock: LockIx, tokens: &mut Tokens) -> bool {
        let of_lock = || self.sections.iter().filter(|s| s.lock == lock);
        let waits = |s: &Section| s.waits.iter().any(|(c, _)| *c == cond);
        let signals = |s: &Section| s.signals.contains(&cond);
        let get_sites: BTreeSet<SiteIx> = of_lock().filter(|s| waits(s)).map(|s| s.site).collect();
        let put_sites: BTreeSet<SiteIx> =
            of_lock().filter(|s| signals(s)).map(|s| s.site).collect();
        if get_sites.is_empty() || put_sites.is_empty() || !get_sites.is_disjoint(&put_sites) {
            return false;
        }
        let gets: Vec<&Section> = of_lock().filter(|s| get_sites.contains(&s.site)).collect();
        let puts: Vec<&Section> = of_lock().filter(|s| put_sites.contains(&s.site)).collect();
        if gets.iter().any(|s| s.waits.iter().any(|(c, _)| *c != cond)) {
            // One condition variable for each thread or request: where a section begins does not
            // tell which of them it would have waited on.
            return false;
        }
        let difference = gets.len().abs_diff(puts.len());
        let allowed = (IMBALANCE * gets.len().min(puts.len()) as f64) as usize;
        if difference > allowed.max(MOST_IN_QUEUE) || puts.len() < 2 {
            return false;
        }
        let channel = tokens.channels.len() as ChannelIx;
        let at_start = tightest_lag(&gets, &puts);
        tokens.channels.push(Channel { tokens: at_start });
        for section in gets {
            let need = Need::Token(channel);
            let mut own = section.waits.iter().filter(|(c, _)| *c == cond);
            match own.next() {
                Some((_, first)) => {
                    tokens.needs.insert((section.thread, *first), need);
                    for (_, again) in own {
                        tokens.needs.insert((section.thread, *again), need);
                    }
                }
                None => {
                    let acquire = (section.thread, section.acquire);
                    tokens.gets.insert(acquire, (cond, need));
                }
            }
        }
        for section in puts {
            if let Some(release) = section.release {
                let at = (section.thread, release);
                tokens.posts_at_release.insert(at, channel);
            }
        }
        true
    }

    /// Applies the rule of phases.
    fn phase(&self, recording: &Recording, cond: CondIx, tokens: &mut Tokens) {
        let mut signals = self.signals.get(&cond).cloned().unwrap_or_default();
        signals.sort_unstable_by_key(|s| (s.at_ns, s.event));
        let channel = tokens.channels.len() as ChannelIx;
        tokens.channels.push(Channel::default());
        for signal in &signals {
            tokens.posts_at_signal.insert(signal.event, channel);
        }
        for (_, _, (thread, wait)) in self.waits.iter().filter(|(c, ..)| *c == cond) {
            let events = &recording.threads[*thread as usize].events;
            let Some(woken) = woken(events, *wait) else {
                continue;
            };
            let before = signals.partition_point(|s| s.at_ns <= woken.at_ns);
            let within = signals[..before].last();
            if within.is_some_and(|s| s.at_ns >= events[*wait].at_ns) {
                let need = Need::Count(channel, before as u32);
                tokens.needs.insert((*thread, *wait), need);
            }
        }
    }
}

/// The end of a wait, unless a timer ended it.
fn woken(events: &[Event], wait: usize) -> Option<&Event> {
    let after = events.get(wait + 1..)?.iter();
    let mut rest = after.filter(|e| !e.kind.is_reading());
    rest.next().filter(|e| e.kind == Kind::CondWoken)
}

/// Tokens that must be there at the start for the recorded order to be possible.
fn tightest_lag(gets: &[&Section], puts: &[&Section]) -> u32 {
    let mut steps: Vec<(u64, i64)> = gets.iter().map(|s| (s.passed_ns, -1)).collect();
    steps.extend(puts.iter().map(|s| (s.passed_ns, 1)));
    // A put comes before a get of the same nanosecond.
    steps.sort_unstable_by_key(|(at, step)| (*at, -step));
    let mut level = 0i64;
    let mut lowest = 0i64;
    for (_, step) in steps {
        level += step;
        lowest = lowest.min(level);
    }
    lowest.unsigned_abs() as u32
}
