//! How parallel the recording was, as a whole and over time.

use convoy_model::bucket_floor;

use crate::facts::concurrency::{low, none, thread_time};
use crate::facts::run_view::RunView;
use crate::tables::scheduler::{Level, Moment, Parallelism};

pub(crate) fn parallelism(view: &RunView) -> Parallelism {
    let sched = view.sched;
    let mean = |histogram: &[u64]| thread_time(histogram) / view.wall;
    let highest = sched
        .active
        .len()
        .max(sched.working.len())
        .max(sched.running.len());
    let at = |histogram: &[u64], ix: usize| histogram.get(ix).copied().unwrap_or(0);
    Parallelism {
        wall_ns: sched.wall_ns(),
        threads: view.threads.len(),
        workers: view.workers.len(),
        workers_at_once: view.workers_at_once,
        cpus: if view.cpus.is_finite() {
            view.cpus as u32
        } else {
            0
        },
        useful: view.useful,
        n_min: view.n_min,
        low_below: view.low_below,
        levels: (0..highest)
            .map(|ix| Level {
                threads: bucket_floor(ix),
                active_ns: at(&sched.active, ix),
                working_ns: at(&sched.working, ix),
                running_ns: at(&sched.running, ix),
            })
            .collect(),
        active_mean: mean(&sched.active),
        working_mean: mean(&sched.working),
        running_mean: mean(&sched.running),
        idle_ns: none(&sched.active) as u64,
        low_active_ns: low(&sched.active, view.low_below) as u64,
        low_ns: low(&sched.working, view.low_below) as u64,
        only_spinning_ns: (none(&sched.working) - none(&sched.active)).max(0.0) as u64,
    }
}

/// The run in pieces; the last one may be shorter.
pub(crate) fn timeline(view: &RunView) -> Vec<Moment> {
    let sched = view.sched;
    let (width, wall) = (sched.bin_width_ns, sched.wall_ns());
    let moment = |(ix, bin): (usize, &convoy_model::Bin)| {
        let from_ns = width.saturating_mul(ix as u64);
        let width_ns = wall.checked_sub(from_ns)?.min(width);
        let length = (width_ns > 0).then_some(width_ns as f64)?;
        let top = bin.top.and_then(|ix| sched.slices.get(ix as usize));
        Some(Moment {
            from_ns,
            width_ns,
            active: bin.active_ns as f64 / length,
            working: bin.working_ns as f64 / length,
            running: bin.running_ns as f64 / length,
            idle: (bin.idle_ns as f64 / length).min(1.0),
            thread: top.map(|slice| slice.thread),
            site: top.and_then(|slice| slice.site),
        })
    };
    sched.bins.iter().enumerate().filter_map(moment).collect()
}
