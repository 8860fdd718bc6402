//! Threads that wait on the processor.

use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::words::{duration, percent, plural};
use convoy_model::{SpinKind, SpinLoop};

use super::Context;
use crate::gain::Saving;
use crate::rows::LoopRow;
use crate::text::{cause, evidence};
use crate::view::View;

/// CPU time burnt that is worth a line: share of all that was used.
const SHARE: f64 = 0.05;
/// Of the delay of working threads, what goes if the CPUs that spinning threads hold become free.
const EXPECTED: f64 = 0.8;
/// Even on short CPUs some of the delay has other reasons.
const SURE: f64 = 0.2;
const METHOD: &str = "delay of working threads, as far as spinning threads held the CPUs";

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    let burnt: f64 = cx.rows.loops.iter().map(|row| row.running_ns as f64).sum();
    let rows = cx.rows.loops.iter().filter(|row| row.share >= SHARE);
    rows.filter_map(|row| finding(cx, row, burnt)).collect()
}

fn finding(cx: &Context, row: &LoopRow, burnt: f64) -> Option<Finding> {
    let view = cx.view;
    let spin = view.sched.loops.get(row.spin.0 as usize)?;
    let place = place(view, row, spin);
    let (delayed, saved) = delayed(view, burnt);
    let part = row.running_ns as f64 / burnt.max(1.0);
    let saving = Saving {
        expected: EXPECTED * saved * part,
        most: saved * part,
        sure: SURE,
    };
    let short = saving.bound(view) >= view.t.gain_mid;
    let gain = if short {
        saving.gain(view, METHOD, "the threads that work")
    } else {
        Gain::none(
            METHOD,
            "CPUs are not short: threads that spin take them from nobody, but they burn power and would on a \
             machine with less to spare",
        )
    };
    let name = view.group_name(row.group);
    let mut list = vec![
        evidence(
            "spinning_ns",
            row.running_ns as f64,
            format!(
                "{} of CPU time burnt by {}",
                duration(row.running_ns as f64),
                plural(row.threads, "thread")
            ),
        ),
        evidence(
            "delayed_ns",
            delayed,
            format!(
                "threads with work to do waited {} for a CPU",
                duration(delayed)
            ),
        ),
    ];
    let waited_for: Vec<String> = row
        .waits_for
        .iter()
        .filter_map(|&ix| cx.rows.paths.get(ix))
        .map(|path| {
            format!(
                "{} ({})",
                view.place(path.site),
                view.group_name(path.group)
            )
        })
        .collect();
    if !waited_for.is_empty() {
        list.push(evidence(
            "waits_for",
            waited_for.len() as f64,
            format!("at work meanwhile: {}", waited_for.join(", ")),
        ));
    }
    if !spin.evidence.is_empty() {
        list.push(evidence(
            "samples",
            row.samples as f64,
            format!(
                "{} in the loop: {}",
                plural(row.samples as usize, "sample"),
                spin.evidence
            ),
        ));
    }
    Some(Finding {
        id: "busy-waiting",
        subject: Subject::Loop(row.spin),
        title: format!(
            "{name} waits on the processor in {place}: {} of the CPU time",
            percent(row.share)
        ),
        evidence: list,
        causes: vec![cause(
            "busy-waiting",
            what(spin.kind),
            format!("block after a few tries (futex, condition variable), or have fewer threads wait at {place}"),
        )],
        undecided: String::new(),
        gain,
        share_of_thread_time: row.share,
        caveats: Vec::new(),
    })
}

/// Time that threads with work waited for CPUs, and how much shorter the run is if those were free.
fn delayed(view: &View, burnt: f64) -> (f64, f64) {
    let mut sum = 0.0;
    let mut longest = 0.0_f64;
    for th in view.threads.values() {
        let running = (th.running_ns as f64).max(1.0);
        let at_work = 1.0 - (th.spinning_ns as f64 / running).min(1.0);
        let delay = th.delayed_ns.saturating_add(th.preempted_ns) as f64 * at_work;
        sum += delay;
        longest = longest.max(delay);
    }
    // Delays of several threads pass at the same time; that of one does not. CPU time of spinning threads is all
    // that becomes free.
    (sum, longest.min(burnt))
}

fn place(view: &View, row: &LoopRow, spin: &SpinLoop) -> String {
    match spin.frames.get(spin.shown) {
        Some(frame) => frame.label(),
        None => view.place(row.site),
    }
}

fn what(kind: SpinKind) -> &'static str {
    match kind {
        SpinKind::Polling => "a loop looks at memory until it changes, and does nothing else",
        SpinKind::Pause => "a loop with a pause instruction looks at memory until it changes",
        SpinKind::Lock => "a loop tries to take a lock until it gets it",
        SpinKind::Yield => "a loop asks the time or gives way between looks at memory",
        SpinKind::KnownFunction => "a function of a runtime that is known to poll",
    }
}
