//! Causal edges between truly conflicting sections (PerfPlay, CGO'15, section 3, rules 1 and 2).
//!
//! Rule 1: a section has an edge to the first truly conflicting section of the same lock in each other
//! thread, found by a sequential search in that thread. Rule 2: the sections of a thread keep their order.

use std::collections::BTreeMap;

use convoy_trace::ThreadIx;

use crate::sections::{SectionIx, Sections, NO_WINDOW};
use crate::ulcp::{Classifier, MAX_PEERS};

/// Sections of one thread that the search looks at, at most. A section that conflicts only with one so far
/// away never meets it.
const MAX_SEARCH: usize = 128;

/// An edge: the first section truly conflicts with the second one, which comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Predecessor.
    pub from: SectionIx,
    /// Successor.
    pub to: SectionIx,
}

/// Causal edges between the sections of one lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// By successor; of one successor, one predecessor a thread: the last one. The others are over before
    /// it begins (rule 2), so that their edges are redundant.
    pub edges: Vec<Edge>,
    /// Edges that rule 1 finds, redundant ones included.
    pub found: u64,
}

impl Topology {
    /// The edges between sections of one lock, given in order of acquisition. Pairs whose class is not
    /// known count as conflicts.
    pub fn of(sections: &Sections, of_lock: &[SectionIx], classifier: &mut Classifier<'_>) -> Self {
        classifier.focus(of_lock);
        let any_unknown = of_lock.iter().any(|ix| classifier.local_of(*ix).is_none());
        let mut rows: Vec<Option<Row>> = Vec::new();
        rows.resize_with(classifier.samples().len(), || None);
        let mut search = Search::default();
        let mut found: Vec<(SectionIx, ThreadIx, SectionIx)> = Vec::new();
        for &ix in of_lock.iter().rev() {
            let Some(section) = sections.get(ix).filter(|it| it.window != NO_WINDOW) else {
                continue;
            };
            search.enter(section.window);
            let local = classifier.local_of(ix);
            let row = local.and_then(|local| {
                let row = rows.get_mut(local as usize)?;
                Some(&*row.get_or_insert_with(|| Row::new(classifier.exclusions(local))))
            });
            if any_unknown || row.is_none_or(|row| row.any) {
                for later in search.others(section.thread) {
                    let conflicts = |other: &&Later| {
                        let both_read = section.shared && other.shared;
                        !both_read && must_exclude(classifier, row, ix, other)
                    };
                    if let Some(first) = later.iter().rev().take(MAX_SEARCH).find(conflicts) {
                        found.push((first.ix, section.thread, ix));
                    }
                }
            }
            search.push(
                section.thread,
                Later {
                    ix,
                    local: local.unwrap_or(NOT_LOCAL),
                    shared: section.shared,
                },
            );
        }
        let edges = found.len() as u64;
        // Sections of a thread are numbered in its order.
        let key = |&(to, thread, from): &_| (to, thread, std::cmp::Reverse(from));
        found.sort_unstable_by_key(key);
        found.dedup_by_key(|(to, thread, _)| (*to, *thread));
        let edge = |(to, _, from)| Edge { from, to };
        Self {
            edges: found.into_iter().map(edge).collect(),
            found: edges,
        }
    }
}

/// A section that comes after another one.
#[derive(Clone, Copy)]
struct Later {
    ix: SectionIx,
    local: u32,
    shared: bool,
}

/// No local number: see [`Classifier::local_of`].
const NOT_LOCAL: u32 = u32::MAX;

/// Later sections of each thread, nearest last.
#[derive(Default)]
struct Search {
    later: BTreeMap<ThreadIx, Vec<Later>>,
    /// Threads by their next section, nearest last.
    recent: Vec<ThreadIx>,
    window: Option<u32>,
}

impl Search {
    fn enter(&mut self, window: u32) {
        if self.window != Some(window) {
            self.window = Some(window);
            self.later.clear();
            self.recent.clear();
        }
    }

    fn others(&self, thread: ThreadIx) -> impl Iterator<Item = &[Later]> {
        let others = self
            .recent
            .iter()
            .rev()
            .filter(move |other| **other != thread);
        let later = |thread: &ThreadIx| self.later.get(thread).map(Vec::as_slice);
        others.take(MAX_PEERS).filter_map(later)
    }

    fn push(&mut self, thread: ThreadIx, section: Later) {
        self.later.entry(thread).or_default().push(section);
        match self.recent.iter().rposition(|other| *other == thread) {
            Some(at) => {
                self.recent.remove(at);
            }
            None if self.recent.len() > MAX_PEERS => {
                self.recent.remove(0);
            }
            None => {}
        }
        self.recent.push(thread);
    }
}

/// Which samples of the lock in focus one of them must exclude.
struct Row {
    must: Vec<bool>,
    any: bool,
}

impl Row {
    fn new(must: Vec<bool>) -> Self {
        let any = must.contains(&true);
        Self { must, any }
    }
}

/// Sets that are not known conflict with all.
fn must_exclude(
    classifier: &mut Classifier<'_>,
    row: Option<&Row>,
    ix: SectionIx,
    other: &Later,
) -> bool {
    let known = row.and_then(|row| row.must.get(other.local as usize));
    known
        .copied()
        .unwrap_or_else(|| !classifier.class(ix, other.ix).is_unnecessary())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Assignment, SampleIx, NO_SAMPLE};
    use crate::testing::recording;
    use crate::testing_sets::sets;
    use crate::ulcp::StaticRules;

    /// Sections one after another: (thread, sample).
    fn edges(order: &[(u32, SampleIx)], of_samples: &str) -> (Vec<(usize, usize)>, u64) {
        let threads = order
            .iter()
            .map(|(thread, _)| thread + 1)
            .max()
            .unwrap_or(0);
        let mut text = String::new();
        let mut numbers = Vec::new();
        for thread in 0..threads {
            text += "thread t\n";
            for (turn, _) in order.iter().enumerate().filter(|(_, it)| it.0 == thread) {
                text += &format!("{} lock L\n{} unlock L\n", turn * 10 + 1, turn * 10 + 5);
                numbers.push(turn);
            }
        }
        let sections = Sections::of(&recording(&text));
        let samples = numbers.iter().map(|turn| order[*turn].1).collect();
        let sets = sets(of_samples);
        let assignment = Assignment::observed(samples);
        let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
        let (_, of_lock) = sections.by_lock().iter().next().unwrap();
        let topology = Topology::of(&sections, of_lock, &mut classifier);
        let turn = |ix: SectionIx| numbers[ix as usize];
        let mut edges: Vec<_> = topology
            .edges
            .iter()
            .map(|e| (turn(e.from), turn(e.to)))
            .collect();
        edges.sort_unstable();
        (edges, topology.found)
    }

    #[test]
    fn an_edge_goes_to_the_first_conflicting_section_of_each_other_thread() {
        // Sample 0 reads word 1, sample 1 writes it. Thread a writes first; b reads, writes; c reads.
        let order = [(0, 1), (1, 0), (1, 1), (2, 0)];
        let (edges, found) = edges(&order, "r1\n b1");
        // The writer 0 is followed by 1 in b and 3 in c; the reader 1 by nobody, 2 by 3.
        assert_eq!(edges, [(0, 1), (0, 3), (2, 3)]);
        assert_eq!(found, 3);
    }

    #[test]
    fn the_search_skips_unnecessary_pairs() {
        let order = [(0, 1), (1, 2), (1, 2), (1, 0)];
        // Sample 2 touches other data.
        assert_eq!(edges(&order, "r1\n b1\n b2").0, [(0, 3)]);
    }

    #[test]
    fn of_several_predecessors_in_one_thread_the_last_one_remains() {
        // Three readers of thread a, then a writer of thread b.
        let order = [(0, 0), (0, 0), (0, 0), (1, 1)];
        assert_eq!(edges(&order, "r1\n b1"), (vec![(2, 3)], 3));
    }

    #[test]
    fn sections_without_sets_conflict_with_all() {
        let order = [(0, 0), (1, NO_SAMPLE), (0, 0)];
        assert_eq!(edges(&order, "r1").0, [(0, 1), (1, 2)]);
    }

    #[test]
    fn read_read_sections_have_no_edges() {
        let order = [(0, 0), (1, 0), (0, 0), (1, 0)];
        assert_eq!(edges(&order, "r1").0, []);
    }
}
