//! What is on the screen: everything that keys and readings change.

use std::time::Duration;

use convoy_profile::Exit;

use crate::filter::Filter;
use crate::grid::{Grid, Key, Sort};
use crate::page::{self, Page};
use crate::plain::lines;
use crate::reading::Reading;
use crate::span::Span;
use crate::tables::Table;

/// Lines of the screen that are no rows: two of head, tabs, headings, two of foot.
const FURNITURE: usize = 6;

/// What is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Screen {
    /// A table.
    Table,
    /// All about one row of it, from this line on.
    Page(Key, usize),
    /// The keys.
    Help,
}

/// Everything that is on the screen.
#[derive(Debug)]
pub struct App {
    /// What is looked at: `process 4242`, a file's name.
    pub subject: String,
    /// The interval that was asked for.
    pub interval: Duration,
    pub(crate) now: Option<Reading>,
    pub(crate) before: Option<Reading>,
    /// The interval that readings allow.
    pub(crate) pause: Duration,
    pub(crate) table: Table,
    pub(crate) sorts: [Option<Sort>; Table::ALL.len()],
    /// What the cursor is on; `None` = the first row, whatever that is.
    pub(crate) selected: [Option<Key>; Table::ALL.len()],
    pub(crate) filter: Filter,
    /// A filter that is being typed.
    pub(crate) typing: Option<String>,
    pub(crate) screen: Screen,
    pub(crate) paused: bool,
    /// Columns of the screen.
    pub(crate) width: usize,
    /// Rows that it has room for.
    pub(crate) room: usize,
    /// First row that is shown.
    pub(crate) top: usize,
    /// The table, and its rows in order.
    pub(crate) grid: Grid,
    pub(crate) order: Vec<usize>,
    /// The page, if one is open.
    pub(crate) page: Option<Page>,
}

impl App {
    /// Before the first reading.
    pub fn new(subject: String, interval: Duration) -> Self {
        Self {
            subject,
            interval,
            now: None,
            before: None,
            pause: interval,
            table: Table::Locks,
            sorts: Default::default(),
            selected: Default::default(),
            filter: Filter::default(),
            typing: None,
            screen: Screen::Table,
            paused: false,
            width: 80,
            room: 24 - FURNITURE,
            top: 0,
            grid: Grid::default(),
            order: Vec::new(),
            page: None,
        }
    }

    /// Shows only rows with this text, or that match this expression; empty = all.
    pub fn show_only(&mut self, filter: &str) {
        self.filter = Filter::new(filter);
        self.arrange();
    }

    /// Takes a new reading; the one before stays to compare with.
    pub fn read(&mut self, reading: Reading) {
        self.pause = crate::reading::pause(self.interval, reading.cpu);
        self.before = self.now.replace(reading);
        self.refresh();
    }

    /// Adds what it took to show the latest reading to what it took to make it.
    pub fn spent(&mut self, cpu: Duration) {
        if let Some(reading) = &mut self.now {
            reading.cpu = reading.cpu.saturating_add(cpu);
            self.pause = crate::reading::pause(self.interval, reading.cpu);
        }
    }

    /// The terminal's size, columns and lines.
    pub fn resize(&mut self, width: usize, height: usize) {
        self.width = width;
        self.room = height.saturating_sub(FURNITURE).max(1);
        self.keep_in_sight();
        self.keep_page_in_sight();
    }

    /// Whether there is more to read.
    pub fn is_running(&self) -> bool {
        self.now.as_ref().is_none_or(|reading| reading.running)
    }

    /// Whether readings are wanted.
    pub fn wants_readings(&self) -> bool {
        !self.paused && self.is_running()
    }

    /// From one reading to the next.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// The readings to show.
    pub(crate) fn span(&self) -> Option<Span<'_>> {
        Some(Span {
            now: &self.now.as_ref()?.model,
            before: self.before.as_ref().map(|reading| &reading.model),
        })
    }

    /// Whether "now" is known.
    pub(crate) fn is_live(&self) -> bool {
        self.before.is_some()
    }

    /// A program was watched, and it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let exit = self.now.as_ref().map(|reading| reading.model.meta.exit);
        self.before.is_some() && !self.is_running() || exit == Some(Exit::Unknown)
    }

    pub(crate) fn tab(&self) -> usize {
        let at = Table::ALL.iter().position(|table| *table == self.table);
        at.unwrap_or(0)
    }

    pub(crate) fn sort(&self) -> Sort {
        let chosen = self.sorts.get(self.tab()).copied().flatten();
        chosen.unwrap_or_else(|| self.table.sort(self.is_live()))
    }

    /// Makes everything anew that follows from the readings.
    pub(crate) fn refresh(&mut self) {
        if let Some(span) = self.span() {
            let grid = self.table.grid(span);
            let page = match &self.screen {
                Screen::Page(key, _) => open(span, key),
                _ => None,
            };
            self.grid = grid;
            // What was there a moment ago stays on the screen.
            if page.is_some() {
                self.page = page;
            }
        }
        self.arrange();
        self.keep_page_in_sight();
    }

    /// Sorts and filters anew.
    pub(crate) fn arrange(&mut self) {
        self.order = self.grid.order(self.sort(), &self.filter);
        self.keep_in_sight();
    }

    /// Opens what the cursor is on.
    pub(crate) fn open(&mut self) {
        let key = self.key_at(self.cursor());
        let page = key.as_ref().and_then(|key| open(self.span()?, key));
        if let (Some(key), Some(page)) = (key, page) {
            self.page = Some(page);
            self.screen = Screen::Page(key, 0);
        }
    }

    /// The row that the cursor is on. What is gone is no longer selected.
    pub(crate) fn cursor(&self) -> usize {
        let Some(Some(key)) = self.selected.get(self.tab()) else {
            return 0;
        };
        let rows = self.order.iter();
        let mut keys = rows.map(|ix| self.grid.rows.get(*ix).map(|row| &row.key));
        keys.position(|row| row == Some(key)).unwrap_or(0)
    }

    /// Moves the cursor; the first row is selected as such, so that it is always the largest.
    pub(crate) fn select(&mut self, row: usize) {
        let row = row.min(self.order.len().saturating_sub(1));
        let key = (row > 0).then(|| self.key_at(row)).flatten();
        let tab = self.tab();
        if let Some(selected) = self.selected.get_mut(tab) {
            *selected = key;
        }
        self.keep_in_sight();
    }

    fn key_at(&self, row: usize) -> Option<Key> {
        let ix = *self.order.get(row)?;
        self.grid.rows.get(ix).map(|row| row.key.clone())
    }

    /// Does not scroll beyond the end of the page.
    pub(crate) fn keep_page_in_sight(&mut self) {
        let lines = self
            .page
            .as_ref()
            .map_or(0, |page| lines(page, self.width).len());
        // A page has the line of headings for itself.
        let last = lines.saturating_sub(self.room + 1);
        if let Screen::Page(_, top) = &mut self.screen {
            *top = (*top).min(last);
        }
    }

    fn keep_in_sight(&mut self) {
        let cursor = self.cursor();
        let last_top = self.order.len().saturating_sub(self.room);
        let lowest = cursor.saturating_sub(self.room.saturating_sub(1));
        self.top = self
            .top
            .clamp(lowest, cursor.max(lowest))
            .min(last_top.max(lowest));
    }
}

fn open(span: Span<'_>, key: &Key) -> Option<Page> {
    match key {
        Key::Object(..) => page::object(span, key),
        Key::Thread(..) | Key::Group(..) => page::threads(span, key),
        Key::Line => None,
    }
}
