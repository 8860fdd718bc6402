//! Loops that wait on the processor.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{GroupId, LoopId, SiteId, ThreadId};

use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::tables::scheduler::{LoopRow, PathRow};

/// Paths that a loop may wait for.
const PATHS: usize = 3;

#[derive(Default)]
struct Sum {
    running: u64,
    active: u64,
    cm: f64,
    samples: u64,
    sites: BTreeMap<SiteId, f64>,
    groups: BTreeMap<GroupId, f64>,
    threads: BTreeSet<ThreadId>,
}

/// Most CPU time first. `paths` are those of the analysis.
pub(crate) fn loop_rows(view: &RunView, paths: &[PathRow]) -> Vec<LoopRow> {
    let mut sums: BTreeMap<LoopId, Sum> = BTreeMap::new();
    for slice in &view.sched.slices {
        let Some(id) = slice.spin else { continue };
        let sum = sums.entry(id).or_default();
        sum.running = sum.running.saturating_add(slice.running_ns);
        sum.active = sum.active.saturating_add(slice.active_ns);
        sum.samples = sum.samples.saturating_add(slice.n);
        sum.cm += slice.cm_ns;
        let weight = slice.running_ns as f64;
        if let Some(site) = slice.site {
            *sum.sites.entry(site).or_default() += weight;
        }
        *sum.groups.entry(view.group(slice.thread)).or_default() += weight;
        sum.threads.insert(slice.thread);
    }
    let used = (view.cpus_used() * view.wall).max(1.0);
    let row = |(id, sum): (LoopId, Sum)| {
        let spin = view.sched.loops.get(id.0 as usize)?;
        Some(LoopRow {
            spin: id,
            process: spin.process,
            kind: spin.kind,
            site: most(sum.sites),
            group: most(sum.groups).unwrap_or_default(),
            threads: sum.threads.len(),
            samples: spin.samples.max(sum.samples),
            running_ns: sum.running,
            share: (sum.running as f64 / used).min(1.0),
            active_ns: sum.active,
            cm_ns: sum.cm,
            waits_for: waited_for(view, paths, spin.process),
        })
    };
    let mut rows: Vec<LoopRow> = sums.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.running_ns.cmp(&a.running_ns).then(a.spin.cmp(&b.spin)));
    rows
}

/// Who works while few do is who the others wait for: of the same process, or of its sisters.
fn waited_for(view: &RunView, paths: &[PathRow], process: convoy_model::ProcessId) -> Vec<usize> {
    let exe = |id: convoy_model::ProcessId| {
        let process = view.process_at(id);
        process.map(|p| p.exe.as_str())
    };
    paths
        .iter()
        .enumerate()
        .filter(|(_, p)| p.low_cm_ns > 0.0 && p.site.is_some())
        .filter(|(_, p)| p.process == process || exe(p.process) == exe(process))
        .map(|(ix, _)| ix)
        .take(PATHS)
        .collect()
}
