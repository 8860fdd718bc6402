//! Rules of the scheduler that no calibration measures: where a woken thread goes when no CPU is
//! idle, and whether it preempts.
//!
//! What decides a program with more threads than CPUs is where its wake-ups go. The kernel's own
//! choice depends on loads and averages that a recording does not have; so it is chosen among a few
//! [`Rules::candidates`] by replaying the *recorded* run (see [`super::calibrate_rules`]), never by
//! looking at a what-if.

/// A set of rules. Probabilities are 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// No CPU is idle: a woken thread is queued on the waker's CPU; otherwise on its previous one.
    pub waker_cpu: f64,
    /// It preempts what runs there, instead of waiting for the end of the slice.
    pub wakeup_preemption: f64,
    /// A CPU that becomes idle takes a waiting thread from another one, if its idle times are
    /// longer than this on average, nanoseconds: the kernel weighs the cost of balancing against
    /// them.
    pub newidle_min_idle_ns: f64,
}

impl Default for Rules {
    /// EEVDF's of Linux 6.6 and later, as far as they are known beforehand: threads run to parity.
    fn default() -> Self {
        Self {
            waker_cpu: 1.0,
            wakeup_preemption: 0.3,
            newidle_min_idle_ns: 20_000.0,
        }
    }
}

impl Rules {
    /// What [`super::calibrate_rules`] tries, one rule at a time.
    pub(crate) fn candidates(self) -> Vec<Self> {
        let mut all = Vec::new();
        for waker_cpu in [0.0, 0.5, 1.0] {
            all.push(Self { waker_cpu, ..self });
        }
        for wakeup_preemption in [0.0, 0.1, 0.3, 0.6, 1.0] {
            all.push(Self {
                wakeup_preemption,
                ..self
            });
        }
        for newidle_min_idle_ns in [0.0, 5_000.0, 20_000.0, 100_000.0, f64::INFINITY] {
            all.push(Self {
                newidle_min_idle_ns,
                ..self
            });
        }
        all.retain(|rules| *rules != self);
        all
    }
}
