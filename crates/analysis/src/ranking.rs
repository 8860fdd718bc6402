//! The order of findings: what promises most first, and what is not worth a line apart.

use convoy_model::finding::{self, Finding};

use crate::params::Params;

/// Time lost that is worth a line even if nothing is gained: somebody will ask. Share of thread time.
const WORTH_SAYING: f64 = 0.20;

/// Splits findings into those worth a person's time and those that are not, each most gain first.
/// A run that is too short to judge has none of the former.
pub(crate) fn rank(
    all: Vec<Finding>,
    t: &Params,
    is_too_short: bool,
) -> (Vec<Finding>, Vec<Finding>) {
    finding::rank(all, |f| !is_too_short && worth_of_counters(f, t))
}

pub(crate) fn worth_of_counters(f: &Finding, t: &Params) -> bool {
    if f.gain.mid >= t.gain_mid {
        return true;
    }
    // Waits or burnt CPU that anybody would ask about: said, with the reason why nothing is gained.
    let asked = matches!(
        f.id,
        "contended-lock" | "asymmetric-contention" | "trylock-spin" | "small-pool"
    );
    // A spinning loop is invisible in every other tool, and worse on a machine with less to spare.
    let worth_saying = if f.id == "trylock-spin" {
        0.05
    } else {
        WORTH_SAYING
    };
    asked && f.share_of_thread_time >= worth_saying && f.gain.high >= t.gain_high
}

/// Whether a finding is worth a person's time.
pub(crate) fn worth(f: &Finding, t: &Params) -> bool {
    // Nothing else shows CPU time that is burnt, and it is lost even where nothing is gained.
    const BURNT: f64 = 0.10;
    // A bound of a large part of the run: said, with the reason why nothing is promised.
    const LARGE: f64 = 0.15;
    f.gain.mid >= t.gain_mid
        || (f.id == "busy-waiting" && f.share_of_thread_time >= BURNT)
        || (f.gain.high >= t.gain_high && f.share_of_thread_time >= LARGE)
}
