use convoy_trace::{SiteIx, NO_SITE};

use super::{fuse, pair_costs, Overall, ReplayTimes, SectionSpan};
use crate::sections::Sections;
use crate::sets::{Assignment, CodePlace, SampleIx};
use crate::testing::recording;
use crate::testing_sets::sets;
use crate::ulcp::{Class, Classifier, StaticRules};

/// Three threads: a holds 10..110; b wants at 20, gets 110..150; c wants at 60, gets 150..180.
const QUEUE: &str = "
    thread a
    10 lock L @10
    110 unlock L @20
    thread b
    20 want L @10
    110 got L @10
    150 unlock L @20
    thread c
    60 want L @40
    150 got L @40
    180 unlock L @50";

fn span(requested_ns: f64, acquired_ns: f64, released_ns: f64) -> SectionSpan {
    SectionSpan {
        requested_ns,
        acquired_ns,
        released_ns,
    }
}

/// Nobody waits.
fn free() -> ReplayTimes {
    ReplayTimes {
        wall_ns: 110.0,
        threads: 3,
        sections: vec![
            span(10.0, 10.0, 110.0),
            span(20.0, 20.0, 60.0),
            span(60.0, 60.0, 90.0),
        ],
    }
}

/// Code of the pcs of a recording.
fn place<'r>(
    recording: &'r convoy_trace::Recording,
    function: impl Fn(u64) -> String + 'r,
) -> impl Fn(SiteIx) -> CodePlace + 'r {
    move |site| {
        let site = recording
            .sites
            .get(site as usize)
            .filter(|_| site != NO_SITE);
        site.map_or_else(CodePlace::default, |site| CodePlace {
            module: "prog".into(),
            function: function(site.pc),
            offset: site.pc,
            ..CodePlace::default()
        })
    }
}

fn costs_of(text: &str, of_samples: &str, samples: &[SampleIx]) -> super::Regions {
    let recording = recording(text);
    let sections = Sections::of(&recording);
    let sets = sets(of_samples);
    let assignment = Assignment::observed(samples.to_vec());
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let original = ReplayTimes::recorded(&recording, &sections);
    let costs = pair_costs(&sections, &mut classifier, &original, &free());
    let place = place(&recording, |pc| format!("f{}", pc / 30));
    fuse(&sections, &costs, &place)
}

#[test]
fn a_pair_costs_its_part_of_the_wait_that_is_saved() {
    // b waits 20..110 for a: 90. c waits 60..150: 50 behind a, 40 behind b. All is saved.
    let regions = costs_of(QUEUE, "r1", &[0, 0, 0]);
    let rows: Vec<_> = regions
        .pairs
        .iter()
        .map(|row| (row.regions, row.cost.saved_ns))
        .collect();
    // Region 0 is that of a and b (pc 10..20), region 1 that of c.
    assert_eq!(rows, [((0, 0), 90.0), ((0, 1), 90.0)]);
    assert_eq!(regions.pairs[1].cost.pairs, 2);
    assert_eq!(regions.pairs[0].p, 0.5);
    assert_eq!(regions.pairs[0].cost.kind(), Class::ReadRead);
    assert_eq!(
        (
            regions.regions[0].begin.offset,
            regions.regions[0].end.offset
        ),
        (10, 20)
    );
}

#[test]
fn true_contention_costs_nothing_that_can_be_saved() {
    // a and b conflict; c reads other data than both.
    let regions = costs_of(QUEUE, "b1\n b1\n r2", &[0, 1, 2]);
    let rows: Vec<_> = regions
        .pairs
        .iter()
        .map(|row| (row.regions, row.cost.kind()))
        .collect();
    assert_eq!(rows, [((0, 1), Class::DisjointWrite)]);
    assert_eq!(regions.pairs[0].p, 1.0);
}

#[test]
fn overall_costs_tell_the_run_time_from_wasted_thread_time() {
    let recording = recording(QUEUE);
    let sections = Sections::of(&recording);
    let sets = sets("r1");
    let assignment = Assignment::observed(vec![0, 0, 0]);
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let original = ReplayTimes::recorded(&recording, &sections);
    let costs = pair_costs(&sections, &mut classifier, &original, &free());
    let overall = Overall::of(&original, &free(), &costs);
    // 180 -> 110: 70 of 180. Waits saved: 90 + 90 = 180; 180 - 70 = 110 of 3 * 180 are wasted.
    assert!((overall.t_pd - 70.0 / 180.0).abs() < 1e-9);
    assert!((overall.t_rw - 110.0 / 540.0).abs() < 1e-9);
}

#[test]
fn overlapping_regions_are_fused() {
    // a's section reaches from pc 10 to 20, b's from 15 to 25, c's from 40 to 50, all in one function.
    let text = QUEUE
        .replace("110 got L @10", "110 got L @15")
        .replace("150 unlock L @20", "150 unlock L @25");
    let recording = recording(&text);
    let sections = Sections::of(&recording);
    let sets = sets("r1");
    let assignment = Assignment::observed(vec![0, 0, 0]);
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let original = ReplayTimes::recorded(&recording, &sections);
    let costs = pair_costs(&sections, &mut classifier, &original, &free());
    let regions = fuse(&sections, &costs, &place(&recording, |_| "work".into()));
    let ranges: Vec<_> = regions
        .regions
        .iter()
        .map(|it| (it.begin.offset, it.end.offset))
        .collect();
    assert_eq!(ranges, [(10, 25), (40, 50)]);
    // Overlapping code of different functions is not one region.
    let apart = fuse(
        &sections,
        &costs,
        &place(&recording, |pc| format!("f{}", pc / 15)),
    );
    assert_eq!(apart.regions.len(), 3);
}

#[test]
fn regions_of_nested_locks_are_fused() {
    // Each thread takes L2 inside of L1, in other functions; both are contended for.
    let text = "
        thread a
        10 lock L1 @100
        20 lock L2 @200
        60 unlock L2 @210
        70 unlock L1 @110
        thread b
        15 want L1 @100
        70 got L1 @100
        75 lock L2 @200
        80 unlock L2 @210
        85 unlock L1 @110
        thread c
        30 want L2 @300
        60 got L2 @300
        65 unlock L2 @310";
    let recording = recording(text);
    let sections = Sections::of(&recording);
    let sets = sets("r1");
    let assignment = Assignment::observed(vec![0; 5]);
    let mut classifier = Classifier::new(&sets, &assignment, &StaticRules);
    let original = ReplayTimes::recorded(&recording, &sections);
    let times = sections.all.iter().map(|section| {
        let at = section.requested_ns as f64;
        span(at, at, at + section.hold_ns() as f64)
    });
    let free = ReplayTimes {
        wall_ns: 70.0,
        threads: 3,
        sections: times.collect(),
    };
    let costs = pair_costs(&sections, &mut classifier, &original, &free);
    let regions = fuse(
        &sections,
        &costs,
        &place(&recording, |pc| format!("f{}", pc / 100)),
    );
    // L1's region (100..110) with L2's inside of it (200..210); c's own (300..310).
    assert_eq!(regions.regions.len(), 2);
    assert_eq!(regions.regions[0].spans.len(), 2);
    let rows: Vec<_> = regions
        .pairs
        .iter()
        .map(|row| (row.regions, row.cost.saved_ns))
        .collect();
    assert_eq!(rows, [((0, 0), 55.0), ((0, 1), 30.0)]);
}
