use super::{ulcp_free, KeptReason, LockPlan, Replacement, Scheme};
use crate::program::{LockKind, Op, Program};
use crate::random::{below, mix};
use crate::sections::{SectionIx, Sections};
use crate::sets::{Assignment, SampleIx, SectionSets, NO_SAMPLE};
use crate::testing::recording;
use crate::testing_program::{
    assert_lock_order_is_acyclic, assert_locks_are_released, program, work,
};
use crate::testing_sets::sets;
use crate::ulcp::{Class, Classifier, StaticRules};

struct World {
    sections: Sections,
    program: Program,
    sets: SectionSets,
    assignment: Assignment,
}

impl World {
    fn new(text: &str, of_samples: &str, samples: &[SampleIx]) -> Self {
        let recording = recording(text);
        let sections = Sections::of(&recording);
        Self {
            program: program(&recording, &sections),
            sections,
            sets: sets(of_samples),
            assignment: Assignment::observed(samples.to_vec()),
        }
    }

    fn classifier(&self) -> Classifier<'_> {
        Classifier::new(&self.sets, &self.assignment, &StaticRules)
    }

    fn plan(&self, scheme: Scheme<'_>) -> LockPlan {
        LockPlan::of(&self.sections, &mut self.classifier(), scheme)
    }

    fn free(&self, scheme: Scheme<'_>) -> Program {
        ulcp_free(&self.program, &self.plan(scheme))
    }
}

const BY_SECTION: Scheme<'_> = Scheme::BySection { finished: None };

/// The locks that a section's lockset has, with `true` for shared; `None` = the recorded lock.
fn locks(plan: &LockPlan, section: SectionIx) -> Option<Vec<(u32, bool)>> {
    match plan.replacement(section) {
        Replacement::Recorded => None,
        Replacement::Locks(uses) => Some(uses.iter().map(|it| (it.aux, it.shared)).collect()),
    }
}

/// Two threads with two sections of one lock each, in turn: 0 and 1 are a's, 2 and 3 b's.
const IN_TURN: &str = "
    thread a
    10 lock L
    20 unlock L
    50 lock L
    60 unlock L
    thread b
    30 lock L
    40 unlock L
    70 lock L
    80 unlock L";

#[test]
fn read_read_sections_take_no_lock() {
    let world = World::new(IN_TURN, "r1", &[0, 0, 0, 0]);
    for scheme in [Scheme::ByData, BY_SECTION] {
        let free = world.free(scheme);
        let acquired = free
            .threads
            .iter()
            .flat_map(|thread| &thread.ops)
            .filter_map(|op| match op {
                Op::Acquire { lock, section, .. } => Some((free.locks[*lock as usize], *section)),
                _ => None,
            });
        let acquired: Vec<_> = acquired.collect();
        assert!(acquired
            .iter()
            .all(|(lock, _)| lock.kind == LockKind::Absent));
        assert!(acquired.iter().all(|(lock, _)| lock.recorded == 0));
        let sections: Vec<_> = acquired.iter().map(|(_, section)| *section).collect();
        assert_eq!(sections, [0, 1, 2, 3]);
    }
}

#[test]
fn true_contention_keeps_the_recorded_lock() {
    let world = World::new(IN_TURN, "b1", &[0, 0, 0, 0]);
    for scheme in [Scheme::ByData, BY_SECTION] {
        assert_eq!(world.free(scheme), world.program);
    }
}

#[test]
fn a_section_takes_its_own_lock_and_those_of_its_predecessors() {
    // a 0 writes, b 2 writes, a 1 reads other data, b 3 reads: edges 0 -> 2 and 0 -> 3 is not there,
    // since the search ends at 2.
    let world = World::new(IN_TURN, "b1\n r2\n r1", &[0, 1, 0, 2]);
    let plan = world.plan(BY_SECTION);
    assert_eq!(locks(&plan, 0), Some(vec![(0, false)]));
    assert_eq!(locks(&plan, 2), Some(vec![(0, false)]));
    assert_eq!(locks(&plan, 1), Some(vec![]));
    assert_eq!(locks(&plan, 3), Some(vec![]));
}

#[test]
fn a_predecessor_that_is_over_needs_no_lock() {
    let world = World::new(IN_TURN, "b1\n r2\n r1", &[0, 1, 0, 2]);
    let finished = |from: SectionIx, to: SectionIx| {
        let (from, to) = (
            &world.sections.all[from as usize],
            &world.sections.all[to as usize],
        );
        from.released_ns < to.requested_ns
    };
    let plan = world.plan(Scheme::BySection {
        finished: Some(&finished),
    });
    assert!((0..4).all(|section| locks(&plan, section) == Some(vec![])));
}

#[test]
fn data_that_some_only_read_get_a_reader_lock() {
    let world = World::new(IN_TURN, "b1\n r1", &[0, 1, 1, 1]);
    let plan = world.plan(Scheme::ByData);
    assert_eq!(locks(&plan, 0), Some(vec![(0, false)]));
    for reader in 1..4 {
        assert_eq!(locks(&plan, reader), Some(vec![(0, true)]));
    }
    let free = world.free(Scheme::ByData);
    assert_eq!(free.locks[1].kind, LockKind::RwLock);
}

#[test]
fn disjoint_parts_get_a_lock_each() {
    // Elements 1 and 2 are used by both threads.
    let world = World::new(IN_TURN, "b1\n b2", &[0, 1, 1, 0]);
    let plan = world.plan(Scheme::ByData);
    assert_eq!(plan.aux.len(), 2);
    let of = |section| locks(&plan, section).unwrap();
    assert_eq!(of(0), of(3));
    assert_eq!(of(1), of(2));
    assert_ne!(of(0), of(1));
}

#[test]
fn elements_of_one_thread_each_need_no_lock() {
    let world = World::new(IN_TURN, "b1\n b2", &[0, 0, 1, 1]);
    let plan = world.plan(Scheme::ByData);
    assert!((0..4).all(|section| locks(&plan, section) == Some(vec![])));
}

#[test]
fn words_that_are_always_accessed_together_share_one_lock() {
    let world = World::new(IN_TURN, "b1 b2 b3 w4\n b1 b2", &[0, 0, 1, 1]);
    // One lock of words 1 and 2 excludes all pairs: that is the recorded lock.
    assert_eq!(world.free(Scheme::ByData), world.program);
}

#[test]
fn benign_pairs_take_no_lock() {
    let world = World::new(IN_TURN, "a1", &[0, 0, 0, 0]);
    let plan = world.plan(Scheme::ByData);
    assert!((0..4).all(|section| locks(&plan, section) == Some(vec![])));
    let plan = world.plan(BY_SECTION);
    assert!((0..4).all(|section| locks(&plan, section) == Some(vec![])));
}

#[test]
fn a_lock_with_too_many_unknown_sections_stays() {
    let world = World::new(IN_TURN, "r1", &[0, 0, 0, NO_SAMPLE]);
    let plan = world.plan(Scheme::ByData);
    assert_eq!(plan.kept[0].reason, KeptReason::UnknownSets);
    assert!((0..4).all(|section| locks(&plan, section).is_none()));
}

#[test]
fn sections_that_signal_keep_the_lock_and_others_without_conflict_lose_it() {
    let text = "
        thread a
        10 lock L
        15 signal C
        20 unlock L
        50 lock L
        60 unlock L
        thread b
        30 lock L
        40 unlock L";
    let world = World::new(text, "w1\n r2", &[0, 1, 1]);
    let plan = world.plan(Scheme::ByData);
    assert_eq!(locks(&plan, 0), None);
    assert_eq!(locks(&plan, 1), Some(vec![]));
    assert_eq!(locks(&plan, 2), Some(vec![]));
    assert_eq!(
        (plan.kept[0].reason, plan.kept[0].sections),
        (KeptReason::Condition, 1)
    );
}

/// A random program: threads with nested sections of a few locks, always in ascending order.
fn random(seed: u64) -> World {
    let draw = |n: u64, limit: u64| below(mix(seed, n), limit);
    let threads = 2 + draw(0, 3);
    let mut text = String::new();
    let mut n = 1;
    let mut next = |limit: u64| {
        n += 1;
        draw(n, limit)
    };
    let mut count = 0;
    for thread in 0..threads {
        text += "thread t\n";
        let mut at = thread;
        for _ in 0..4 + next(8) {
            let outer = next(3);
            let inner = (next(2) == 0 && outer < 2).then(|| outer + 1 + next(2 - outer));
            let mut step = |text: &mut String, verb: &str, lock: u64, ns: u64| {
                at += 5 + ns;
                *text += &format!("{at} {verb} L{lock}\n");
            };
            step(&mut text, "lock", outer, next(100));
            count += 1;
            if let Some(inner) = inner {
                step(&mut text, "lock", inner, next(100));
                step(&mut text, "unlock", inner, next(100));
                count += 1;
            }
            step(&mut text, "unlock", outer, next(100));
        }
    }
    let kinds = [
        "-", "r1", "r1 r2", "b1", "b2 r1", "a3", "b3 b4", "w5 r2", "b1 b2 b3",
    ];
    let samples: Vec<SampleIx> = (0..count)
        .map(|_| next(kinds.len() as u64) as u32)
        .collect();
    World::new(&text, &kinds.join("\n"), &samples)
}

#[test]
fn transformed_programs_keep_work_and_release_what_they_take_in_one_order() {
    for seed in 0..300 {
        let world = random(seed);
        assert_lock_order_is_acyclic(&world.program);
        for scheme in [Scheme::ByData, BY_SECTION] {
            let free = world.free(scheme);
            assert_eq!(work(&free), work(&world.program), "seed {seed}");
            assert_locks_are_released(&free);
            assert_lock_order_is_acyclic(&free);
        }
    }
}

/// Whether two sections of one lock exclude each other under a plan.
fn excludes(plan: &LockPlan, a: SectionIx, b: SectionIx) -> bool {
    match (plan.replacement(a), plan.replacement(b)) {
        (Replacement::Recorded, Replacement::Recorded) => true,
        (Replacement::Locks(a), Replacement::Locks(b)) => a.iter().any(|x| {
            let mut others = b.iter();
            others.any(|y| x.aux == y.aux && !(x.shared && y.shared))
        }),
        _ => false,
    }
}

#[test]
fn locksets_by_data_intersect_if_and_only_if_sections_conflict() {
    for seed in 0..300 {
        let world = random(seed);
        let plan = world.plan(Scheme::ByData);
        let mut classifier = world.classifier();
        for (_, of_lock) in world.sections.by_lock().iter() {
            classifier.focus(of_lock);
            for &a in of_lock {
                for &b in of_lock {
                    let threads = [a, b].map(|ix| world.sections.all[ix as usize].thread);
                    if threads[0] == threads[1] {
                        continue;
                    }
                    let class = classifier.class(a, b);
                    let excludes = excludes(&plan, a, b);
                    match class {
                        Class::TrueContention | Class::Undecided => {
                            assert!(excludes, "seed {seed}")
                        }
                        // A benign pair may share a lock that a third section needs.
                        Class::Benign => {}
                        _ => assert!(!excludes, "seed {seed}: {class:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn locksets_by_section_intersect_along_every_edge() {
    for seed in 0..300 {
        let world = random(seed);
        let plan = world.plan(BY_SECTION);
        let mut classifier = world.classifier();
        for (_, of_lock) in world.sections.by_lock().iter() {
            let topology = crate::topology::Topology::of(&world.sections, of_lock, &mut classifier);
            for edge in &topology.edges {
                assert!(excludes(&plan, edge.from, edge.to), "seed {seed}");
            }
        }
    }
}
