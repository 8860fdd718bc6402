//! Predictions: what a change of the program saves, by each replay, with error bars and the gate.
//!
//! A replay is trusted as far as it gives the recorded run back (the paper's performance fidelity,
//! CGO'15, section 6). A replay that misses it by more than the run's own spread makes no
//! predictions: its answers are kept as failed checks, with the reason.

use convoy_estimate::{Check, Estimate, Interval, Method, WhatIf};

use crate::fidelity::{Fidelity, Fingerprint, Quantity};
use crate::program::Program;
use crate::simulated::Simulator;

/// Runs programs. The simulator and the native replay are one each.
pub trait Replayer {
    /// Which method it is.
    fn method(&self) -> Method;

    /// Runs these programs one after another, several times. `Err` = they cannot be replayed by it, and
    /// why, for people.
    fn replay(&mut self, programs: &[Program]) -> Result<Replayed, String>;

    /// The same with the order of acquisitions that a simulator enforces (ELSC, SYNC); `None` = it
    /// cannot.
    fn in_order_of(&self, _: &Simulator) -> Option<Box<dyn Replayer>> {
        None
    }
}

/// Several runs of the same programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// Wall time of each run, nanoseconds, at least one; NaN = that run did not end.
    pub walls_ns: Vec<f64>,
    /// The n-th run of one program and the n-th run of another had the same conditions (a variation of
    /// the machine, a seed), so that they can be compared one by one.
    pub paired: bool,
    /// What the runs are recognized by; `None` = not measured.
    pub fingerprint: Option<Fingerprint>,
}

/// A share of the recorded wall time that a change saves. Negative: it costs time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Saved {
    /// At least.
    pub low: f64,
    /// Expected.
    pub mid: f64,
    /// At most.
    pub high: f64,
}

impl Saved {
    /// The same, known less well by this share.
    fn widened(self, share: f64) -> Self {
        Self {
            low: self.low - share,
            high: (self.high + share).min(1.0),
            ..self
        }
    }
}

/// How well a replay gives the recorded run back.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Which replay.
    pub method: Method,
    /// What was recorded, nanoseconds of the replayed windows.
    pub recorded_ns: f64,
    /// The replayed runs that ended, ascending; empty = it could not be replayed.
    pub replayed_ns: Vec<f64>,
    /// Those without the recorder's time, as they were made, for comparison with changed programs.
    pub runs: Replayed,
    /// A replay with the recorder's time takes this without that time: locks are contended there as
    /// they were while it was recorded. `None` = the recorder took too little to matter.
    pub shortened_ns: Option<f64>,
    /// What else was compared; `None` = nothing was.
    pub fidelity: Option<Fidelity>,
    /// Why it makes no predictions; `None` = it does.
    pub refused: Option<String>,
}

/// What a change saves, by each method.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Of the replays that passed the gate and could run the changed program.
    pub by_method: Vec<(Method, Saved)>,
    /// Replays that make no prediction, and why.
    pub refused: Vec<(Method, String)>,
}

/// What the shares of the fastest and the slowest repetition are allowed to be off: on 32 what-ifs the
/// spread of the simulator's parameters alone held 20 truths, the union with the native replay 28.
const POINTS: f64 = 0.03;
/// The same where one replay alone makes predictions: the two fail in different places, and nothing
/// shows where this one does.
const ALONE: f64 = 0.09;
/// Of a miss on the recorded run, this part is expected on a changed one, too.
const RESIDUAL: f64 = 1.0;

/// Replays the recorded run, then changes of it.
pub struct Predictor<'a> {
    replayers: Vec<Box<dyn Replayer + 'a>>,
    baselines: Vec<Baseline>,
    /// Added to every interval on both sides, as a share of the recorded wall time.
    margin: f64,
}

impl std::fmt::Debug for Predictor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Predictor").field(&self.baselines).finish()
    }
}

/// The recorded run as programs.
#[derive(Debug, Clone, Copy)]
pub struct Original<'p> {
    /// Without the recorder's time: changes are compared with these.
    pub programs: &'p [Program],
    /// With it, as the run was when it was recorded. `None` = it is too little to matter.
    pub as_recorded: Option<AsRecorded<'p>>,
}

/// The recorded run with the recorder's time: these programs must give it back.
#[derive(Debug, Clone, Copy)]
pub struct AsRecorded<'p> {
    /// The programs.
    pub programs: &'p [Program],
    /// The recorder's share of the time that threads do not wait for locks, 0..1.
    pub recorder_share: f64,
}

impl<'a> Predictor<'a> {
    /// Replays the recorded run. `spread`: the relative spread of recorded runs of this program, if
    /// several are known.
    pub fn new(
        mut replayers: Vec<Box<dyn Replayer + 'a>>,
        original: Original<'_>,
        recorded: &Fingerprint,
        spread: Option<f64>,
    ) -> Self {
        let baselines = replayers
            .iter_mut()
            .map(|replayer| baseline(replayer.as_mut(), original, recorded, spread))
            .collect();
        Self {
            replayers,
            baselines,
            margin: 0.0,
        }
    }

    /// So much of the recorded time is known less well: it is added to every interval on both
    /// sides.
    pub fn widen(&mut self, share: f64) {
        self.margin = share;
    }

    /// What each interval is widened by.
    fn margin(&self) -> f64 {
        let open = self.baselines.iter().filter(|b| b.refused.is_none());
        let alone = if open.count() == 1 { ALONE } else { 0.0 };
        POINTS + alone + self.margin
    }

    /// No replay makes predictions, for this reason.
    pub fn refuse(&mut self, why: &str) {
        for baseline in &mut self.baselines {
            baseline.refused.get_or_insert_with(|| why.to_owned());
        }
    }

    /// Takes over how well replays of the same methods give the recorded run back.
    pub fn trust_as(&mut self, others: &[Baseline]) {
        for baseline in &mut self.baselines {
            if let Some(other) = others.iter().find(|other| other.method == baseline.method) {
                baseline.fidelity.clone_from(&other.fidelity);
                let runs = &baseline.runs.walls_ns;
                if baseline.median_ns().is_some() && runs.iter().any(|wall| wall.is_finite()) {
                    baseline.refused.clone_from(&other.refused);
                }
            }
        }
    }

    /// How well each replay gives the recorded run back.
    pub fn baselines(&self) -> &[Baseline] {
        &self.baselines
    }

    /// Whether any replay makes predictions.
    pub fn is_open(&self) -> bool {
        self.baselines.iter().any(|b| b.refused.is_none())
    }

    /// What the changed program saves.
    pub fn ask(&mut self, changed: &[Program]) -> Answer {
        let (mut answer, margin) = (Answer::default(), POINTS + self.margin);
        for (replayer, baseline) in self.replayers.iter_mut().zip(&self.baselines) {
            answer.add(baseline, replayer.as_mut(), changed, margin);
        }
        // One that passed the gate may not be able to replay this change.
        if let [(_, alone)] = answer.by_method.as_mut_slice() {
            *alone = alone.widened(ALONE);
        }
        answer
    }

    /// What the changed program saves on a machine that only this replayer has: its own recorded run is
    /// that of the replay of the same method.
    pub fn ask_other(
        &self,
        replayer: &mut dyn Replayer,
        changed: &[Program],
        recorded: &Fingerprint,
    ) -> Answer {
        let mut answer = Answer::default();
        let method = replayer.method();
        if let Some(baseline) = self.baselines.iter().find(|b| b.method == method) {
            debug_assert!((baseline.recorded_ns - recorded.wall_ns).abs() < 1.0);
            answer.add(baseline, replayer, changed, self.margin());
        }
        answer
    }

    /// The expected share by the first replay that makes predictions, for searches that ask for many
    /// changes. 0 where none does.
    pub fn quick(&mut self, changed: &[Program]) -> f64 {
        for (replayer, baseline) in self.replayers.iter_mut().zip(&self.baselines) {
            if baseline.refused.is_some() {
                continue;
            }
            if let Some(saved) = replayer
                .replay(changed)
                .ok()
                .and_then(|r| saved(baseline, &r, 0.0))
            {
                return saved.mid;
            }
        }
        0.0
    }
}

impl Answer {
    /// Adds what one replay says of a change. `margin`: see [`Predictor::margin`].
    fn add(
        &mut self,
        baseline: &Baseline,
        replayer: &mut dyn Replayer,
        changed: &[Program],
        margin: f64,
    ) {
        let replayed = match &baseline.refused {
            Some(why) => Err(why.clone()),
            None => replayer.replay(changed),
        };
        match replayed.map(|runs| saved(baseline, &runs, margin)) {
            Ok(Some(saved)) => self.by_method.push((baseline.method, saved)),
            Ok(None) => self.refused.push((baseline.method, NO_END.into())),
            Err(why) => self.refused.push((baseline.method, why)),
        }
    }

    /// What all methods allow: their union. `None` = no method makes a prediction.
    pub fn saved(&self) -> Option<Saved> {
        let all = self.by_method.iter().map(|(_, saved)| *saved);
        let n = self.by_method.len() as f64;
        let sum = all.clone().reduce(|a, b| Saved {
            low: a.low.min(b.low),
            mid: a.mid + b.mid,
            high: a.high.max(b.high),
        })?;
        Some(Saved {
            mid: sum.mid / n,
            ..sum
        })
    }

    /// Why there is no prediction, in the words of the replays that make none.
    pub fn reason(&self) -> String {
        let mut reasons: Vec<&str> = self.refused.iter().map(|(_, why)| why.as_str()).collect();
        reasons.dedup();
        reasons.join("; ")
    }

    /// How far apart the methods' expectations are, in shares of the wall time.
    pub fn disagreement(&self) -> f64 {
        let mids = self.by_method.iter().map(|(_, saved)| saved.mid);
        let (low, high) = mids.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mid| {
            (low.min(mid), high.max(mid))
        });
        (high - low).max(0.0)
    }

    /// As estimates of a finding's gain.
    pub fn estimates(&self, what_if: &WhatIf, assumption: &str) -> Vec<Estimate> {
        let said = self.by_method.iter().map(|(method, saved)| Estimate {
            method: *method,
            what_if: what_if.clone(),
            gain: Interval::of_saved(saved.low, saved.mid, saved.high),
            assumption: assumption.to_owned(),
            check: Check::Passed(String::new()),
        });
        let refused = self.refused.iter().map(|(method, why)| Estimate {
            method: *method,
            what_if: what_if.clone(),
            gain: Interval {
                low: 1.0,
                mid: 1.0,
                high: None,
            },
            assumption: assumption.to_owned(),
            check: Check::Failed(why.clone()),
        });
        said.chain(refused).collect()
    }
}

impl Default for Baseline {
    /// Of a simulation that was not made.
    fn default() -> Self {
        Self {
            method: Method::ReplaySimulated,
            recorded_ns: 0.0,
            replayed_ns: Vec::new(),
            runs: Replayed::default(),
            shortened_ns: None,
            fidelity: None,
            refused: None,
        }
    }
}

impl Baseline {
    /// The middle one of the replayed runs; `None` = there is none.
    pub fn median_ns(&self) -> Option<f64> {
        median(&self.replayed_ns)
    }
}

/// However far a replay's runs are apart, a middle one that is a quarter off misses the recorded
/// run: of the tolerance twice as much is allowed.
const MOST_APART: f64 = 0.125;

fn baseline(
    replayer: &mut dyn Replayer,
    original: Original<'_>,
    recorded: &Fingerprint,
    spread: Option<f64>,
) -> Baseline {
    let method = replayer.method();
    let mut refused = None;
    let mut replay = |programs| match replayer.replay(programs) {
        Ok(runs) => runs,
        Err(why) => {
            refused.get_or_insert(why);
            Replayed::default()
        }
    };
    let runs = replay(original.programs);
    let compared = match original.as_recorded {
        Some(as_recorded) => &replay(as_recorded.programs),
        None => &runs,
    };
    let replayed_ns = sorted(&compared.walls_ns);
    let median_ns = median(&replayed_ns);
    let shortened_ns = original
        .as_recorded
        .and_then(|of| Some(median_ns? * (1.0 - of.recorder_share)));
    let mut fidelity = None;
    if sorted(&runs.walls_ns).is_empty() {
        refused.get_or_insert_with(|| NO_END.into());
    }
    if let Some(wall_ns) = median_ns {
        let own = match (replayed_ns.first(), replayed_ns.last()) {
            (Some(first), Some(last)) => (last - first) / wall_ns,
            _ => 0.0,
        };
        let replayed = Fingerprint {
            wall_ns,
            // Where it is not measured it does not tell the two apart.
            ..compared.fingerprint.unwrap_or(*recorded)
        };
        let allowed = spread.unwrap_or(0.0).max(own).min(MOST_APART);
        let found = Fidelity::compare(method, recorded, &replayed, Some(allowed));
        refused = refused.or_else(|| misses(&found));
        fidelity = Some(found);
    } else {
        refused = refused.or_else(|| Some(NO_END.into()));
    }
    Baseline {
        method,
        recorded_ns: recorded.wall_ns,
        replayed_ns,
        runs,
        shortened_ns,
        fidelity,
        refused,
    }
}

/// Programs whose order depends on timing come to a standstill when it changes.
const NO_END: &str = "no run of it ended within a sensible time";

/// Why a replay makes no predictions; `None` = it does.
///
/// One recorded run is one of many: on the machine of the measurements, two sets of five runs of the same
/// programs were 3.7 points apart in the median, 24 at most. So a miss is allowed up to twice the
/// tolerance of each quantity, and widens the interval by what it is.
fn misses(fidelity: &Fidelity) -> Option<String> {
    const MISSES: f64 = 2.0;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    fidelity.failed().find_map(|check| {
        let apart = (check.replayed - check.recorded).abs();
        match check.what {
            Quantity::Wall if apart > MISSES * check.tolerance * check.recorded => Some(format!(
                "it replays the recorded run in {} of its time",
                percent(check.replayed / check.recorded)
            )),
            Quantity::WaitedShare if apart > MISSES * check.tolerance => Some(format!(
                "its threads wait for locks {} of their time, the recorded ones {}",
                percent(check.replayed),
                percent(check.recorded)
            )),
            _ => None,
        }
    })
}

/// A replay that takes so many times as long as the recorded run is in a state that the recording
/// tells nothing of: spinning where nobody spun, thrashing.
const TOO_LONG: f64 = 4.0;

/// A change that saves this share of the run takes away what threads contend for.
const SAVES_CONTENTION: f64 = 0.1;

/// `None` = no run of the changed program ended, or not in time. `margin`: see
/// [`Predictor::margin`].
fn saved(baseline: &Baseline, changed: &Replayed, margin: f64) -> Option<Saved> {
    let base = median(&sorted(&baseline.runs.walls_ns))?;
    let walls = sorted(&changed.walls_ns);
    let changed_ns = median(&walls).filter(|wall| *wall < TOO_LONG * base)?;
    let mid = 1.0 - changed_ns / base;
    let shares: Vec<f64> = if baseline.runs.paired && changed.paired {
        let pairs = baseline.runs.walls_ns.iter().zip(&changed.walls_ns);
        pairs.map(|(base, wall)| 1.0 - wall / base).collect()
    } else {
        walls.iter().map(|wall| 1.0 - wall / base).collect()
    };
    let ended = shares.iter().copied().filter(|share| share.is_finite());
    // Whether the program contends as it does without the recorder's time in a replay, or as it did
    // while it was recorded, nobody knows: both are possible. A change that saves nothing saves none
    // of that contention either; one that saves a tenth is taken to save all of it.
    let counts = (mid / SAVES_CONTENTION).clamp(0.0, 1.0);
    let contended = baseline
        .shortened_ns
        .map(|base| mid + counts * (1.0 - changed_ns / base - mid));
    let (least, most) = ended
        .chain(contended)
        .fold((mid, mid), |(low, high), share| {
            (low.min(share), high.max(share))
        });
    let mid = contended.map_or(mid, |contended| (mid + contended) / 2.0);
    let residual = (baseline.median_ns()? / baseline.recorded_ns - 1.0).abs();
    let margin = margin + RESIDUAL * residual;
    Some(Saved {
        low: least - margin,
        mid,
        high: (most + margin).min(1.0),
    })
}

fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = sorted.get(n / 2)?;
    Some(if n % 2 == 1 {
        *upper
    } else {
        (sorted[n / 2 - 1] + upper) / 2.0
    })
}

fn sorted(runs: &[f64]) -> Vec<f64> {
    let mut runs = runs.to_vec();
    runs.retain(|run| run.is_finite() && *run > 0.0);
    runs.sort_unstable_by(f64::total_cmp);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays take what they are told, first the recorded run.
    struct Told {
        method: Method,
        runs: Vec<Result<Vec<f64>, String>>,
    }

    impl Replayer for Told {
        fn method(&self) -> Method {
            self.method
        }

        fn replay(&mut self, _: &[Program]) -> Result<Replayed, String> {
            let walls_ns = self.runs.remove(0)?;
            Ok(Replayed {
                walls_ns,
                ..Replayed::default()
            })
        }
    }

    const ORIGINAL: Original<'static> = Original {
        programs: &[],
        as_recorded: None,
    };

    fn ask(base: [f64; 2], changed: [f64; 2]) -> (Vec<Baseline>, Answer) {
        let simulated = Told {
            method: Method::ReplaySimulated,
            runs: vec![Ok(vec![base[0]]), Ok(vec![changed[0]])],
        };
        let native = Told {
            method: Method::ReplayNative,
            runs: vec![Ok(vec![base[1]]), Ok(vec![changed[1]])],
        };
        let mut predictor = Predictor::new(
            vec![Box::new(simulated), Box::new(native)],
            ORIGINAL,
            &Fingerprint {
                wall_ns: 100.0,
                ..Fingerprint::default()
            },
            None,
        );
        let answer = predictor.ask(&[]);
        (predictor.baselines().to_vec(), answer)
    }

    #[test]
    fn the_answer_is_the_union_of_both_replays() {
        let (_, answer) = ask([100.0, 100.0], [60.0, 50.0]);
        let saved = answer.saved().unwrap();
        assert!((saved.low - 0.37).abs() < 1e-9, "{saved:?}");
        assert!((saved.mid - 0.45).abs() < 1e-9);
        assert!((saved.high - 0.53).abs() < 1e-9);
        assert!((answer.disagreement() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_replay_that_misses_the_recorded_run_makes_no_prediction() {
        let (baselines, answer) = ask([100.0, 140.0], [60.0, 10.0]);
        assert!(baselines[0].refused.is_none());
        let why = baselines[1].refused.as_deref().unwrap();
        assert!(why.contains("140 %"), "{why}");
        assert_eq!(answer.by_method.len(), 1);
        assert!((answer.saved().unwrap().mid - 0.4).abs() < 1e-9);
        let estimates = answer.estimates(&WhatIf::LockRemoved, "");
        assert!(matches!(estimates[1].check, Check::Failed(_)));
    }

    /// Replays natively take these times: without the recorder's time, with it, and changed. A tenth
    /// of the recorded run is the recorder's.
    fn recorded_by_a_tenth(runs_ns: [f64; 3]) -> Predictor<'static> {
        let native = Told {
            method: Method::ReplayNative,
            runs: runs_ns.map(|ns| Ok(vec![ns])).into(),
        };
        let recorded = Fingerprint {
            wall_ns: runs_ns[1],
            ..Fingerprint::default()
        };
        let original = Original {
            as_recorded: Some(AsRecorded {
                programs: &[],
                recorder_share: 0.1,
            }),
            ..ORIGINAL
        };
        Predictor::new(vec![Box::new(native)], original, &recorded, None)
    }

    #[test]
    fn the_gate_compares_replays_that_have_the_recorders_time() {
        let mut predictor = recorded_by_a_tenth([80.0, 100.0, 40.0]);
        let [baseline] = predictor.baselines() else {
            panic!("{predictor:?}");
        };
        assert_eq!(
            (baseline.refused.as_ref(), baseline.median_ns()),
            (None, Some(100.0))
        );
        // 40 of 80, or of 100 less the recorder's tenth.
        let saved = predictor.ask(&[]).saved().unwrap();
        let contended = 1.0 - 40.0 / 90.0;
        assert!(
            (saved.mid - (0.5 + contended) / 2.0).abs() < 1e-9,
            "{saved:?}"
        );
        assert!(saved.high > contended && saved.low < 0.5, "{saved:?}");
    }

    #[test]
    fn what_changes_nothing_saves_none_of_the_recordings_contention() {
        let mut predictor = recorded_by_a_tenth([72.0, 90.0, 72.0]);
        assert_eq!(predictor.ask(&[]).saved().unwrap().mid, 0.0);
    }

    #[test]
    fn a_miss_within_the_gate_widens_the_interval() {
        let (_, exact) = ask([100.0, 100.0], [50.0, 50.0]);
        let (_, off) = ask([104.0, 104.0], [52.0, 52.0]);
        let width = |a: &Answer| a.saved().unwrap().high - a.saved().unwrap().low;
        assert!((width(&off) - width(&exact) - 0.08).abs() < 1e-9);
    }

    #[test]
    fn a_change_that_one_replay_alone_can_run_has_a_wider_interval() {
        let told = |method, changed: Result<Vec<f64>, String>| Told {
            method,
            runs: vec![Ok(vec![100.0]), changed],
        };
        let simulated = told(Method::ReplaySimulated, Ok(vec![60.0]));
        let native = told(Method::ReplayNative, Err("no time".into()));
        let replayers: Vec<Box<dyn Replayer>> = vec![Box::new(simulated), Box::new(native)];
        let recorded = Fingerprint {
            wall_ns: 100.0,
            ..Fingerprint::default()
        };
        let mut predictor = Predictor::new(replayers, ORIGINAL, &recorded, None);
        let saved = predictor.ask(&[]).saved().unwrap();
        assert!(
            (saved.high - saved.mid - POINTS - ALONE).abs() < 1e-9,
            "{saved:?}"
        );
    }

    #[test]
    fn no_replay_no_number() {
        let (_, answer) = ask([200.0, 10.0], [1.0, 1.0]);
        assert_eq!(answer.saved(), None);
        assert_eq!(answer.refused.len(), 2);
    }
}
