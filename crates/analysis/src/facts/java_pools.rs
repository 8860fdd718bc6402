//! Pools of programs in Java: what a function takes from a queue, or a permit, and gives back when it is done with it.
//!
//! Such a function is told from a stage that passes on work by that it does both, in threads of one kind. Which frames are left of
//! the methods that it calls is up to the virtual machine's compilers.

use std::collections::{BTreeSet, HashSet};

use convoy_model::{
    passes_on, FunctionKey, Model, OffReason, ProcessId, Sched, SiteFrame, SiteId, ThreadId,
};

use crate::facts::roles::Roles;

/// Methods in which something is waited for, and in which it is given back...
const TAKES: [&str; 3] = ["take", "poll", "acquire"];
const GIVES: [&str; 4] = ["put", "offer", "add", "release"];
/// ... of these classes.
const PACKAGE: &str = "java.util.concurrent.";
const CLASSES: [&str; 3] = ["Queue.", "Deque.", "Semaphore."];
/// Where any thread waits for anything, each at a condition of its own.
const PARK: &str = "Parker::park";

/// Functions that take and give back.
#[derive(Debug, Default)]
pub(crate) struct JavaPools<'a> {
    functions: BTreeSet<(ProcessId, FunctionKey<'a>)>,
    /// Where threads park.
    parks: HashSet<SiteId>,
}

impl<'a> JavaPools<'a> {
    pub(crate) fn of(model: &'a Model, sched: &Sched, roles: &Roles) -> Self {
        let kind = |id: ThreadId| {
            let thread = model.threads.get(id.0 as usize);
            thread.map(|thread| roles.role(thread.group))
        };
        let of_one_kind = sched.ended_by_threads().filter(|(_, off, waker, _)| {
            off.reason == OffReason::Futex && kind(off.thread) == kind(*waker)
        });
        let functions = of_one_kind.filter_map(|(_, off, _, waker)| {
            let (takes, gives) = (off.site?, waker?);
            let function = function(model, takes, &TAKES)?;
            (Some(function) == self::function(model, gives, &GIVES)).then_some(function)
        });
        let sites = (0..).map(SiteId).zip(&model.sites);
        let parks = sites.filter(|(_, site)| site.has_function(|name| name.contains(PARK)));
        Self {
            functions: functions.collect(),
            parks: parks.map(|(id, _)| id).collect(),
        }
    }

    /// Whether a thread waits in a function for what another one gives back there. Who takes something and sees that there is
    /// more may be the one that wakes the next.
    pub(crate) fn awaits(&self, model: &'a Model, waiter: SiteId, waker: SiteId) -> bool {
        let takes = function(model, waiter, &TAKES).filter(|of| self.functions.contains(of));
        let ends = function(model, waker, &GIVES).or_else(|| function(model, waker, &TAKES));
        takes.is_some() && takes == ends
    }

    /// Whether the threads that wait there do so each at a condition of its own, whatever it is for.
    pub(crate) fn parks(&self, site: Option<SiteId>) -> bool {
        site.is_some_and(|site| self.parks.contains(&site))
    }
}

/// The program's function that calls one of these methods there.
fn function<'a>(
    model: &'a Model,
    id: SiteId,
    methods: &[&str],
) -> Option<(ProcessId, FunctionKey<'a>)> {
    let site = model.site(id)?;
    let shown = site.frames.get(site.shown)?;
    let calls = |frame: &SiteFrame| {
        let name = frame.function.as_str();
        let method = name.rsplit_once('.').map_or("", |(_, method)| method);
        name.starts_with(PACKAGE)
            && CLASSES.iter().any(|class| name.contains(class))
            && methods.iter().any(|verb| method.starts_with(verb))
    };
    let told = shown.is_told() && !passes_on(shown);
    (told && site.frames.iter().take(site.shown).any(calls)).then(|| (site.process, shown.key()))
}
