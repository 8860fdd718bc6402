//! A focus that is being measured by probes.

use convoy_live::search::{NodeId, Outcome, Share, Verdict};
use convoy_live::{CurveId, Point};

/// Readings with a value after which a focus is judged, if that is clear then.
const FEWEST_VALUES: usize = 4;

/// A value that is not there after so many readings does not come.
const PATIENCE: usize = 5;

/// A focus that is being measured.
#[derive(Debug)]
pub struct Measurement {
    /// The focus.
    pub id: NodeId,
    /// What measures it.
    pub curve: CurveId,
    /// Its time and that of the program, by interval.
    pairs: Vec<(f64, f64)>,
    is_first: bool,
    cost_share: f64,
    /// Why there was no value at last.
    pub gap: Option<String>,
}

impl Measurement {
    /// It begins now.
    pub fn new(id: NodeId, curve: CurveId) -> Self {
        Self {
            id,
            curve,
            pairs: Vec::new(),
            is_first: true,
            cost_share: 0.0,
            gap: None,
        }
    }

    /// Takes a point of its curve, and the CPU time of the program meanwhile.
    pub fn take(&mut self, point: &Point, whole: f64) {
        self.cost_share = self.cost_share.max(point.cost_share);
        self.gap.clone_from(&point.gap);
        let Some(value) = point.value else { return };
        // The first interval is not a whole one.
        if !std::mem::take(&mut self.is_first) {
            self.pairs.push((value, whole));
        }
    }

    /// Whether more readings would say nothing else.
    pub fn is_clear(&self, readings: usize, threshold: f64) -> bool {
        if self.pairs.is_empty() {
            return readings >= PATIENCE;
        }
        let share = Share::of_intervals(&self.pairs);
        let verdict = share.map(|share| share.verdict(threshold));
        self.pairs.len() >= FEWEST_VALUES && verdict.is_some_and(|v| v != Verdict::Unknown)
    }

    /// What was found; `None` = there were too few values.
    pub fn outcome(&self, threshold: f64) -> Option<Outcome> {
        let share = Share::of_intervals(&self.pairs)?;
        let mut outcome = Outcome::measured(share, &self.pairs, threshold);
        outcome.cost_share = self.cost_share;
        outcome.gap = outcome.gap.or_else(|| self.gap.clone());
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_live::search::{Hypothesis, Limits, Search};
    use convoy_live::{Governor, Prices, Session};

    fn measurement() -> Measurement {
        let mut search = Search::new(Limits::default());
        let id = search.hypothesis(Hypothesis::CpuBound, Outcome::unknown(""));
        let governor = Governor {
            budget: 1.0,
            prices: Prices::default(),
        };
        let mut session = Session::new(governor);
        let request = "cpu".parse().unwrap();
        let curve = session
            .add(&mut NoProbes, request, &Place::default())
            .unwrap();
        Measurement::new(id, curve)
    }

    use convoy_live::Place;

    struct NoProbes;

    impl convoy_live::Probes for NoProbes {
        fn insert(
            &mut self,
            _: &[convoy_live::Probe],
        ) -> Result<Vec<convoy_live::Inserted>, convoy_live::Refusal> {
            Ok(Vec::new())
        }
        fn now_ms(&self) -> u64 {
            0
        }
        fn remove(&mut self, _: &[u32]) -> Result<(), convoy_live::Refusal> {
            Ok(())
        }
        fn read(&mut self) -> Result<convoy_live::Counts, convoy_live::Refusal> {
            Ok(convoy_live::Counts::default())
        }
    }

    fn point(value: Option<f64>) -> Point {
        Point {
            t_ms: 0,
            value,
            gap: value.is_none().then(|| "too expensive".into()),
            cost_share: 0.01,
            by_thread: Vec::new(),
            histogram: None,
        }
    }

    #[test]
    fn steady_values_are_clear_after_a_few_readings() {
        let mut running = measurement();
        for reading in 1..=5 {
            assert!(!running.is_clear(reading, 0.2), "reading {reading}");
            running.take(&point(Some(0.5)), 1.0);
        }
        assert!(running.is_clear(6, 0.2), "the first value is not counted");
        let outcome = running.outcome(0.2).unwrap();
        assert_eq!((outcome.verdict, outcome.value), (Verdict::True, Some(0.5)));
        assert_eq!(outcome.cost_share, 0.01);
    }

    #[test]
    fn a_value_that_does_not_come_is_not_waited_for() {
        let mut running = measurement();
        (0..5).for_each(|_| running.take(&point(None), 1.0));
        assert!(running.is_clear(5, 0.2));
        assert_eq!(running.outcome(0.2), None);
        assert_eq!(running.gap.as_deref(), Some("too expensive"));
    }
}
