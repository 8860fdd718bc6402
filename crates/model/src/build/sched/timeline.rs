//! The timeline with the model's rows.

use convoy_profile as profile;

use super::Names;
use crate::{Doing, Lane, Timeline};

/// Where each row of the profile went; `None` = nowhere.
pub(super) struct Places<'a> {
    pub(super) slices: &'a [Option<u32>],
    pub(super) offs: &'a [Option<u32>],
    pub(super) wakes: &'a [Option<u32>],
}

impl Places<'_> {
    /// Lanes of threads that never ran are left out.
    pub(super) fn timeline(&self, from: profile::Timeline, names: &Names) -> Timeline {
        let lane = |mut lane: profile::Lane| {
            for interval in &mut lane.intervals {
                *interval = self.interval(*interval);
            }
            Some(Lane {
                thread: names.thread(lane.thread)?,
                intervals: lane.intervals,
            })
        };
        Timeline {
            limit: from.limit,
            merged_below_ns: from.merged_below_ns,
            threads_left_out: from.threads_left_out,
            lanes: from.lanes.into_iter().filter_map(lane).collect(),
        }
    }

    fn interval(&self, interval: profile::Interval) -> profile::Interval {
        let place = |places: &[Option<u32>], ix: Option<u32>| *places.get(ix? as usize)?;
        let doing = match interval.doing {
            Doing::Running(ix) => Doing::Running(place(self.slices, ix)),
            Doing::Spinning(ix) => Doing::Spinning(place(self.slices, ix)),
            Doing::Woken => Doing::Woken,
            Doing::Preempted(ix) => Doing::Preempted(place(self.offs, ix)),
            Doing::Waiting(ix) => Doing::Waiting(place(self.offs, ix)),
        };
        profile::Interval {
            doing,
            wake: place(self.wakes, interval.wake),
            ..interval
        }
    }
}
