//! A process, what is measured of it, and the clock: what lines and screen have in common.

use std::time::{Duration, Instant};

use convoy_capture::OpenFiles;
use convoy_live::{
    Changes, CurveId, Governor, Holding, Invalid, Key, Metric, Notice, Place, Prices, Probes,
    Refusal, Request, Session, Subject,
};

use super::calibrate;
use super::callees;
use super::functions::Functions;
use super::holding::Held;
use super::kept::Kept;
use super::place;
use super::probes::LazyProbes;
use super::readers::{Locks, Threads};
use crate::message::Message;

/// How a process gets the agent.
const WITH_AGENT: &str = "put it in with --agent=auto, or start the program under convoy";

/// A moment is not missed by more than this.
const TICK: Duration = Duration::from_millis(20);

/// The result of a wait.
#[derive(Debug)]
pub enum Step {
    /// Every curve has a new point.
    Sampled(Changes),
    /// Nothing to show yet.
    Waited,
    /// The process has ended: there is nothing more to come.
    Ended,
}

/// A process that is measured.
#[derive(Debug)]
pub struct Engine {
    pid: u32,
    session: Session,
    probes: LazyProbes,
    threads: Threads,
    locks: Option<Locks>,
    /// Since a focus has named locks by `holding`.
    held: Option<Held>,
    files: OpenFiles,
    functions: Option<Functions>,
    has_prices: bool,
    began: Instant,
    every: Duration,
    /// Moment of the next sample, since the start.
    next: Duration,
    kept: Kept,
}

impl Engine {
    /// Begins to read; nothing is put in yet.
    pub fn new(
        pid: u32,
        locks: Option<Locks>,
        budget: f64,
        every: Duration,
    ) -> Result<Self, Refusal> {
        let prices = Prices::default();
        let began = Instant::now();
        let mut engine = Self {
            pid,
            session: Session::new(Governor { budget, prices }),
            probes: LazyProbes::new(pid, began),
            threads: Threads::of(pid),
            locks,
            held: None,
            files: OpenFiles::of(pid),
            functions: None,
            has_prices: false,
            began,
            every,
            next: every,
            kept: Kept::default(),
        };
        engine.sample(0)?;
        Ok(engine)
    }

    /// The session: what is measured.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Reads the tables of an agent that has come in.
    pub fn watch_locks(&mut self, locks: Locks) {
        self.locks = Some(locks);
    }

    /// The agent's tables; `None` = it is not in the process.
    pub fn locks(&mut self) -> Option<&mut Locks> {
        self.locks.as_mut()
    }

    /// The name of the process.
    pub fn process(&self) -> &str {
        self.threads.process()
    }

    /// Files, pipes and sockets that the process has open.
    pub fn open_files(&mut self) -> Vec<(u32, String)> {
        self.files.read()
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// From one sample to the next.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// What a profile of the session needs beside its curves.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    fn now_ms(&self) -> u64 {
        self.probes.now_ms()
    }

    /// The functions of the process; read when they are first asked for.
    pub fn functions(&mut self) -> Result<&Functions, Message> {
        if self.functions.is_none() {
            self.functions = Functions::of(self.pid);
        }
        self.functions.as_ref().ok_or_else(|| {
            Message::new(
                format!("the mappings of process {} cannot be read", self.pid),
                "its functions are not known",
                "run convoy as root or as the user of that process",
            )
        })
    }

    /// Begins to measure something more: a function in its callees, or one curve.
    pub fn add(&mut self, request: Request) -> Result<CurveId, Message> {
        match request.opens() {
            true => self.open(&request),
            false => self.add_curve(request),
        }
    }

    /// Measures a function and those that it calls; names the function's own curve.
    fn open(&mut self, request: &Request) -> Result<CurveId, Message> {
        let all = callees::requests(self.functions()?, request).map_err(|e| {
            let effect = format!("{request} is not measured");
            Message::new(e.found, effect, e.fix)
        })?;
        let (all, beyond) = callees::first(all);
        let mut whole = None;
        for request in all {
            let id = match self.curve_of(&request) {
                Some(id) => Ok(id),
                None => self.add_curve(request),
            };
            match (id, whole) {
                (Ok(id), None) => whole = Some(id),
                (Err(message), None) => return Err(message),
                // The others say enough.
                (Err(message), Some(_)) => self.session.notify(Notice {
                    found: message.line(),
                    effect: "the other functions are measured".into(),
                    is_fatal: false,
                }),
                (Ok(_), Some(_)) => {}
            }
        }
        if beyond > 0 {
            self.session.notify(Notice {
                found: format!("{request} stands for {beyond} functions more"),
                effect: "they are not measured: name one that you suspect".into(),
                is_fatal: false,
            });
        }
        whole.ok_or_else(|| Message::new("nothing is called", "nothing is measured", ""))
    }

    /// The curve that is there for a request already.
    fn curve_of(&self, request: &Request) -> Option<CurveId> {
        let mut curves = self.session.curves();
        let found = curves.find(|(_, curve)| curve.request == *request);
        found.map(|(id, _)| id)
    }

    fn add_curve(&mut self, request: Request) -> Result<CurveId, Message> {
        let refused = |found: String, fix: String| {
            Message::new(found, format!("{request} is not measured"), fix)
        };
        let mut place = Place::default();
        if request.subject().is_probed() {
            let known = self.functions()?;
            place = place::of(known, &request).map_err(|e| refused(e.found, e.fix))?;
            let probed = place.functions.iter().chain(&place.within);
            probed.for_each(|f| known.keep_code(f));
        }
        if request.subject() == Subject::Lock && self.locks.is_none() {
            return Err(refused(self.no_agent(), WITH_AGENT.into()));
        }
        if let Some(pattern) = request.focus.get(Key::Holding) {
            let holding = self.holding(pattern);
            place.holding = Some(holding.map_err(|e| refused(e.found, e.fix))?);
        }
        if request.subject() == Subject::Thread && request.metric.needs_io() {
            self.threads.read_io();
        }
        if request.metric == Metric::CMetric {
            self.threads.sample_criticality();
        }
        if request.subject().is_probed() && !self.has_prices {
            self.session.set_prices(calibrate::prices());
            self.has_prices = true;
        }
        let added = self
            .session
            .add(&mut self.probes, request.clone(), &place)
            .map_err(|refusal| refused(refusal.found, refusal.fix))?;
        let published = self.held.as_mut().map_or(Ok(()), Held::publish);
        if let Err(notice) = published {
            self.session.notify(notice);
        }
        self.kept.added(self.began.elapsed(), &request);
        Ok(added)
    }

    fn no_agent(&self) -> String {
        let pid = self.pid;
        format!("process {pid} does not carry the agent, which counts locks")
    }

    /// The set of the locks that a pattern names; those that are known by now are watched.
    fn holding(&mut self, pattern: &str) -> Result<Holding, Invalid> {
        let found = self.no_agent();
        let locks = self.locks.as_mut();
        let locks = locks.ok_or_else(|| Invalid::new(found, WITH_AGENT))?;
        let held = match self.held.take() {
            Some(held) => held,
            None => Held::begin(locks.dir(), self.pid)
                .map_err(|found| Invalid::new(found, "start the program under convoy"))?,
        };
        let held = self.held.insert(held);
        let set = held.set(pattern).ok_or_else(|| {
            let found = "8 sets of locks were named by holding already";
            Invalid::new(found, "begin another session")
        })?;
        let notices = held.refresh(&locks.read());
        notices.into_iter().for_each(|n| self.session.notify(n));
        Ok(set)
    }

    /// Ends to measure something. A process that is gone has nothing in it.
    pub fn remove(&mut self, id: CurveId) -> Result<(), Refusal> {
        if let Some(curve) = self.session.curve(id) {
            self.kept
                .removed(self.began.elapsed(), curve, self.session.threads());
        }
        match self.session.remove(&mut self.probes, id) {
            Err(refusal) if !refusal.is_gone && self.threads.is_running() => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Takes everything out; returns when it is. A process that is gone has nothing in it.
    pub fn end(self) -> Result<(), Refusal> {
        let is_running = self.threads.is_running();
        match self.probes.end() {
            Err(refusal) if is_running && !refusal.is_gone => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.session.take_notices()
    }

    /// Waits for the next sample, at most `most`, and makes it when it is due; decisions about
    /// probes are made on the way.
    pub fn step(&mut self, most: Duration) -> Result<Step, Refusal> {
        let until = self.elapsed() + most;
        loop {
            let now = self.elapsed();
            if now >= self.next {
                return self.due();
            }
            if !self.threads.is_running() {
                return Ok(Step::Ended);
            }
            let decision = self.session.next_ms().map(Duration::from_millis);
            if decision.is_some_and(|at| now >= at) {
                let threads = self.threads.read();
                let now_ms = self.now_ms();
                let driven = self.session.drive(&mut self.probes, now_ms, &threads);
                if let Err(refusal) = driven {
                    return self.ended(refusal);
                }
            }
            if now >= until {
                return Ok(Step::Waited);
            }
            let next = [Some(self.next), decision, Some(until)];
            let next = next.into_iter().flatten().min().unwrap_or(until);
            std::thread::sleep(
                next.saturating_sub(now)
                    .clamp(Duration::from_millis(1), TICK),
            );
        }
    }

    fn due(&mut self) -> Result<Step, Refusal> {
        // A sample that comes late does not move the later ones.
        let now = self.elapsed();
        while self.next <= now {
            self.next += self.every;
        }
        if !self.threads.is_running() {
            return Ok(Step::Ended);
        }
        let now_ms = self.now_ms();
        match self.sample(now_ms) {
            Ok(changes) => {
                self.kept.sampled(Duration::from_millis(now_ms), &changes);
                Ok(Step::Sampled(changes))
            }
            Err(refusal) => self.ended(refusal),
        }
    }

    fn sample(&mut self, now_ms: u64) -> Result<Changes, Refusal> {
        let threads = self.threads.read();
        let locks = self.locks.as_mut().map(Locks::read);
        if let (Some(held), Some(reading)) = (&mut self.held, &locks) {
            let notices = held.refresh(reading);
            notices.into_iter().for_each(|n| self.session.notify(n));
        }
        if self.session.needs_file_names() {
            self.session.name_files(self.files.read().into_iter());
        }
        self.session
            .sample(&mut self.probes, now_ms, threads, locks)
    }

    /// A process that ends meanwhile is no failure.
    fn ended(&self, refusal: Refusal) -> Result<Step, Refusal> {
        match refusal.is_gone || !self.threads.is_running() {
            true => Ok(Step::Ended),
            false => Err(refusal),
        }
    }
}
