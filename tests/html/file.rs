//! What is in the file.

use std::process::Command;

use crate::pages;

#[test]
fn the_first_screen_has_verdict_gauge_timeline_and_fixes() {
    let page = pages::page(&pages::hot_lock());
    let parts = [
        "<h1 id=\"verdict\">",
        "class=\"gauge\"",
        "class=\"bands",
        "class=\"fixes\"",
        "id=\"findings\"",
    ];
    let places: Vec<usize> = parts.iter().map(|part| page.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    let [verdict, _, bands, fixes, findings] = places[..] else {
        unreachable!()
    };
    let verdict = &page[verdict..bands];
    assert!(
        verdict.contains("log_lock") && verdict.contains("Expected gain "),
        "{verdict}"
    );
    // Who holds the lock, and who waits for it.
    let picture = &page[bands..fixes];
    for marked in [
        "<path class=\"culprit\"",
        "<path class=\"blocked\"",
        "waits for log_lock",
    ] {
        assert!(picture.contains(marked), "{marked}: {picture}");
    }
    let fixes = &page[fixes..findings];
    let cards = fixes.matches("<li>").count();
    assert!((1..=3).contains(&cards), "{cards} cards");
    for part in [
        "class=\"gain\"",
        "Move the blocking call out",
        "l.c:",
        "time accounting",
    ] {
        assert!(fixes.contains(part), "{part}: {fixes}");
    }
    // Each finding is linked to the picture that shows it.
    let object = page.find("href=\"#object-").unwrap();
    let id: String = page[object + 6..]
        .chars()
        .take_while(|c| *c != '"')
        .collect();
    assert!(
        page.contains(&format!("id=\"{}\"", id.trim_start_matches('#'))),
        "{id}"
    );
}

#[test]
fn without_scheduler_events_the_first_screen_has_the_threads_time() {
    let page = pages::page(&pages::without_scheduler());
    let picture = &page[page.find("class=\"bands").unwrap()..page.find("class=\"fixes\"").unwrap()];
    assert!(picture.contains("Where the threads"), "{picture}");
    assert!(picture.contains("<rect class=\"blocked\""), "{picture}");
    let page = pages::page(&pages::empty());
    for absent in ["class=\"gauge\"", "class=\"bands", "class=\"fixes\""] {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn causes_that_nobody_decided_yet_are_folded() {
    let page = pages::page(&pages::without_scheduler());
    let finding = &page[page.find("id=\"finding-1\"").unwrap()..];
    let fold = finding.find("<details class=\"others\"").unwrap();
    let first = finding.find("<dd><strong>").unwrap();
    assert!(first < fold);
    let folded = &finding[fold..fold + finding[fold..].find("</details>").unwrap()];
    assert!(
        folded.contains("possible</summary>") && folded.contains("Fix: "),
        "{folded}"
    );
    assert!(!folded.contains("<strong>"), "one bold fix only: {folded}");
}

#[test]
fn processes_of_one_executable_are_one_row() {
    let page = pages::page(&pages::build());
    let table = &page[page.find("Table of thread groups").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    assert_eq!(table.matches("<tr>").count(), 3, "head, make, cc1: {table}");
    assert!(
        table.contains("<summary>cc1, 30 processes</summary>"),
        "{table}"
    );
    assert!(table.contains("process 1100: work"), "{table}");
    assert!(!table.contains(">main<"), "{table}");
}

#[test]
fn what_a_program_calls_its_things_is_text() {
    let page = pages::page(&pages::hostile());
    assert!(!page.contains("<script>window.harmed"));
    assert!(!page.contains("<img"));
    assert!(!page.contains("<svg onload"));
    assert!(!page.contains("<b onclick"));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;window.harmed"));
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = pages::page(&pages::hot_lock());
    assert!(page.contains("default-src 'none'"));
    for tag in [
        "<link",
        "<img",
        "<iframe",
        "@import",
        "url(http",
        "src=\"http",
    ] {
        assert!(!page.contains(tag), "{tag}");
    }
}

#[test]
fn a_profile_without_data_says_why() {
    let page = pages::page(&pages::empty());
    assert!(page.contains("there is nothing to judge"));
    assert!(page.contains("No thread was seen"));
    let page = pages::page(&pages::without_scheduler());
    assert!(page.contains("which code runs while the others wait"));
    assert!(page.contains("There are no scheduler events in it"));
    assert!(page.contains("sudo sysctl kernel.perf_event_paranoid=1"));
    assert!(!page.contains("id=\"timeline\""));
    let lost = "the profile ends after 900 bytes: what came after is missing";
    let page = pages::damaged_page(&pages::truncated(), &[lost.to_owned()]);
    assert!(page.contains("id=\"verdict\"") && page.contains("There is no timeline"));
    let warned = page.find("The profile is damaged").unwrap();
    assert!(warned < page.find("id=\"findings\"").unwrap() && page.contains(lost));
    assert!(pages::page(&pages::silent()).contains("id=\"verdict\""));
}

#[test]
fn links_lead_somewhere() {
    for profile in [
        pages::hot_lock(),
        pages::without_scheduler(),
        pages::truncated(),
        pages::traced(),
        pages::empty(),
    ] {
        let page = pages::page(&profile);
        let text = &page[..page.find("<script").unwrap()];
        for link in text.split("href=\"#").skip(1) {
            let id = link.split('"').next().unwrap();
            assert!(text.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }
}

#[test]
fn lines_of_a_section_are_coloured_by_what_they_touch() {
    let page = pages::page(&pages::traced());
    let of = |line: &str| {
        let at = page
            .find(&format!("<code>work() work.c:{line}</code>"))
            .unwrap();
        let row = page[..at].rfind("<tr ").unwrap();
        page[row..at].to_owned()
    };
    assert!(of("11").contains("touches shared"), "{}", of("11"));
    assert!(of("12").contains("touches local"), "{}", of("12"));
}

#[test]
fn places_that_read_the_same_are_a_row_with_their_callers() {
    let page = pages::page(&pages::many_locks());
    let table = &page[page.find("Where it is waited").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    let waits_at = "<td><code>take() s.c:7</code><div";
    assert_eq!(table.matches(waits_at).count(), 1, "{table}");
    assert!(
        table.contains("called from bill() s.c:30 50 %, order() s.c:20 50 %"),
        "{table}"
    );
    let finding = &page[page.find("id=\"finding-1\"").unwrap()..];
    let finding = &finding[..finding.find("</dl>").unwrap()];
    let held = finding.matches("; held since <code>take() s.c:7").count();
    assert_eq!(held, 1, "{finding}");
}

#[test]
fn what_was_hardly_waited_for_is_not_printed() {
    let page = pages::page(&pages::many_locks());
    let objects = page.matches("<details class=\"object").count();
    let unprinted = page.matches("<details class=\"object unprinted\"").count();
    assert_eq!((objects, unprinted), (18, 8), "no more than ten");
    assert!(page.contains("Not on paper: 8 objects"));
    let page = pages::page(&pages::hot_lock());
    assert!(page.contains("<details class=\"object\""));
    assert!(!page.contains("<details class=\"object unprinted\""));
    assert!(!page.contains("Not on paper"));
}

#[test]
fn what_was_hardly_waited_for_is_not_in_the_table() {
    let page = pages::page(&pages::joined());
    let table = &page[page.find("Condition variables").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    assert!(table.contains("(12 of 100)"), "{}", &table[..200]);
    assert_eq!(table.matches("<tr>").count(), 13, "with its head");
}

#[test]
fn five_thousand_threads_make_no_giant() {
    let page = pages::page(&pages::five_thousand());
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
}

#[test]
fn the_libraries_are_as_they_were_published() {
    let vendor = concat!(env!("CARGO_MANIFEST_DIR"), "/vendor");
    let sums = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(vendor)
        .status();
    assert!(sums.unwrap().success());
}
