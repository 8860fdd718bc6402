use super::{classify, count, for_each_pair, Class, Classifier, StaticRules, MAX_PEERS};
use crate::sections::Sections;
use crate::sets::{Assignment, NO_SAMPLE};
use crate::testing::recording;
use crate::testing_sets::sets;

#[test]
fn each_class_of_algorithm_1_is_told_by_its_sets() {
    let class = |text: &str| {
        let sets = sets(text);
        let class = classify(&sets, &StaticRules, 0, 1);
        assert_eq!(
            classify(&sets, &StaticRules, 1, 0),
            class,
            "{text}: symmetric"
        );
        class
    };
    assert_eq!(class("-\n w1"), Class::NullLock);
    assert_eq!(class("r1 r2\n r2 r3"), Class::ReadRead);
    assert_eq!(class("r1 w2\n r1 w3"), Class::DisjointWrite);
    assert_eq!(class("w2\n r1"), Class::DisjointWrite);
    assert_eq!(class("a1\n a1"), Class::Benign);
    assert_eq!(class("s1:5\n s1:5"), Class::Benign);
    assert_eq!(class("s1:5\n s1:6"), Class::TrueContention);
    assert_eq!(class("x1\n r1"), Class::Benign);
    assert_eq!(class("m1:1\n m1:2"), Class::Benign);
    assert_eq!(class("m1:1\n c1:2"), Class::Benign);
    assert_eq!(class("m1:3\n c1:2"), Class::Undecided);
    assert_eq!(class("b1\n b1"), Class::Undecided);
    assert_eq!(class("a1 w2\n a1 r2"), Class::Undecided);
    assert_eq!(class("a1 s2:1\n a1 s2:2"), Class::TrueContention);
}

#[test]
fn a_set_that_is_not_complete_shows_conflicts_only() {
    let class = |text: &str| classify(&sets(text), &StaticRules, 0, 1);
    assert_eq!(class("r1 ...\n r2"), Class::Unknown);
    assert_eq!(class("...\n w1"), Class::Unknown);
    assert_eq!(class("a1 ...\n a1"), Class::Undecided);
    assert_eq!(class("s1:1 ...\n s1:2"), Class::TrueContention);
    assert_eq!(
        classify(&sets("r1"), &StaticRules, 0, NO_SAMPLE),
        Class::Unknown
    );
}

/// Two threads, one lock: a at 10, b waits for it at 20, a again at 300, b at 400.
const TWO_THREADS: &str = "
    thread a
    10 lock L @1
    100 unlock L @2
    300 lock L @1
    310 unlock L @2
    thread b
    20 want L @3
    110 got L @3
    150 unlock L @4
    400 lock L @3
    410 unlock L @4";

fn pairs(text: &str) -> Vec<(u32, u32)> {
    let sections = Sections::of(&recording(text));
    let mut pairs = Vec::new();
    for (_, of_lock) in sections.by_lock().iter() {
        for_each_pair(&sections, of_lock, |a, b| pairs.push((a.ix, b.ix)));
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn a_pair_is_a_section_and_the_next_one_of_each_other_thread() {
    // Sections: a 0 (10), a 1 (300), b 2 (110), b 3 (400). 0 is followed by 2 in b, 2 by 1 in a, 1 by 3.
    assert_eq!(pairs(TWO_THREADS), [(0, 2), (1, 3), (2, 1)]);
}

#[test]
fn readers_of_one_lock_are_no_pair() {
    let text = "
        thread a
        10 rdlock R
        20 unlock R
        60 lock R
        70 unlock R
        thread b
        30 rdlock R
        40 unlock R";
    // Section 2 (b, 30) and 1 (a, 60) exclude each other; 0 and 2 both read.
    assert_eq!(pairs(text), [(2, 1)]);
}

#[test]
fn sections_of_different_windows_are_no_pair() {
    let text = "
        window 0 100
        window 200 300
        thread a
        10 lock L
        20 unlock L
        thread b
        30 lock L
        40 unlock L
        210 lock L
        220 unlock L";
    assert_eq!(pairs(text), [(0, 1)]);
}

#[test]
fn a_section_has_partners_in_the_nearest_threads_only() {
    let mut text = String::new();
    for thread in 0..MAX_PEERS + 10 {
        let at = 10 * thread + 10;
        text += &format!("thread t\n {at} lock L\n {} unlock L\n", at + 5);
    }
    let pairs = pairs(&text);
    let of_first = pairs.iter().filter(|(a, _)| *a == 0);
    assert_eq!(of_first.map(|(_, b)| *b).max(), Some(MAX_PEERS as u32));
    assert_eq!(pairs.iter().filter(|(a, _)| *a == 0).count(), MAX_PEERS);
}

#[test]
fn counts_tell_contended_pairs_apart() {
    let sections = Sections::of(&recording(TWO_THREADS));
    // a 0 reads, a 1 adds, b 2 reads, b 3 adds: (0, 2) read-read and contended, (2, 1) read against
    // add: undecided, (1, 3) benign.
    let sets = sets("r1\n a1");
    let assignment = Assignment::observed(vec![0, 1, 0, 1]);
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let counts = count(&sections, &mut classifier);
    let total = counts.total();
    assert_eq!(total.acquisitions, 4);
    assert_eq!((total.all.read_read, total.all.benign), (1, 1));
    assert_eq!((total.all.true_contention, total.all.undecided), (1, 1));
    assert_eq!((total.contended.read_read, total.contended.total()), (1, 1));
    assert_eq!(counts.site_pairs.len(), 1);
    let row = counts.site_pairs[0];
    assert_eq!(row.samples, 2);
    assert!((row.unnecessary.mid - 2.0 / 3.0).abs() < 1e-9);
    assert!(row.unnecessary.low < 0.3 && row.unnecessary.high > 0.9);
}

#[test]
fn sections_without_sets_are_unknown() {
    let sections = Sections::of(&recording(TWO_THREADS));
    let sets = sets("r1");
    let assignment = Assignment::observed(vec![0, NO_SAMPLE, 0, 0]);
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let total = count(&sections, &mut classifier).total();
    assert_eq!((total.all.read_read, total.all.unknown), (1, 2));
}
