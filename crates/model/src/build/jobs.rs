//! What a thread runs, where its start routine does not tell.
//!
//! `std::thread`, Rust, GLib and OpenMP start all their threads in a routine of their own. But every
//! call stack of such a thread goes through the function that it was given: the outermost frame that
//! is not the library's.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use convoy_profile::{Process, ThreadIx};

use super::groups::is_trampoline;
use super::sched::Mention;
use super::sites::Sites;
use crate::languages::is_runtime_module;
use crate::programs::base_name;
use crate::syscall_wrappers::begins_threads;
use crate::wrappers::passes_on;
use crate::{path, Model, SiteFrame, SiteId};

/// Share of a thread's time, as the scheduler saw it, that must have gone into one job.
const MAIN_JOB: f64 = 0.8;
/// What closures are called in paths.
const CLOSURE: &str = "{closure}";

/// The function that a thread runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Job {
    /// Its path.
    pub name: String,
    /// Where the code begins that it was compiled to: all closures of one function have one path. 0 = not known, or not needed.
    begins: u64,
}

impl Job {
    /// Wherever it begins: the compiler may put parts of one closure in several places.
    fn anywhere(&self) -> Self {
        Self {
            name: self.name.clone(),
            begins: 0,
        }
    }
}

/// What threads run.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub of: HashMap<ThreadIx, Job>,
    /// Of closures, the first line in which a thread was seen.
    lines: BTreeMap<Job, (u32, String)>,
}

impl Jobs {
    /// Where a closure is, for people.
    pub fn place(&self, job: &Job) -> Option<String> {
        let (line, file) = self.lines.get(job)?;
        Some(format!("{}:{line}", base_name(file)))
    }

    fn see(&mut self, frames: &[SiteFrame]) -> Option<Job> {
        let (job, frame) = job_of(frames)?;
        if job.begins != 0 && frame.line != 0 {
            let seen = (frame.line, frame.file.clone());
            let first = self
                .lines
                .entry(job.clone())
                .or_insert_with(|| seen.clone());
            *first = seen.min(std::mem::take(first));
        }
        Some(job)
    }
}

/// Of threads that run one function, as far as that is known. The agent's call stacks of a thread must all agree; where it
/// saw none, the scheduler's are asked.
pub(super) fn jobs(
    model: &mut Model,
    process: &Process,
    mention: &Mention,
    sites: &mut Sites<'_>,
) -> Jobs {
    let mut this = Jobs::default();
    let mut by_site: HashMap<SiteId, Option<Job>> = HashMap::new();
    let mut by_thread: HashMap<ThreadIx, Option<Job>> = HashMap::new();
    for detail in &process.details {
        let Some(site) = sites.known(detail.stack, &mut model.sites) else {
            continue;
        };
        let frames = &model.sites[site.0 as usize].frames;
        let job = by_site.entry(site).or_insert_with(|| this.see(frames));
        match by_thread.entry(detail.thread) {
            Entry::Vacant(slot) => {
                slot.insert(job.clone());
            }
            Entry::Occupied(mut slot) if slot.get() != job => {
                let both = slot.get().as_ref().zip(job.as_ref());
                let same = both.filter(|(a, b)| a.name == b.name);
                let common = same.map(|(job, _)| job.anywhere());
                slot.insert(common);
            }
            Entry::Occupied(_) => {}
        }
    }
    for (thread, job) in scheduled(model, mention, sites, &mut this, &mut by_site) {
        by_thread.entry(thread).or_insert(job);
    }
    let known = by_thread.into_iter();
    this.of = known
        .filter_map(|(thread, job)| Some((thread, job.filter(|job| !job.name.is_empty())?)))
        .collect();
    this
}

/// What each thread spent nearly all of its time in, as far as its stacks tell. Threads of a runtime that
/// schedules tasks itself (Go) have as many jobs as there are tasks.
fn scheduled(
    model: &mut Model,
    mention: &Mention,
    sites: &mut Sites<'_>,
    seen: &mut Jobs,
    by_site: &mut HashMap<SiteId, Option<Job>>,
) -> BTreeMap<ThreadIx, Option<Job>> {
    let mut time: BTreeMap<ThreadIx, BTreeMap<Job, u64>> = BTreeMap::new();
    for (&(thread, stack), &ns) in &mention.time {
        let Some(site) = sites.known(stack, &mut model.sites) else {
            continue;
        };
        let frames = &model.sites[site.0 as usize].frames;
        if let Some(job) = by_site.entry(site).or_insert_with(|| seen.see(frames)) {
            let sum = time
                .entry(thread)
                .or_default()
                .entry(job.clone())
                .or_default();
            *sum = sum.saturating_add(ns.max(1));
        }
    }
    let main = |jobs: BTreeMap<Job, u64>| {
        let all: f64 = jobs.values().map(|&ns| ns as f64).sum();
        let is_main = |ns: u64| ns as f64 >= MAIN_JOB * all;
        let most = jobs.iter().max_by_key(|(_, ns)| **ns)?;
        if is_main(*most.1) {
            return Some(most.0.clone());
        }
        let same = jobs.iter().filter(|(job, _)| job.name == most.0.name);
        let sum = same.fold(0u64, |sum, (_, ns)| sum.saturating_add(*ns));
        is_main(sum).then(|| most.0.anywhere())
    };
    time.into_iter()
        .map(|(thread, jobs)| (thread, main(jobs)))
        .collect()
}

/// The outermost frame that is no library's, of a stack that goes down to where threads begin; without a name if it has none.
fn job_of(frames: &[SiteFrame]) -> Option<(Job, &SiteFrame)> {
    let begins = frames
        .last()
        .is_some_and(|frame| is_runtime_module(&frame.module) || begins_threads(&frame.function));
    let at = frames
        .iter()
        .rposition(|frame| !passes_on(frame) && !is_trampoline(frame))?;
    let outermost = frames.get(at).filter(|_| begins)?;
    // A trampoline of the program's own that was stripped of its name, if what it calls has one.
    let called = || {
        let at = at.checked_sub(1)?;
        let frame = &frames[at];
        let is_job = frame.module == outermost.module && !passes_on(frame) && !is_trampoline(frame);
        is_job.then_some((at, frame))
    };
    let (at, frame) = match outermost.function.is_empty() {
        true => called().unwrap_or((at, outermost)),
        false => (at, outermost),
    };
    let name = path::short(&frame.function);
    let compiled = frames[at..].iter().find(|frame| !frame.inlined);
    let begins = match name.contains(CLOSURE) {
        true => compiled.map_or(0, |frame| frame.start),
        false => 0,
    };
    Some((Job { name, begins }, frame))
}

#[cfg(test)]
mod tests {
    use super::job_of;
    use crate::SiteFrame;

    fn stack(frames: &[(&str, &str)]) -> Vec<SiteFrame> {
        let frame = |&(function, module): &(&str, &str)| SiteFrame {
            function: function.into(),
            module: module.into(),
            ..SiteFrame::default()
        };
        frames.iter().map(frame).collect()
    }

    fn named(frames: &[SiteFrame]) -> Option<String> {
        job_of(frames).map(|(job, _)| job.name)
    }

    const NAMELESS: Option<String> = Some(String::new());

    #[test]
    fn job_is_what_the_library_calls() {
        let complete = [
            ("std::mutex::lock()", "prog"),
            ("Queue::put(int)", "prog"),
            ("produce(Queue&)", "prog"),
            ("void std::__invoke_impl<void, void (*)()>(...)", "prog"),
            (
                "std::thread::_State_impl<std::thread::_Invoker<...> >::_M_run()",
                "prog",
            ),
            ("", "libstdc++.so.6"),
            ("start_thread", "libc.so.6"),
        ];
        assert_eq!(named(&stack(&complete)), Some("produce".into()));
        assert_eq!(named(&stack(&complete[..3])), None, "cut off");
        assert_eq!(named(&stack(&complete[3..])), None, "nothing but libraries");
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn a_trampoline_without_a_name_is_none_of_the_job() {
        let mut stack = stack(&[
            ("do_command", "served"),
            ("handle_one_connection", "served"),
            ("", "served"),
            ("start_thread", "libc.so.6"),
        ]);
        assert_eq!(named(&stack), Some("handle_one_connection".into()));
        stack[1].module = "libother.so".into();
        assert_eq!(named(&stack), NAMELESS);
        stack[1].function.clear();
        assert_eq!(named(&stack), NAMELESS);
        assert_eq!(named(&stack[2..]), NAMELESS);
        assert_eq!(named(&stack[..3]), None, "cut off");
    }
}
