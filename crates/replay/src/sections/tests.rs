use convoy_trace::NO_SITE;

use super::{Section, Sections, NO_PARENT, NO_WINDOW};
use crate::testing::recording;

fn sections(text: &str) -> Sections {
    Sections::of(&recording(text))
}

/// (thread, lock, requested, acquired, released).
fn times(section: &Section) -> (u32, u32, u64, u64, u64) {
    (
        section.thread,
        section.lock,
        section.requested_ns,
        section.acquired_ns,
        section.released_ns,
    )
}

#[test]
fn a_contended_section_knows_its_request() {
    let sections = sections(
        "thread a
         10 lock L @1
         100 unlock L @2
         thread b
         20 want L @3
         110 got L @3
         150 unlock L @4",
    );
    let all: Vec<_> = sections.all.iter().map(times).collect();
    assert_eq!(all, [(0, 0, 10, 10, 100), (1, 0, 20, 110, 150)]);
    assert_eq!(sections.all[1].wait_ns(), 90);
    assert_eq!(sections.all[1].hold_ns(), 40);
    assert!(sections.all[1].contended && !sections.all[0].contended);
    assert_eq!(
        (sections.all[1].acquire_site, sections.all[1].release_site),
        (2, 3)
    );
    assert_eq!(sections.gaps, super::Gaps::default());
}

#[test]
fn nested_sections_know_the_locks_held_and_their_parent() {
    let sections = sections(
        "thread a
         10 lock L1
         20 lock L2
         30 lock L3
         40 unlock L2
         50 unlock L3
         60 unlock L1",
    );
    let held: Vec<_> = sections
        .all
        .iter()
        .map(|s| sections.lockset(s.held).to_vec())
        .collect();
    assert_eq!(held, [vec![], vec![0], vec![0, 1]]);
    let parents: Vec<_> = sections.all.iter().map(|s| s.parent).collect();
    assert_eq!(parents, [NO_PARENT, 0, 1]);
    let ends: Vec<_> = sections.all.iter().map(|s| s.released_ns).collect();
    assert_eq!(ends, [60, 40, 50]);
}

#[test]
fn a_condition_wait_splits_a_section() {
    let sections = sections(
        "thread a
         10 lock L @1
         20 wait C L @2
         80 woken C L @2
         90 unlock L @3",
    );
    let all: Vec<_> = sections.all.iter().map(times).collect();
    assert_eq!(all, [(0, 0, 10, 10, 20), (0, 0, 80, 80, 90)]);
    assert!(sections.all[0].waits && sections.all[1].reacquired);
    assert!(sections.all.iter().all(Section::uses_condition));
}

#[test]
fn recursive_acquires_are_one_section() {
    let sections = sections(
        "thread a
         10 lock M
         20 lock M
         30 unlock M
         40 unlock M",
    );
    let all: Vec<_> = sections.all.iter().map(times).collect();
    assert_eq!(all, [(0, 0, 10, 10, 40)]);
    assert_eq!(sections.gaps.recursive, 1);
}

#[test]
fn a_second_acquire_of_a_plain_mutex_means_a_release_that_is_not_recorded() {
    let sections = sections(
        "thread a
         10 lock L
         50 lock L
         60 unlock L",
    );
    let all: Vec<_> = sections.all.iter().map(times).collect();
    assert_eq!(all, [(0, 0, 10, 10, 50), (0, 0, 50, 50, 60)]);
    assert!(sections.all[0].partial && !sections.all[1].partial);
    assert_eq!(sections.gaps.partial, 1);
}

#[test]
fn a_release_by_another_thread_ends_the_section() {
    let sections = sections(
        "thread a
         10 lock L @1
         thread b
         70 unlock L @2
         80 unlock L @2",
    );
    let section = &sections.all[0];
    assert_eq!(times(section), (0, 0, 10, 10, 70));
    assert!(section.released_elsewhere && !section.partial);
    assert_eq!(sections.gaps.unmatched_releases, 1);
}

#[test]
fn the_end_of_a_window_cuts_a_section() {
    let sections = sections(
        "window 0 100
         window 200 300
         thread a
         90 lock L
         150 want L
         160 got L
         210 lock L
         220 unlock L",
    );
    let all: Vec<_> = sections.all.iter().map(times).collect();
    assert_eq!(
        all,
        [
            (0, 0, 90, 90, 100),
            (0, 0, 150, 160, 210),
            (0, 0, 210, 210, 220)
        ]
    );
    let windows: Vec<_> = sections.all.iter().map(|s| s.window).collect();
    assert_eq!(windows, [0, NO_WINDOW, 1]);
    let partial: Vec<_> = sections.all.iter().map(|s| s.partial).collect();
    assert_eq!(partial, [true, true, false]);
}

#[test]
fn lost_events_cut_open_sections_and_forget_requests() {
    let sections = sections(
        "thread a
         10 lock L1
         20 want L2
         90 lost
         95 got L2
         99 unlock L2",
    );
    let all: Vec<_> = sections.all.iter().map(times).collect();
    assert_eq!(all, [(0, 0, 10, 10, 20), (0, 1, 95, 95, 99)]);
    assert!(sections.all[0].partial);
    assert_eq!(sections.all[1].held, 0);
}

#[test]
fn reader_locks_tries_timeouts_and_preemptions_are_kept_apart() {
    let sections = sections(
        "thread a
         10 rdlock R
         20 unlock R
         30 tryrd R
         40 preempted
         50 unlock R
         60 want R
         70 timeout R
         80 wantrd R
         85 got R
         90 unlock R",
    );
    let flags: Vec<_> = sections
        .all
        .iter()
        .map(|s| (s.shared, s.tried, s.preempted))
        .collect();
    assert_eq!(
        flags,
        [
            (true, false, false),
            (true, true, true),
            (true, false, false)
        ]
    );
    assert_eq!(sections.gaps.timeouts, 1);
    assert_eq!(sections.all[2].requested_ns, 80);
}

#[test]
fn a_section_that_the_run_cuts_off_is_partial() {
    let sections = sections(
        "thread a
         10 lock L
         thread b
         5 lock L2
         50 unlock L2",
    );
    assert!(sections.all[0].partial);
    assert_eq!(sections.all[0].released_ns, 50);
    assert_eq!(sections.all[0].release_site, NO_SITE);
}

#[test]
fn sections_are_grouped_by_lock_in_order_of_acquisition() {
    let sections = sections(
        "thread a
         10 lock L1
         20 unlock L1
         30 lock L2
         40 unlock L2
         thread b
         5 lock L1
         8 unlock L1",
    );
    let groups: Vec<_> = sections
        .by_lock()
        .iter()
        .map(|(lock, of)| (lock, of.to_vec()))
        .collect();
    assert_eq!(groups, [(0, vec![2, 0]), (1, vec![1])]);
}
