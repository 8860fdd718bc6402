//! Parallel regions of OpenMP that are over as soon as they have begun.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::{ObjectKind, Op};
use convoy_testkit::{ms, us, ProfileBuilder};

/// Two threads go through so many regions in a second: of each microsecond of work they wait for half of one.
fn regions(n: u64, work_ns: u64) -> Vec<Finding> {
    let mut b = ProfileBuilder::new("stencil");
    b.cpus(2).wall(ms(1000));
    let at = b.site("relax", "stencil.c", 12);
    let threads = [0, b.thread("stencil").start("relax", "stencil.c", 12).id()];
    let region = b.object(ObjectKind::OmpRegion).addr(0x4000).id();
    for thread in threads {
        b.edit_thread(thread).lives(0, ms(1000)).cpu(ms(1000));
        b.op(thread, region, at, Op::OmpRegion, n)
            .waits(n, n * work_ns / 2)
            .busy(n * work_ns);
    }
    analyze(&Model::build(b.build()), &Params::default()).findings
}

#[test]
fn to_begin_and_to_end_a_region_takes_as_long_as_its_work() {
    let found = regions(200_000, us(2));
    let small = found.iter().find(|f| f.id == FindingId::FineGrainedTasks);
    let small = small.unwrap_or_else(|| panic!("{found:#?}"));
    // Of 5 us 1 are the wait, and half of the 2 until the next one; four fifths of that.
    assert!(
        (small.gain.mid - 1.0 / (1.0 - 0.32)).abs() < 0.01,
        "{:?}",
        small.gain
    );
    assert_eq!(small.gain.low, 1.0);
    assert!(small.gain.high.is_infinite(), "{:?}", small.gain);
    assert!(
        small.causes[0].fix.contains("outer loop"),
        "{:?}",
        small.causes
    );
    assert!(
        found.iter().all(|f| f.id != FindingId::Straggler),
        "{found:#?}"
    );
}

#[test]
fn regions_that_work_longer_wait_for_whoever_is_last() {
    for (n, work) in [(20_000, us(20)), (500, us(2))] {
        let found = regions(n, work);
        assert!(
            found.iter().all(|f| f.id != FindingId::FineGrainedTasks),
            "{n}: {found:#?}"
        );
    }
}
