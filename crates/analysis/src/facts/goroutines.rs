//! Goroutines by the function that they began in: which thread runs one changes all the time, but its samples tell.

use std::collections::BTreeMap;

use convoy_model::{GoWait, ProcessId, Site, SiteFrame, SiteId};

use crate::detectors::task_granularity::passes_on_work;
use crate::facts::concurrency::{add, at_least, levels};
use crate::facts::run_view::RunView;

/// Two goroutines that began in one function are at times at work together, and then have twice as much time as passes.
/// It must pass for this share of the run to tell...
const TOGETHER: f64 = 0.05;
/// ... and this is as much as passes.
const ONE: (f64, f64) = (0.8, 1.2);

/// Where each goroutine ends up, where the first one begins, and what belongs to Go itself.
const ENDS: &str = "runtime.goexit";
const FIRST: &str = "runtime.main";
pub(crate) const RUNTIME: &str = "runtime.";
/// What makes one...
const MAKES: &str = "runtime.newproc";
/// ... in less than a microsecond: samples in it from which on they are made all the time.
const MADE: u64 = 2;
/// What the compiler makes of a call in a `go` statement, and of a function without a name: what they call says more, if
/// that is nearly all that they do.
const NAMELESS: [&str; 2] = [".gowrap", ".func"];
const NEARLY_ALL: f64 = 0.8;

/// By the name of the function; empty = what goroutine it is was cut off.
pub(crate) type Kinds<'a> = BTreeMap<&'a str, Started<'a>>;

/// Goroutines of one process that began in the same function.
#[derive(Default)]
pub(crate) struct Started<'a> {
    pub(crate) first: Option<&'a SiteFrame>,
    pub(crate) samples: u64,
    /// Of these, in passing on work.
    pub(crate) hands_over: u64,
    /// Time at work by the number of working threads meanwhile.
    pub(crate) by_working: Vec<u64>,
    pub(crate) sites: BTreeMap<SiteId, f64>,
}

/// All samples of threads of Go.
pub(crate) fn by_start<'a>(view: &RunView<'a>) -> BTreeMap<ProcessId, Kinds<'a>> {
    let mut processes: BTreeMap<ProcessId, Kinds> = BTreeMap::new();
    for (slice, site) in view.model.samples() {
        if !view.roles.is_go(view.role(slice.thread)) {
            continue;
        }
        let first = site.and_then(first);
        let name = first.map_or("", |frame| frame.function.as_str());
        let process = processes.entry(view.process(slice.thread)).or_default();
        let started = process.entry(name).or_default();
        started.first = started.first.or(first);
        started.samples = started.samples.saturating_add(slice.n);
        if site.is_some_and(passes_on_work) {
            started.hands_over = started.hands_over.saturating_add(slice.n);
        }
        add(&mut started.by_working, &slice.by_working);
        if let Some(site) = slice.site {
            *started.sites.entry(site).or_default() += slice.cm_ns;
        }
    }
    processes
}

/// Whether a kind is the program's, and known.
pub(crate) fn is_own(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(RUNTIME)
}

/// What a goroutine began in, if that was not cut off.
fn first(site: &Site) -> Option<&SiteFrame> {
    own_frames(site)?.next()
}

/// The same of goroutines that wait.
pub(crate) fn began<'a>(view: &RunView<'a>, wait: &GoWait) -> Option<&'a SiteFrame> {
    first(view.model.site(wait.site?)?)
}

/// What a goroutine is in, from the function that it began in inwards. Without its end the stack was cut off.
fn own_frames(site: &Site) -> Option<impl Iterator<Item = &SiteFrame>> {
    let mut inwards = site.frames.iter().rev();
    inwards
        .next()
        .filter(|frame| frame.function.starts_with(ENDS))?;
    Some(inwards.skip_while(|frame| frame.function.starts_with(FIRST)))
}

impl Started<'_> {
    pub(crate) fn is_first(&self) -> bool {
        self.first
            .is_some_and(|frame| frame.function == "main.main")
    }

    /// Samples in work.
    pub(crate) fn works(&self) -> u64 {
        self.samples.saturating_sub(self.hands_over)
    }

    /// The function that they are known by.
    pub(crate) fn name(&self, view: &RunView) -> String {
        let all: f64 = self.sites.values().sum();
        let mut shown = self.first;
        for depth in 1.. {
            let nameless = |frame: &&SiteFrame| NAMELESS.iter().any(|n| frame.function.contains(n));
            if !shown.as_ref().is_some_and(nameless) {
                break;
            }
            let mut inner: BTreeMap<&str, (f64, &SiteFrame)> = BTreeMap::new();
            for (site, weight) in &self.sites {
                let frames = view.model.site(*site).and_then(own_frames);
                if let Some(frame) = frames.and_then(|mut frames| frames.nth(depth)) {
                    inner.entry(&frame.function).or_insert((0.0, frame)).0 += weight;
                }
            }
            let most = inner.values().max_by(|a, b| a.0.total_cmp(&b.0));
            match most.filter(|(weight, _)| *weight >= NEARLY_ALL * all) {
                Some((_, frame)) => shown = Some(frame),
                None => break,
            }
        }
        shown.map_or_else(String::new, |frame| frame.whole().label())
    }

    /// Whether they are made all the time: what looks like one that is always at work is one after the other.
    pub(crate) fn are_many(&self, view: &RunView, process: ProcessId) -> bool {
        let Some(first) = self.first else {
            return false;
        };
        let samples = view.model.samples();
        let made = samples.filter(|(slice, site)| {
            site.is_some_and(|site| makes(site, &first.function))
                && view.process(slice.thread) == process
        });
        made.map(|(slice, _)| slice.n).sum::<u64>() >= MADE
    }

    /// Whether one of them is at work in the mean where two threads are or more.
    pub(crate) fn is_one(&self, view: &RunView) -> bool {
        let (worked, passed) = (two(&self.by_working), two(&view.sched.working));
        passed >= TOGETHER * view.wall && (ONE.0..ONE.1).contains(&(worked / passed))
    }
}

/// Whether a goroutine is made there that begins in a function without a name of the one that makes it: `work` makes
/// `work.func1`.
fn makes(site: &Site, function: &str) -> bool {
    let mut outwards = site.frames.iter();
    if !outwards.any(|frame| frame.function.starts_with(MAKES)) {
        return false;
    }
    let maker = outwards.find(|frame| !frame.function.starts_with(RUNTIME));
    let inner = maker.and_then(|maker| function.strip_prefix(maker.function.as_str()));
    inner.is_some_and(|inner| inner.starts_with('.'))
}

/// How many goroutines of a kind are at work in the mean where two threads are or more; one, where that is seldom. What no sample
/// tells of is taken for more of the same.
pub(crate) fn at_once(view: &RunView, kinds: &Kinds) -> impl Fn(&Started) -> f64 {
    let passed = two(&view.sched.working);
    let told: f64 = kinds.values().map(|kind| two(&kind.by_working)).sum();
    let levels = levels(&view.sched.working).filter(|&(n, _)| n >= 2.0);
    let threads = levels.map(|(n, ns)| n * ns).sum::<f64>() / passed;
    let tells = passed >= TOGETHER * view.wall;
    move |kind| match tells {
        true => (threads * two(&kind.by_working) / told.max(1.0)).max(1.0),
        false => 1.0,
    }
}

/// Time at which two threads or more are at work.
fn two(by_working: &[u64]) -> f64 {
    at_least(by_working, 2.0)
}
