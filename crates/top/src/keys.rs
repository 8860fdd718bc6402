//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::app::{App, Screen};
use crate::grid::Sort;
use crate::tables::Table;

/// What the loop has to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Draw.
    Nothing,
    /// Leave.
    Quit,
    /// Stop, as a shell's job.
    Suspend,
}

/// The keys, for the help: what to press, what it does.
pub const HELP: &[(&str, &str)] = &[
    ("1 2 3 4, Tab", "locks, other waits, threads, thread groups"),
    (
        "Up Down PgUp PgDn",
        "move, also j and k; Home and End (g, G): first and last",
    ),
    (
        "Enter",
        "all about the lock or thread under the cursor; Esc: back",
    ),
    (
        "< >",
        "sort by the column to the left or right; r: the other way round",
    ),
    (
        "/",
        "show only what has this text, or matches this expression; Esc: all",
    ),
    (
        "p, Space",
        "pause: the program goes on, the screen does not",
    ),
    ("q, Ctrl-C", "leave; the program goes on"),
];

/// What a key does to a text that is in effect while it is typed: the new text, if it is another
/// one. `None` in `typing` = nothing is typed any more.
pub(crate) fn typed(typing: &mut Option<String>, code: KeyCode) -> Option<String> {
    let mut text = typing.take()?;
    match code {
        KeyCode::Enter => return None,
        KeyCode::Esc => return Some(String::new()),
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char(c) => text.push(c),
        _ => {
            *typing = Some(text);
            return None;
        }
    }
    *typing = Some(text.clone());
    Some(text)
}

impl App {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Effect {
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
            self.type_filter(key.code);
            return Effect::Nothing;
        }
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.screen = match self.screen {
                    Screen::Help => Screen::Table,
                    _ => Screen::Help,
                }
            }
            _ => match self.screen {
                Screen::Help => self.screen = Screen::Table,
                Screen::Page(..) => self.key_of_page(key.code),
                Screen::Table => self.key_of_table(key.code),
            },
        }
        Effect::Nothing
    }

    fn type_filter(&mut self, code: KeyCode) {
        if let Some(text) = typed(&mut self.typing, code) {
            self.show_only(&text);
        }
    }

    fn key_of_table(&mut self, code: KeyCode) {
        let cursor = self.cursor();
        let page = self.room.saturating_sub(1).max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.select(cursor.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(cursor + 1),
            KeyCode::PageUp => self.select(cursor.saturating_sub(page)),
            KeyCode::PageDown => self.select(cursor + page),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Tab | KeyCode::Right => self.show(self.table.step(true)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.table.step(false)),
            KeyCode::Char(c @ '1'..='4') => {
                let at = (c as usize).saturating_sub('1' as usize);
                if let Some(table) = Table::ALL.get(at) {
                    self.show(*table);
                }
            }
            KeyCode::Char('>' | '.') => self.sort_by(self.sort().step(self.columns(), true)),
            KeyCode::Char('<' | ',') => self.sort_by(self.sort().step(self.columns(), false)),
            KeyCode::Char('r') => self.sort_by(Sort {
                ascending: !self.sort().ascending,
                ..self.sort()
            }),
            KeyCode::Char('/') => self.typing = Some(self.filter.text().to_owned()),
            KeyCode::Esc => self.show_only(""),
            KeyCode::Enter => self.open(),
            _ => {}
        }
    }

    fn key_of_page(&mut self, code: KeyCode) {
        let page = self.room.saturating_sub(1).max(1);
        let Screen::Page(_, top) = &mut self.screen else {
            return;
        };
        match code {
            KeyCode::Up | KeyCode::Char('k') => *top = top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *top = top.saturating_add(1),
            KeyCode::PageUp => *top = top.saturating_sub(page),
            KeyCode::PageDown => *top = top.saturating_add(page),
            KeyCode::Home | KeyCode::Char('g') => *top = 0,
            KeyCode::End | KeyCode::Char('G') => *top = usize::MAX,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left => {
                self.screen = Screen::Table;
                self.page = None;
            }
            _ => {}
        }
        self.keep_page_in_sight();
    }

    fn columns(&self) -> usize {
        self.grid.columns.len()
    }

    fn show(&mut self, table: Table) {
        self.table = table;
        self.top = 0;
        self.refresh();
    }

    fn sort_by(&mut self, sort: Sort) {
        let tab = self.tab();
        if let Some(chosen) = self.sorts.get_mut(tab) {
            *chosen = Some(sort);
        }
        self.arrange();
    }
}
