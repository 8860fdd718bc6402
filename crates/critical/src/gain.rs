//! What a change would buy: the run now over the run with less of what kept it from being parallel.

use convoy_model::finding::Gain;
use convoy_model::words::percent;

use crate::view::View;

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

/// Most of what threads run can be the price of a lock, or of waiting; the rest is work.
pub(crate) const NO_WORK: f64 = 0.9;

/// Part of what handing over costs that goes with larger pieces, where it is this share of what runs: the more it is, the smaller the
/// pieces are today.
pub(crate) fn goes_with_larger_pieces(share: f64) -> f64 {
    const PART: (f64, f64) = (0.8, 0.95);
    PART.0 + (PART.1 - PART.0) * share
}

impl Saving {
    /// Low, expected and high. CPU time that is work stays, and needs its CPUs.
    pub(crate) fn gain(&self, view: &View, method: &str, limited_by: &str) -> Gain {
        let floor = |cpu: f64| ((view.cpu_work - cpu).max(0.0) / view.cpus).min(view.wall);
        let ratio = |saved: f64, cpu: f64| {
            let left = (view.wall - saved.max(0.0)).max(floor(cpu));
            view.wall / left.clamp(LEAST_LEFT * view.wall, view.wall)
        };
        let mid = ratio(self.expected, self.cpu.0);
        let floor = floor(self.cpu.0);
        let by_cpus = view.wall - self.expected < floor;
        Gain {
            low: 1.0 + self.sure * (mid - 1.0),
            mid,
            high: ratio(self.most.max(self.expected), self.cpu.1.max(self.cpu.0)),
            method: method.into(),
            limited_by: if by_cpus {
                format!(
                    "CPUs: they are busy {} of the run",
                    percent((floor / view.wall).min(1.0))
                )
            } else {
                limited_by.into()
            },
        }
    }

    /// The bound alone.
    pub(crate) fn bound(&self, view: &View) -> f64 {
        self.gain(view, "", "").high
    }
}

/// Code that would run on `n` threads instead of few: `c` of the run becomes `w / n` (Amdahl).
pub(crate) fn spread(c: f64, w: f64, n: f64) -> f64 {
    (c - w / n.max(1.0)).max(0.0)
}
