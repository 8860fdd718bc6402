//! `convoy live --search`: where the time of a program goes, found by probes that convoy chooses,
//! puts in and takes out by itself.

mod evidence;
mod locks;
mod measurement;
mod output;
mod text;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use convoy_capture::{AgentInside, Interrupt, Targets, Watch};
use convoy_live::search::{
    threads_of, unsampled, Axes, Candidate, History, Hypothesis, Known, Limits, NodeId, Outcome,
    Place, Recorded, Resource, Search, Share, Tested, Time, WaitReason,
};
use convoy_live::{Focus, Function, Key, Kind};

use super::args::Live;
use super::engine::{Engine, Step};
use super::functions::Functions;
use super::readers::Locks;
use crate::args::Agent;
use crate::message::{say, Message};

use locks::Holders;
use measurement::Measurement;
use output::Output;

/// From one reading to the next.
const EVERY: Duration = Duration::from_millis(250);

/// Length of the recording.
const RECORDING: Duration = Duration::from_secs(2);

/// Readings in which hypotheses about the whole program are judged.
const READINGS: usize = 8;

/// Readings after which it is judged, clear or not.
const MOST_READINGS: usize = 14;

/// A probe that has less than this part of what samples say has missed something.
const CONTRADICTS: f64 = 0.5;

/// What a search ends with.
#[derive(Debug)]
pub struct Found {
    /// The process.
    pub process: String,
    /// See `process`.
    pub pid: u32,
    /// The tree.
    pub search: Search,
    /// Threads that are busy, on average.
    pub busy: f64,
    /// Threads.
    pub threads: usize,
    /// Length of the search.
    pub seconds: f64,
    /// Foci that got a probe.
    pub tests: usize,
    /// Most that its probes cost at a time, as a share of the program's CPU time.
    pub cost_share: f64,
    /// Nothing else could be looked at: the process ended, or the user left.
    pub is_cut_short: bool,
}

/// A search under way.
struct Searcher<'a> {
    live: &'a Live,
    engine: &'a mut Engine,
    agent: &'a mut Option<AgentInside>,
    asked: &'a dyn Fn() -> bool,
    history: History,
    recorded: Result<Recorded, String>,
    holders: Holders,
    no_locks: String,
    search: Search,
    tests: usize,
    cost_share: f64,
    is_over: bool,
}

/// Searches in a process that runs already.
pub fn of_process(live: &Live, pid: u32) -> Result<(), Message> {
    Targets::check(pid).map_err(|trouble| Message::from(&trouble))?;
    let interrupt = Interrupt::watch();
    // Dropped last: the agent goes out when the probes are.
    let (mut agent, watch) = super::enter(live.agent.unwrap_or_default(), pid)?;
    let out = Output::new(std::io::stdout(), live);
    run(live, pid, watch, &mut agent, &|| interrupt.asked(), out)
}

/// Searches in a program that was just started; it may be interrupted by nobody but its user.
pub fn of_command(live: &Live, pid: u32, watch: Option<Watch>) -> Result<(), Message> {
    let out = Output::new(std::io::stderr(), live);
    run(live, pid, watch, &mut None, &|| false, out)
}

fn run<W: Write>(
    live: &Live,
    pid: u32,
    watch: Option<Watch>,
    agent: &mut Option<AgentInside>,
    asked: &dyn Fn() -> bool,
    mut out: Output<W>,
) -> Result<(), Message> {
    let locks = watch.map(Locks::new);
    let mut engine = Engine::new(pid, locks, live.budget, EVERY).map_err(|e| super::failed(&e))?;
    let mut searcher = Searcher {
        live,
        engine: &mut engine,
        agent,
        asked,
        history: History::default(),
        recorded: Err("it was not recorded".into()),
        holders: Holders::default(),
        no_locks: String::new(),
        search: Search::new(Limits::default()),
        tests: 0,
        cost_share: 0.0,
        is_over: false,
    };
    let found = searcher.go(&mut out);
    let written = match found {
        Ok(found) => out.conclude(&found),
        Err(message) => Err(message),
    };
    super::end(engine, written)
}

impl Searcher<'_> {
    fn go<W: Write>(&mut self, out: &mut Output<W>) -> Result<Found, Message> {
        self.record()?;
        self.count_locks()?;
        let busy = self.judge_hypotheses(out)?;
        while !self.is_over {
            while let Some(id) = self.search.to_refine() {
                for new in self.refine(id)? {
                    out.node(&self.search, new, self.engine.elapsed())?;
                }
            }
            let batch = self.search.next_batch();
            if batch.is_empty() {
                break;
            }
            self.say(&format!("testing {}", labels(&self.search, &batch)));
            self.test(&batch)?;
            for id in batch {
                out.node(&self.search, id, self.engine.elapsed())?;
            }
        }
        Ok(Found {
            process: self.engine.process().to_owned(),
            pid: self.engine.pid(),
            search: self.search.clone(),
            busy,
            threads: self.history.threads().len(),
            seconds: self.engine.elapsed().as_secs_f64(),
            tests: self.tests,
            cost_share: self.cost_share,
            is_cut_short: self.is_over,
        })
    }

    fn say(&self, text: &str) {
        if !self.live.quiet {
            let seconds = self.engine.elapsed().as_secs_f64();
            say(&format!("convoy: {seconds:4.1} s: {text}\n"));
        }
    }

    /// One reading; whether there is another one to come.
    fn reading(&mut self) -> Result<bool, Message> {
        loop {
            let limit = self.live.limit;
            if (self.asked)() || limit.is_some_and(|limit| self.engine.elapsed() >= limit) {
                self.is_over = true;
                return Ok(false);
            }
            match self.engine.step(EVERY).map_err(|e| super::failed(&e))? {
                Step::Sampled(_) => {
                    let has_locks = self.engine.locks().is_some();
                    self.history.note(self.engine.session(), has_locks);
                    let share = self.engine.session().cost_share();
                    self.cost_share = self.cost_share.max(share);
                    return Ok(true);
                }
                Step::Waited => {}
                Step::Ended => {
                    self.is_over = true;
                    return Ok(false);
                }
            }
        }
    }

    /// Records the scheduler's events, and reads threads and locks meanwhile.
    fn record(&mut self) -> Result<(), Message> {
        let text = "recording samples and waits for 2 s";
        self.say(text);
        let pid = self.engine.pid();
        self.note_holders();
        let recording = thread::spawn(move || evidence::record(pid, RECORDING));
        let began = Instant::now();
        while !recording.is_finished() && self.reading()? {
            // Then convoy reads symbols, and takes CPU time from the program.
            if began.elapsed() > RECORDING {
                break;
            }
        }
        let gone = |_| Err("the recording failed".to_owned());
        self.recorded = recording.join().unwrap_or_else(gone);
        if let Err(why) = &self.recorded {
            let message = format!("process {pid} was not recorded: {why}");
            let effect = "waits for files and sockets are unknown, and functions have no samples";
            Message::new(message, effect, "").print();
            // Said once; the outcomes have what to do.
            let fix = why.rsplit_once("; fix: ").map(|(_, fix)| fix.to_owned());
            let fix = fix.map_or(String::new(), |fix| format!(": {fix}"));
            self.recorded = Err(format!("the scheduler's events were not recorded{fix}"));
        }
        Ok(())
    }

    fn note_holders(&mut self) {
        let locks = self.engine.locks();
        self.holders = locks
            .map(|locks| Holders::of(&locks.read_model()))
            .unwrap_or_default();
    }

    fn known(&self) -> Known<'_> {
        Known {
            history: &self.history,
            recorded: self.recorded.as_ref().map_err(String::as_str),
            no_locks: &self.no_locks,
        }
    }

    /// Puts the agent in where waits may be those for locks.
    fn count_locks(&mut self) -> Result<(), Message> {
        let threshold = self.search.limits().threshold;
        if self.engine.locks().is_some() || self.is_over {
            return Ok(());
        }
        self.no_locks = "locks are counted by the agent only: --agent=auto".into();
        let may_enter = self.live.agent != Some(Agent::Off) && self.live.command.is_empty();
        if !may_enter || !self.known().suspects_locks(threshold) {
            return Ok(());
        }
        self.say("threads may wait for locks: the agent goes in to count them");
        match super::enter(Agent::Auto, self.engine.pid()) {
            Ok((agent, Some(watch))) => {
                *self.agent = agent;
                self.engine.watch_locks(Locks::new(watch));
                self.note_holders();
                self.history.clear();
                self.no_locks.clear();
            }
            Ok(_) => {}
            Err(message) => self.no_locks = message.line(),
        }
        Ok(())
    }

    fn judge_hypotheses<W: Write>(&mut self, out: &mut Output<W>) -> Result<f64, Message> {
        while self.history.len() < READINGS && self.reading()? {}
        let threshold = self.search.limits().threshold;
        for hypothesis in Hypothesis::ALL {
            let outcome = self.known().judge(hypothesis, threshold);
            let id = self.search.hypothesis(hypothesis, outcome);
            out.node(&self.search, id, self.engine.elapsed())?;
        }
        Ok(self.known().busy())
    }

    /// Proposes what is below a true node; those of which the outcome is known.
    fn refine(&mut self, id: NodeId) -> Result<Vec<NodeId>, Message> {
        let Some(node) = self.search.node(id).cloned() else {
            return Ok(Vec::new());
        };
        let (hypothesis, focus) = (node.hypothesis, &node.candidate.focus);
        let axes = Axes {
            history: &self.history,
            recorded: self.recorded.as_ref().ok(),
            threshold: self.search.limits().threshold,
        };
        let mut tested = Vec::new();
        let mut to_test = Vec::new();
        let resource = node.candidate.resource;
        let splits = match resource {
            Resource::Program | Resource::Object => true,
            Resource::Group => focus.get(Key::Lock).is_none(),
            _ => false,
        };
        if splits {
            tested = axes.by_thread(hypothesis, focus);
        }
        let is_recorded = self.recorded.is_ok();
        match (hypothesis, resource) {
            // Each group has its own functions; without samples nothing is known but `main`.
            (Hypothesis::CpuBound, Resource::Program) if is_recorded && !tested.is_empty() => {}
            (Hypothesis::CpuBound, Resource::Group) if !is_recorded => {}
            (Hypothesis::CpuBound, Resource::Program | Resource::Group | Resource::Function) => {
                let functions = self.engine.functions().ok();
                let threads = threads_of(focus);
                if is_recorded {
                    let resolve =
                        |place: &Place| functions?.focus(&place.name, &place.module, place.offset);
                    let (new, known) = axes.by_function(&threads, node.candidate.tag, &resolve);
                    to_test = new;
                    tested.extend(known);
                } else if let Some(functions) = functions {
                    to_test = unsampled(opened(functions, focus), &threads);
                }
            }
            (Hypothesis::WaitsForLocks | Hypothesis::WaitsForEvents, Resource::Program) => {
                tested.extend(axes.by_object(hypothesis, focus));
            }
            (Hypothesis::WaitsForLocks, Resource::Object) => {
                tested.extend(self.holders(&node.candidate.focus, node.mean()));
            }
            (Hypothesis::WaitsForIo | Hypothesis::WaitsForOutside, Resource::Program) => {
                let reason = match hypothesis {
                    Hypothesis::WaitsForIo => WaitReason::Io,
                    _ => WaitReason::Outside,
                };
                tested.extend(axes.by_wait(reason, focus));
            }
            _ => {}
        }
        let mut known = self.search.refine_known(id, tested);
        let new = self.search.refine(id, to_test).into_iter();
        let is_known = |id: &NodeId| self.search.node(*id).is_some_and(|n| n.outcome.is_some());
        known.extend(new.filter(is_known));
        Ok(known)
    }

    /// Functions that hold a lock while others wait for it.
    fn holders(&mut self, focus: &Focus, share: Option<f64>) -> Vec<Tested> {
        let address = focus
            .get(Key::Lock)
            .and_then(|lock| lock.strip_prefix("0x"));
        let address = address.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let (Some(address), Some(locks)) = (address, self.engine.locks()) else {
            return Vec::new();
        };
        let now = Holders::of(&locks.read_model());
        let threshold = self.search.limits().threshold;
        let whole = share.unwrap_or(0.0);
        let shares = now.shares(&self.holders, address).into_iter();
        shares
            .map(|(function, part)| {
                let candidate = Candidate {
                    resource: Resource::Holder,
                    focus: focus.clone().with(Key::Function, &function),
                    label: function,
                    through: Vec::new(),
                    request: None,
                    expected: None,
                    tag: None,
                };
                let share = Share::exact(part * whole);
                let outcome = Outcome {
                    verdict: share.verdict(threshold),
                    value: None,
                    share: Some(share),
                    kind: Kind::Inferred,
                    cost_share: 0.0,
                    gap: None,
                };
                (candidate, outcome)
            })
            .collect()
    }

    /// Measures foci by probes, all at the same time, until each of them is clear.
    fn test(&mut self, ids: &[NodeId]) -> Result<(), Message> {
        let mut running: Vec<Measurement> = Vec::new();
        for id in ids {
            let request = self
                .search
                .node(*id)
                .and_then(|n| n.candidate.request.clone());
            let Some(request) = request else { continue };
            match self.engine.add(request) {
                Ok(curve) => running.push(Measurement::new(*id, curve)),
                Err(message) => {
                    let outcome = self.by_samples(*id, message.line());
                    self.search.found(*id, outcome);
                }
            }
        }
        self.tests += running.len();
        let threshold = self.search.limits().threshold;
        for number in 0..MOST_READINGS {
            if running.is_empty() || !self.reading()? {
                break;
            }
            let whole = self.history.latest(Time::Cpu).unwrap_or(0.0);
            for test in &mut running {
                let curve = self.engine.session().curve(test.curve);
                if let Some(point) = curve.and_then(|curve| curve.points.back()) {
                    test.take(point, whole);
                }
            }
            if running
                .iter()
                .all(|test| test.is_clear(number + 1, threshold))
            {
                break;
            }
        }
        for test in running {
            let outcome = match test.outcome(threshold) {
                Some(outcome) if !self.is_contradicted(test.id, &outcome) => outcome,
                Some(_) => {
                    let why = "a probe misses calls that were open when it went in";
                    self.by_samples(test.id, why.into())
                }
                None => {
                    let few = || "there were too few readings".into();
                    self.by_samples(test.id, test.gap.unwrap_or_else(few))
                }
            };
            self.search.found(test.id, outcome);
            self.engine
                .remove(test.curve)
                .map_err(|e| super::failed(&e))?;
        }
        // Each outcome has its reason, and what its probe would have cost.
        self.engine.take_notices();
        Ok(())
    }

    /// Samples see much more of it than the probe.
    fn is_contradicted(&self, id: NodeId, outcome: &Outcome) -> bool {
        let expected = self
            .search
            .node(id)
            .and_then(|node| node.candidate.expected);
        let (expected, share) = (expected.map(|e| e.low), outcome.share.map(|s| s.high));
        expected
            .zip(share)
            .is_some_and(|(low, high)| high < low * CONTRADICTS)
    }

    fn by_samples(&self, id: NodeId, why: String) -> Outcome {
        let expected = self
            .search
            .node(id)
            .and_then(|node| node.candidate.expected);
        Outcome::sampled(expected, self.search.limits().threshold, why)
    }
}

/// What a function calls, by its instructions; of a program, where it and its threads begin.
fn opened(functions: &Functions, focus: &Focus) -> Vec<(String, Focus)> {
    let all: Vec<Function> = match focus.get(Key::Function) {
        None => {
            let main = functions.called("main").unwrap_or_default();
            let handed_on = main.iter().flat_map(|f| functions.handed_on(f));
            let handed_on: Vec<Function> = handed_on.collect();
            main.into_iter().chain(handed_on).collect()
        }
        Some(_) => {
            let these = functions.find(focus).unwrap_or_default();
            these.iter().flat_map(|f| functions.callees(f)).collect()
        }
    };
    let named = all.into_iter().filter_map(|f| {
        let focus = functions.focus_of(&f)?;
        Some((f.name, focus))
    });
    named.collect()
}

fn labels(search: &Search, ids: &[NodeId]) -> String {
    let nodes = ids.iter().filter_map(|id| search.node(*id));
    let labels: Vec<&str> = nodes.map(|n| n.candidate.label.as_str()).collect();
    labels.join(", ")
}
