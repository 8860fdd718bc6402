//! What a change would buy: the run now over the run with less of what kept it from being parallel.

use convoy_model::finding::Gain;
use convoy_model::upper_bound::{gain_at_most, with_error, Work};
use convoy_model::words::percent;

use crate::facts::run_view::RunView;

/// No run gets shorter than this share of what it was: what is measured is not that exact.
const LEAST_LEFT: f64 = 0.01;

/// Wall time that a change takes away, nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Saving {
    /// Expected.
    pub(crate) expected: f64,
    /// At most.
    pub(crate) most: f64,
    /// Share of the expected gain that a fix keeps at least, 0..1.
    pub(crate) sure: f64,
    /// CPU time that goes as well, because it is no work but what waiting costs: expected and at most, nanoseconds.
    pub(crate) cpu: (f64, f64),
}

/// CPU time of a wait for another thread: into the kernel, off the processor, the waker's call, an idle processor
/// that is called, and back. Expected and at most, nanoseconds: a hand-over on one processor takes about 2 us, one
/// to an idle processor of a virtual machine 10.
pub(crate) const SWITCH_NS: (f64, f64) = (5_000.0, 10_000.0);

/// What runs after a wait finds its caches cold: so much at most, nanoseconds, and half of what runs.
pub(crate) const COLD_NS: f64 = 1_000.0;

/// Most of what threads run can be the price of a lock, or of waiting; the rest is work.
pub(crate) const NO_WORK: f64 = 0.9;

/// Part of what handing over costs that goes with larger pieces, where it is this share of what runs: the more it is, the smaller the
/// pieces are today. With batches of 256 instead of single pieces, 19 programs of five languages gained 1.3 to 8 times what followed from
/// 0.8 to 0.95.
pub(crate) fn goes_with_larger_pieces(share: f64) -> f64 {
    const PART: (f64, f64) = (0.9, 0.97);
    PART.0 + (PART.1 - PART.0) * share
}

impl Saving {
    /// Low, expected and high. CPU time that is work stays, and needs its CPUs.
    pub(crate) fn gain(&self, view: &RunView, method: &str, limited_by: &str) -> Gain {
        let mid = self.expected_ratio(view);
        let floor = busy(view, self.cpu.0);
        let by_cpus = view.wall - self.expected < floor;
        Gain {
            low: 1.0 + self.sure * (mid - 1.0),
            mid,
            high: self.at_most(view).max(mid),
            method: method.into(),
            limited_by: if by_cpus {
                format!(
                    "CPUs: they are busy {} of the run",
                    percent((floor / view.wall).min(1.0))
                )
            } else {
                limited_by.into()
            },
            estimates: Vec::new(),
        }
    }

    /// The run over what is expected to be left of it.
    pub(crate) fn expected_ratio(&self, view: &RunView) -> f64 {
        ratio(view, self.expected, self.cpu.0)
    }

    /// Of two ways to the same end, what the better one saves.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            expected: self.expected.max(other.expected),
            most: self.most.max(other.most),
            sure: self.sure.max(other.sure),
            cpu: (self.cpu.0.max(other.cpu.0), self.cpu.1.max(other.cpu.1)),
        }
    }

    /// Returns the gain that no fix exceeds; infinite where nothing bounds it.
    fn at_most(&self, view: &RunView) -> f64 {
        let work = Work {
            all: view.cpu_work,
            goes: self.cpu.1.max(self.cpu.0),
            at_once: view.at_once(),
        };
        let left = work.least_left(view.wall / self.bound(view));
        gain_at_most(view.wall / left.max(1.0))
    }

    /// The bound alone, as measured.
    pub(crate) fn bound(&self, view: &RunView) -> f64 {
        let (saved, cpu) = (self.most.max(self.expected), self.cpu.1.max(self.cpu.0));
        ratio(view, saved, cpu)
    }
}

/// What the CPUs allow for what the program runs today without busy waiting: the run over the least time that they need for it.
pub(crate) fn by_cpus(view: &RunView) -> f64 {
    ratio(view, view.wall, 0.0)
}

/// Two gains that one fix brings, of which the sum is no more than what the CPUs allow.
pub(crate) fn together(gain: &mut Gain, more: &Gain, by_cpus: f64) {
    gain.mid = both(gain.mid, more.mid, by_cpus);
    gain.high = both(gain.high, more.high, with_error(by_cpus)).max(gain.mid);
}

/// Savings add up, as shares of the run; to no more than this, unless one of them is more.
fn both(a: f64, b: f64, most: f64) -> f64 {
    let sum = 1.0 / (1.0 / a + 1.0 / b - 1.0).max(1.0 / a.max(b) / 2.0);
    sum.min(most.max(a).max(b))
}

/// The run over what is left of it, with so much less wall and CPU time.
fn ratio(view: &RunView, saved: f64, cpu: f64) -> f64 {
    let left = (view.wall - saved.max(0.0)).max(busy(view, cpu));
    view.wall / left.clamp(LEAST_LEFT * view.wall, view.wall)
}

/// Wall time that the CPUs need for what is left with so much less CPU time.
fn busy(view: &RunView, cpu: f64) -> f64 {
    ((view.cpu_work - cpu).max(0.0) / view.cpus).min(view.wall)
}

/// Code that would run on `n` threads instead of few: `c` of the run becomes `w / n` (Amdahl).
pub(crate) fn spread(c: f64, w: f64, n: f64) -> f64 {
    (c - w / n.max(1.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::both;

    #[test]
    fn two_savings_add_up_to_what_the_cpus_allow() {
        // A quarter and a quarter of the run are half of it.
        assert!((both(4.0 / 3.0, 4.0 / 3.0, 9.0) - 2.0).abs() < 1e-9);
        assert_eq!(both(1.5, 1.5, 1.6), 1.6);
        assert_eq!(both(1.5, 1.8, 1.6), 1.8, "what is known of one stays");
        assert_eq!(both(4.0, 4.0, 99.0), 8.0, "never more than twice");
    }
}
