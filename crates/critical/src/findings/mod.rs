//! What is said of a recording. Every finding asks the same: what of the run would be gone without it?

mod blocked;
mod busy_waiting;
mod contended_futex;
mod holder_off_cpu;
mod imbalance;
mod io;
mod limiting_stage;
mod memory;
mod serial_code;
mod thread_count;

use std::collections::BTreeSet;

use convoy_model::finding::{Finding, Subject};
use convoy_model::{GroupId, SiteId};

use crate::rows::Analysis;
use crate::view::View;
use crate::waited_for::WaitedFor;

/// What all findings are made from.
pub(crate) struct Context<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) rows: &'a Analysis,
    pub(crate) waited_for: WaitedFor,
}

/// Everything that could be said, in no particular order.
pub(crate) fn all(view: &View, rows: &Analysis) -> Vec<Finding> {
    let cx = Context {
        view,
        rows,
        waited_for: WaitedFor::of(view),
    };
    if view.workers_at_once < 2 {
        // One thread is not parallel whatever it does, unless others wait for it.
        let stages = limiting_stage::findings(&cx).into_iter();
        return stages.map(|(_, finding)| finding).collect();
    }
    // Low parallelism of a group that is explained otherwise is not serial code as well.
    let mut explained: BTreeSet<GroupId> = BTreeSet::new();
    let mut findings = Vec::new();
    for (groups, finding) in imbalance::findings(&cx)
        .into_iter()
        .chain(limiting_stage::findings(&cx))
        .chain(contended_futex::findings(&cx))
    {
        explained.extend(groups);
        findings.push(finding);
    }
    findings.extend(serial_code::findings(&cx, &explained));
    let holders = holder_off_cpu::findings(&cx);
    let under_a_lock: BTreeSet<SiteId> = holders.iter().filter_map(|f| site(&f.subject)).collect();
    findings.extend(holders);
    // I/O under a lock is said once, of the lock.
    findings.extend(
        io::findings(&cx)
            .into_iter()
            .filter(|f| site(&f.subject).is_none_or(|site| !under_a_lock.contains(&site))),
    );
    findings.extend(busy_waiting::findings(&cx));
    findings.extend(memory::findings(&cx));
    if !findings.iter().any(|f| f.id == "too-few-threads") {
        findings.extend(thread_count::finding(&cx));
    }
    findings
}

/// Where a finding is.
fn site(subject: &Subject) -> Option<SiteId> {
    match subject {
        Subject::Code(site) | Subject::Site(_, site) | Subject::File(_, site) => Some(*site),
        _ => None,
    }
}
