//! What stays over several recordings of one program, by other inputs or numbers of threads.

use std::collections::BTreeMap;

use crate::tables::{t_pd, t_rw, Analyzed, Cell, Table};

/// Unnecessary contention of each recording, in order of threads and input: what grows shows.
pub fn costs(all: &[Analyzed]) -> Table {
    let mut sorted: Vec<&Analyzed> = all.iter().collect();
    sorted.sort_by_key(|of| (&of.program, of.threads, &of.input));
    let row = |of: &&Analyzed| {
        let pairs = &of.counts.all;
        let unnecessary = pairs.null_lock + pairs.read_read + pairs.disjoint_write + pairs.benign;
        let known = pairs.total() > pairs.unknown;
        let share = |value: f64| {
            if known {
                Cell::Share(value)
            } else {
                Cell::Unknown
            }
        };
        vec![
            Cell::Text(of.program.clone()),
            Cell::Text(of.input.clone()),
            Cell::Count(u64::from(of.threads)),
            Cell::Ns(of.recorded_ns),
            share(unnecessary as f64 / pairs.total().max(1) as f64),
            if known { t_pd(of) } else { Cell::Unknown },
            if known { t_rw(of) } else { Cell::Unknown },
        ]
    };
    Table {
        title: "Recordings: unnecessary contention by threads and input".into(),
        columns: vec![
            "program",
            "arguments",
            "threads",
            "replayed",
            "unnecessary",
            "T_pd",
            "T_rw",
        ],
        rows: sorted.iter().map(row).collect(),
    }
}

/// Code regions with unnecessary contention: in how many of the recordings, and with which share of
/// its cost (eq. 2). Those of most recordings first.
pub fn regions(all: &[Analyzed]) -> Table {
    let mut by_label: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for of in all {
        let mut here: BTreeMap<&str, f64> = BTreeMap::new();
        for pair in of.regions.pairs.iter().filter(|pair| pair.p > 0.0) {
            // A region that contends with another and with itself has a pair for each.
            if let Some(label) = of.region_labels.get(pair.regions.0) {
                *here.entry(label).or_default() += pair.p;
            }
        }
        for (label, p) in here {
            by_label.entry(label).or_default().push(p);
        }
    }
    let mut regions: Vec<(&str, Vec<f64>)> = by_label.into_iter().collect();
    let most = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    regions.sort_by(|(_, a), (_, b)| {
        let by_count = b.len().cmp(&a.len());
        by_count.then(most(b).total_cmp(&most(a)))
    });
    let row = |(label, shares): (&str, Vec<f64>)| {
        let least = match shares.len() == all.len() {
            true => shares.iter().copied().fold(f64::INFINITY, f64::min),
            false => 0.0,
        };
        vec![
            Cell::Text(label.to_owned()),
            Cell::Text(format!("{} of {}", shares.len(), all.len())),
            Cell::Share(least),
            Cell::Share(most(&shares)),
        ]
    };
    Table {
        title: "Regions: in which recordings they contend for nothing".into(),
        columns: vec!["region", "recordings", "P, least", "P, most"],
        rows: regions.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CodeRegion, RegionPair, Regions, SpanCost};
    use crate::ulcp::{LockRow, PairCounts};

    fn recording(threads: u32, shares: &[(&str, f64)]) -> Analyzed {
        let pair = |(at, (_, p)): (usize, &(&str, f64))| RegionPair {
            regions: (at, at),
            locks: Vec::new(),
            cost: SpanCost::default(),
            p: *p,
        };
        let all = PairCounts {
            read_read: 3,
            true_contention: 1,
            ..PairCounts::default()
        };
        Analyzed {
            threads,
            counts: LockRow {
                all,
                ..LockRow::default()
            },
            regions: Regions {
                regions: vec![CodeRegion::default(); shares.len()],
                pairs: shares.iter().enumerate().map(pair).collect(),
            },
            region_labels: shares
                .iter()
                .map(|(label, _)| (*label).to_owned())
                .collect(),
            ..Analyzed::default()
        }
    }

    #[test]
    fn regions_of_all_recordings_come_first_with_the_range_of_their_share() {
        let all = [
            recording(2, &[("get()", 0.4), ("once()", 0.6)]),
            recording(8, &[("get()", 1.0)]),
        ];
        let rows = regions(&all).rows;
        let text = |text: &str| Cell::Text(text.into());
        assert_eq!(
            rows[0],
            [
                text("get()"),
                text("2 of 2"),
                Cell::Share(0.4),
                Cell::Share(1.0)
            ]
        );
        assert_eq!(
            rows[1],
            [
                text("once()"),
                text("1 of 2"),
                Cell::Share(0.0),
                Cell::Share(0.6)
            ]
        );
    }

    #[test]
    fn recordings_are_in_order_of_threads_and_unknown_sets_have_no_share() {
        let mut unknown = recording(1, &[]);
        unknown.counts.all = PairCounts {
            unknown: 5,
            ..PairCounts::default()
        };
        let rows = costs(&[recording(8, &[]), recording(2, &[]), unknown]).rows;
        let threads: Vec<&Cell> = rows.iter().map(|row| &row[2]).collect();
        assert_eq!(threads, [&Cell::Count(1), &Cell::Count(2), &Cell::Count(8)]);
        assert_eq!(rows[0][4], Cell::Unknown);
        assert_eq!(rows[1][4], Cell::Share(0.75));
    }
}
