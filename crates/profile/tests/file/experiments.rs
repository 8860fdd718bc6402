//! Experiments, drawn at random, and what holds for all that were read.

use convoy_profile::*;

use crate::draw::Random;

/// Uses every field.
pub fn experiments(r: &mut Random, rows: u64) -> Experiments {
    let targets: Vec<_> = (0..r.below(5)).map(|_| target(r)).collect();
    let windows = r.below(rows + 1);
    Experiments {
        pid: r.number() as u32,
        estimator: match r.flag() {
            true => ExperimentEstimator::Dilate,
            false => ExperimentEstimator::Slow,
        },
        progress: (0..r.below(2))
            .map(|_| ExperimentProgress {
                name: r.text(),
                per_second: r.number() as f64,
                is_latency: r.flag(),
            })
            .collect(),
        window_ns: r.number(),
        duration_ns: r.number(),
        added_cpu_ns: r.number(),
        foreign_cpu_share: share(r),
        null: (0..r.below(5))
            .map(|_| ExperimentNull {
                mechanism: mechanism(r),
                level: level(r),
            })
            .collect(),
        windows: (0..windows).map(|_| window(r, targets.len())).collect(),
        targets,
        reason: r.text(),
        notes: r.texts(),
    }
}

fn target(r: &mut Random) -> ExperimentTarget {
    let kinds = [
        ExperimentKind::Function,
        ExperimentKind::Line,
        ExperimentKind::Lock,
        ExperimentKind::Wait,
    ];
    ExperimentTarget {
        kind: kinds[r.below(4) as usize],
        name: r.text(),
        locks: (0..r.below(3)).map(|_| r.number()).collect(),
        mechanism: mechanism(r),
        sample_share: r.flag().then(|| share(r)),
        levels: (0..r.below(3)).map(|_| level(r)).collect(),
        reason: r.text(),
    }
}

fn window(r: &mut Random, targets: usize) -> ExperimentWindow {
    ExperimentWindow {
        block: r.number() as u32,
        target: (targets > 0 && r.flag()).then(|| r.index(targets)),
        mechanism: mechanism(r),
        speedup: share(r),
        duration_ns: r.number(),
        progress: r.number() as f64,
        capacity_ns: r.number(),
        cpu_ns: r.number(),
        calls_ns: r.number(),
    }
}

fn level(r: &mut Random) -> ExperimentLevel {
    let low = r.below(1000) as f64 / 500.0 - 1.0;
    ExperimentLevel {
        speedup: share(r),
        saved: [low, low + share(r), low + 1.0 + share(r)],
    }
}

fn mechanism(r: &mut Random) -> ExperimentMechanism {
    match r.flag() {
        true => ExperimentMechanism::Sampled,
        false => ExperimentMechanism::Measured,
    }
}

fn share(r: &mut Random) -> f64 {
    r.below(1001) as f64 / 1000.0
}

/// Numbers are numbers, and windows have targets, whatever the bytes were.
pub fn assert_sound(experiments: &Experiments) {
    let targets = experiments.targets.len();
    for window in &experiments.windows {
        assert!(window.target.is_none_or(|ix| (ix as usize) < targets));
        assert!((0.0..=1.0).contains(&window.speedup) && window.progress.is_finite());
    }
    let own = experiments.targets.iter().flat_map(|t| &t.levels);
    for level in own.chain(experiments.null.iter().map(|null| &null.level)) {
        let [low, mid, high] = level.saved;
        assert!(low.is_finite() && low <= mid && mid <= high && high.is_finite());
    }
}

#[test]
fn numbers_that_are_none_are_refused() {
    let windows = |speedup, target, progress| {
        let window = ExperimentWindow {
            speedup,
            target,
            progress,
            ..ExperimentWindow::default()
        };
        let experiments = Experiments {
            targets: vec![ExperimentTarget::default()],
            windows: vec![window],
            ..Experiments::default()
        };
        let profile = Profile {
            experiments: Some(experiments),
            ..Profile::default()
        };
        let (read, warnings) = Profile::read(&profile.to_bytes().unwrap()).unwrap();
        assert_eq!(read.experiments.is_none(), warnings.len() == 1);
        read.experiments.is_some()
    };
    assert!(windows(0.5, Some(0), 3.0));
    assert!(!windows(f64::NAN, Some(0), 3.0));
    assert!(!windows(1.5, Some(0), 3.0));
    assert!(!windows(0.5, Some(1), 3.0));
    assert!(!windows(0.5, None, f64::INFINITY));
}
