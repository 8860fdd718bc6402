//! How long so many threads were active.

use convoy_analysis::scheduler::{Level, Parallelism};

use super::{nothing, remark, share};
use crate::human::{count_of, duration, few, percent};
use crate::text::page::{plain, Page};
use crate::text::table::{Column, Table};

/// Levels up to here have a row of their own where there are more; the others are put together by powers
/// of two, as the recording itself does from 32 on.
const EXACT: usize = 7;

/// Rows that are listed one by one.
const ROWS: usize = 17;

/// Columns of the bars.
const BAR: usize = 24;

/// Threads waited in loops for so much of the run that it matters to how it reads.
fn spins(p: &Parallelism) -> bool {
    p.active_mean - p.working_mean > 0.005 * p.active_mean.max(1.0)
}

/// The line at the head of the report.
pub fn head(page: &mut Page, p: &Parallelism, label: usize) {
    if p.wall_ns == 0 {
        return;
    }
    let spins = spins(p);
    let mean = if spins { p.working_mean } else { p.active_mean };
    let threads = p.workers_at_once.max(1) as u64;
    // Where a thread is made for every task, none of them is there for long enough to count.
    let of = match mean <= threads as f64 {
        true => format!("of {}", count_of(threads, "thread", "threads")),
        false => "threads".into(),
    };
    let mut text = format!(
        "{}  {} {of} {} on average",
        page.bar(share(mean, p.useful), 20),
        few(mean),
        if spins { "working" } else { "active" }
    );
    if spins {
        text += &format!(" ({} with those that wait in loops)", few(p.active_mean));
    }
    let time = |level: &Level| {
        if spins {
            level.working_ns
        } else {
            level.active_ns
        }
    };
    let wall = p.wall_ns as f64;
    let of = |threads: usize| -> u64 {
        let levels = p.levels.iter().filter(|l| l.threads == threads);
        levels.map(time).sum()
    };
    let more: u64 = p.levels.iter().filter(|l| l.threads > 2).map(time).sum();
    let parts = [
        ("none", of(0)),
        ("one", of(1)),
        ("two", of(2)),
        ("three or more", more),
    ];
    let mut texts: Vec<String> = Vec::new();
    for (what, ns) in parts {
        let share = ns as f64 / wall;
        if share >= 0.005 {
            let of = if texts.is_empty() { " of the run" } else { "" };
            texts.push(format!("{what} {}{of}", percent(share)));
        }
    }
    if !texts.is_empty() {
        text += &format!(": {}", texts.join(", "));
    }
    page.hang(0, plain("parallel"), label, vec![plain(text)]);
}

/// A row of the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Row {
    from: usize,
    to: usize,
    active_ns: u64,
    working_ns: u64,
    running_ns: u64,
}

/// The section.
pub fn write(page: &mut Page, p: &Parallelism) {
    let spins = spins(p);
    page.title(if spins {
        "Parallelism: time by number of working threads (active, and not waiting in a loop)"
    } else {
        "Parallelism: how long so many threads were active (running, or ready to run)"
    });
    if p.wall_ns == 0 || p.levels.is_empty() {
        nothing(page, "no scheduler event was seen");
        return;
    }
    // What the bars and shares are about comes first: the other columns may have to go.
    let columns: &[Column] = if spins {
        &[
            ("working", 10),
            ("of run", 9),
            ("or more", 9),
            ("active", 11),
            ("of run", 9),
            ("on CPU", 11),
            ("of run", 9),
        ]
    } else {
        &[
            ("active", 10),
            ("of run", 9),
            ("or more", 9),
            ("on CPU", 11),
            ("of run", 9),
        ]
    };
    let table = Table::with_name_width(page, columns, 10);
    table.head(page, "threads");
    let wall = p.wall_ns as f64;
    let rows = rows(&p.levels);
    let counted = |row: &Row| if spins { row.working_ns } else { row.active_ns };
    let mut left: u64 = rows.iter().map(counted).sum();
    let free = table.free(page).saturating_sub(8).min(BAR);
    for row in &rows {
        let pair = |ns: u64| [duration(ns as f64), percent(ns as f64 / wall)];
        let ns = counted(row);
        let mut values = pair(ns).to_vec();
        values.push(percent(left as f64 / wall));
        if spins {
            values.extend(pair(row.active_ns));
        }
        values.extend(pair(row.running_ns));
        left = left.saturating_sub(ns);
        let mut after = format!("  {}", page.tally(ns as f64 / wall, free));
        let name = if row.from == row.to {
            row.from.to_string()
        } else {
            format!("{}-{}", row.from, row.to)
        };
        if row.from > 0 && (row.to as f64) < p.low_below && after.len() > 2 {
            after += " low";
        }
        if free < 4 {
            after.clear();
        }
        table.row(page, &name, &values, &after);
    }
    means(page, p, spins);
}

fn means(page: &mut Page, p: &Parallelism, spins: bool) {
    let wall = p.wall_ns as f64;
    let mut means = vec![format!("{} active", few(p.active_mean))];
    if spins {
        means.push(format!("{} working", few(p.working_mean)));
    }
    means.push(format!("{} on a CPU", few(p.running_mean)));
    remark(
        page,
        format!("mean number of threads: {}", means.join(", ")),
    );
    let cpus = match p.cpus {
        0 => "an unknown number of CPUs".into(),
        n => count_of(n.into(), "CPU", "CPUs"),
    };
    remark(
        page,
        format!(
            "{} did real work, at most {} at a time, on {cpus}: {} could have worked at once",
            count_of(p.workers as u64, "thread", "threads"),
            p.workers_at_once,
            few(p.useful)
        ),
    );
    remark(
        page,
        format!(
            "low: at least one working thread, but fewer than {} (N_min {}): {}, {} of the run",
            few(p.low_below),
            few(p.n_min),
            duration(p.low_ns as f64),
            percent(p.low_ns as f64 / wall)
        ),
    );
    if p.only_spinning_ns > 0 {
        let text = format!(
            "all active threads waited in loops for {}, {} of the run",
            duration(p.only_spinning_ns as f64),
            percent(p.only_spinning_ns as f64 / wall)
        );
        remark(page, text);
    }
}

/// Levels in which time was spent, one by one or, where they are many, by powers of two.
fn rows(levels: &[Level]) -> Vec<Row> {
    let one_by_one = levels.len() <= ROWS;
    let mut rows: Vec<Row> = Vec::new();
    for level in levels {
        let octave = !one_by_one && level.threads > EXACT;
        let (from, to) = if octave {
            let from = 1usize << level.threads.ilog2();
            (from, from.saturating_mul(2).saturating_sub(1))
        } else {
            (level.threads, level.threads)
        };
        match rows.last_mut().filter(|row| row.from == from) {
            Some(row) => {
                row.active_ns = row.active_ns.saturating_add(level.active_ns);
                row.working_ns = row.working_ns.saturating_add(level.working_ns);
                row.running_ns = row.running_ns.saturating_add(level.running_ns);
            }
            None => rows.push(Row {
                from,
                to,
                active_ns: level.active_ns,
                working_ns: level.working_ns,
                running_ns: level.running_ns,
            }),
        }
    }
    rows.retain(|r| r.active_ns > 0 || r.working_ns > 0 || r.running_ns > 0);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_levels_are_put_together_by_powers_of_two() {
        let level = |threads| Level {
            threads,
            active_ns: 10,
            ..Level::default()
        };
        let few: Vec<_> = (0..4).map(level).collect();
        assert_eq!(rows(&few).len(), 4);
        let many: Vec<_> = (0..=32).chain([36, 40, 64]).map(level).collect();
        let got: Vec<_> = rows(&many)
            .iter()
            .map(|r| (r.from, r.to, r.active_ns))
            .collect();
        let exact = (0..8).map(|n| (n, n, 10));
        let want: Vec<_> = exact
            .chain([(8, 15, 80), (16, 31, 160), (32, 63, 30), (64, 127, 10)])
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn levels_without_time_have_no_row() {
        let levels = [0, 5, 0, 7].iter().enumerate().map(|(threads, ns)| Level {
            threads,
            running_ns: *ns,
            ..Level::default()
        });
        let got: Vec<_> = rows(&levels.collect::<Vec<_>>())
            .iter()
            .map(|r| r.from)
            .collect();
        assert_eq!(got, [1, 3]);
    }
}
