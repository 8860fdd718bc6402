//! `convoy live --search`: where the time of a program goes, found by probes that convoy chooses,
//! puts in and takes out by itself.

mod evidence;
mod locks;
mod output;
mod text;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use convoy_capture::{AgentInside, Interrupt, Targets, Watch};
use convoy_live::search::{
    Axes, Candidate, History, Hypothesis, Known, Limits, NodeId, Outcome, Place, Recorded,
    Resource, Search, Share, Tested, Time, Verdict, WaitReason,
};
use convoy_live::{CurveId, Focus, Key, Kind, Point};

use super::args::Live;
use super::engine::{Engine, Step};
use super::readers::Locks;
use crate::args::Agent;
use crate::message::{say, Message};

use locks::Holders;
use output::Output;

/// From one reading to the next.
const EVERY: Duration = Duration::from_millis(250);

/// Length of the recording.
const RECORDING: Duration = Duration::from_secs(2);

/// Readings in which hypotheses about the whole program are judged.
const READINGS: usize = 8;

/// Readings with a value after which a focus is judged, if that is clear then.
const FEWEST_VALUES: usize = 4;

/// Readings after which it is judged, clear or not.
const MOST_READINGS: usize = 14;

/// A value that is not there after so many readings does not come.
const PATIENCE: usize = 5;

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
        if matches!(
            resource,
            Resource::Program | Resource::Group | Resource::Object
        ) {
            tested = axes.by_thread(hypothesis, focus);
        }
        match (hypothesis, resource) {
            (Hypothesis::CpuBound, Resource::Program) if !tested.is_empty() => {}
            (Hypothesis::CpuBound, Resource::Program | Resource::Group | Resource::Function) => {
                let functions = self.engine.functions().ok();
                let resolve =
                    |place: &Place| functions?.focus(&place.name, &place.module, place.offset);
                let threads = without_function(focus);
                let (new, known) = axes.by_function(&threads, node.candidate.tag, &resolve);
                to_test = new;
                tested.extend(known);
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
        let known = self.search.refine_known(id, tested);
        self.search.refine(id, to_test);
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
        let mut running: Vec<Test> = Vec::new();
        for id in ids {
            let request = self
                .search
                .node(*id)
                .and_then(|n| n.candidate.request.clone());
            let Some(request) = request else { continue };
            match self.engine.add(request) {
                Ok(curve) => running.push(Test::new(*id, curve)),
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
                Some(outcome) => outcome,
                None => self.by_samples(test.id, test.gap.unwrap_or_default()),
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

    fn by_samples(&self, id: NodeId, why: String) -> Outcome {
        let expected = self
            .search
            .node(id)
            .and_then(|node| node.candidate.expected);
        Outcome::sampled(expected, self.search.limits().threshold, why)
    }
}

fn without_function(focus: &Focus) -> Focus {
    let threads = focus
        .keys()
        .filter(|key| *key != Key::Function && *key != Key::Module);
    threads.fold(Focus::new(), |all, key| {
        all.with(key, focus.get(key).unwrap_or_default())
    })
}

fn labels(search: &Search, ids: &[NodeId]) -> String {
    let nodes = ids.iter().filter_map(|id| search.node(*id));
    let labels: Vec<&str> = nodes.map(|n| n.candidate.label.as_str()).collect();
    labels.join(", ")
}

/// A focus that is being measured.
#[derive(Debug)]
struct Test {
    id: NodeId,
    curve: CurveId,
    /// Its time and that of the program, by interval.
    pairs: Vec<(f64, f64)>,
    is_first: bool,
    cost_share: f64,
    gap: Option<String>,
}

impl Test {
    fn new(id: NodeId, curve: CurveId) -> Self {
        Self {
            id,
            curve,
            pairs: Vec::new(),
            is_first: true,
            cost_share: 0.0,
            gap: None,
        }
    }

    fn take(&mut self, point: &Point, whole: f64) {
        self.cost_share = self.cost_share.max(point.cost_share);
        self.gap.clone_from(&point.gap);
        let Some(value) = point.value else { return };
        // The first interval is not a whole one.
        if !std::mem::take(&mut self.is_first) {
            self.pairs.push((value, whole));
        }
    }

    fn is_clear(&self, readings: usize, threshold: f64) -> bool {
        if self.pairs.is_empty() {
            return readings >= PATIENCE;
        }
        let share = Share::of_intervals(&self.pairs);
        let verdict = share.map(|share| share.verdict(threshold));
        self.pairs.len() >= FEWEST_VALUES && verdict.is_some_and(|v| v != Verdict::Unknown)
    }

    /// `None` = there were too few values.
    fn outcome(&self, threshold: f64) -> Option<Outcome> {
        let share = Share::of_intervals(&self.pairs)?;
        let mut outcome = Outcome::measured(share, &self.pairs, threshold);
        outcome.cost_share = self.cost_share;
        outcome.gap = outcome.gap.or_else(|| self.gap.clone());
        Some(outcome)
    }
}
