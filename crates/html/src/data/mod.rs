//! What the pictures are drawn from: compact, and no more than can be seen.

mod activity;
mod band;
mod flame;
mod focus;
mod group_time;
mod holds;
mod lanes;
mod locks;
mod strings;
mod thin;
mod threads;
mod work;

use convoy_report::Report;
use serde::Serialize;

use crate::bytes::packed;
use crate::roles::Roles;
pub(crate) use band::{Band, Bands, Part, COLUMNS, PARTS};
pub(crate) use focus::limiting;
pub(crate) use group_time::GroupTime;
pub(crate) use locks::{matrix, waited_for, Matrix, WaitedFor};
use strings::Strings;
pub(crate) use work::{by_role, process_of, RoleRows};

/// For the scripts: what assets/data.js calls `page`.
#[derive(Debug, Serialize)]
struct Page {
    strings: Vec<String>,
    activity: Option<activity::Activity>,
    threads: threads::Threads,
    lanes: Option<lanes::Rows>,
    locks: Vec<locks::Lock>,
    families: Vec<locks::Family>,
    groups: Vec<work::Work>,
    flame: flame::Node,
}

/// What a page carries beside its text.
#[derive(Debug)]
pub(crate) struct Data {
    /// JSON, packed.
    pub(crate) page: String,
    /// Intervals of the timeline, packed.
    pub(crate) lanes: String,
    /// There are intervals.
    pub(crate) has_lanes: bool,
    /// The run in pieces is there.
    pub(crate) has_activity: bool,
    /// Waits with their call stacks are there.
    pub(crate) has_flame: bool,
    /// Intervals shorter than this are joined, for this picture or by the recorder. 0 = none.
    pub(crate) joined_below_ns: u64,
    /// Thread groups, by what they do in which program.
    pub(crate) roles: Roles,
    /// The timeline of the first screen.
    pub(crate) bands: Option<Bands>,
    /// What is there in its place without scheduler events.
    pub(crate) group_time: Option<GroupTime>,
}

/// Takes from a report what is drawn.
pub(crate) fn of(report: &Report<'_>) -> Data {
    let roles = Roles::of(report.model);
    let first = report.analysis.findings.first();
    let bands = band::bands(report, first, &roles);
    let group_time = group_time::group_time(report, first, &roles);
    let mut strings = Strings::default();
    let (order, threads) = threads::threads(report, &roles, &mut strings);
    let lanes = lanes::lanes(report, &order, &mut strings);
    let (rows, intervals, joined_below_ns) = match lanes {
        Some(lanes) => (Some(lanes.rows), lanes.intervals, lanes.joined_below_ns),
        None => (None, Vec::new(), 0),
    };
    let activity = activity::activity(report, &mut strings);
    let flame = flame::flame(report);
    let (has_activity, has_flame) = (activity.is_some(), !flame.is_empty());
    let page = Page {
        activity,
        threads,
        lanes: rows,
        locks: locks::locks(report),
        families: locks::families(report, &mut strings),
        groups: work::work(report, &roles, &mut strings),
        flame,
        strings: strings.into_inner(),
    };
    // Only maps with keys that are no strings, and writers that fail, make serde_json fail.
    let json = serde_json::to_vec(&page).unwrap_or_default();
    Data {
        has_lanes: page.lanes.as_ref().is_some_and(|rows| rows.intervals > 0),
        has_activity,
        has_flame,
        joined_below_ns,
        roles,
        bands,
        group_time,
        page: packed(&json),
        lanes: packed(&intervals),
    }
}
