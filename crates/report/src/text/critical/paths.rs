//! The call paths that ran while few threads worked, as in figure 7 of the paper.

use convoy_analysis::scheduler::{Analysis, FunctionRow, LineRow, PathRow};
use convoy_model::{CodeFrom, SchedSource};

use super::{nothing, remark, share};
use crate::human::{count_of, duration, percent};
use crate::sched_names;
use crate::text::page::{plain, toned, Page, Tone};
use crate::text::table::INDENT;
use crate::{names, Report};

/// Share of the run below which a path is not worth its lines.
pub(super) const SMALL: f64 = 0.005;

/// Callers of a path that are named.
const CALLERS: usize = 6;

/// Functions of a path.
const FUNCTIONS: usize = 4;

/// Lines of a function.
const LINES: usize = 4;

/// Columns of the rank.
const RANK: usize = 4;

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    let p = &analysis.parallelism;
    page.title("Code that ran while parallelism was low, most CMetric first");
    let paths = analysis.paths.iter().filter(|path| path.low_cm_ns > 0.0);
    let paths: Vec<&PathRow> = paths.collect();
    if paths.is_empty() {
        nothing(page, why_empty(analysis));
        return;
    }
    remark(
        page,
        format!(
            "CMetric: time divided by the number of working threads; of all paths together, {} of low parallelism",
            duration(p.low_ns as f64)
        ),
    );
    let large = paths
        .iter()
        .filter(|path| path.share >= SMALL)
        .count()
        .max(1);
    for (i, path) in paths.iter().take(large).enumerate() {
        page.gap();
        one(page, report, analysis, i + 1, path);
    }
    if paths.len() > large {
        let (rest, least) = (paths.len() - large, percent(SMALL));
        page.gap();
        let text =
            format!("and {rest} with less than {least} of the run each: --format json has all");
        remark(page, text);
    }
}

fn why_empty(analysis: &Analysis) -> String {
    let p = &analysis.parallelism;
    if p.low_ns == 0 {
        return "parallelism was never low: no code kept others from running".into();
    }
    match (analysis.quality.sample_period_ns, analysis.quality.source) {
        (0, SchedSource::Perf) => {
            "no samples were taken, and switch records of perf events have no call stacks".into()
        }
        (0, SchedSource::Bpf) => "no samples were taken, and no call stack was seen".into(),
        _ => "no sample and no call stack fell into the time of low parallelism".into(),
    }
}

fn one(page: &mut Page, report: &Report<'_>, analysis: &Analysis, rank: usize, path: &PathRow) {
    let wall = analysis.parallelism.wall_ns as f64;
    let mut spans = vec![
        toned(Tone::Strong, percent(share(path.low_cm_ns, wall))),
        plain(" of the run  "),
        toned(
            Tone::Strong,
            sched_names::path_of(report.model, path.site, CALLERS),
        ),
    ];
    spans.push(toned(Tone::Dim, label(path.from)));
    let number = toned(Tone::Strong, format!("{rank:>2}"));
    page.hang(INDENT, number, RANK, spans);

    let mut text = format!(
        "CMetric {} while low ({} in all), {}, {}",
        duration(path.low_cm_ns),
        duration(path.cm_working_ns),
        hits(path.n, path.from),
        sched_names::threads(report.model, path.threads, path.group),
    );
    let waiting = path.active_ns.saturating_sub(path.running_ns);
    if waiting as f64 > 0.1 * path.active_ns as f64 {
        let part = percent(share(waiting as f64, path.active_ns as f64));
        text += &format!("; {part} of it ready to run, without a CPU");
    }
    page.line(INDENT + RANK, vec![plain(text)]);
    for function in path.functions.iter().take(FUNCTIONS) {
        one_function(page, function, path);
    }
    if path.functions.len() > FUNCTIONS {
        let text = format!("and {} more functions", path.functions.len() - FUNCTIONS);
        page.line(INDENT + RANK, vec![toned(Tone::Dim, text)]);
    }
}

fn one_function(page: &mut Page, function: &FunctionRow, path: &PathRow) {
    let name = match (function.function.as_str(), function.module.as_str()) {
        ("", "") => "unknown function".into(),
        ("", module) => format!("unknown function in {}", names::clip(module, 40)),
        (name, _) => format!("{}()", names::clip(name, 60)),
    };
    let amount = amount(function.low_cm_ns, path);
    let mut spans = vec![plain(format!("{amount}  {name}"))];
    let lines = function
        .lines
        .iter()
        .filter(|l| l.line > 0 && l.low_cm_ns > 0.0)
        .take(LINES);
    let texts: Vec<String> = lines.map(|line| one_line(line, path)).collect();
    if !texts.is_empty() {
        spans.push(plain(format!("  lines {}", texts.join(", "))));
    }
    page.hang(INDENT + RANK, plain(""), 2, spans);
}

/// `a.c:12 41 % (from stack top)`.
fn one_line(line: &LineRow, path: &PathRow) -> String {
    let file = line.file.rsplit('/').next().unwrap_or_default();
    let label = if line.from == path.from {
        ""
    } else {
        label(line.from)
    };
    let amount = percent(share(line.low_cm_ns, path.low_cm_ns));
    format!("{}:{} {amount}{label}", names::clip(file, 40), line.line)
}

/// Share of the path, five columns wide.
fn amount(low_cm_ns: f64, path: &PathRow) -> String {
    format!("{:>6}", percent(share(low_cm_ns, path.low_cm_ns)))
}

/// How the code is known, where it is not by samples.
fn label(from: CodeFrom) -> &'static str {
    match from {
        CodeFrom::Sample => "",
        CodeFrom::StackTop => "  (from stack top: where it blocked afterwards)",
        CodeFrom::Unknown => "  (not known)",
    }
}

fn hits(n: u64, from: CodeFrom) -> String {
    match from {
        CodeFrom::Sample => count_of(n, "sample", "samples"),
        _ => count_of(n, "slice", "slices"),
    }
}
