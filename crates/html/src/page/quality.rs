//! How far the recording can be trusted, and what it does not have.

use convoy_report::human::{bytes, count, duration, percent};
use convoy_report::{quality, Report};
use maud::{html, Markup};

use crate::data::Data;

/// Above everything: that the page does not say all of the run, and where it says why.
pub(super) fn care(report: &Report<'_>, damage: &[String]) -> Markup {
    let losses = quality::of(report.model).losses;
    let missing = losses.iter().any(|loss| loss.numbers_are_missing);
    let without = report.model.meta.collectors.iter().filter(|c| !c.active);
    let without: Vec<&str> = without.map(|c| c.name.as_str()).collect();
    html! {
        @if !damage.is_empty() {
            p .care role="note" { "The profile is damaged: numbers may be too low, and parts of this page may be missing. " a href="#quality" { "What was lost" } }
        } @else if missing {
            p .care role="note" { "Some of it was not recorded: numbers are too low. " a href="#quality" { "What was lost" } }
        }
        @if !without.is_empty() {
            p .care role="note" { "Recorded without " (without.join(", ")) ". " a href="#quality" { "What is not known without it, and how to have it" } }
        }
    }
}

pub(super) fn quality(report: &Report<'_>, data: &Data, damage: &[String]) -> Markup {
    let meta = &report.model.meta;
    let machine = &meta.machine;
    let quality = quality::of(report.model);
    html! {
        section #quality aria-labelledby="quality-title" {
            h2 #quality-title { "The recording" }
            @for text in damage { p .warn { (text) } }
            @for collector in meta.collectors.iter().filter(|c| !c.active) {
                p .warn {
                    strong { "Without " (collector.name) ": " } (collector.lost)
                    @if !collector.enable.is_empty() { " To have it: " code { (collector.enable) } }
                }
            }
            @if report.model.threads.is_empty() {
                p .warn {
                    @if meta.collectors.iter().any(|c| !c.active) { "No thread was seen." }
                    @else { "No thread was seen: the command ended before it could be looked at, or the file is cut short." }
                }
            }
            @if report.model.sched.is_none() && !report.model.threads.is_empty() {
                p .warn {
                    "There are no scheduler events in it, so no timeline, no parallelism over time and no reasons for other waits. "
                    code { "convoy doctor" } " says how to have them."
                }
            }
            @if report.model.sched.is_some() && !data.has_lanes {
                p .warn { "There is no timeline: none was kept (--timeline-events 0), it was recorded by an older convoy, or its part of the file is lost." }
            }
            @if !quality.losses.is_empty() {
                table {
                    caption { "Losses" }
                    tbody { @for loss in &quality.losses { tr {
                        td .n { (count(loss.count)) } td { (loss.meaning) } td .dim { (loss.reason) }
                    } } }
                }
            }
            ul {
                @if !meta.command.is_empty() { li { code { (meta.command.join(" ")) } } }
                @if quality.cost.calls > 0 {
                    li {
                        (count(quality.cost.calls)) " calls counted, " (count(quality.cost.stacks)) " call stacks taken, the scheduler's events: about "
                        (duration(quality.cost.cpu_ns)) " of CPU time (" (percent(quality.cost.cpu_ratio)) ")"
                    }
                }
                @for note in &meta.notes { li { (note) } }
                li {
                    (machine.cpu_model) ", " (machine.cpus_online) " CPUs online, " (bytes(machine.memory_bytes)) ", " (machine.arch)
                    ", kernel " (machine.kernel) @if !machine.libc.is_empty() { ", " (machine.libc) }
                }
                li { "convoy " (meta.convoy_version) "; this page was made by convoy " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}
