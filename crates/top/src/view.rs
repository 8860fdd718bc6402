//! From the state to the screen.

use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Text};
use ratatui::Frame;

use crate::app::{App, Screen};
use crate::grid::Cell;
use crate::keys::HELP;
use crate::layout::{fit, left, Layout};
use crate::plain::{lines, sorted_by, Tone};
use crate::tables::Table;

/// From these shares on, a row stands out.
const MUCH: f64 = 0.10;
const VERY_MUCH: f64 = 0.30;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Use colours; without, weight and inversion say the same.
    pub color: bool,
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App, look: Look) {
    let area = frame.area();
    let mut pen = Pen { frame, area, look };
    let width = usize::from(area.width);
    pen.line(0, Line::styled(fit(&app.headline(), width), bold()));
    pen.line(
        1,
        Line::styled(fit(&app.state(), width), pen.look.state(app)),
    );
    match &app.screen {
        Screen::Help => pen.help(),
        Screen::Page(_, top) => pen.page(app, *top),
        Screen::Table => pen.table(app),
    }
    pen.foot(app);
}

struct Pen<'f, 'b> {
    frame: &'f mut Frame<'b>,
    area: Rect,
    look: Look,
}

impl Pen<'_, '_> {
    /// Writes a line; below the screen there is nothing.
    fn line(&mut self, y: usize, line: Line<'_>) {
        let Ok(y) = u16::try_from(y) else { return };
        if y < self.area.height {
            let at = Rect::new(0, y, self.area.width, 1);
            self.frame.render_widget(line, at);
        }
    }

    fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    fn table(&mut self, app: &App) {
        let mut tabs = Vec::new();
        for (n, table) in (1..).zip(Table::ALL) {
            let style = if table == app.table {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            tabs.push(Text::styled(format!(" {n} {} ", table.title()), style));
            tabs.push(Text::raw(" "));
        }
        self.line(2, Line::from(tabs));
        let layout = Layout::new(&app.grid, self.width());
        let head = layout.head(&app.grid, Some(app.sort()));
        self.line(
            3,
            Line::styled(head, Style::new().add_modifier(Modifier::UNDERLINED)),
        );
        if app.order.is_empty() {
            self.line(4, Line::raw(nothing(app)));
        }
        let cursor = app.cursor();
        let rows = app.order.iter().enumerate().skip(app.top).take(app.room);
        for (y, (at, ix)) in (4..).zip(rows) {
            if let Some(row) = app.grid.rows.get(*ix) {
                let mut style = self.look.row(row.cells.first());
                if at == cursor {
                    style = style.add_modifier(Modifier::REVERSED);
                }
                let text = left(&layout.row(&app.grid, row), self.width());
                self.line(y, Line::styled(text, style));
            }
        }
    }

    fn page(&mut self, app: &App, top: usize) {
        let Some(page) = &app.page else { return };
        let lines = lines(page, self.width());
        for (y, (tone, text)) in (3..).zip(lines.iter().skip(top).take(app.room + 1)) {
            let style = match tone {
                Tone::Title => bold(),
                Tone::Head => Style::new().add_modifier(Modifier::UNDERLINED),
                Tone::Plain => Style::new(),
            };
            self.line(y, Line::styled(text.as_str(), style));
        }
    }

    fn help(&mut self) {
        for (y, (keys, text)) in (3..).zip(HELP) {
            let width = self.width();
            let line = vec![
                Text::styled(left(keys, 18), bold()),
                Text::raw(fit(text, width.saturating_sub(18))),
            ];
            self.line(y, Line::from(line));
        }
        const WORDS: [&str; 4] = [
            "now: share of the threads' time between the last two readings",
            "all: the same since their start",
            "no CPU: ready to run, but all processors were taken",
            "mean, hold: of the waits and of the timed holds between the readings",
        ];
        for (y, text) in (4 + HELP.len()..).zip(WORDS) {
            let text = fit(text, self.width());
            self.line(y, Line::raw(text));
        }
    }

    fn foot(&mut self, app: &App) {
        let height = usize::from(self.area.height);
        let text = match (&app.typing, &app.screen) {
            (Some(text), _) => format!("show only: {text}_   Enter: done  Esc: all"),
            (None, Screen::Help) => "any key: back  q: leave".into(),
            (None, Screen::Page(..)) => "Up Down: scroll  Esc: back  p: pause  q: leave".into(),
            (None, Screen::Table) => {
                "Tab: table  Enter: open  <>: sort  /: filter  p: pause  ?: help  q: leave".into()
            }
        };
        let mut place = format!(
            "{} of {} by {}",
            app.order.len(),
            app.grid.rows.len(),
            sorted_by(&app.grid, app.sort())
        );
        if !app.filter.text().is_empty() {
            place += &format!(", only \"{}\"", app.filter.text());
        }
        let width = self.width();
        if app.screen == Screen::Table {
            let dim = Style::new().add_modifier(Modifier::DIM);
            self.line(
                height.saturating_sub(2),
                Line::styled(fit(&place, width), dim),
            );
        }
        self.line(height.saturating_sub(1), Line::raw(left(&text, width)));
    }
}

/// Why a table is empty.
fn nothing(app: &App) -> String {
    if app.now.is_none() {
        return String::new();
    }
    if !app.grid.rows.is_empty() {
        return format!("nothing has \"{}\"; Esc shows all", app.filter.text());
    }
    match app.table {
        Table::Locks => "no lock was taken so far",
        Table::Events => "nothing else was waited for so far",
        Table::Threads | Table::Groups => "no thread was seen",
    }
    .into()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

impl Look {
    fn row(self, first: Option<&Cell>) -> Style {
        let share = match first {
            Some(Cell::Share(share)) => *share,
            _ => 0.0,
        };
        let (color, much) = if share >= VERY_MUCH {
            (Color::Red, true)
        } else {
            (Color::Yellow, share >= MUCH)
        };
        match (self.color, much) {
            (_, false) => Style::new(),
            (true, true) => Style::new().fg(color),
            (false, true) => bold(),
        }
    }

    fn state(self, app: &App) -> Style {
        let stands_out = app.paused || app.has_ended();
        match (self.color, stands_out) {
            (true, true) => Style::new().fg(Color::Yellow),
            (false, true) => bold(),
            (_, false) => Style::new(),
        }
    }
}
