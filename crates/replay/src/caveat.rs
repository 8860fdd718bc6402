//! Limits of a replay's answers: each with what the reader needs to act on it. The words are the
//! report's.

use convoy_estimate::Method;
use convoy_trace::Mode;

use crate::analysis::Analysis;
use crate::standstill;

/// A limit of the answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Caveat {
    /// The process has one thread with events, or none: nothing can contend.
    OneThread,
    /// No lock is taken in the replayed windows.
    NoLock,
    /// No replay gives the recorded run back: there are no predictions. Why, by method.
    Untrusted(Vec<(Method, String)>),
    /// This replay makes no predictions, and why; another one does.
    Refused(Method, String),
    /// The order of the program's operations depends on timing (work stealing, polling), and how a
    /// replay shows that: a trace cannot tell what it does at another speed.
    TimingDependent(String),
    /// Costs were calibrated on another machine than the one of the recording, and how they differ.
    OtherMachine(String),
    /// The calibrations before and after the replay differ by this share.
    Drift(f64),
    /// This share of the sections of this lock makes system calls.
    SystemCalls(String, f64),
    /// Read and write sets are not known, and why.
    SetsUnknown(String),
    /// Other programs used this share of the CPUs while the program was recorded.
    Busy(f64),
    /// All native replays together may take so many seconds, and were not done then.
    OutOfTime(u64),
    /// So many points of the scaling curve could not be computed, and why.
    NoPoints(usize, String),
    /// The recorded run was not replayed under this schedule, and why.
    NoSchedule(String, String),
    /// Share of the pairs whose sets come from other sections of the same call path.
    Inferred(f64),
    /// Share of the accesses in sections that was not observed.
    Unobserved(f64),
    /// Share of the threads' time whose length replay takes as given.
    Opaque(f64),
    /// Windows that were replayed, of how many, and the share of the run that they cover.
    Windows(usize, usize, f64),
    /// Of a complete recording only slices are replayed, this share of it.
    Slices(f64),
    /// Only the last nanoseconds of the run were recorded.
    Last(u64),
    /// The trace ends before the run does.
    Truncated,
    /// Events that the recorder lost.
    Lost(u64),
    /// Any other, for people.
    Other(String),
}

/// A share below which the reader need not know.
const MIN_SHARE: f64 = 0.01;

/// All limits of an analysis, in the order of [`Caveat`].
pub fn of(analysis: &Analysis) -> Vec<Caveat> {
    let mut all = derived(analysis);
    for caveat in &analysis.caveats {
        if !all.contains(caveat) {
            all.push(caveat.clone());
        }
    }
    all.sort_by_key(rank);
    all
}

fn derived(analysis: &Analysis) -> Vec<Caveat> {
    let (recorded, ulcp) = (&analysis.recorded, &analysis.ulcp);
    let mut all = Vec::new();
    if recorded.threads <= 1 {
        all.push(Caveat::OneThread);
    } else if recorded.sections == 0 {
        all.push(Caveat::NoLock);
    }
    // Nothing to replay is no failure of the replay.
    let replays = all.is_empty() || (recorded.threads > 1 && !analysis.what_ifs.is_empty());
    let refused = analysis.baselines.iter();
    let refused = refused.filter_map(|b| Some((b.method, b.refused.clone()?)));
    if replays && !analysis.is_trusted() {
        all.push(untrusted(refused.collect()));
    } else if replays {
        all.extend(refused.map(|(method, why)| Caveat::Refused(method, why)));
    }
    if let Some(why) = ulcp.unknown_because.as_ref().filter(|_| replays) {
        all.push(Caveat::SetsUnknown(why.clone()));
    }
    let of_pairs = |share: f64| if ulcp.counts.pairs() > 0 { share } else { 0.0 };
    let shares = [
        (
            of_pairs(ulcp.inferred_share),
            Caveat::Inferred as fn(f64) -> Caveat,
        ),
        (of_pairs(ulcp.unobserved_share), Caveat::Unobserved),
        (recorded.opaque_share, Caveat::Opaque),
    ];
    let told = shares.into_iter().filter(|(share, _)| *share >= MIN_SHARE);
    all.extend(told.map(|(share, caveat)| caveat(share)));
    match recorded.mode {
        Mode::Full if recorded.windows.0 == recorded.windows.1 => {}
        Mode::Full => all.push(Caveat::Slices(recorded.replayed_share())),
        Mode::Windows => {
            let (replayed, of) = recorded.windows;
            all.push(Caveat::Windows(replayed, of, recorded.replayed_share()));
        }
        Mode::Last(ns) => all.push(Caveat::Last(ns)),
    }
    all
}

/// A simulated replay that comes to a standstill on the recorded program itself does so at every
/// speed: neither another machine nor another run helps.
fn untrusted(refused: Vec<(Method, String)>) -> Caveat {
    let mut simulated = refused
        .iter()
        .filter(|(by, _)| *by == Method::ReplaySimulated);
    match simulated.find(|(_, why)| standstill::is_one(why)) {
        Some((_, why)) => Caveat::TimingDependent(why.clone()),
        None => Caveat::Untrusted(refused),
    }
}

fn rank(caveat: &Caveat) -> usize {
    match caveat {
        Caveat::OneThread => 0,
        Caveat::NoLock => 1,
        Caveat::Untrusted(_) => 2,
        Caveat::TimingDependent(_) => 3,
        Caveat::Refused(..) => 4,
        Caveat::Busy(_) => 5,
        Caveat::OutOfTime(_) => 6,
        Caveat::NoPoints(..) | Caveat::NoSchedule(..) => 7,
        Caveat::OtherMachine(_) => 8,
        Caveat::Drift(_) => 9,
        Caveat::SystemCalls(..) => 10,
        Caveat::SetsUnknown(_) => 11,
        Caveat::Inferred(_) => 12,
        Caveat::Unobserved(_) => 13,
        Caveat::Opaque(_) => 14,
        Caveat::Windows(..) | Caveat::Slices(_) => 15,
        Caveat::Last(_) => 16,
        Caveat::Truncated => 17,
        Caveat::Lost(_) => 18,
        Caveat::Other(_) => 19,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Recorded;
    use crate::predict::Baseline;

    fn analysis() -> Analysis {
        Analysis {
            recorded: Recorded {
                wall_ns: 1e9,
                replayed_ns: 1e8,
                threads: 4,
                sections: 100,
                ..Recorded::default()
            },
            baselines: vec![Baseline {
                method: Method::ReplaySimulated,
                recorded_ns: 1e8,
                replayed_ns: vec![1e8],
                refused: None,
                ..Baseline::default()
            }],
            ..Analysis::default()
        }
    }

    #[test]
    fn a_complete_recording_that_replays_has_no_caveat() {
        assert_eq!(of(&analysis()), []);
    }

    #[test]
    fn caveats_come_in_their_order_and_once() {
        let mut windows = analysis();
        windows.recorded.mode = Mode::Windows;
        windows.recorded.windows = (2, 3);
        windows.caveats = vec![
            Caveat::Other("x".into()),
            Caveat::Windows(2, 3, 0.1),
            Caveat::Drift(0.2),
        ];
        assert_eq!(
            of(&windows),
            [
                Caveat::Drift(0.2),
                Caveat::Windows(2, 3, 0.1),
                Caveat::Other("x".into())
            ]
        );
    }

    #[test]
    fn a_program_of_one_thread_is_not_accused_of_a_failed_replay() {
        let mut alone = analysis();
        alone.recorded.threads = 1;
        alone.baselines.clear();
        assert_eq!(of(&alone), [Caveat::OneThread]);
    }

    #[test]
    fn a_simulated_standstill_is_the_programs_and_not_the_machines() {
        let mut stuck = analysis();
        let why = format!("{}: 2 threads wait for a condition", standstill::PREFIX);
        stuck.baselines[0].refused = Some(why.clone());
        assert_eq!(of(&stuck), [Caveat::TimingDependent(why)]);
    }

    #[test]
    fn one_refused_replay_is_named_and_two_are_no_prediction() {
        let mut one = analysis();
        one.baselines.push(Baseline {
            method: Method::ReplayNative,
            recorded_ns: 1e8,
            replayed_ns: vec![2e8],
            refused: Some("slow".into()),
            ..Baseline::default()
        });
        assert_eq!(
            of(&one),
            [Caveat::Refused(Method::ReplayNative, "slow".into())]
        );
        one.baselines[0].refused = Some("fast".into());
        let why = [
            (Method::ReplaySimulated, "fast".into()),
            (Method::ReplayNative, "slow".into()),
        ];
        assert_eq!(of(&one), [Caveat::Untrusted(why.to_vec())]);
    }
}
