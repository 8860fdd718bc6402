//! Replays of every kind as text and JSON, byte for byte. `CONVOY_BLESS=1 cargo test -p
//! convoy-report` rewrites them after a change that was meant.

use convoy_replay::analysis::Analysis;
use convoy_report::replay::json;
use convoy_report::replay::text::{render, Options, View};
use convoy_report::text::Source;
use convoy_testkit::{assert_golden, replay};

fn all() -> [(&'static str, Analysis); 8] {
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

fn page(view: View) -> Options {
    Options {
        view,
        from: Source::File("run.convoy".into()),
        ..Options::default()
    }
}

fn golden(name: &str, text: &str) {
    assert_golden(format!("../../tests/golden/replay/{name}"), text);
}

#[test]
fn each_kind_of_replay_is_one_screen() {
    for (name, analysis) in all() {
        let text = render(&analysis, &page(View::Summary)).unwrap();
        golden(&format!("{name}.txt"), &text);
        assert!(text.lines().count() <= 45, "{name}: {text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(
            widest <= Some(100) || name == "hostile",
            "{name}: {widest:?}\n{text}"
        );
    }
}

#[test]
fn each_kind_of_replay_is_a_document() {
    for (name, analysis) in all() {
        golden(&format!("{name}.json"), &json::render(&analysis));
    }
}

#[test]
fn a_table_without_rows_or_numbers_says_why() {
    let mut analysis = replay::refused();
    for of in &mut analysis.compared {
        of.overall = None;
        of.regions.pairs.clear();
    }
    assert!(!analysis.compared.is_empty());
    let text = |number| render(&analysis, &page(View::Table(number))).unwrap();
    assert!(text(2).contains(" ? "), "{}", text(2));
    assert!(text(3).contains("No rows: "), "{}", text(3));
    for number in 1..=3 {
        let text = text(number);
        assert!(
            text.contains("No replay gives the recorded run back"),
            "{text}"
        );
    }
}

#[test]
fn nothing_is_gained_only_where_the_whole_interval_says_so() {
    let verdict = |analysis: &Analysis| render(analysis, &page(View::Summary)).unwrap();
    let mut analysis = replay::worthless();
    assert!(verdict(&analysis).contains("gains\n          nothing"));
    for region in &mut analysis.regions {
        for (_, saved) in &mut region.answer.by_method {
            saved.high = 0.4;
        }
    }
    let unsure = verdict(&analysis);
    assert!(
        !unsure.contains("nothing: ") && unsure.contains("uncertain"),
        "{unsure}"
    );
}

#[test]
fn all_rows_are_shown_on_demand() {
    let text = render(&replay::rich(), &page(View::All)).unwrap();
    golden("rich-all.txt", &text);
    assert!(!text.contains(" more: --all"), "{text}");
}

#[test]
fn a_terminal_gets_colours_and_characters() {
    let options = Options {
        color: true,
        unicode: true,
        width: 80,
        ..page(View::Summary)
    };
    golden(
        "rich-terminal.txt",
        &render(&replay::rich(), &options).unwrap(),
    );
}

#[test]
fn source_lines_begin_with_their_place() {
    let text = render(&replay::rich(), &page(View::Source)).unwrap();
    golden("rich-source.txt", &text);
    assert!(
        text.lines()
            .any(|line| line.starts_with("src/cache.c:42: ")),
        "{text}"
    );
    let none = render(&replay::sets_unknown(), &page(View::Source));
    assert!(none.unwrap_err().contains("build the program with -g"));
}

#[test]
fn tables_of_the_paper_are_printed_or_refused() {
    let shown = [1, 2, 3].map(View::Table).into_iter();
    let shown = shown.chain([2, 13, 14, 15, 16, 19].map(View::Figure));
    let texts = shown.map(|view| render(&replay::rich(), &page(view)));
    let texts: Result<String, String> = texts.collect();
    golden("exhibits.txt", &texts.unwrap());
    let none = render(&replay::rich(), &page(View::Table(9))).unwrap_err();
    assert!(
        none.contains("no table 9: there are tables 1, 2, 3"),
        "{none}"
    );
    let unknown = render(&replay::sets_unknown(), &page(View::Figure(2))).unwrap_err();
    assert!(unknown.contains("`convoy replay -- COMMAND`"), "{unknown}");
}

#[test]
fn no_number_is_shown_where_no_replay_is_trusted() {
    for view in [View::Summary, View::All] {
        let text = render(&replay::refused(), &page(view)).unwrap();
        let gain = text.split_whitespace().find(|word| {
            let number = word.strip_suffix('x').map(|n| n.trim_start_matches('('));
            number.is_some_and(|n| n.parse::<f64>().is_ok())
        });
        let measured = text.contains("measured 1.6x").then_some("1.6x");
        assert_eq!(gain, measured, "{text}");
    }
}

#[test]
fn names_from_the_program_never_command_the_terminal() {
    for view in [View::Summary, View::All, View::Source] {
        let text = render(&replay::hostile(), &page(view)).unwrap();
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}'),
            "{text}"
        );
    }
}

#[test]
fn schedules_need_no_read_and_write_sets() {
    let mut analysis = replay::refused();
    for of in &mut analysis.compared {
        of.has_sets = false;
    }
    let text = render(&analysis, &page(View::Figure(13))).unwrap();
    assert!(text.contains("orig, simulated"), "{text}");
    let why = render(&analysis, &page(View::Figure(14))).unwrap_err();
    assert!(why.contains("read and write sets are unknown"), "{why}");
}
