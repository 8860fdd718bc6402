//! What a finished search says: which hypotheses are true, and which foci explain them.

use crate::search::share::Verdict;
use crate::search::tree::{Node, NodeId, Resource, Search};

/// A child that has this part of its parent explains it.
const EXPLAINS: f64 = 0.5;

impl Search {
    /// The true hypotheses, causes first, the largest share first.
    pub fn causes(&self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = self.roots();
        ids.retain(|id| self.node(*id).and_then(Node::verdict) == Some(Verdict::True));
        let key = |id: &NodeId| {
            let node = self.node(*id);
            let idle = node.is_some_and(|n| n.hypothesis.may_be_idle());
            (idle, node.and_then(Node::mean).unwrap_or(0.0))
        };
        ids.sort_by(|a, b| {
            let ((x, share), (y, other)) = (key(a), key(b));
            x.cmp(&y).then(other.total_cmp(&share))
        });
        ids
    }

    /// The true focus of a kind below a node that explains most of it: one step after another, as
    /// long as a step keeps half of the time.
    pub fn explanation(&self, id: NodeId, resource: Resource) -> Option<NodeId> {
        let mut best = None;
        let mut at = id;
        loop {
            let share = self.node(at).and_then(Node::mean);
            // Shares of a hypothesis itself are of another whole.
            let share = match self.node(at)?.parent {
                None => 1.0,
                Some(_) => share.unwrap_or(0.0),
            };
            let next = self.largest(at, resource);
            if next.is_none() && best.is_none() {
                // Groups are above functions and threads, objects above their holders.
                let above = [Resource::Object, Resource::Group].into_iter();
                let above = above.filter(|above| *above != resource);
                at = above.filter_map(|above| self.largest(at, above)).next()?;
                continue;
            }
            let Some(next) = next else { return best };
            let mean = self.node(next).and_then(Node::mean).unwrap_or(0.0);
            if mean < EXPLAINS * share && best.is_some() {
                return best;
            }
            (best, at) = (Some(next), next);
        }
    }

    /// True foci of a kind that have none below them, the largest first.
    pub fn ends(&self, id: NodeId, resource: Resource) -> Vec<NodeId> {
        let is_true = |id: &NodeId| self.is_true(*id, resource);
        let mut ends = Vec::new();
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            let children = self.children(at);
            if is_true(&at) && !children.iter().any(is_true) {
                ends.push(at);
            }
            open.extend(children);
        }
        let mean = |id: &NodeId| self.mean(*id);
        ends.sort_by(|a, b| mean(b).total_cmp(&mean(a)).then(a.cmp(b)));
        ends
    }

    fn largest(&self, id: NodeId, resource: Resource) -> Option<NodeId> {
        let children = self.children(id).into_iter();
        let is_true = |id: &NodeId| self.is_true(*id, resource);
        let mean = |id: &NodeId| self.mean(*id);
        children
            .filter(is_true)
            .max_by(|a, b| mean(a).total_cmp(&mean(b)))
    }

    fn is_true(&self, id: NodeId, resource: Resource) -> bool {
        let node = self.node(id);
        node.is_some_and(|n| n.candidate.resource == resource && n.verdict() == Some(Verdict::True))
    }

    fn mean(&self, id: NodeId) -> f64 {
        self.node(id).and_then(Node::mean).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::focus::Key;
    use crate::search::hypothesis::Hypothesis;
    use crate::search::tree::tests::{candidate, function, outcome};
    use crate::search::tree::{Candidate, Limits};

    #[test]
    fn the_explanation_is_the_deepest_focus_that_keeps_most_of_the_time() {
        let mut search = Search::new(Limits::default());
        let cpu = search.hypothesis(Hypothesis::CpuBound, outcome(0.9));
        let mut add = |parent: NodeId, candidate: Candidate, mean: f64| {
            let id = search.refine(parent, vec![candidate])[0];
            search.found(id, outcome(mean));
            id
        };
        let group = candidate(Resource::Group, Key::Group, "pool-#", None);
        let pool = add(cpu, group, 0.95);
        let handle = add(pool, function("handle", 0.9), 0.9);
        let hash = add(handle, function("hash", 0.8), 0.7);
        add(hash, function("block", 0.3), 0.25);
        let found = search.explanation(cpu, Resource::Function);
        assert_eq!(found, Some(hash), "block has less than half of hash");
        let block = search.children(hash)[0];
        assert_eq!(search.ends(cpu, Resource::Function), [block]);
        assert_eq!(search.explanation(cpu, Resource::Group), Some(pool));
        assert_eq!(search.explanation(cpu, Resource::Thread), None);
        assert_eq!((search.depth(hash), search.root(hash)), (3, cpu));
    }

    #[test]
    fn causes_come_before_what_may_be_idleness() {
        let mut search = Search::new(Limits::default());
        let idle = search.hypothesis(Hypothesis::WaitsForEvents, outcome(0.99));
        let locks = search.hypothesis(Hypothesis::WaitsForLocks, outcome(0.4));
        let cpu = search.hypothesis(Hypothesis::CpuBound, outcome(0.6));
        search.hypothesis(Hypothesis::WaitsForIo, outcome(0.0));
        assert_eq!(search.causes(), [cpu, locks, idle]);
    }
}
