//! Call paths that ran while parallelism was low, with their functions and lines (GAPP, figure 7).

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{CodeFrom, GroupId, ProcessId, SiteFrame, SiteId, Slice, ThreadId};

use crate::facts::call_path::{function_key, CallPaths, PathId};
use crate::facts::concurrency::{low, low_cm};
use crate::facts::run_view::RunView;
use crate::tables::scheduler::{FunctionRow, LineRow, PathRow};

/// Functions of a path, and lines of a function, that are worth a row.
const ROWS: usize = 8;

/// Most CMetric at low parallelism first. Code that waits in a loop is not among them.
pub(crate) fn path_rows(view: &RunView) -> Vec<PathRow> {
    let mut paths = CallPaths::new(view.model, false);
    let mut sums: BTreeMap<(ProcessId, PathId), Sum> = BTreeMap::new();
    for slice in view.sched.slices.iter().filter(|s| s.spin.is_none()) {
        let key = (view.process(slice.thread), paths.of(slice.site));
        sums.entry(key).or_default().add(view, slice);
    }
    let mut rows: Vec<PathRow> = sums
        .into_iter()
        .map(|((process, _), sum)| sum.row(view, process))
        .collect();
    rows.sort_by(|a, b| {
        let cm = b.low_cm_ns.total_cmp(&a.low_cm_ns);
        cm.then(b.cm_ns.total_cmp(&a.cm_ns))
            .then(a.site.cmp(&b.site))
    });
    rows
}

/// What one path adds up to.
#[derive(Default)]
struct Sum<'a> {
    row: PathRow,
    sites: BTreeMap<SiteId, f64>,
    groups: BTreeMap<GroupId, f64>,
    threads: BTreeSet<ThreadId>,
    from: BTreeMap<CodeFrom, f64>,
    functions: BTreeMap<String, Function<'a>>,
}

#[derive(Default)]
struct Function<'a> {
    leaf: Option<&'a SiteFrame>,
    n: u64,
    low_cm: f64,
    lines: BTreeMap<(&'a str, u32), LineRow>,
}

impl<'a> Sum<'a> {
    fn add(&mut self, view: &RunView<'a>, slice: &Slice) {
        let below = view.low_below;
        let low_cm = low_cm(&slice.by_working, below);
        let row = &mut self.row;
        row.n = row.n.saturating_add(slice.n);
        row.active_ns = row.active_ns.saturating_add(slice.active_ns);
        row.running_ns = row.running_ns.saturating_add(slice.running_ns);
        row.cm_ns += slice.cm_ns;
        row.cm_working_ns += slice.cm_working_ns;
        row.low_active_ns += low(&slice.by_working, below);
        row.low_cm_ns += low_cm;
        // What never was alone still has a place that had most of it.
        let weight = low_cm.max(slice.cm_ns * 1e-3);
        *self.groups.entry(view.group(slice.thread)).or_default() += weight;
        *self.from.entry(slice.from).or_default() += weight;
        self.threads.insert(slice.thread);
        let Some(id) = slice.site else { return };
        *self.sites.entry(id).or_default() += weight;
        let Some(site) = view.model.site(id) else {
            return;
        };
        let (Some(leaf), Some(shown)) = (site.frames.first(), view.shown(id)) else {
            return;
        };
        let function = self.functions.entry(function_key(leaf)).or_default();
        function.leaf = Some(leaf);
        function.n = function.n.saturating_add(slice.n);
        function.low_cm += low_cm;
        let line = function
            .lines
            .entry((&shown.file, shown.line))
            .or_insert_with(|| LineRow {
                file: shown.file.clone(),
                line: shown.line,
                from: slice.from,
                ..LineRow::default()
            });
        line.n = line.n.saturating_add(slice.n);
        line.low_cm_ns += low_cm;
        if slice.from == CodeFrom::Sample {
            line.from = CodeFrom::Sample;
        }
    }

    fn row(self, view: &RunView, process: ProcessId) -> PathRow {
        let mut functions: Vec<FunctionRow> =
            self.functions.into_values().map(Function::row).collect();
        functions.sort_by(|a, b| {
            let cm = b.low_cm_ns.total_cmp(&a.low_cm_ns);
            cm.then(b.n.cmp(&a.n)).then(a.function.cmp(&b.function))
        });
        functions.truncate(ROWS);
        PathRow {
            process,
            site: most(self.sites),
            from: most(self.from).unwrap_or_default(),
            group: most(self.groups).unwrap_or_default(),
            threads: self.threads.len(),
            share: self.row.low_cm_ns / view.wall,
            functions,
            ..self.row
        }
    }
}

impl Function<'_> {
    fn row(self) -> FunctionRow {
        let mut lines: Vec<LineRow> = self.lines.into_values().collect();
        lines.sort_by(|a, b| {
            let cm = b.low_cm_ns.total_cmp(&a.low_cm_ns);
            cm.then(b.n.cmp(&a.n)).then(a.line.cmp(&b.line))
        });
        lines.truncate(ROWS);
        FunctionRow {
            function: self.leaf.map_or_else(String::new, |f| f.function.clone()),
            module: self.leaf.map_or_else(String::new, |f| f.module.clone()),
            n: self.n,
            low_cm_ns: self.low_cm,
            lines,
        }
    }
}

/// The key with most weight, the first one of equals.
pub(crate) fn most<K: Ord>(weights: BTreeMap<K, f64>) -> Option<K> {
    let pairs = weights.into_iter().rev();
    pairs.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(key, _)| key)
}
