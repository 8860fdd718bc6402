//! The program's progress: counters of the agent, and of probes that go in for points that the user
//! names.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use convoy_capture::causal::{Counts, Laboratory};
use convoy_capture::ProbeClient;
use convoy_causal::{
    may_follow_the_work, reason, Latency, Point, PointKind, Progress, ProgressRow, Rate, Step,
};
use convoy_live::{Focus, Inserted, Key, Measure, Probe, Refusal};

use super::calls::Calls;
use super::look::Look;
use crate::live::Functions;

/// What the user wants progress to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Whatever comes often enough.
    Any,
    /// These points, together.
    Points(Vec<Point>),
    /// The time between two points.
    Latency(Latency),
}

impl Wanted {
    /// The same points as in an earlier run, which had to choose a function itself.
    pub fn or_calls(&self, rate: Option<&Rate>) -> Self {
        let (kind, name) = match (self, rate.map(|rate| &rate.progress)) {
            (Self::Any, Some(Progress::Calls(name))) => (PointKind::Function, name.clone()),
            (Self::Any, Some(Progress::SystemCalls(name))) => (PointKind::SystemCall, name.clone()),
            _ => return self.clone(),
        };
        Self::Points(vec![Point { kind, name }])
    }
}

/// Why no calls can count as progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCalls {
    /// The program has ended.
    Ended,
    /// Nothing is called often enough, or it cannot be counted.
    TooRare,
}

/// Functions whose calls are counted to choose one of them.
const MOST_CANDIDATES: usize = 16;

/// They are counted for so long.
const CALLS_TRIAL: Duration = Duration::from_millis(150);

/// Meanwhile they are read so often.
const CALLS_STEP: Duration = Duration::from_millis(10);

/// Requests in flight are counted so often.
const LATENCY_STEP: Duration = Duration::from_millis(1);

/// The C library's file.
pub const LIBC: &str = "libc.so.6";

/// Counts progress, with probes in the process if it has to: they go out when it is dropped.
#[derive(Debug)]
pub struct Meter {
    wanted: Wanted,
    probes: Option<ProbeClient>,
    /// Lowest number of requests in flight so far: below 0, as many had begun before the probes.
    lowest: i64,
    calls: Calls,
}

/// What windows measure progress by.
#[derive(Debug)]
pub struct Clock {
    /// Counts it.
    pub meter: Meter,
    /// What it is, and how often it came before the experiments.
    pub rate: Rate,
    /// Length of a window.
    pub window_seconds: f64,
    /// CPUs that the program may use.
    pub cpus: u32,
}

/// All counters at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The agent's.
    pub counts: Counts,
    /// Calls, by number of the point.
    calls: Vec<u64>,
}

impl Meter {
    /// Puts probes into the process where points need them.
    ///
    /// # Errors
    /// A point is not there, or cannot be probed: a reason for the report.
    pub fn begin(wanted: &Wanted, pid: u32) -> Result<Self, String> {
        let meter = Self {
            wanted: wanted.clone(),
            probes: None,
            lowest: 0,
            calls: Calls::default(),
        };
        let mut points = meter.points().into_iter();
        if points.all(|point| point.kind == PointKind::Coz) {
            return Ok(meter);
        }
        let functions = Functions::of(pid).ok_or_else(reason::gone)?;
        meter.with_probes(&functions, pid)
    }

    fn with_probes(mut self, functions: &Functions, pid: u32) -> Result<Self, String> {
        let points = self.points();
        let mut probes = Vec::new();
        for (row, point) in (0u32..).zip(&points) {
            probes.extend(probes_of(functions, point, row)?);
        }
        let refused = |found: &str, fix: &str| reason::no_point(&names(&points), found, fix);
        let mut client = begin_probes(pid).map_err(|e| refused(&e.found, &e.fix))?;
        let inserted = client.insert(&probes);
        let inserted = inserted.map_err(|e| refused(&e.found, &e.fix))?;
        for (probe, inserted) in probes.iter().zip(inserted) {
            if let (Inserted::No { why }, Some(point)) = (inserted, points.get(probe.row as usize))
            {
                let fix = "name a function that it calls, or that calls it";
                return Err(reason::no_point(&point.to_string(), &why, fix));
            }
        }
        self.probes = Some(client);
        Ok(self)
    }

    /// Counts calls at these points, most promising first, for a moment; then goes on with the one
    /// that can count as progress. `pause`: false = the program has ended meanwhile.
    ///
    /// # Errors
    /// Why there is none.
    pub fn by_calls(
        candidates: Vec<Point>,
        (pid, functions): (u32, &Functions),
        pause: impl Fn(Duration) -> bool,
    ) -> Result<(Self, Rate), NoCalls> {
        let may_count = candidates.into_iter();
        let may_count = may_count.filter(|point| may_follow_the_work(&point.name));
        let points: Vec<Point> = may_count.take(MOST_CANDIDATES).collect();
        // What cannot be probed is no candidate.
        let probes = (0u32..).zip(&points);
        let probes = probes.filter_map(|(row, point)| probes_of(functions, point, row).ok());
        let probes: Vec<Probe> = probes.flatten().collect();
        let refused = |refusal: Refusal| match refusal.is_gone {
            true => NoCalls::Ended,
            false => NoCalls::TooRare,
        };
        let mut client = begin_probes(pid).map_err(refused)?;
        client.insert(&probes).map_err(refused)?;
        let began = Instant::now();
        let mut readings: Vec<(f64, Vec<u64>)> = Vec::new();
        let mut calls = Calls::default();
        while began.elapsed() < CALLS_TRIAL {
            let cells = client.read().map_err(refused)?.cells;
            let totals = calls.take(&cells, points.len());
            readings.push((began.elapsed().as_secs_f64(), totals));
            if !pause(CALLS_STEP) {
                return Err(NoCalls::Ended);
            }
        }
        drop(client);
        let pairs = || readings.iter().zip(readings.iter().skip(1));
        let steps = |row: usize| {
            pairs().map(move |((from, before), (to, after))| Step {
                seconds: to - from,
                units: after[row].saturating_sub(before[row]),
            })
        };
        let rates = points.iter().enumerate();
        let rates =
            rates.map(|(row, point)| Rate::of(progress_of(point), &steps(row).collect::<Vec<_>>()));
        let rate = Progress::choose_calls(&rates.collect::<Vec<_>>());
        let rate = rate.ok_or(NoCalls::TooRare)?;
        let chosen = Self {
            wanted: Wanted::Any.or_calls(Some(&rate)),
            probes: None,
            lowest: 0,
            calls: Calls::default(),
        };
        let meter = chosen.with_probes(functions, pid);
        Ok((meter.map_err(|_| NoCalls::Ended)?, rate))
    }

    fn points(&self) -> Vec<Point> {
        match &self.wanted {
            Wanted::Any => Vec::new(),
            Wanted::Points(points) => points.clone(),
            Wanted::Latency(latency) => vec![latency.begin.clone(), latency.end.clone()],
        }
    }

    /// All counters now; `None` = the process is gone.
    pub fn read(&mut self, laboratory: &Laboratory) -> Option<Reading> {
        let mut reading = Reading {
            counts: laboratory.counts()?,
            calls: Vec::new(),
        };
        let cells = match &mut self.probes {
            Some(probes) => probes.read().ok()?.cells,
            None => Vec::new(),
        };
        let points = self.points().len();
        reading.calls = self.calls.take(&cells, points);
        if let (Wanted::Latency(_), [begun, ended]) = (&self.wanted, &reading.calls[..]) {
            self.lowest = self.lowest.min(begun.wrapping_sub(*ended) as i64);
        }
        Some(reading)
    }

    /// What counts as progress, and how often it came between two readings.
    ///
    /// # Errors
    /// It came too rarely: a reason for the report.
    pub fn choose(&self, look: &Look) -> Result<Rate, String> {
        let rate = |progress: Progress| {
            let steps = look.steps(|from, to| self.units(&progress, from, to));
            Rate::of(progress, &steps)
        };
        if let Some(progress) = self.named() {
            let rate = rate(progress);
            return match rate.is_enough() {
                true => Ok(rate),
                false => Err(reason::rare_progress(&rate.progress, rate.per_second)),
            };
        }
        let (_, counts) = look.counts();
        let points = counts.points.iter();
        let points = points.map(|(name, _)| Progress::Point(name.clone()));
        let latencies = counts.latencies.iter();
        let latencies = latencies.map(|latency| Progress::Latency(latency.name.clone()));
        let rest = [Progress::Releases, Progress::Wakes, Progress::Arrivals];
        let all = points.chain(latencies).chain(rest).map(rate);
        Progress::choose(&all.collect::<Vec<_>>()).ok_or_else(reason::no_progress)
    }

    /// What the user has named.
    fn named(&self) -> Option<Progress> {
        match &self.wanted {
            Wanted::Any => None,
            Wanted::Latency(latency) if latency.begin == latency.end => {
                Some(Progress::Latency(latency.begin.name.clone()))
            }
            Wanted::Latency(latency) => Some(Progress::Latency(latency.to_string())),
            Wanted::Points(points) => {
                let is = |kind| points.iter().all(|point| point.kind == kind);
                let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
                let names = names.join(", ");
                Some(if is(PointKind::SystemCall) {
                    Progress::SystemCalls(names)
                } else if is(PointKind::Coz) {
                    Progress::Point(names)
                } else {
                    Progress::Calls(names)
                })
            }
        }
    }

    /// Rows of the report: points that the user names have one each.
    pub fn rows(&self, rate: &Rate, look: &Look) -> Vec<ProgressRow> {
        let Wanted::Points(points) = &self.wanted else {
            return vec![ProgressRow::from(rate)];
        };
        let row = |(number, point): (usize, &Point)| {
            let units = |reading: &Reading| units_at(point, number, reading);
            let steps = look.steps(|from, to| units(to).saturating_sub(units(from)));
            ProgressRow::from(&Rate::of(progress_of(point), &steps))
        };
        points.iter().enumerate().map(row).collect()
    }

    /// Units of progress between two readings; of a latency its departures.
    pub fn units(&self, progress: &Progress, from: &Reading, to: &Reading) -> u64 {
        let units = |reading| self.units_so_far(progress, reading);
        units(to).saturating_sub(units(from))
    }

    fn units_so_far(&self, progress: &Progress, reading: &Reading) -> u64 {
        let counts = &reading.counts;
        if let Wanted::Points(points) = &self.wanted {
            let points = points.iter().enumerate();
            return points.map(|(n, point)| units_at(point, n, reading)).sum();
        }
        match progress {
            Progress::Releases => counts.releases,
            Progress::Wakes => counts.wakes,
            Progress::Arrivals => counts.arrivals,
            Progress::Point(name) => coz_visits(name, counts),
            Progress::Latency(_) => self.ends(progress, reading).1,
            Progress::Calls(_) | Progress::SystemCalls(_) => 0,
        }
    }

    /// Time between two looks at the counters. `progress`: `None` = it is not chosen yet.
    pub fn step(&self, progress: Option<&Progress>) -> Duration {
        let is_wanted = matches!(self.wanted, Wanted::Latency(_));
        match is_wanted || progress.is_some_and(Progress::is_latency) {
            true => LATENCY_STEP,
            false => Duration::MAX,
        }
    }

    /// Requests that have begun and not ended.
    pub fn in_flight(&self, progress: &Progress, reading: &Reading) -> u64 {
        let (begun, ended) = self.ends(progress, reading);
        let counted = begun.wrapping_sub(ended) as i64;
        counted.saturating_sub(self.lowest).max(0) as u64
    }

    /// Requests that were in flight when their probes went in, at least; `None` = not one.
    pub fn missed(&self) -> Option<u64> {
        (self.lowest < 0).then(|| self.lowest.unsigned_abs())
    }

    /// Arrivals and departures.
    fn ends(&self, progress: &Progress, reading: &Reading) -> (u64, u64) {
        let is_coz = |latency: &Latency| latency.begin.kind == PointKind::Coz;
        match (&self.wanted, progress) {
            (Wanted::Latency(latency), _) if !is_coz(latency) => {
                let calls = |number| reading.calls.get(number).copied().unwrap_or_default();
                (calls(0), calls(1))
            }
            (_, Progress::Latency(name)) => {
                let mut latencies = reading.counts.latencies.iter();
                let latency = latencies.find(|latency| latency.name == *name);
                latency.map_or((0, 0), |latency| (latency.begun, latency.ended))
            }
            _ => (0, 0),
        }
    }
}

fn progress_of(point: &Point) -> Progress {
    let name = point.name.clone();
    match point.kind {
        PointKind::Function => Progress::Calls(name),
        PointKind::SystemCall => Progress::SystemCalls(name),
        PointKind::Coz => Progress::Point(name),
    }
}

fn units_at(point: &Point, number: usize, reading: &Reading) -> u64 {
    match point.kind {
        PointKind::Coz => coz_visits(&point.name, &reading.counts),
        _ => reading.calls.get(number).copied().unwrap_or_default(),
    }
}

fn coz_visits(name: &str, counts: &Counts) -> u64 {
    let point = counts.points.iter().find(|(known, _)| known == name);
    point.map_or(0, |(_, visits)| *visits)
}

fn names(points: &[Point]) -> String {
    let names: Vec<String> = points.iter().map(Point::to_string).collect();
    names.join(", ")
}

fn begin_probes(pid: u32) -> Result<ProbeClient, Refusal> {
    let holder = ["/proc/self/exe", convoy_capture::probes::ARGUMENT].map(OsString::from);
    ProbeClient::begin(&holder, pid)
}

/// A counter for each copy of the function.
fn probes_of(functions: &Functions, point: &Point, row: u32) -> Result<Vec<Probe>, String> {
    let focus = Focus::new().with(Key::Function, &point.name);
    let focus = match point.kind {
        PointKind::Function => focus,
        PointKind::SystemCall => focus.with(Key::Module, LIBC),
        PointKind::Coz => return Ok(Vec::new()),
    };
    let copies = functions.find(&focus);
    let copies = copies.map_err(|e| reason::no_point(&point.to_string(), &e.found, &e.fix))?;
    let probe =
        |function: convoy_live::Function| Probe::new(row, function.addresses, Measure::Calls);
    Ok(copies.into_iter().map(probe).collect())
}
