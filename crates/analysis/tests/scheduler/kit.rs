//! Short ways to say what a test needs.

use convoy_analysis::scheduler::{analyze, Analysis};
use convoy_analysis::Params;
use convoy_model::finding::{Finding, Gain, Subject};
use convoy_model::{FindingId, Model};
use convoy_testkit::sched::Schedule;
use convoy_testkit::ProfileBuilder;

/// The model of a program that did this.
pub fn model(p: ProfileBuilder, s: Schedule) -> Model {
    let mut profile = p.build();
    s.put_into(&mut profile);
    Model::build(profile)
}

/// What is said of it. Whatever it is, the sums must hold.
pub fn analysis(model: &Model) -> Analysis {
    let mut a = analyze(model, &Params::default());
    let cm: f64 = a.threads.iter().map(|t| t.cm_ns).sum();
    let with_activity = a.parallelism.wall_ns - a.parallelism.idle_ns;
    assert!(
        (cm / with_activity as f64 - 1.0).abs() < 1e-3,
        "CMetric {cm} of {with_activity}"
    );
    let groups: f64 = a.groups.iter().map(|g| g.cm_ns).sum();
    assert!((groups - cm).abs() < 1.0);
    for f in a.findings.iter().chain(&a.dismissed) {
        assert!(
            1.0 <= f.gain.low && f.gain.low <= f.gain.mid && f.gain.mid <= f.gain.high,
            "{f:?}"
        );
        assert!(!f.title.is_empty() && !f.evidence.is_empty() && !f.causes.is_empty());
        assert!((0.0..=1.0).contains(&f.share_of_thread_time), "{f:?}");
    }
    for f in a.findings.iter_mut().chain(&mut a.dismissed) {
        f.gain.high = as_measured(f.gain.high).max(f.gain.mid);
    }
    a
}

/// A bound without what is allowed for errors of measurement: what a test puts in has none.
pub fn as_measured(high: f64) -> f64 {
    1.0 + (high - 1.0) / 1.1
}

/// The ids of the findings, most gain first.
pub fn ids(a: &Analysis) -> Vec<&'static str> {
    a.findings.iter().map(|f| f.id.as_str()).collect()
}

/// The only finding there is.
#[track_caller]
pub fn only(a: &Analysis) -> &Finding {
    assert_eq!(a.findings.len(), 1, "{:#?}", a.findings);
    &a.findings[0]
}

/// The bound of a gain that the processors limit, of which this share of what runs goes: what stays may run faster alone.
pub fn alone(bound: f64, goes: f64) -> f64 {
    let measured = 1.0 + (bound - 1.0) / 1.1;
    1.0 + 1.1 * (measured.powf(1.0 + goes) - 1.0)
}

/// So many threads of one kind.
pub fn workers(p: &mut ProfileBuilder, n: usize) -> Vec<u32> {
    let mut worker = || p.thread("w").start("run", "a.c", 1).cpu(1).id();
    (0..n).map(|_| worker()).collect()
}

/// A call stack of Go, innermost function first.
pub fn go_stack(p: &mut ProfileBuilder, functions: &[&str]) -> u32 {
    let frames: Vec<_> = functions.iter().map(|f| p.frame(f, "a.go", 7)).collect();
    p.stack(&frames)
}

/// What `detect` says of something.
pub fn found(id: &'static str, subject: Subject, mid: f64) -> Finding {
    Finding {
        id: FindingId::from_name(id).expect("a finding of the catalog"),
        subject,
        title: format!("{id} of detect"),
        evidence: Vec::new(),
        causes: Vec::new(),
        undecided: String::new(),
        gain: Gain {
            low: 1.0 + (mid - 1.0) / 2.0,
            mid,
            high: 2.0 * mid,
            method: String::new(),
            limited_by: String::new(),
            estimates: Vec::new(),
        },
        share_of_thread_time: 0.3,
        caveats: Vec::new(),
    }
}
