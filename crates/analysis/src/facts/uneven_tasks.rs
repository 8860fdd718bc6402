//! Parts of a parallel stream (Java) of which one thread has nearly all at a time: the pool's threads would run the same code, but there
//! are too few parts, or the source does not know how to be divided (lines of a file, an iterator).

use convoy_model::finding::{Cause, Finding};
use convoy_model::{SiteId, Slice, ThreadId};

use crate::estimate::saving::{by_cpus, together};
use crate::facts::concurrency::all;
use crate::facts::run_view::RunView;
use crate::facts::subject;
use crate::words::cause;

/// That it can be divided is known: as much is expected as of what is known to be done by several threads elsewhere.
pub(crate) const EXPECTED: f64 = 0.8;
/// Share of a thread's work, from which on parts of a stream are what it does.
const DOMINANT: f64 = 0.8;
const ID: &str = "uneven-tasks";
pub(crate) const WHY: &str = "one thread has nearly all parts of a parallel stream at a time";
pub(crate) const FIX: &str =
    "a source whose parts are known, and many more of them than threads: a list or an array (read lines() or what an iterator gives \
     into one first), smaller parts, or one stream for all files";

/// Whether a part of a parallel stream is worked on there: not where results of parts are put together, which smaller parts make
/// more of.
pub(crate) fn is_one(view: &RunView, site: SiteId) -> bool {
    let task = |name: &str| name.starts_with("java.util.stream.") && name.contains("Task.");
    let joins = |name: &str| name.ends_with(".onCompletion") || name.ends_with(".tryComplete");
    let site = view.model.site(site);
    site.is_some_and(|site| site.has_function(task) && !site.has_function(joins))
}

/// Whether such parts are what a thread does.
pub(crate) fn are_what_it_does(view: &RunView, thread: ThreadId) -> bool {
    let own = view.sched.slices.iter().filter(|s| s.thread == thread);
    let time = |slice: &Slice| all(&slice.by_working);
    let whole: f64 = own.clone().map(time).sum();
    let parts = own.filter(|s| s.site.is_some_and(|site| is_one(view, site)));
    let parts: f64 = parts.map(time).sum();
    whole > 0.0 && parts >= DOMINANT * whole
}

pub(crate) fn why() -> Cause {
    cause(ID, WHY, FIX)
}

/// Whoever has the parts, it is one fix.
pub(crate) fn told_once(view: &RunView, findings: Vec<Finding>) -> Vec<Finding> {
    let is_one = |f: &Finding| f.causes.iter().any(|cause| cause.id == ID);
    let (mut uneven, mut rest): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_one);
    uneven.sort_by(|a, b| b.gain.mid.total_cmp(&a.gain.mid));
    let process = |f: &Finding| subject::process(view.model, &f.subject);
    let mut first: Vec<Finding> = Vec::new();
    for finding in uneven {
        match first.iter_mut().find(|f| process(f) == process(&finding)) {
            Some(of_all) => together(&mut of_all.gain, &finding.gain, by_cpus(view)),
            None => first.push(finding),
        }
    }
    rest.extend(first);
    rest
}
