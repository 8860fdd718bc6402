//! The pieces of a schedule as the timeline that a recorder would keep.

use convoy_profile::{Interval, Lane, OffIx, SliceIx, ThreadRef, Timeline, WakeIx, Waker};

use super::sweep::Sweep;
use super::{Code, Doing, Piece, Wait};

impl Sweep<'_> {
    /// What every thread does when, with the rows that the sweep has made.
    pub(super) fn timeline(&self) -> Timeline {
        let lane = |&(thread, lane, _): &(ThreadRef, &super::Lane, usize)| Lane {
            thread,
            intervals: lane
                .pieces
                .iter()
                .map(|p| self.interval(thread, p))
                .collect(),
        };
        Timeline {
            limit: 500_000,
            lanes: self.lanes.iter().map(lane).collect(),
            ..Timeline::default()
        }
    }

    fn interval(&self, thread: ThreadRef, piece: &Piece) -> Interval {
        let slice = |code: Code| self.slices.get(&(thread, code)).map(|&ix| ix as SliceIx);
        let (doing, wake) = match piece.doing {
            Doing::Run(code) if code.spin.is_some() => {
                (convoy_profile::Doing::Spinning(slice(code)), None)
            }
            Doing::Run(code) => (convoy_profile::Doing::Running(slice(code)), None),
            Doing::Ready(_) => (convoy_profile::Doing::Woken, None),
            Doing::Off(wait) => {
                let off = self.off_row(thread, &wait);
                let wake = off.and_then(|off| self.wake_row(off, &wait));
                (convoy_profile::Doing::Waiting(off), wake)
            }
        };
        Interval {
            start_ns: self.sched.start_ns + piece.from,
            end_ns: self.sched.start_ns + piece.to,
            doing,
            wake,
            mix: None,
        }
    }

    fn off_row(&self, thread: ThreadRef, wait: &Wait) -> Option<OffIx> {
        let key = (thread, wait.stack, wait.reason, wait.address, wait.name);
        self.offs.get(&key).map(|&ix| ix as OffIx)
    }

    fn wake_row(&self, off: OffIx, wait: &Wait) -> Option<WakeIx> {
        let (who, stack) = match wait.waker {
            Waker::Thread(thread, stack) => (Some(thread), stack),
            _ => (None, 0),
        };
        self.wakes.get(&(off, who, stack)).map(|&ix| ix as WakeIx)
    }
}
