//! Refinements of a focus along the resource tree: by thread, by object, by file, by function.

use std::collections::BTreeSet;

use crate::focus::{Focus, Key};
use crate::metric::{Kind, Metric};
use crate::request::Request;
use crate::search::history::{History, Time};
use crate::search::hypothesis::Hypothesis;
use crate::search::recorded::{Place, Recorded, WaitReason};
use crate::search::share::{Share, Verdict};
use crate::search::tree::{Candidate, Outcome, Resource};

/// A focus of which the outcome is known without a test.
pub type Tested = (Candidate, Outcome);

/// What a focus is a share of, and the threshold.
#[derive(Debug, Clone, Copy)]
pub struct Axes<'a> {
    /// Of threads and locks.
    pub history: &'a History,
    /// Samples and waits.
    pub recorded: Option<&'a Recorded>,
    /// Share from which a focus is true.
    pub threshold: f64,
}

fn candidate(resource: Resource, label: impl Into<String>, focus: Focus) -> Candidate {
    Candidate {
        resource,
        label: label.into(),
        through: Vec::new(),
        focus,
        request: None,
        expected: None,
        tag: None,
    }
}

impl Axes<'_> {
    /// The groups of a program, or the threads of a group. A single one is not told apart.
    pub fn by_thread(&self, hypothesis: Hypothesis, focus: &Focus) -> Vec<Tested> {
        let threads = self.threads();
        let new = match focus.get(Key::Group) {
            None => {
                let groups: BTreeSet<&str> = threads.iter().map(|t| t.2.as_str()).collect();
                let named = groups.into_iter();
                let one = |group: &str| {
                    let label = match threads.iter().filter(|t| t.2 == group).count() {
                        1 => group.to_owned(),
                        n => format!("{group} ({n} threads)"),
                    };
                    (
                        Resource::Group,
                        label,
                        focus.clone().with(Key::Group, group),
                    )
                };
                named.map(one).collect::<Vec<_>>()
            }
            Some(group) => {
                let members = threads.iter().filter(|thread| thread.2 == group);
                let one = |(tid, name, _): &(u32, String, String)| {
                    let narrowed = focus.clone().with(Key::Thread, tid.to_string());
                    (Resource::Thread, format!("{name} ({tid})"), narrowed)
                };
                members.map(one).collect()
            }
        };
        if new.len() < 2 {
            return Vec::new();
        }
        let new = new.into_iter().map(|(resource, label, focus)| {
            let outcome = self.of_threads(hypothesis, &focus);
            (candidate(resource, label, focus), outcome)
        });
        new.collect()
    }

    /// Number, name and group of all threads.
    fn threads(&self) -> Vec<(u32, String, String)> {
        let threads = self.history.threads().into_iter();
        threads
            .map(|t| (t.tid, t.name.clone(), t.group.clone()))
            .collect()
    }

    fn of_threads(&self, hypothesis: Hypothesis, focus: &Focus) -> Outcome {
        let series = hypothesis.measured().and_then(|time| {
            let pairs = self.pairs(time, focus);
            Share::of_intervals(&pairs).map(|share| (share, pairs))
        });
        if let Some((share, pairs)) = series {
            return Outcome::measured(share, &pairs, self.threshold);
        }
        match (hypothesis.recorded(), self.recorded) {
            (Some(reason), Some(recorded)) => {
                let whole = recorded.wait(&Focus::new(), reason);
                Outcome::exact(recorded.wait(focus, reason), whole, self.threshold)
            }
            _ => Outcome::unknown("nothing was measured"),
        }
    }

    fn pairs(&self, time: Time, focus: &Focus) -> Vec<(f64, f64)> {
        let parts = self.history.series(time, focus).into_iter();
        let wholes = self.history.series(time, &Focus::new());
        let pairs = parts.zip(wholes);
        pairs.filter_map(|(part, whole)| part.zip(whole)).collect()
    }

    /// Locks, or other objects that threads wait for.
    pub fn by_object(&self, hypothesis: Hypothesis, focus: &Focus) -> Vec<Tested> {
        let excludes = hypothesis == Hypothesis::WaitsForLocks;
        let objects = self.history.objects(excludes).into_iter();
        let new = objects.map(|object| {
            let address = format!("{:#x}", object.address);
            let focus = focus.clone().with(Key::Lock, address);
            let outcome = self.of_threads(hypothesis, &focus);
            (candidate(Resource::Object, &object.name, focus), outcome)
        });
        new.collect()
    }

    /// Files and functions of recorded waits.
    pub fn by_wait(&self, reason: WaitReason, focus: &Focus) -> Vec<Tested> {
        let Some(recorded) = self.recorded else {
            return Vec::new();
        };
        let whole = recorded.wait(&Focus::new(), reason);
        let outcome = |value| Outcome::exact(value, whole, self.threshold);
        let files = recorded.files(focus, reason).into_iter().map(|file| {
            let value = recorded.wait_for(focus, reason, &file);
            (
                candidate(Resource::File, file, focus.clone()),
                outcome(value),
            )
        });
        let places = recorded.places(focus, reason).into_iter();
        let functions = places.filter_map(|ix| {
            let place = recorded.places.get(ix)?;
            let narrowed = focus.clone().with(Key::Function, &place.name);
            let value = recorded.wait_at(focus, reason, ix);
            let new = candidate(Resource::Function, &place.name, narrowed);
            Some((new, outcome(value)))
        });
        files.chain(functions).collect()
    }

    /// Functions that take CPU time in the threads of a focus: the outermost ones, or the callees
    /// of one. What cannot be probed has an outcome by its samples already.
    pub fn by_function(
        &self,
        focus: &Focus,
        caller: Option<usize>,
        resolve: &dyn Fn(&Place) -> Option<Focus>,
    ) -> (Vec<Candidate>, Vec<Tested>) {
        let (mut to_test, mut tested) = (Vec::new(), Vec::new());
        let Some(recorded) = self.recorded else {
            return (to_test, tested);
        };
        let all = recorded.samples(&Focus::new()) as f64;
        let name = |ix: &usize| recorded.places.get(*ix).map(|place| place.name.clone());
        for called in recorded.callees(focus, caller) {
            let Some(place) = recorded.places.get(called.place) else {
                continue;
            };
            let share = Share::of_samples(called.samples as f64, all);
            let mut new = candidate(Resource::Function, &place.name, focus.clone());
            new.through = called.through.iter().filter_map(name).collect();
            new.expected = share;
            new.tag = Some(called.place);
            match resolve(place) {
                Some(function) => {
                    new.focus = join(&function, focus);
                    new.request = Request::new(Metric::Cpu, new.focus.clone()).ok();
                    to_test.push(new);
                }
                None => {
                    new.focus = focus.clone().with(Key::Function, &place.name);
                    let gap = "code that was compiled at run time has no probes";
                    let outcome = Outcome::sampled(share, self.threshold, gap);
                    tested.push((new, outcome));
                }
            }
        }
        (to_test, tested)
    }
}

/// Functions of which no sample is known, in the threads of a focus: what each is called, and by
/// which focus.
pub fn unsampled(functions: Vec<(String, Focus)>, threads: &Focus) -> Vec<Candidate> {
    let new = functions.into_iter().map(|(name, function)| {
        let mut new = candidate(Resource::Function, name, join(&function, threads));
        new.request = Request::new(Metric::Cpu, new.focus.clone()).ok();
        new
    });
    new.collect()
}

/// The threads of a focus, whatever function it names.
pub fn threads_of(focus: &Focus) -> Focus {
    join(&Focus::new(), focus)
}

/// A function in the threads of a focus.
fn join(function: &Focus, threads: &Focus) -> Focus {
    let mut joined = function.clone();
    for key in [Key::Group, Key::Thread, Key::Process] {
        if let Some(value) = threads.get(key) {
            joined = joined.with(key, value);
        }
    }
    joined
}

impl Outcome {
    /// What samples say where no probe does, for a reason.
    pub fn sampled(share: Option<Share>, threshold: f64, why: impl Into<String>) -> Self {
        let verdict = share.map_or(Verdict::Unknown, |share| share.verdict(threshold));
        Self {
            verdict,
            value: None,
            share,
            kind: Kind::Sampled,
            cost_share: 0.0,
            gap: Some(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::history::tests::history;
    use crate::search::recorded::tests::recorded;

    fn verdicts(tested: &[Tested]) -> Vec<(&str, Verdict)> {
        let all = tested.iter();
        all.map(|(c, o)| (c.label.as_str(), o.verdict)).collect()
    }

    use Verdict::{False, True};

    #[test]
    fn groups_then_threads_share_the_time_of_the_program() {
        let history = history(4, true);
        let axes = Axes {
            history: &history,
            recorded: None,
            threshold: 0.2,
        };
        let groups = axes.by_thread(Hypothesis::CpuBound, &Focus::new());
        assert_eq!(verdicts(&groups), [("main", False), ("pool-#", True)]);
        let pool = &groups[1].0.focus;
        let threads = axes.by_thread(Hypothesis::CpuBound, pool);
        assert!(threads.is_empty(), "one thread is its group");
    }

    #[test]
    fn objects_share_the_waits_of_their_kind() {
        let history = history(4, true);
        let axes = Axes {
            history: &history,
            recorded: None,
            threshold: 0.2,
        };
        let locks = axes.by_object(Hypothesis::WaitsForLocks, &Focus::new());
        assert_eq!(locks.len(), 1);
        assert_eq!(locks[0].1.share.unwrap().mean, 1.0);
        assert_eq!(locks[0].0.focus.to_string(), r#"{lock="0x40"}"#);
    }

    #[test]
    fn functions_without_a_probe_are_judged_by_their_samples() {
        let samples: [(usize, &[&str], u64); 2] =
            [(1, &["work", "f"], 300), (1, &["work", "jit"], 700)];
        let recorded = recorded(&samples);
        let history = History::default();
        let axes = Axes {
            history: &history,
            recorded: Some(&recorded),
            threshold: 0.2,
        };
        let resolve = |place: &Place| {
            (place.name != "jit").then(|| Focus::new().with(Key::Function, &place.name))
        };
        let pool = Focus::new().with(Key::Group, "pool-#");
        let (outermost, _) = axes.by_function(&pool, None, &resolve);
        assert_eq!(outermost[0].label, "work");
        let request = outermost[0].request.as_ref().unwrap().to_string();
        assert_eq!(request, r#"cpu{function="work", group="pool-#"}"#);
        let (to_test, tested) = axes.by_function(&pool, outermost[0].tag, &resolve);
        assert_eq!(to_test[0].label, "f");
        assert!((to_test[0].expected.unwrap().mean - 0.3).abs() < 1e-9);
        assert_eq!(verdicts(&tested), [("jit", True)]);
        assert_eq!(tested[0].1.kind, Kind::Sampled);
    }
}
