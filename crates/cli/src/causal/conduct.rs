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
    block_needed, gap_seconds, length_needed, note, reason, windows_of_targets, Algorithm, Arm,
    Estimator, Experiment, Measured, Mechanism, ProgressRow, Rate, Report, Settings, Target,
};

use convoy_capture::{Interrupt, Watch};

use crate::message::say;

use super::look::{Look, Preparation};
use super::progress::{Clock, Meter, NoCalls, Wanted};
use super::reached::Reached;
use super::subjects::{check, is_of, Found, Reconnaissance};

/// A program has its agent within this.
const BEGINNING: Duration = Duration::from_secs(2);
/// Programs that take no lock and call no function often are looked at again for so long.
const PREPARING_MOST: Duration = Duration::from_secs(5);
/// Time for an experiment: of this length is what is chosen without --target.
const PER_TARGET: Duration = Duration::from_secs(2);
/// Chosen without --target at most.
const CHOSEN_MOST: usize = 8;
/// CPU time between two samples that lengthen code: shorter ones cost more than they tell.
const SAMPLE_NS: u32 = 500_000;
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
    /// How long that run took.
    pub ran: Option<Duration>,
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
pub enum Passed {
    /// As it was to.
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
            report.measurements.ended_early = self.has_ended(&laboratory);
            if matches!(self.end, End::OnRequest(_)) {
                laboratory.leave();
            }
            done
        });
        report.measurements.ended_early |= self.is_over();
        if let Err(why) = done {
            report.reason = Some(why);
        }
        report.rank();
        self.say_end(&report);
        report
    }

    fn try_conduct(
        &self,
        laboratory: &mut Laboratory,
        report: &mut Report,
        began: Instant,
    ) -> Result<(), String> {
        self.pause(self.preparation().warm_up);
        let (meter, progress, reconnaissance) = self.begin(laboratory, report, began)?;
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
        let windows_per_block = experiment.windows_per_block();
        report.window_seconds = progress.window_seconds(self.budget, windows_per_block);
        let mut clock = Clock {
            meter,
            rate: progress,
            window_seconds: report.window_seconds,
            cpus: laboratory.cpus(),
        };
        let reached = self.run_windows(laboratory, &mut experiment, &found, &mut clock, report)?;
        report.notes.extend(clock.meter.missed().map(note::missed));
        drop(clock);
        let subjects: Vec<_> = found.into_iter().map(|f| f.subject).collect();
        report.fill(&experiment, &subjects, self.estimator);
        let has_no_number = report.targets.iter().all(|row| row.at.is_empty());
        if self.has_ended(laboratory) && has_no_number {
            return Err(self.too_short(began, windows_per_block, report.window_seconds));
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

    /// Looks at the program until something counts as progress: some prepare for seconds before they
    /// take their first lock.
    fn begin(
        &self,
        laboratory: &mut Laboratory,
        report: &mut Report,
        began: Instant,
    ) -> Result<(Meter, Rate, Reconnaissance), String> {
        let wanted = self.progress.or_calls(self.rate.as_ref());
        let mut meter = Meter::begin(&wanted, laboratory.pid())?;
        if let Some(rate) = &self.rate {
            report.progress = vec![ProgressRow::from(rate)];
            let reconnaissance = self.reconnaissance(laboratory, Look::default());
            return Ok((meter, rate.clone(), reconnaissance));
        }
        loop {
            let look = Look::at(self, laboratory, &mut meter)?;
            let look = look.ok_or_else(|| self.too_short(began, 0, 0.0))?;
            let chosen = meter.choose(&look);
            if let Ok(rate) = &chosen {
                report.progress = meter.rows(rate, &look);
            }
            let reconnaissance = self.reconnaissance(laboratory, look);
            let is_late = began.elapsed() >= PREPARING_MOST;
            match chosen {
                Ok(rate) => return Ok((meter, rate, reconnaissance)),
                Err(why) if is_late && !matches!(wanted, Wanted::Any) => return Err(why),
                Err(_) if !matches!(wanted, Wanted::Any) => continue,
                Err(_) => {}
            }
            let functions = reconnaissance.functions().ok_or_else(reason::gone)?;
            let process = (laboratory.pid(), functions);
            match Meter::by_calls(reconnaissance.calls(), process, |time| self.pause(time)) {
                Ok((by_calls, rate)) => {
                    report.progress = vec![ProgressRow::from(&rate)];
                    return Ok((by_calls, rate, reconnaissance));
                }
                Err(NoCalls::Ended) => return Err(self.too_short(began, 0, 0.0)),
                Err(NoCalls::TooRare) if is_late => return Err(reason::no_progress()),
                Err(NoCalls::TooRare) => {}
            }
        }
    }

    /// Time before the first window.
    pub fn preparation(&self) -> Preparation {
        Preparation::of(self.ran)
    }

    /// Says that the program runs on for nothing but its own sake.
    fn say_end(&self, report: &Report) {
        let has_ended = report.measurements.ended_early;
        if matches!(self.end, End::OnRequest(_)) || has_ended || self.is_quiet {
            return;
        }
        let what = match report.windows {
            0 => "there is no experiment".into(),
            _ => format!("the experiments ended after {:.1} s", report.seconds),
        };
        say(&format!(
            "convoy: {what}; the report follows when the program ends\n"
        ));
    }

    /// The process is gone before its end is told.
    fn has_ended(&self, laboratory: &Laboratory) -> bool {
        self.is_over() || !laboratory.is_running()
    }

    fn is_over(&self) -> bool {
        match &self.end {
            End::OfProgram(has_ended) => has_ended.load(Ordering::Acquire),
            End::OnRequest(interrupt) => interrupt.asked(),
        }
    }

    fn too_short(&self, began: Instant, windows_per_block: usize, window_seconds: f64) -> String {
        let needed = length_needed(windows_per_block, window_seconds);
        let reason = match self.end {
            End::OfProgram(_) => reason::too_short,
            End::OnRequest(_) => reason::stopped,
        };
        reason(began.elapsed(), needed)
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
    pub fn pass(&self, laboratory: &mut Laboratory, time: Duration) -> Passed {
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
            let warm_up = self.preparation().warm_up;
            if !Laboratory::processes(&self.session).is_empty() && self.pause(warm_up) {
                let pids = Laboratory::processes(&self.session);
                let all = pids
                    .iter()
                    .filter_map(|pid| Laboratory::open(&self.session, *pid));
                if let Some(busiest) = all.max_by_key(Laboratory::cpu_ns) {
                    return Ok(busiest);
                }
            }
            if self.is_over() {
                return Err(self.too_short(began, 0, 0.0));
            }
            if began.elapsed() > BEGINNING {
                return Err(reason::no_agent());
            }
            std::thread::sleep(PATIENCE);
        }
    }

    fn reconnaissance(&self, laboratory: &Laboratory, look: Look) -> Reconnaissance {
        let pid = laboratory.pid();
        let watch = Watch::of_process_in(self.session.clone(), pid);
        let (before, after) = look.counts();
        let seconds = look.seconds();
        Reconnaissance::of((pid, watch), look.samples, &before, &after, seconds)
    }

    /// Targets that the budget allows.
    fn affordable(&self) -> usize {
        let n = self.budget.as_secs_f64() / PER_TARGET.as_secs_f64();
        // A run must have room for a block with all of them.
        let fit = |ran: Duration| {
            (1..=CHOSEN_MOST).rfind(|n| block_needed(windows_of_targets(*n)) <= ran)
        };
        let most = self.ran.map_or(CHOSEN_MOST, |ran| fit(ran).unwrap_or(1));
        (n as usize).clamp(1, most)
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
                // Code of a later phase takes no sample in half a second. Whether its own windows met
                // it is known at the end, but not where all targets share their windows.
                _ if self.estimator == Estimator::Factorial
                    && found.subject.sample_share == Some(0.0) =>
                {
                    Err(reason::never_ran())
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
        let gap = Duration::from_secs_f64(gap_seconds(clock.window_seconds));
        let length = Duration::from_secs_f64(clock.window_seconds);
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
