//! The price of a change that shortens a stretch of the run directly: work spread evenly, a serial
//! part made parallel.

use convoy_model::finding::Gain;
use convoy_model::upper_bound::with_error;

use crate::facts::process_view::ProcessView;
use crate::words::percent;

/// A stretch of the run that would get shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saving {
    /// Length of the stretch today, nanoseconds.
    pub stretch: f64,
    /// CPU time that all threads spend in it, spinning left out.
    pub cpu: f64,
    /// Expected and greatest shortening, nanoseconds.
    pub saved: f64,
    pub saved_max: f64,
    /// Share of the gain that a fix keeps at least, 0..1.
    pub sure: f64,
}

impl Saving {
    /// The gain: the stretch cannot become shorter than its CPU time on all CPUs.
    pub(crate) fn gain(&self, view: &ProcessView, method: &str, limited_by: &str) -> Gain {
        let wall = view.wall();
        if wall <= 0.0 || self.stretch <= 0.0 {
            return Gain::none(method, "nothing to take away");
        }
        let floor = |cpus: f64| self.cpu / cpus;
        let ratio = |saved: f64, cpus: f64| {
            let left = (self.stretch - saved)
                .max(floor(cpus))
                .clamp(0.01 * self.stretch, self.stretch);
            wall / (wall - self.stretch + left).max(0.01 * wall)
        };
        let mid = ratio(self.saved, view.cpus);
        let most = ratio(self.saved_max.max(self.saved), view.cpus_allowed).max(mid);
        let high = with_error(most);
        let by_cpus = floor(view.cpus) > self.stretch - self.saved;
        Gain {
            low: 1.0 + self.sure * (mid - 1.0),
            mid,
            high,
            method: method.into(),
            limited_by: if by_cpus {
                format!(
                    "CPUs: they are busy {} of that time already",
                    percent((floor(view.cpus) / self.stretch).min(1.0))
                )
            } else {
                limited_by.into()
            },
            estimates: Vec::new(),
        }
    }
}
