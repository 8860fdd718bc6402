//! Recordings with scheduler events, written by hand: a model, and what the room `critical` says of it.

use convoy_analysis::scheduler::{
    Analysis, GroupRow, Level, Moment, Parallelism, PathRow, ReasonRow, ThreadRow,
};
use convoy_model::finding::{Cause, Evidence, Finding, Gain, Subject};
use convoy_model::{
    FindingId, Group, GroupId, LoopId, Model, NameId, Object, ObjectId, OffReason, Process,
    ProcessId, Sched, Site, SiteFrame, SiteId, SpinKind, SpinLoop, Thread, ThreadId,
};
use convoy_profile::{Collector, Exit, Meta, ObjectKind};

/// A millisecond.
pub const MS: u64 = 1_000_000;

/// Length of the pieces of the timeline.
const PIECE: u64 = 10 * MS;

/// A recording under construction.
pub struct World {
    pub model: Model,
    pub critical: Analysis,
    now_ns: u64,
}

/// Where the time of a thread went, milliseconds, and its CMetric.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub cm: f64,
    pub cm_working: f64,
    pub running: u64,
    pub spinning: u64,
    pub delayed: u64,
    pub preempted: u64,
    pub blocked: u64,
}

impl World {
    /// A program on so many CPUs.
    pub fn new(command: &str, cpus: u32) -> Self {
        let mut meta = Meta {
            command: vec![format!("./{command}")],
            exit: Exit::Status(0),
            ..Meta::default()
        };
        meta.machine.cpus_online = cpus;
        meta.machine.cpus_allowed = cpus;
        for name in ["agent", "scheduler"] {
            meta.collectors.push(Collector {
                name: name.into(),
                active: true,
                lost: String::new(),
                enable: String::new(),
            });
        }
        let mut critical = Analysis::default();
        critical.quality.events = 48_210;
        critical.quality.sample_period_ns = 3 * MS;
        critical.quality.code_from = [0.93, 0.06, 0.01];
        critical.quality.cm_check = 1.0;
        Self {
            model: Model {
                meta,
                sched: Some(Sched::default()),
                ..Model::default()
            },
            critical,
            now_ns: 0,
        }
    }

    pub fn sched(&mut self) -> &mut Sched {
        self.model.sched.get_or_insert_with(Sched::default)
    }

    pub fn process(&mut self, name: &str, pid: u32) -> ProcessId {
        self.model.processes.push(Process {
            pid,
            name: name.into(),
            exe: format!("/usr/bin/{name}"),
            ..Process::default()
        });
        ProcessId(self.model.processes.len() as u32 - 1)
    }

    /// Threads that do the same; `name` with a number each if they are several.
    pub fn group(&mut self, process: ProcessId, name: &str, n: u32) -> (GroupId, Vec<ThreadId>) {
        let group = GroupId(self.model.groups.len() as u32);
        let threads: Vec<_> = (0..n)
            .map(|i| {
                self.thread(
                    process,
                    group,
                    if n > 1 {
                        format!("{name}-{i}")
                    } else {
                        name.into()
                    },
                )
            })
            .collect();
        self.model.groups.push(Group {
            process,
            name: if n > 1 {
                format!("{name}-#")
            } else {
                name.into()
            },
            threads: threads.clone(),
            ..Group::default()
        });
        (group, threads)
    }

    fn thread(&mut self, process: ProcessId, group: GroupId, name: String) -> ThreadId {
        let id = ThreadId(self.model.threads.len() as u32);
        let row = &mut self.model.processes[process.0 as usize];
        let main = row.threads.is_empty();
        let tid = row.pid + row.threads.len() as u32;
        row.threads.push(id);
        self.model.threads.push(Thread {
            process,
            group,
            tid,
            name,
            main,
            ..Thread::default()
        });
        id
    }

    /// A call stack, leaf first: functions with their lines in one file.
    pub fn site(&mut self, process: ProcessId, file: &str, frames: &[(&str, u32)]) -> SiteId {
        let frame = |(function, line): &(&str, u32)| SiteFrame {
            function: (*function).into(),
            file: format!("src/{file}"),
            line: *line,
            module: "app".into(),
            ..SiteFrame::default()
        };
        self.model.sites.push(Site {
            process,
            frames: frames.iter().map(frame).collect(),
            ..Site::default()
        });
        SiteId(self.model.sites.len() as u32 - 1)
    }

    pub fn file(&mut self, name: &str) -> NameId {
        let names = &mut self.sched().names;
        names.push(name.into());
        NameId(names.len() as u32 - 1)
    }

    pub fn object(&mut self, process: ProcessId, kind: ObjectKind, name: &str) -> ObjectId {
        self.model.objects.push(Object {
            process,
            kind,
            name: name.into(),
            addr: 0x5500_0000 + 64 * self.model.objects.len() as u64,
            ..Object::default()
        });
        ObjectId(self.model.objects.len() as u32 - 1)
    }

    pub fn spin_loop(
        &mut self,
        process: ProcessId,
        site: SiteId,
        kind: SpinKind,
        evidence: &str,
    ) -> LoopId {
        let frames = self.model.sites[site.0 as usize].frames[..1].to_vec();
        let loops = &mut self.sched().loops;
        loops.push(SpinLoop {
            process,
            frames,
            lo: 0x3a10,
            hi: 0x3a24,
            kind,
            evidence: evidence.into(),
            ..SpinLoop::default()
        });
        LoopId(loops.len() as u32 - 1)
    }

    /// Lets time pass with so many threads active, working and on a processor.
    pub fn phase(
        &mut self,
        ms: u64,
        active: usize,
        working: usize,
        running: usize,
        top: (ThreadId, SiteId),
    ) {
        let ns = ms * MS;
        let levels = &mut self.critical.parallelism.levels;
        let most = active.max(working).max(running);
        while levels.len() <= most {
            levels.push(Level {
                threads: levels.len(),
                ..Level::default()
            });
        }
        levels[active].active_ns += ns;
        levels[working].working_ns += ns;
        levels[running].running_ns += ns;
        for _ in 0..ns / PIECE {
            self.critical.timeline.push(Moment {
                from_ns: self.now_ns,
                width_ns: PIECE,
                active: active as f64,
                working: working as f64,
                running: running as f64,
                idle: f64::from(u8::from(active == 0)),
                thread: (active > 0).then_some(top.0),
                site: (active > 0).then_some(top.1),
            });
            self.now_ns += PIECE;
        }
    }

    /// What a thread did from begin to end.
    pub fn spent(&mut self, thread: ThreadId, spent: Spent) {
        let wall_ns = self.now_ns;
        let row = &mut self.model.threads[thread.0 as usize];
        row.end_ns = wall_ns;
        row.cpu_ns = spent.running * MS;
        row.run_delay_ns = Some((spent.delayed + spent.preempted) * MS);
        let cm_working = if spent.spinning > 0 {
            spent.cm_working
        } else {
            spent.cm
        };
        self.critical.threads.push(ThreadRow {
            thread,
            group: row.group,
            life_ns: wall_ns,
            cm_ns: spent.cm * MS as f64,
            cm_working_ns: cm_working * MS as f64,
            running_ns: spent.running * MS,
            delayed_ns: spent.delayed * MS,
            preempted_ns: spent.preempted * MS,
            spinning_ns: spent.spinning * MS,
            blocked_ns: spent.blocked * MS,
            worker: spent.running > 0,
            ..ThreadRow::default()
        });
    }

    /// Time off the processors for one reason, milliseconds.
    pub fn off(&mut self, reason: OffReason, n: u64, ms: u64, low_ms: u64, threads: usize) {
        self.critical.reasons.push(ReasonRow {
            reason,
            n,
            sum_ns: ms * MS,
            low_ns: (low_ms * MS) as f64,
            threads,
        });
    }

    /// Sums up what the phases and threads imply.
    pub fn finish(mut self, workers: usize) -> Self {
        let wall_ns = self.now_ns;
        let cpus = self.model.meta.machine.cpus_allowed;
        self.model.meta.end_ns = wall_ns;
        self.model
            .processes
            .iter_mut()
            .for_each(|p| p.wall_ns = wall_ns);
        let (start, events) = (1_000 * MS, self.critical.quality.events);
        let sched = self.sched();
        (sched.start_ns, sched.end_ns, sched.events) = (start, start + wall_ns, events);
        let p = &mut self.critical.parallelism;
        let useful = (workers as f64).min(f64::from(cpus));
        let n_min = workers as f64 / 2.0;
        let low_below = n_min.max(1.5).min(useful.max(1.0));
        let mean = |of: fn(&Level) -> u64, levels: &[Level]| {
            let sum: f64 = levels.iter().map(|l| l.threads as f64 * of(l) as f64).sum();
            sum / wall_ns.max(1) as f64
        };
        let low = |of: fn(&Level) -> u64, levels: &[Level]| {
            let few = levels
                .iter()
                .filter(|l| l.threads > 0 && (l.threads as f64) < low_below);
            few.map(of).sum::<u64>()
        };
        let levels = std::mem::take(&mut p.levels);
        *p = Parallelism {
            wall_ns,
            threads: self.critical.threads.len(),
            workers,
            workers_at_once: workers,
            cpus,
            useful,
            n_min,
            low_below,
            active_mean: mean(|l| l.active_ns, &levels),
            working_mean: mean(|l| l.working_ns, &levels),
            running_mean: mean(|l| l.running_ns, &levels),
            idle_ns: levels.first().map_or(0, |l| l.active_ns),
            low_active_ns: low(|l| l.active_ns, &levels),
            low_ns: low(|l| l.working_ns, &levels),
            only_spinning_ns: levels
                .first()
                .map_or(0, |l| l.working_ns.saturating_sub(l.active_ns)),
            levels,
        };
        let busy_ns = (wall_ns - p.idle_ns).max(1) as f64;
        for row in &mut self.critical.threads {
            row.share = row.cm_ns / busy_ns;
        }
        self.critical
            .threads
            .sort_by(|a, b| b.cm_ns.total_cmp(&a.cm_ns));
        self.sum_groups(busy_ns);
        self
    }

    fn sum_groups(&mut self, busy_ns: f64) {
        let woken: Vec<_> = self.critical.groups.drain(..).collect();
        for (i, group) in self.model.groups.iter().enumerate() {
            let id = GroupId(i as u32);
            let of = self.critical.threads.iter().filter(|t| t.group == id);
            let mut row = GroupRow {
                group: id,
                threads: group.threads.len(),
                thread_working_min_ns: u64::MAX,
                ..GroupRow::default()
            };
            for t in of {
                row.life_ns += t.life_ns;
                row.cm_ns += t.cm_ns;
                row.cm_working_ns += t.cm_working_ns;
                row.running_ns += t.running_ns;
                row.delayed_ns += t.delayed_ns;
                row.preempted_ns += t.preempted_ns;
                row.spinning_ns += t.spinning_ns;
                row.blocked_ns += t.blocked_ns;
                let working = t.running_ns + t.delayed_ns + t.preempted_ns - t.spinning_ns;
                row.thread_working_min_ns = row.thread_working_min_ns.min(working);
                row.thread_working_max_ns = row.thread_working_max_ns.max(working);
            }
            row.share = row.cm_ns / busy_ns;
            if let Some(known) = woken.iter().find(|w| w.group == id) {
                row.woken_by.clone_from(&known.woken_by);
            }
            self.critical.groups.push(row);
        }
        self.critical
            .groups
            .sort_by(|a, b| b.cm_ns.total_cmp(&a.cm_ns));
    }

    /// Notes who ends the waits of a group: (group, waits, milliseconds).
    pub fn woken_by(&mut self, group: GroupId, wakers: &[(GroupId, u64, u64)]) {
        self.critical.groups.push(GroupRow {
            group,
            woken_by: wakers.iter().map(|(g, n, ms)| (*g, *n, ms * MS)).collect(),
            ..GroupRow::default()
        });
    }

    /// Adds a finding, and makes it the verdict if it is the first.
    pub fn finding(&mut self, finding: Finding) {
        if self.critical.findings.is_empty() {
            self.critical.verdict = convoy_analysis::counters::headline(&finding);
        }
        self.critical.findings.push(finding);
    }
}

/// A finding with one cause.
pub fn finding(
    id: &'static str,
    subject: Subject,
    title: &str,
    seen: &[&str],
    why: (&str, &str),
    gain: (f64, f64, f64, &str),
) -> Finding {
    Finding {
        id: FindingId::from_name(id).expect("a finding of the catalog"),
        subject,
        title: title.into(),
        evidence: seen
            .iter()
            .map(|text| Evidence {
                key: "cm_ratio",
                value: 0.5,
                text: (*text).into(),
            })
            .collect(),
        causes: vec![Cause {
            id: "cause",
            text: why.0.into(),
            fix: why.1.into(),
        }],
        undecided: String::new(),
        gain: Gain {
            low: gain.0,
            mid: gain.1,
            high: gain.2,
            method: "Amdahl: this code spread over the threads that could work at once".into(),
            limited_by: gain.3.into(),
            estimates: Vec::new(),
        },
        share_of_thread_time: 0.4,
        caveats: Vec::new(),
    }
}

/// A path with the parts that all cases have.
pub fn path(
    process: ProcessId,
    group: GroupId,
    site: SiteId,
    low_cm_ms: f64,
    wall_ms: f64,
) -> PathRow {
    PathRow {
        process,
        group,
        site: Some(site),
        from: convoy_model::CodeFrom::Sample,
        n: (low_cm_ms / 3.0) as u64,
        active_ns: (low_cm_ms * MS as f64) as u64,
        running_ns: (low_cm_ms * MS as f64) as u64,
        cm_ns: low_cm_ms * MS as f64,
        cm_working_ns: low_cm_ms * MS as f64,
        low_active_ns: low_cm_ms * MS as f64,
        low_cm_ns: low_cm_ms * MS as f64,
        share: low_cm_ms / wall_ms,
        threads: 1,
        ..PathRow::default()
    }
}
