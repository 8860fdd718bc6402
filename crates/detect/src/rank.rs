//! The order of findings: what promises most first, and what is not worth a line apart.

use convoy_model::finding::Finding;

use crate::Thresholds;

/// Time lost that is worth a line even if nothing is gained: somebody will ask. Share of thread time.
const WORTH_SAYING: f64 = 0.20;

/// Splits findings into those worth a person's time and those that are not, each most gain first.
pub(crate) fn rank(mut all: Vec<Finding>, t: &Thresholds) -> (Vec<Finding>, Vec<Finding>) {
    all.sort_by(|a, b| {
        let key = |f: &Finding| [f.gain.mid, f.gain.high, f.share_of_thread_time];
        let (a_key, b_key) = (key(a), key(b));
        let order = a_key
            .iter()
            .zip(&b_key)
            .map(|(a, b)| b.total_cmp(a))
            .find(|o| o.is_ne());
        order
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| a.title.cmp(&b.title))
    });
    all.into_iter().partition(|f| worth(f, t))
}

fn worth(f: &Finding, t: &Thresholds) -> bool {
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
