//! The sentence at the head of the report.

use convoy_model::finding::{Finding, SHORTEST_RUN_NS};
use convoy_model::words::gain;

use crate::tables::counters::{Analysis, Parallelism};
use crate::words::{duration, percent};

/// CPUs busy for this share of the run are what limits a program.
const CPU_BOUND: f64 = 0.9;
/// Gains below this would be written as 1.00x.
const NOTHING: f64 = 1.005;
/// One thread that runs for this share of the run waits for nothing to speak of.
const BUSY: f64 = 0.8;

/// Says what limits the program. What was not seen is not ruled out.
pub(crate) fn verdict(a: &Analysis) -> String {
    let Some(main) = a.parallelism.iter().max_by_key(|p| p.thread_time_ns) else {
        let fix = match a.sources.see_reasons() {
            true => String::new(),
            false => format!(" {}.", capital(a.sources.remedy.text())),
        };
        return format!("No thread was recorded: there is nothing to judge.{fix}");
    };
    if let Some(first) = a.findings.first() {
        return headline(first);
    }
    if a.is_too_short {
        return format!(
            "The run took {}: too short to judge. Give it work for {} at least.",
            duration(main.wall_ns as f64),
            duration(SHORTEST_RUN_NS)
        );
    }
    let limit = limit(main);
    if a.sources.see_reasons() {
        return format!("No lock limits this program: {limit}.");
    }
    let remedy = a.sources.remedy.text();
    if !a.unexplained.is_empty() {
        let texts: Vec<&str> = a.unexplained.iter().map(|e| e.text.as_str()).collect();
        return format!(
            "Not explained by what was seen: {}. {} to see the cause.",
            texts.join(", "),
            capital(remedy)
        );
    }
    if main.threads_max <= 1 {
        let waits = match main.cpus_busy < BUSY {
            true => format!(" Its waits are not seen: {remedy}."),
            false => String::new(),
        };
        return format!("{}: nothing parallel to judge.{waits}", capital(&limit));
    }
    let unseen = match main.cpu_ratio >= CPU_BOUND {
        true => "Spinning, false sharing and locks inside libc look like work",
        false => "Locks inside libc, inlined locks, spinning and I/O are not seen",
    };
    format!("No lock that was seen limits this program: {limit}. {unseen}: {remedy}.")
}

/// A finding as the sentence at the head: what is wrong, and what fixing it would buy.
pub fn headline(f: &Finding) -> String {
    match f.gain.high < NOTHING {
        true => format!("{}. No gain is expected.", f.title),
        false => format!("{}. Expected gain {}.", f.title, gain(&f.gain)),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// What the CPUs and the threads did.
fn limit(p: &Parallelism) -> String {
    if p.threads_max <= 1 {
        let share = percent(p.cpus_busy.min(1.0));
        return format!("one thread ran, on a CPU {share} of the time");
    }
    if p.cpu_ratio >= CPU_BOUND {
        return format!(
            "its {} CPUs were busy {} of the time",
            p.cpus,
            percent(p.cpu_ratio)
        );
    }
    let used = if p.cpus > 0 {
        format!("{:.1} of {} CPUs were busy", p.cpus_busy, p.cpus)
    } else {
        format!("{:.1} CPUs were busy", p.cpus_busy)
    };
    let idle = p.idle_wait_ns as f64 / p.thread_time_ns.max(1) as f64;
    match idle > 0.5 {
        true => format!("{used}, threads were idle {} of their time", percent(idle)),
        false => used,
    }
}
