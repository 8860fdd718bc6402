//! Parallelism over time, and how long it had which value.

use convoy_analysis::scheduler::Moment;
use convoy_model::Model;
use convoy_report::{sched_names, Report};
use serde::Serialize;

use super::strings::Strings;

/// A piece of the run in which no thread was active for more than this share of it is idle.
const IDLE: f64 = 0.5;

#[derive(Debug, Serialize)]
pub(crate) struct Activity {
    /// The begin of each piece, nanoseconds since the first event.
    from_ns: Vec<u64>,
    end_ns: u64,
    /// Mean numbers of threads.
    active: Vec<f32>,
    working: Vec<f32>,
    running: Vec<f32>,
    /// Where fewer threads worked than could: the code that ran, a string; `None` elsewhere.
    low: Vec<Option<u32>>,
    low_below: f64,
    cpus: u32,
    /// Threads; time with so many active, working, running.
    levels: Vec<(usize, u64, u64, u64)>,
}

pub(crate) fn activity(report: &Report<'_>, strings: &mut Strings) -> Option<Activity> {
    let critical = report.critical?;
    let moments = &critical.timeline;
    let last = moments.last()?;
    let levels = &critical.parallelism.levels;
    let low_below = critical.parallelism.low_below;
    let mean = |of: fn(&Moment) -> f64| moments.iter().map(|m| of(m) as f32).collect();
    Some(Activity {
        from_ns: moments.iter().map(|m| m.from_ns).collect(),
        end_ns: last.from_ns.saturating_add(last.width_ns),
        active: mean(|m| m.active),
        working: mean(|m| m.working),
        running: mean(|m| m.running),
        low: moments
            .iter()
            .map(|m| low(report.model, m, low_below).map(|text| strings.id(text)))
            .collect(),
        low_below,
        cpus: critical.parallelism.cpus,
        levels: levels
            .iter()
            .map(|l| (l.threads, l.active_ns, l.working_ns, l.running_ns))
            .collect(),
    })
}

/// What ran while few threads did.
fn low(model: &Model, moment: &Moment, low_below: f64) -> Option<String> {
    let at_work = moment.working / (1.0 - moment.idle).max(0.01);
    if moment.idle > IDLE {
        return Some("no thread was active".into());
    }
    if at_work >= low_below {
        return None;
    }
    let thread = moment
        .thread
        .and_then(|id| model.threads.get(id.0 as usize));
    let who = thread.map_or_else(String::new, |t| {
        format!(" in {}", sched_names::group_of(model, t.group))
    });
    Some(format!(
        "{}{who}",
        sched_names::path_of(model, moment.site, 2)
    ))
}
