//! Which cache lines threads fight for. A line that several threads use at the same time, and at least one of them writes,
//! goes from processor to processor; each time somebody's instruction waits for it.
//!
//! Samples show where, and not how often: what they show is how much time passes at the line. A thread cannot lose the line
//! more often than others take it to write, so that what a thread loses is bounded by what the others spend on writing.

mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use convoy_model::{is_runtimes_own, LineUse, SharedLine, SiteId, SyncCode, ThreadId};

use crate::facts::concurrency::at_least;
use crate::facts::lanes::Lanes;
use crate::facts::run_view::RunView;
use objects::{Objects, Owned};

/// Samples at a line, and of each thread at it, from which on they are no accident.
const SAMPLES: u64 = 8;
const OF_THREAD: u64 = 3;
/// Share of a line's samples below which a thread only came by: it filled it, or read the result.
const TAKES_PART: f64 = 0.05;
/// Share of the samples of a line in loops that wait for it: it is a lock or a flag, and the loop has its own finding.
const WAITED_FOR: f64 = 0.1;
/// Turns, as a share of what there would be if the threads' samples came in no order: threads that use the line one after
/// the other do not fight for it. Of threads on two processors the timers tick in turns: then it is more than 1.
const TURNS: f64 = 0.75;
/// Most samples are at bytes that only one of the threads uses: false sharing.
const MOSTLY: f64 = 0.5;
/// Samples of each (thread, first byte), from which on one can tell whose bytes they are: of random places in an array not.
const OF_BYTES: u64 = 3;
/// So many of the samples at atomic read-modify-writes make it an atomic: the plain loads are looks at what it is.
const ATOMIC: f64 = 0.2;
/// What a thread loses over what the others spend on writing to the line.
const LOST_PER_WRITE: f64 = 2.0;

/// What threads do to one another at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fight {
    /// The same bytes, with atomic read-modify-writes.
    Atomic,
    /// The same bytes, with plain loads and stores.
    Plain,
    /// Each thread its own bytes.
    Neighbours,
}

/// A line that threads fight for.
#[derive(Debug)]
pub(crate) struct Fought<'a> {
    pub(crate) line: &'a SharedLine,
    pub(crate) fight: Fight,
    /// What those threads did that take part.
    pub(crate) uses: Vec<&'a LineUse>,
    /// Of these, what they did to locks that each has for itself.
    pub(crate) own_locks: Vec<&'a LineUse>,
    /// Samples that each of them may lose; threads in one lane are one.
    pub(crate) lost: BTreeMap<ThreadId, f64>,
}

/// All lines that threads fight for, in order of address.
pub(crate) fn fought<'a>(view: &RunView<'a>, lanes: &Lanes) -> Vec<Fought<'a>> {
    let lines = view.sched.lines.iter().flat_map(|lines| &lines.lines);
    let (objects, together) = (Objects::of(view, lanes), Together::of(view, lanes));
    lines
        .filter_map(|line| judge(view, line, lanes, &objects, &together))
        .collect()
}

fn judge<'a>(
    view: &RunView<'a>,
    line: &'a SharedLine,
    lanes: &Lanes,
    objects: &Objects,
    together: &Together,
) -> Option<Fought<'a>> {
    if line.waits as f64 > WAITED_FOR * line.samples as f64 {
        return None;
    }
    if !in_turns(line, lanes, together) {
        return None;
    }
    let owned = Owned::of(view, line, lanes, objects);
    let is_lock = |used: &LineUse| {
        let site = used.site.and_then(|id| view.model.site(id));
        objects.hold(line, used) || site.is_some_and(|site| site.sync == Some(SyncCode::Lock))
    };
    let is_own = |used: &&LineUse| {
        if is_lock(used) {
            return owned.is_own(used);
        }
        let site = used.site.and_then(|id| view.model.site(id));
        !site.is_some_and(|site| site.sync.is_some() || is_runtimes_own(&site.frames))
    };
    let uses: Vec<&LineUse> = line.uses.iter().filter(is_own).collect();
    let mut of_thread: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for used in &uses {
        *of_thread.entry(lanes.first(used.thread)).or_default() += used.n;
    }
    let all: u64 = of_thread.values().sum();
    of_thread.retain(|_, n| *n >= OF_THREAD && *n as f64 >= TAKES_PART * all as f64);
    if all < SAMPLES || of_thread.len() < 2 {
        return None;
    }
    let uses: Vec<&LineUse> = uses
        .into_iter()
        .filter(|used| of_thread.contains_key(&lanes.first(used.thread)))
        .collect();
    let fight = fight(view, &uses, lanes)?;
    let mut lost = lost(&of_thread, &uses, lanes, fight);
    let seen = seen(line);
    for (id, n) in &mut lost {
        *n *= together.share(*id, &uses, lanes) / seen;
    }
    if lost.values().filter(|&&n| n > 0.0).count() < 2 {
        return None;
    }
    let own_locks = uses.iter().copied().filter(|used| is_lock(used));
    Some(Fought {
        line,
        fight,
        own_locks: own_locks.collect(),
        uses,
        lost,
    })
}

/// Share of the samples of which is known whose they are: of many threads, each for a short time, the first alone are kept.
fn seen(line: &SharedLine) -> f64 {
    let kept: u64 = line.uses.iter().map(|used| used.n).sum();
    (kept as f64 / line.samples.max(1) as f64).min(1.0)
}

/// Whether the threads use the line at the same time, while more than one of them works at all: who
/// goes on alone when the others are done has no one to take turns with.
fn in_turns(line: &SharedLine, lanes: &Lanes, together: &Together) -> bool {
    let mut of_thread: BTreeMap<ThreadId, f64> = BTreeMap::new();
    for used in &line.uses {
        *of_thread.entry(lanes.first(used.thread)).or_default() += used.n as f64;
    }
    let uses: Vec<&LineUse> = line.uses.iter().collect();
    for (id, n) in &mut of_thread {
        *n *= together.share(*id, &uses, lanes);
    }
    let threads: BTreeSet<_> = line.uses.iter().map(|used| used.thread).collect();
    let all: f64 = of_thread.values().sum();
    let again: f64 = of_thread.values().map(|n| (n / all) * (n / all)).sum();
    // The first sample of each thread is no turn.
    let expected = (all - threads.len() as f64) * (1.0 - again);
    expected > 0.0 && line.turns as f64 >= TURNS * expected
}

/// What each thread may lose: all of its samples, but not more than what the others do to the line accounts for. Their writes take
/// it away, and their reads take away that it can be written: what is read and written in turn is handed over, and not lost,
/// but neighbours have nothing to hand over.
fn lost(
    of_thread: &BTreeMap<ThreadId, u64>,
    uses: &[&LineUse],
    lanes: &Lanes,
    fight: Fight,
) -> BTreeMap<ThreadId, f64> {
    let mut writes: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for used in uses.iter().filter(|used| used.writes) {
        *writes.entry(lanes.first(used.thread)).or_default() += used.n;
    }
    let (all, written): (u64, u64) = (of_thread.values().sum(), writes.values().sum());
    let of = |(&id, &n): (&ThreadId, &u64)| {
        let own = writes.get(&id).copied().unwrap_or(0);
        let others = written - own;
        let reads = match fight {
            Fight::Neighbours => own.min(all - n - others),
            Fight::Atomic | Fight::Plain => 0,
        };
        let taken = LOST_PER_WRITE * (others + reads) as f64;
        (id, (n as f64).min(taken))
    };
    of_thread.iter().map(of).collect()
}

/// One bit for each byte of the line.
fn bytes(used: &LineUse) -> u64 {
    let ones = 1u64
        .checked_shl(u32::from(used.size))
        .map_or(u64::MAX, |bit| bit - 1);
    ones << (used.offset % 64)
}

/// `None`: too few samples to tell whose bytes they are.
fn fight(view: &RunView, uses: &[&LineUse], lanes: &Lanes) -> Option<Fight> {
    let touched = Touched::of(view, uses, lanes);
    let n = |uses: &mut dyn Iterator<Item = &&LineUse>| uses.map(|used| used.n).sum::<u64>() as f64;
    let all = n(&mut uses.iter());
    let same = n(&mut uses.iter().filter(|used| touched.by_others(used)));
    let locked = n(&mut uses.iter().filter(|used| used.locked));
    let places: BTreeSet<_> = uses
        .iter()
        .map(|used| (lanes.first(used.thread), used.offset))
        .collect();
    let is_known = all >= OF_BYTES as f64 * places.len() as f64;
    if same < MOSTLY * all && is_known {
        Some(Fight::Neighbours)
    } else if locked >= ATOMIC * all {
        Some(Fight::Atomic)
    } else {
        is_known.then_some(Fight::Plain)
    }
}

/// Which bytes of a line each thread touches and writes, in each lane one after the other. Those of threads that were not there
/// at the same time are of no concern: who comes next may have the bytes of one that has ended.
struct Touched<'a> {
    view: &'a RunView<'a>,
    lanes: &'a Lanes,
    by_lane: BTreeMap<ThreadId, Vec<Bytes>>,
}

/// Of one thread: one bit for each byte.
struct Bytes {
    life: Range<u64>,
    touched: u64,
    written: u64,
}

impl<'a> Touched<'a> {
    fn of(view: &'a RunView<'a>, uses: &[&LineUse], lanes: &'a Lanes) -> Self {
        let mut of_thread: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
        for used in uses {
            let (touched, written) = of_thread.entry(used.thread).or_default();
            *touched |= bytes(used);
            *written |= if used.writes { bytes(used) } else { 0 };
        }
        let mut by_lane: BTreeMap<ThreadId, Vec<Bytes>> = BTreeMap::new();
        for (id, (touched, written)) in of_thread {
            by_lane.entry(lanes.first(id)).or_default().push(Bytes {
                life: life(view, id),
                touched,
                written,
            });
        }
        for threads in by_lane.values_mut() {
            threads.sort_unstable_by_key(|th| th.life.start);
        }
        Self {
            view,
            lanes,
            by_lane,
        }
    }

    /// Whether another thread writes these bytes, or touches what is written here.
    fn by_others(&self, used: &LineUse) -> bool {
        let (own, life) = (self.lanes.first(used.thread), life(self.view, used.thread));
        let meets = |th: &Bytes| {
            bytes(used) & th.written != 0 || (used.writes && bytes(used) & th.touched != 0)
        };
        let mut others = self.by_lane.iter().filter(|(lane, _)| **lane != own);
        others.any(|(_, threads)| {
            let ended = threads.partition_point(|th| th.life.end <= life.start);
            let rest = threads[ended..].iter();
            rest.take_while(|th| th.life.start < life.end).any(meets)
        })
    }
}

/// From its first moment to its last. Where that is not known nothing speaks against any.
fn life(view: &RunView, id: ThreadId) -> Range<u64> {
    let th = view.threads.get(&id);
    th.map_or(0..u64::MAX, |th| th.start_ns..th.end_ns)
}

/// Time of a thread at a place, and of it, that in which others work: alone it loses nothing.
struct Together(BTreeMap<(ThreadId, SiteId), (f64, f64)>);

impl Together {
    fn of(view: &RunView, lanes: &Lanes) -> Self {
        let slices = view.sched.slices.iter();
        let mut at: BTreeMap<_, (f64, f64)> = BTreeMap::new();
        for slice in slices.filter(|slice| slice.spin.is_none()) {
            let Some(site) = slice.site else { continue };
            let sum = at.entry((lanes.first(slice.thread), site)).or_default();
            sum.0 += at_least(&slice.by_working, 1.0);
            sum.1 += at_least(&slice.by_working, 2.0);
        }
        Self(at)
    }

    /// Share of the time of a thread at these uses while another works as well.
    fn share(&self, id: ThreadId, uses: &[&LineUse], lanes: &Lanes) -> f64 {
        let sites: BTreeSet<SiteId> = uses
            .iter()
            .filter(|used| lanes.first(used.thread) == id)
            .filter_map(|used| used.site)
            .collect();
        let at = sites.iter().filter_map(|site| self.0.get(&(id, *site)));
        let time = at.fold((0.0, 0.0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
        // Where that is not known, nothing speaks against it.
        if time.0 > 0.0 {
            time.1 / time.0
        } else {
            1.0
        }
    }
}
