//! A short recording of the scheduler, as the search uses it: samples by call stack, and waits by
//! reason. It says which functions are worth a probe.

use std::collections::{BTreeMap, BTreeSet};

use crate::focus::{Focus, ThreadName};
use crate::thread::group_of;

/// A function that has as much of its caller's time as this stands for it: a step that only passes
/// the call on is not measured.
const PASSES_ON: f64 = 0.9;

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// For people.
    pub name: String,
    /// The file that it is in.
    pub module: String,
    /// An address in it, in the numbering of that file.
    pub offset: u64,
}

/// A thread, and what the scheduler saw of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A reason for a wait, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitReason {
    /// Files, disks, memory that is read in.
    Io,
    /// A futex in a function that waits for a condition, a barrier, a semaphore or a thread's end.
    Event,
    /// A futex of something else: perhaps a lock.
    Futex,
    /// Sockets, pipes, timers, signals, child processes.
    Outside,
}

/// Waits of one thread at one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedWait {
    /// Index into [`Recorded::threads`].
    pub thread: usize,
    /// Why; `None` = the kernel did not say.
    pub reason: Option<WaitReason>,
    /// Index into [`Recorded::places`].
    pub place: Option<usize>,
    /// The file; empty = not known.
    pub file: String,
    /// Their sum, nanoseconds.
    pub ns: u64,
}

/// A call stack of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// Index into [`Recorded::threads`].
    pub thread: usize,
    /// Indices into [`Recorded::places`], the outermost first.
    pub frames: Vec<usize>,
    /// Samples.
    pub samples: u64,
}

/// A recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// Its length, seconds.
    pub seconds: f64,
    /// The functions.
    pub places: Vec<Place>,
    /// The threads.
    pub threads: Vec<RecordedThread>,
    /// The samples.
    pub stacks: Vec<Stack>,
    /// The waits.
    pub waits: Vec<RecordedWait>,
}

/// A function that is called by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Index into [`Recorded::places`].
    pub place: usize,
    /// Functions on the way to it that only pass the call on, the outermost first.
    pub through: Vec<usize>,
    /// Samples in it or what it calls.
    pub samples: u64,
}

impl RecordedThread {
    fn is_in(&self, focus: &Focus) -> bool {
        let group = group_of(&self.name);
        // One process is searched.
        focus.holds(&ThreadName {
            tid: self.tid,
            name: &self.name,
            group: &group,
            pid: 0,
            process: "",
        })
    }
}

impl Recorded {
    /// Samples of the threads in a focus.
    pub fn samples(&self, focus: &Focus) -> u64 {
        self.stacks_in(focus).map(|stack| stack.samples).sum()
    }

    fn stacks_in<'a>(&'a self, focus: &'a Focus) -> impl Iterator<Item = &'a Stack> {
        let is_in: Vec<bool> = self.threads.iter().map(|t| t.is_in(focus)).collect();
        let stacks = self.stacks.iter();
        stacks.filter(move |stack| is_in.get(stack.thread).copied().unwrap_or(false))
    }

    /// Samples of these threads in a function or what it calls.
    pub fn inclusive(&self, focus: &Focus, place: usize) -> u64 {
        let stacks = self.stacks_in(focus);
        let stacks = stacks.filter(|stack| stack.frames.contains(&place));
        stacks.map(|stack| stack.samples).sum()
    }

    /// The functions that a function calls itself in these threads, those with most samples
    /// first. Without a function: the outermost ones.
    pub fn callees(&self, focus: &Focus, caller: Option<usize>) -> Vec<Called> {
        let direct = self.direct(focus, caller).into_keys();
        let mut all: BTreeMap<usize, Called> = BTreeMap::new();
        for place in direct {
            let called = self.skip(focus, place, caller);
            all.entry(called.place).or_insert(called);
        }
        let mut all: Vec<Called> = all.into_values().collect();
        all.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.place.cmp(&b.place)));
        all
    }

    /// Samples by what a function calls; of a recursive one, what its innermost call calls. Each
    /// sample counts once at most.
    fn direct(&self, focus: &Focus, caller: Option<usize>) -> BTreeMap<usize, u64> {
        let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
        for stack in self.stacks_in(focus) {
            let callee = match caller {
                None => Some(0),
                Some(caller) => {
                    let last = stack.frames.iter().rposition(|place| *place == caller);
                    last.map(|at| at + 1)
                }
            };
            if let Some(place) = callee.and_then(|at| stack.frames.get(at)) {
                *sums.entry(*place).or_default() += stack.samples;
            }
        }
        sums
    }

    /// Goes down from a function as long as one callee has nearly all of its time.
    fn skip(&self, focus: &Focus, first: usize, caller: Option<usize>) -> Called {
        let mut called = Called {
            place: first,
            through: Vec::new(),
            samples: self.inclusive(focus, first),
        };
        let mut seen: BTreeSet<usize> = caller.into_iter().chain([first]).collect();
        loop {
            let direct = self.direct(focus, Some(called.place)).into_iter();
            let most = direct.max_by_key(|(_, n)| *n);
            let Some((next, n)) = most else { return called };
            if (n as f64) < PASSES_ON * called.samples as f64 || !seen.insert(next) {
                return called;
            }
            called.through.push(called.place);
            called.place = next;
            called.samples = self.inclusive(focus, next);
        }
    }

    /// Time that the threads in a focus wait for a reason, threads' time per second.
    pub fn wait(&self, focus: &Focus, reason: WaitReason) -> f64 {
        self.sum_waits(focus, reason, |_| true)
    }

    /// The same at one place.
    pub fn wait_at(&self, focus: &Focus, reason: WaitReason, place: usize) -> f64 {
        self.sum_waits(focus, reason, |wait| wait.place == Some(place))
    }

    /// The same for one file.
    pub fn wait_for(&self, focus: &Focus, reason: WaitReason, file: &str) -> f64 {
        self.sum_waits(focus, reason, |wait| wait.file == file)
    }

    /// Places at which threads in a focus wait for a reason.
    pub fn places(&self, focus: &Focus, reason: WaitReason) -> BTreeSet<usize> {
        let waits = self.waits_in(focus);
        let waits = waits.filter(|wait| wait.reason == Some(reason));
        waits.filter_map(|wait| wait.place).collect()
    }

    /// Files that they wait for.
    pub fn files(&self, focus: &Focus, reason: WaitReason) -> BTreeSet<String> {
        let waits = self.waits_in(focus);
        let waits = waits.filter(|wait| wait.reason == Some(reason) && !wait.file.is_empty());
        waits.map(|wait| wait.file.clone()).collect()
    }

    fn waits_in<'a>(&'a self, focus: &'a Focus) -> impl Iterator<Item = &'a RecordedWait> {
        let is_in: Vec<bool> = self.threads.iter().map(|t| t.is_in(focus)).collect();
        let waits = self.waits.iter();
        waits.filter(move |wait| is_in.get(wait.thread).copied().unwrap_or(false))
    }

    fn sum_waits(
        &self,
        focus: &Focus,
        reason: WaitReason,
        is_meant: impl Fn(&RecordedWait) -> bool,
    ) -> f64 {
        let waits = self.waits_in(focus);
        let waits = waits.filter(|wait| wait.reason == Some(reason) && is_meant(wait));
        let ns = waits.map(|wait| wait.ns).fold(0, u64::saturating_add);
        match self.seconds > 0.0 {
            true => ns as f64 / 1e9 / self.seconds,
            false => 0.0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::focus::Key;

    /// Functions by name; one thread of a pool and another one.
    pub(crate) fn recorded(stacks: &[(usize, &[&str], u64)]) -> Recorded {
        let mut all = Recorded {
            seconds: 2.0,
            ..Recorded::default()
        };
        for (tid, name) in [(1, "main"), (2, "pool-1")] {
            all.threads.push(RecordedThread {
                tid,
                name: name.into(),
            });
        }
        for (thread, names, samples) in stacks {
            let mut frames = Vec::new();
            for name in *names {
                let found = all.places.iter().position(|place| place.name == *name);
                frames.push(found.unwrap_or_else(|| {
                    all.places.push(Place {
                        name: (*name).into(),
                        ..Place::default()
                    });
                    all.places.len() - 1
                }));
            }
            all.stacks.push(Stack {
                thread: *thread,
                frames,
                samples: *samples,
            });
        }
        all
    }

    fn names(all: &Recorded, called: &[Called]) -> Vec<(String, u64)> {
        let name = |c: &Called| (all.places[c.place].name.clone(), c.samples);
        called.iter().map(name).collect()
    }

    #[test]
    fn functions_that_pass_the_call_on_are_skipped() {
        let all = recorded(&[
            (1, &["start", "work", "parse"], 30),
            (1, &["start", "work", "hash"], 70),
            (0, &["main", "poll"], 50),
        ]);
        let pool = Focus::new().with(Key::Group, "pool-#");
        let outermost = all.callees(&pool, None);
        assert_eq!(names(&all, &outermost), [("work".into(), 100)]);
        assert_eq!(outermost[0].through, [0], "start is on the way");
        let below = all.callees(&pool, Some(outermost[0].place));
        assert_eq!(
            names(&all, &below),
            [("hash".into(), 70), ("parse".into(), 30)]
        );
        assert_eq!(all.samples(&pool), 100);
    }

    #[test]
    fn a_recursive_function_keeps_its_own_time() {
        let all = recorded(&[
            (0, &["main", "eval", "call", "eval", "add"], 40),
            (0, &["main", "eval", "call", "eval"], 60),
        ]);
        let top = all.callees(&Focus::new(), None);
        assert_eq!(names(&all, &top), [("eval".into(), 100)]);
        let below = all.callees(&Focus::new(), Some(top[0].place));
        assert_eq!(names(&all, &below), [("add".into(), 40)]);
    }

    #[test]
    fn waits_are_threads_time_per_second() {
        let mut all = recorded(&[]);
        for (thread, file) in [(1, "a.db"), (1, "b.db"), (0, "a.db")] {
            all.waits.push(RecordedWait {
                thread,
                reason: Some(WaitReason::Io),
                place: None,
                file: file.into(),
                ns: 1_000_000_000,
            });
        }
        let (io, whole) = (WaitReason::Io, Focus::new());
        assert_eq!(all.wait(&whole, io), 1.5);
        assert_eq!(all.wait(&whole, WaitReason::Futex), 0.0);
        assert_eq!(all.wait_for(&whole, io, "a.db"), 1.0);
        let pool = Focus::new().with(Key::Thread, "pool-*");
        assert_eq!(all.wait(&pool, io), 1.0);
        assert_eq!(all.files(&pool, io).len(), 2);
    }
}
