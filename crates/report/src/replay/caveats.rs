//! Limits of a replay's answers, in words: each says what to do about it.

use convoy_estimate::Method;
use convoy_replay::analysis::Analysis;
use convoy_replay::caveat::{self, Caveat};

use super::messages::method;
use crate::human::{count, count_of, duration, percent};

/// All limits of an analysis, in their order.
pub fn texts(analysis: &Analysis) -> Vec<String> {
    caveat::of(analysis).iter().map(text).collect()
}

/// Why replays make no predictions; once, if all have the same reason.
fn reasons(of: &[(Method, String)]) -> String {
    let mut texts: Vec<&str> = of
        .iter()
        .map(|(_, why)| why.trim_end_matches('.'))
        .collect();
    texts.dedup();
    match texts.as_slice() {
        [only] => (*only).to_owned(),
        _ => {
            let each = of
                .iter()
                .map(|(by, why)| (method(*by), why.trim_end_matches('.')));
            let each: Vec<String> = each.map(|(by, why)| format!("{by}: {why}")).collect();
            each.join("; ")
        }
    }
}

/// How read and write sets are recorded.
pub(super) const BOTH_RUNS: &str =
    "`convoy replay -- COMMAND` records the timing in one run and the sets in a second one";

fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::OneThread => {
            "One thread has events: record a run in which several threads work.".into()
        }
        Caveat::NoLock => {
            "No lock of the C library was taken in the recorded time. Locks of Rust's \
             std, of Go and of C++20, and spin loops by hand, are not in a trace: ask `convoy \
             report --critical`."
                .into()
        }
        Caveat::Untrusted(why) => {
            format!(
                "No replay gives the recorded run back, so no gain is shown ({}): repeat on an \
                 idle machine, with a longer run, or measure a fix with --verify.",
                reasons(why)
            )
        }
        Caveat::Refused(by, why) => format!(
            "The {} replay makes no predictions: {}. Intervals rest on the other replay alone: \
             repeat on an idle machine to have both.",
            method(*by),
            why.trim_end_matches('.')
        ),
        Caveat::TimingDependent(why) => format!(
            "The program's order depends on timing ({why}), so no gain is shown: a trace cannot \
             tell what it does at another speed. Measure a fix with --verify."
        ),
        Caveat::Busy(share) => format!(
            "Other programs used {} of the CPUs while this one was recorded: repeat on an idle \
             machine.",
            percent(*share)
        ),
        Caveat::OutOfTime(seconds) => format!(
            "The native replays took {seconds} s, and the others were not done: give a longer \
             --native-limit, or record a shorter run."
        ),
        Caveat::NoPoints(points, why) => format!(
            "The scaling curve lacks {} ({}).",
            count_of(*points as u64, "point", "points"),
            why.trim_end_matches('.')
        ),
        Caveat::NoSchedule(schedule, why) => {
            format!(
                "Figure 13 has no replay under {schedule}: {}.",
                why.trim_end_matches('.')
            )
        }
        Caveat::OtherMachine(differs) => format!(
            "The recording is of another machine ({differs}): replay on that machine, or read \
             gains as those of this one."
        ),
        Caveat::Drift(share) => format!(
            "The machine's speed changed by {} during the replay: repeat on an idle machine.",
            percent(*share)
        ),
        Caveat::SystemCalls(lock, share) => format!(
            "{} of the critical sections of {lock} make system calls: replay keeps them as long as \
             they were, and what the kernel does for them is in no read or write set. Move them \
             out of the section first.",
            percent(*share)
        ),
        Caveat::SetsUnknown(why) => format!(
            "Read and write sets are unknown ({}): {BOTH_RUNS}.",
            why.trim_end_matches('.')
        ),
        Caveat::Inferred(share) => format!(
            "Sets of {} of the pairs are inferred from the call path: a longer run observes more.",
            percent(*share)
        ),
        Caveat::Unobserved(share) => format!(
            "{} of the accesses were not observed: look for more races before you remove a lock.",
            percent(*share)
        ),
        Caveat::Opaque(share) => format!(
            "{} of the threads' time (raw futexes) is kept as recorded: check fixes with --verify.",
            percent(*share)
        ),
        Caveat::Windows(replayed, of, share) => format!(
            "{} of {}, {} of the run, stand for all of it: use --trace=full if it has phases.",
            count(*replayed as u64),
            count_of(*of as u64, "window", "windows"),
            percent(*share)
        ),
        Caveat::Slices(share) => format!(
            "Slices of the run, {} of it and evenly spread, are replayed for all of it.",
            percent(*share)
        ),
        Caveat::Last(ns) => format!(
            "Only the last {} were recorded: record with --trace=full to see all of the run.",
            duration(*ns as f64)
        ),
        Caveat::Truncated => {
            "The trace ends before the run does: what came later is not in it. Record again.".into()
        }
        Caveat::Lost(events) => format!(
            "The recorder lost {}: record with --trace=window.",
            count_of(*events, "event", "events")
        ),
        Caveat::Other(text) => text.clone(),
    }
}
