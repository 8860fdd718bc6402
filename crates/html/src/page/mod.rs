//! The page: what a person reads first comes first.

mod experiments;
mod findings;
mod first;
mod groups;
mod live_curves;
mod locks;
mod pictures;
mod quality;
mod sections;

use convoy_report::Report;
use maud::{html, Markup, PreEscaped, DOCTYPE};

use crate::data::Data;

/// Nothing may be loaded from anywhere: the page is one file.
pub(crate) const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

const STYLES: [&str; 4] = [
    include_str!("../../vendor/uplot.min.css"),
    include_str!("../../vendor/d3-flamegraph.css"),
    include_str!("../../assets/style.css"),
    include_str!("../../assets/first.css"),
];

const SCRIPTS: [&str; 11] = [
    include_str!("../../assets/locale.js"),
    include_str!("../../vendor/d3.min.js"),
    include_str!("../../vendor/d3-flamegraph.min.js"),
    include_str!("../../vendor/uplot.min.js"),
    include_str!("../../assets/data.js"),
    include_str!("../../assets/words.js"),
    include_str!("../../assets/curves.js"),
    include_str!("../../assets/lanes.js"),
    include_str!("../../assets/bars.js"),
    include_str!("../../assets/flame.js"),
    include_str!("../../assets/main.js"),
];

/// All of it.
pub(crate) fn page(report: &Report<'_>, data: &Data, damage: &[String]) -> Markup {
    let meta = &report.model.meta;
    let command = meta.command.join(" ");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "convoy " (meta.convoy_version) };
                title { "convoy: " (command) }
                @for style in STYLES {
                    style { (PreEscaped(style)) }
                }
            }
            body {
                a .skip href="#findings" { "Skip to the findings" }
                (first::first_screen(report, data, damage))
                (navigation(report, data))
                main {
                    (findings::findings(report, data))
                    (live_curves::live_curves(report))
                    (pictures::parallelism(report, data))
                    (pictures::timeline(report, data))
                    (locks::locks(report, data))
                    (sections::sections(report))
                    (experiments::part(report))
                    (groups::groups(report, data))
                    (pictures::threads(report, data))
                    (pictures::flame(data))
                    (quality::quality(report, data, damage))
                }
                script #page-data type="text/plain" { (PreEscaped(&data.page)) }
                script #lane-data type="text/plain" { (PreEscaped(&data.lanes)) }
                @for script in SCRIPTS {
                    script { (PreEscaped(script)) }
                }
            }
        }
    }
}

fn navigation(report: &Report<'_>, data: &Data) -> Markup {
    let parts = [
        ("findings", "Findings", true),
        ("curves", "Curves", report.model.live_curves.is_some()),
        ("parallelism", "Parallelism", data.has_activity),
        ("timeline", "Timeline", data.has_lanes),
        (
            "locks",
            "Locks",
            !report.analysis.locks.is_empty() || !report.analysis.events.is_empty(),
        ),
        ("sections", "Critical sections", report.sections.is_some()),
        (
            "experiments",
            "Experiments",
            report.model.experiments.is_some(),
        ),
        (
            "groups",
            "Thread groups",
            !report.analysis.groups.is_empty(),
        ),
        ("threads", "Threads", report.critical.is_some()),
        ("flame", "Waits by code", data.has_flame),
        ("quality", "Recording", true),
    ];
    html! {
        nav aria-label="Parts of this page" {
            @for (id, name, _) in parts.into_iter().filter(|part| part.2) {
                a href={ "#" (id) } { (name) }
            }
        }
    }
}
