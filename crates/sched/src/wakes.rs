//! Who ended the waits, and what they did meanwhile: a waker that was itself off the processors made others
//! wait for what it waited for.

use convoy_profile::{OffIx, Wake, WakeIx, Waker};

use crate::history::{Doing, History};
use crate::table::{Last, Table};

/// Waits of the waker kept per row...
const SHOWN: usize = 8;
/// ... and while recording: a wait that is rare at first may come to be one of the longest.
const KEPT: usize = 16;

/// All rows.
#[derive(Debug)]
pub(crate) struct Wakes(Table<(OffIx, Waker), Wake>);

impl Wakes {
    pub fn new(limit: usize) -> Self {
        Self(Table::new(limit))
    }

    /// `waker` ended a wait that lasted from `from_ns` to `to_ns`; `history` is its own. The row.
    pub fn add(
        &mut self,
        last: &mut Last<(OffIx, Waker)>,
        off: OffIx,
        waker: Waker,
        from_ns: u64,
        to_ns: u64,
        history: Option<&History>,
    ) -> WakeIx {
        let fold = |key: &(OffIx, Waker)| (key.0, Waker::Unknown);
        let ix = self
            .0
            .row_again(last, (off, waker), fold, |&(off, waker)| Wake {
                off,
                waker,
                ..Wake::default()
            });
        let Some(row) = self.0.rows.get_mut(ix as usize) else {
            return ix;
        };
        let ns = to_ns.saturating_sub(from_ns);
        row.n += 1;
        row.wait_ns += ns;
        row.max_ns = row.max_ns.max(ns);
        // In a folded row are many wakers: what they did would not add up to anything.
        let Some(history) = history.filter(|_| row.waker == waker) else {
            return ix;
        };
        history.overlap(from_ns, to_ns, |doing, ns| match doing {
            Doing::Running => row.waker_running_ns += ns,
            Doing::Ready => row.waker_delayed_ns += ns,
            Doing::Off(off) => credit(&mut row.waker_off, off, ns),
            Doing::Nothing => {}
        });
        ix
    }

    /// The rows, and how many keys were folded.
    pub fn finish(self) -> (Vec<Wake>, u64) {
        let mut rows = self.0.rows;
        for row in &mut rows {
            row.waker_off
                .sort_unstable_by_key(|&(off, ns)| (std::cmp::Reverse(ns), off));
            row.waker_off.truncate(SHOWN);
            row.waker_off.shrink_to_fit();
        }
        (rows, self.0.folded)
    }
}

/// Exact for a waker that waits in few places; with more, small ones are dropped for larger ones.
fn credit(offs: &mut Vec<(OffIx, u64)>, off: OffIx, ns: u64) {
    if let Some(known) = offs.iter_mut().find(|o| o.0 == off) {
        known.1 += ns;
    } else if offs.len() < KEPT {
        offs.push((off, ns));
    } else if let Some(least) = offs.iter_mut().min_by_key(|o| o.1).filter(|o| o.1 < ns) {
        *least = (off, ns);
    }
}
