//! The comparison as Markdown (GitHub's), for a comment on a change.

use std::fmt::Write;

use convoy_report::human::{duration, factor, percent};
use convoy_report::markdown::escape;

use crate::compare::{Comparison, Status};
use crate::gate::Gate;
use crate::text::{points, relative, worth};

/// Rows of the table of locks.
const LOCKS: usize = 20;

/// The whole comment.
pub fn render(c: &Comparison, gate: &Gate) -> String {
    // Writing to a string cannot fail.
    let mut out = String::new();
    let _ = page(&mut out, c, gate);
    out
}

fn page(out: &mut String, c: &Comparison, gate: &Gate) -> std::fmt::Result {
    writeln!(out, "### {}\n", escape(&c.sentence))?;
    for breach in &gate.breaches {
        writeln!(
            out,
            "- :x: **{}**: {}",
            escape(&breach.limit),
            escape(&breach.found)
        )?;
    }
    for open in &gate.not_judged {
        writeln!(
            out,
            "- :grey_question: **{}** is not judged: {}. Fix: {}",
            escape(&open.limit),
            escape(&open.doubt.why),
            escape(&open.doubt.fix)
        )?;
    }
    if !gate.is_open() {
        writeln!(out)?;
    }
    writeln!(out, "| | before | after | change |\n|---|---:|---:|---:|")?;
    for (name, change) in [("run time", &c.wall_ns), ("CPU time", &c.cpu_ns)] {
        let (before, after) = (change.mean_before(), change.mean_after());
        writeln!(
            out,
            "| {name} | {} | {} | {} |",
            duration(before),
            duration(after),
            relative(before, after)
        )?;
    }
    let share = &c.lock_wait_share;
    writeln!(
        out,
        "| waits for locks, of thread time | {} | {} | {} |\n",
        percent(share.mean_before()),
        percent(share.mean_after()),
        points(share.difference())
    )?;
    findings(out, c)?;
    locks(out, c)?;
    for remark in &c.remarks {
        writeln!(out, "> {}\n", escape(remark))?;
    }
    Ok(())
}

fn findings(out: &mut String, c: &Comparison) -> std::fmt::Result {
    let told = || c.findings.iter().filter(|f| f.status != Status::Same);
    if told().next().is_none() {
        return writeln!(out, "No finding came, went or changed.\n");
    }
    writeln!(
        out,
        "| finding | | predicted gain | where |\n|---|---|---|---|"
    )?;
    for f in told() {
        let gain = |gain: Option<f64>| gain.map_or_else(String::new, factor);
        let place = f.place.as_ref().map_or_else(String::new, |p| p.label());
        let gains = match f.gain {
            [Some(_), Some(_)] => format!("{} → {}", gain(f.gain[0]), gain(f.gain[1])),
            [a, b] => gain(a.or(b)),
        };
        writeln!(
            out,
            "| {} | **{}** | {gains} | {} |",
            escape(&f.title),
            f.status.word(),
            escape(&place)
        )?;
    }
    writeln!(out)
}

fn locks(out: &mut String, c: &Comparison) -> std::fmt::Result {
    let told = c
        .locks
        .iter()
        .filter(|l| l.status != Status::Same && !l.idle && worth(l));
    let rows: Vec<_> = told.take(LOCKS).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| waits, of the time of the threads concerned | before | after | change |\n|---|---:|---:|---:|"
    )?;
    for lock in rows {
        let share = &lock.wait_share;
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            escape(&lock.name),
            percent(share.mean_before()),
            percent(share.mean_after()),
            points(share.difference())
        )?;
    }
    writeln!(out)
}
