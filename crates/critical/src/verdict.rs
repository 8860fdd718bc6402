//! The sentence at the head of the report.

use convoy_model::words::{percent, plural};

use crate::rows::Analysis;
use crate::view::View;

/// CPUs busy for this share of the run are what limits a program.
const CPU_BOUND: f64 = 0.9;
/// Share of the run without any active thread that makes a program an idle one.
const IDLE: f64 = 0.5;
/// Share of the run at low parallelism that is worth a word.
const LOW: f64 = 0.1;
/// Working threads over those that could: this is parallel.
const PARALLEL: f64 = 0.8;

/// Says how parallel the program was and what stood in its way.
pub(crate) fn verdict(view: &View, a: &Analysis) -> String {
    let p = &a.parallelism;
    let wall = view.wall;
    let idle = p.idle_ns as f64 / wall;
    // Where a thread is made for every task, none of them is there for long enough to count.
    let of = match p.workers_at_once {
        n if p.working_mean > n as f64 => "threads were".into(),
        1 => "of 1 thread that works was".into(),
        n => format!("of {} that work were", plural(n, "thread")),
    };
    let how = format!("{:.1} {of} at work on average", p.working_mean);
    if let Some(f) = a.findings.first() {
        let low = p.low_ns as f64 / wall;
        let few = match low >= LOW {
            true => format!(
                ", fewer than {:.0} for {} of the run",
                p.low_below.ceil(),
                percent(low)
            ),
            false => String::new(),
        };
        return format!("{how}{few}. First: {}.", f.title);
    }
    if p.workers == 0 {
        return "No thread did any work to speak of.".into();
    }
    if idle >= IDLE {
        return format!(
            "No thread was active for {} of the run: the program waited for requests, time or other programs.",
            percent(idle)
        );
    }
    if p.workers_at_once < 2 {
        return format!(
            "One thread did the work, on a CPU {} of the run: there is nothing parallel to judge.",
            percent(p.running_mean.min(1.0))
        );
    }
    let cpu_bound = p.cpus > 0 && p.running_mean >= CPU_BOUND * f64::from(p.cpus);
    if cpu_bound {
        return format!("{how}: the {} CPUs were busy, it is CPU bound.", p.cpus);
    }
    if p.working_mean >= PARALLEL * p.useful {
        return format!("{how}: it is parallel.");
    }
    format!("{how}: no code was found that keeps the others from working.")
}
