//! The timeline, put together from its sections.

use serde::{Deserialize, Serialize};

use crate::sched_parts::{Found, Known, Verdict};
use crate::tables::LaneRow;
use crate::warning::ReadWarning;
use crate::{Doing, Interval, Lane, OffCpu, Slice, Timeline, Wake};

/// Everything of a [`Timeline`] but its tables, and how many rows these have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimelineHead {
    pub(crate) limit: u64,
    pub(crate) merged_below_ns: u64,
    pub(crate) threads_left_out: u64,
    pub(crate) lanes: u64,
    pub(crate) intervals: u64,
}

impl TimelineHead {
    pub(crate) fn of(timeline: &Timeline) -> Self {
        Self {
            limit: timeline.limit,
            merged_below_ns: timeline.merged_below_ns,
            threads_left_out: timeline.threads_left_out,
            lanes: timeline.lanes.len() as u64,
            intervals: timeline
                .lanes
                .iter()
                .map(|l| l.intervals.len() as u64)
                .sum(),
        }
    }
}

/// What has been read of it.
#[derive(Debug, Default)]
pub(crate) struct TimelineParts {
    pub(crate) head: Option<TimelineHead>,
    pub(crate) lanes: Found<LaneRow>,
    pub(crate) intervals: Found<Interval>,
}

/// The tables that intervals refer to, after their own gaps have been closed.
pub(crate) struct Tables<'a> {
    pub(crate) slices: &'a Found<Slice>,
    pub(crate) offs: &'a Found<OffCpu>,
    pub(crate) wakes: &'a Found<Wake>,
}

impl TimelineParts {
    /// All of it, sound; `None` if none was kept. Without its head nothing says how faithful it is, but it is a
    /// timeline all the same.
    pub(crate) fn finish(
        self,
        known: &Known<'_>,
        tables: &Tables<'_>,
        warnings: &mut Vec<ReadWarning>,
    ) -> Option<Timeline> {
        let (mut lanes, mut intervals) = (self.lanes, self.intervals);
        if self.head.is_none() && lanes.is_empty() {
            return None;
        }
        let head = self.head.unwrap_or_default();
        // A lane's intervals are known by the lanes before it: behind a gap none can be found.
        lanes.cut_at_gap();
        let (mut next, mut whole) = (0u64, Vec::with_capacity(lanes.rows().len()));
        lanes.check(head.lanes, warnings, |row| {
            let first = next;
            next = next.saturating_add(u64::from(row.intervals));
            let keep = known.thread(&mut row.thread).is_some();
            if keep {
                whole.push((row.thread, first, next));
            }
            Verdict::of(keep, true)
        });
        intervals.check(head.intervals, warnings, |row| tables.interval(row));
        let lane = |(thread, first, end)| Lane {
            thread,
            intervals: intervals.range(first, end).to_vec(),
        };
        Some(Timeline {
            limit: head.limit,
            merged_below_ns: head.merged_below_ns,
            threads_left_out: head.threads_left_out,
            lanes: whole.into_iter().map(lane).collect(),
        })
    }
}

impl Tables<'_> {
    fn interval(&self, row: &mut Interval) -> Verdict {
        let whole = match &mut row.doing {
            Doing::Running(slice) | Doing::Spinning(slice) => self.slices.translate(slice),
            Doing::Preempted(off) | Doing::Waiting(off) => self.offs.translate(off),
            Doing::Woken => true,
        };
        Verdict::of(true, whole & self.wakes.translate(&mut row.wake))
    }
}
