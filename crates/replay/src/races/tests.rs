use super::{races, RaceKind, Races};
use crate::sections::Sections;
use crate::sets::{Assignment, SampleIx, NO_SAMPLE};
use crate::testing::recording;
use crate::testing_sets::sets;
use crate::transform::{LockPlan, Scheme};
use crate::ulcp::{Classifier, StaticRules};

fn races_of(text: &str, of_samples: &str, samples: &[SampleIx]) -> Races {
    let recording = recording(text);
    let sections = Sections::of(&recording);
    let sets = sets(of_samples);
    let assignment = Assignment::observed(samples.to_vec());
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let plan = LockPlan::of(&sections, &mut classifier, Scheme::ByData);
    races(&recording, &sections, &mut classifier, &plan)
}

/// a writes under LA and then takes LG; b takes LG and then reads under LB.
const HAND_OVER: &str = "
    thread a
    10 lock LA @1
    20 unlock LA
    30 lock LG @2
    40 unlock LG
    thread b
    50 lock LG @3
    60 unlock LG
    70 lock LB @4
    80 unlock LB";

#[test]
fn a_removed_lock_that_orders_other_accesses_makes_a_race() {
    // Sections: a LA writes word 1, a LG nothing; b LG nothing, b LB reads word 1.
    let races = races_of(HAND_OVER, "w1\n -\n r1", &[0, 1, 1, 2]);
    assert_eq!(races.races.len(), 1);
    let race = races.races[0];
    assert_eq!(
        (race.word, race.kind, race.times),
        (1, RaceKind::Ordered, 1)
    );
    assert!(race.first.writes && !race.second.writes);
    assert_eq!((race.first.site, race.second.site), (0, 3));
    assert_eq!(races.observed_share(), 1.0);
}

#[test]
fn a_lock_whose_sections_conflict_still_orders() {
    // The sections of LG change word 2.
    let races = races_of(HAND_OVER, "w1\n b2\n r1", &[0, 1, 1, 2]);
    assert_eq!(races.races, []);
}

#[test]
fn accesses_that_nothing_ordered_before_are_not_reported() {
    let text = "
        thread a
        10 lock LA
        20 unlock LA
        thread b
        30 lock LB
        40 unlock LB";
    assert_eq!(races_of(text, "w1", &[0, 0]).races, []);
}

const COUNTER: &str = "
    thread a
    10 lock L @1
    20 unlock L
    thread b
    30 lock L @1
    40 unlock L";

#[test]
fn benign_pairs_have_to_become_atomic() {
    let races = races_of(COUNTER, "a1", &[0, 0]);
    assert_eq!(races.races.len(), 1);
    assert_eq!(races.races[0].kind, RaceKind::Benign);
}

#[test]
fn unnecessary_pairs_have_no_race() {
    assert_eq!(races_of(COUNTER, "r1", &[0, 0]).races, []);
    assert_eq!(races_of(COUNTER, "w1\n w2", &[0, 1]).races, []);
    assert_eq!(races_of(COUNTER, "b1", &[0, 0]).races, []);
}

#[test]
fn sections_without_sets_are_counted_as_not_observed() {
    let races = races_of(COUNTER, "r1", &[0, NO_SAMPLE]);
    assert_eq!(
        (races.sections, races.looked_at, races.unobserved),
        (2, 2, 1)
    );
    assert_eq!(races.observed_share(), 0.5);
}
