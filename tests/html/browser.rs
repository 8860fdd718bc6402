//! The pages in a browser that nobody looks at; browser.py says what is asked of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::pages;

#[test]
fn a_browser_shows_what_is_there() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("html");
    fs::create_dir_all(&dir).unwrap();
    for (name, profile) in [
        ("hot-lock", pages::hot_lock()),
        ("hostile", pages::hostile()),
        ("without-scheduler", pages::without_scheduler()),
        ("traced", pages::traced()),
        ("many-locks", pages::many_locks()),
        ("empty", pages::empty()),
        ("silent", pages::silent()),
        ("truncated", pages::truncated()),
        ("five-thousand", pages::five_thousand()),
        ("build", pages::build()),
    ] {
        fs::write(dir.join(format!("{name}.html")), pages::page(&profile)).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/html/browser.py");
    // Debian's own, which has Debian's Selenium.
    let run = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(&dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let failed = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}\n{failed}");
    println!("{said}");
}
