//! Every sentence that a replay says to a person: terminal, page and documents use the same ones.

use convoy_estimate::{Check, Estimate, Interval, Method, WhatIf};
use convoy_model::finding::Gain;
use convoy_replay::analysis::{
    Access, Analysis, CurvePoint, LockRow, Place, PlanRow, Race, Recorded, Region, Ulcp,
    UlcpCounts, WhatIfRow,
};
use convoy_replay::fidelity::{self, Quantity};
use convoy_replay::predict::{Answer, Baseline};
use convoy_replay::whatif::quoted;
use convoy_trace::Mode;

use super::caveats::BOTH_RUNS;
use super::gain;
use super::source::Role;
use crate::human::{self, count, count_of, deviation, duration, percent};

/// Classes of pairs: id, name, what it means.
pub const CLASSES: [(&str, &str, &str); 6] = [
    (
        "null-lock",
        "null-lock",
        "one of the two touches no shared data",
    ),
    ("read-read", "read-read", "both only read the shared data"),
    (
        "disjoint-write",
        "disjoint-write",
        "they share nothing that either writes",
    ),
    (
        "benign",
        "benign",
        "conflicting, but either order gives the same result",
    ),
    (
        "true-contention",
        "true contention",
        "conflicting, and the order matters",
    ),
    (
        "unknown",
        "unknown",
        "their sets, or the effect of their order, unknown",
    ),
];

/// How often each of [`CLASSES`] was found.
pub fn by_class(counts: &UlcpCounts) -> [u64; 6] {
    [
        counts.null_lock,
        counts.read_read,
        counts.disjoint_write,
        counts.benign,
        counts.true_contention,
        counts.unknown,
    ]
}

/// The name of a class.
pub fn class(id: &str) -> &str {
    let known = CLASSES.iter().find(|class| class.0 == id);
    known.map_or(id, |class| class.1)
}

/// The name of a method, for headings and sentences.
pub fn method(method: Method) -> &'static str {
    match method {
        Method::Accounting => "accounting",
        Method::ReplaySimulated => "simulated",
        Method::ReplayNative => "native",
        Method::Experiment => "experiment",
        Method::Measured => "measured",
    }
}

/// `function() file:line`, or as much of it as is known.
pub fn place(place: &Place) -> String {
    let name = function(place);
    match jump(place) {
        Some(to) if name.is_empty() => to,
        Some(to) => format!("{name} {to}"),
        None if name.is_empty() => "unknown place".into(),
        None => name,
    }
}

/// `function()`; an address in a module is none.
pub fn function(place: &Place) -> String {
    let is_name = !place.function.is_empty() && !place.function.contains("+0x");
    let call = is_name && !place.function.contains('(');
    format!("{}{}", place.function, if call { "()" } else { "" })
}

/// `file:line` as editors jump to it.
pub fn jump(place: &Place) -> Option<String> {
    let known = !place.file.is_empty() && place.line > 0;
    known.then(|| format!("{}:{}", place.file, place.line))
}

/// The process.
pub fn subject(analysis: &Analysis) -> String {
    let command = analysis.command.join(" ");
    match (command.is_empty(), analysis.pid) {
        (true, pid) => format!("process {pid}"),
        (false, 0) => command,
        (false, pid) => format!("{command} (process {pid})"),
    }
}

/// What was recorded, in parts of a line.
pub fn recorded(recorded: &Recorded) -> Vec<String> {
    let wall = duration(recorded.wall_ns);
    let time = match recorded.mode {
        Mode::Full => format!("{wall}, complete"),
        Mode::Windows => format!(
            "{wall} ({} in {})",
            duration(recorded.replayed_ns),
            count_of(recorded.windows.0 as u64, "window", "windows")
        ),
        Mode::Last(ns) => format!("{wall} (the last {})", duration(ns as f64)),
    };
    vec![
        time,
        count_of(recorded.events as u64, "event", "events"),
        count_of(
            recorded.sections as u64,
            "critical section",
            "critical sections",
        ),
        count_of(recorded.threads as u64, "thread", "threads"),
        count_of(u64::from(recorded.cpus), "CPU", "CPUs"),
    ]
}

/// Whether each replay gives the recorded run back: its time, and how far off that is.
pub fn fidelity(baseline: &Baseline) -> String {
    let name = method(baseline.method);
    match baseline.median_ns() {
        None => format!("{name} replay: none"),
        Some(ns) => format!(
            "{name} replay {} ({})",
            duration(ns),
            deviation(ns, baseline.recorded_ns)
        ),
    }
}

/// What follows from the fidelity.
pub fn fidelity_verdict(analysis: &Analysis) -> &'static str {
    let refused = |b: &&Baseline| b.refused.is_some();
    match analysis.baselines.iter().filter(refused).count() {
        _ if analysis.baselines.is_empty() => "nothing was replayed",
        0 => "predictions hold",
        _ if analysis.is_trusted() => "predictions hold for the replay that is close",
        _ => "no predictions",
    }
}

const NOT_PREDICTED: &str = "What that costs is not predicted: no replay matches the recorded run.";

const NO_LOCK: &str = "No mutex, reader-writer or spin lock of the C library was seen";

/// Main cause, subject and expected gain: the first line or two of the report.
pub fn verdict(analysis: &Analysis) -> String {
    let counts = &analysis.ulcp.counts;
    if analysis.recorded.threads <= 1 {
        return "There is no contention to replay.".into();
    }
    let best = largest(analysis);
    if analysis.recorded.sections == 0 {
        return match best {
            Some(best) => format!("{NO_LOCK}. {best}"),
            None if analysis.what_ifs.is_empty() => format!("{NO_LOCK}: nothing to replay."),
            None if !analysis.is_trusted() => {
                format!("{NO_LOCK}, and no replay matches the recorded run: no gain is predicted.")
            }
            None => format!("{NO_LOCK}. No what-if gains anything."),
        };
    }
    let trusted = analysis.is_trusted();
    match (analysis.regions.first(), &analysis.ulcp.unknown_because) {
        (Some(region), _) if trusted && gain::is_reportable(&region.answer) => format!(
            "Main cause: {} contention at {}, {} of the cost of unnecessary contention. \
             Expected gain {}.",
            class(region.kind),
            region.lock,
            percent(region.p),
            gain::of_answer(&region.answer)
        ),
        (Some(_), _) if trusted && pays_together(analysis) => {
            format!(
            "No single code region is worth a fix; without all unnecessary contention the gain is \
             {}.",
            analysis.ulcp_free.as_ref().map_or_else(String::new, gain::of_answer)
        )
        }
        (Some(region), _) if trusted && gain::is_none(&region.answer) => format!(
            "{} are unnecessary, but removing them gains nothing: {} is not a bottleneck.",
            pairs_of(counts.unnecessary(), counts.pairs()),
            region.lock
        ),
        (Some(region), _) if trusted => {
            let unsure = format!(
                "{} are unnecessary. Whether removing them gains anything is uncertain: {}.",
                pairs_of(counts.unnecessary(), counts.pairs()),
                gain::of_answer(&region.answer)
            );
            best.map_or_else(|| unsure.clone(), |best| format!("{unsure} {best}"))
        }
        (Some(_), _) => format!(
            "{} are unnecessary. {NOT_PREDICTED}",
            pairs_of(counts.unnecessary(), counts.pairs())
        ),
        (None, Some(_)) => unknown_verdict(analysis, trusted),
        (None, None) if counts.pairs() == 0 => match best {
            Some(best) => format!("No two threads take the same lock. {best}"),
            None => "No two threads take the same lock: they do not contend for locks.".into(),
        },
        (None, None) if counts.unnecessary() > 0 => {
            let pairs = pairs_of(counts.unnecessary(), counts.pairs());
            match analysis
                .ulcp_free
                .as_ref()
                .filter(|answer| gain::is_reportable(answer))
            {
                Some(answer) => format!(
                    "{pairs} are unnecessary. Expected gain without them: {}.",
                    gain::of_answer(answer)
                ),
                None if trusted => {
                    format!("{pairs} are unnecessary. No code region costs much of it.")
                }
                None => format!("{pairs} are unnecessary. {NOT_PREDICTED}"),
            }
        }
        (None, None) if counts.unknown == counts.pairs() => unknown_verdict(analysis, trusted),
        (None, None) if counts.unknown > 0 => format!(
            "No unnecessary contention was found; {} could not be judged.",
            pairs_of(counts.unknown, counts.pairs())
        ),
        (None, None) => format!(
            "No unnecessary contention was found among {}.",
            count_of(
                counts.pairs(),
                "pair of critical sections",
                "pairs of critical sections"
            )
        ),
    }
}

fn pays_together(analysis: &Analysis) -> bool {
    analysis.ulcp_free.as_ref().is_some_and(gain::is_reportable)
}

/// The what-if that saves most, if one gains anything.
fn largest(analysis: &Analysis) -> Option<String> {
    let saved = |row: &&WhatIfRow| row.answer.saved().map_or(0.0, |saved| saved.mid);
    let rows = analysis.what_ifs.iter().filter(|_| analysis.is_trusted());
    let best = rows.max_by(|a, b| saved(a).total_cmp(&saved(b)))?;
    gain::is_reportable(&best.answer).then(|| {
        format!(
            "Largest what-if: {}, expected gain {}.",
            best.query,
            gain::of_answer(&best.answer)
        )
    })
}

/// The verdict where only whole locks can be asked about.
fn unknown_verdict(analysis: &Analysis, trusted: bool) -> String {
    const HEAD: &str = "Which contention is unnecessary is unknown.";
    match largest(analysis) {
        Some(best) => format!("{HEAD} {best}"),
        None if trusted => format!("{HEAD} No what-if gains anything."),
        None => format!("{HEAD} No replay matches the recorded run: no gain is predicted."),
    }
}

/// `120 of 150 pairs of critical sections (80 %)`.
pub fn pairs_of(some: u64, all: u64) -> String {
    format!(
        "{} of {} ({})",
        count(some),
        count_of(
            all,
            "pair of critical sections",
            "pairs of critical sections"
        ),
        percent(some as f64 / all.max(1) as f64)
    )
}

/// How much of the contention is unnecessary.
pub fn contention(ulcp: &Ulcp) -> String {
    let counts = &ulcp.counts;
    pairs_of(counts.unnecessary(), counts.pairs())
}

/// What the run without all unnecessary contention gains.
pub fn without(answer: &Answer) -> String {
    format!("gain without it: {}", gain::of_answer(answer))
}

/// The fix of a region, an imperative.
pub fn fix(region: &Region) -> &str {
    match region.kind {
        _ if !region.fix.is_empty() => &region.fix,
        "null-lock" => "Test the condition before you lock, with an atomic flag.",
        "read-read" => "Use a reader-writer lock, or publish a new copy on each write.",
        "disjoint-write" => "Use one lock for each part of the data.",
        "benign" => "Use an atomic, or one value per thread that the reader adds up.",
        _ => "Hold the lock only around accesses to shared data.",
    }
}

/// What-ifs that say something or were asked for: those that were measured first, then most gain
/// first.
pub fn answered(rows: &[WhatIfRow]) -> Vec<&WhatIfRow> {
    let saved = |row: &WhatIfRow| row.answer.saved().map_or(f64::NEG_INFINITY, |s| s.mid);
    let has_answer =
        |row: &&WhatIfRow| row.is_asked || row.verified.is_some() || row.answer.saved().is_some();
    let mut rows: Vec<_> = rows.iter().filter(has_answer).collect();
    let order = |row: &WhatIfRow| (row.verified.is_some(), saved(row));
    rows.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    rows
}

/// Other functions that contend for the region's lock: places to look at, too.
pub fn rivals(region: &Region) -> Vec<&Place> {
    let mut rivals: Vec<&Place> = Vec::new();
    for site in &region.sites {
        let known = region
            .sites
            .first()
            .into_iter()
            .chain(rivals.iter().copied());
        if known
            .into_iter()
            .all(|place| place.function != site.function)
        {
            rivals.push(site);
        }
    }
    rivals
}

/// What is said of a rival.
pub const RIVAL: &str = "contends with it";

/// Methods that contradict each other on one change.
pub fn disagreement(points: f64) -> String {
    format!("methods disagree by {:.0} points", 100.0 * points)
}

/// A step of the plan; `number` from 1.
pub fn plan_step(step: &PlanRow, number: usize) -> String {
    let total = gain::of_answer(&step.answer);
    let queries = step.queries.join(" and ");
    let limit = match &step.limited_by {
        lock if lock.is_empty() || number == 1 => String::new(),
        lock => format!("Then {lock} limits. "),
    };
    let alone = |saved: f64| {
        if saved < gain::MIN_SAVED {
            "nothing".into()
        } else {
            gain::expected(saved)
        }
    };
    let each = step.queries.iter().zip(&step.alone);
    match (number, step.alone.as_slice()) {
        (1, [_]) => format!("{limit}{queries}: {total}."),
        (_, [saved]) => format!("{limit}Add {queries}: {total}. Alone: {}.", alone(*saved)),
        (_, _) => {
            let each = each.map(|(query, saved)| format!("{query} alone: {}", alone(*saved)));
            let each = each.collect::<Vec<_>>().join(", ");
            let verb = if number == 1 { "" } else { "Add " };
            format!("{limit}{verb}{queries} together: {total}. {each}.")
        }
    }
}

/// What was measured of a change, and whether its prediction holds.
pub fn verified(row: &WhatIfRow) -> Option<String> {
    let verified = row.verified.as_ref()?;
    let measured = format!("measured {}", gain::of_saved(&verified.saved));
    let Some(predicted) = row.answer.saved() else {
        return Some(measured);
    };
    let truth = verified.saved.mid;
    if (predicted.low..=predicted.high).contains(&truth) {
        return Some(format!("{measured}, holds"));
    }
    let off = (truth - predicted.low)
        .abs()
        .min((truth - predicted.high).abs());
    Some(format!("{measured}, missed by {:.0} points", 100.0 * off))
}

/// A point of the scaling curve: what it is a point of.
pub fn curve_point(point: &CurvePoint) -> String {
    let cpus = count_of(u64::from(point.cpus), "CPU", "CPUs");
    let threads = point
        .threads
        .map(|n| count_of(u64::from(n), "thread", "threads"));
    let star = if point.extrapolated { " *" } else { "" };
    format!(
        "{cpus}{}{star}",
        threads.map_or(String::new(), |text| format!(", {text}"))
    )
}

/// What ends the curve there.
pub fn curve_limit(point: &CurvePoint) -> String {
    let limit = point.limited_by.as_ref();
    limit.map_or_else(String::new, |(name, busy)| {
        format!("{name}, {} busy", percent(*busy))
    })
}

/// The title of the curve; what its star means.
pub fn scaling(has_extrapolated: bool) -> &'static str {
    if has_extrapolated {
        "Scaling (* computed: more CPUs than this machine has)"
    } else {
        "Scaling"
    }
}

/// The title of a table that shows so many of all rows.
pub fn title(text: &str, shown: usize, all: usize) -> String {
    if shown >= all {
        return text.into();
    }
    format!(
        "{text} ({} of {}: --all)",
        count(shown as u64),
        count(all as u64)
    )
}

/// Titles of tables.
pub const REGIONS: &str = "Code regions by share P of the cost of unnecessary contention";
/// As [`REGIONS`].
pub const WHAT_IFS: &str = "What-ifs";

/// A potential data race.
pub fn race(race: &Race) -> String {
    let access = |access: &Access| {
        let verb = if access.is_write { "write" } else { "read" };
        format!("{verb} at {}", place(&access.place))
    };
    let [a, b] = &race.accesses;
    format!("{}: {}, {}", race.data, access(a), access(b))
}

/// As [`REGIONS`].
pub const PLAN: &str = "Fix plan";
/// As [`REGIONS`].
pub const RACES: &str =
    "Potential data races without these locks: make the accesses atomic, or keep a lock";

/// The counters of a lock, in parts of a line.
pub fn lock(row: &LockRow) -> Vec<String> {
    vec![
        count_of(row.acquisitions, "acquisition", "acquisitions"),
        format!("{} contended", count(row.contended)),
        format!("waited {}", duration(row.waited_ns)),
        format!("held {}", duration(row.held_ns)),
        count_of(row.threads as u64, "thread", "threads"),
    ]
}

/// The title of a region's source.
pub fn source_of(region: &Region) -> String {
    let site = region.sites.first();
    let name = site.map_or_else(String::new, function);
    match name.is_empty() {
        true => format!("Source of {}", region.lock),
        false => format!("Source of {} in {name}", region.lock),
    }
}

/// What stands before each line of the source.
pub const SOURCE_COLUMNS: &str =
    "  (share of the section's instructions; what it needs the lock for)";

/// Why there is no source, and how to get it.
pub const NO_SOURCE: &str = "no source: build the program with -g, keep its source where it was \
     compiled, and record read and write sets with `convoy replay -- COMMAND`";

/// What a line of the source needs the lock for.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Lock => "lock",
        Role::Shared => "shared",
        Role::Private => "private",
        Role::Movable => "can move",
        Role::NotRun => "",
    }
}

/// What a what-if assumes, and which replays make no prediction of it.
pub fn remarks(row: &WhatIfRow) -> Vec<String> {
    let mut texts = Vec::new();
    if !row.assumption.is_empty() {
        texts.push(format!(
            "Holds if {}.",
            row.assumption.trim_end_matches('.')
        ));
    }
    let refused = row.answer.refused.iter();
    texts.extend(refused.map(|(by, why)| format!("No {} replay: {why}.", method(*by))));
    texts
}

/// Why there is no answer, where the limits do not say it already.
pub fn unanswered(row: &WhatIfRow, analysis: &Analysis) -> Option<String> {
    let known = analysis.baselines.iter().filter_map(|b| b.refused.as_ref());
    let known: Vec<&String> = known.collect();
    let mut why: Vec<&str> = Vec::new();
    let unsaid = row
        .answer
        .refused
        .iter()
        .filter(|(_, text)| !known.contains(&text));
    for (_, text) in unsaid {
        if !why.contains(&text.as_str()) {
            why.push(text);
        }
    }
    let is_unanswered = row.answer.saved().is_none() && !why.is_empty();
    is_unanswered.then(|| format!("No answer: {}.", why.join("; ").trim_end_matches('.')))
}

/// The throughput of a point of the scaling curve over that of the recorded run.
pub fn speedup(point: &CurvePoint) -> String {
    let (low, mid, high) = point.speedup;
    let high = Some(high).filter(|high| high.is_finite());
    human::predicted_gain(&Interval { low, mid, high })
}

/// A table or a figure that there is not, and those that there are.
pub fn no_exhibit(analysis: &Analysis, kind: &str, number: u32, there: &[u32]) -> String {
    if there.contains(&number) && !analysis.compared.iter().any(|of| of.has_sets) {
        return format!("no {kind} {number}: read and write sets are unknown; {BOTH_RUNS}");
    }
    let there: Vec<String> = there.iter().map(u32::to_string).collect();
    format!("no {kind} {number}: there are {kind}s {}", there.join(", "))
}

/// What stands in the place of the rows of a table that has none.
pub const NO_ROWS: &str =
    "No rows: no unnecessary pair of critical sections costs anything, or no \
     replay of the run ended.";

/// The program of a row of the paper's tables: the first is this recording.
pub fn program(analysis: &Analysis, row: usize) -> String {
    let path = analysis.command.first().filter(|_| row == 0);
    let name = path.and_then(|path| path.rsplit('/').next());
    name.unwrap_or("?").to_owned()
}

/// What a replay is compared by: a row of its name, then recorded and replayed.
pub fn check(check: &fidelity::Check) -> [String; 3] {
    let number = |value: f64| count(value.round().max(0.0) as u64);
    let (name, show): (&str, fn(f64) -> String) = match check.what {
        Quantity::Wall => ("run time", duration),
        Quantity::ContendedShare => ("contended acquisitions", percent),
        Quantity::WaitedShare => ("waits for locks, of the threads' time", percent),
        Quantity::VoluntarySwitches => ("voluntary context switches", number),
        Quantity::InvoluntarySwitches => ("involuntary context switches", number),
        Quantity::WaitP50 => ("median wait", duration),
        Quantity::WaitP90 => ("90th percentile of the waits", duration),
        Quantity::WaitP99 => ("99th percentile of the waits", duration),
    };
    [name.into(), show(check.recorded), show(check.replayed)]
}

/// As [`REGIONS`].
pub const FIDELITY: &str = "Fidelity: the recorded run and its replays";

/// Whether a replay gives a quantity back.
pub fn holds(check: &fidelity::Check) -> &'static str {
    if check.ok {
        "holds"
    } else {
        "differs"
    }
}

/// What is said where no region is known.
pub const NO_REGIONS: &str = "No code region with unnecessary contention was found.";

/// What is said where nothing limits the answers.
pub const NO_LIMITS: &str = "The recording is complete, and its replay gives it back.";

/// How sliders work.
pub const DIALS: &str = "Each position was replayed beforehand.";

/// How lanes are zoomed.
pub const ZOOM: &str =
    "Ctrl or Shift with the wheel zooms, dragging moves; both runs stay on one axis.";

/// Where a recording would stand in a command.
pub const NO_RECORDING: &str = "RECORDING";

/// What to type next.
pub fn hints(analysis: &Analysis, recording: &str, hidden_limits: usize) -> String {
    let mut flags = Vec::new();
    if analysis
        .regions
        .iter()
        .any(|region| !region.source.is_empty())
    {
        flags.push("--source".into());
    }
    if let Some(lock) = analysis.locks.first().filter(|_| analysis.is_trusted()) {
        flags.push(format!("--what-if 'shorten {} 50%'", quoted(&lock.name)));
    }
    if analysis.curve.is_empty() && analysis.is_trusted() {
        let cpus = (4 * analysis.recorded.cpus.max(1)).min(64);
        flags.push(format!("--cpus 1..{cpus}"));
    }
    flags.push("--all".into());
    let hidden = match hidden_limits {
        0 => String::new(),
        n => format!(" ({} not shown)", count_of(n as u64, "limit", "limits")),
    };
    format!("convoy replay {recording} {}{hidden}", flags.join(" | "))
}

/// What experiments on the running program say of changes to a finding's subject; `None` = there
/// were none.
pub fn experiments(of: &Gain) -> Option<String> {
    let by = |estimate: &&Estimate| estimate.method == Method::Experiment;
    let said: Vec<String> = of
        .estimates
        .iter()
        .filter(by)
        .map(|e| format!("{} {}", e.what_if, human::predicted_gain(&e.gain)))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What replays of the run say of a finding's gain; `None` = none was asked.
pub fn estimates(of: &Gain) -> Option<String> {
    let (accounting, others) = of.estimates.split_first()?;
    let of_it = others.iter().filter(|e| e.what_if == accounting.what_if);
    let said = of_it.map(|estimate| match &estimate.check {
        Check::Failed(why) => {
            format!(
                "{}: no prediction, {}",
                method(estimate.method),
                why.trim_end_matches('.')
            )
        }
        Check::None | Check::Passed(_) => format!(
            "{} {}",
            method(estimate.method),
            human::predicted_gain(&estimate.gain)
        ),
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return None;
    }
    Some(format!(
        "{}: {}; from counters alone {}",
        change(&accounting.what_if),
        said.join(", "),
        human::predicted_gain(&accounting.gain)
    ))
}

/// What was replayed: the change that the finding's fix makes.
fn change(what_if: &WhatIf) -> &str {
    match what_if {
        WhatIf::LockRemoved => "without the lock",
        WhatIf::SectionRemoved => "without its sections",
        WhatIf::Fix => "after the fix",
        WhatIf::Query(query) => match query.as_str() {
            "balance" => "with the work shared evenly",
            "permits" => "with a permit for every thread",
            "blocking" => "with waiting instead of tries",
            "threads" => "with the threads spread otherwise",
            other => other,
        },
    }
}
