//! Tables that fit: what is least important stands rightmost and is left out where the page is narrow.

use super::page::{cell, cell_right, plain, toned, Page, Tone};

/// Blanks before every row.
pub const INDENT: usize = 2;

/// Columns that the names of rows get at least.
const NAME_MIN: usize = 16;

/// And at most: further than that the eye loses the row.
const NAME_MAX: usize = 64;

/// A heading and the width of what is under it, flush right.
pub type Column = (&'static str, usize);

/// The layout of a table on one page.
#[derive(Debug)]
pub struct Table {
    name_width: usize,
    columns: Vec<Column>,
}

impl Table {
    /// Leaves out columns from the right until there is room for names.
    pub fn new(page: &Page, columns: &[Column]) -> Self {
        Self::with_names(page, columns, NAME_MIN, NAME_MAX)
    }

    /// The same with names of exactly `name_width` columns.
    pub fn with_name_width(page: &Page, columns: &[Column], name_width: usize) -> Self {
        Self::with_names(page, columns, name_width, name_width)
    }

    fn with_names(page: &Page, columns: &[Column], least: usize, most: usize) -> Self {
        let room = page.width().saturating_sub(INDENT);
        let mut columns = columns.to_vec();
        let numbers = |columns: &[Column]| columns.iter().map(|(_, width)| width).sum::<usize>();
        while columns.len() > 1 && numbers(&columns) + least > room {
            columns.pop();
        }
        let left = room.saturating_sub(numbers(&columns));
        Self {
            name_width: left.clamp(least, most),
            columns,
        }
    }

    /// Columns of the page that are free right of a row.
    pub fn free(&self, page: &Page) -> usize {
        let numbers: usize = self.columns.iter().map(|(_, width)| width).sum();
        page.width()
            .saturating_sub(INDENT + self.name_width + numbers)
    }

    /// The line of headings.
    pub fn head(&self, page: &mut Page, name: &str) {
        let heads = self.columns.iter();
        let heads: String = heads
            .map(|(text, width)| cell_right(text, *width))
            .collect();
        let line = cell(name, self.name_width) + &heads;
        page.row(&[plain(" ".repeat(INDENT)), toned(Tone::Dim, line)]);
    }

    /// A row; values beyond the columns that fit are left out, `after` is put behind them.
    pub fn row(&self, page: &mut Page, name: &str, values: &[String], after: &str) {
        let values = values.iter().zip(&self.columns);
        let values: String = values
            .map(|(text, (_, width))| cell_right(text, *width))
            .collect();
        page.row(&[
            plain(" ".repeat(INDENT)),
            plain(cell(name, self.name_width)),
            plain(values),
            toned(Tone::Dim, after),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [("time", 10), ("share", 8), ("longest", 10)];

    fn text(width: usize) -> String {
        let mut page = Page::new(width, false, false);
        let table = Table::new(&page, &COLUMNS);
        table.head(&mut page, "what");
        let values = ["1 s", "5 %", "2 ms"].map(String::from);
        table.row(&mut page, "a name that is long", &values, "");
        page.finish()
    }

    #[test]
    fn columns_leave_from_the_right_where_the_page_is_narrow() {
        assert_eq!(
            text(40),
            "  what                      time   share\n  a name that is long        1 s     5 %\n"
        );
        assert_eq!(
            text(50).lines().next().unwrap(),
            "  what                      time   share   longest"
        );
    }

    #[test]
    fn names_do_not_drift_away_from_their_numbers_on_a_wide_page() {
        let widest = text(200).lines().map(str::len).max().unwrap();
        assert_eq!(widest, INDENT + NAME_MAX + 28);
    }
}
