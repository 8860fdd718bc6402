//! A table as data: rows that can be sorted, filtered and written down, whatever they are about.

use std::cmp::Ordering;

use convoy_report::human;

use crate::filter::Filter;

/// What a row is about: found again in the next reading, whatever its position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// An object: pid and address.
    Object(u32, u64),
    /// A thread: pid, tid and start.
    Thread(u32, u32, u64),
    /// A group of threads: pid and name.
    Group(u32, String),
    /// A line of a page: nothing that is looked for.
    Line,
}

/// A value in a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// A share of a whole, 0..1.
    Share(f64),
    /// A length of time, nanoseconds.
    Time(f64),
    /// How often, per second.
    Rate(f64),
    /// How many.
    Count(u64),
    /// Not known, or nothing to divide by.
    None,
}

impl Cell {
    /// A mean, if there is anything.
    pub fn mean(sum_ns: u64, n: u64) -> Self {
        match n {
            0 => Self::None,
            n => Self::Time(sum_ns as f64 / n as f64),
        }
    }

    /// As a person reads it.
    pub fn text(self) -> String {
        match self {
            Self::Share(ratio) => human::percent(ratio),
            Self::Time(ns) => human::duration(ns),
            Self::Rate(hz) => human::rate(hz),
            Self::Count(n) => human::count(n),
            Self::None => "-".into(),
        }
    }

    /// As a program reads it; `None` = not known.
    pub fn value(self) -> Option<f64> {
        let value = match self {
            Self::Share(x) | Self::Time(x) | Self::Rate(x) => x,
            Self::Count(n) => n as f64,
            Self::None => return None,
        };
        value.is_finite().then_some(value)
    }
}

/// A column of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Above it.
    pub title: &'static str,
    /// Its name in JSON, with the unit.
    pub id: &'static str,
    /// Columns of the terminal, a blank before it included.
    pub width: usize,
}

/// A column.
pub(crate) const fn column(title: &'static str, id: &'static str, width: usize) -> Column {
    Column { title, id, width }
}

/// A row: a name, a value for each column, and a remark behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it is about.
    pub key: Key,
    /// What that is called.
    pub name: String,
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Behind the numbers, may be empty.
    pub remark: String,
}

/// Room that texts get before numbers do, columns of the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Least {
    /// For names.
    pub name: usize,
    /// For remarks; with less they are left out.
    pub remark: usize,
}

impl Least {
    /// Where the numbers matter most.
    pub const OF_TABLE: Self = Self {
        name: 20,
        remark: 12,
    };
    /// Where the places in the code do.
    pub const OF_PLACES: Self = Self {
        name: 36,
        remark: 26,
    };
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    /// Above the names.
    pub noun: &'static str,
    /// The numbers. What is rightmost is left out first where there is no room.
    pub columns: &'static [Column],
    /// Above the remarks; empty = there are none.
    pub remark: &'static str,
    /// Room for names and remarks.
    pub least: Least,
    /// In no order.
    pub rows: Vec<Row>,
}

/// By what a table is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// Index of the column; `None` = by name.
    pub column: Option<usize>,
    /// Smallest first.
    pub ascending: bool,
}

impl Sort {
    /// Largest first.
    pub const fn by(column: usize) -> Self {
        Self {
            column: Some(column),
            ascending: false,
        }
    }

    /// The next column to the right or left; the names are left of all of them.
    pub fn step(self, columns: usize, right: bool) -> Self {
        let places = columns + 1;
        let at = self.column.map_or(0, |column| column + 1);
        let next = (at + if right { 1 } else { places - 1 }) % places;
        Self {
            column: next.checked_sub(1),
            // Names read from A; of numbers the largest matter.
            ascending: next == 0,
        }
    }
}

impl Grid {
    /// The rows to show, in order: indices into `rows`.
    pub fn order(&self, sort: Sort, filter: &Filter) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len())
            .filter(|ix| {
                let row = &self.rows[*ix];
                filter.hits(&row.name) || filter.hits(&row.remark)
            })
            .collect();
        match sort.column {
            Some(column) => self.sort_by_value(&mut order, column, sort.ascending),
            None => order.sort_by(|a, b| self.name(*a).cmp(self.name(*b))),
        }
        if sort.column.is_none() && !sort.ascending {
            order.reverse();
        }
        order
    }

    /// What is not known stands last, whichever way. Of equals, the one that is larger in the columns from the left,
    /// and then by name.
    fn sort_by_value(&self, order: &mut [usize], column: usize, ascending: bool) {
        // In one piece: a program may have a hundred thousand locks, of which nearly all are equal in most columns.
        let width = self.columns.len();
        let mut values = vec![UNKNOWN; self.rows.len() * width];
        for (row, values) in self.rows.iter().zip(values.chunks_exact_mut(width.max(1))) {
            for (cell, value) in row.cells.iter().zip(values) {
                *value = cell.value().unwrap_or(UNKNOWN);
            }
        }
        let of = |ix: usize| values.get(ix * width..(ix + 1) * width).unwrap_or_default();
        order.sort_by(|&a, &b| {
            let (values_a, values_b) = (of(a), of(b));
            let value = |values: &[f64]| values.get(column).copied().unwrap_or(UNKNOWN);
            let (first, second) = (value(values_a), value(values_b));
            let by_value = if ascending && first != UNKNOWN && second != UNKNOWN {
                first.total_cmp(&second)
            } else {
                second.total_cmp(&first)
            };
            by_value
                .then_with(|| larger_first(values_a, values_b))
                .then_with(|| self.name(a).cmp(self.name(b)))
        });
    }

    fn name(&self, ix: usize) -> &str {
        self.rows.get(ix).map_or("", |row| row.name.as_str())
    }
}

/// In place of a value that is not known: less than any that is.
const UNKNOWN: f64 = f64::NEG_INFINITY;

fn larger_first(a: &[f64], b: &[f64]) -> Ordering {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| b.total_cmp(a))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[column("now", "now_ratio", 8), column("all", "all_ratio", 8)];

    fn grid() -> Grid {
        let row = |name: &str, now: Cell, all: f64| Row {
            key: Key::Line,
            name: name.into(),
            cells: vec![now, Cell::Share(all)],
            remark: String::new(),
        };
        Grid {
            noun: "lock",
            columns: COLUMNS,
            remark: "",
            least: Least::OF_TABLE,
            rows: vec![
                row("b", Cell::Share(0.1), 0.3),
                row("a", Cell::Share(0.5), 0.1),
                row("c", Cell::None, 0.9),
                row("d", Cell::Share(0.1), 0.4),
            ],
        }
    }

    fn names(sort: Sort, filter: &str) -> String {
        let grid = grid();
        let order = grid.order(sort, &Filter::new(filter));
        order
            .iter()
            .map(|ix| grid.rows[*ix].name.as_str())
            .collect()
    }

    #[test]
    fn the_unknown_stands_last_and_equals_are_told_apart_by_the_next_column() {
        assert_eq!(names(Sort::by(0), ""), "adbc");
        let ascending = Sort {
            ascending: true,
            ..Sort::by(0)
        };
        assert_eq!(names(ascending, ""), "dbac");
        assert_eq!(names(Sort::by(1), ""), "cdba");
        assert_eq!(names(Sort::by(0), "[ad]"), "ad");
    }

    #[test]
    fn sorting_steps_through_all_columns_and_the_names() {
        let mut sort = Sort::by(0);
        let mut seen = Vec::new();
        for _ in 0..4 {
            sort = sort.step(2, true);
            seen.push(sort.column);
        }
        assert_eq!(seen, [Some(1), None, Some(0), Some(1)]);
        assert_eq!(Sort::by(0).step(2, false).column, None);
        assert!(Sort::by(0).step(2, false).ascending);
        assert_eq!(names(Sort::by(0).step(2, false), ""), "abcd");
    }
}
