//! One process of a model, with the time of each of its threads taken apart.

use std::collections::BTreeMap;

use convoy_model::{GroupId, Model, Object, ObjectId, ProcessId, SiteId, ThreadId, Use};
use convoy_profile::Op;

use crate::estimate::queueing::LockCode;
use crate::facts::life_spans;
use crate::facts::operations::{role, spins, Locks, Role};

/// Where the time of a thread went. Nanoseconds; the parts add up to `life`, up to clock noise.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadTime {
    pub id: ThreadId,
    pub group: GroupId,
    pub main: bool,
    pub start: f64,
    pub end: f64,
    pub life: f64,
    /// On a CPU, `spin` included.
    pub cpu: f64,
    /// Of `cpu`, in the kernel.
    pub sys: f64,
    /// Of `cpu`, spent waiting: spin locks, trylock loops, libraries that spin before they park.
    pub spin: f64,
    /// Waits for locks.
    pub lock_wait: f64,
    /// Waits for events, all classes.
    pub event_wait: f64,
    /// Of `event_wait`, the part that shrinks when others get faster (empty queue, join, slow
    /// peer), as opposed to waits for threads of the same kind.
    pub elastic: f64,
    /// Of `elastic`, waits that nobody could shorten.
    pub idle: f64,
    /// Runnable without a CPU, outside of waits.
    pub run_delay: f64,
    /// None of these: I/O, sleep, epoll.
    pub off: f64,
    /// Waits of any kind, counted.
    pub waits: f64,
    /// Times it gave up the CPU by itself.
    pub switches: f64,
    /// Times it was taken off the CPU, or yielded.
    pub preemptions: f64,
}

impl ThreadTime {
    /// From its start to its end.
    pub(crate) fn span(&self) -> (f64, f64) {
        (self.start, self.end)
    }

    /// Work: what would be left if it never had to wait for anybody or for a CPU.
    pub(crate) fn busy(&self) -> f64 {
        (self.cpu - self.spin).max(0.0) + self.off
    }
}

/// A process as the analyses see it.
#[derive(Debug)]
pub(crate) struct ProcessView<'a> {
    pub model: &'a Model,
    pub process: ProcessId,
    pub locks: &'a Locks,
    pub lock_code: LockCode<'a>,
    /// Threads that ran, in model order.
    pub threads: Vec<ThreadTime>,
    index: BTreeMap<ThreadId, usize>,
    /// Uses of this process, by object.
    uses: Vec<&'a Use>,
    /// Where those of each object begin, and the end: programs have 100,000 locks.
    uses_at: Vec<u32>,
    /// First start and last end.
    pub start: f64,
    pub end: f64,
    /// CPUs that this process could use, other recorded processes' share taken off; infinite if unknown.
    pub cpus: f64,
    /// CPUs that it was allowed to use at most; infinite if unknown.
    pub cpus_allowed: f64,
}

impl<'a> ProcessView<'a> {
    pub(crate) fn new(model: &'a Model, process: ProcessId, locks: &'a Locks) -> Self {
        let mut threads = Vec::new();
        let mut index = BTreeMap::new();
        for (i, t) in model
            .threads
            .iter()
            .enumerate()
            .filter(|(_, t)| t.process == process && t.wall_ns() > 0)
        {
            let id = ThreadId(i as u32);
            index.insert(id, threads.len());
            threads.push(ThreadTime {
                id,
                group: t.group,
                main: t.main,
                start: t.start_ns as f64,
                end: t.end_ns as f64,
                life: t.wall_ns() as f64,
                cpu: t.cpu_ns.min(t.wall_ns()) as f64,
                sys: t.sys_ns.min(t.cpu_ns) as f64,
                switches: t.voluntary_switches as f64,
                preemptions: t.involuntary_switches as f64,
                ..Default::default()
            });
        }
        let mut uses: Vec<&Use> = model
            .uses
            .iter()
            .filter(|u| index.contains_key(&u.thread))
            .collect();
        uses.sort_by_key(|u| (u.object, u.site, u.thread, u.op));
        let uses_at = starts(&uses, model.objects.len());
        let start = threads
            .iter()
            .map(|t| t.start)
            .fold(f64::INFINITY, f64::min);
        let end = threads.iter().map(|t| t.end).fold(0.0, f64::max);
        let allowed = match (
            model.meta.machine.cpus_allowed,
            model.meta.machine.cpus_online,
        ) {
            (0, 0) => f64::INFINITY,
            (0, n) | (n, _) => f64::from(n),
        };
        let mut this = Self {
            model,
            process,
            locks,
            lock_code: LockCode::of(model, &uses, locks),
            threads,
            index,
            uses,
            uses_at,
            start: start.min(end),
            end,
            cpus: allowed,
            cpus_allowed: allowed,
        };
        this.leave_cpus_to_others();
        this.leave_cpus_to_strangers();
        this.take_time_apart();
        this
    }

    /// Wall time of the process: first start to last end of its threads.
    pub(crate) fn wall(&self) -> f64 {
        self.end - self.start
    }

    /// CPU time of all its threads.
    pub(crate) fn cpu(&self) -> f64 {
        self.threads.iter().map(|t| t.cpu).sum()
    }

    /// CPU time that a hypervisor gave to others while the process lived, nanoseconds.
    pub(crate) fn stolen(&self) -> f64 {
        let meta = &self.model.meta;
        let run = meta.end_ns.saturating_sub(meta.start_ns) as f64;
        if run > 0.0 {
            meta.stolen_ns as f64 * (self.wall() / run).min(1.0)
        } else {
            0.0
        }
    }

    /// Share of the usable CPUs that was used; 0 if unknown.
    pub(crate) fn cpu_ratio(&self) -> f64 {
        if self.cpus.is_finite() && self.wall() > 0.0 {
            (self.cpu() / self.wall() / self.cpus).min(1.0)
        } else {
            0.0
        }
    }

    pub(crate) fn thread(&self, id: ThreadId) -> Option<usize> {
        self.index.get(&id).copied()
    }

    pub(crate) fn object(&self, id: ObjectId) -> Option<&'a Object> {
        self.model.objects.get(id.0 as usize)
    }

    pub(crate) fn object_name(&self, id: ObjectId) -> String {
        match self.object(id) {
            Some(o) if !o.name.is_empty() => o.name.clone(),
            Some(o) => format!("{:?} at {:#x}", o.kind, o.addr).to_lowercase(),
            None => "unknown object".into(),
        }
    }

    /// Its uses, ordered by object.
    pub(crate) fn uses(&self) -> &[&'a Use] {
        &self.uses
    }

    /// The uses of one object.
    pub(crate) fn uses_of(&self, id: ObjectId) -> &[&'a Use] {
        let at = |ix: u32| self.uses_at.get(ix as usize).map(|at| *at as usize);
        let range = at(id.0).zip(at(id.0.saturating_add(1)));
        range.map_or(&[], |(lo, hi)| &self.uses[lo..hi])
    }

    /// The role of a use; `None` for a use without an operation.
    pub(crate) fn role(&self, u: &Use) -> Option<Role> {
        u.op.map(|op| role(op, self.locks.contains(u.object)))
    }

    /// Groups of this process that have threads.
    pub(crate) fn groups(&self) -> Vec<GroupId> {
        let mut groups: Vec<GroupId> = self.threads.iter().map(|t| t.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    pub(crate) fn group_threads(&self, g: GroupId) -> impl Iterator<Item = &ThreadTime> + '_ {
        self.threads.iter().filter(move |t| t.group == g)
    }

    pub(crate) fn group_name(&self, g: GroupId) -> String {
        match self.model.groups.get(g.0 as usize) {
            Some(group) if !group.name.is_empty() => group.name.clone(),
            _ => format!("group {}", g.0),
        }
    }

    /// Other recorded processes (a load generator, say) ran on the same CPUs at the same time.
    fn leave_cpus_to_others(&mut self) {
        let wall = self.wall();
        if !self.cpus.is_finite() || wall <= 0.0 {
            return;
        }
        let others: f64 = self
            .model
            .threads
            .iter()
            .filter(|t| t.process != self.process)
            .map(|t| {
                let life = (t.start_ns as f64, t.end_ns as f64);
                t.cpu_ns as f64 * life_spans::share_within(life, (self.start, self.end))
            })
            .sum();
        self.cpus = (self.cpus - others / wall)
            .max(self.cpu() / wall)
            .max(0.1)
            .min(self.cpus_allowed);
    }

    /// Programs that were not recorded ran on the same CPUs: threads queued for CPUs although this
    /// process did not fill them.
    ///
    /// If N threads had c CPUs to themselves, then whenever one queues all c are busy and at most
    /// N - c queue, so CPU time D and queueing R obey D >= R * c / (N - c), that is
    /// c <= N * D / (D + R). Fewer CPUs than allowed by this were there for us.
    fn leave_cpus_to_strangers(&mut self) {
        let wall = self.wall();
        let most = self.threads.iter().map(|t| t.cpu).fold(0.0, f64::max);
        let (mut life, mut cpu, mut delay) = (0.0, 0.0, 0.0);
        for t in self.threads.iter().filter(|t| t.cpu > 0.05 * most) {
            let recorded = self
                .model
                .threads
                .get(t.id.0 as usize)
                .and_then(|m| m.run_delay_ns);
            let Some(ns) = recorded else { return };
            life += t.life;
            cpu += t.cpu;
            delay += (ns as f64).min(t.life - t.cpu).max(0.0);
        }
        // Hardly any queueing says nothing: one thread that is busy while others sleep never queues.
        if self.cpus.is_finite() && wall > 0.0 && delay > 0.05 * cpu {
            // Fewer threads than CPUs say how much of each they got, not how many there were.
            let threads = (life / wall).max(self.cpus);
            let there = threads * cpu / (cpu + delay);
            self.cpus = self.cpus.min(there).max(self.cpu() / wall).max(0.1);
        }
    }

    fn take_time_apart(&mut self) {
        let mut spun_at_locks = vec![0.0; self.threads.len()];
        for u in &self.uses {
            let Some(i) = self.index.get(&u.thread).copied() else {
                continue;
            };
            let spin_kind = self.object(u.object).is_some_and(|o| spins(o.kind));
            let (role, wait) = (self.role(u), u.wait_ns as f64);
            let t = &mut self.threads[i];
            match role {
                Some(Role::Acquire | Role::AcquireShared) => {
                    t.lock_wait += wait;
                    t.waits += u.waits as f64;
                    if spin_kind {
                        spun_at_locks[i] += wait;
                    }
                }
                Some(Role::Wait) => {
                    t.event_wait += wait;
                    t.waits += u.waits as f64;
                }
                Some(Role::Try) => t.spin += try_spin_ns(u),
                Some(Role::Wake) | None => {}
            }
        }
        let (saturated, unknown_delay) = (
            self.cpu_ratio() > 0.9,
            self.model.threads.iter().all(|t| t.run_delay_ns.is_none()),
        );
        for (t, spun_at_locks) in self.threads.iter_mut().zip(spun_at_locks) {
            let recorded = self
                .model
                .threads
                .get(t.id.0 as usize)
                .and_then(|m| m.run_delay_ns);
            let waited = (t.lock_wait + t.event_wait).min(t.life);
            // Waits that burnt CPU are in both: what does not fit into the life span was spun.
            let spun_in_waits = (t.cpu + waited - t.life)
                .max(spun_at_locks)
                .min(t.cpu)
                .min(waited);
            t.spin = (t.spin + spun_in_waits).min(t.cpu);
            let rest = (t.life - t.cpu - (waited - spun_in_waits)).max(0.0);
            t.run_delay = match recorded {
                Some(ns) => (ns as f64).min(rest),
                // Without the kernel's word: on full CPUs the rest is most likely queueing for one.
                None if unknown_delay && saturated => rest,
                None => 0.0,
            };
            t.off = rest - t.run_delay;
        }
    }
}

/// Where the uses of each of `objects` begin; they are sorted by object. One more: their end.
fn starts(uses: &[&Use], objects: usize) -> Vec<u32> {
    let mut starts = Vec::with_capacity(objects + 1);
    let mut at = 0;
    for id in 0..=objects as u32 {
        let before = |u: &&&Use| u.object.0 < id;
        at += uses.iter().skip(at).take_while(before).count();
        starts.push(at as u32);
    }
    starts
}

/// The site of which all these uses together have most.
pub(crate) fn site_with_most<'a>(
    uses: impl Iterator<Item = &'a Use>,
    of: impl Fn(&Use) -> u64,
) -> Option<SiteId> {
    let mut by_site: BTreeMap<SiteId, u64> = BTreeMap::new();
    for u in uses {
        *by_site.entry(u.site).or_default() += of(u);
    }
    by_site.into_iter().max_by_key(|(_, n)| *n).map(|(s, _)| s)
}

/// CPU time that a trylock loop burnt, nanoseconds: the time spent trying as recorded, but not more
/// than a failed try can cost (2 us: a try, a pause, a yield); a thread that tries and then does
/// something else is not spinning.
pub(crate) fn try_spin_ns(u: &Use) -> f64 {
    const FAILED_TRY_MIN_NS: f64 = 20.0;
    const FAILED_TRY_MAX_NS: f64 = 2000.0;
    let failed = u.failed as f64;
    if matches!(u.op, Some(Op::SemTrywait)) && u.busy_ns == 0 {
        return failed * FAILED_TRY_MIN_NS;
    }
    (u.busy_ns as f64)
        .min(failed * FAILED_TRY_MAX_NS)
        .max(failed * FAILED_TRY_MIN_NS)
}

/// Does little but try: a thread with hardly any CPU time per try, of which many fail, or with no more
/// than the try and its unlock take.
pub(crate) fn polls(u: &Use, cpu_ns: f64) -> bool {
    const FAILING_MAX_NS: f64 = 1000.0;
    const BARE_MAX_NS: f64 = 150.0;
    let tries = matches!(
        u.op,
        Some(
            Op::MutexTrylock | Op::RwlockTryrd | Op::RwlockTrywr | Op::SpinTrylock | Op::OmpTrylock
        )
    );
    let often_fails = u.failed * 10 >= u.calls;
    let most = if often_fails {
        FAILING_MAX_NS
    } else {
        BARE_MAX_NS
    };
    tries && cpu_ns < most * u.calls as f64
}
