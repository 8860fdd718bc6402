//! Serial phases: the main thread works alone before, between or after the others (Amdahl).

use convoy_model::finding::{Finding, Subject};
use convoy_model::FindingId;

use crate::estimate::queueing::Saving;
use crate::facts::life_spans;
use crate::facts::process_facts::ProcessFacts;
use crate::root_causes::cause;
use crate::words::{duration, evidence, percent};

/// Share of the run that must be serial for a finding.
const SERIAL_SHARE: f64 = 0.35;
/// A start-up shorter than this is nobody's problem. Nanoseconds.
const SERIAL_MIN_NS: f64 = 1e8;
/// Nothing says that the serial part can be made parallel.
const SURE: f64 = 0.0;

/// The serial phase of the process, if one is evident from life spans and CPU time.
pub(crate) fn finding(cx: &ProcessFacts) -> Option<Finding> {
    let view = cx.view;
    let main = view.threads.iter().find(|t| t.main)?;
    let others: Vec<_> = view.threads.iter().filter(|t| !t.main).collect();
    if others.len() < 2 || view.cpus < 1.5 {
        return None;
    }
    let accompanied = life_spans::length(&life_spans::union(others.iter().map(|t| t.span())));
    let alone = (main.life - accompanied).max(0.0);
    // Work that cannot have been done beside the others: beside them it waited.
    let beside = (accompanied - main.lock_wait - main.event_wait).max(0.0);
    let serial = (main.busy() - beside).min(alone).max(0.0);
    if serial < SERIAL_SHARE * view.wall() || serial < SERIAL_MIN_NS {
        return None;
    }
    let on_cpu = (main.cpu - main.spin).max(0.0) * serial / main.busy().max(1.0);
    let ideal = serial - on_cpu / view.cpus;
    let saving = Saving {
        stretch: serial,
        cpu: on_cpu,
        saved: 0.2 * ideal,
        saved_max: ideal,
        sure: SURE,
    };
    let share = serial / view.wall();
    Some(Finding {
        id: FindingId::SerialPhase,
        subject: Subject::Thread(main.id),
        title: format!(
            "the main thread works alone for {} of the run",
            percent(share)
        ),
        evidence: vec![
            evidence(
                "serial_ratio",
                share,
                format!(
                    "{} of work while no other thread was there",
                    duration(serial)
                ),
            ),
            evidence(
                "accompanied_ns",
                accompanied,
                format!("other threads were there for {}", duration(accompanied)),
            ),
        ],
        causes: vec![cause(
            "serial-phase",
            "part of the work is done by one thread while there are no others",
            "give that part to the threads as well, or overlap it with theirs",
        )],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "Amdahl's law over the life spans of the threads",
            "whether that work can be split at all",
        ),
        share_of_thread_time: share,
        caveats: vec![
            "whether it can be split is not known: the expected gain assumes a fifth of it".into(),
        ],
    })
}
