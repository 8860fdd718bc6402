//! Keys and readings in, screens out: fixed models on a terminal that is none.

use std::time::Duration;

use convoy_profile::{Exit, Profile};
use convoy_testkit::{ms, s, us, ProfileBuilder};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use ratatui::Terminal;

use crate::app::App;
use crate::keys::Effect;
use crate::reading::Reading;
use crate::view::{draw, Look};

/// A program with a lock that was hot for its first ten seconds, one that became so in the eleventh, a queue, and
/// three kinds of threads.
fn program(seconds: u64) -> Profile {
    let mut p = ProfileBuilder::new("server");
    p.wall(s(seconds)).exit(Exit::Running);
    let late = seconds.saturating_sub(10);
    let take = p.frame("cache_get", "cache.c", 41);
    let put = p.frame("cache_put", "cache.c", 77);
    let work = p.frame("work", "server.c", 30);
    let get_site = p.stack(&[take, work]);
    let put_site = p.stack(&[put, work]);
    let log_site = p.site("log_line", "log.c", 9);
    let pop_site = p.site("queue_pop", "queue.c", 5);
    let mut worker = |n: u64| {
        p.thread(&format!("worker-{n}"))
            .start("work", "server.c", 28)
            .cpu(s(1) + late * ms(700))
            .run_delay(ms(200))
            .id()
    };
    let (a, b) = (worker(0), worker(1));
    let idle = p.thread("poller").start("poll", "server.c", 90).id();
    let cache = p.mutex("cache_lock");
    let log = p.mutex("log_lock");
    let queue = p.cond("queue_cond");
    p.acquires(a, cache, get_site, 10_000 + late).hold(us(20));
    p.contended(b, cache, get_site, 500, s(4))
        .held_by(a, put, put_site);
    p.contended(a, log, log_site, 10 + late * 100, ms(10) + late * ms(600))
        .held_by(b, take, get_site);
    p.op(idle, queue, pop_site, convoy_profile::Op::CondWait, 3)
        .waits(4, s(seconds) - ms(1))
        .unfinished(ms(1500));
    p.build()
}

fn reading(seconds: u64) -> Reading {
    Reading {
        running: true,
        cpu: Duration::from_millis(3),
        ..Reading::of_profile(program(seconds))
    }
}

/// After two readings, the tenth second and the eleventh.
fn live() -> App {
    let mut app = App::new("process 1000".into(), Duration::from_secs(1));
    app.resize(80, 24);
    app.read(reading(10));
    app.read(reading(11));
    app
}

fn press(app: &mut App, code: KeyCode) -> Effect {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_text(app: &mut App, text: &str) {
    for c in text.chars() {
        press(app, KeyCode::Char(c));
    }
}

fn drawn(app: &mut App, width: u16, height: u16, color: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    app.resize(width.into(), height.into());
    terminal
        .draw(|frame| draw(frame, app, Look { color }))
        .unwrap();
    terminal
}

/// The screen as lines without blanks at their ends.
fn screen_of(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let terminal = drawn(app, width, height, false);
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn screen(app: &mut App) -> Vec<String> {
    screen_of(app, 80, 24)
}

#[test]
fn the_lock_that_is_hot_now_stands_before_the_one_that_was() {
    let mut app = live();
    let lines = screen(&mut app);
    assert_eq!(
        lines[..6],
        [
            "server (process 1000), runs for 11.0 s, 4 threads, 1.4 CPUs busy",
            "\"now\": the last 1.00 s",
            " 1 locks   2 other waits   3 threads   4 thread groups",
            "lock                         nowv     all  waiting   waits/s     mean    taken/s",
            "log_lock                     60 %   5.5 %        0     100/s  6.00 ms      100/s",
            "cache_lock                    0 %    18 %        0       0/s        -     1.00/s",
        ]
    );
    assert_eq!(lines[22], "2 of 2 by now");
    press(&mut app, KeyCode::Char('>'));
    let lines = screen(&mut app);
    assert!(lines[3].contains("allv"), "{}", lines[3]);
    assert!(lines[4].starts_with("cache_lock"), "{}", lines[4]);
    press(&mut app, KeyCode::Char('r'));
    let lines = screen(&mut app);
    assert!(lines[3].contains("all^") && lines[4].starts_with("log_lock"));
}

#[test]
fn before_the_second_reading_nothing_is_known_of_now() {
    let mut app = App::new("process 1000".into(), Duration::from_secs(1));
    assert_eq!(
        screen(&mut app)[0],
        "process 1000: reading its tables and symbols"
    );
    app.read(reading(10));
    let lines = screen(&mut app);
    assert_eq!(lines[1], "\"now\" is known after the second reading");
    assert!(
        lines[4].starts_with("cache_lock                      -    20 %"),
        "{}",
        lines[4]
    );
}

#[test]
fn tables_are_switched_by_number_and_by_tab() {
    let mut app = live();
    press(&mut app, KeyCode::Char('2'));
    let lines = screen(&mut app);
    assert!(lines[4].starts_with("queue_cond"), "{}", lines[4]);
    press(&mut app, KeyCode::Tab);
    let lines = screen(&mut app);
    assert!(lines[4].starts_with("worker-0 (1001)"), "{}", lines[4]);
    assert!(
        lines[4].contains("70 %"),
        "of the last second: {}",
        lines[4]
    );
    let idle = lines.iter().find(|l| l.starts_with("poller")).unwrap();
    assert!(idle.contains("100 %"), "{idle}");
    let wide = screen_of(&mut app, 120, 24);
    let idle = wide.iter().find(|l| l.starts_with("poller")).unwrap();
    assert!(idle.ends_with("queue_cond, 1.50 s"), "{idle}");
    press(&mut app, KeyCode::Tab);
    let lines = screen_of(&mut app, 120, 24);
    let workers = lines.iter().find(|l| l.starts_with("worker-#")).unwrap();
    assert!(
        workers.contains("70 %") && workers.ends_with("log_lock"),
        "{workers}"
    );
    press(&mut app, KeyCode::Tab);
    assert!(screen(&mut app)[4].starts_with("log_lock"));
}

#[test]
fn a_filter_is_text_or_an_expression_and_works_while_it_is_typed() {
    let mut app = live();
    type_text(&mut app, "/CACHE");
    let lines = screen(&mut app);
    assert!(lines[4].starts_with("cache_lock") && lines[5].is_empty());
    assert!(lines[23].starts_with("show only: CACHE_"), "{}", lines[23]);
    assert_eq!(lines[22], "1 of 2 by now, only \"CACHE\"");
    press(&mut app, KeyCode::Enter);
    // No longer typed: a key again.
    assert_eq!(press(&mut app, KeyCode::Char('q')), Effect::Quit);
    press(&mut app, KeyCode::Esc);
    assert_eq!(screen(&mut app)[22], "2 of 2 by now");
    type_text(&mut app, "/no such");
    assert_eq!(
        screen(&mut app)[4],
        "nothing has \"no such\"; Esc shows all"
    );
    press(&mut app, KeyCode::Esc);
    type_text(&mut app, "/^log");
    assert!(screen(&mut app)[4].starts_with("log_lock"));
}

#[test]
fn a_lock_opens_with_its_sites_and_who_waits_for_whom() {
    let mut app = live();
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    let lines = screen_of(&mut app, 120, 40);
    let text = lines.join("\n");
    assert_eq!(lines[3], "cache_lock");
    for part in [
        "mutex at 0x",
        "in server (1000)",
        "now: 0 % of its threads' time waited, 0 waits of -",
        "since the start: 18 % of its threads' time waited, 500 waits of 8.00 ms",
        "at this moment nobody waits",
        "mutex_lock cache_get() cache.c:41",
        "Who waits for whom",
        "worker-# at cache_get() cache.c:41",
        "worker-# since cache_put() cache.c:77",
        "worker-1 (1002)",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    // It follows the program while it is open.
    app.read(reading(12));
    assert_eq!(screen_of(&mut app, 120, 40)[3], "cache_lock");
    press(&mut app, KeyCode::Esc);
    assert!(screen(&mut app)[4].starts_with("log_lock"));
}

#[test]
fn a_page_does_not_scroll_beyond_its_end() {
    let mut app = live();
    app.resize(80, 12);
    press(&mut app, KeyCode::Enter);
    let first = screen_of(&mut app, 80, 12);
    press(&mut app, KeyCode::End);
    let last = screen_of(&mut app, 80, 12);
    assert_ne!(first, last);
    assert!(!last[9].is_empty(), "{last:?}");
    press(&mut app, KeyCode::Up);
    assert_ne!(screen_of(&mut app, 80, 12), last, "one line up, at once");
    press(&mut app, KeyCode::Home);
    assert_eq!(screen_of(&mut app, 80, 12), first);
}

#[test]
fn threads_and_groups_open_with_what_they_wait_for() {
    let mut app = live();
    press(&mut app, KeyCode::Char('4'));
    press(&mut app, KeyCode::Enter);
    let text = screen(&mut app).join("\n");
    assert!(text.contains("Waits for"), "{text}");
    let log = text.find("log_lock").unwrap();
    assert!(log < text.find("cache_lock").unwrap(), "{text}");
}

#[test]
fn the_cursor_stays_on_its_row_when_the_order_changes() {
    let mut app = live();
    press(&mut app, KeyCode::Down);
    assert_eq!(app.cursor(), 1, "cache_lock");
    press(&mut app, KeyCode::Char('>'));
    assert_eq!(app.cursor(), 0, "it went to the top");
    press(&mut app, KeyCode::Home);
    press(&mut app, KeyCode::Char('<'));
    assert_eq!(app.cursor(), 0, "the first row, whatever it is");
}

#[test]
fn a_pause_and_an_end_are_said() {
    let mut app = live();
    assert!(app.wants_readings());
    press(&mut app, KeyCode::Char('p'));
    assert!(!app.wants_readings());
    assert_eq!(screen(&mut app)[1], "paused: the program goes on");
    press(&mut app, KeyCode::Char(' '));
    let last = Reading {
        running: false,
        ..reading(12)
    };
    app.read(last);
    assert!(!app.wants_readings());
    let lines = screen(&mut app);
    assert_eq!(lines[1], "the program has ended: this is the last reading");
    assert!(lines[0].contains("ran for 12.0 s"), "{}", lines[0]);
    assert!(
        lines[4].starts_with("log_lock"),
        "still there: {}",
        lines[4]
    );
}

#[test]
fn a_dear_reading_makes_the_next_one_late_and_says_so() {
    let mut app = live();
    assert_eq!(app.pause(), Duration::from_secs(1));
    app.read(Reading {
        cpu: Duration::from_millis(350),
        ..reading(12)
    });
    assert_eq!(app.pause(), Duration::from_millis(3500));
    app.spent(Duration::from_millis(50));
    assert_eq!(app.pause(), Duration::from_millis(4000));
    let state = &screen_of(&mut app, 120, 24)[1];
    assert_eq!(
        state,
        "\"now\": the last 1.00 s; a reading takes 400 ms of CPU time, so that there is one every 4.00 s"
    );
}

#[test]
fn without_colour_weight_says_what_stands_out() {
    let mut app = live();
    for (color, expected) in [(true, Some(Color::Red)), (false, None)] {
        let terminal = drawn(&mut app, 80, 24, color);
        let buffer = terminal.backend().buffer();
        let cell = &buffer[(0, 4)];
        assert!(cell.modifier.contains(Modifier::REVERSED), "the cursor");
        match expected {
            Some(red) => assert_eq!(cell.fg, red),
            None => {
                assert!(cell.modifier.contains(Modifier::BOLD));
                let plain = buffer
                    .content()
                    .iter()
                    .all(|c| c.fg == Color::Reset && c.bg == Color::Reset);
                assert!(plain, "no colour anywhere");
            }
        }
    }
}

#[test]
fn any_size_of_a_terminal_will_do() {
    let mut app = live();
    for key in ['1', '2', '3', '4', '?'] {
        press(&mut app, KeyCode::Char(key));
        for (width, height) in [(1, 1), (3, 2), (20, 5), (79, 7), (80, 24), (300, 100)] {
            screen_of(&mut app, width, height);
        }
    }
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Enter);
    for (width, height) in [(1, 1), (5, 3), (300, 100)] {
        screen_of(&mut app, width, height);
    }
}

#[test]
fn the_help_names_all_keys() {
    let mut app = live();
    press(&mut app, KeyCode::Char('?'));
    let text = screen(&mut app).join("\n");
    for part in ["Enter", "Esc", "< >", "PgUp", "pause", "no CPU"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    press(&mut app, KeyCode::Char('x'));
    assert!(
        screen(&mut app)[4].starts_with("log_lock"),
        "any key leads back"
    );
}

#[test]
fn names_from_a_program_cannot_write_to_the_terminal() {
    let mut p = ProfileBuilder::new("server");
    p.exit(Exit::Running);
    p.thread("evil\x1b[2J\x07\u{9b}31m").cpu(ms(900));
    let mut app = App::new("process 1000".into(), Duration::from_secs(1));
    app.read(Reading::of_profile(p.build()));
    let text = app.text(100) + &app.json();
    assert!(text.contains("evil?[2J??31m"), "{text}");
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(control), "{text:?}");
    press(&mut app, KeyCode::Char('3'));
    let shown = screen(&mut app).join("");
    assert!(shown.contains("evil") && !shown.contains(control));
}

#[test]
fn one_reading_as_text_and_as_json() {
    let app = live();
    let text = app.text(100);
    for part in [
        "locks: 2",
        "other waits: 1",
        "threads: 4",
        "thread groups: 3",
        "log_lock",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&app.json()).unwrap();
    let lock = &json["locks"][0];
    assert_eq!(lock["name"], "log_lock");
    assert_eq!(lock["waited_now_ratio"], 0.6);
    assert_eq!(lock["waits"], 110);
    assert_eq!(json["threads"].as_array().unwrap().len(), 4);
    assert_eq!(json["now_s"], 1.0);
}

#[test]
fn an_empty_recording_says_so() {
    let mut app = App::new("process 1000".into(), Duration::from_secs(1));
    app.read(Reading::of_profile(Profile::default()));
    assert_eq!(screen(&mut app)[4], "no lock was taken so far");
    assert!(app.text(80).contains("locks: none"));
}
