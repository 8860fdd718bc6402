//! The page of traced sections, and what their verdict makes of a finding, byte for byte.

use convoy_model::Model;
use convoy_profile::Profile;
use convoy_report::text::{render, Options, Source, View};
use convoy_report::{json, Report};
use convoy_testkit::sections::{Step, Traces};
use convoy_testkit::{assert_golden, ms, us, ProfileBuilder};

const TABLE: u64 = 0x7f55_0000_0000;

/// Two workers fight for a lock; in its section random numbers are drawn, which needs no lock.
fn drawing_inside() -> Profile {
    let mut p = ProfileBuilder::new("anneal");
    p.cpus(2).wall(ms(1000));
    let threads = ["a", "b"].map(|name| {
        let thread = p.thread(name).start("work", "anneal.c", 40);
        thread.cpu(ms(600)).id()
    });
    let lock = p.mutex("state_lock");
    let site = p.site("swap", "anneal.c", 12);
    let (draw, swap) = (
        p.frame("swap", "anneal.c", 13),
        p.frame("swap", "anneal.c", 15),
    );
    let random = p.frame("random", "rng.c", 5);
    for thread in threads {
        p.acquires(thread, lock, site, 4000).hold(us(80));
        p.contended(thread, lock, site, 900, ms(350)).hold(us(80));
    }
    let mut traces = Traces::new();
    for turn in 0..60 {
        for (i, thread) in (0u64..).zip(threads) {
            let own = TABLE + 0x10_0000 * (i + 1);
            let step = |k: u64| [Step::Add(random, own + k * 8), Step::Work(random, 3)];
            let steps = [
                Step::Call(draw, (0..100).flat_map(step).collect()),
                Step::Add(swap, TABLE + turn % 7 * 64),
                Step::Add(swap, TABLE),
            ];
            traces.section(&mut p, thread, lock, site, us(90), &steps);
        }
    }
    let mut profile = p.build();
    traces.put(&mut profile);
    profile
}

fn with_report<T>(profile: &Profile, use_it: impl FnOnce(&Report<'_>) -> T) -> T {
    let thresholds = convoy_analysis::Params::default();
    let model = Model::build(profile.clone());
    let mut analysis = convoy_analysis::counters::analyze(&model, &thresholds);
    let sections = model.sections.as_ref().map(|_| {
        let sections = convoy_diagnose::analyze(&model, &convoy_diagnose::Thresholds::default());
        convoy_diagnose::join(&model, &mut analysis.findings, &model, &sections);
        sections
    });
    use_it(&Report {
        model: &model,
        analysis: &analysis,
        critical: None,
        sections: sections.as_ref(),
        thresholds: &thresholds,
    })
}

fn options(view: View) -> Options {
    Options {
        view,
        source: Source::File("run.convoy".into()),
        ..Options::default()
    }
}

#[test]
fn pages() {
    with_report(&drawing_inside(), |report| {
        for (name, view) in [
            ("sections", View::Sections),
            ("sections-summary", View::Summary),
        ] {
            let text = render(report, &options(view)).unwrap();
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= 100, "{name}: {widest} columns\n{text}");
            assert_golden(format!("../../tests/golden/report/{name}.txt"), &text);
        }
    });
}

#[test]
fn the_verdict_takes_the_place_of_what_was_possible() {
    let mut profile = drawing_inside();
    let of = |profile: &Profile| {
        let document = with_report(profile, json::value);
        document["findings"][0].clone()
    };
    let decided = of(&profile);
    assert_eq!(decided["id"], "contended-lock");
    assert_eq!(decided["causes"].as_array().unwrap().len(), 1);
    assert_eq!(decided["causes"][0]["id"], "too-large-critical-section");
    assert!(decided["causes"][0]["fix"]
        .as_str()
        .unwrap()
        .contains("anneal.c:13"));
    assert_eq!(decided["undecided"], "");
    profile.sections = None;
    let possible = of(&profile);
    assert!(possible["causes"].as_array().unwrap().len() > 1);
    assert_ne!(possible["undecided"], "");
    let mid = |finding: &serde_json::Value| finding["gain"]["mid_ratio"].as_f64().unwrap();
    assert!(mid(&decided) <= mid(&possible));
}

#[test]
fn a_profile_without_sections_says_how_to_get_them() {
    let mut profile = drawing_inside();
    profile.sections = None;
    let why = with_report(&profile, |report| render(report, &options(View::Sections)));
    assert!(why.unwrap_err().contains("convoy diagnose -- COMMAND"));
}
