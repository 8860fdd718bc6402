use crate::simulated::Simulator;
use convoy_estimate::Method;

use super::*;
use crate::predict::Replayed;
use crate::program::Program;
use crate::sim::testing::machine;
use crate::study::Names as StudyNames;
use crate::testing::recording;

/// A wait of a millisecond for a lock that nobody holds: no replay gives that back.
const UNEXPLAINED_WAIT: &str = "
    thread a
    10 want L @1
    1000000 got L @1
    1000010 unlock L @2
    thread b
    20 lock L @3
    30 unlock L @4
";

fn asked(questions: &Questions) -> Result<Analysis, ParseError> {
    asked_of(None, questions)
}

fn asked_of(
    native: Option<Box<dyn Replayer>>,
    questions: &Questions,
) -> Result<Analysis, ParseError> {
    let recording = recording(UNEXPLAINED_WAIT);
    let names = StudyNames {
        groups: vec!["workers".into(); 2],
        ..StudyNames::default()
    };
    let machine = machine();
    let study = Study::new(&recording, &names, &machine, None, None);
    analyze(
        &study,
        &machine,
        Err("not recorded".into()),
        native,
        questions,
    )
}

fn with_threads(group: &str) -> Questions {
    Questions {
        threads: Some((group.into(), vec![1, 2])),
        ..Questions::default()
    }
}

#[test]
fn rejects_a_group_of_threads_that_is_not_there() {
    let error = asked(&with_threads("wrokers")).unwrap_err().to_string();
    assert_eq!(
        error,
        "thread group `wrokers` is not in the trace; did you mean `workers`?"
    );
}

#[test]
fn points_of_the_curve_that_are_not_computed_are_counted_with_the_reason() {
    let analysis = asked(&with_threads("workers")).unwrap();
    assert_eq!(analysis.curve, []);
    let missing = analysis.caveats.iter().find_map(|caveat| match caveat {
        Caveat::NoPoints(points, why) => Some((*points, why.as_str())),
        _ => None,
    });
    let (points, why) = missing.unwrap();
    assert_eq!(points, 2);
    assert!(why.contains("wait for locks"), "{why}");
}

/// A native replay that cannot keep to an enforced order.
struct Crowded;

impl Replayer for Crowded {
    fn method(&self) -> Method {
        Method::ReplayNative
    }

    fn replay(&mut self, _: &[Program]) -> Result<Replayed, String> {
        Err("its threads do not fit the CPUs".into())
    }

    fn in_order_of(&self, _: &Simulator) -> Option<Box<dyn Replayer>> {
        Some(Box::new(Self))
    }
}

#[test]
fn schedules_are_replayed_without_sets_and_those_refused_are_limits() {
    let questions = Questions {
        repeats: Some(4),
        ..Questions::default()
    };
    let analysis = asked_of(Some(Box::new(Crowded)), &questions).unwrap();
    let [own] = &analysis.compared[..] else {
        panic!("{:?}", analysis.compared);
    };
    assert!(!own.has_sets);
    let rows: Vec<_> = own
        .replays
        .iter()
        .map(|(of, walls)| (of.as_str(), walls.len()))
        .collect();
    let simulated = ["orig, simulated", "elsc, simulated", "sync, simulated"];
    assert_eq!(rows, simulated.map(|of| (of, 4)));
    for of in ["elsc, native", "sync, native"] {
        let why = "its threads do not fit the CPUs";
        let limit = Caveat::NoSchedule(of.into(), why.into());
        assert!(analysis.caveats.contains(&limit), "{:?}", analysis.caveats);
    }
}
