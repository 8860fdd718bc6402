//! The timeline while it is recorded: what each thread did when, bounded in number.
//!
//! When there are more intervals than may be kept, a length is chosen below which they are joined with their
//! neighbours, so that half of them go; from then on new ones are joined as they come. Every interval that is kept is
//! then at least that long (if its thread lived so long), so that a run of any length stays covered, at a resolution that
//! its busiest threads decide.

use convoy_profile::{Doing, Interval, Lane, Mix, ThreadRef, Timeline, Times, WakeIx};

/// No row.
const NONE: u32 = u32::MAX;
/// Nothing is later than 36 years after the start.
const LAST_NS: u64 = 1 << 60;

/// What a thread did: an index into arrays of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Did {
    Running = 0,
    Spinning = 1,
    Woken = 2,
    Preempted = 3,
    Waiting = 4,
}

const KINDS: [Did; 5] = [
    Did::Running,
    Did::Spinning,
    Did::Woken,
    Did::Preempted,
    Did::Waiting,
];

/// A kept interval: 24 bytes, as there are many. It ends where the next one of its lane begins.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Since the start of the recording, in units of 1/8 ns: the lowest bits say what it did.
    start: u64,
    row: u32,
    wake: u32,
    mix: Option<Mix>,
}

impl Entry {
    fn start_ns(&self) -> u64 {
        self.start >> 3
    }

    fn did(&self) -> Did {
        let kind = (self.start & 7) as usize;
        KINDS.get(kind).copied().unwrap_or(Did::Running)
    }
}

/// The longest interval of a kind in a piece.
#[derive(Debug, Clone, Copy)]
struct Longest {
    ns: u64,
    row: u32,
    wake: u32,
}

impl Default for Longest {
    fn default() -> Self {
        Self {
            ns: 0,
            row: NONE,
            wake: NONE,
        }
    }
}

/// An interval under way: of one thing, or of several that are joined.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    start_ns: u64,
    end_ns: u64,
    /// By kind.
    ns: [u64; KINDS.len()],
    longest: [Longest; KINDS.len()],
    /// It was joined: it is not only what it mostly is.
    mixed: bool,
}

impl Piece {
    fn of(start_ns: u64, end_ns: u64, did: Did, row: u32, wake: u32) -> Self {
        let mut piece = Self {
            start_ns,
            end_ns,
            ..Self::default()
        };
        let ns = end_ns.saturating_sub(start_ns);
        piece.ns[did as usize] = ns;
        piece.longest[did as usize] = Longest { ns, row, wake };
        piece
    }

    fn from_entry(entry: &Entry, end_ns: u64) -> Self {
        let start_ns = entry.start_ns();
        let did = entry.did();
        let mut piece = Self::of(start_ns, end_ns, did, entry.row, entry.wake);
        if let Some(mix) = &entry.mix {
            let times = mix.times(end_ns.saturating_sub(start_ns));
            let ready = if did == Did::Preempted { 3 } else { 2 };
            piece.ns = [times.running_ns, times.spinning_ns, 0, 0, times.waiting_ns];
            piece.ns[ready] = times.ready_ns;
            piece.longest[did as usize].ns = piece.ns[did as usize];
            piece.mixed = true;
        }
        piece
    }

    fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// What it mostly is; of equals the first kind.
    fn did(&self) -> Did {
        let most = self.ns.iter().copied().max().unwrap_or(0);
        let kind = self.ns.iter().position(|&ns| ns == most);
        kind.and_then(|kind| KINDS.get(kind).copied())
            .unwrap_or(Did::Running)
    }

    /// What comes next is the same once more.
    fn goes_on(&self, did: Did, row: u32, wake: u32) -> bool {
        let longest = &self.longest[did as usize];
        !self.mixed && self.did() == did && (longest.row, longest.wake, wake) == (row, NONE, NONE)
    }

    /// Takes in what comes directly after it.
    fn join(&mut self, next: &Self) {
        self.end_ns = next.end_ns;
        self.mixed = true;
        for kind in 0..KINDS.len() {
            self.ns[kind] += next.ns[kind];
            if self.longest[kind].ns < next.longest[kind].ns {
                self.longest[kind] = next.longest[kind];
            }
        }
    }

    fn entry(&self) -> Entry {
        let did = self.did();
        let longest = self.longest[did as usize];
        let [running_ns, spinning_ns, woken_ns, preempted_ns, waiting_ns] = self.ns;
        let times = Times {
            running_ns,
            spinning_ns,
            ready_ns: woken_ns + preempted_ns,
            waiting_ns,
        };
        Entry {
            start: self.start_ns << 3 | did as u64,
            row: longest.row,
            wake: longest.wake,
            mix: self.mixed.then(|| Mix::of(&times)),
        }
    }
}

/// One thread's.
#[derive(Debug)]
struct Growing {
    thread: ThreadRef,
    kept: Vec<Entry>,
    /// The end of the last one kept.
    end_ns: u64,
    open: Option<Piece>,
}

impl Growing {
    fn keep(&mut self, piece: &Piece) {
        self.kept.push(piece.entry());
        self.end_ns = piece.end_ns;
    }

    /// Joins a piece with the last one kept.
    fn keep_with_last(&mut self, piece: &Piece) -> bool {
        let Some(last) = self.kept.last_mut() else {
            return false;
        };
        let mut joined = Piece::from_entry(last, self.end_ns);
        joined.join(piece);
        *last = joined.entry();
        self.end_ns = piece.end_ns;
        true
    }

    /// What comes next; pieces shorter than `least_ns` are joined. True if there is one more to keep.
    fn push(&mut self, piece: Piece, least_ns: u64) -> bool {
        let Some(open) = &mut self.open else {
            self.open = Some(piece);
            return false;
        };
        let (short, next_short) = (open.ns() < least_ns, piece.ns() < least_ns);
        match (short, next_short) {
            (true, true) => {
                open.join(&piece);
                false
            }
            (true, false) => {
                // Too short to stand alone: to the neighbour that is like it, or to the next.
                let rest = *open;
                self.open = Some(piece);
                let like_last = self
                    .kept
                    .last()
                    .is_some_and(|last| last.did() == rest.did());
                if !(like_last && self.keep_with_last(&rest)) {
                    let mut joined = rest;
                    joined.join(&piece);
                    self.open = Some(joined);
                }
                false
            }
            (false, _) => {
                let whole = *open;
                self.open = Some(piece);
                self.keep(&whole);
                true
            }
        }
    }

    /// There comes nothing more, for now.
    fn close(&mut self, least_ns: u64) {
        if let Some(rest) = self.open.take() {
            if rest.ns() >= least_ns || !self.keep_with_last(&rest) {
                self.keep(&rest);
            }
        }
    }

    /// Goes through all that is kept once more, with a greater least length. What it fills again stays its own: memory that is given back
    /// and taken anew costs a page fault for each page. `scratch` is empty before and after.
    fn thin(&mut self, least_ns: u64, scratch: &mut Vec<Entry>) {
        let open = self.open.take();
        std::mem::swap(&mut self.kept, scratch);
        let last_end_ns = self.end_ns;
        let mut old = scratch.iter().peekable();
        while let Some(entry) = old.next() {
            let end_ns = old.peek().map_or(last_end_ns, |next| next.start_ns());
            self.push(Piece::from_entry(entry, end_ns), least_ns);
        }
        if let Some(open) = open {
            self.push(open, least_ns);
        }
        std::mem::swap(&mut self.kept, scratch);
        self.kept.clear();
        self.kept.append(scratch);
        // Whoever has ended, or does little now, does not fill it again.
        if self.kept.len() < self.kept.capacity() / 4 {
            self.kept.shrink_to(2 * self.kept.len());
        }
    }
}

/// All threads' intervals so far.
#[derive(Debug)]
pub(crate) struct Lanes {
    limit: usize,
    start_ns: u64,
    lanes: Vec<Growing>,
    /// By thread of the accounting: its lane.
    of: Vec<u32>,
    /// Intervals kept.
    kept: usize,
    least_ns: u64,
    left_out: u64,
}

impl Lanes {
    /// Keeps at most `limit` intervals; of no more than half as many threads. 0 = none.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            start_ns: 0,
            lanes: Vec::new(),
            of: Vec::new(),
            kept: 0,
            least_ns: 0,
            left_out: 0,
        }
    }

    pub fn start(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
    }

    /// A new thread; its place.
    pub fn begin(&mut self, thread: ThreadRef) -> u32 {
        let place = self.of.len() as u32;
        if self.lanes.len() >= self.limit / 2 {
            self.left_out += 1;
            self.of.push(NONE);
            return place;
        }
        self.of.push(self.lanes.len() as u32);
        self.lanes.push(Growing {
            thread,
            kept: Vec::new(),
            end_ns: 0,
            open: None,
        });
        place
    }

    /// The thread at `place` did that, from the end of what it did before until `to_ns`.
    pub fn push(
        &mut self,
        place: u32,
        from_ns: u64,
        to_ns: u64,
        did: Did,
        row: Option<u32>,
        wake: Option<WakeIx>,
    ) {
        let lane = self.of.get(place as usize);
        let Some(lane) = lane.and_then(|&lane| self.lanes.get_mut(lane as usize)) else {
            return;
        };
        let since = |ns: u64| ns.saturating_sub(self.start_ns).min(LAST_NS);
        let (from, to) = (since(from_ns), since(to_ns));
        if to <= from {
            return;
        }
        let (row, wake) = (row.unwrap_or(NONE), wake.unwrap_or(NONE));
        // A sample in the same code is no news.
        if let Some(open) = lane.open.as_mut() {
            if open.goes_on(did, row, wake) {
                *open = Piece::of(open.start_ns, to, did, row, wake);
                return;
            }
        }
        let piece = Piece::of(from, to, did, row, wake);
        if lane.push(piece, self.least_ns) {
            self.kept += 1;
            if self.kept + self.lanes.len() > self.limit {
                self.thin();
            }
        }
    }

    /// Joins so many that half of the room is free again.
    #[cold]
    fn thin(&mut self) {
        self.least_ns = self.enough();
        let mut scratch = Vec::new();
        for lane in &mut self.lanes {
            lane.thin(self.least_ns, &mut scratch);
        }
        self.kept = self.lanes.iter().map(|lane| lane.kept.len()).sum();
    }

    /// A least length, a power of two, that leaves about half of the intervals that may be kept.
    fn enough(&self) -> u64 {
        // By power of two: intervals, and their time.
        let mut lengths = [(0u64, 0u64); 64];
        for lane in &self.lanes {
            let starts = lane.kept.iter().map(Entry::start_ns);
            let ends = starts.clone().skip(1).chain([lane.end_ns]);
            for (start, end) in starts.zip(ends) {
                let ns = end.saturating_sub(start).max(1);
                if let Some((n, sum)) = lengths.get_mut(ns.ilog2() as usize) {
                    *n += 1;
                    *sum += ns;
                }
            }
        }
        let room = (self.limit.saturating_sub(self.lanes.len()) / 2) as u64;
        let mut least = (self.least_ns.max(512) * 2).min(LAST_NS);
        while least < LAST_NS {
            let power = least.ilog2() as usize;
            let (short, long) = lengths.split_at(power);
            let stay: u64 = long.iter().map(|(n, _)| n).sum();
            let joined: u64 = short.iter().map(|(_, sum)| sum).sum();
            if stay + joined / least <= room {
                break;
            }
            least *= 2;
        }
        least
    }

    /// The timeline; `None` if none was wanted.
    pub fn finish(mut self) -> Option<Timeline> {
        if self.limit == 0 {
            return None;
        }
        for lane in &mut self.lanes {
            lane.close(self.least_ns);
        }
        let start_ns = self.start_ns;
        let lanes = self.lanes.into_iter().map(|lane| finished(lane, start_ns));
        Some(Timeline {
            limit: self.limit as u64,
            merged_below_ns: self.least_ns,
            threads_left_out: self.left_out,
            lanes: lanes.filter(|lane| !lane.intervals.is_empty()).collect(),
        })
    }
}

fn finished(lane: Growing, start_ns: u64) -> Lane {
    let ends = lane.kept.iter().skip(1).map(Entry::start_ns);
    let ends = ends.chain([lane.end_ns]);
    let interval = |(entry, end_ns): (&Entry, u64)| {
        let row = Some(entry.row).filter(|&row| row != NONE);
        Interval {
            start_ns: start_ns.saturating_add(entry.start_ns()),
            end_ns: start_ns.saturating_add(end_ns),
            doing: match entry.did() {
                Did::Running => Doing::Running(row),
                Did::Spinning => Doing::Spinning(row),
                Did::Woken => Doing::Woken,
                Did::Preempted => Doing::Preempted(row),
                Did::Waiting => Doing::Waiting(row),
            },
            wake: Some(entry.wake).filter(|&wake| wake != NONE),
            mix: entry.mix,
        }
    };
    Lane {
        thread: lane.thread,
        intervals: lane.kept.iter().zip(ends).map(interval).collect(),
    }
}
