//! The program before the experiments: what it does while nothing is lengthened.

use std::time::{Duration, Instant};

use convoy_capture::causal::{Counts, Laboratory, Mechanism, Subject, Treatment, Window};
use convoy_causal::Step;

use super::conduct::{Conductor, Passed};
use super::progress::{Meter, Reading};

/// Programs prepare before they work.
const WARM_UP: Duration = Duration::from_millis(150);
/// Samples and waits are gathered for so long before targets are chosen.
const LOOK: Duration = Duration::from_millis(500);
/// The same as parts of a run that ends too early. It warms up twice: before its agent is opened,
/// and behind that.
const WARM_UP_PART: u32 = 16;
const LOOK_PART: u32 = 4;
/// Progress is read so often: bursts are seen that are shorter than a window.
const STEP: Duration = Duration::from_millis(10);
/// CPU time between two samples, nanoseconds.
const SAMPLE_NS: u32 = 1_000_000;

/// Time before the first window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preparation {
    /// The program may begin.
    pub warm_up: Duration,
    /// It is looked at.
    pub look: Duration,
}

impl Preparation {
    /// `ran`: how long an earlier run of the command took.
    pub fn of(ran: Option<Duration>) -> Self {
        let least = |usual: Duration, part: u32| ran.map_or(usual, |ran| usual.min(ran / part));
        Self {
            warm_up: least(WARM_UP, WARM_UP_PART),
            look: least(LOOK, LOOK_PART),
        }
    }
}

/// What the program was seen to do; nothing where an earlier run was looked at.
#[derive(Debug, Default)]
pub struct Look {
    /// Progress, with the time since the look began.
    readings: Vec<(f64, Reading)>,
    /// Instruction pointers.
    pub samples: Vec<u64>,
}

impl Look {
    /// Watches the program as it is; `None` = it has ended meanwhile.
    ///
    /// # Errors
    /// No window can be opened.
    pub fn at(
        conductor: &Conductor,
        laboratory: &mut Laboratory,
        meter: &mut Meter,
    ) -> Result<Option<Self>, String> {
        let time = conductor.preparation().look;
        let first = laboratory.next_sample();
        let plain = Window {
            length: time,
            treatment: Treatment::Nothing,
            subject: Subject::default(),
            mechanism: Mechanism::Sampled,
            factor: 0.0,
            period_ns: SAMPLE_NS,
            record: true,
        };
        laboratory
            .open_window(&plain)
            .map_err(|trouble| trouble.to_string())?;
        let start = Instant::now();
        let mut readings = Vec::new();
        readings.extend(meter.read(laboratory).map(|reading| (0.0, reading)));
        while !readings.is_empty() && start.elapsed() < time {
            let left = time.saturating_sub(start.elapsed());
            let reading = match conductor.pass(laboratory, left.min(meter.step(None)).min(STEP)) {
                Passed::Over => None,
                _ => meter.read(laboratory),
            };
            let Some(reading) = reading else {
                return Ok(None);
            };
            let at = start.elapsed();
            let since = at.as_secs_f64() - readings.last().map_or(0.0, |(at, _)| *at);
            if since >= STEP.as_secs_f64() || at >= time {
                readings.push((at.as_secs_f64(), reading));
            }
        }
        let samples = laboratory.samples(first);
        laboratory.close_window();
        Ok((!readings.is_empty()).then_some(Self { readings, samples }))
    }

    /// How long it took, seconds.
    pub fn seconds(&self) -> f64 {
        self.readings.last().map_or(0.0, |(at, _)| *at)
    }

    /// Progress in successive steps.
    pub fn steps(&self, units: impl Fn(&Reading, &Reading) -> u64) -> Vec<Step> {
        let pairs = self.readings.iter().zip(self.readings.iter().skip(1));
        let step = |((from, a), (to, b)): (&(f64, Reading), &(f64, Reading))| Step {
            seconds: to - from,
            units: units(a, b),
        };
        pairs.map(step).collect()
    }

    /// The agent's counters at its beginning and its end.
    pub fn counts(&self) -> (Counts, Counts) {
        let of = |reading: Option<&(f64, Reading)>| {
            reading.map_or_else(Counts::default, |(_, reading)| reading.counts.clone())
        };
        (of(self.readings.first()), of(self.readings.last()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_looked_at_shortly() {
        let usual = Preparation::of(None);
        assert_eq!((usual.warm_up, usual.look), (WARM_UP, LOOK));
        let short = Preparation::of(Some(Duration::from_millis(400)));
        assert!(2 * short.warm_up + short.look < Duration::from_millis(200));
        assert_eq!(Preparation::of(Some(Duration::from_secs(60))), usual);
    }
}
