//! The order of findings: what promises most first, and what is not worth a line apart.

use convoy_model::finding::{self, Finding};
use convoy_model::FindingId;

use crate::params::Params;

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
        FindingId::ContendedLock
            | FindingId::AsymmetricContention
            | FindingId::TrylockSpin
            | FindingId::SmallPool
    );
    // A spinning loop is invisible in every other tool, and worse on a machine with less to spare.
    let enough = match f.id == FindingId::TrylockSpin {
        true => t.asked_trylock_ratio,
        false => t.asked_ratio,
    };
    asked && f.share_of_thread_time >= enough && f.gain.high >= t.gain_high
}

/// Whether a finding is worth a person's time.
pub(crate) fn worth(f: &Finding, t: &Params) -> bool {
    f.gain.mid >= t.gain_mid
        || (f.id == FindingId::BusyWaiting && f.share_of_thread_time >= t.burnt_ratio)
        || (f.gain.high >= t.gain_high && f.share_of_thread_time >= t.large_ratio)
}
