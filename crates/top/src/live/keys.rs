//! What keys do.

use convoy_live::{CurveId, Key, Metric, Request};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::metrics::{callees, conjunction, for_focus, noun, usual};
use super::state::{Detail, Marker, Menu, Side, State};
use super::Measurement;
use crate::filter::Filter;
use crate::keys::{typed, Effect};

/// The keys, for the help: what to press, what it does.
pub const HELP: &[(&str, &str)] = &[
    (
        "Up Down PgUp PgDn",
        "move, also j and k; Home and End (g, G)",
    ),
    ("Right Left", "open and close a branch of the tree"),
    (
        "/",
        "search the tree, functions without a name too; Esc: all",
    ),
    (
        "Enter, +",
        "measure what is under the cursor: choose a metric",
    ),
    (
        "m",
        "mark it: the next one is measured in the marked one only",
    ),
    (
        "c",
        "open a function, or a curve of one, into what it calls",
    ),
    ("Tab", "from the tree to the curves and back"),
    ("-", "remove the curve under the cursor, and its probes"),
    ("t", "a curve for each thread"),
    ("h", "the histogram of durations"),
    ("Space", "freeze the screen: what is measured goes on"),
    ("w", "write the command line that measures the same again"),
    (
        "q, Ctrl-C",
        "leave: everything is taken out, the program goes on",
    ),
];

impl State {
    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent, measurement: &mut impl Measurement) -> Effect {
        if key.kind == KeyEventKind::Release {
            return Effect::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Quit,
                KeyCode::Char('z') => Effect::Suspend,
                _ => Effect::Nothing,
            };
        }
        if self.typing.is_some() {
            self.key_of_search(key.code);
        } else if self.menu.is_some() {
            self.key_of_menu(key.code, measurement);
        } else if self.help {
            self.help = false;
        } else {
            return self.key_of_screen(key.code, measurement);
        }
        Effect::Nothing
    }

    fn key_of_screen(&mut self, code: KeyCode, measurement: &mut impl Measurement) -> Effect {
        self.message.clear();
        match code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?') | KeyCode::F(1) => self.help = true,
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char('t') => self.toggle(Detail::Threads),
            KeyCode::Char('h') => self.toggle(Detail::Histogram),
            KeyCode::Char('w') => {
                let line = measurement.command_line();
                self.message.clone_from(&line);
                self.written.push(line);
            }
            KeyCode::Tab | KeyCode::BackTab => {
                self.side = match self.side {
                    Side::Tree => Side::Curves,
                    Side::Curves => Side::Tree,
                }
            }
            KeyCode::Char('-') => {
                if let Some(id) = self.selected_curve(measurement) {
                    self.remove(id, measurement);
                }
            }
            KeyCode::Char('c') => self.open_function(measurement),
            KeyCode::Char('/') => {
                self.load_code(measurement);
                self.side = Side::Tree;
                self.search("");
                self.typing = Some(String::new());
            }
            KeyCode::Esc => {
                self.marked = None;
                self.search("");
            }
            code => match self.side {
                Side::Tree => self.key_of_tree(code, measurement),
                Side::Curves => self.key_of_curves(code, measurement),
            },
        }
        Effect::Nothing
    }

    fn toggle(&mut self, detail: Detail) {
        self.detail = match self.detail == detail {
            true => Detail::Whole,
            false => detail,
        };
    }

    fn key_of_tree(&mut self, code: KeyCode, measurement: &mut impl Measurement) {
        let page = self.room.saturating_sub(1).max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.select(self.at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.at + 1),
            KeyCode::PageUp => self.select(self.at.saturating_sub(page)),
            KeyCode::PageDown => self.select(self.at + page),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Right => self.open_branch(true, measurement),
            KeyCode::Left => self.open_branch(false, measurement),
            KeyCode::Char('m') => self.mark(),
            KeyCode::Enter | KeyCode::Char('+') => self.choose(measurement),
            _ => {}
        }
    }

    fn key_of_curves(&mut self, code: KeyCode, measurement: &impl Measurement) {
        let last = measurement.session().curves().count().saturating_sub(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.curve = self.curve.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.curve = (self.curve + 1).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.curve = 0,
            KeyCode::End | KeyCode::Char('G') => self.curve = last,
            _ => {}
        }
    }

    fn load_code(&mut self, measurement: &mut impl Measurement) {
        if self.code.is_none() {
            self.code = Some(measurement.code());
            self.grow(measurement);
        }
    }

    fn open_branch(&mut self, open: bool, measurement: &mut impl Measurement) {
        let Some(path) = self.selected().map(|row| row.path.clone()) else {
            return;
        };
        if open {
            if path.first().is_some_and(|branch| branch == "Code") {
                self.load_code(measurement);
            }
            self.open.insert(path);
            self.grow(measurement);
        } else if !self.open.remove(&path) {
            // Of a leaf, the branch that it is on.
            let parent = &path[..path.len().saturating_sub(1)];
            let at = self.rows.iter().position(|row| row.path == parent);
            self.select(at.unwrap_or(self.at));
            return;
        }
        self.arrange();
    }

    fn mark(&mut self) {
        let focus = self.selected().and_then(|row| row.focus.clone());
        self.message = match &focus {
            Some(focus) => format!("marked {focus}: choose what is measured in it"),
            None => "this cannot be marked".into(),
        };
        self.marked = focus;
    }

    /// Opens the menu of metrics, or a branch that nothing can be measured of.
    fn choose(&mut self, measurement: &mut impl Measurement) {
        let Some(row) = self.selected() else { return };
        let is_open = row.is_open;
        let Some(focus) = row.focus.clone() else {
            if let Some(is_open) = is_open {
                self.open_branch(!is_open, measurement);
            }
            return;
        };
        let focus = match &self.marked {
            Some(marked) => conjunction(marked, &focus),
            None => focus,
        };
        let metrics = for_focus(&focus);
        if metrics.is_empty() {
            self.message = format!("there is no metric for {focus}");
            return;
        }
        let usual = usual(&focus);
        let at = metrics.iter().position(|row| row.metric == usual);
        self.menu = Some(Menu {
            focus,
            at: at.unwrap_or(0),
        });
    }

    /// Measures which of its callees takes the time of a function.
    fn open_function(&mut self, measurement: &mut impl Measurement) {
        let curves = || measurement.session().curves();
        let of_curve = curves().nth(self.curve).map(|(_, curve)| &curve.request);
        let (metric, focus) = match (self.side, of_curve, self.selected()) {
            (Side::Curves, Some(request), _) => (request.metric, Some(request.focus.clone())),
            (Side::Curves, None, _) | (Side::Tree, _, None) => (Metric::Cpu, None),
            (Side::Tree, _, Some(row)) => (Metric::Cpu, row.focus.clone()),
        };
        let Some(focus) = focus.filter(|focus| focus.get(Key::Function).is_some()) else {
            self.message = "only a function opens into what it calls".into();
            return;
        };
        let focus = match &self.marked {
            Some(marked) => conjunction(marked, &focus),
            None => focus,
        };
        let metric = if metric.needs_timer() {
            metric
        } else {
            Metric::Cpu
        };
        self.add(metric, callees(&focus), measurement);
    }

    fn key_of_menu(&mut self, code: KeyCode, measurement: &mut impl Measurement) {
        let Some(mut menu) = self.menu.take() else {
            return;
        };
        let metrics = for_focus(&menu.focus);
        match code {
            KeyCode::Esc | KeyCode::Char('q') => return,
            KeyCode::Up | KeyCode::Char('k') => menu.at = menu.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                menu.at = (menu.at + 1).min(metrics.len().saturating_sub(1));
            }
            KeyCode::Enter | KeyCode::Char('+') => {
                if let Some(row) = metrics.get(menu.at) {
                    self.add(row.metric, menu.focus, measurement);
                }
                return;
            }
            _ => {}
        }
        self.menu = Some(menu);
    }

    fn add(
        &mut self,
        metric: convoy_live::Metric,
        focus: convoy_live::Focus,
        measurement: &mut impl Measurement,
    ) {
        self.marked = None;
        let what = noun(&focus);
        let request = match Request::new(metric, focus) {
            Ok(request) => request,
            Err(e) => {
                self.message = e.to_string();
                return;
            }
        };
        self.message = match measurement.add(request.clone()) {
            Ok(_) => {
                let t_ms = measurement.session().sampled_ms();
                self.markers.push(Marker { t_ms, sign: '+' });
                self.curve = measurement.session().curves().count().saturating_sub(1);
                format!("{request}: {what} is measured from now on")
            }
            Err(why) => why,
        };
        self.notice(measurement);
    }

    fn remove(&mut self, id: CurveId, measurement: &mut impl Measurement) {
        self.message = match measurement.remove(id) {
            Ok(()) => "removed, and its probes are out".into(),
            Err(why) => why,
        };
        let t_ms = measurement.session().sampled_ms();
        self.markers.push(Marker { t_ms, sign: '-' });
        let last = measurement.session().curves().count().saturating_sub(1);
        self.curve = self.curve.min(last);
    }

    fn key_of_search(&mut self, code: KeyCode) {
        if let Some(text) = typed(&mut self.typing, code) {
            self.search(&text);
        }
    }

    fn search(&mut self, text: &str) {
        self.filter = Filter::new(text);
        self.arrange();
        // The first one that is no branch.
        let leaf = self.rows.iter().position(|row| row.is_open.is_none());
        if let (Some(leaf), false) = (leaf, text.is_empty()) {
            self.select(leaf);
        }
    }
}
