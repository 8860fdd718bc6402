//! The document of `convoy replay --format json` against docs/json.md.

use std::collections::BTreeSet;

use convoy_replay::analysis::{Analysis, PlanRow};
use convoy_report::replay::json;
use convoy_testkit::replay;

use crate::walk::{Key, Walk};

fn walk(analysis: &Analysis) -> Walk {
    Walk::of(&json::render(analysis), "Replay")
}

/// All kinds of replays; together they have everything known, and everything unknown that can be.
fn walks() -> Vec<Walk> {
    let mut threads = replay::rich();
    threads.curve[0].threads = Some(4);
    let mut unmeasured = replay::refused();
    unmeasured.baselines[0].replayed_ns.clear();
    unmeasured.ulcp_free = Some(unmeasured.what_ifs[0].answer.clone());
    unmeasured.plan = vec![PlanRow::default()];
    let kinds = [
        threads,
        unmeasured,
        replay::sets_unknown(),
        replay::disputed(),
        replay::one_thread(),
    ];
    kinds.iter().map(walk).collect()
}

#[test]
fn every_key_of_a_replay_is_documented_and_every_documented_key_exists() {
    let walks = walks();
    let met: BTreeSet<&Key> = walks.iter().flat_map(|walk| &walk.met).collect();
    let keys = walks.iter().flat_map(|walk| walk.keys.keys());
    let unmet: Vec<_> = keys.filter(|key| !met.contains(key)).collect();
    assert!(unmet.is_empty(), "documented and not written: {unmet:?}");
}

#[test]
fn exactly_what_may_be_null_in_a_replay_is_documented_so() {
    let walks = walks();
    let null: BTreeSet<&Key> = walks.iter().flat_map(|walk| &walk.null).collect();
    let keys = walks[0].keys.iter();
    let nullable: BTreeSet<&Key> = keys.filter(|(_, t)| t.nullable).map(|(k, _)| k).collect();
    assert_eq!(null, nullable);
}
