//! An analyzed recording as a row of the paper's tables, beside other recordings of its program.

use convoy_estimate::Method;

use crate::predict::Baseline;
use crate::sets::CodePlace;
use crate::study::Study;
use crate::tables::Analyzed;
use crate::unnecessary::Unnecessary;

/// One recording. Program and input are for whoever knows the command.
pub fn analyzed(study: &Study<'_>, found: &Unnecessary, baselines: &[Baseline]) -> Analyzed {
    let recorded = study.recorded();
    let replays = baselines.iter().map(|baseline| {
        let schedule = match baseline.method {
            Method::ReplayNative => "orig, native",
            _ => "orig, simulated",
        };
        (schedule.to_owned(), baseline.replayed_ns.clone())
    });
    let refused = |baseline: &Baseline| baseline.refused.is_some();
    let simulated = |baseline: &&Baseline| baseline.method == Method::ReplaySimulated;
    let is_faithful = !baselines.iter().filter(simulated).any(refused);
    let labels = found.regions.regions.iter();
    Analyzed {
        has_sets: true,
        threads: recorded.threads as u32,
        counts: found.counts.total(),
        overall: found.overall.filter(|_| is_faithful),
        regions: found.regions.clone(),
        region_labels: labels.map(|r| label(&r.begin, &r.end)).collect(),
        recorded_ns: recorded.replayed_ns,
        replays: replays.filter(|(_, runs)| !runs.is_empty()).collect(),
        ..Analyzed::default()
    }
}

/// A recording whose read and write sets are not known.
pub fn unanalyzed(study: &Study<'_>) -> Analyzed {
    let recorded = study.recorded();
    Analyzed {
        threads: recorded.threads as u32,
        recorded_ns: recorded.replayed_ns,
        ..Analyzed::default()
    }
}

/// `flush() fil.c:5609–5614`, or as much of it as is known.
fn label(begin: &CodePlace, end: &CodePlace) -> String {
    let name = begin.name();
    let file = begin.file.rsplit('/').next().unwrap_or_default();
    match (file, begin.line, end.line) {
        ("", _, _) | (_, 0, _) => name,
        (_, from, to) if to > from && end.file == begin.file => {
            format!("{name} {file}:{from}–{to}")
        }
        (_, from, _) => format!("{name} {file}:{from}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_called_by_its_function_and_lines() {
        let place = |line| CodePlace {
            function: "flush".into(),
            file: "/src/fil.c".into(),
            line,
            ..CodePlace::default()
        };
        assert_eq!(label(&place(5609), &place(5614)), "flush() fil.c:5609–5614");
        assert_eq!(label(&place(7), &place(7)), "flush() fil.c:7");
        let bare = CodePlace {
            module: "libq.so".into(),
            offset: 0x1a,
            ..CodePlace::default()
        };
        assert_eq!(label(&bare, &bare), "libq.so+0x1a");
    }
}
