//! The course of `convoy causal`: waits for the agent, looks at the program, runs windows.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_capture::causal::{
    Counts, Laboratory, Mechanism as HowMeasured, Sampling, Subject, Treatment, Waiting, Window,
    LOCKS_MOST,
};
use convoy_causal::{
    note, reason, Algorithm, Arm, Estimator, Experiment, Measured, Mechanism, ProgressRow, Rate,
    Report, Settings, Target,
};

use convoy_capture::{Interrupt, Watch};

use crate::message::say;

use super::progress::{Clock, Meter, NoCalls, Reading, Wanted};
use super::reached::Reached;
use super::subjects::{check, is_of, Found, Reconnaissance};

/// A program has its agent within this.
const BEGINNING: Duration = Duration::from_secs(2);
/// Programs prepare before they work.
const WARM_UP: Duration = Duration::from_millis(150);
/// Samples and waits are gathered for so long before targets are chosen.
const RECONNAISSANCE: Duration = Duration::from_millis(500);
/// Time for an experiment: of this length is what is chosen without --target.
const PER_TARGET: Duration = Duration::from_secs(2);
/// Chosen without --target at most.
const CHOSEN_MOST: usize = 8;
/// CPU time between two samples that lengthen code: shorter ones cost more than they tell.
const SAMPLE_NS: u32 = 500_000;
/// The same while targets are chosen.
const RECONNAISSANCE_SAMPLE_NS: u32 = 1_000_000;
/// The same where hooks measure: for code without hooks.
const SPARSE_SAMPLE_NS: u32 = 4_000_000;
/// Share of the CPUs that others may have without a note.
const FOREIGN_MOST: f64 = 0.10;
/// Answers to the program's end are so late at most.
const PATIENCE: Duration = Duration::from_millis(10);

/// What the experiments are to find out.
#[derive(Debug, Clone)]
pub enum Question {
    /// What is gained if these are faster; none = choose.
    Faster(Vec<Target>),
    /// What is gained if threads wait for a mutex in these ways.
    WaitingBy {
        /// `None` = the one for which they wait longest.
        mutex: Option<String>,
        /// Each with what the agent is to do.
        ways: Vec<(Algorithm, Waiting)>,
        /// Functions whose sections only read; none = all sections do.
        readers: Vec<String>,
    },
}

/// Experiments with one program.
#[derive(Debug)]
pub struct Conductor {
    /// Where agents and convoy meet.
    pub session: PathBuf,
    /// The command's process.
    pub pid: u32,
    /// What is to be found out.
    pub question: Question,
    /// What counts as progress.
    pub progress: Wanted,
    /// What progress was measured by in an earlier run of the command.
    pub rate: Option<Rate>,
    /// How gains are measured.
    pub estimator: Estimator,
    /// Most time for windows.
    pub budget: Duration,
    /// Half-width that is narrow enough, share of the run.
    pub precision: f64,
    /// What can end the experiments before enough is known.
    pub end: End,
    /// Say nothing while it runs.
    pub is_quiet: bool,
}

/// What ends experiments.
#[derive(Debug)]
pub enum End {
    /// The end of the program that convoy has started.
    OfProgram(Arc<AtomicBool>),
    /// Ctrl-C; the process, which ran before, goes on.
    OnRequest(Interrupt),
}

/// How a part of a window has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    Whole,
    /// The window was closed before its time.
    Disturbed,
    /// The experiments are over.
    Over,
}

impl Conductor {
    /// Runs experiments until enough is known or the program ends.
    pub fn conduct(&self) -> Report {
        let began = Instant::now();
        let mut report = Report::default();
        let done = self.laboratory(began).and_then(|mut laboratory| {
            report.measurements.pid = laboratory.pid();
            let done = self.try_conduct(&mut laboratory, &mut report, began);
            if matches!(self.end, End::OnRequest(_)) {
                laboratory.leave();
            }
            done
        });
        if let Err(why) = done {
            report.reason = Some(why);
        }
        report.rank();
        report
    }

    fn try_conduct(
        &self,
        laboratory: &mut Laboratory,
        report: &mut Report,
        began: Instant,
    ) -> Result<(), String> {
        self.pause(WARM_UP);
        let wanted = self.progress.or_calls(self.rate.as_ref());
        let mut meter = Meter::begin(&wanted, laboratory.pid())?;
        let (chosen, look) = match &self.rate {
            Some(rate) => (Ok(rate.clone()), Look::default()),
            None => {
                let look = self.look(laboratory, &mut meter, began)?;
                let chosen = meter.choose(&look.before, &look.after, look.seconds);
                if let Ok(rate) = &chosen {
                    report.progress = meter.rows(rate, &look.before, &look.after, look.seconds);
                }
                (chosen, look)
            }
        };
        let reconnaissance = self.reconnaissance(laboratory, look);
        let progress = match chosen {
            Err(_) if matches!(wanted, Wanted::Any) => {
                let functions = reconnaissance.functions().ok_or_else(reason::gone)?;
                let process = (laboratory.pid(), functions);
                let pause = |time| self.pause(time);
                let chosen = Meter::by_calls(reconnaissance.calls(), process, pause);
                let (by_calls, rate) = chosen.map_err(|why| match why {
                    NoCalls::Ended => self.too_short(began, 0),
                    NoCalls::TooRare => reason::no_progress(),
                })?;
                report.progress = vec![ProgressRow::from(&rate)];
                meter = by_calls;
                rate
            }
            chosen => chosen?,
        };
        report.window_seconds = progress.window_seconds();
        report.measurements.rate = Some(progress.clone());
        let found = self.found(&reconnaissance, laboratory, report)?;
        if found.is_empty() {
            return Ok(());
        }
        let mechanisms = found.iter().map(|f| f.subject.mechanism).collect();
        let settings = Settings {
            estimator: self.estimator,
            precision: self.precision,
            seed: u64::from(self.pid),
        };
        let mut experiment = Experiment::new(mechanisms, settings);
        let mut clock = Clock {
            meter,
            rate: progress,
            cpus: laboratory.cpus(),
        };
        let reached = self.run_windows(laboratory, &mut experiment, &found, &mut clock, report)?;
        report.notes.extend(clock.meter.missed().map(note::missed));
        drop(clock);
        let subjects: Vec<_> = found.into_iter().map(|f| f.subject).collect();
        report.fill(&experiment, &subjects, self.estimator);
        if self.is_over() && report.targets.iter().all(|row| row.at.is_empty()) {
            return Err(self.too_short(began, experiment.windows_per_block()));
        }
        let of_subjects = report.targets.iter_mut().zip(&subjects).zip(&reached);
        for ((row, subject), reached) in of_subjects {
            let reason = match row.algorithm {
                Some(way) if way.may_corrupt() && laboratory.has_condition() => {
                    Some(reason::condition())
                }
                // From its break on its windows were like all others.
                Some(way) => reached.without_waits(way).or_else(|| {
                    let is_broken = way == Algorithm::Ticket && laboratory.has_broken_queue();
                    is_broken.then(reason::broken_queue)
                }),
                None => reached.without_hits(subject),
            };
            if let Some(reason) = reason {
                row.at.clear();
                row.reason = Some(reason);
            }
            report.notes.extend(reached.hits(row));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        match &self.end {
            End::OfProgram(has_ended) => has_ended.load(Ordering::Acquire),
            End::OnRequest(interrupt) => interrupt.asked(),
        }
    }

    fn too_short(&self, began: Instant, windows_per_block: usize) -> String {
        let reason = match self.end {
            End::OfProgram(_) => reason::too_short,
            End::OnRequest(_) => reason::stopped,
        };
        reason(began.elapsed(), windows_per_block)
    }

    /// Sleeps; false = the program has ended meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over() {
                return !self.is_over();
            }
            std::thread::sleep(left.min(PATIENCE));
        }
    }

    /// Lets time pass in a window, and the program have its signal if it wants it.
    fn pass(&self, laboratory: &mut Laboratory, time: Duration) -> Passed {
        let end = Instant::now() + time;
        let mut is_closed = false;
        loop {
            is_closed |= laboratory.yield_signal();
            let left = end.saturating_duration_since(Instant::now());
            match self.is_over() || !laboratory.is_running() {
                true => return Passed::Over,
                false if is_closed || !laboratory.is_in_time() => return Passed::Disturbed,
                false if left.is_zero() => return Passed::Whole,
                false => std::thread::sleep(left.min(PATIENCE)),
            }
        }
    }

    /// The process that uses most CPU time of those that carry the agent.
    fn laboratory(&self, began: Instant) -> Result<Laboratory, String> {
        loop {
            if !Laboratory::processes(&self.session).is_empty() && self.pause(WARM_UP) {
                let pids = Laboratory::processes(&self.session);
                let all = pids
                    .iter()
                    .filter_map(|pid| Laboratory::open(&self.session, *pid));
                if let Some(busiest) = all.max_by_key(Laboratory::cpu_ns) {
                    return Ok(busiest);
                }
            }
            if self.is_over() {
                return Err(self.too_short(began, 0));
            }
            if began.elapsed() > BEGINNING {
                return Err(reason::no_agent());
            }
            std::thread::sleep(PATIENCE);
        }
    }

    /// Watches the program as it is.
    fn look(
        &self,
        laboratory: &mut Laboratory,
        meter: &mut Meter,
        began: Instant,
    ) -> Result<Look, String> {
        let first = laboratory.next_sample();
        let plain = Window {
            length: RECONNAISSANCE,
            treatment: Treatment::Nothing,
            subject: Subject::default(),
            mechanism: HowMeasured::Sampled,
            factor: 0.0,
            period_ns: RECONNAISSANCE_SAMPLE_NS,
            record: true,
        };
        laboratory
            .open_window(&plain)
            .map_err(|trouble| trouble.to_string())?;
        let too_short = || self.too_short(began, 0);
        let start = Instant::now();
        let before = meter.read(laboratory).ok_or_else(too_short)?;
        let mut after = before.clone();
        while start.elapsed() < RECONNAISSANCE {
            let left = RECONNAISSANCE.saturating_sub(start.elapsed());
            if self.pass(laboratory, left.min(meter.step(None))) == Passed::Over {
                return Err(too_short());
            }
            after = meter.read(laboratory).ok_or_else(too_short)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let samples = laboratory.samples(first);
        laboratory.close_window();
        Ok(Look {
            before,
            after,
            seconds,
            samples,
        })
    }

    fn reconnaissance(&self, laboratory: &Laboratory, look: Look) -> Reconnaissance {
        let pid = laboratory.pid();
        let watch = Watch::of_process_in(self.session.clone(), pid);
        let (before, after) = (&look.before.counts, &look.after.counts);
        Reconnaissance::of((pid, watch), look.samples, before, after, look.seconds)
    }

    /// Targets that the budget allows.
    fn affordable(&self) -> usize {
        let n = self.budget.as_secs_f64() / PER_TARGET.as_secs_f64();
        (n as usize).clamp(1, CHOSEN_MOST)
    }

    /// What the windows are to try.
    fn found(
        &self,
        reconnaissance: &Reconnaissance,
        laboratory: &mut Laboratory,
        report: &mut Report,
    ) -> Result<Vec<Found>, String> {
        let targets = match &self.question {
            Question::WaitingBy {
                mutex,
                ways,
                readers,
            } => {
                let chosen = || reconnaissance.most_contended();
                let name = mutex.clone().or_else(chosen);
                let name = name.ok_or_else(reason::no_contended_mutex)?;
                let code = reconnaissance.readers(readers)?;
                laboratory.set_ranges(&code).map_err(|t| t.to_string())?;
                return reconnaissance.mutex(&name, ways, u32::from(!code.is_empty()));
            }
            Question::Faster(none) if none.is_empty() => reconnaissance.choose(self.affordable()),
            Question::Faster(targets) => targets.clone(),
        };
        match targets.is_empty() {
            true => Err(reason::no_target()),
            false => self.find(&targets, reconnaissance, laboratory, report),
        }
    }

    fn find(
        &self,
        targets: &[Target],
        reconnaissance: &Reconnaissance,
        laboratory: &mut Laboratory,
        report: &mut Report,
    ) -> Result<Vec<Found>, String> {
        let mut ranges = Vec::new();
        let mut found: Vec<Found> = Vec::new();
        for target in targets {
            let number = found.len() as u32;
            let first = ranges.len();
            let locks: usize = found.iter().map(|one| one.what.locks.len()).sum();
            let one = reconnaissance.find(target, &mut ranges, number);
            let one = one.and_then(|one| check(&one, &found, &ranges, first).map(|()| one));
            let one = one.and_then(|found| match laboratory.sampling() {
                _ if self.estimator == Estimator::Factorial
                    && locks + found.what.locks.len() > LOCKS_MOST =>
                {
                    Err(reason::too_many_locks_at_once(LOCKS_MOST))
                }
                Sampling::Unavailable(why) if found.subject.mechanism == Mechanism::Sampled => {
                    Err(reason::no_samples(why))
                }
                _ => Ok(found),
            });
            match one {
                Ok(one) => found.push(one),
                Err(why) => {
                    report.add_without_number(target.clone(), self.estimator, why);
                    ranges.retain(|range| range.target != number);
                }
            }
        }
        laboratory
            .set_ranges(&ranges)
            .map_err(|trouble| trouble.to_string())?;
        Ok(found)
    }

    /// Says which threads are those of a target: new ones may have come.
    fn tell_groups(&self, laboratory: &Laboratory, found: &[Found]) {
        if found.iter().all(|found| found.what.groups == 0) {
            return;
        }
        laboratory.set_groups(|thread| {
            let of = found
                .iter()
                .filter(|found| is_of(thread, &found.subject.target.name));
            of.fold(0, |bits, found| bits | found.what.groups)
        });
    }

    fn needs_samples(&self, arm: &Arm) -> bool {
        arm.mechanism == Mechanism::Sampled && self.estimator != Estimator::Exchange
    }

    /// Runs the windows, and returns what they met of each target.
    fn run_windows(
        &self,
        laboratory: &mut Laboratory,
        experiment: &mut Experiment,
        found: &[Found],
        clock: &mut Clock,
        report: &mut Report,
    ) -> Result<Vec<Reached>, String> {
        let start = Instant::now();
        let mut reached = vec![Reached::default(); found.len()];
        let machine = laboratory.machine();
        let before = laboratory.counts().unwrap_or_default();
        let gap = Duration::from_secs_f64(clock.rate.gap_seconds());
        let length = Duration::from_secs_f64(clock.rate.window_seconds());
        while let Some(arm) = experiment.next_arm() {
            if start.elapsed() >= self.budget {
                break;
            }
            laboratory.follow_threads();
            self.tell_groups(laboratory, found);
            let sampling = laboratory.sampling();
            if let (Sampling::Unavailable(why), true) = (sampling, self.needs_samples(&arm)) {
                return Err(reason::no_samples(why));
            }
            laboratory
                .open_window(&self.window(&arm, found, gap + length))
                .map_err(|trouble| trouble.to_string())?;
            match self.measure(laboratory, clock, gap, length) {
                Ok((measured, first, last)) => {
                    Reached::add(&mut reached, &arm, &first, &last);
                    experiment.add(measured);
                }
                Err(Passed::Over) => break,
                Err(_) => continue,
            }
            report.foreign_cpu_share = laboratory.machine().foreign_share(&machine);
            report.seconds = start.elapsed().as_secs_f64();
        }
        laboratory.close_window();
        let after = laboratory.counts().unwrap_or_default();
        report.added_cpu_seconds = after.added_ns.saturating_sub(before.added_ns) as f64 / 1e9;
        self.add_notes(laboratory, after.broken, report);
        if matches!(self.end, End::OfProgram(_)) && !self.is_over() && !self.is_quiet {
            say(&format!(
                "convoy: the experiments ended after {:.1} s; the report follows when the program ends\n",
                report.seconds
            ));
        }
        Ok(reached)
    }

    fn add_notes(&self, laboratory: &Laboratory, broken: u64, report: &mut Report) {
        let mut notes = Vec::new();
        if report.foreign_cpu_share > FOREIGN_MOST {
            notes.push(note::busy(report.foreign_cpu_share));
        }
        if let Sampling::Timers(why) = laboratory.sampling() {
            notes.push(note::timers(why));
        }
        if laboratory.blocked_threads() > 0 {
            notes.push(note::blocked(laboratory.blocked_threads()));
        }
        if broken > 0 {
            notes.push(note::broken(broken));
        }
        report.notes.extend(notes);
    }

    fn window(&self, arm: &Arm, found: &[Found], length: Duration) -> Window {
        let targets = arm.targets.numbers().filter_map(|t| found.get(t));
        let targets: Vec<&Found> = targets.collect();
        let subject = targets
            .iter()
            .fold(Subject::default(), |all, one| all.and(&one.what));
        Window {
            length,
            treatment: match (arm.speedup > 0.0, self.estimator) {
                (false, _) => Treatment::Nothing,
                (true, Estimator::Dilate) => Treatment::LengthenOthers,
                (true, Estimator::Slow | Estimator::Factorial) => Treatment::LengthenSubject,
                (true, Estimator::Exchange) => {
                    let waiting = targets.first().and_then(|found| found.waiting);
                    waiting.map_or(Treatment::Nothing, Treatment::Wait)
                }
            },
            subject,
            mechanism: match arm.mechanism {
                Mechanism::Sampled => HowMeasured::Sampled,
                Mechanism::Measured => HowMeasured::Measured,
            },
            factor: self.estimator.factor(arm.speedup),
            period_ns: match (self.estimator, arm.mechanism) {
                (Estimator::Exchange, _) => 0,
                (_, Mechanism::Sampled) => SAMPLE_NS,
                (_, Mechanism::Measured) => SPARSE_SAMPLE_NS,
            },
            record: false,
        }
    }

    /// Measures what the program gets done in the window at hand, behind its gap; returns the counts
    /// at the window's beginning and end, too.
    fn measure(
        &self,
        laboratory: &mut Laboratory,
        clock: &mut Clock,
        gap: Duration,
        length: Duration,
    ) -> Result<(Measured, Counts, Counts), Passed> {
        let pass = |laboratory: &mut Laboratory, time| match self.pass(laboratory, time) {
            Passed::Whole => Ok(()),
            other => Err(other),
        };
        pass(laboratory, gap)?;
        let first = clock.meter.read(laboratory).ok_or(Passed::Over)?;
        let start = Instant::now();
        let (mut looks, mut in_flight) = (0u32, 0);
        let mut last = first.clone();
        loop {
            let left = length.saturating_sub(start.elapsed());
            if clock.rate.progress.is_latency() {
                in_flight += clock.meter.in_flight(&clock.rate.progress, &last);
                looks += 1;
            }
            if left.is_zero() {
                break;
            }
            let step = clock.meter.step(Some(&clock.rate.progress));
            pass(laboratory, left.min(step))?;
            last = clock.meter.read(laboratory).ok_or(Passed::Over)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let progress = clock.meter.units(&clock.rate.progress, &first, &last) as f64;
        let since = |of: fn(&Counts) -> u64| {
            of(&last.counts).saturating_sub(of(&first.counts)) as f64 / 1e9
        };
        let measured = match clock.rate.progress.is_latency() {
            // The sum of all latencies; by departures it is their mean (Little's law). What CPUs
            // had room for is about the throughput.
            true => Measured {
                seconds: seconds * in_flight as f64 / f64::from(looks.max(1)),
                progress,
                ..Measured::default()
            },
            false => Measured {
                seconds,
                progress,
                capacity_seconds: seconds * f64::from(clock.cpus),
                cpu_seconds: since(|counts| counts.cpu_ns),
                calls_seconds: since(|counts| counts.calls_ns),
            },
        };
        Ok((measured, first.counts, last.counts))
    }
}

/// What the program was seen to do before the experiments; nothing where an earlier run was looked
/// at.
#[derive(Debug, Default)]
struct Look {
    before: Reading,
    after: Reading,
    seconds: f64,
    /// Instruction pointers.
    samples: Vec<u64>,
}
