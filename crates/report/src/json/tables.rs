//! The tables of locks, sites and events.

use convoy_analysis::counters::{
    Analysis, EventRow, FamilyRow, LockRow, LockStats, Quadrant, SiteShare, WaitsFor,
};
use serde::Serialize;

use super::frame::{frame, FrameOut};

#[derive(Serialize)]
pub struct LockOut<'a> {
    object: u32,
    stats: StatsOut,
    sites: Vec<ShareOut>,
    waits_for: Vec<WaitsForOut<'a>>,
    family: Option<usize>,
}

#[derive(Serialize)]
struct StatsOut {
    quadrant: Option<&'static str>,
    acquisitions_count: u64,
    contended_count: u64,
    contention_ratio: Option<f64>,
    frequency_hz: f64,
    wait_ns: u64,
    wait_max_ns: u64,
    wait_histogram_log2_ns: Vec<u64>,
    waited_ratio: f64,
    hold_contended_mean_ns: Option<f64>,
    hold_sampled_mean_ns: Option<f64>,
    hold_max_ns: u64,
    hold_total_estimated_ns: f64,
    acquire_sampled_mean_ns: Option<f64>,
    try_calls_count: u64,
    try_failed_count: u64,
    try_busy_ns: u64,
    timeouts_count: u64,
    threads_count: usize,
    estimated: bool,
}

#[derive(Serialize)]
struct ShareOut {
    stack: u32,
    acquisitions_count: u64,
    contended_count: u64,
    wait_ns: u64,
}

#[derive(Serialize)]
struct WaitsForOut<'a> {
    waiter_stack: u32,
    holder_frames: Vec<FrameOut<'a>>,
    released_stack: Option<u32>,
    waits_count: u64,
    wait_ns: u64,
    wait_max_ns: u64,
    share_ratio: f64,
}

fn stats(s: &LockStats) -> StatsOut {
    StatsOut {
        quadrant: match s.quadrant {
            Quadrant::Q1 => Some("q1"),
            Quadrant::Q2 => Some("q2"),
            Quadrant::Q3 => Some("q3"),
            Quadrant::Q4 => Some("q4"),
            Quadrant::Unknown => None,
        },
        acquisitions_count: s.acquisitions,
        contended_count: s.contended,
        contention_ratio: s.contention_ratio,
        frequency_hz: s.frequency_hz,
        wait_ns: s.wait_ns,
        wait_max_ns: s.wait_max_ns,
        wait_histogram_log2_ns: s.wait_hist.clone(),
        waited_ratio: s.waited_ratio,
        hold_contended_mean_ns: s.hold_contended_ns,
        hold_sampled_mean_ns: s.hold_sampled_ns,
        hold_max_ns: s.hold_max_ns,
        hold_total_estimated_ns: s.hold_total_ns,
        acquire_sampled_mean_ns: s.acquire_ns,
        try_calls_count: s.try_calls,
        try_failed_count: s.try_failed,
        try_busy_ns: s.try_busy_ns,
        timeouts_count: s.timeouts,
        threads_count: s.threads,
        estimated: s.estimated,
    }
}

fn share(s: &SiteShare) -> ShareOut {
    ShareOut {
        stack: s.site.0,
        acquisitions_count: s.acquisitions,
        contended_count: s.contended,
        wait_ns: s.wait_ns,
    }
}

fn waits_for(w: &WaitsFor) -> WaitsForOut<'_> {
    WaitsForOut {
        waiter_stack: w.waiter.0,
        holder_frames: w.holder.iter().map(frame).collect(),
        released_stack: w.released_at.map(|id| id.0),
        waits_count: w.waits,
        wait_ns: w.wait_ns,
        wait_max_ns: w.wait_max_ns,
        share_ratio: w.share,
    }
}

pub fn locks(analysis: &Analysis) -> Vec<LockOut<'_>> {
    fn one(row: &LockRow) -> LockOut<'_> {
        LockOut {
            object: row.object.0,
            stats: stats(&row.stats),
            sites: row.sites.iter().map(share).collect(),
            waits_for: row.waits_for.iter().map(waits_for).collect(),
            family: row.family,
        }
    }
    analysis.locks.iter().map(one).collect()
}

#[derive(Serialize)]
pub struct SiteRowOut {
    stack: u32,
    stats: StatsOut,
    locks_count: usize,
    top_object: u32,
}

pub fn sites(analysis: &Analysis) -> Vec<SiteRowOut> {
    let one = |row: &convoy_analysis::counters::SiteRow| SiteRowOut {
        stack: row.site.0,
        stats: stats(&row.stats),
        locks_count: row.locks,
        top_object: row.top_lock.0,
    };
    analysis.sites.iter().map(one).collect()
}

#[derive(Serialize)]
pub struct FamilyOut {
    objects: Vec<u32>,
    stack: u32,
    stats: StatsOut,
    contention_min_ratio: f64,
    contention_median_ratio: f64,
    contention_max_ratio: f64,
    judged_count: usize,
    top_tenth_acquisitions_ratio: f64,
    top_tenth_waits_ratio: f64,
    asymmetric: bool,
}

pub fn families(analysis: &Analysis) -> Vec<FamilyOut> {
    let one = |row: &FamilyRow| FamilyOut {
        objects: row.locks.iter().map(|id| id.0).collect(),
        stack: row.site.0,
        stats: stats(&row.stats),
        contention_min_ratio: row.contention_min,
        contention_median_ratio: row.contention_median,
        contention_max_ratio: row.contention_max,
        judged_count: row.judged,
        top_tenth_acquisitions_ratio: row.top_tenth_acquisitions,
        top_tenth_waits_ratio: row.top_tenth_waits,
        asymmetric: row.asymmetric,
    };
    analysis.families.iter().map(one).collect()
}

#[derive(Serialize)]
pub struct EventOut<'a> {
    object: u32,
    class: &'static str,
    why: &'a str,
    calls_count: u64,
    waits_count: u64,
    wait_ns: u64,
    wait_max_ns: u64,
    wait_histogram_log2_ns: &'a [u64],
    timeouts_count: u64,
    wakes_count: u64,
    waited_ratio: f64,
    threads_count: usize,
    sites: Vec<ShareOut>,
    waits_for: Vec<WaitsForOut<'a>>,
}

pub fn events(analysis: &Analysis) -> Vec<EventOut<'_>> {
    fn one(row: &EventRow) -> EventOut<'_> {
        EventOut {
            object: row.object.0,
            class: row.class.id(),
            why: &row.why,
            calls_count: row.calls,
            waits_count: row.waits,
            wait_ns: row.wait_ns,
            wait_max_ns: row.wait_max_ns,
            wait_histogram_log2_ns: &row.wait_hist,
            timeouts_count: row.timeouts,
            wakes_count: row.wakes,
            waited_ratio: row.waited_ratio,
            threads_count: row.threads,
            sites: row.sites.iter().map(share).collect(),
            waits_for: row.waits_for.iter().map(waits_for).collect(),
        }
    }
    analysis.events.iter().map(one).collect()
}
