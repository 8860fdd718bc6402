//! What a lock of the C library's own, or a monitor of Java's, costs besides its waits: its word goes from processor to
//! processor with every call, and that shows in no wait. The samples of the functions that take it and let it go tell.

use std::collections::BTreeSet;

use convoy_model::{FunctionKey, Site, SiteFrame, SiteId, ThreadId};

use crate::facts::run_view::RunView;

/// Samples of the threads from which on shares of them mean something.
const SAMPLES: u64 = 30;
/// Share of what threads run that goes into waiting and waking, from which on the word is hot, and certainly is.
const HOT: (f64, f64) = (0.01, 0.05);
/// Part of the functions that wait and wake that goes with a lock of one's own, or none: they are called only if another thread
/// has it.
const WAITING: f64 = 0.95;
/// The same of the functions that call them: what is left takes and lets go a word that nobody else has.
const LOCKING: f64 = 0.7;
/// Part of what is done for a monitor that goes with one of one's own: it is also entered where nobody has it just then.
const MONITOR: f64 = 0.75;
/// The section is compiled into the method that has it: at most this part of all that its threads run is the section.
const GUARDED: f64 = 0.6;

/// Where HotSpot takes a monitor (`synchronized`) and lets it go if another thread wants it, too: else the code that it makes
/// does so itself. objectMonitor.cpp, synchronizer.cpp, sharedRuntime.cpp of JDK 17 to 25.
const MONITORS: [&str; 5] = [
    "ObjectMonitor::",
    "ObjectSynchronizer::",
    "LightweightSynchronizer::",
    "complete_monitor_",
    "monitor_enter_helper",
];
/// What is done with a monitor besides.
const NO_LOCKING: [&str; 2] = ["wait", "notify"];

/// Functions of locks of the C library: those that wait and wake, and those that call them. These do little else: they
/// take the lock, call a function that does the work (`random_r()`, `_IO_file_xsputn()`), and let it go.
#[derive(Default)]
pub(crate) struct LockCode<'a> {
    waiting: BTreeSet<FunctionKey<'a>>,
    locking: BTreeSet<FunctionKey<'a>>,
    /// Where monitors are taken and let go.
    monitors: BTreeSet<FunctionKey<'a>>,
}

/// The function that takes a monitor or lets it go, if that is where the virtual machine is. Functions without a name are at many
/// addresses, interpreted and compiled ever better, and some are not found: all those are one.
fn of_a_monitor(site: &Site) -> Option<FunctionKey<'_>> {
    let shown = site.shown_frame()?;
    let inner = site.frames.get(..=site.shown)?;
    let of_one = |frame: &&SiteFrame| MONITORS.iter().any(|part| frame.function.contains(part));
    let is_locking =
        |frame: &SiteFrame| !NO_LOCKING.iter().any(|part| frame.function.contains(part));
    let mut monitors = inner.iter().filter(of_one).peekable();
    monitors.peek()?;
    if !monitors.all(is_locking) {
        return None;
    }
    match shown.is_unnamed_generated() || of_one(&shown) {
        true => Some(("", "", 0)),
        false => Some(shown.key()),
    }
}

impl<'a> LockCode<'a> {
    /// Of all monitors that samples found these threads at.
    pub(crate) fn of_monitors(view: &RunView<'a>, threads: &BTreeSet<ThreadId>) -> Self {
        let samples = view.model.samples();
        let theirs = samples.filter(|(slice, _)| threads.contains(&slice.thread));
        Self {
            monitors: theirs.filter_map(|(_, site)| of_a_monitor(site?)).collect(),
            ..Self::default()
        }
    }

    /// A place where such a lock is waited for, or such a wait ended.
    pub(crate) fn add(&mut self, view: &RunView<'a>, site: Option<SiteId>) {
        let site = site.and_then(|id| view.model.site(id));
        self.monitors.extend(site.and_then(of_a_monitor));
        let frames = site.map_or(&[][..], |site| &site.frames);
        for (frame, caller) in frames.iter().zip(&frames[1.min(frames.len())..]) {
            if frame.function.starts_with("__lll_lock_") {
                self.waiting.insert(frame.key());
                // Without names every function of the library is one.
                if caller.module == frame.module && caller.is_told() {
                    self.locking.insert(caller.key());
                }
            }
        }
    }

    /// What a hot lock takes of what these threads run; nothing if it is not hot, or too little is known.
    ///
    /// Samples are counted, and not the time of the slices in which they fell: a thread that is alone with the lock
    /// has the long ones.
    pub(crate) fn shares(&self, view: &RunView, threads: &BTreeSet<ThreadId>) -> Shares {
        let (mut all, mut waiting, mut in_monitors) = (0, 0, 0);
        let (mut locking, mut under) = (0, 0);
        let samples = view.model.samples();
        for (slice, site) in samples.filter(|(slice, _)| threads.contains(&slice.thread)) {
            all += slice.n;
            let frames = site.map_or(&[][..], |site| &site.frames);
            let Some(leaf) = frames.first() else {
                continue;
            };
            let of_one = |site| of_a_monitor(site).is_some_and(|at| self.monitors.contains(&at));
            if self.waiting.contains(&leaf.key()) {
                waiting += slice.n;
            } else if site.is_some_and(of_one) {
                in_monitors += slice.n;
            } else if self.locking.contains(&leaf.key()) {
                locking += slice.n;
            } else if frames
                .iter()
                .any(|frame| self.locking.contains(&frame.key()))
            {
                under += slice.n;
            }
        }
        if all < SAMPLES {
            return Shares::default();
        }
        let of_all = |n: u64| n as f64 / all as f64;
        let guarded = if in_monitors > 0 { GUARDED } else { 0.0 };
        let hot = ((of_all(waiting + in_monitors) - HOT.0) / (HOT.1 - HOT.0)).clamp(0.0, 1.0);
        Shares {
            expected: hot
                * (WAITING * of_all(waiting)
                    + LOCKING * of_all(locking)
                    + MONITOR * of_all(in_monitors)),
            with_section: hot * of_all(waiting + locking + under + in_monitors).max(guarded),
        }
    }
}

/// Shares of what threads run, 0..1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shares {
    /// Taking, waiting for and letting go the lock: as much as goes with a lock of one's own, or none.
    pub(crate) expected: f64,
    /// All of it, and what is done under the lock, whose data go from processor to processor as well.
    pub(crate) with_section: f64,
}
