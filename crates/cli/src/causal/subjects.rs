//! From targets to addresses in the process, and the choice of targets where none is named.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use convoy_analysis::counters::Analysis;
use convoy_analysis::Params;
use convoy_capture::causal::{
    Counts, Range, Subject, Waiting, LOCKS_MOST, RANGES_MOST, TARGETS_MOST,
};
use convoy_capture::Watch;
use convoy_causal::{reason, Algorithm, Kind, Mechanism, Point, PointKind, Target};
use convoy_live::{group_of, Function};
use convoy_model::{Model, ObjectId, SiteFrame, SyncCode};
use convoy_profile::{ObjectKind, Profile};
use convoy_report::{find, names};

use super::progress::LIBC;
use crate::live::Functions;

/// Share of the samples from which on a function is a target.
const FUNCTION_SHARE_LEAST: f64 = 0.03;

/// Wait over run time of all threads from which on a lock is a target.
const LOCK_SHARE_LEAST: f64 = 0.005;

/// Sleeps per second from which on sleeping is a target.
const SLEEPS_LEAST_HZ: f64 = 5.0;

/// What is known of the program before the experiments.
#[derive(Debug)]
pub struct Reconnaissance {
    functions: Option<Functions>,
    locks: Option<Locks>,
    /// Instruction pointers.
    samples: Vec<u64>,
    sleeps_hz: f64,
    seconds: f64,
    /// Names of the threads.
    threads: Vec<String>,
}

#[derive(Debug)]
struct Locks {
    model: Model,
    analysis: Analysis,
}

/// A target with its place in the process.
#[derive(Debug)]
pub struct Found {
    /// As the report names it.
    pub subject: convoy_causal::Subject,
    /// For windows.
    pub what: Subject,
    /// How threads are to wait for it; `None` = as they do.
    pub waiting: Option<Waiting>,
}

impl Reconnaissance {
    /// Of a process that has run for a while; `sleeps`: meanwhile.
    pub fn of(
        (pid, watch): (u32, Watch),
        samples: Vec<u64>,
        before: &Counts,
        after: &Counts,
        seconds: f64,
    ) -> Self {
        let sleeps = after.sleeps.saturating_sub(before.sleeps) as f64;
        Self {
            functions: Functions::of(pid),
            locks: Some(Locks::of(watch)),
            samples,
            threads: convoy_capture::thread_names(pid),
            sleeps_hz: sleeps / seconds.max(f64::MIN_POSITIVE),
            seconds,
        }
    }

    /// The targets that are worth an experiment, most promising first.
    pub fn choose(&self, most: usize) -> Vec<Target> {
        let functions = self.hottest();
        let least = FUNCTION_SHARE_LEAST * self.samples.len() as f64;
        let functions = functions
            .into_iter()
            .filter(|(n, _)| *n as f64 >= least)
            .map(|(_, name)| Target::new(Kind::Function, name));
        let mut locks = self
            .locks
            .as_ref()
            .map_or_else(Vec::new, |locks| locks.contended(self.seconds))
            .into_iter();
        let mut chosen = Vec::new();
        if self.sleeps_hz >= SLEEPS_LEAST_HZ {
            chosen.push(Target::new(Kind::Wait, "sleep"));
        }
        for function in functions {
            chosen.extend(locks.next());
            chosen.push(function);
        }
        chosen.extend(locks);
        chosen.truncate(most.min(TARGETS_MOST));
        chosen
    }

    /// The functions of the process; `None` = they could not be read.
    pub fn functions(&self) -> Option<&Functions> {
        self.functions.as_ref()
    }

    /// Calls of the functions that took samples, those that took most first, without those that
    /// exclude, wait for or wake threads. Of the C library's functions the loader has copies: there
    /// the library's own counts.
    pub fn calls(&self) -> Vec<Point> {
        let functions = self.by_function().into_iter();
        let functions = functions.filter(|(_, function)| !is_of_meetings(function));
        let point = |(_, function): (u64, Function)| Point {
            kind: match function.module == LIBC {
                true => PointKind::SystemCall,
                false => PointKind::Function,
            },
            name: function.name,
        };
        functions.map(point).collect()
    }

    /// Samples by function, the most first.
    fn by_function(&self) -> Vec<(u64, Function)> {
        let mut by_start: BTreeMap<u64, (u64, Function)> = BTreeMap::new();
        for pc in &self.samples {
            let Some(function) = self.functions.as_ref().and_then(|f| f.at(*pc)) else {
                continue;
            };
            let row = by_start.entry(function.addresses.start);
            row.or_insert((0, function)).0 += 1;
        }
        let mut all: Vec<_> = by_start.into_values().collect();
        all.sort_by(|(a, f), (b, g)| b.cmp(a).then_with(|| f.name.cmp(&g.name)));
        all
    }

    /// The same by name, for those with a name that means one function.
    fn hottest(&self) -> Vec<(u64, String)> {
        let mut by_name: HashMap<String, u64> = HashMap::new();
        for (n, function) in self.by_function() {
            *by_name.entry(function.name).or_default() += n;
        }
        let mut all: Vec<_> = by_name.into_iter().map(|(name, n)| (n, name)).collect();
        all.sort_by(|a, b| b.cmp(a));
        all
    }

    /// Finds a target in the process, adding the addresses of its code; else why there is none.
    pub fn find(
        &self,
        target: &Target,
        ranges: &mut Vec<Range>,
        number: u32,
    ) -> Result<Found, String> {
        match target.kind {
            Kind::Function | Kind::Line => {
                let code = self.addresses(target)?;
                ranges.extend(code.iter().map(|range| range_of(range, number)));
                Ok(self.code(target, &code, number))
            }
            Kind::Lock => self.lock(target),
            Kind::Path => self.path(target, ranges, number),
            Kind::Threads => self.threads(target, number),
            Kind::Wait => Ok(found(
                target.clone(),
                Mechanism::Sampled,
                None,
                Subject {
                    sleeps: true,
                    ..Subject::default()
                },
            )),
        }
    }

    /// Code of the functions whose sections of a mutex only read, as that of target 0.
    pub fn readers(&self, names: &[String]) -> Result<Vec<Range>, String> {
        let mut ranges = Vec::new();
        for name in names {
            let code = self.addresses(&Target::new(Kind::Function, name))?;
            ranges.extend(code.iter().map(|range| range_of(range, 0)));
        }
        Ok(ranges)
    }

    /// Addresses of a function or line.
    fn addresses(&self, target: &Target) -> Result<Vec<std::ops::Range<u64>>, String> {
        let functions = self.functions.as_ref().ok_or_else(reason::gone)?;
        if target.kind == Kind::Function {
            let copies = functions
                .called(&target.name)
                .map_err(|e| format!("{}; {}", e.found, e.fix))?;
            return Ok(copies.into_iter().map(|copy| copy.addresses).collect());
        }
        let (file, line) = target.line().ok_or_else(reason::no_line)?;
        let code = functions.of_line(file, line);
        let code = code.ok_or_else(reason::no_debug_information)?;
        match code.is_empty() {
            true => Err(reason::no_line()),
            false => Ok(code),
        }
    }

    fn code(&self, target: &Target, code: &[std::ops::Range<u64>], number: u32) -> Found {
        let is_hit = |pc: &&u64| code.iter().any(|range| range.contains(*pc));
        let hits = self.samples.iter().filter(is_hit).count();
        // An earlier run was looked at in place of this one: no samples.
        let samples = Some(self.samples.len()).filter(|n| *n > 0);
        let share = samples.map(|samples| hits as f64 / samples as f64);
        let what = Subject {
            code: 1 << number,
            ..Subject::default()
        };
        found(target.clone(), Mechanism::Sampled, share, what)
    }

    /// A mutex for whose threads other ways to wait are tried: one experiment each. `readers`: code
    /// that enters the sections that only read.
    pub fn mutex(
        &self,
        name: &str,
        ways: &[(Algorithm, Waiting)],
        readers: u32,
    ) -> Result<Vec<Found>, String> {
        let locks = self.locks.as_ref().ok_or_else(reason::gone)?;
        let (name, addresses) = locks.called(name)?;
        locks.check_mutexes(&addresses)?;
        let of = |(algorithm, waiting): &(Algorithm, Waiting)| {
            let target = Target::new(Kind::Lock, name.clone());
            let mut what = locked(addresses.clone());
            if *algorithm == Algorithm::ReadWrite {
                what.code = readers;
            }
            let mut found = found(target, Mechanism::Sampled, None, what);
            found.subject.algorithm = Some(*algorithm);
            found.waiting = Some(*waiting);
            found
        };
        Ok(ways.iter().map(of).collect())
    }

    /// The mutex for which threads wait longest.
    pub fn most_contended(&self) -> Option<String> {
        let locks = self.locks.as_ref()?;
        let mut names = locks.contended(self.seconds).into_iter().map(|t| t.name);
        names.find(|name| {
            let found = locks.called(name);
            found.is_ok_and(|(_, addresses)| locks.check_mutexes(&addresses).is_ok())
        })
    }

    fn path(&self, target: &Target, ranges: &mut Vec<Range>, number: u32) -> Result<Found, String> {
        let steps = target.steps();
        for (step, name) in (1u32..).zip(&steps) {
            let code = self.addresses(&Target::new(Kind::Function, *name))?;
            ranges.extend(code.iter().map(|range| Range {
                step,
                ..range_of(range, number)
            }));
        }
        let what = Subject {
            code: 1 << number,
            paths: vec![(number, steps.len() as u8)],
            ..Subject::default()
        };
        Ok(found(target.clone(), Mechanism::Sampled, None, what))
    }

    fn threads(&self, target: &Target, number: u32) -> Result<Found, String> {
        if !self.threads.iter().any(|name| is_of(name, &target.name)) {
            let groups: BTreeSet<String> = self.threads.iter().map(|name| group_of(name)).collect();
            let groups: Vec<String> = groups.into_iter().collect();
            return Err(reason::no_threads(&target.name, &groups));
        }
        let what = Subject {
            groups: 1 << number,
            ..Subject::default()
        };
        Ok(found(target.clone(), Mechanism::Sampled, None, what))
    }

    fn lock(&self, target: &Target) -> Result<Found, String> {
        let locks = self.locks.as_ref().ok_or_else(reason::gone)?;
        let (name, addresses) = locks.called(&target.name)?;
        let target = Target::new(Kind::Lock, name);
        let what = locked(addresses);
        Ok(found(target, Mechanism::Measured, None, what))
    }
}

/// Called when threads meet: the number follows the schedule, not the work.
fn is_of_meetings(function: &Function) -> bool {
    let frame = SiteFrame {
        function: function.name.clone(),
        module: function.module.clone(),
        ..SiteFrame::default()
    };
    SyncCode::of_library_function(&frame).is_some()
}

fn range_of(code: &std::ops::Range<u64>, target: u32) -> Range {
    Range {
        lo: code.start,
        hi: code.end,
        target,
        step: 0,
    }
}

/// Whether a thread is meant, by its name or its group.
pub fn is_of(thread: &str, wanted: &str) -> bool {
    thread == wanted || group_of(thread) == wanted
}

/// Critical sections of locks.
fn locked(addresses: Vec<u64>) -> Subject {
    Subject {
        locks: addresses,
        ..Subject::default()
    }
}

fn found(target: Target, mechanism: Mechanism, sample_share: Option<f64>, what: Subject) -> Found {
    Found {
        subject: convoy_causal::Subject {
            target,
            mechanism,
            sample_share,
            algorithm: None,
            locks: what.locks.clone(),
        },
        what,
        waiting: None,
    }
}

/// Whether a target that was just found can be tried beside others. `ranges`: of all, its own from
/// `first` on.
pub fn check(
    found: &Found,
    others: &[Found],
    ranges: &[Range],
    first: usize,
) -> Result<(), String> {
    let target = &found.subject.target;
    if others.iter().any(|other| other.subject.target == *target) {
        return Err(reason::named_twice());
    }
    let (theirs, own) = ranges.split_at(first);
    let is_shared = |range: &&Range| own.iter().any(|o| range.lo < o.hi && o.lo < range.hi);
    if let Some(range) = theirs.iter().find(is_shared) {
        let other = others.get(range.target as usize);
        let name = other.map_or_else(String::new, |other| other.subject.target.to_string());
        return Err(reason::overlap(&name));
    }
    match found.what.locks.len() {
        locks if locks > LOCKS_MOST => Err(reason::too_many_locks(locks, LOCKS_MOST)),
        _ if ranges.len() > RANGES_MOST => Err(reason::too_many_ranges(own.len(), RANGES_MOST)),
        _ => Ok(()),
    }
}

impl Locks {
    fn of(mut watch: Watch) -> Self {
        let mut profile: Profile = watch.read().profile;
        crate::record::name(&mut profile);
        let model = Model::build(profile);
        let analysis = convoy_analysis::counters::analyze(&model, &Params::default());
        Self { model, analysis }
    }

    /// Locks that threads wait for, most first.
    fn contended(&self, seconds: f64) -> Vec<Target> {
        let least = LOCK_SHARE_LEAST * seconds * 1e9;
        let mut rows: Vec<(u64, ObjectId)> = self
            .analysis
            .locks
            .iter()
            .map(|row| (row.stats.wait_ns, row.object))
            .filter(|(wait_ns, _)| *wait_ns as f64 >= least)
            .collect();
        rows.sort_by(|a, b| b.cmp(a));
        let mut targets: Vec<Target> = Vec::new();
        for (_, id) in rows {
            let target = Target::new(Kind::Lock, names::object_of(&self.model, id));
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets
    }

    /// Whether other ways to wait can be tried for all of them at once.
    fn check_mutexes(&self, addresses: &[u64]) -> Result<(), String> {
        if addresses.len() > LOCKS_MOST {
            return Err(reason::too_many_locks(addresses.len(), LOCKS_MOST));
        }
        let mut objects = self.model.objects.iter();
        let other = objects
            .find(|object| addresses.contains(&object.addr) && object.kind != ObjectKind::Mutex);
        other.map_or(Ok(()), |object| {
            Err(reason::no_mutex(names::kind(object.kind)))
        })
    }

    /// Name and addresses of the locks that are meant: all of one name.
    fn called(&self, text: &str) -> Result<(String, Vec<u64>), String> {
        let found = find::objects(&self.model, &self.analysis, text)?;
        let is_lock = |id: &&ObjectId| self.analysis.locks.iter().any(|row| row.object == **id);
        let first = found
            .iter()
            .find(is_lock)
            .ok_or_else(|| reason::no_lock(text))?;
        let name = names::object_of(&self.model, *first);
        let same = found.iter().filter(is_lock);
        let same = same.filter(|id| names::object_of(&self.model, **id) == name);
        let addresses = same.filter_map(|id| self.model.objects.get(id.0 as usize));
        let addresses = addresses.map(|object| object.addr).collect();
        Ok((name, addresses))
    }
}
