//! How far the data can be trusted.

use convoy_model::words::{count, percent};
use convoy_model::{CodeFrom, SchedSource};

use crate::facts::run_view::RunView;
use crate::tables::scheduler::Quality;
use crate::tables::threads::with_activity;

/// Losses and contradictions that may change what is said: share of all events.
const LOST: f64 = 0.001;
/// CMetric without any code that is worth a remark.
const UNKNOWN: f64 = 0.1;
/// The CMetric of all threads is the time with activity, to this ratio.
const CM_ERROR: f64 = 0.001;

pub(crate) fn quality(view: &RunView) -> Quality {
    let sched = view.sched;
    let lost = |stacks: bool| {
        let rows = sched.lost.iter().filter(|l| l.stacks == stacks);
        rows.fold(0u64, |sum, l| sum.saturating_add(l.events))
    };
    let lost_ns = sched
        .lost
        .iter()
        .filter(|l| !l.stacks)
        .fold(0u64, |sum, l| {
            sum.saturating_add(l.to_ns.saturating_sub(l.from_ns))
        });
    let mut code_from = [0.0; 3];
    for slice in &sched.slices {
        let at = match (slice.from, slice.site) {
            (CodeFrom::Unknown, _) | (_, None) => 2,
            (CodeFrom::Sample, _) => 0,
            (CodeFrom::StackTop, _) => 1,
        };
        code_from[at] += slice.cm_ns;
    }
    let all: f64 = code_from.iter().sum();
    let cm: f64 = sched.threads.iter().map(|th| th.cm_ns).sum();
    let mut quality = Quality {
        source: sched.source,
        events: sched.events,
        lost_events: lost(false),
        lost_ns,
        lost_stacks: lost(true),
        contradictions: sched.contradictions,
        dropped_rows: sched.dropped_rows,
        sample_period_ns: sched.sample_period_ns,
        code_from: code_from.map(|cm| if all > 0.0 { cm / all } else { 0.0 }),
        cm_check: cm / with_activity(view),
        remarks: Vec::new(),
    };
    quality.remarks = remarks(&quality);
    quality
}

fn remarks(q: &Quality) -> Vec<String> {
    let mut list = Vec::new();
    if q.source == SchedSource::Perf {
        list.push(
            "from switch records alone: who woke whom and why threads blocked is not known, and a woken thread \
             counts as active only once it runs"
                .into(),
        );
    }
    if q.lost_events > 0 {
        let share = q.lost_events as f64 / (q.events as f64 + q.lost_events as f64);
        let effect = if share > LOST {
            "activity and waits of that time are incomplete"
        } else {
            "too few to change what is said"
        };
        list.push(format!(
            "{} events were lost ({} of all): {effect}",
            count(q.lost_events as f64),
            percent(share)
        ));
    }
    if q.contradictions as f64 > LOST * q.events as f64 {
        list.push(format!(
            "{} of {} scheduler events are inconsistent (a context switch was missed): some thread times are slightly off",
            count(q.contradictions as f64),
            count(q.events as f64)
        ));
    }
    if q.sample_period_ns == 0 {
        list.push(
            "no samples were taken: all code is where threads blocked, not where they worked"
                .into(),
        );
    }
    if q.code_from[2] > UNKNOWN {
        list.push(format!(
            "{} of the CMetric belongs to code that is not known",
            percent(q.code_from[2])
        ));
    }
    if q.events > 0 && (q.cm_check - 1.0).abs() > CM_ERROR {
        list.push(format!(
            "the CMetric of all threads is {} of the time with activity; it should be all of it",
            percent(q.cm_check)
        ));
    }
    list
}
