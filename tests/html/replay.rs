//! The page of `convoy replay --html`.

use std::fs;
use std::path::Path;
use std::process::Command;

use convoy_html::replay::page;
use convoy_replay::analysis::Analysis;
use convoy_testkit::replay;

fn kinds() -> [(&'static str, Analysis); 8] {
    [
        ("rich", replay::rich()),
        ("refused", replay::refused()),
        ("sets-unknown", replay::sets_unknown()),
        ("one-thread", replay::one_thread()),
        ("no-lock", replay::no_lock()),
        ("disputed", replay::disputed()),
        ("worthless", replay::worthless()),
        ("hostile", replay::hostile()),
    ]
}

#[test]
fn the_page_says_everything_without_a_script() {
    let page = page(&replay::rich());
    let text = &page[..page.find("<script").unwrap()];
    for said in [
        "Main cause: read-read contention at cache_lock",
        "predictions hold",
        "1.6x (1.4–1.8x)",
        "src/cache.c:41",
        "e-&gt;last_used = now;",
        "shorten cache_lock 50%",
        "measured 1.6x (1.5–1.6x), holds",
        "Then stats_lock limits.",
        "64 CPUs *",
        "stats.hits: write at stats_hit() src/stats.c:18",
        "Table 1",
    ] {
        assert!(text.contains(said), "{said}");
    }
}

#[test]
fn links_of_a_replay_lead_somewhere() {
    for (name, analysis) in kinds() {
        let page = page(&analysis);
        for link in page.split("href=\"#").skip(1) {
            let id = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{id}\"")), "{name}: {id}");
        }
    }
}

#[test]
fn a_page_of_a_replay_loads_nothing_and_runs_no_names() {
    let page = page(&replay::hostile());
    assert!(page.contains("default-src 'none'"));
    for harm in ["<script>window.harmed", "<img", "<link", "url(http"] {
        assert!(!page.contains(harm), "{harm}");
    }
}

#[test]
fn no_gain_is_shown_where_no_replay_is_trusted() {
    let page = page(&replay::refused());
    assert!(page.contains("no predictions") && !page.contains("class=\"gain\""));
    assert!(page.contains("no prediction</span>"));
}

#[test]
fn a_browser_zooms_the_runs_and_moves_the_sliders() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("html-replay");
    fs::create_dir_all(&dir).unwrap();
    for (name, analysis) in kinds() {
        fs::write(dir.join(format!("{name}.html")), page(&analysis)).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/html/replay.py");
    // Debian's own, which has Debian's Selenium.
    let run = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(&dir)
        .output()
        .unwrap();
    let (said, failed) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{said}\n{failed}");
}
