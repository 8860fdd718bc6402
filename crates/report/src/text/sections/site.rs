//! One place: the verdict first, then what it was made from.

use convoy_diagnose::{called_name, CallRow, PartitionBy, Share, SiteRow, Spread, Verdict};
use convoy_model::{Region, SectionEnd, Sharing};

use super::{lines, LABEL};
use crate::human::{bytes, count, count_of, duration, few, percent};
use crate::text::page::{plain, toned, Page, Tone};
use crate::text::table::{Column, Table, INDENT};
use crate::{names, Report};

/// Pieces of memory that are named.
const DATA: usize = 6;
/// Kinds of calls that are shown.
const CALLS: usize = 6;

/// All about one place.
pub fn write(page: &mut Page, report: &Report<'_>, row: &SiteRow) {
    page.gap();
    let title = format!(
        "{} at {}",
        lock_name(report, row),
        names::site_of(report.model, row.site)
    );
    page.line(0, vec![toned(Tone::Title, title)]);
    verdict(page, &row.verdict);
    line(page, "traced", traced(row));
    numbers(page, row);
    shares(page, row);
    memory(page, row);
    lines::write(page, row);
    calls(page, report, &row.calls);
    parts(page, report, row);
}

/// The lock, or what the locks have in common.
pub fn lock_name(report: &Report<'_>, row: &SiteRow) -> String {
    match (&row.locks[..], row.lock_count) {
        ([one], 0 | 1) => names::object_of(report.model, *one),
        ([], _) => "a lock".into(),
        ([first, ..], n) => {
            let first = names::object_of(report.model, *first);
            format!("{} (such as {first})", count_of(n, "lock", "locks"))
        }
    }
}

fn line(page: &mut Page, label: &str, text: String) {
    if !text.is_empty() {
        page.hang(INDENT, toned(Tone::Dim, label), LABEL, vec![plain(text)]);
    }
}

fn verdict(page: &mut Page, verdict: &Verdict) {
    for (i, cause) in verdict.causes.iter().enumerate() {
        let label = match (verdict.undecided.is_empty(), i) {
            (true, _) => "why",
            (false, 0) => "maybe",
            (false, _) => "or",
        };
        line(page, label, format!("{} [{}]", cause.text, cause.id));
        line(page, "fix", cause.fix.clone());
    }
    line(page, "undecided", verdict.undecided.clone());
    let seen: Vec<&str> = verdict.evidence.iter().map(|e| e.text.as_str()).collect();
    line(page, "seen", seen.join("; "));
}

fn traced(row: &SiteRow) -> String {
    let mut text = format!(
        "{} to their end of {} traced, of {} run by {}",
        count(row.whole),
        count(row.traced),
        count(row.run),
        count_of(u64::from(row.threads), "thread", "threads")
    );
    let cut: Vec<String> = SectionEnd::ALL
        .iter()
        .zip(row.ends)
        .filter(|(end, n)| !end.is_whole() && *n > 0)
        .map(|(end, n)| format!("{} {}", count(n), end_name(*end)))
        .collect();
    if !cut.is_empty() {
        text += &format!("; cut: {}", cut.join(", "));
    }
    if row.waited > 0 {
        text += &format!("; {} had to wait for the lock", count(row.waited));
    }
    if row.sampled < row.whole {
        text += &format!(
            "; quantiles and shares from {} at random",
            count(row.sampled)
        );
    }
    text
}

/// Why a record was cut, for people.
pub fn end_name(end: SectionEnd) -> &'static str {
    match end {
        SectionEnd::Released => "released",
        SectionEnd::Waited => "waited on a condition variable",
        SectionEnd::TooLong => "too long",
        SectionEnd::Signal => "by a signal handler",
        SectionEnd::Process => "by a new process or thread",
        SectionEnd::Code => "in generated or unreadable code",
        SectionEnd::Left => "left the tracer",
        SectionEnd::NoRoom => "for lack of room",
        SectionEnd::Thread => "by the end of the thread",
    }
}

const COLUMNS: [Column; 4] = [("mean", 10), ("median", 10), ("95 %", 10), ("max", 10)];

fn numbers(page: &mut Page, row: &SiteRow) {
    let table = Table::new(page, &COLUMNS);
    table.head(page, "of a section");
    let mut put = |name: &str, spread: &Spread, unit: fn(f64) -> String| {
        let values = [spread.mean, spread.median, spread.p95, spread.max];
        table.row(page, name, &values.map(unit), "");
    };
    put("instructions", &row.instructions, few);
    put("memory accesses", &row.accesses, few);
    put("reads", &row.reads, few);
    put("writes", &row.writes, few);
    put("to shared words", &row.shared, few);
    put("distinct words", &row.words, few);
    put("bytes", &row.bytes, |n| bytes(n.round() as u64));
    put("time, traced", &row.traced_ns, duration);
    if let Some(ns) = row.hold_ns {
        let name = "time held, by the agent";
        table.row(page, name, &[duration(ns)], "");
    }
}

fn share(name: &str, share: &Share) -> String {
    format!(
        "{name} {} ({}-{:.0} %)",
        percent(share.share),
        (share.low * 100.0).round(),
        share.high * 100.0
    )
}

fn shares(page: &mut Page, row: &SiteRow) {
    let mut all = vec![
        share("only read", &row.read_only),
        share("one shared word, once", &row.one_word),
        share("nothing shared", &row.nothing_shared),
        share("block inside", &row.blocking),
    ];
    if let Some(conflicts) = &row.conflicts {
        all.push(share("pairs that conflict", conflicts));
    }
    line(page, "sections", all.join("; "));
}

/// Kinds of memory, for people.
pub fn region_name(region: Region) -> &'static str {
    match region {
        Region::Heap => "heap",
        Region::Global => "global",
        Region::Stack => "stack",
        Region::ThreadLocal => "thread-local",
        Region::Lock => "the lock itself",
    }
}

/// How words are shared, for people.
pub fn sharing_name(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Local => "of one thread",
        Sharing::ReadOnly => "only read",
        Sharing::Rare => "seen too rarely to say",
        Sharing::Overwritten => "overwritten",
        Sharing::Shared => "shared",
    }
}

const SHARINGS: [Sharing; 5] = [
    Sharing::Shared,
    Sharing::ReadOnly,
    Sharing::Overwritten,
    Sharing::Rare,
    Sharing::Local,
];

fn memory(page: &mut Page, row: &SiteRow) {
    let by = SHARINGS
        .iter()
        .map(|&sharing| (sharing, row.distinct_by_sharing[sharing as usize]))
        .filter(|(_, share)| *share > 0.0)
        .map(|(sharing, share)| format!("{} {}", percent(share), sharing_name(sharing)));
    let by: Vec<String> = by.collect();
    let regions: Vec<String> = row
        .regions
        .iter()
        .map(|of| {
            let shared = percent(of.shared);
            format!(
                "{} {} ({shared} shared)",
                few(of.words),
                region_name(of.region)
            )
        })
        .collect();
    let mut text = format!(
        "{} distinct words over all: {}",
        count(row.distinct_words),
        by.join(", ")
    );
    if !regions.is_empty() {
        text += &format!("; words of a section: {}", regions.join(", "));
    }
    if row.allocator > 0.0 {
        text += &format!(
            "; {} of the instructions hand out or take back memory",
            percent(row.allocator)
        );
    }
    line(page, "memory", text);
    let data: Vec<String> = row
        .data
        .iter()
        .take(DATA)
        .map(|of| {
            let (accesses, sections) = (few(of.accesses), percent(of.sections));
            format!(
                "{} ({}, {accesses} accesses, in {sections} of the sections)",
                of.name,
                sharing_name(of.sharing)
            )
        })
        .collect();
    line(page, "data", data.join("; "));
}

fn calls(page: &mut Page, report: &Report<'_>, calls: &[CallRow]) {
    let texts: Vec<String> = calls
        .iter()
        .take(CALLS)
        .map(|call| {
            let mut text = called_name(report.model, call.what);
            if let Some(frame) = &call.frame {
                text += &format!(" in {}", names::frame(frame));
            }
            text += &format!(", {} a section", few(call.per_section));
            if call.waits > 0 {
                text += &format!(", waited {} in all", duration(call.wait_ns as f64));
            }
            text
        })
        .collect();
    line(page, "calls", texts.join("; "));
}

fn parts(page: &mut Page, report: &Report<'_>, row: &SiteRow) {
    let Some(partition) = &row.partition else {
        return;
    };
    let largest: Vec<String> = partition
        .largest
        .iter()
        .map(|part| {
            let share = percent(part.sections);
            let own = matches!(partition.by, PartitionBy::Place | PartitionBy::Field);
            let at = part.at.filter(|_| own);
            let at = at.map(|site| format!(", at {}", names::site_of(report.model, site)));
            let at = at.unwrap_or_default();
            format!("{} in {share} of the sections{at}", part.name)
        })
        .collect();
    let mut text = format!(
        "{} that no section uses together: {}",
        count(partition.parts as u64),
        largest.join("; ")
    );
    if !partition.common.is_empty() {
        let common: Vec<&str> = partition.common.iter().map(|of| of.name.as_str()).collect();
        text += &format!("; apart from what most use: {}", common.join(", "));
    }
    line(page, "parts", text);
}
