//! Locks that may be what keeps a program from a deadlock.
//!
//! Threads that take two locks in opposite orders do not meet if a third one, held by both, keeps them
//! apart. Where the order of locks has a cycle, its locks and those held around them stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use convoy_trace::ObjectIx;

use crate::sections::Sections;

type Graph = BTreeMap<ObjectIx, BTreeSet<ObjectIx>>;

/// Locks on cycles of the lock order, and locks held while those are taken.
pub(super) fn needed(sections: &Sections) -> BTreeSet<ObjectIx> {
    // Each lockset and lock once: there are far fewer of them than sections.
    let nested = sections.all.iter().filter(|section| section.held != 0);
    let nested: BTreeSet<_> = nested.map(|section| (section.held, section.lock)).collect();
    let mut order = Graph::new();
    for &(held, lock) in &nested {
        for &outer in sections.lockset(held) {
            if outer != lock {
                order.entry(outer).or_default().insert(lock);
            }
        }
    }
    let on_cycle = on_cycles(&order);
    let mut needed = on_cycle.clone();
    for &(held, lock) in &nested {
        if on_cycle.contains(&lock) {
            needed.extend(sections.lockset(held));
        }
    }
    needed
}

/// Nodes of a graph that lie on cycles: what is left when nodes without successors, and then those
/// without predecessors, are taken away as long as there are any.
pub(super) fn on_cycles(order: &Graph) -> BTreeSet<ObjectIx> {
    let forward = without_sinks(order.clone());
    let mut backward = Graph::new();
    for (from, to) in &forward {
        for to in to {
            backward.entry(*to).or_default().insert(*from);
        }
    }
    let backward = without_sinks(backward);
    backward.into_keys().collect()
}

fn without_sinks(mut graph: Graph) -> Graph {
    let mut predecessors: Graph = BTreeMap::new();
    let mut nodes: BTreeSet<ObjectIx> = BTreeSet::new();
    for (from, to) in &graph {
        nodes.insert(*from);
        for to in to {
            nodes.insert(*to);
            predecessors.entry(*to).or_default().insert(*from);
        }
    }
    let is_sink = |graph: &Graph, node: ObjectIx| graph.get(&node).is_none_or(BTreeSet::is_empty);
    let mut sinks: Vec<ObjectIx> = nodes
        .into_iter()
        .filter(|it| is_sink(&graph, *it))
        .collect();
    while let Some(sink) = sinks.pop() {
        graph.remove(&sink);
        for from in predecessors.remove(&sink).unwrap_or_default() {
            if let Some(to) = graph.get_mut(&from) {
                to.remove(&sink);
                if to.is_empty() {
                    sinks.push(from);
                }
            }
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::recording;

    fn needed_of(text: &str) -> Vec<ObjectIx> {
        needed(&Sections::of(&recording(text)))
            .into_iter()
            .collect()
    }

    #[test]
    fn a_gate_around_opposite_orders_is_needed() {
        // G 0, A 1, B 2; D 3 has no part in it.
        let text = "
            thread a
            1 lock LG
            2 lock LA
            3 lock LB
            4 unlock LB
            5 unlock LA
            6 unlock LG
            thread b
            11 lock LG
            12 lock LB
            13 lock LA
            14 unlock LA
            15 unlock LB
            16 unlock LG
            17 lock LD
            18 unlock LD";
        assert_eq!(needed_of(text), [0, 1, 2]);
    }

    #[test]
    fn locks_that_are_always_nested_alike_are_not() {
        let text = "
            thread a
            1 lock LA
            2 lock LB
            3 unlock LB
            4 unlock LA
            thread b
            11 lock LA
            12 lock LB
            13 unlock LB
            14 unlock LA";
        assert_eq!(needed_of(text), []);
    }
}
