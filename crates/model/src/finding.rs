//! What an analysis says: findings, ranked by predicted gain.

use convoy_estimate::{combine, Agreement, Check, Estimate, Interval, Method, WhatIf};
use serde::Serialize;

use crate::{FindingId, GroupId, LoopId, NameId, ObjectId, ProcessId, SiteId, ThreadId};

/// Something that keeps the program from running in parallel, with evidence and a way out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// How it was recognized, and of which bottleneck it is a sign: documented in docs/findings.md.
    pub id: FindingId,
    /// What it is about.
    #[serde(skip)]
    pub subject: Subject,
    /// One line: subject by name, and what is wrong.
    pub title: String,
    /// Numbers that support it, most important first.
    pub evidence: Vec<Evidence>,
    /// The rows of SyncPerf's Table 1 that remain possible, most likely first. One = decided.
    pub causes: Vec<Cause>,
    /// What would decide between the causes, empty when there is one.
    pub undecided: String,
    /// What fixing it would buy.
    pub gain: Gain,
    /// Share of the thread time of the threads concerned that is lost to it, 0..1.
    pub share_of_thread_time: f64,
    /// Remarks that limit what was said ("4 threads on 2 CPUs: ...").
    pub caveats: Vec<String>,
}

/// What a finding is about. Ids point into the model that was analysed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One object.
    Object(ObjectId),
    /// Locks that are acquired at the same sites (fine-grained locks of one kind).
    Objects(Vec<ObjectId>),
    /// One call stack on one object.
    Site(ObjectId, SiteId),
    /// A thread group.
    Group(GroupId),
    /// Several groups of one process (a pipeline).
    Groups(Vec<GroupId>),
    /// A thread.
    Thread(ThreadId),
    /// Code that runs or waits: one call stack of those that go through the same functions.
    Code(SiteId),
    /// A loop that waits on the processor: index into [`crate::Sched::loops`].
    Loop(LoopId),
    /// Processes that are one parallel program (MPI ranks).
    Processes(Vec<ProcessId>),
    /// A file, pipe or socket: index into [`crate::Sched::names`], and where it is read or written.
    File(NameId, SiteId),
    /// The program as a whole.
    Run,
}

impl Subject {
    /// An object, at one call stack if that is known.
    pub fn object_at(object: ObjectId, site: Option<SiteId>) -> Self {
        site.map_or(Self::Object(object), |site| Self::Site(object, site))
    }

    /// The objects that it is about; none if it is about something else.
    pub fn objects(&self) -> &[ObjectId] {
        match self {
            Self::Object(id) | Self::Site(id, _) => std::slice::from_ref(id),
            Self::Objects(ids) => ids,
            _ => &[],
        }
    }
}

/// A number with its name and unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// snake_case with the unit as suffix: `wait_ns`, `contention_ratio`, `frequency_hz`, ...
    pub key: &'static str,
    /// The value, in that unit.
    pub value: f64,
    /// For people, e.g. "waits took 41 % of the time of 8 worker threads".
    pub text: String,
}

/// A row of SyncPerf's Table 1 (or one of ours), and the fix that it calls for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Stable kebab-case id.
    pub id: &'static str,
    /// The root cause in words.
    pub text: String,
    /// What to do, at which file:line.
    pub fix: String,
}

/// A predicted change of the program's throughput, as a ratio: 1.0 = none, 2.0 = twice as fast.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Pessimistic.
    pub low: f64,
    /// Expected.
    pub mid: f64,
    /// Bound; infinite: none is known.
    pub high: f64,
    /// How it was predicted, in a few words.
    pub method: String,
    /// What limits it next ("2 CPUs are busy 97 % of the time", "lock B is held 80 % of the time").
    pub limited_by: String,
    /// What each method says, the accounting of this run first; empty while only that has spoken. See
    /// [`Gain::refine`].
    #[serde(skip)]
    pub estimates: Vec<Estimate>,
}

impl Gain {
    /// No gain to be had.
    pub fn none(method: &str, why: &str) -> Self {
        Self {
            low: 1.0,
            mid: 1.0,
            high: 1.0,
            method: method.into(),
            limited_by: why.into(),
            estimates: Vec::new(),
        }
    }

    /// The accounting's own estimate, of the change that the finding's fix comes to.
    pub fn accounting(&self, what_if: WhatIf) -> Estimate {
        Estimate {
            method: Method::Accounting,
            what_if,
            gain: Interval {
                low: self.low,
                mid: self.mid,
                high: self.high.is_finite().then_some(self.high),
            },
            assumption: self.method.clone(),
            check: Check::None,
        }
    }

    /// Takes in what methods say of other changes than the one that the finding's fix comes to: to
    /// be shown beside it, not to be combined with it.
    pub fn note(&mut self, others: Vec<Estimate>) {
        if self.estimates.is_empty() && !others.is_empty() {
            self.estimates.push(self.accounting(WhatIf::Fix));
        }
        self.estimates.extend(others);
    }

    /// Takes in what other methods say of the same change, and shows what all of them allow together.
    /// Methods that contradict one another stay in [`Gain::estimates`], to be shown as such; the
    /// answer says whether they agree.
    pub fn refine(&mut self, others: Vec<Estimate>) -> Option<Agreement> {
        let what_if = others.first()?.what_if.clone();
        if self.estimates.is_empty() {
            self.estimates.push(self.accounting(what_if.clone()));
        }
        self.estimates.extend(others);
        let combined = combine(&self.estimates, &what_if)?;
        self.low = combined.gain.low;
        self.mid = combined.gain.mid;
        self.high = combined.gain.high.unwrap_or(f64::INFINITY);
        Some(combined.agreement)
    }
}

/// A shorter run is mostly the start of a program, of which nothing is worth parallelizing, and has
/// too few samples to name code: nothing is recommended. Nanoseconds. Ours: six samples of each CPU
/// at the default period.
pub const SHORTEST_RUN_NS: f64 = 20e6;

/// A bound that is so large says nothing of the program: it is what the arithmetic allows.
const LARGEST_BOUND: f64 = 20.0;
/// Bound over expectation up to which it says something all the same.
const LARGEST_SPREAD: f64 = 4.0;

impl Gain {
    /// No bound instead of one that nothing measured supports ("at most 281x" on two CPUs).
    fn without_empty_bound(&mut self) {
        if self.high > LARGEST_BOUND && self.high > LARGEST_SPREAD * self.mid {
            self.high = f64::INFINITY;
        }
    }
}

/// Splits findings into those worth a person's time and those that are not, each most gain first.
pub fn rank(
    mut all: Vec<Finding>,
    worth: impl Fn(&Finding) -> bool,
) -> (Vec<Finding>, Vec<Finding>) {
    all.iter_mut().for_each(|f| f.gain.without_empty_bound());
    all.sort_by(|a, b| {
        let key = |f: &Finding| [f.gain.mid, f.gain.high, f.share_of_thread_time];
        let (a_key, b_key) = (key(a), key(b));
        let order = a_key
            .iter()
            .zip(&b_key)
            .map(|(a, b)| b.total_cmp(a))
            .find(|o| o.is_ne());
        order
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| a.title.cmp(&b.title))
    });
    all.into_iter().partition(worth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_that_promises_the_impossible_is_none() {
        let high = |mid, high| {
            let mut gain = Gain {
                mid,
                high,
                ..Gain::none("", "")
            };
            gain.without_empty_bound();
            gain.high
        };
        assert_eq!(high(1.4, 281.0), f64::INFINITY);
        assert_eq!(high(8.0, 12.0), 12.0, "a large gain has a large bound");
        assert_eq!(high(1.1, 9.0), 9.0);
    }
}
