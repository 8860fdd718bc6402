//! When a program could run in parallel and does not, and which code runs then (GAPP, ICPE'20): pure
//! functions of a [`Model`] with scheduler events. The method, its formulas and sources are in
//! docs/critical.md, what each finding means in docs/findings.md.

#![forbid(unsafe_code)]

mod call_path;
mod cross_check;
mod findings;
mod gain;
mod hottest;
mod in_call;
mod java_pools;
mod lanes;
mod levels;
mod lines;
mod merge;
mod programs;
mod roles;
mod rows;
mod short_cpus;
mod subject;
mod switching;
mod tables;
mod text;
mod thresholds;
mod verdict;
mod view;
mod waited_for;

pub use cross_check::{cross_check, cross_check_with};
pub use merge::merge;
pub use rows::*;
pub use thresholds::Thresholds;

use convoy_model::finding::{rank, Finding, SHORTEST_RUN_NS};
use convoy_model::Model;

use crate::tables::{edges, loops, parallelism, paths, quality, threads, waits};
use crate::view::View;

/// Judges a recording: all processes together are one parallel program. Nothing without scheduler events.
pub fn analyze(model: &Model, t: &Thresholds) -> Analysis {
    let Some(sched) = &model.sched else {
        return Analysis::default();
    };
    let view = View::new(model, sched, t);
    let paths = paths::path_rows(&view);
    let threads = threads::thread_rows(&view);
    let mut all = Analysis {
        parallelism: parallelism::parallelism(&view),
        timeline: parallelism::timeline(&view),
        groups: threads::group_rows(&view, &threads),
        threads,
        reasons: waits::reason_rows(&view),
        waits: waits::wait_rows(&view),
        edges: edges::edge_rows(&view),
        loops: loops::loop_rows(&view, &paths),
        paths,
        quality: quality::quality(&view),
        ..Analysis::default()
    };
    (all.findings, all.dismissed) = rank(findings::all(&view, &all), |f| {
        view.wall >= SHORTEST_RUN_NS && worth(f, t)
    });
    all.verdict = verdict::verdict(&view, &all);
    // A loop may wait for a path beyond the top: that row is not in the table then.
    for row in &mut all.loops {
        row.waits_for.retain(|&ix| ix < t.top);
    }
    all.paths.truncate(t.top);
    all.waits.truncate(t.top);
    all.edges.truncate(t.top);
    all
}

/// Whether a finding is worth a person's time.
pub(crate) fn worth(f: &Finding, t: &Thresholds) -> bool {
    // Nothing else shows CPU time that is burnt, and it is lost even where nothing is gained.
    const BURNT: f64 = 0.10;
    // A bound of a large part of the run: said, with the reason why nothing is promised.
    const LARGE: f64 = 0.15;
    f.gain.mid >= t.gain_mid
        || (f.id == "busy-waiting" && f.share_of_thread_time >= BURNT)
        || (f.gain.high >= t.gain_high && f.share_of_thread_time >= LARGE)
}
