//! The comparison for a person.

use std::fmt::Write;

use convoy_report::human::{count, duration, factor, percent};
use convoy_report::names::clip;

use crate::compare::{Comparison, FindingChange, LockChange, SiteChange, Status};
use crate::gate::Gate;
use crate::key::Place;

/// Rows of the table of locks.
const LOCKS: usize = 12;
/// Sites of a lock.
const SITES: usize = 4;
/// Columns of a name.
const NAME: usize = 44;

/// The whole page. `all`: also locks and findings that did not change.
pub fn render(c: &Comparison, gate: &Gate, all: bool) -> String {
    // Writing to a string cannot fail.
    let mut out = String::new();
    let _ = page(&mut out, c, gate, all);
    out
}

fn page(out: &mut String, c: &Comparison, gate: &Gate, all: bool) -> std::fmt::Result {
    writeln!(out, "{}", clean(&c.sentence))?;
    writeln!(out)?;
    limits(out, gate)?;
    for (side, runs) in [("before", &c.before), ("after", &c.after)] {
        let names: Vec<_> = runs.iter().map(|run| clean(&run.name)).collect();
        writeln!(out, "{side:<7} {}", names.join(", "))?;
    }
    writeln!(out)?;
    summary(out, c)?;
    findings(out, c, all)?;
    locks(out, c, all)?;
    for remark in &c.remarks {
        writeln!(out, "note: {}", clean(remark))?;
    }
    Ok(())
}

fn limits(out: &mut String, gate: &Gate) -> std::fmt::Result {
    for breach in &gate.breaches {
        writeln!(
            out,
            "limit {}: {}",
            clean(&breach.limit),
            clean(&breach.found)
        )?;
    }
    for open in &gate.not_judged {
        writeln!(
            out,
            "limit {} is not judged: {}\n  fix: {}",
            clean(&open.limit),
            clean(&open.doubt.why),
            clean(&open.doubt.fix)
        )?;
    }
    if gate.is_open() {
        return Ok(());
    }
    writeln!(out)
}

fn summary(out: &mut String, c: &Comparison) -> std::fmt::Result {
    head(out, "", &["before", "after", "change"])?;
    for (name, change) in [("run time", &c.wall_ns), ("CPU time", &c.cpu_ns)] {
        let (before, after) = (change.mean_before(), change.mean_after());
        row(
            out,
            name,
            &[duration(before), duration(after), relative(before, after)],
        )?;
    }
    let share = &c.lock_wait_share;
    row(
        out,
        "waits for locks, of thread time",
        &[
            percent(share.mean_before()),
            percent(share.mean_after()),
            points(share.difference()),
        ],
    )?;
    writeln!(out)
}

fn findings(out: &mut String, c: &Comparison, all: bool) -> std::fmt::Result {
    for (status, title) in [
        (Status::Came, "Findings that came"),
        (Status::Went, "Findings that went"),
        (Status::Changed, "Findings that changed"),
        (Status::Same, "Findings that are the same"),
    ] {
        let of_status = c.findings.iter().filter(|f| f.status == status);
        let some = of_status.clone().next().is_some();
        if !some || (status == Status::Same && !all) {
            continue;
        }
        writeln!(out, "{title}")?;
        of_status.into_iter().try_for_each(|f| finding(out, f))?;
        writeln!(out)?;
    }
    let same = c
        .findings
        .iter()
        .filter(|f| f.status == Status::Same)
        .count();
    match (c.findings.len(), same) {
        (0, _) => writeln!(out, "No findings on either side.\n"),
        (_, 0) => Ok(()),
        _ if all => Ok(()),
        (_, 1) => writeln!(out, "1 finding is the same; --all shows it.\n"),
        (_, same) => writeln!(out, "{same} findings are the same; --all shows them.\n"),
    }
}

fn finding(out: &mut String, f: &FindingChange) -> std::fmt::Result {
    writeln!(out, "  {} [{}]", clean(&f.title), f.id)?;
    let mut facts = Vec::new();
    match f.gain {
        [Some(a), Some(b)] => facts.push(format!("predicted gain {} -> {}", factor(a), factor(b))),
        [None, Some(gain)] | [Some(gain), None] => {
            facts.push(format!("predicted gain {}", factor(gain)));
        }
        [None, None] => {}
    }
    if let [Some(a), Some(b)] = f.share {
        facts.push(format!("{} -> {} of thread time", percent(a), percent(b)));
    }
    let [before, after] = f.runs;
    if before.1 > 1 || after.1 > 1 {
        facts.push(format!(
            "in {} of {} runs before, {} of {} after",
            before.0, before.1, after.0, after.1
        ));
    }
    if let Some(place) = &f.place {
        facts.push(place.label());
    }
    writeln!(out, "    {}", clean(&facts.join("; ")))?;
    if f.status != Status::Went && !f.fix.is_empty() {
        writeln!(out, "    fix: {}", clean(&f.fix))?;
    }
    Ok(())
}

fn locks(out: &mut String, c: &Comparison, all: bool) -> std::fmt::Result {
    let told =
        |lock: &&LockChange| all || (lock.status != Status::Same && !lock.idle && worth(lock));
    let rows: Vec<_> = c.locks.iter().filter(told).collect();
    if rows.is_empty() {
        return match c.locks.is_empty() {
            true => writeln!(out, "No locks were seen on either side.\n"),
            false => writeln!(out, "No lock's waits changed; --all shows all.\n"),
        };
    }
    head(
        out,
        "Waits, of the time of the threads concerned",
        &["before", "after", "change", "acquired", ""],
    )?;
    let shown = if all { rows.len() } else { LOCKS };
    for lock in rows.iter().take(shown) {
        let share = &lock.wait_share;
        let what = if lock.idle {
            "idle"
        } else {
            lock.status.word()
        };
        row(
            out,
            &lock.name,
            &[
                percent(share.mean_before()),
                percent(share.mean_after()),
                points(share.difference()),
                relative(
                    lock.acquisitions.mean_before(),
                    lock.acquisitions.mean_after(),
                ),
                what.to_owned(),
            ],
        )?;
        lock.sites
            .iter()
            .filter(|site| site.wait_ns.iter().any(|ns| *ns > 0.0))
            .take(SITES)
            .try_for_each(|s| site(out, s))?;
    }
    if rows.len() > shown {
        writeln!(out, "  and {} more; --all shows them", rows.len() - shown)?;
    }
    writeln!(out)
}

/// A change of less than a hundredth of the threads' time is told only on demand.
pub fn worth(lock: &LockChange) -> bool {
    lock.wait_share.difference().abs() >= 0.01
}

fn site(out: &mut String, site: &SiteChange) -> std::fmt::Result {
    let label = |place: &Option<Place>| place.as_ref().map_or_else(String::new, Place::label);
    let (before, after) = (label(&site.before), label(&site.after));
    let name = match (before.as_str(), after.as_str()) {
        (before, "") => format!("{before} (gone)"),
        ("", after) => format!("{after} (new)"),
        (before, after) if before == after => after.to_owned(),
        (_, after) => match &site.before {
            Some(place) if place.line > 0 => format!("{after} (was line {})", place.line),
            _ => after.to_owned(),
        },
    };
    let [before, after] = site.wait_ns;
    let [n, m] = site.contended;
    let contended = format!(
        "{} -> {} contended",
        count(n.round() as u64),
        count(m.round() as u64)
    );
    writeln!(
        out,
        "    {:<width$}{:>12}{:>12}  {contended}",
        clean(&clip(&name, NAME - 3)),
        duration(before),
        duration(after),
        width = NAME - 2,
    )
}

fn head(out: &mut String, name: &str, columns: &[&str]) -> std::fmt::Result {
    let columns: String = columns.iter().map(|c| format!("{c:>12}")).collect();
    writeln!(out, "{}", format!("{name:<NAME$}{columns}").trim_end())
}

fn row(out: &mut String, name: &str, cells: &[String]) -> std::fmt::Result {
    let cells: String = cells.iter().map(|c| format!("{c:>12}")).collect();
    let name = clean(&clip(name, NAME - 3));
    writeln!(
        out,
        "{}",
        format!("  {name:<width$}{cells}", width = NAME - 2).trim_end()
    )
}

/// `+12 %`, `-3.0 %`; from nothing there is no percentage.
pub fn relative(before: f64, after: f64) -> String {
    if before == after {
        return "0 %".into();
    }
    if before <= 0.0 {
        return "new".into();
    }
    sign(after / before - 1.0, percent)
}

/// A difference of shares: `-38 pp`.
pub fn points(difference: f64) -> String {
    sign(difference, |d| percent(d).replace('%', "pp"))
}

fn sign(value: f64, text: impl Fn(f64) -> String) -> String {
    // Less than what can be printed is nothing.
    const PRINTED: f64 = 0.0001;
    match if value.abs() < PRINTED { 0.0 } else { value } {
        v if v < 0.0 => format!("-{}", text(-v)),
        v if v > 0.0 => format!("+{}", text(v)),
        v => text(v),
    }
}

/// Names come from programs and may hold what a terminal takes for a command.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
