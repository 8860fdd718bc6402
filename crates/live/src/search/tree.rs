//! The search: a tree of foci below each hypothesis. What is true is refined; the most promising
//! foci are tested first, as many as the limits allow (Hollingsworth and Miller, Dynamic Control of
//! Performance Monitoring on Large Scale Parallel Systems, ICS 1993: the W3 search).

use std::collections::BTreeMap;

use crate::focus::Focus;
use crate::metric::Kind;
use crate::request::Request;
use crate::search::hypothesis::Hypothesis;
use crate::search::share::{Share, Verdict};

/// Names a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// What the last step of a focus narrows it down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// The whole program.
    Program,
    /// A thread group.
    Group,
    /// A thread.
    Thread,
    /// A function, its callees included.
    Function,
    /// A lock or another object.
    Object,
    /// A function that holds a lock while others wait.
    Holder,
    /// A file.
    File,
}

impl Resource {
    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Group => "group",
            Self::Thread => "thread",
            Self::Function => "function",
            Self::Object => "lock",
            Self::Holder => "holder",
            Self::File => "file",
        }
    }
}

/// A focus that is to be tested.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// What is new in it.
    pub resource: Resource,
    /// The name of that, for people.
    pub label: String,
    /// Functions between the parent and this one that only pass the call on.
    pub through: Vec<String>,
    /// The focus.
    pub focus: Focus,
    /// What measures it; `None` = it is known already.
    pub request: Option<Request>,
    /// Its share as far as it can be known without a measurement.
    pub expected: Option<Share>,
    /// A number of the caller's.
    pub tag: Option<usize>,
}

/// What a test found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Threads' time per second.
    pub value: Option<f64>,
    /// Of the time of its hypothesis; of a hypothesis itself, of [`super::Whole`].
    pub share: Option<Share>,
    /// How the value came about.
    pub kind: Kind,
    /// What its probes cost, as a share of the program's CPU time.
    pub cost_share: f64,
    /// Why it is not known, or not by a probe.
    pub gap: Option<String>,
}

/// A hypothesis about a focus.
#[derive(Debug, Clone)]
pub struct Node {
    /// The focus that this one narrows down.
    pub parent: Option<NodeId>,
    /// The hypothesis.
    pub hypothesis: Hypothesis,
    /// What is tested.
    pub candidate: Candidate,
    /// What was found; `None` = not tested.
    pub outcome: Option<Outcome>,
    /// Foci below it that are known to be too small for a test.
    pub left_out: BTreeMap<Resource, usize>,
    /// Children were proposed.
    is_refined: bool,
}

/// Limits of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Share of the time from which a hypothesis is true. Paradyn's is 20 %.
    pub threshold: f64,
    /// Foci that are tested in all.
    pub tests: usize,
    /// Foci that are tested at a time.
    pub at_a_time: usize,
    /// Refinements one below another.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            threshold: 0.2,
            tests: 120,
            at_a_time: 16,
            depth: 16,
        }
    }
}

/// A focus is tested where its expected share may reach this part of the threshold: expectations
/// are rough.
const WORTH_A_TEST: f64 = 0.5;

/// The search.
#[derive(Debug, Clone)]
pub struct Search {
    limits: Limits,
    nodes: Vec<Node>,
    tested: usize,
}

impl Search {
    /// Nothing is tested yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            nodes: Vec::new(),
            tested: 0,
        }
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A hypothesis about the whole program, with what was found.
    pub fn hypothesis(&mut self, hypothesis: Hypothesis, outcome: Outcome) -> NodeId {
        let candidate = Candidate {
            resource: Resource::Program,
            label: hypothesis.title().into(),
            through: Vec::new(),
            focus: Focus::new(),
            request: None,
            expected: None,
            tag: None,
        };
        let id = self.push(None, hypothesis, candidate);
        self.found(id, outcome);
        id
    }

    fn push(
        &mut self,
        parent: Option<NodeId>,
        hypothesis: Hypothesis,
        candidate: Candidate,
    ) -> NodeId {
        self.nodes.push(Node {
            parent,
            hypothesis,
            candidate,
            outcome: None,
            left_out: BTreeMap::new(),
            is_refined: false,
        });
        NodeId(self.nodes.len() - 1)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0)
    }

    /// The hypotheses about the whole program.
    pub fn roots(&self) -> Vec<NodeId> {
        self.below(None)
    }

    /// The foci below a node.
    pub fn children(&self, id: NodeId) -> Vec<NodeId> {
        self.below(Some(id))
    }

    fn below(&self, parent: Option<NodeId>) -> Vec<NodeId> {
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, node)| node.parent == parent);
        nodes.map(|(ix, _)| NodeId(ix)).collect()
    }

    /// The hypothesis that a node refines.
    pub fn root(&self, id: NodeId) -> NodeId {
        let parent = |id: &NodeId| self.node(*id).and_then(|node| node.parent);
        std::iter::successors(Some(id), parent).last().unwrap_or(id)
    }

    /// Refinements from a hypothesis to a node.
    pub fn depth(&self, id: NodeId) -> usize {
        let parent = |id: &NodeId| self.node(*id).and_then(|node| node.parent);
        std::iter::successors(Some(id), parent).count() - 1
    }

    /// A node that is true, or may be, whose children are not known yet. Each is given out once.
    pub fn to_refine(&mut self) -> Option<NodeId> {
        let depths: Vec<usize> = (0..self.nodes.len())
            .map(|ix| self.depth(NodeId(ix)))
            .collect();
        let mut nodes = self.nodes.iter_mut().enumerate();
        let (ix, node) = nodes.find(|(ix, node)| {
            !node.is_refined
                && node.is_worth_refining()
                && depths
                    .get(*ix)
                    .is_some_and(|depth| *depth < self.limits.depth)
        })?;
        node.is_refined = true;
        Some(NodeId(ix))
    }

    /// Proposes foci below a node. Those that are expected to be small are only counted; functions
    /// that are above the node are no news, and those that were tested below another one are known.
    pub fn refine(&mut self, id: NodeId, candidates: Vec<Candidate>) -> Vec<NodeId> {
        let Some(node) = self.node(id) else {
            return Vec::new();
        };
        let hypothesis = node.hypothesis;
        let least = self.limits.threshold * WORTH_A_TEST;
        let (worth, small): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .filter(|candidate| !self.is_cycle(id, candidate))
            .partition(|c| c.expected.is_none_or(|share| share.high >= least));
        if let Some(node) = self.nodes.get_mut(id.0) {
            for candidate in small {
                *node.left_out.entry(candidate.resource).or_default() += 1;
            }
        }
        let mut ids = Vec::new();
        for candidate in worth {
            let known = self.known_elsewhere(hypothesis, &candidate);
            let new = self.push(Some(id), hypothesis, candidate);
            if let (Some(node), Some(_)) = (self.nodes.get_mut(new.0), &known) {
                node.outcome = known;
                // What it calls is below the other one.
                node.is_refined = true;
            }
            ids.push(new);
        }
        ids
    }

    /// Whether a function is above a node already: functions that call one another.
    fn is_cycle(&self, id: NodeId, candidate: &Candidate) -> bool {
        let above = |id: &NodeId| self.node(*id).and_then(|node| node.parent);
        let mut path = std::iter::successors(Some(id), above).filter_map(|id| self.node(id));
        path.any(|node| node.candidate.is_function_of(candidate))
    }

    /// The outcome of a function that was tested below another caller: it is not told apart from
    /// this one.
    fn known_elsewhere(&self, hypothesis: Hypothesis, candidate: &Candidate) -> Option<Outcome> {
        let mut nodes = self.nodes.iter();
        let same = nodes.find(|node| {
            node.hypothesis == hypothesis
                && node.outcome.is_some()
                && node.candidate.is_function_of(candidate)
        })?;
        same.outcome.clone()
    }

    /// Adds foci below a node of which the outcome is known. Small ones are only counted.
    pub fn refine_known(&mut self, id: NodeId, tested: Vec<(Candidate, Outcome)>) -> Vec<NodeId> {
        let mut ids = Vec::new();
        for (mut candidate, outcome) in tested {
            candidate.expected = outcome.share;
            for new in self.refine(id, vec![candidate]) {
                self.found(new, outcome.clone());
                ids.push(new);
            }
        }
        ids
    }

    /// The foci to be tested now, the most promising first. Those of which nothing is expected
    /// come after those that are known to matter.
    pub fn next_batch(&self) -> Vec<NodeId> {
        let left = self.limits.tests.saturating_sub(self.tested);
        let nodes = self.nodes.iter().enumerate();
        let untested = nodes.filter(|(_, n)| n.outcome.is_none() && n.candidate.request.is_some());
        let mut ids: Vec<(f64, NodeId)> = untested
            .map(|(ix, node)| {
                let expected = node.candidate.expected.map(|share| share.mean);
                (expected.unwrap_or(0.0), NodeId(ix))
            })
            .collect();
        ids.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let ids = ids.into_iter().map(|(_, id)| id);
        ids.take(self.limits.at_a_time.min(left)).collect()
    }

    /// Takes the outcome of a test.
    pub fn found(&mut self, id: NodeId, outcome: Outcome) {
        if let Some(node) = self.nodes.get_mut(id.0) {
            self.tested += usize::from(node.candidate.request.is_some());
            node.outcome = Some(outcome);
        }
    }

    /// Foci for which there was no test left.
    pub fn untested(&self) -> usize {
        self.nodes.iter().filter(|n| n.outcome.is_none()).count()
    }
}

impl Candidate {
    /// Whether both are the same function, in the same threads.
    fn is_function_of(&self, other: &Self) -> bool {
        let is_function = |c: &Self| c.resource == Resource::Function;
        is_function(self) && is_function(other) && self.focus == other.focus
    }
}

impl Node {
    /// True, or measured itself where only the whole is uncertain.
    fn is_worth_refining(&self) -> bool {
        let is_possible = |outcome: &Outcome| match outcome.verdict {
            Verdict::True => true,
            Verdict::Unknown => outcome.kind == Kind::Inferred && outcome.value.is_some(),
            Verdict::False => false,
        };
        self.outcome.as_ref().is_some_and(is_possible)
    }

    /// The verdict; `None` = not tested.
    pub fn verdict(&self) -> Option<Verdict> {
        self.outcome.as_ref().map(|outcome| outcome.verdict)
    }

    /// Its share.
    pub fn mean(&self) -> Option<f64> {
        let share = self.outcome.as_ref()?.share?;
        Some(share.mean)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::focus::Key;

    pub(crate) fn outcome(mean: f64) -> Outcome {
        let share = Share::exact(mean);
        Outcome {
            verdict: share.verdict(0.2),
            value: Some(mean),
            share: Some(share),
            kind: Kind::Exact,
            cost_share: 0.0,
            gap: None,
        }
    }

    pub(crate) fn candidate(
        resource: Resource,
        key: Key,
        name: &str,
        expected: Option<f64>,
    ) -> Candidate {
        let focus = Focus::new().with(key, name);
        Candidate {
            resource,
            label: name.into(),
            through: Vec::new(),
            request: Request::new(crate::metric::Metric::Cpu, focus.clone()).ok(),
            focus,
            expected: expected.map(Share::exact),
            tag: None,
        }
    }

    pub(crate) fn function(name: &str, expected: f64) -> Candidate {
        candidate(Resource::Function, Key::Function, name, Some(expected))
    }

    fn labels(search: &Search, ids: &[NodeId]) -> Vec<String> {
        let label = |id: &NodeId| search.node(*id).unwrap().candidate.label.clone();
        ids.iter().map(label).collect()
    }

    #[test]
    fn only_what_is_true_is_refined_and_only_once() {
        let mut search = Search::new(Limits::default());
        let cpu = search.hypothesis(Hypothesis::CpuBound, outcome(0.9));
        search.hypothesis(Hypothesis::WaitsForLocks, outcome(0.1));
        assert_eq!(search.to_refine(), Some(cpu));
        assert_eq!(search.to_refine(), None);
    }

    #[test]
    fn a_measured_part_of_an_uncertain_whole_is_refined_too() {
        let unclear = Outcome {
            verdict: Verdict::Unknown,
            kind: Kind::Inferred,
            ..outcome(0.4)
        };
        let mut search = Search::new(Limits::default());
        let cpu = search.hypothesis(Hypothesis::CpuBound, unclear.clone());
        let unmeasured = Outcome {
            value: None,
            ..unclear
        };
        search.hypothesis(Hypothesis::WaitsForLocks, unmeasured);
        assert_eq!(search.to_refine(), Some(cpu));
        assert_eq!(search.to_refine(), None);
    }

    #[test]
    fn functions_that_call_one_another_are_tested_once() {
        let mut search = Search::new(Limits::default());
        let cpu = search.hypothesis(Hypothesis::CpuBound, outcome(0.9));
        let eval = search.refine(cpu, vec![function("eval", 0.9)])[0];
        search.found(eval, outcome(0.9));
        let below = search.refine(eval, vec![function("call", 0.8), function("eval", 0.9)]);
        assert_eq!(labels(&search, &below), ["call"], "not below itself");
        search.found(below[0], outcome(0.8));
        let back = search.refine(below[0], vec![function("eval", 0.9), function("add", 0.3)]);
        assert_eq!(labels(&search, &back), ["add"], "nor below what it calls");
        search.found(back[0], outcome(0.3));
        // Another caller of the same function takes what is known of it.
        let other = search.refine(eval, vec![function("add", 0.3)]);
        assert_eq!(search.node(other[0]).unwrap().mean(), Some(0.3));
        assert!(search.next_batch().is_empty());
        let refined: Vec<NodeId> = std::iter::from_fn(|| search.to_refine()).collect();
        assert!(!refined.contains(&other[0]));
    }

    #[test]
    fn the_most_promising_foci_are_tested_first() {
        let limits = Limits {
            at_a_time: 2,
            tests: 3,
            ..Limits::default()
        };
        let mut search = Search::new(limits);
        let cpu = search.hypothesis(Hypothesis::CpuBound, outcome(0.9));
        let all = vec![
            function("a", 0.3),
            function("b", 0.6),
            function("tiny", 0.01),
            candidate(Resource::Function, Key::Function, "unsampled", None),
            function("c", 0.25),
        ];
        search.refine(cpu, all);
        assert_eq!(
            search.node(cpu).unwrap().left_out[&Resource::Function],
            1,
            "tiny is not worth a test"
        );
        let first = search.next_batch();
        assert_eq!(labels(&search, &first), ["b", "a"]);
        for id in first {
            search.found(id, outcome(0.5));
        }
        let second = search.next_batch();
        assert_eq!(labels(&search, &second), ["c"], "three tests were allowed");
        search.found(second[0], outcome(0.1));
        assert!(search.next_batch().is_empty());
        assert_eq!(search.untested(), 1);
    }
}
