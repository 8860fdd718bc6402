//! Sessions of `convoy live` drawn at random.

use convoy_profile::*;

use crate::draw::Random;

/// A session of some curves.
pub fn live_curves(r: &mut Random, rows: u64) -> LiveCurves {
    LiveCurves {
        every_ns: r.number(),
        length_ns: r.number(),
        marks: marks(r, rows),
        left_out: r.number(),
        curves: (0..r.below(4)).map(|_| curve(r, rows)).collect(),
    }
}

fn marks(r: &mut Random, rows: u64) -> Vec<LiveMark> {
    let kinds = [
        LiveMarkKind::ThreadBegan,
        LiveMarkKind::ThreadEnded,
        LiveMarkKind::CurveAdded,
        LiveMarkKind::CurveRemoved,
    ];
    let mark = |t_ms| LiveMark {
        t_ms,
        kind: kinds[r.below(4) as usize],
        text: r.text(),
    };
    (0..rows).map(mark).collect()
}

fn curve(r: &mut Random, rows: u64) -> LiveCurve {
    let n = r.below(rows + 1);
    let value = |r: &mut Random| r.flag().then(|| r.below(1 << 40) as f64 / 8.0);
    let points = (0..n).map(|ix| LivePoint {
        t_ms: ix * 1000,
        value: value(r),
        gap: r.text(),
        cost_ratio: r.below(100) as f64 / 100.0,
    });
    let points = points.collect();
    let threads = (0..r.below(4)).map(|_| LiveThread {
        tid: r.number32(),
        name: r.text(),
        values: (0..n).map(|_| value(r)).collect(),
    });
    let threads = threads.collect();
    LiveCurve {
        metric: r.text(),
        focus: r.text(),
        unit: r.text(),
        kind: r.text(),
        points,
        threads,
        threads_left_out: r.number(),
    }
}
