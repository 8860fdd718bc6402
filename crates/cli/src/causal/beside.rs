//! Experiments beside the findings of their profile: what a lock's shorter sections gained.

use convoy_analysis::counters::Analysis;
use convoy_estimate::{Check, Estimate, Interval, Method, WhatIf};
use convoy_model::finding::Finding;
use convoy_model::Model;
use convoy_profile::{
    ExperimentEstimator, ExperimentKind, ExperimentLevel, ExperimentTarget, Experiments,
};

/// Critical sections that become shorter by a share of their time.
pub fn shorter(share: f64) -> WhatIf {
    WhatIf::Query(format!("sections {:.0} % shorter", 100.0 * share))
}

/// Puts what experiments found of a lock beside the findings about it.
pub fn note_experiments(model: &Model, analysis: &mut Analysis) {
    let Some(experiments) = &model.experiments else {
        return;
    };
    // Gains of findings are of the throughput.
    if experiments.progress.iter().any(|row| row.is_latency) {
        return;
    }
    for finding in analysis.findings.iter_mut().chain(&mut analysis.dismissed) {
        let targets = experiments.targets.iter();
        let own = targets.filter(|target| is_about(model, experiments, target, finding));
        let estimates: Vec<Estimate> = own
            .flat_map(|target| target.levels.iter())
            .map(|level| estimate(level, experiments.estimator))
            .collect();
        finding.gain.note(estimates);
    }
}

fn is_about(
    model: &Model,
    experiments: &Experiments,
    target: &ExperimentTarget,
    finding: &Finding,
) -> bool {
    let mut ids = finding.subject.objects().iter();
    target.kind == ExperimentKind::Lock
        && ids.any(|id| {
            let object = model.objects.get(id.0 as usize);
            object.is_some_and(|object| {
                let process = model.processes.get(object.process.0 as usize);
                process.is_some_and(|process| process.pid == experiments.pid)
                    && target.locks.contains(&object.addr)
            })
        })
}

fn estimate(level: &ExperimentLevel, estimator: ExperimentEstimator) -> Estimate {
    let [low, mid, high] = level.saved;
    Estimate {
        method: Method::Experiment,
        what_if: shorter(level.speedup),
        gain: Interval::of_saved(low, mid, high),
        assumption: match estimator {
            ExperimentEstimator::Dilate => "all that matters runs in the program",
            ExperimentEstimator::Slow => "the gain is an upper bound",
            ExperimentEstimator::Factorial => "targets do not change each other's effect much",
        }
        .into(),
        check: Check::None,
    }
}
