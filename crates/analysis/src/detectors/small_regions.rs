//! Parallel regions of OpenMP that are over as soon as they have begun: to call the threads and to
//! wait for the last of them takes as long as what they do. (Bull, "Measuring Synchronisation and
//! Scheduling Overheads in OpenMP", EWOMP 1999: the overhead of a region is its time beyond that of
//! its work on as many threads.)

use convoy_model::finding::{Finding, Subject};
use convoy_model::FindingId;
use convoy_model::ObjectId;
use convoy_profile::ObjectKind;

use crate::detectors::straggler::{Meeting, Member};
use crate::estimate::queueing::Saving;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::{ProcessView, ThreadTime};
use crate::root_causes::cause;
use crate::tables::counters::EventRow;
use crate::words::{count, duration, evidence, percent, place};

/// Regions that are a habit.
const REGIONS: f64 = 1_000.0;
/// A region that takes longer, nanoseconds, is worth its threads.
const SMALL_NS: f64 = 20_000.0;
/// Share of the run that calling the threads and waiting for them must have.
const WORTH: f64 = 0.2;
/// The share of what the main thread runs between two regions that is expected to be their end and
/// beginning. At most so many nanoseconds count: the rest is work of its own. (EPCC's figures for a
/// few threads are 0.5 to 5 us.)
const BETWEEN: f64 = 0.5;
const FORK_JOIN_NS: f64 = 5_000.0;
/// The share of that cost that one region around more work is expected to save.
const EXPECTED: f64 = 0.8;
const METHOD: &str =
    "waits at the ends of the regions, and half of what passes between two of them, gone";

/// One finding for the regions of each place, with their object.
pub(crate) fn findings(cx: &ProcessFacts, events: &[EventRow]) -> Vec<(ObjectId, Finding)> {
    let regions = events.iter().filter(|event| {
        let object = cx.view.object(event.object);
        object.is_some_and(|object| object.kind == ObjectKind::OmpRegion)
    });
    let regions: Vec<(&EventRow, Region)> = regions
        .filter_map(|event| Some((event, Region::of(cx.view, &Meeting::of(cx.view, event))?)))
        .collect();
    let n: f64 = regions.iter().map(|(_, region)| region.n).sum();
    let inside: f64 = regions.iter().map(|(_, region)| region.inside).sum();
    let main = cx.view.threads.iter().find(|thread| thread.main);
    let beside = main.map_or(0.0, |main| (main.cpu - inside).max(0.0));
    let between = (beside / n.max(1.0)).min(FORK_JOIN_NS);
    let found = regions.into_iter();
    found
        .filter_map(|(event, region)| Some((event.object, region.finding(cx, event, between)?)))
        .collect()
}

/// The share of the time that a thread could run for which it had a processor: regions last longer
/// where other programs have it.
fn on_cpu(thread: &ThreadTime) -> f64 {
    thread.cpu / (thread.cpu + thread.run_delay).max(1.0)
}

/// The regions of one place; nanoseconds of all of them, without what other programs took.
struct Region {
    n: f64,
    /// From the beginning of the work to the end of the last wait, of the thread that is in it longest.
    inside: f64,
    /// Work and waits of one of the threads, on average.
    work: f64,
    wait: f64,
    /// CPU time of the work of all.
    cpu: f64,
}

impl Region {
    fn of(view: &ProcessView, meeting: &Meeting) -> Option<Self> {
        let members = &meeting.members;
        let threads = members.len() as f64;
        let part = |m: &Member| on_cpu(&view.threads[m.thread]);
        let sum = |of: fn(&Member) -> f64| members.iter().map(|m| of(m) * part(m)).sum::<f64>();
        let longest = members.iter().map(|m| (m.body + m.wait) * part(m));
        let most = members.iter().map(|m| m.body).fold(0.0, f64::max);
        (threads >= 2.0).then(|| Self {
            n: members.iter().map(|m| m.meetings).fold(0.0, f64::max),
            inside: longest.fold(0.0, f64::max),
            work: sum(|m| m.body) / threads,
            // Who has less to do waits for the others because of that: it is no price of the region.
            wait: members
                .iter()
                .map(|m| (m.wait - (most - m.body)).max(0.0) * part(m))
                .sum::<f64>()
                / threads,
            cpu: sum(|m| m.body),
        })
    }

    fn finding(&self, cx: &ProcessFacts, event: &EventRow, between: f64) -> Option<Finding> {
        let view = cx.view;
        let each = self.inside / self.n.max(1.0);
        if self.n < REGIONS || each > SMALL_NS {
            return None;
        }
        let calls = between * self.n;
        let cost = self.wait + BETWEEN * calls;
        let share = (cost / view.wall()).min(1.0);
        if share < WORTH {
            return None;
        }
        let saving = Saving {
            stretch: (self.inside + calls).min(view.wall()),
            cpu: self.cpu,
            saved: EXPECTED * cost,
            saved_max: self.wait + calls,
            sure: 0.0,
        };
        let mut gain = saving.gain(view, METHOD, "the work in the regions");
        // What each thread works on was in another one's cache a moment ago, and is too short to get
        // going: the run does not show how long it takes in one piece.
        gain.high = f64::INFINITY;
        let name = view.object_name(event.object);
        let here = event
            .sites
            .first()
            .map_or_else(|| name.clone(), |s| place(view, s.site));
        let hz = self.n / view.wall() * 1e9;
        let work = duration(self.work / self.n);
        Some(Finding {
            id: FindingId::FineGrainedTasks,
            subject: Subject::Object(event.object),
            title: format!(
                "{name}: {} regions a second with {work} of work for each thread",
                count(hz)
            ),
            evidence: vec![
                evidence("regions_hz", hz, format!("{} regions in all", count(self.n))),
                evidence(
                    "hand_over_ratio",
                    share,
                    format!(
                        "in each, a thread works {work} and waits {} for the others; {} pass until the next one begins",
                        duration(self.wait / self.n),
                        duration(between)
                    ),
                ),
            ],
            causes: vec![cause(
                "fine-grained-tasks",
                "to call the threads and to wait for the last of them takes as long as what they do",
                format!(
                    "one region around more of the work at {here}: the outer loop in parallel instead of the inner one, several loops \
                     in one region (nowait), or no threads for so little (the clause if())"
                ),
            )],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: vec![format!(
                "whether what passes between two regions is their end and beginning is not known: {} of it is taken to be",
                percent(BETWEEN)
            )],
        })
    }
}
