//! Rows of text that fit: the terminal and `--once` write the same lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::grid::{Grid, Row, Sort};

/// Columns that names get at most: further than that the eye loses the row.
const NAME_MAX: usize = 72;

/// What fits into a width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    name: usize,
    columns: usize,
    /// Width of the remark, 0 = none.
    remark: usize,
}

impl Layout {
    /// Leaves out columns from the right until there is room for names; remarks take what names do not need.
    pub fn new(grid: &Grid, width: usize) -> Self {
        let sum = |n: usize| grid.columns[..n].iter().map(|c| c.width).sum::<usize>();
        let mut columns = grid.columns.len();
        let remark_min = if grid.remark.is_empty() {
            0
        } else {
            grid.least.remark + 2
        };
        while columns > 1 && sum(columns) + grid.least.name + remark_min > width {
            columns -= 1;
        }
        let left = width.saturating_sub(sum(columns));
        if remark_min == 0 {
            return Self {
                name: left.min(NAME_MAX),
                columns,
                remark: 0,
            };
        }
        let longest = grid.rows.iter().map(|row| row.name.width()).max();
        let most = left.saturating_sub(remark_min).max(grid.least.name);
        let name = longest.unwrap_or(0).clamp(grid.least.name, most).min(left);
        let remark = (left - name).saturating_sub(2);
        Self {
            name,
            columns,
            remark: if remark < grid.least.remark {
                0
            } else {
                remark
            },
        }
    }

    /// The line of headings; the column that the table is sorted by is marked.
    pub fn head(&self, grid: &Grid, sort: Option<Sort>) -> String {
        let marked = |title: &str, at: Option<usize>| match sort {
            Some(sort) if sort.column == at => {
                format!("{title}{}", if sort.ascending { '^' } else { 'v' })
            }
            _ => title.to_owned(),
        };
        let mut line = left(&marked(grid.noun, None), self.name);
        for (at, column) in grid.columns.iter().take(self.columns).enumerate() {
            line += &right(&marked(column.title, Some(at)), column.width);
        }
        if self.remark > 0 {
            line += &format!("  {}", left(grid.remark, self.remark));
        }
        line
    }

    /// A row.
    pub fn row(&self, grid: &Grid, row: &Row) -> String {
        let mut line = left(&row.name, self.name);
        for (cell, column) in row.cells.iter().zip(grid.columns).take(self.columns) {
            line += &right(&cell.text(), column.width);
        }
        if self.remark > 0 {
            line += &format!("  {}", left(&row.remark, self.remark));
        }
        line
    }
}

/// Flush left in exactly `width` columns.
pub fn left(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let blanks = width.saturating_sub(text.width());
    text + &" ".repeat(blanks)
}

/// Flush right in exactly `width` columns, a blank before it.
fn right(text: &str, width: usize) -> String {
    let text = fit(text, width.saturating_sub(1));
    " ".repeat(width.saturating_sub(text.width())) + &text
}

/// At most `width` columns, the middle replaced by dots: names differ at both ends. What a terminal would take for a
/// command becomes a question mark.
pub fn fit(text: &str, width: usize) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.width() <= width {
        return text;
    }
    if width < 8 {
        return take(text.chars(), width).into_iter().collect();
    }
    let head = take(text.chars(), (width - 2).div_ceil(2));
    let mut tail = take(text.chars().rev(), (width - 2) / 2);
    tail.reverse();
    head.into_iter().chain("..".chars()).chain(tail).collect()
}

fn take(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{column, Cell, Column, Key, Least};

    const COLUMNS: &[Column] = &[
        column("now", "now_ratio", 8),
        column("waits/s", "waits_per_s", 9),
        column("longest", "longest_ns", 10),
    ];

    fn grid(remark: &'static str) -> Grid {
        Grid {
            noun: "lock",
            columns: COLUMNS,
            remark,
            least: Least::OF_TABLE,
            rows: vec![Row {
                key: Key::Line,
                name: "mutex from a_function_with_a_long_name() file.c:12".into(),
                cells: vec![Cell::Share(0.5), Cell::Rate(1e4), Cell::None],
                remark: "queue_lock".into(),
            }],
        }
    }

    fn both(grid: &Grid, width: usize) -> [String; 2] {
        let layout = Layout::new(grid, width);
        [
            layout.head(grid, Some(Sort::by(0))),
            layout.row(grid, &grid.rows[0]),
        ]
    }

    #[test]
    fn columns_leave_from_the_right_and_names_keep_both_ends() {
        let grid = grid("");
        assert_eq!(
            both(&grid, 38),
            [
                "lock                     nowv  waits/s",
                "mutex from..file.c:12    50 % 10.0 k/s"
            ]
        );
    }

    #[test]
    fn every_line_is_as_wide_as_it_may_be() {
        for width in [30, 40, 60, 80, 120, 200] {
            for remark in ["", "waits for"] {
                let grid = grid(remark);
                for line in both(&grid, width) {
                    assert!(line.width() <= width, "{width}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn what_a_terminal_takes_for_a_command_is_not_written() {
        assert_eq!(fit("a\x1b[2Jb\n", 20), "a?[2Jb?");
        assert_eq!(fit("\u{9b}x", 20), "?x");
        assert_eq!(left("猫猫猫猫猫猫", 8).width(), 8);
    }
}
