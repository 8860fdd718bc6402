//! Processes that one process starts one after the other, waiting for the end of each: a loop of a script, a build without `-j`.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{FindingId, Process, ProcessId};

use crate::detectors::thread_count::of_others;
use crate::estimate::saving::Saving;
use crate::facts::concurrency::at_least;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::knowledge::programs::{build_tool, configures, is_shell, starts_several};
use crate::words::{cause, evidence};

/// Share of the run that they work, that two of them are there at most, and that two threads work at most: a step may be a pipeline, or
/// have jobs of its own.
const WORK: f64 = 0.7;
const TOGETHER: f64 = 0.1;
const AT_ONCE: f64 = 0.5;
/// Part of their work that goes through the process that starts them one by one.
const BELOW: f64 = 0.9;
/// Steps that do at least this part of what the longest one does: fewer of them are a sequence that somebody has thought of.
const STEPS: (usize, f64) = (4, 0.1);
/// No step does more than this share of it.
const LONGEST: f64 = 0.5;
/// Steps of a script that are shorter in the mean, nanoseconds, are what it looks at and not what it is for.
const SHORT_NS: f64 = 40e6;
/// More processes above one another are numbers that were given twice.
pub(crate) const GENERATIONS: usize = 64;
/// Steps are pieces of one kind if those that spend most in the same program do so much of their work. A tool for builds may have steps
/// of some kinds, of each kind so many.
const ALIKE: f64 = 0.8;
const OF_A_KIND: usize = 3;
/// Part that is expected to be done at the same time: a tool for builds knows what depends on what (four builds were 1.83 to 2.06 times as
/// fast with two jobs on two CPUs), and of other steps of one kind nothing is known but that. Steps that are all different may be a chain
/// even there.
const OF_BUILDS: f64 = 0.9;
const OF_OTHERS: f64 = 0.5;
const METHOD: &str = "the steps on all CPUs, none faster than the longest (Amdahl)";

/// A process that starts others, and those below it.
struct Runner {
    id: ProcessId,
    /// Who started it, and so on.
    above: Vec<ProcessId>,
    steps: Vec<Step>,
}

/// What one process does that the runner started, with all that it starts itself.
#[derive(Default)]
struct Step {
    work: f64,
    /// When its first process began and ended.
    lives: (u64, u64),
    /// By program.
    programs: BTreeMap<String, f64>,
}

impl Step {
    fn program(&self) -> Option<&str> {
        let most = self.programs.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map(|(name, _)| name.as_str())
    }
}

/// `None` where several work at a time, or nothing says that they could.
pub(crate) fn finding(cx: &RunFacts) -> Option<Finding> {
    let view = cx.view;
    let work = work(view);
    let jobs = || work.iter().filter(|(id, _)| is_job(view, **id));
    let all: f64 = jobs().map(|(_, work)| work).sum();
    let at_once = at_least(&view.sched.working, 2.0) > AT_ONCE * view.wall;
    if all < WORK * view.wall || at_once || view.cpus < 2.0 || !view.cpus.is_finite() {
        return None;
    }
    let runner = runner(view, &work, all)?;
    // What starts the programs of a step is part of it: the driver of a compiler.
    let all: f64 = runner.steps.iter().map(|step| step.work).sum();
    let process = view.process_at(runner.id)?;
    let longest = runner.steps.iter().map(|s| s.work).fold(0.0, f64::max);
    let steps = runner.steps.iter().filter(|s| s.work >= STEPS.1 * longest);
    let steps: Vec<&Step> = steps.collect();
    if steps.len() < STEPS.0 || longest > LONGEST * all || is_job(view, runner.id) {
        return None;
    }
    // What is there beside them and does next to nothing is no step: it reads what they print, say.
    if together(&steps) > TOGETHER * view.wall {
        return None;
    }
    let line = std::iter::once(&runner.id).chain(&runner.above);
    let tools = line.filter_map(|id| view.process_at(*id));
    let tools: Vec<&Process> = tools.filter(|of| build_tool(of).is_some()).collect();
    let is_build = build_tool(process).is_some();
    // What a tool that may start several starts one by one is a chain of things that need one another.
    if is_build && tools.iter().any(|tool| starts_several(tool)) {
        return None;
    }
    // A script that looks what there is, in many short steps, uses what it has found.
    let mean = all / runner.steps.len().max(1) as f64;
    if !is_build && (mean < SHORT_NS || configures(process)) {
        return None;
    }
    let build = tools.first().copied();
    let kinds = Kinds::of(&steps);
    let alike = kinds.alike();
    let expected = match build {
        Some(_) if alike.is_some() || (is_build && kinds.are_several()) => OF_BUILDS,
        None if alike.is_some() => OF_OTHERS,
        _ => return None,
    };
    // Less than that passes where a step does several things at a time.
    let passes = all.min(at_least(&view.sched.working, 1.0));
    if passes < WORK * view.wall {
        return None;
    }
    let least = (longest * passes / all).max(all / view.cpus_left());
    let most = (passes - least).max(0.0);
    let saving = Saving {
        expected: expected * most,
        most,
        ..Saving::default()
    };
    let share = (passes / view.wall).min(1.0);
    let of_one = alike.map_or(String::new(), |name| format!(", most of each in {name}"));
    Some(Finding {
        id: FindingId::SerialJobs,
        subject: Subject::Run,
        title: format!(
            "{} ({}) runs {} steps one after the other, {} of the run, on {} of {:.0} CPUs{}",
            process.name,
            process.pid,
            steps.len(),
            percent(share),
            match all - passes > TOGETHER * view.wall {
                true => format!("{:.1}", all / passes),
                false => "one".to_owned(),
            },
            view.cpus,
            of_others(view)
        ),
        evidence: vec![
            evidence(
                "busy_ratio",
                share,
                format!(
                    "it waits for the end of each{of_one}; {} processes worked in all",
                    jobs().count()
                ),
            ),
            evidence(
                "longest_ratio",
                longest / all,
                format!("the longest step is {} of the work", percent(longest / all)),
            ),
        ],
        causes: vec![cause(
            "serial-jobs",
            "the next one starts when the one before has ended, whatever it needs of it",
            fix(process, build, view.cpus),
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "what steps need of one another"),
        share_of_thread_time: share,
        caveats: vec!["whether a step needs what the one before has made is not known".into()],
    })
}

fn fix(runner: &Process, build: Option<&Process>, cpus: f64) -> String {
    let jobs = format!("{cpus:.0}");
    match build.and_then(build_tool) {
        Some(tool) if build_tool(runner).is_some() => format!("{tool} -j{jobs}, with what depends on what in its rules"),
        Some(tool) => format!(
            "a rule for each step instead of a loop in one, so that {tool} -j{jobs} starts several (with $(MAKE) in the rule they share \
             its jobs)"
        ),
        None if runner.name == "xargs" => format!("xargs -P {jobs}"),
        None if is_shell(runner) => format!("several at a time: xargs -P {jobs}, parallel -j {jobs}, or & and wait"),
        None => format!("{jobs} of them at a time"),
    }
}

/// Work of processes, nanoseconds.
fn work(view: &RunView) -> BTreeMap<ProcessId, f64> {
    let mut work: BTreeMap<ProcessId, f64> = BTreeMap::new();
    for (&id, th) in &view.threads {
        *work.entry(view.process(id)).or_default() += th.working_ns() as f64;
    }
    work
}

/// Whether it is a process that does not only start others.
fn is_job(view: &RunView, id: ProcessId) -> bool {
    !view.roles.is_parent(id)
}

/// The one nearest to the work that nearly all of it is below of.
fn runner(view: &RunView, work: &BTreeMap<ProcessId, f64>, all: f64) -> Option<Runner> {
    let mut by_pid: BTreeMap<u32, ProcessId> = BTreeMap::new();
    for (id, process) in (0..).map(ProcessId).zip(&view.model.processes) {
        // Of programs that one process ran one after the other the last one: those before only started it.
        by_pid.insert(process.pid, id);
    }
    let above = |id: ProcessId| {
        let process = view.process_at(id)?;
        by_pid.get(&process.ppid).copied().filter(|of| *of != id)
    };
    let line = |id: ProcessId| -> Vec<ProcessId> {
        let up = std::iter::successors(above(id), |id| above(*id));
        up.take(GENERATIONS).collect()
    };
    let mut below: BTreeMap<ProcessId, f64> = BTreeMap::new();
    for (&id, work) in work.iter().filter(|(id, _)| is_job(view, **id)) {
        let distinct: BTreeSet<ProcessId> = line(id).into_iter().collect();
        for of in distinct {
            *below.entry(of).or_default() += work;
        }
    }
    let enough = below.iter().filter(|(_, work)| **work >= BELOW * all);
    let (&id, _) = enough.max_by_key(|(id, _)| line(**id).len())?;
    let mut steps: BTreeMap<ProcessId, Step> = BTreeMap::new();
    for (&of, work) in work {
        let above = line(of);
        let path: Vec<ProcessId> = std::iter::once(of).chain(above).collect();
        let at = path.iter().skip(1).position(|of| *of == id);
        let Some(step) = at.and_then(|at| path.get(at)) else {
            continue;
        };
        let step = steps.entry(*step).or_insert_with(|| Step {
            lives: lives(view, *step),
            ..Step::default()
        });
        step.work += work;
        if is_job(view, of) {
            let name = view.process_at(of).map(Process::title).unwrap_or_default();
            *step.programs.entry(name).or_default() += work;
        }
    }
    Some(Runner {
        id,
        above: line(id),
        steps: steps.into_values().collect(),
    })
}

/// From when to when a process was there.
fn lives(view: &RunView, id: ProcessId) -> (u64, u64) {
    let began = view.of_process(id).map(|th| th.start_ns).min();
    let ended = view.of_process(id).map(|th| th.end_ns).max();
    (began.unwrap_or(0), ended.unwrap_or(0))
}

/// How long two steps or more were there at once, nanoseconds.
fn together(steps: &[&Step]) -> f64 {
    let mut lives: Vec<(u64, u64)> = steps.iter().map(|step| step.lives).collect();
    lives.sort_unstable();
    let (mut upto, mut both) = (0, 0);
    for (began, ended) in lives {
        both += u64::min(upto, ended).saturating_sub(began);
        upto = upto.max(ended);
    }
    both as f64
}

/// Steps by the program that each spends most in: how many, and their work.
struct Kinds<'a>(BTreeMap<&'a str, (usize, f64)>);

impl<'a> Kinds<'a> {
    fn of(steps: &[&'a Step]) -> Self {
        let mut kinds: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
        for (step, name) in steps
            .iter()
            .filter_map(|step| Some((step, step.program()?)))
        {
            let (n, work) = kinds.entry(name).or_default();
            *n += 1;
            *work += step.work;
        }
        Self(kinds)
    }

    fn work(&self) -> f64 {
        self.0.values().map(|(_, work)| work).sum()
    }

    /// The program of nearly all.
    fn alike(&self) -> Option<&'a str> {
        let mut kinds = self.0.iter();
        let enough = kinds.find(|(_, (_, work))| *work >= ALIKE * self.work());
        enough.map(|(name, _)| *name)
    }

    /// Whether nearly all of them are one of several of a kind.
    fn are_several(&self) -> bool {
        let several = self.0.values().filter(|(n, _)| *n >= OF_A_KIND);
        several.map(|(_, work)| work).sum::<f64>() >= ALIKE * self.work()
    }
}
