//! The last lines: how to see more, and how far to trust what is above.

use super::critical::quality::is_off;
use super::page::{plain, toned, Page, Span, Tone, TIED};
use super::{Options, Source};
use crate::human::{count, count_of, percent};
use crate::quality::{self, Loss, Quality};
use crate::{names, subject, Report};
use convoy_model::SchedSource;
use convoy_profile::Collector;

const LABEL: usize = 9;
const NOT_SEEN: &str = "not seen";
/// Who makes code at run time can name it for tools.
const HOW_TO_NAME: &str =
    "it is in no file, but its compiler can write names: java -XX:+UnlockDiagnosticVMOptions \
                           -XX:+DumpPerfMapAtExit (while it runs: jcmd PID Compiler.perfmap), node --perf-basic-prof, \
                           DOTNET_PerfMapEnabled=1";

/// What to type next; adapts to what was found and to where the profile is.
pub fn hints(page: &mut Page, report: &Report<'_>, options: &Options) {
    let analysis = report.analysis;
    let mut flags = Vec::new();
    let lock = analysis.findings.iter().find_map(|finding| {
        let ids = subject::ids(&finding.subject);
        let seen = ids.objects.first().filter(|id| {
            analysis.locks.iter().any(|row| row.object == **id)
                || analysis.events.iter().any(|row| row.object == **id)
        });
        seen.map(|id| names::object_of(report.model, *id))
    });
    if let Some(lock) = lock {
        flags.push(format!("--lock {}", tied(&quoted(&lock))));
    }
    if analysis.groups.len() > 1 || analysis.groups.iter().any(|group| group.threads > 1) {
        flags.push("--thread-groups".into());
    }
    if report.critical.is_some() {
        flags.push("--critical".into());
    }
    if report.sections.is_some() {
        flags.push("--sections".into());
    }
    if !analysis.locks.is_empty() || !analysis.events.is_empty() || report.critical.is_some() {
        flags.push("--all".into());
    }
    if flags.is_empty() {
        return;
    }
    page.gap();
    let spans = match &options.source {
        Source::File(file) => {
            vec![
                plain(format!("convoy report {} ", tied(&quoted(file)))),
                plain(flags.join(" | ")),
            ]
        }
        Source::Last(command) => vec![plain(format!("{command} {}", flags.join(" | ")))],
        Source::Live => vec![
            plain("record once, look often: convoy record -o run.convoy -- "),
            plain(names::clip(&report.model.meta.command.join(" "), 40)),
            plain(format!(
                "; then convoy report run.convoy {}",
                flags.join(" | ")
            )),
        ],
    };
    page.hang(0, toned(Tone::Title, "More"), LABEL, spans);
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-./:=+@%,".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A word of a command, to stay on one line.
pub(crate) fn tied(word: &str) -> String {
    word.replace(' ', &TIED.to_string())
}

/// Share of the CPU time taken by a hypervisor from which on measurements suffer.
const STOLEN: f64 = 0.03;

/// What was lost, what the recording cost, what has no name, what was not observable.
pub fn quality(page: &mut Page, report: &Report<'_>) {
    let quality = quality::of(report.model);
    title(page, report, &quality);
    let line = |page: &mut Page, tone, label: &str, text: String| {
        page.hang(0, toned(tone, label), LABEL, vec![plain(text)]);
    };
    for loss in &quality.losses {
        let tone = if loss.numbers_are_missing {
            Tone::Bad
        } else {
            Tone::Warn
        };
        let Loss {
            reason,
            count: n,
            meaning,
            ..
        } = loss;
        line(
            page,
            tone,
            "lost",
            format!("{} {meaning} [{reason}]", count(*n)),
        );
    }
    if let Some(first) = report.model.meta.damage.first() {
        line(page, Tone::Bad, "damage", first.clone());
    }
    if let Some((module, why, sites)) = quality.stacks.unnamed_by_module.first() {
        let (module, why) = match (module.as_str(), why.as_str()) {
            ("", _) => ("generated code", HOW_TO_NAME),
            (module, "") => (module, "no symbol"),
            (module, why) => (module, why),
        };
        let sites = count_of(*sites as u64, "site", "sites");
        line(
            page,
            Tone::Warn,
            "names",
            format!("{sites} in {module} without a name: {why}"),
        );
    }
    if let Some((module, sites)) = quality.stacks.no_line_by_module.first() {
        let text = format!(
            "{} in {module} without a line: build it with -g or install its debug symbols",
            count_of(*sites as u64, "site", "sites")
        );
        line(page, Tone::Dim, "names", text);
    }
    // An active one can have seen less than it could: the scheduler by perf events, for example.
    let limited = |c: &&Collector| !c.active || !c.lost.is_empty() || !c.enable.is_empty();
    for collector in report.model.meta.collectors.iter().filter(limited) {
        let mut text = format!("{}: {}", collector.name, collector.lost);
        if !collector.enable.is_empty() {
            text += &format!("; to enable: {}", collector.enable);
        }
        line(page, Tone::Dim, NOT_SEEN, text);
    }
    if let Some(text) = blind_spots(report) {
        line(page, Tone::Dim, NOT_SEEN, text);
    }
    if let Some(text) = without_agent(report) {
        line(page, Tone::Dim, NOT_SEEN, text);
    }
    if let Some(share) = quality::stolen_ratio(&report.model.meta).filter(|s| *s >= STOLEN) {
        let text = format!(
            "the hypervisor gave {} of this machine's CPU time to others meanwhile: run again when it is quiet",
            percent(share)
        );
        line(page, Tone::Warn, "note", text);
    }
    for text in report.critical.iter().flat_map(|c| remarks(&c.quality)) {
        line(page, Tone::Warn, "note", text);
    }
    for note in &report.model.meta.notes {
        line(page, Tone::Warn, "note", note.clone());
    }
}

/// In a line or two: what was lost, and what was not seen.
pub fn doubts(page: &mut Page, report: &Report<'_>) {
    title(page, report, &quality::of(report.model));
    if let Some(text) = blind_spots(report) {
        page.hang(0, toned(Tone::Dim, NOT_SEEN), LABEL, vec![plain(text)]);
    }
}

fn title(page: &mut Page, report: &Report<'_>, quality: &Quality) {
    page.gap();
    let summary = summary(page, report, quality);
    page.hang(0, toned(Tone::Title, "Quality"), LABEL, summary);
}

/// What could cost time without a trace in this recording.
fn blind_spots(report: &Report<'_>) -> Option<String> {
    let sources = report.analysis.sources;
    let texts: Vec<_> = sources.blind_spots().iter().map(|s| s.text()).collect();
    (!texts.is_empty() && !report.model.threads.is_empty())
        .then(|| format!("{}: {}", texts.join(", "), sources.remedy.text()))
}

/// What a reader of the scheduler's numbers must know.
fn remarks(q: &convoy_analysis::scheduler::Quality) -> Vec<String> {
    let mut texts = q.remarks.clone();
    if is_off(q) {
        texts.push("the scheduler's numbers do not add up (--critical: by how much)".into());
    }
    texts
}

/// Processes that are named in a line.
const NAMED: usize = 3;

/// Processes of which only the scheduler tells, and how to see their locks. Nothing if no process carries the
/// agent: its collector says so.
fn without_agent(report: &Report<'_>) -> Option<String> {
    let collectors = &report.model.meta.collectors;
    if collectors.iter().any(|c| c.name == "agent" && !c.active) {
        return None;
    }
    let processes = report.model.processes.iter();
    let names: Vec<_> = processes
        .filter(|p| p.without_agent)
        .map(|p| match p.name.as_str() {
            // It ended before anybody could read what it was.
            "" => format!("process {}", p.pid),
            name => format!("{name} ({})", p.pid),
        })
        .collect();
    let listed = names.get(..NAMED).unwrap_or(&names).join(", ");
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "agent: which locks are waited for and who holds them in {listed}{more}; to enable: start it with convoy -- COMMAND (no static or Go program can carry the agent)"
        )
    })
}

fn summary(page: &Page, report: &Report<'_>, quality: &Quality) -> Vec<Span> {
    let mut spans = Vec::new();
    spans.push(if quality.losses.is_empty() {
        toned(Tone::Good, "nothing lost")
    } else if quality.losses.iter().any(|loss| loss.numbers_are_missing) {
        toned(Tone::Bad, "numbers are missing")
    } else {
        toned(Tone::Warn, "all counted, some details lost")
    });
    let cost = &quality.cost;
    if cost.cpu_ns > 0.0 {
        let share = if cost.cpu_ratio > 0.0 {
            format!("~{} of the CPU time", percent(cost.cpu_ratio.max(0.0001)))
        } else {
            format!("~{}", crate::human::duration(cost.cpu_ns))
        };
        let of_what = match cost.calls {
            0 => String::new(),
            calls => format!(
                " ({}, {})",
                count_of(calls, "call", "calls"),
                count_of(cost.stacks, "stack", "stacks")
            ),
        };
        let dot = page.dot();
        spans.push(plain(format!("{dot}convoy's own cost {share}{of_what}")));
    }
    let stacks = &quality.stacks;
    if stacks.sites > 0 {
        let bad = stacks.without_frames + stacks.unnamed;
        let text = if bad == 0 {
            format!(
                "{}all {} sites have names",
                page.dot(),
                count(stacks.sites as u64)
            )
        } else {
            let (bad, all) = (count(bad as u64), count(stacks.sites as u64));
            format!("{}{bad} of {all} sites without a name", page.dot())
        };
        spans.push(plain(text));
    }
    if let Some(critical) = report.critical {
        let events = count_of(critical.quality.events, "event", "events");
        let source = match critical.quality.source {
            SchedSource::Bpf => "eBPF",
            SchedSource::Perf => "perf events",
        };
        spans.push(plain(format!(
            "{}{events} of the scheduler ({source})",
            page.dot()
        )));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("mem0.mutex"), "mem0.mutex");
        assert_eq!(quoted("mutex from f() a.c:1"), "'mutex from f() a.c:1'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
