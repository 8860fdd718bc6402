//! The screen over a program that only exists in memory.

use std::time::Duration;

use convoy_live::{
    Cell, Code, Counts, CurveId, Function, Governor, Inserted, Notice, Place, Prices, Probe,
    Probes, Refusal, Request, Session, Thread,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::backend::TestBackend;
use ratatui::Terminal;

use super::state::State;
use super::{view, Measurement, Progress};
use crate::keys::Effect;
use crate::view::Look;

/// One function, called a thousand times a second.
#[derive(Default)]
struct Fake {
    now_ms: u64,
    rows: Vec<(u32, u64)>,
}

impl Probes for Fake {
    fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        let now = self.now_ms;
        self.rows.extend(probes.iter().map(|p| (p.row, now)));
        Ok(vec![Inserted::Whole; probes.len()])
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        self.rows.retain(|(row, _)| !rows.contains(row));
        Ok(())
    }

    fn read(&mut self) -> Result<Counts, Refusal> {
        let cell = |(row, since): &(u32, u64)| {
            let mut cell = Cell::new(1, *row);
            cell.calls = self.now_ms - since;
            cell
        };
        Ok(Counts {
            cells: self.rows.iter().map(cell).collect(),
            lost_calls: 0,
            ..Counts::default()
        })
    }
}

struct Program {
    session: Session,
    probes: Fake,
}

impl Measurement for Program {
    fn session(&self) -> &Session {
        &self.session
    }

    fn step(&mut self, most: Duration) -> Result<Progress, String> {
        self.probes.now_ms += most.as_millis() as u64;
        let threads = ["main", "pool-1"]
            .iter()
            .zip(1..)
            .map(|(name, tid)| Thread {
                tid,
                pid: 1,
                name: (*name).into(),
                process: "server".into(),
                group: convoy_live::group_of(name),
                start_ticks: 1,
                state: 'S',
                cpu_ns: Some(self.probes.now_ms * 500_000),
                run_queue_ns: Some(0),
                switches: Some(0),
                cmetric_ns: None,
                read_bytes: None,
                write_bytes: None,
            });
        let (now, threads) = (self.probes.now_ms, threads.collect::<Vec<Thread>>().into());
        let sampled = self.session.sample(&mut self.probes, now, threads, None);
        sampled.map(Progress::Sampled).map_err(|e| e.to_string())
    }

    fn add(&mut self, request: Request) -> Result<CurveId, String> {
        let function = Function {
            name: "compress".into(),
            module: "server".into(),
            addresses: 0x100..0x120,
        };
        let added = self
            .session
            .add(&mut self.probes, request, &Place::of([function]));
        added.map_err(|e| e.to_string())
    }

    fn remove(&mut self, id: CurveId) -> Result<(), String> {
        let removed = self.session.remove(&mut self.probes, id);
        removed.map_err(|e| e.to_string())
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        self.session.take_notices()
    }

    fn code(&mut self) -> Code {
        let names = ["compress", "expand"].map(str::to_owned);
        vec![("server".into(), names.into())]
    }

    fn files(&mut self) -> Vec<String> {
        vec!["/etc/passwd".into()]
    }

    fn command_line(&self) -> String {
        "convoy live 1".into()
    }
}

struct Screen {
    state: State,
    program: Program,
}

impl Screen {
    fn new() -> Self {
        let prices = Prices {
            counter_ns: 1.0,
            timer_ns: 20.0,
        };
        let governor = Governor {
            budget: 0.03,
            prices,
        };
        let mut screen = Self {
            state: State::new("server (1)".into()),
            program: Program {
                session: Session::new(governor),
                probes: Fake::default(),
            },
        };
        screen.seconds(2);
        screen
    }

    fn seconds(&mut self, n: usize) {
        for _ in 0..n {
            let step = self.program.step(Duration::from_secs(1)).unwrap();
            let Progress::Sampled(changes) = step else {
                panic!("no sample")
            };
            self.state.sampled(&mut self.program, &changes);
        }
    }

    fn press(&mut self, keys: &str) -> Effect {
        let mut effect = Effect::Nothing;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '>' => KeyCode::Right,
                '<' => KeyCode::Left,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            let key = KeyEvent::new(code, KeyModifiers::NONE);
            effect = self.state.key(key, &mut self.program);
        }
        effect
    }

    fn text(&mut self, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let look = Look { color: false };
        let (state, session) = (&mut self.state, self.program.session());
        terminal
            .draw(|frame| view::draw(frame, state, session, look))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
        rows.collect::<Vec<_>>().join("\n")
    }

    fn shows(&mut self, parts: &[&str]) {
        let text = self.text(100, 24);
        for part in parts {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}

#[test]
fn the_tree_shows_threads_with_their_cpu_time_and_the_cost_is_always_there() {
    let mut screen = Screen::new();
    screen.shows(&[
        "Code",
        "Threads",
        "server (1)",
        "100 %",
        "Probes cost 0 %",
        "Files",
    ]);
    screen.press("jj>>");
    screen.shows(&["pool-#", "50 %"]);
}

#[test]
fn a_function_is_searched_measured_and_removed() {
    let mut screen = Screen::new();
    screen.press("/compr\n");
    screen.shows(&["compress"]);
    assert!(!screen.text(100, 24).contains("expand"));
    screen.press("\n");
    screen.shows(&["measure {function=\"compress\"}", "duration_mean"]);
    screen.press("\n");
    screen.seconds(1);
    screen.shows(&["1.00 k/s  calls{function=\"compress\"}", "█"]);
    screen.press("t");
    screen.shows(&["main (1)"]);
    screen.press("h");
    screen.shows(&["durations are known where time is measured"]);
    assert_eq!(screen.program.probes.rows.len(), 1);
    screen.press("-");
    assert!(screen.program.probes.rows.is_empty());
    screen.shows(&["Nothing is measured"]);
}

#[test]
fn a_marked_thread_group_narrows_a_function_down() {
    let mut screen = Screen::new();
    screen.press("/pool-#\n");
    let at = screen
        .state
        .rows
        .iter()
        .position(|row| row.name() == "pool-#");
    screen.state.select(at.unwrap());
    screen.press("m/compress\n\n\n");
    let session = screen.program.session();
    let requests: Vec<String> = session
        .curves()
        .map(|(_, c)| c.request.to_string())
        .collect();
    assert_eq!(requests, [r#"calls{function="compress", group="pool-#"}"#]);
}

#[test]
fn what_is_frozen_goes_on_unseen_and_the_command_is_written() {
    let mut screen = Screen::new();
    screen.press(" ");
    screen.shows(&["frozen"]);
    screen.press(" w");
    assert_eq!(screen.state.written, ["convoy live 1"]);
    screen.press("?");
    screen.shows(&["leave: everything is taken out"]);
    screen.press("x");
    assert_eq!(screen.press("q"), Effect::Quit);
}

#[test]
fn a_function_opens_into_its_callees_in_the_marked_threads() {
    use super::metrics::{callees, conjunction};
    use convoy_live::{Focus, Key, Metric};
    let pool = Focus::new().with(Key::Group, "pool-#");
    let function = Focus::new().with(Key::Function, "compress");
    let request = Request::new(Metric::Cpu, callees(&conjunction(&pool, &function))).unwrap();
    assert!(request.opens());
    let expected = r#"cpu{function="*", in="compress", group="pool-#"}"#;
    assert_eq!(request.to_string(), expected);
}

#[test]
fn the_smallest_screens_are_drawn() {
    let mut screen = Screen::new();
    screen.press("/compress\n\n\n");
    screen.seconds(3);
    for (width, height) in [(1, 1), (5, 3), (20, 4), (40, 10), (300, 100)] {
        screen.text(width, height);
    }
    screen.press("/compress\n\n");
    for (width, height) in [(1, 1), (5, 3), (20, 4)] {
        screen.text(width, height);
    }
}
