//! A model as a profile of a simulated run would give it.

use convoy_model::{
    Group, GroupId, Model, Object, ObjectId, Process, ProcessId, Site, SiteFrame, SiteId, Thread,
    ThreadId, Use,
};
use convoy_profile::{ObjectKind, Op};

use super::{Program, Run};

/// Clock reads around a sampled acquire.
const CLOCK_READS_NS: f64 = 25.0;

pub fn model(program: &Program, run: &Run) -> Model {
    let mut m = Model::default();
    m.meta.machine.cpus_online = program.cpus as u32;
    m.meta.machine.cpus_allowed = program.cpus as u32;
    m.meta.machine.mutex_pair_ns = 20.0;
    m.processes.push(Process {
        pid: 1,
        name: "sim".into(),
        wall_ns: run.length as u64,
        ..Default::default()
    });
    for l in 0..program.locks {
        m.objects.push(Object {
            kind: ObjectKind::Mutex,
            addr: 64 * l as u64,
            name: format!("lock {l}"),
            ..Default::default()
        });
        m.sites.push(site(&format!("section_{l}")));
    }
    for (g, _) in program.kinds.iter().enumerate() {
        m.groups.push(Group {
            process: ProcessId(0),
            name: format!("kind {g}"),
            ..Default::default()
        });
    }
    for (i, t) in run.threads.iter().enumerate() {
        let id = ThreadId(i as u32);
        m.groups[t.kind].threads.push(id);
        m.processes[0].threads.push(id);
        m.threads.push(Thread {
            process: ProcessId(0),
            group: GroupId(t.kind as u32),
            tid: 100 + i as u32,
            start_ns: 1,
            end_ns: 1 + run.length as u64,
            cpu_ns: t.cpu as u64,
            sys_ns: t.sys.min(t.cpu) as u64,
            voluntary_switches: t.switches,
            run_delay_ns: Some(t.run_delay as u64),
            ..Default::default()
        });
        for (l, u) in t
            .uses
            .iter()
            .enumerate()
            .filter(|(_, u)| u.calls + u.waits > 0)
        {
            m.uses.push(Use {
                object: ObjectId(l as u32),
                site: SiteId(l as u32),
                thread: id,
                op: Some(Op::MutexLock),
                calls: u.calls,
                waits: u.waits,
                wait_ns: u.wait as u64,
                wait_max_ns: u.wait_max as u64,
                hold_contended_n: u.hold_contended.0,
                hold_contended_ns: u.hold_contended.1 as u64,
                hold_sampled_n: u.hold_other.0,
                hold_sampled_ns: u.hold_other.1 as u64,
                acquire_n: u.acquire.0,
                acquire_ns: (u.acquire.1 + u.acquire.0 as f64 * CLOCK_READS_NS) as u64,
                ..Default::default()
            });
        }
    }
    m
}

pub fn site(function: &str) -> Site {
    Site {
        process: ProcessId(0),
        frames: vec![SiteFrame {
            function: function.into(),
            file: "sim.c".into(),
            line: 1,
            module: "sim".into(),
            ..Default::default()
        }],
        ..Site::default()
    }
}
