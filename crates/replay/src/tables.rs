//! The tables and figures of PerfPlay's evaluation (CGO'15, section 6) for any recordings, as data.
//!
//! | here | what it holds |
//! |---|---|
//! | table 1 | unnecessary pairs by class, per program |
//! | table 2 | run time with and without them, T_pd and T_rw, per program |
//! | table 3 | the code regions that cost most, with P (equation 2) |
//! | figure 2 | share of the pairs that wait, by class |
//! | figure 13 | replayed against recorded run time and its spread, per schedule |
//! | figure 14 | T_pd and T_rw, per program |
//! | figure 15 | unnecessary pairs by number of threads |
//! | figure 16 | T_pd and T_rw by number of threads |
//! | figure 19 | T_pd and P of the costliest region by input |
//!
//! What table 1, equation 2 and the four schedules are is known; the paper's own text was not at hand for the
//! layout of the others. They hold what their numbers are about in the paper as described by its readers.

use crate::cost::{Overall, Regions};
use crate::ulcp::{Class, LockRow, PairCounts};

/// Rows of table 3 per program.
const TOP_REGIONS: usize = 5;

/// The analysis of one recording, as tables need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analyzed {
    /// The program.
    pub program: String,
    /// Its input, as told by its arguments; tells recordings of one program apart.
    pub input: String,
    /// Threads that ran.
    pub threads: u32,
    /// Read and write sets are known, without which there are no pairs, costs and regions.
    pub has_sets: bool,
    /// Pairs of all locks.
    pub counts: LockRow,
    /// What they cost; `None` = the simulated replay does not give the recorded run back.
    pub overall: Option<Overall>,
    /// By code region, with a label for each: `flush() fil.c:5609–5614`.
    pub regions: Regions,
    /// Labels of [`Regions::regions`].
    pub region_labels: Vec<String>,
    /// Run time of the recording, nanoseconds.
    pub recorded_ns: f64,
    /// Run times of the replays: schedule, nanoseconds each.
    pub replays: Vec<(String, Vec<f64>)>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<&'static str>,
    /// Rows, as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A share, 0..1; negative for a loss.
    Share(f64),
    /// So many of one thing for each of another.
    Rate(f64),
    /// Nanoseconds.
    Ns(f64),
    /// Not known.
    Unknown,
}

/// Table 1, 2 or 3; `None` = there is no other.
pub fn table(number: u32, all: &[Analyzed]) -> Option<Table> {
    match number {
        1 => Some(ulcps(all)),
        2 => Some(impact(all)),
        3 => Some(top_regions(all)),
        _ => None,
    }
}

/// Figure 2, 13, 14, 15, 16 or 19 as the table of its points; `None` = there is no other.
pub fn figure(number: u32, all: &[Analyzed]) -> Option<Table> {
    match number {
        2 => Some(waiting_pairs(all)),
        13 => Some(schedules(all)),
        14 => Some(degradation(all)),
        15 => Some(ulcps_by_threads(all)),
        16 => Some(degradation_by_threads(all)),
        19 => Some(by_input(all)),
        _ => None,
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn threads(of: &Analyzed) -> Cell {
    Cell::Count(u64::from(of.threads))
}

/// A part of what unnecessary pairs cost.
fn cost(of: &Analyzed, cell: fn(f64) -> Cell, part: fn(&Overall) -> f64) -> Cell {
    of.overall
        .as_ref()
        .map_or(Cell::Unknown, |overall| cell(part(overall)))
}

/// Performance degradation.
pub(crate) fn t_pd(of: &Analyzed) -> Cell {
    cost(of, Cell::Share, |overall| overall.t_pd)
}

/// Resource waste.
pub(crate) fn t_rw(of: &Analyzed) -> Cell {
    cost(of, Cell::Share, |overall| overall.t_rw)
}

fn make(title: &str, columns: &[&'static str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.to_vec(),
        rows: rows.into_iter().collect(),
    }
}

fn ulcps(all: &[Analyzed]) -> Table {
    let columns = [
        "program",
        "threads",
        "acquisitions",
        "null-lock",
        "read-read",
        "disjoint-write",
        "benign",
        "true contention",
        "not tested",
        "unknown",
    ];
    let row = |of: &Analyzed| {
        let pairs = &of.counts.all;
        let counts = [
            of.counts.acquisitions,
            pairs.null_lock,
            pairs.read_read,
            pairs.disjoint_write,
            pairs.benign,
            pairs.true_contention,
            pairs.undecided,
            pairs.unknown,
        ];
        let counts = counts.into_iter().map(Cell::Count);
        [text(&of.program), threads(of)]
            .into_iter()
            .chain(counts)
            .collect()
    };
    make(
        "Table 1: unnecessary lock contention pairs",
        &columns,
        all.iter().map(row),
    )
}

fn impact(all: &[Analyzed]) -> Table {
    let columns = [
        "program",
        "threads",
        "T",
        "T'",
        "saved waits",
        "T_pd",
        "T_rw",
    ];
    let row = |of: &Analyzed| {
        let ns = |part| cost(of, Cell::Ns, part);
        vec![
            text(&of.program),
            threads(of),
            ns(|overall| overall.original_ns),
            ns(|overall| overall.free_ns),
            ns(|overall| overall.saved_ns),
            t_pd(of),
            t_rw(of),
        ]
    };
    make(
        "Table 2: what unnecessary lock contention costs",
        &columns,
        all.iter().map(row),
    )
}

fn top_regions(all: &[Analyzed]) -> Table {
    let columns = [
        "program",
        "region",
        "contends with",
        "kind",
        "pairs",
        "saved waits",
        "P",
    ];
    let rows = all.iter().flat_map(|of| {
        of.regions.pairs.iter().take(TOP_REGIONS).map(|pair| {
            let label = |region: usize| {
                let label = of.region_labels.get(region);
                label.map_or(Cell::Unknown, |label| text(label))
            };
            vec![
                text(&of.program),
                label(pair.regions.0),
                label(pair.regions.1),
                text(kind(pair.cost.kind())),
                Cell::Count(pair.cost.pairs),
                Cell::Ns(pair.cost.saved_ns),
                Cell::Share(pair.p),
            ]
        })
    });
    make(
        "Table 3: code regions with the costliest unnecessary contention",
        &columns,
        rows,
    )
}

fn kind(class: Class) -> &'static str {
    match class {
        Class::Unknown => "unknown",
        Class::NullLock => "null-lock",
        Class::ReadRead => "read-read",
        Class::DisjointWrite => "disjoint-write",
        Class::Benign => "benign",
        Class::Undecided => "not tested",
        Class::TrueContention => "true contention",
    }
}

fn waiting_pairs(all: &[Analyzed]) -> Table {
    let columns = [
        "program",
        "threads",
        "pairs that wait",
        "null-lock",
        "read-read",
        "disjoint-write",
        "benign",
    ];
    let row = |of: &Analyzed| {
        let pairs = &of.counts.contended;
        let share = |n: u64| match pairs.total() {
            0 => Cell::Unknown,
            all => Cell::Share(n as f64 / all as f64),
        };
        vec![
            text(&of.program),
            threads(of),
            Cell::Count(pairs.total()),
            share(pairs.null_lock),
            share(pairs.read_read),
            share(pairs.disjoint_write),
            share(pairs.benign),
        ]
    };
    make(
        "Figure 2: unnecessary pairs among those that wait",
        &columns,
        all.iter().map(row),
    )
}

/// Precision is the median against the recording, stability the range of the replays against their median.
fn schedules(all: &[Analyzed]) -> Table {
    let columns = [
        "program",
        "schedule",
        "replays",
        "median",
        "against recording",
        "range",
    ];
    let rows = all.iter().flat_map(|of| {
        of.replays.iter().map(|(schedule, times)| {
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            let median = median(&sorted);
            let ratio = |part: f64, whole: f64| match whole > 0.0 {
                true => Cell::Share(part / whole),
                false => Cell::Unknown,
            };
            let range = sorted
                .first()
                .zip(sorted.last())
                .map_or(0.0, |(low, high)| high - low);
            vec![
                text(&of.program),
                text(schedule),
                Cell::Count(times.len() as u64),
                Cell::Ns(median),
                ratio(median - of.recorded_ns, of.recorded_ns),
                ratio(range, median),
            ]
        })
    });
    make(
        "Figure 13: precision and stability of the schedules",
        &columns,
        rows,
    )
}

/// Of values in ascending order; 0 of none.
fn median(sorted: &[f64]) -> f64 {
    let at = |ix: usize| sorted.get(ix).copied().unwrap_or(0.0);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (at(middle.saturating_sub(1)) + at(middle)) / 2.0,
        _ => at(middle),
    }
}

fn degradation(all: &[Analyzed]) -> Table {
    let row = |of: &Analyzed| vec![text(&of.program), t_pd(of), t_rw(of)];
    let title = "Figure 14: performance degradation and resource waste per thread";
    make(title, &["program", "T_pd", "T_rw"], all.iter().map(row))
}

/// Recordings in order of program, threads, input.
fn sorted(all: &[Analyzed]) -> Vec<&Analyzed> {
    let mut sorted: Vec<&Analyzed> = all.iter().collect();
    sorted.sort_by_key(|of| (&of.program, of.threads, &of.input));
    sorted
}

fn ulcps_by_threads(all: &[Analyzed]) -> Table {
    let columns = [
        "program",
        "threads",
        "unnecessary pairs",
        "per acquisition",
        "pairs that wait",
    ];
    let row = |of: &Analyzed| {
        let count = PairCounts::unnecessary(&of.counts.all);
        let per = match of.counts.acquisitions {
            0 => Cell::Unknown,
            all => Cell::Rate(count as f64 / all as f64),
        };
        let waiting = Cell::Count(of.counts.contended.unnecessary());
        vec![
            text(&of.program),
            threads(of),
            Cell::Count(count),
            per,
            waiting,
        ]
    };
    let title = "Figure 15: unnecessary pairs by number of threads";
    make(title, &columns, sorted(all).into_iter().map(row))
}

fn degradation_by_threads(all: &[Analyzed]) -> Table {
    let row = |of: &Analyzed| vec![text(&of.program), threads(of), t_pd(of), t_rw(of)];
    let title = "Figure 16: performance degradation and resource waste by number of threads";
    let columns = ["program", "threads", "T_pd", "T_rw"];
    make(title, &columns, sorted(all).into_iter().map(row))
}

fn by_input(all: &[Analyzed]) -> Table {
    let columns = ["program", "input", "T_pd", "costliest region", "P"];
    let row = |of: &Analyzed| {
        let first = of.regions.pairs.first();
        let label = first.and_then(|pair| of.region_labels.get(pair.regions.0));
        vec![
            text(&of.program),
            text(&of.input),
            t_pd(of),
            label.map_or(Cell::Unknown, |label| text(label)),
            first.map_or(Cell::Unknown, |pair| Cell::Share(pair.p)),
        ]
    };
    let title = "Figure 19: performance degradation by input";
    make(title, &columns, sorted(all).into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{RegionPair, SpanCost};

    fn analyzed(program: &str, threads: u32) -> Analyzed {
        let mut of = Analyzed {
            program: program.into(),
            threads,
            recorded_ns: 1000.0,
            region_labels: vec!["get() c.c:1".into(), "put() c.c:9".into()],
            replays: vec![("orig".into(), vec![1100.0, 1000.0, 1050.0])],
            ..Analyzed::default()
        };
        of.counts.acquisitions = 10;
        of.counts.all.read_read = 4;
        of.counts.all.true_contention = 2;
        of.counts.contended.read_read = 1;
        of.counts.contended.true_contention = 1;
        of.overall = Some(Overall {
            t_pd: 0.25,
            ..Overall::default()
        });
        let cost = SpanCost {
            pairs: 1,
            saved_ns: 90.0,
            by_class: [0.0, 90.0, 0.0, 0.0],
        };
        of.regions.pairs.push(RegionPair {
            regions: (0, 1),
            locks: vec![0],
            cost,
            p: 1.0,
        });
        of
    }

    #[test]
    fn every_table_and_figure_has_a_cell_for_each_column() {
        let all = [analyzed("b", 4), analyzed("a", 8), analyzed("a", 2)];
        let tables = [1, 2, 3].map(|n| table(n, &all).unwrap());
        let figures = [2, 13, 14, 15, 16, 19].map(|n| figure(n, &all).unwrap());
        for table in tables.iter().chain(&figures) {
            assert_eq!(table.rows.len(), 3, "{}", table.title);
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", table.title);
            }
        }
        assert_eq!((table(4, &all), figure(1, &all)), (None, None));
    }

    #[test]
    fn tables_have_the_figures_of_their_analyses() {
        let all = [analyzed("b", 4)];
        let row = |table: Option<Table>| table.unwrap().rows.remove(0);
        assert_eq!(row(table(1, &all))[4], Cell::Count(4));
        assert_eq!(row(table(3, &all))[3], Cell::Text("read-read".into()));
        assert_eq!(row(figure(2, &all))[4], Cell::Share(0.5));
        // Median 1050 of 1000 recorded; range 100.
        let schedules = row(figure(13, &all));
        assert_eq!(schedules[4], Cell::Share(0.05));
        assert_eq!(schedules[5], Cell::Share(100.0 / 1050.0));
        assert_eq!(row(figure(15, &all))[3], Cell::Rate(0.4));
    }

    #[test]
    fn figures_by_threads_are_in_order() {
        let all = [analyzed("b", 4), analyzed("a", 8), analyzed("a", 2)];
        let rows = figure(16, &all).unwrap().rows;
        let threads: Vec<&Cell> = rows.iter().map(|row| &row[1]).collect();
        assert_eq!(threads, [&Cell::Count(2), &Cell::Count(8), &Cell::Count(4)]);
    }
}
