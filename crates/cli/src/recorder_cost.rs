//! Recorded length of an empty critical section, and of an empty gap between two of them: the
//! recorder's own time. Extraction subtracts it, so that replay has the program's own times.
//!
//! Convoy records `convoy __empty-sections` with the options of the program's own recording: the
//! agent's cost depends on the machine and on the options.

use std::ffi::OsString;

use convoy_capture::{Options, Recorder, Scheduler, TraceMode};
use convoy_replay::extract::Empty;
use convoy_replayer::calibrate;
use convoy_trace::Kind;

use crate::exit::Status;

/// The hidden verb.
pub const ARGUMENT: &str = "__empty-sections";
/// Empty sections.
const SECTIONS: usize = 20_000;
/// Fewer recorded ones tell nothing.
const ENOUGH: usize = 1_000;

/// Runs empty critical sections.
pub fn run_empty_sections() -> Status {
    match calibrate::run_empty_sections(SECTIONS) {
        true => Status::Success,
        false => Status::Failure,
    }
}

/// Measures it, some 30 ms. `None` = it could not be recorded.
pub fn measure(options: &Options) -> Option<Empty> {
    let mut options = options.clone();
    options.scheduler = Scheduler::Off;
    options.trace.as_mut()?.mode = TraceMode::Full;
    let command = [
        std::env::current_exe().ok()?.into(),
        OsString::from(ARGUMENT),
    ];
    let recording = Recorder::new(options).ok()?.launch(&command).ok()?.wait();
    let trace = convoy_trace::decode(&recording.profile, 0).ok()?;
    let (mut sections, mut gaps) = (Vec::new(), Vec::new());
    for pair in trace
        .threads
        .iter()
        .flat_map(|thread| thread.events.windows(2))
    {
        let length = pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64;
        match (pair[0].kind, pair[1].kind) {
            (Kind::Acquired, Kind::Released) => sections.push(length),
            (Kind::Released, Kind::Acquired) => gaps.push(length),
            _ => {}
        }
    }
    Some(Empty {
        section_ns: mean_of_middle(sections)?,
        gap_ns: mean_of_middle(gaps)?,
    })
}

/// The mean of the middle half: times are whole nanoseconds, and some have an interrupt in them.
fn mean_of_middle(mut of: Vec<f64>) -> Option<f64> {
    if of.len() < ENOUGH {
        return None;
    }
    of.sort_unstable_by(f64::total_cmp);
    let middle = &of[of.len() / 4..of.len() * 3 / 4];
    Some(middle.iter().sum::<f64>() / middle.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_and_few_sections_do_not_count() {
        let mut lengths = vec![10.0; 600];
        lengths.extend([11.0; 600]);
        lengths.extend([90_000.0; 100]);
        let mean = mean_of_middle(lengths).unwrap();
        assert!((10.0..=11.0).contains(&mean), "{mean}");
        assert_eq!(mean_of_middle(vec![1.0; ENOUGH - 1]), None);
    }
}
