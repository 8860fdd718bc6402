//! Processes that are started for pieces so small that most of what they take is their start: a program for each file, or for each line
//! that a script reads.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{GroupId, Process, ProcessId};

use super::hand_over::{as_before, is_in};
use super::Context;
use crate::gain::Saving;
use crate::programs::{build_tool, is_shell, starts_each};
use crate::text::{cause, evidence, time};
use crate::view::View;

/// So many from which on they are a habit, and so many a second.
const MANY: usize = 200;
const RATE_HZ: f64 = 50.0;
/// CPU time of one that is short, and of starting a program: mapping it and its libraries, resolving their names, taking all of it apart in the
/// end. With the agent, and without; and of a copy of a process that runs on as it is. Measured with programs that do nothing, on a virtual
/// machine.
const SHORT_NS: f64 = 10e6;
const PROGRAM_NS: (f64, f64) = (900_000.0, 600_000.0);
const COPY_NS: f64 = 400_000.0;
/// Share of the CPU time that starting them takes.
const WORTH: f64 = 0.25;
/// With many pieces for each process so much of it goes, and as much of what a program runs that does nothing but start others; a shell has
/// lines of its own.
const EXPECTED: f64 = 0.9;
const OF_SHELLS: f64 = 0.5;
const SURE: f64 = 0.2;
/// Scripts that look what there is, in many short steps.
const CONFIGURE: &str = "configure";
/// More processes above one another are numbers that were given twice.
const GENERATIONS: usize = 64;
/// How processes are started, and their ends waited for.
const STARTS: [&str; 14] = [
    "fork",
    "__fork",
    "_Fork",
    "__libc_fork",
    "vfork",
    "__vfork",
    "clone",
    "__clone",
    "posix_spawn",
    "__spawni",
    "do_fork_exec",
    "child_exec",
    "wait4",
    "waitpid",
];
const METHOD: &str = "CPU time of starting processes, gone";

/// A process from its start to its end, whatever programs it ran.
#[derive(Default)]
struct Life {
    /// In the order in which it ran them; all but the last were only on the way.
    programs: Vec<(ProcessId, f64)>,
}

impl Life {
    fn running(&self) -> f64 {
        self.programs.iter().map(|(_, ns)| ns).sum()
    }

    fn is_short(&self) -> bool {
        self.running() <= SHORT_NS
    }

    /// The program that it was started for; `None`: a copy of the process that made it.
    fn program<'a>(&self, view: &View<'a>, parent: &Process) -> Option<&'a Process> {
        let (last, before) = self.programs.split_last()?;
        let process = view.process_at(last.0)?;
        // Of a child that shares its parent's memory until then, nothing is left of what it was before.
        let other = process.name != parent.name || process.args != parent.args;
        (other || !before.is_empty()).then_some(process)
    }

    /// CPU time of its start.
    fn start(&self, program: Option<&Process>) -> f64 {
        let Some(((_, last), before)) = self.programs.split_last() else {
            return 0.0;
        };
        let own = match program {
            None => COPY_NS,
            Some(program) if program.without_agent => PROGRAM_NS.1,
            Some(_) => PROGRAM_NS.0,
        };
        before.iter().map(|(_, ns)| ns).sum::<f64>() + last.min(own)
    }
}

/// Short processes that one starts, or that those do.
#[derive(Default)]
struct Started<'a> {
    n: usize,
    start_ns: f64,
    names: BTreeMap<&'a str, usize>,
}

/// What is said, and the groups whose low parallelism it explains.
pub(crate) fn findings(cx: &Context) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let lives = lives(view);
    let mut starters: BTreeMap<ProcessId, Started> = BTreeMap::new();
    for (pid, life) in lives.iter().filter(|(_, life)| life.is_short()) {
        let Some((starter, parent)) = starter(view, &lives, *pid) else {
            continue;
        };
        let program = life.program(view, parent);
        let started = starters.entry(starter).or_default();
        started.n += 1;
        started.start_ns += life.start(program);
        if let Some(program) = program {
            *started.names.entry(&program.name).or_default() += 1;
        }
    }
    let found = starters.iter();
    found
        .filter_map(|(id, started)| finding(view, *id, started))
        .collect()
}

fn lives(view: &View) -> BTreeMap<u32, Life> {
    let mut running: BTreeMap<ProcessId, f64> = BTreeMap::new();
    for (&id, th) in &view.threads {
        *running.entry(view.process(id)).or_default() += th.running_ns as f64;
    }
    let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
    for (id, process) in (0..).map(ProcessId).zip(&view.model.processes) {
        let ns = running.get(&id).copied().unwrap_or_default();
        let life = lives.entry(process.pid).or_default();
        life.programs.push((id, ns));
    }
    lives
}

/// The nearest process above that is not short itself, and the parent, if none of those above is a tool for builds: what that starts
/// is what is to be done.
fn starter<'a>(
    view: &View<'a>,
    lives: &BTreeMap<u32, Life>,
    pid: u32,
) -> Option<(ProcessId, &'a Process)> {
    let last = |pid: &u32| lives.get(pid)?.programs.last().map(|(id, _)| *id);
    let above = |pid: &u32| {
        let first = lives.get(pid)?.programs.first()?;
        let parent = view.process_at(first.0)?.ppid;
        (parent != *pid && lives.contains_key(&parent)).then_some(parent)
    };
    let line: Vec<u32> = std::iter::successors(above(&pid), above)
        .take(GENERATIONS)
        .collect();
    let programs = line.iter().filter_map(last);
    let programs: Vec<&Process> = programs.filter_map(|id| view.process_at(id)).collect();
    let is_build = |process: &&Process| {
        build_tool(process).is_some() || process.args.iter().any(|arg| arg.ends_with(CONFIGURE))
    };
    if programs.iter().any(is_build) {
        return None;
    }
    let is_short = |pid: &u32| lives.get(pid).is_some_and(Life::is_short);
    let nearest = line.iter().find(|pid| !is_short(pid)).and_then(last)?;
    Some((nearest, programs.first()?))
}

/// CPU time of the one that starts them which goes with fewer of them: expected and at most, nanoseconds.
fn of_starter(view: &View, id: ProcessId, process: &Process) -> (f64, f64) {
    let running: f64 = view.of_process(id).map(|th| th.running_ns as f64).sum();
    if starts_each(process).is_some() {
        return (EXPECTED * running, running);
    }
    if is_shell(process) {
        return (OF_SHELLS * running, running);
    }
    let (mut starts, mut all) = (0.0, 0.0);
    for (slice, site) in view.model.samples() {
        if view.process(slice.thread) == id {
            all += slice.n as f64;
            let is_start = site.is_some_and(|site| is_in(site, &STARTS));
            starts += if is_start { slice.n as f64 } else { 0.0 };
        }
    }
    let ns = running * starts / f64::max(all, 1.0);
    (EXPECTED * ns, ns)
}

fn finding(view: &View, id: ProcessId, started: &Started) -> Option<(Vec<GroupId>, Finding)> {
    let process = view.process_at(id)?;
    let rate = started.n as f64 / (view.wall / 1e9);
    if started.n < MANY || rate < RATE_HZ {
        return None;
    }
    let own = of_starter(view, id, process);
    let expected = EXPECTED * started.start_ns + own.0;
    let most = started.start_ns + own.1;
    let share = (most / view.cpu_work.max(1.0)).min(1.0);
    if share < WORTH {
        return None;
    }
    let saving = Saving {
        expected: as_before(view, expected, expected),
        most: view.wall,
        sure: SURE,
        cpu: (expected, most),
    };
    let name = started.names.iter().max_by_key(|(_, n)| **n);
    let name = name.map_or(process.name.as_str(), |(name, _)| name);
    let threads = view.of_process(id).map(|th| view.role(th.thread));
    let fix = match starts_each(process) {
        Some(how) => format!("many pieces for each {name}: {how}"),
        None if is_shell(process) => format!("one {name} for all lines or files (awk, a list of files), or what the shell can do itself, instead of one for each"),
        None => format!("one {name} for many pieces, one that stays and is fed through a pipe, or a library that does the same"),
    };
    let finding = Finding {
        id: "fine-grained-tasks",
        subject: Subject::Processes(vec![id]),
        title: format!(
            "{} ({}) starts {} processes, {} a second, most {name}: starting them takes {} of the CPU time",
            process.title(),
            process.pid,
            count(started.n as f64),
            count(rate),
            percent(share),
        ),
        evidence: vec![
            evidence(
                "start_ratio",
                started.start_ns / view.cpu_work.max(1.0),
                format!(
                    "{} of the CPU time are their starts, {} each",
                    percent(started.start_ns / view.cpu_work.max(1.0)),
                    duration(started.start_ns / started.n as f64),
                ),
            ),
            time(
                "starter_ns",
                own.1,
                &format!("of CPU time {} takes to start them", process.title()),
            ),
        ],
        causes: vec![cause(
            "process-per-piece",
            "a process is made, its program and libraries are mapped and taken apart again, for each small piece of work",
            fix,
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the work itself"),
        share_of_thread_time: share,
        caveats: vec![
            "what starting a program takes here is not measured: of the last one in each process up to 0.9 ms count as its start".into(),
        ],
    };
    Some((threads.collect(), finding))
}
