//! Hypotheses about the whole program, judged by what is known without a probe.

use crate::focus::Focus;
use crate::metric::Kind;
use crate::search::history::{History, Time};
use crate::search::hypothesis::{Hypothesis, Whole};
use crate::search::recorded::{Recorded, WaitReason};
use crate::search::share::{Share, Verdict};
use crate::search::tree::Outcome;

/// Unseen waits below this part of the busy time change no verdict that is not too near the
/// threshold anyway.
const NEGLIGIBLE: f64 = 0.01;

/// What is known before the first test.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Of threads and locks.
    pub history: &'a History,
    /// The recording, or why there is none.
    pub recorded: Result<&'a Recorded, &'a str>,
    /// Why the agent does not count locks, if it does not.
    pub no_locks: &'a str,
}

impl Hypothesis {
    /// The time that the history has of it.
    pub(crate) fn measured(self) -> Option<Time> {
        match self {
            Self::CpuBound => Some(Time::Cpu),
            Self::WaitsForCpu => Some(Time::RunQueue),
            Self::WaitsForLocks => Some(Time::LockWait),
            Self::WaitsForEvents => Some(Time::EventWait),
            Self::WaitsForIo | Self::WaitsForOutside => None,
        }
    }

    /// What a recording has of it.
    pub(crate) fn recorded(self) -> Option<WaitReason> {
        match self {
            Self::WaitsForIo => Some(WaitReason::Io),
            Self::WaitsForEvents => Some(WaitReason::Event),
            Self::WaitsForOutside => Some(WaitReason::Outside),
            _ => None,
        }
    }
}

impl Known<'_> {
    /// Judges a hypothesis.
    pub fn judge(&self, hypothesis: Hypothesis, threshold: f64) -> Outcome {
        let wholes = self.wholes(hypothesis.whole());
        let series = hypothesis.measured().map(|time| self.of(time));
        let pairs: Vec<(f64, f64)> = series
            .into_iter()
            .flatten()
            .zip(&wholes)
            .filter_map(|(part, whole)| Some((part?, *whole)))
            .collect();
        let whole = mean(&wholes);
        if let Some(share) = Share::of_intervals(&pairs) {
            let outcome = Outcome::measured(share, &pairs, threshold);
            let outcome = self.with_unseen(hypothesis, outcome, whole, threshold);
            return self.widened(hypothesis, outcome, whole, threshold);
        }
        if !pairs.is_empty() || whole <= 0.0 {
            return Outcome::unknown("the threads did nothing while they were looked at");
        }
        let recorded = match self.recorded {
            Ok(recorded) => recorded,
            Err(why) if hypothesis.recorded().is_some() => return Outcome::unknown(why),
            Err(_) => return Outcome::unknown(self.no_locks),
        };
        let wait = |reason| recorded.wait(&Focus::new(), reason);
        let doubtful = wait(WaitReason::Futex);
        match hypothesis {
            Hypothesis::WaitsForLocks => self.bounded(0.0, doubtful, whole + doubtful, threshold),
            Hypothesis::WaitsForEvents => {
                let sure = wait(WaitReason::Event);
                self.bounded(sure, sure + doubtful, whole, threshold)
            }
            _ => {
                let reason = hypothesis.recorded().unwrap_or(WaitReason::Io);
                let outcome = Outcome::exact(wait(reason), whole, threshold);
                self.widened(hypothesis, outcome, whole, threshold)
            }
        }
    }

    /// Waits that may belong to the busy time and are not counted in it: futexes that the agent
    /// has not seen; without a recording, whatever blocks threads.
    fn unseen(&self) -> f64 {
        let seen = |time| mean(&self.of(time).into_iter().flatten().collect::<Vec<f64>>());
        let (events, locks) = (seen(Time::EventWait), seen(Time::LockWait));
        let unseen = match self.recorded {
            Ok(recorded) => {
                let wait = |reason| recorded.wait(&Focus::new(), reason);
                // Events beyond those of which the call stack is known may be among the other
                // futexes.
                let events = (events - wait(WaitReason::Event)).max(0.0);
                wait(WaitReason::Futex) - locks - events
            }
            Err(_) => {
                let awake = seen(Time::Cpu) + seen(Time::RunQueue);
                seen(Time::Life) - awake - locks - events
            }
        };
        unseen.max(0.0)
    }

    /// The share of a whole that may contain waits which nobody saw: between both extremes. With a
    /// recording those are futexes, which may be lock waits themselves: [`Known::with_unseen`].
    fn widened(
        &self,
        hypothesis: Hypothesis,
        outcome: Outcome,
        whole: f64,
        threshold: f64,
    ) -> Outcome {
        let is_of_busy = !matches!(hypothesis.whole(), Whole::Life);
        let may_be_it = hypothesis == Hypothesis::WaitsForLocks && self.recorded.is_ok();
        let unseen = self.unseen();
        let Some(share) = outcome.share.filter(|_| is_of_busy && !may_be_it) else {
            return outcome;
        };
        if unseen <= NEGLIGIBLE * whole {
            return outcome;
        }
        let low = share.low * whole / (whole + unseen);
        let share = Share {
            mean: (low + share.high) / 2.0,
            low,
            high: share.high,
        };
        let verdict = share.verdict(threshold);
        let gap = (verdict == Verdict::Unknown).then(|| self.unseen_by());
        Outcome {
            verdict,
            share: Some(share),
            kind: Kind::Inferred,
            gap: outcome.gap.or(gap),
            ..outcome
        }
    }

    /// Why some waits may be for locks or I/O or not.
    fn unseen_by(&self) -> String {
        match (self.recorded, self.no_locks) {
            (Err(_), _) => "threads are blocked, and without a recording it is not known in what",
            (Ok(_), "") => "threads wait since before the agent came, it does not know for what",
            (Ok(_), why) => why,
        }
        .into()
    }

    /// The agent does not see waits that began before it came: what a recording has more of is
    /// perhaps a wait of this kind.
    fn with_unseen(
        &self,
        hypothesis: Hypothesis,
        mut outcome: Outcome,
        whole: f64,
        threshold: f64,
    ) -> Outcome {
        let is_of_agent = matches!(
            hypothesis,
            Hypothesis::WaitsForLocks | Hypothesis::WaitsForEvents
        );
        let (Ok(recorded), true) = (self.recorded, is_of_agent) else {
            return outcome;
        };
        let wait = |reason| recorded.wait(&Focus::new(), reason);
        let seen = |time| mean(&self.of(time).into_iter().flatten().collect::<Vec<f64>>());
        let events = seen(Time::EventWait);
        let event = wait(WaitReason::Event);
        let doubtful = self.unseen();
        if hypothesis == Hypothesis::WaitsForEvents && event > events {
            outcome = Outcome::exact(event, whole, threshold);
        }
        let value = outcome.value.unwrap_or(0.0);
        let most = match hypothesis {
            Hypothesis::WaitsForLocks => whole + doubtful,
            _ => whole,
        };
        if outcome.verdict == Verdict::False && value + doubtful >= threshold * most {
            return Outcome {
                value: None,
                ..self.bounded(value, value + doubtful, most, threshold)
            };
        }
        outcome
    }

    /// Of a wait of which only bounds are known: without the agent, a futex may be a lock.
    fn bounded(&self, low: f64, high: f64, whole: f64, threshold: f64) -> Outcome {
        let (below, above) = (low / whole, high / whole);
        let share = Share {
            mean: (below + above) / 2.0,
            low: below,
            high: above,
        };
        let verdict = share.verdict(threshold);
        Outcome {
            verdict,
            value: (verdict != Verdict::Unknown).then_some((low + high) / 2.0),
            share: Some(share),
            kind: Kind::Inferred,
            cost_share: 0.0,
            gap: (verdict == Verdict::Unknown).then(|| self.unseen_by()),
        }
    }

    /// Whether what is known leaves room for lock waits above the threshold.
    pub fn suspects_locks(&self, threshold: f64) -> bool {
        let busy = mean(&self.wholes(Whole::Busy));
        let futexes = match self.recorded {
            Ok(recorded) => recorded.wait(&Focus::new(), WaitReason::Futex),
            Err(_) => {
                let idle = mean(&self.wholes(Whole::Life)) - busy;
                idle.max(0.0)
            }
        };
        futexes > 0.0 && futexes >= threshold * (busy + futexes)
    }

    /// Threads that compute, or wait for locks and I/O, on average.
    pub fn busy(&self) -> f64 {
        mean(&self.wholes(Whole::Busy))
    }

    fn of(&self, time: Time) -> Vec<Option<f64>> {
        self.history.series(time, &Focus::new())
    }

    /// The whole of each interval.
    fn wholes(&self, whole: Whole) -> Vec<f64> {
        let value = |of: Option<f64>| of.unwrap_or(0.0);
        if whole == Whole::Life {
            return self.of(Time::Life).into_iter().map(value).collect();
        }
        let io = match self.recorded {
            Ok(recorded) => recorded.wait(&Focus::new(), WaitReason::Io),
            Err(_) => 0.0,
        };
        let mut times = vec![self.of(Time::Cpu), self.of(Time::LockWait)];
        if whole == Whole::BusyOrRunnable {
            times.push(self.of(Time::RunQueue));
        }
        let intervals = 0..self.history.len();
        let sum = |ix: usize| {
            times
                .iter()
                .map(|t| value(t.get(ix).copied().flatten()))
                .sum::<f64>()
        };
        intervals.map(|ix| sum(ix) + io).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl Outcome {
    /// What intervals say: parts and wholes, and their share.
    pub fn measured(share: Share, pairs: &[(f64, f64)], threshold: f64) -> Self {
        let parts = pairs.iter().fold(0.0, |sum, (part, _)| sum + part);
        let verdict = share.verdict(threshold);
        let near = "too near the threshold, or not steady";
        Self {
            verdict,
            value: Some(parts / pairs.len().max(1) as f64),
            share: Some(share),
            kind: Kind::Exact,
            cost_share: 0.0,
            gap: (verdict == Verdict::Unknown).then(|| near.to_owned()),
        }
    }

    /// Nothing is known, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Unknown,
            value: None,
            share: None,
            kind: Kind::Exact,
            cost_share: 0.0,
            gap: Some(why.into()),
        }
    }

    /// A value of which every part was seen.
    pub fn exact(value: f64, whole: f64, threshold: f64) -> Self {
        let share = Share::exact(value / whole);
        Self {
            verdict: share.verdict(threshold),
            value: Some(value),
            share: Some(share),
            kind: Kind::Exact,
            cost_share: 0.0,
            gap: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::history::tests::history;
    use crate::search::recorded::{RecordedThread, RecordedWait};

    const THRESHOLD: f64 = 0.2;

    fn recorded(waits: &[(WaitReason, f64)]) -> Recorded {
        let wait = |(reason, seconds): &(WaitReason, f64)| RecordedWait {
            reason: Some(*reason),
            ns: (seconds * 1e9) as u64,
            ..RecordedWait::default()
        };
        Recorded {
            seconds: 1.0,
            threads: vec![RecordedThread::default()],
            waits: waits.iter().map(wait).collect(),
            ..Recorded::default()
        }
    }

    fn verdicts(known: &Known<'_>) -> Vec<Verdict> {
        let all = Hypothesis::ALL.into_iter();
        all.map(|h| known.judge(h, THRESHOLD).verdict).collect()
    }

    use Verdict::{False, True, Unknown};

    #[test]
    fn with_the_agent_every_hypothesis_has_a_verdict() {
        // One thread computes half of the time; it waits for a lock 0.25, for a condition 0.5 s/s.
        let (history, recorded) = (history(4, true), recorded(&[(WaitReason::Io, 0.01)]));
        let known = Known {
            history: &history,
            recorded: Ok(&recorded),
            no_locks: "",
        };
        assert_eq!(verdicts(&known), [True, False, True, False, True, False]);
        assert!((known.busy() - 0.76).abs() < 1e-9);
    }

    #[test]
    fn without_the_agent_futexes_may_be_locks() {
        let history = history(4, false);
        let judge = |waits: &[(WaitReason, f64)]| {
            let recorded = recorded(waits);
            let known = Known {
                history: &history,
                recorded: Ok(&recorded),
                no_locks: "the agent is not in it",
            };
            let locks = known.judge(Hypothesis::WaitsForLocks, THRESHOLD);
            (
                locks.verdict,
                locks.value.is_some(),
                known.suspects_locks(THRESHOLD),
            )
        };
        assert_eq!(judge(&[(WaitReason::Futex, 0.01)]), (False, true, false));
        assert_eq!(judge(&[(WaitReason::Event, 1.9)]), (False, true, false));
        assert_eq!(judge(&[(WaitReason::Futex, 1.0)]), (Unknown, false, true));
    }

    #[test]
    fn uncounted_lock_waits_may_be_the_larger_part_of_the_busy_time() {
        let history = history(4, false);
        let judge = |futex: f64, hypothesis| {
            let recorded = recorded(&[(WaitReason::Futex, futex), (WaitReason::Io, 0.5)]);
            let known = Known {
                history: &history,
                recorded: Ok(&recorded),
                no_locks: "the agent is not in it",
            };
            known.judge(hypothesis, THRESHOLD)
        };
        for hypothesis in [Hypothesis::CpuBound, Hypothesis::WaitsForIo] {
            // Half of a thread each, and 9 threads at futexes: 5 % to 50 % of the busy time.
            let unclear = judge(9.0, hypothesis);
            let share = unclear.share.unwrap();
            assert!((share.low - 0.05).abs() < 1e-9, "{hypothesis:?}: {share:?}");
            assert!((share.high - 0.5).abs() < 1e-9, "{hypothesis:?}: {share:?}");
            assert_eq!(unclear.verdict, Unknown, "{hypothesis:?}");
            assert_eq!(unclear.gap.as_deref(), Some("the agent is not in it"));
            // 1 thread: 25 % to 50 %.
            let clear = judge(1.0, hypothesis);
            assert_eq!((clear.verdict, clear.gap), (True, None), "{hypothesis:?}");
            assert_eq!(judge(0.0, hypothesis).kind, Kind::Exact, "{hypothesis:?}");
        }
    }

    #[test]
    fn blocked_threads_are_not_denied_without_a_recording() {
        let (without, with) = (history(4, false), history(4, true));
        let judge = |history: &History, threshold| {
            let known = Known {
                history,
                recorded: Err("no rights"),
                no_locks: "no agent",
            };
            known.judge(Hypothesis::CpuBound, threshold)
        };
        // Half of a thread computes, 1.5 are blocked; the agent says why of 0.75.
        let share = judge(&without, 0.3).share.unwrap();
        assert!((share.low - 0.25).abs() < 1e-9 && share.high == 1.0);
        assert_eq!(judge(&without, 0.3).verdict, Unknown);
        assert_eq!(judge(&with, 0.3).verdict, True);
    }

    #[test]
    fn waits_that_began_before_the_agent_came_are_not_denied() {
        let history = history(4, true);
        let judge = |waits: &[(WaitReason, f64)], hypothesis| {
            let recorded = recorded(waits);
            let known = Known {
                history: &history,
                recorded: Ok(&recorded),
                no_locks: "",
            };
            known.judge(hypothesis, 0.4).verdict
        };
        let (locks, events) = (Hypothesis::WaitsForLocks, Hypothesis::WaitsForEvents);
        let seen = [(WaitReason::Futex, 0.25), (WaitReason::Event, 0.5)];
        assert_eq!((judge(&seen, locks), judge(&seen, events)), (False, False));
        let more = [(WaitReason::Futex, 4.0)];
        assert_eq!(
            (judge(&more, locks), judge(&more, events)),
            (Unknown, Unknown)
        );
        assert_eq!(judge(&[(WaitReason::Event, 1.0)], events), True);
    }

    #[test]
    fn what_could_not_be_looked_at_is_unknown_with_its_reason() {
        let history = history(4, false);
        let known = Known {
            history: &history,
            recorded: Err("no rights"),
            no_locks: "no agent",
        };
        let reason = |h| known.judge(h, THRESHOLD).gap;
        assert_eq!(reason(Hypothesis::WaitsForIo), Some("no rights".into()));
        assert_eq!(reason(Hypothesis::WaitsForLocks), Some("no agent".into()));
        assert_eq!(reason(Hypothesis::CpuBound), None);
        assert!(
            known.suspects_locks(THRESHOLD),
            "threads are blocked in something"
        );
    }

    #[test]
    fn an_idle_program_is_not_judged() {
        let history = History::default();
        let known = Known {
            history: &history,
            recorded: Err("no rights"),
            no_locks: "no agent",
        };
        let cpu = known.judge(Hypothesis::CpuBound, THRESHOLD);
        assert_eq!((cpu.verdict, cpu.value), (Unknown, None));
    }
}
