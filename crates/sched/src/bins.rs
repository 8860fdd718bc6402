//! The run in pieces of equal length: how many threads were active in each, and whose activity mattered most.

use convoy_profile::{Bin, Bins};

/// Length of a piece at first, as a power of two: a millisecond.
const WIDTH: u32 = 20;
/// Candidates kept for the top activity of a piece: more than one, because pieces get joined.
const CANDIDATES: usize = 4;

/// A piece under way.
#[derive(Debug, Clone, Default)]
struct Piece {
    bin: Bin,
    /// Slice rows with their CMetric.
    top: Vec<(u32, f64)>,
}

impl Piece {
    fn credit(&mut self, row: u32, cm_ns: f64) {
        if let Some(c) = self.top.iter_mut().find(|c| c.0 == row) {
            c.1 += cm_ns;
        } else if self.top.len() < CANDIDATES {
            self.top.push((row, cm_ns));
        } else if let Some(least) = self.top.iter_mut().min_by(|a, b| a.1.total_cmp(&b.1)) {
            if least.1 < cm_ns {
                *least = (row, cm_ns);
            }
        }
    }

    fn join(&mut self, other: &Self) {
        let (a, b) = (&mut self.bin, &other.bin);
        a.active_ns = a.active_ns.saturating_add(b.active_ns);
        a.working_ns = a.working_ns.saturating_add(b.working_ns);
        a.running_ns = a.running_ns.saturating_add(b.running_ns);
        a.idle_ns = a.idle_ns.saturating_add(b.idle_ns);
        for &(row, cm_ns) in &other.top {
            self.credit(row, cm_ns);
        }
    }

    fn finish(mut self) -> Bin {
        // Of equals the row made first, so that the same events give the same answer.
        let best = self
            .top
            .iter()
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        self.bin.top = best.filter(|c| c.1 > 0.0).map(|c| c.0);
        self.bin
    }
}

/// CMetric of a slice row in the piece that it was credited in last. The row is of one thread, so it comes
/// in order of time, and is complete when the row goes on to another piece.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    /// A time in that piece, since the start.
    at_ns: u64,
    cm_ns: f64,
}

/// The pieces so far.
#[derive(Debug)]
pub(crate) struct Timeline {
    start_ns: u64,
    /// The length of a piece is this power of two, nanoseconds.
    width: u32,
    most: usize,
    pieces: Vec<Piece>,
    /// By slice row.
    pending: Vec<Pending>,
}

impl Timeline {
    /// At most twice as many pieces as `bins`.
    pub fn new(bins: usize) -> Self {
        Self {
            start_ns: 0,
            width: WIDTH,
            most: bins.max(1).saturating_mul(2),
            pieces: Vec::new(),
            pending: Vec::new(),
        }
    }

    pub fn start(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
    }

    /// So many threads were active, working and running from `from_ns` to `to_ns`.
    pub fn advance(&mut self, from_ns: u64, to_ns: u64, numbers: [usize; 3]) {
        let [active, working, running] = numbers.map(|n| n as u64);
        self.each(from_ns, to_ns, |timeline, at, ns| {
            let Some(piece) = timeline.pieces.get_mut((at >> timeline.width) as usize) else {
                return;
            };
            let bin = &mut piece.bin;
            bin.active_ns = bin.active_ns.saturating_add(ns.saturating_mul(active));
            bin.working_ns = bin.working_ns.saturating_add(ns.saturating_mul(working));
            bin.running_ns = bin.running_ns.saturating_add(ns.saturating_mul(running));
            if active == 0 {
                bin.idle_ns = bin.idle_ns.saturating_add(ns);
            }
        });
    }

    /// Slice row `row` had this CMetric in that time. It is spread evenly over it, though it came unevenly:
    /// a period that is longer than a piece has had few changes of the numbers, or many that even out.
    pub fn credit(&mut self, row: u32, from_ns: u64, to_ns: u64, cm_ns: f64) {
        if self.pending.len() <= row as usize {
            self.pending.resize(row as usize + 1, Pending::default());
        }
        let all = to_ns.saturating_sub(from_ns) as f64;
        self.each(from_ns, to_ns, |timeline, at_ns, ns| {
            let Some(mut pending) = timeline.pending.get(row as usize).copied() else {
                return;
            };
            if pending.at_ns >> timeline.width != at_ns >> timeline.width {
                timeline.settle(row, pending);
                pending.cm_ns = 0.0;
            }
            pending.at_ns = at_ns;
            pending.cm_ns += if ns as f64 == all {
                cm_ns
            } else {
                cm_ns * (ns as f64 / all)
            };
            if let Some(place) = timeline.pending.get_mut(row as usize) {
                *place = pending;
            }
        });
    }

    /// What a row had in a piece is complete.
    fn settle(&mut self, row: u32, pending: Pending) {
        let at = (pending.at_ns >> self.width) as usize;
        if let Some(piece) = self.pieces.get_mut(at).filter(|_| pending.cm_ns > 0.0) {
            piece.credit(row, pending.cm_ns);
        }
    }

    /// Each piece between these times: its first moment in them, since the start, and how much of it they
    /// cover.
    fn each(&mut self, from_ns: u64, to_ns: u64, mut f: impl FnMut(&mut Self, u64, u64)) {
        let (mut at, to) = (
            from_ns.saturating_sub(self.start_ns),
            to_ns.saturating_sub(self.start_ns),
        );
        if at >= to {
            return;
        }
        self.reach(to - 1);
        if at >> self.width == (to - 1) >> self.width {
            return f(self, at, to - at);
        }
        while at < to {
            let next = (u128::from(at >> self.width) + 1) << self.width;
            let end = u64::try_from(next).map_or(to, |next| next.min(to));
            f(self, at, end - at);
            at = end;
        }
    }

    /// Makes sure that there is a piece for this time since the start.
    fn reach(&mut self, offset_ns: u64) {
        if offset_ns >> self.width >= self.pieces.len() as u64 {
            self.grow(offset_ns);
        }
    }

    #[cold]
    fn grow(&mut self, offset_ns: u64) {
        // There may be two pieces: this ends at the latest when they are 2^63 ns long.
        while offset_ns >> self.width >= self.most as u64 {
            self.width += 1;
            let halves = std::mem::take(&mut self.pieces);
            for pair in halves.chunks(2) {
                let mut joined = pair.first().cloned().unwrap_or_default();
                if let Some(second) = pair.get(1) {
                    joined.join(second);
                }
                self.pieces.push(joined);
            }
        }
        let pieces = (offset_ns >> self.width) as usize + 1;
        if self.pieces.len() < pieces {
            self.pieces.resize_with(pieces, Piece::default);
        }
    }

    pub fn finish(mut self) -> Bins {
        for (row, pending) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            self.settle(row as u32, pending);
        }
        Bins {
            width_ns: 1 << self.width,
            bins: self.pieces.into_iter().map(Piece::finish).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Timeline, WIDTH};

    const WIDTH_NS: u64 = 1 << WIDTH;

    #[test]
    fn pieces_double_and_keep_their_sums() {
        let mut t = Timeline::new(2);
        t.start(100);
        let end = 100 + 9 * WIDTH_NS + 7;
        t.advance(100, 100 + WIDTH_NS / 2, [2, 1, 1]);
        t.credit(5, 100, 100 + WIDTH_NS / 2, 10.0);
        t.advance(100 + WIDTH_NS / 2, end, [0, 0, 0]);
        t.credit(6, 100, end, 9.0);
        let bins = t.finish();
        assert_eq!(bins.width_ns, 4 * WIDTH_NS);
        assert_eq!(bins.bins.len(), 3);
        assert_eq!(bins.bins[0].active_ns, WIDTH_NS);
        assert_eq!(bins.bins[0].running_ns, WIDTH_NS / 2);
        assert_eq!(bins.bins[0].idle_ns, 4 * WIDTH_NS - WIDTH_NS / 2);
        let idle: u64 = bins.bins.iter().map(|b| b.idle_ns).sum();
        assert_eq!(idle, end - 100 - WIDTH_NS / 2);
        let tops: Vec<_> = bins.bins.iter().map(|b| b.top).collect();
        assert_eq!(tops, [Some(5), Some(6), Some(6)]);
    }

    #[test]
    fn a_leap_in_time_does_not_make_pieces() {
        let mut t = Timeline::new(10);
        t.advance(0, u64::MAX, [3, 3, 3]);
        let bins = t.finish();
        assert!(bins.bins.len() <= 20, "{}", bins.bins.len());
        assert!(bins.width_ns > u64::MAX / 40);
    }

    #[test]
    fn the_heaviest_of_many_candidates_is_found() {
        let mut t = Timeline::new(10);
        for i in 0..100 {
            for row in 0..50 {
                t.credit(
                    row,
                    i * 100,
                    (i + 1) * 100,
                    if row == 33 { 1.1 } else { 1.0 },
                );
            }
        }
        assert_eq!(t.finish().bins[0].top, Some(33));
    }
}
