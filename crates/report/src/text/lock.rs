//! `--lock X`: all that is known about one object.

use std::collections::BTreeMap;

use convoy_analysis::counters::{EventRow, LockRow, LockStats, Quadrant, WaitsFor};
use convoy_model::{bucket_floor, Model, Object, ObjectId, Pair, SiteFrame, SiteId, ThreadId, Use};

use super::findings::waits_line;
use super::page::{cell, cell_right, plain, toned, Page, Tone};
use crate::human::{count, count_of, duration, few, percent, rate};
use crate::{find, names, waits, Report};

const INDENT: usize = 2;

/// Objects that get a page of their own when more than one matches.
const PAGES: usize = 3;

/// Pairs of call stacks that are shown in full.
const ENDS: usize = 8;

/// Pairs of threads that are named for each of them.
const THREAD_PAIRS: usize = 6;

/// The pages of the objects that match.
pub fn write(page: &mut Page, report: &Report<'_>, pattern: &str) -> Result<(), String> {
    let found = find::objects(report.model, report.analysis, pattern).map_err(|why| {
        format!("--lock {pattern}: no regular expression ({why}); no object matches it as plain text either; --all lists all names")
    })?;
    if found.is_empty() {
        let known = report.analysis.locks.len() + report.analysis.events.len();
        return Err(format!(
            "--lock {pattern}: none of {known} objects has this name, address or site; --all lists them"
        ));
    }
    for id in found.iter().take(PAGES) {
        one(page, report, *id);
    }
    if found.len() > PAGES {
        page.title(&format!("{} more match", found.len() - PAGES));
        for id in &found[PAGES..] {
            if let Some(object) = report.model.objects.get(id.0 as usize) {
                let text = format!("0x{:<14x} {}", object.addr, names::object(object));
                page.line(INDENT, vec![plain(text)]);
            }
        }
    }
    Ok(())
}

fn one(page: &mut Page, report: &Report<'_>, id: ObjectId) {
    let Some(object) = report.model.objects.get(id.0 as usize) else {
        return;
    };
    identity(page, report.model, object);
    let lock = report.analysis.locks.iter().find(|row| row.object == id);
    let event = report.analysis.events.iter().find(|row| row.object == id);
    let (hist, waits_for): (&[u64], &[WaitsFor]) = match (lock, event) {
        (Some(row), _) => {
            lock_numbers(page, report, row);
            (&row.stats.wait_hist, &row.waits_for)
        }
        (None, Some(row)) => {
            event_numbers(page, row);
            (&row.wait_hist, &row.waits_for)
        }
        (None, None) => (&[], &[]),
    };
    let uses: Vec<_> = report.model.uses_of(id).iter().collect();
    sites(page, report.model, &uses);
    threads(page, report.model, &uses);
    histogram(page, hist);
    meanwhile(page, report, id);
    if !waits_for.is_empty() {
        page.title("Who waits for whom");
        for waits in waits::alike(report.model, waits_for) {
            page.line(INDENT, waits_line(report, &waits.sum, lock.is_some()));
            if let Some(callers) = waits.callers(report.model) {
                let text = format!("called from {callers}");
                page.line(INDENT + 2, vec![toned(Tone::Dim, text)]);
            }
        }
    }
    let pairs: Vec<_> = report
        .model
        .pairs
        .iter()
        .filter(|p| p.object == id)
        .collect();
    stacks(page, report.model, &pairs, lock.is_some());
}

fn identity(page: &mut Page, model: &Model, object: &Object) {
    page.title(&names::object(object));
    let mut facts = vec![
        names::kind(object.kind).to_owned(),
        format!("at 0x{:x}", object.addr),
    ];
    if let Some(process) = model.processes.get(object.process.0 as usize) {
        facts.push(format!("in {} (pid {})", process.name, process.pid));
    }
    if let Some(site) = object.init_site {
        facts.push(format!("initialised at {}", names::site_of(model, site)));
    }
    if object.lives > 1 {
        facts.push(format!("{} objects in turn at this address", object.lives));
    }
    page.line(INDENT, vec![plain(facts.join(", "))]);
}

fn lock_numbers(page: &mut Page, report: &Report<'_>, row: &LockRow) {
    let LockStats {
        acquisitions,
        contended,
        ..
    } = row.stats;
    let s = &row.stats;
    let mut lines = Vec::new();
    match s.contention_ratio {
        Some(ratio) => lines.push(format!(
            "{} ({}), {} contended ({}), {}",
            count_of(acquisitions, "acquisition", "acquisitions"),
            rate(s.frequency_hz),
            count(contended),
            percent(ratio),
            quadrant(s.quadrant)
        )),
        None if s.try_calls > 0 => lines.push("taken by trylock only, which never waits".into()),
        None => lines.push(format!(
            "{}; uncontended acquisitions of a raw futex are not visible",
            count_of(contended, "contended acquisition", "contended acquisitions")
        )),
    }
    lines.push(format!(
        "waits {} in all, longest {}, {} of the time of {}",
        duration(s.wait_ns as f64),
        duration(s.wait_max_ns as f64),
        percent(s.waited_ratio),
        count_of(s.threads as u64, "thread", "threads")
    ));
    let mean = |ns: Option<f64>| ns.map_or_else(|| "not timed".into(), duration);
    lines.push(format!(
        "hold: mean {} uncontended (sampled), {} contended, longest {}, {} in all (estimated)",
        mean(s.hold_sampled_ns),
        mean(s.hold_contended_ns),
        duration(s.hold_max_ns as f64),
        duration(s.hold_total_ns)
    ));
    if let Some(ns) = s.acquire_ns {
        lines.push(format!(
            "an uncontended acquire costs {} (sampled)",
            duration(ns)
        ));
    }
    if s.try_calls > 0 {
        lines.push(format!(
            "trylock: {} of {} failed ({}), {} spent trying",
            count(s.try_failed),
            count_of(s.try_calls, "call", "calls"),
            percent(s.try_failed as f64 / s.try_calls as f64),
            duration(s.try_busy_ns as f64)
        ));
    }
    if s.timeouts > 0 {
        lines.push(count_of(s.timeouts, "acquire gave up", "acquires gave up"));
    }
    if let Some(family) = row.family.and_then(|ix| report.analysis.families.get(ix)) {
        lines.push(format!(
            "one of {} locks that are taken at {}",
            family.locks.len(),
            names::site_of(report.model, family.site)
        ));
    }
    if s.estimated {
        lines.push("the split of some counts over locks and sites comes from samples".into());
    }
    for line in lines {
        page.line(INDENT, vec![plain(line)]);
    }
}

/// Where a lock stands in the plane of SyncPerf's figure 3.
pub(super) fn quadrant(quadrant: Quadrant) -> &'static str {
    match quadrant {
        Quadrant::Q1 => "Q1: seldom taken, often contended",
        Quadrant::Q2 => "Q2: often taken, often contended",
        Quadrant::Q3 => "Q3: seldom taken, seldom contended",
        Quadrant::Q4 => "Q4: often taken, seldom contended",
        Quadrant::Unknown => "frequency not visible",
    }
}

fn event_numbers(page: &mut Page, row: &EventRow) {
    let waits = format!(
        "{} waits in {}: {} in all, longest {}, {} of the time of {}",
        count(row.waits),
        count_of(row.calls, "call", "calls"),
        duration(row.wait_ns as f64),
        duration(row.wait_max_ns as f64),
        percent(row.waited_ratio),
        count_of(row.threads as u64, "thread", "threads")
    );
    page.line(INDENT, vec![plain(waits)]);
    let mut ends = count_of(row.wakes, "wake call", "wake calls");
    if row.timeouts > 0 {
        ends += &format!(", {}", count_of(row.timeouts, "timeout", "timeouts"));
    }
    page.line(INDENT, vec![plain(ends)]);
    if !row.why.is_empty() {
        page.line(INDENT, vec![plain(row.why.clone())]);
    }
}

/// Sums over the uses that share a key.
#[derive(Debug, Default)]
struct Sum {
    calls: u64,
    failed: u64,
    waits: u64,
    wait_ns: u64,
    wait_max_ns: u64,
    hold_n: u64,
    hold_ns: u64,
}

impl Sum {
    fn add(&mut self, u: &Use) {
        self.calls += u.calls;
        self.failed += u.failed;
        self.waits += u.waits;
        self.wait_ns += u.wait_ns;
        self.wait_max_ns = self.wait_max_ns.max(u.wait_max_ns);
        self.hold_n += u.hold_contended_n + u.hold_sampled_n;
        self.hold_ns += u.hold_contended_ns + u.hold_sampled_ns;
    }

    fn cells(&self) -> String {
        let hold = self.hold_ns.checked_div(self.hold_n);
        let hold = hold.map_or_else(|| "-".into(), |ns| duration(ns as f64));
        [
            (count(self.calls), 9),
            (count(self.failed), 9),
            (count(self.waits), 9),
            (duration(self.wait_ns as f64), 10),
            (duration(self.wait_max_ns as f64), 10),
            (hold, 10),
        ]
        .iter()
        .map(|(text, width)| cell_right(text, *width))
        .collect()
    }

    const HEAD: [(&'static str, usize); 6] = [
        ("calls", 9),
        ("failed", 9),
        ("waited", 9),
        ("wait", 10),
        ("longest", 10),
        ("mean hold", 10),
    ];
    const WIDTH: usize = 57;
}

fn table(page: &mut Page, title: &str, mut rows: Vec<(String, Sum)>) {
    if rows.is_empty() {
        return;
    }
    page.title(title);
    rows.sort_by(|(a_name, a), (b_name, b)| {
        (b.wait_ns, b.calls)
            .cmp(&(a.wait_ns, a.calls))
            .then_with(|| a_name.cmp(b_name))
    });
    let name_width = page.width().saturating_sub(Sum::WIDTH + INDENT).max(24);
    let head: String = Sum::HEAD
        .iter()
        .map(|(text, width)| cell_right(text, *width))
        .collect();
    let indent = " ".repeat(INDENT);
    page.row(&[
        plain(indent.clone()),
        toned(Tone::Dim, cell("", name_width) + &head),
    ]);
    for (name, sum) in rows {
        page.row(&[
            plain(indent.clone()),
            plain(cell(&name, name_width)),
            plain(sum.cells()),
        ]);
    }
}

fn sites(page: &mut Page, model: &Model, uses: &[&Use]) {
    // Call stacks that differ further out are one place.
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for u in uses {
        let op = u.op.map_or("", names::op);
        let place = format!("{op} {}", names::site_of(model, u.site));
        sums.entry(place).or_default().add(u);
    }
    table(page, "Sites", sums.into_iter().collect());
}

fn threads(page: &mut Page, model: &Model, uses: &[&Use]) {
    let mut sums: BTreeMap<ThreadId, Sum> = BTreeMap::new();
    for u in uses {
        sums.entry(u.thread).or_default().add(u);
    }
    let rows = sums
        .into_iter()
        .map(|(id, sum)| (names::thread_of(model, id), sum));
    table(page, "Threads", rows.collect());
}

/// One line per power of two that is between the shortest and the longest wait.
fn histogram(page: &mut Page, hist: &[u64]) {
    let Some(first) = hist.iter().position(|n| *n > 0) else {
        return;
    };
    let last = hist.iter().rposition(|n| *n > 0).unwrap_or(first);
    let most = hist.iter().copied().max().unwrap_or(1).max(1);
    page.title("Waits by length");
    for (i, n) in hist.iter().enumerate().take(last + 1).skip(first) {
        let from = 2f64.powi(i as i32);
        let label = format!("{} - {}", duration(from), duration(from * 2.0));
        let bar = page.tally(*n as f64 / most as f64, 40);
        let line = format!(
            "{}  {}  {bar}",
            cell_right(&label, 21),
            cell_right(&count(*n), 7)
        );
        page.row(&[plain(" ".repeat(INDENT) + &line)]);
    }
}

/// The call stacks at both ends of a wait.
type Ends<'a> = (SiteId, &'a [SiteFrame], Option<SiteId>);

/// How parallel the program was while threads waited for it: waits while others work at full strength cost
/// nothing.
fn meanwhile(page: &mut Page, report: &Report<'_>, id: ObjectId) {
    let (Some(sched), Some(critical)) = (&report.model.sched, report.critical) else {
        return;
    };
    let low_below = critical.parallelism.low_below;
    let (mut all_ns, mut low_ns, mut threads_ns) = (0.0, 0.0, 0.0);
    for off in sched.offs.iter().filter(|off| off.object == Some(id)) {
        for (i, ns) in off.by_working.iter().enumerate() {
            let (threads, ns) = (bucket_floor(i) as f64, *ns as f64);
            all_ns += ns;
            threads_ns += threads * ns;
            if threads < low_below {
                low_ns += ns;
            }
        }
    }
    if all_ns <= 0.0 {
        return;
    }
    page.title("The program meanwhile");
    let text = format!(
        "threads were blocked on it for {}; meanwhile {} threads worked on average, and for {} of that time too few (fewer than {})",
        duration(all_ns),
        few(threads_ns / all_ns),
        percent(low_ns / all_ns),
        few(low_below)
    );
    page.line(INDENT, vec![plain(text)]);
}

/// Waits with the same stacks at both ends together, most waited first, each with its threads.
fn stacks(page: &mut Page, model: &Model, pairs: &[&Pair], is_lock: bool) {
    let mut by_ends: BTreeMap<Ends<'_>, Vec<&Pair>> = BTreeMap::new();
    for pair in pairs {
        let ends = (pair.site, pair.peer_acquired_at.as_slice(), pair.peer_site);
        by_ends.entry(ends).or_default().push(pair);
    }
    let total = |pairs: &[&Pair]| pairs.iter().map(|p| p.wait_ns).sum::<u64>();
    let mut all: Vec<_> = by_ends.into_iter().collect();
    all.sort_by_key(|(_, pairs)| std::cmp::Reverse(total(pairs)));
    if !all.is_empty() {
        page.title("Both ends of the waits");
    }
    for ((site, acquired, released), pairs) in all.iter().take(ENDS) {
        let waits: u64 = pairs.iter().map(|p| p.waits).sum();
        let longest = pairs.iter().map(|p| p.wait_max_ns).max().unwrap_or(0);
        let head = format!(
            "{} in {}, longest {}",
            duration(total(pairs) as f64),
            count_of(waits, "wait", "waits"),
            duration(longest as f64)
        );
        page.line(INDENT, vec![toned(Tone::Strong, head)]);
        let of = |id: SiteId| {
            model
                .sites
                .get(id.0 as usize)
                .map_or(&[][..], |s| &s.frames)
        };
        frames(page, "waits at", of(*site));
        if is_lock {
            frames(page, "held since", acquired);
        }
        frames(
            page,
            if is_lock { "released" } else { "woken at" },
            released.map_or(&[][..], of),
        );
        page.hang(
            INDENT + 2,
            toned(Tone::Dim, "threads"),
            12,
            vec![plain(who(page, model, pairs))],
        );
    }
    if all.len() > ENDS {
        let text = format!("and {} more: --format json has all", all.len() - ENDS);
        page.line(INDENT, vec![toned(Tone::Dim, text)]);
    }
}

/// `a (12) -> b (13) 38 ms, ...`, most waited first.
fn who(page: &Page, model: &Model, pairs: &[&Pair]) -> String {
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|p| (std::cmp::Reverse(p.wait_ns), p.thread, p.peer));
    let text = |pair: &&Pair| {
        let waiter = names::thread_of(model, pair.thread);
        let peer = pair
            .peer
            .map_or_else(|| "unknown".into(), |id| names::thread_of(model, id));
        format!(
            "{waiter} {} {peer} {}",
            page.arrow(),
            duration(pair.wait_ns as f64)
        )
    };
    let mut texts: Vec<_> = pairs.iter().take(THREAD_PAIRS).map(text).collect();
    if pairs.len() > THREAD_PAIRS {
        texts.push(format!("and {} more", pairs.len() - THREAD_PAIRS));
    }
    texts.join(", ")
}

fn frames(page: &mut Page, label: &str, frames: &[SiteFrame]) {
    if frames.is_empty() {
        page.hang(
            INDENT + 2,
            toned(Tone::Dim, label),
            11,
            vec![toned(Tone::Dim, "not seen")],
        );
    }
    for (i, frame) in frames.iter().enumerate() {
        let mut text = names::frame(frame);
        if frame.inlined {
            text += " (inlined)";
        }
        if frame.function.is_empty() && !frame.unknown.is_empty() {
            text += &format!(" ({})", frame.unknown);
        }
        let label = if i == 0 { label } else { "" };
        page.hang(INDENT + 2, toned(Tone::Dim, label), 12, vec![plain(text)]);
    }
}
