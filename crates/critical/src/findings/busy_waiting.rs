//! Threads that wait on the processor.

use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::words::{duration, percent, plural};
use convoy_model::{SpinKind, SpinLoop};

use super::Context;
use crate::gain::{Saving, NO_WORK};
use crate::rows::LoopRow;
use crate::short_cpus::{loss, Loss};
use crate::text::{cause, evidence};
use crate::view::View;

/// CPU time burnt that is worth a line: share of all that was used.
const SHARE: f64 = 0.05;
const METHOD: &str =
    "the work of the time in which CPUs were short, without the threads that spun in it";

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    let loss = loss(cx.view);
    let burnt = cx.rows.loops.iter().map(|row| row.running_ns as f64).sum();
    let rows = cx.rows.loops.iter().filter(|row| row.share >= SHARE);
    rows.filter_map(|row| finding(cx, row, burnt, &loss))
        .collect()
}

fn finding(cx: &Context, row: &LoopRow, burnt: f64, loss: &Loss) -> Option<Finding> {
    let view = cx.view;
    let spin = view.sched.loops.get(row.spin.0 as usize)?;
    let place = place(view, row, spin);
    let mut saving = saving(view, row, burnt, loss);
    if is_monitor(spin) {
        without_monitor(view, row, &mut saving);
    }
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
            loss.delayed,
            format!("threads waited {} for a CPU", duration(loss.delayed)),
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
            "waiting on the processor in {place} takes {} of the CPU time, in {name}",
            percent(row.share)
        ),
        evidence: list,
        causes: vec![cause("busy-waiting", why(spin), fix(spin, &place))],
        undecided: String::new(),
        gain,
        share_of_thread_time: row.share,
        caveats: Vec::new(),
    })
}

/// What goes if the threads of one loop leave their CPUs. As soon as none is short, the others' loops cost nothing
/// either: whoever is waited for in them has its CPU.
fn saving(view: &View, row: &LoopRow, burnt: f64, loss: &Loss) -> Saving {
    let spinning = row.active_ns as f64 / view.wall;
    let enough = if loss.without > 0.0 {
        (spinning / loss.without).min(1.0)
    } else {
        0.0
    };
    let relief = enough.max(row.running_ns as f64 / burnt.max(1.0));
    let all = Saving {
        expected: loss.expected * relief,
        most: loss.most * relief,
        sure: 0.0,
        ..Saving::default()
    };
    let least = Saving {
        expected: loss.least * relief,
        ..all
    };
    let gained = |saving: &Saving| saving.gain(view, "", "").mid - 1.0;
    Saving {
        sure: (gained(&least) / gained(&all).max(f64::MIN_POSITIVE)).min(1.0),
        ..all
    }
}

fn place(view: &View, row: &LoopRow, spin: &SpinLoop) -> String {
    match spin.frames.get(spin.shown) {
        Some(frame) => frame.label(),
        None => view.place(row.site),
    }
}

/// Whether the Java virtual machine spins there for a monitor (`synchronized`) that another thread has.
fn is_monitor(spin: &SpinLoop) -> bool {
    let mut frames = spin.frames.iter();
    frames.any(|frame| frame.function.contains("ObjectMonitor::"))
}

/// A monitor that threads fight for costs more than the loop: it goes from processor to processor with what it guards,
/// and a thread that has spun for nothing sleeps. Nobody knows how much of what the threads run is left without.
fn without_monitor(view: &View, row: &LoopRow, saving: &mut Saving) {
    let members = view.members(row.group);
    let running: f64 = members.iter().map(|th| th.cpu_work_ns() as f64).sum();
    let each = NO_WORK * running / (members.len() as f64).max(1.0);
    saving.most = saving.most.max(each.min(view.wall));
    saving.cpu.1 = NO_WORK * running;
}

fn fix(spin: &SpinLoop, place: &str) -> String {
    match is_monitor(spin) {
        true => "shorter synchronized sections, or a monitor for each part of the data (as java.util.concurrent has)".into(),
        false => format!("block after a few tries (futex, condition variable), or have fewer threads wait at {place}"),
    }
}

fn why(spin: &SpinLoop) -> &'static str {
    if is_monitor(spin) {
        return "threads try for a Java monitor that another one has, before they sleep";
    }
    match spin.kind {
        SpinKind::Polling => "a loop looks at memory until it changes, and does nothing else",
        SpinKind::Pause => "a loop with a pause instruction looks at memory until it changes",
        SpinKind::Lock => "a loop tries to take a lock until it gets it",
        SpinKind::Yield => "a loop asks the time or gives way between looks at memory",
        SpinKind::KnownFunction => "a function of a runtime that is known to poll",
    }
}
