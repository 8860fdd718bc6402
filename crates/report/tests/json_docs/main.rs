//! docs/json.md against the documents that are written: every key is documented with its type, nothing is
//! documented that does not exist, and exactly what may be null is said to be.
//!
//! Two documents stand for all: one in which everything is known and no array is empty, so that
//! every serialised type is met, and one in which nothing is known that can be unknown.

use std::collections::{BTreeMap, BTreeSet};

use convoy_analysis::counters::{
    Analysis, Assignment, AssignmentOption, EventRow, FamilyRow, GroupRow, LockRow, LockStats,
    Parallelism, Quadrant, SiteRow, SiteShare, WaitsFor,
};
use convoy_analysis::scheduler as critical;
use convoy_analysis::Params;
use convoy_diagnose as diagnose;
use convoy_model::finding::{Cause, Evidence, Finding, Gain, Subject};
use convoy_model::{
    FindingId, FutexOf, GoProgram, GoWait, Group, GroupId, LoopId, Lost, Model, NameId, Object,
    ObjectId, Pair, Process, ProcessId, Sched, SchedSource, Site, SiteFrame, SiteId, Sources,
    SpinLoop, Thread, ThreadId, Use, Waker,
};
use convoy_profile::{
    Collector, Exit, ExperimentLevel, ExperimentNull, ExperimentProgress, ExperimentTarget,
    Experiments, LiveCurve, LiveCurves, LiveMark, LivePoint, LiveThread, Meta, ObjectKind, Op,
};
use convoy_report::{json, Report};

mod replay;
mod walk;

use walk::{Key, Walk};

type Rooms<'a> = (&'a critical::Analysis, &'a diagnose::Analysis);

fn write(model: &Model, analysis: &Analysis, rooms: Option<Rooms<'_>>) -> String {
    json::render(&Report {
        model,
        analysis,
        critical: rooms.map(|rooms| rooms.0),
        sections: rooms.map(|rooms| rooms.1),
        thresholds: &Params::default(),
    })
}

fn place() -> SiteFrame {
    SiteFrame {
        function: "f".into(),
        line: 7,
        ..SiteFrame::default()
    }
}

/// One of everything, and all of it known.
fn everything() -> (Model, Analysis) {
    let mut model = Model {
        meta: Meta {
            command: vec!["server".into()],
            exit: Exit::Status(0),
            collectors: vec![Collector {
                name: "agent".into(),
                active: true,
                lost: String::new(),
                enable: String::new(),
            }],
            notes: vec!["remark".into()],
            cpu_user_ns: 3,
            cpu_sys_ns: 1,
            ..Meta::default()
        },
        processes: vec![Process {
            drops: BTreeMap::from([("reentrant".into(), 1)]),
            threads: vec![ThreadId(0)],
            ..Process::default()
        }],
        objects: vec![Object {
            init_site: Some(SiteId(0)),
            futex_of: Some(FutexOf::RustMutex),
            ..Object::default()
        }],
        sites: vec![Site {
            own: Some(0),
            frames: vec![place()],
            ..Site::default()
        }],
        threads: vec![Thread {
            run_delay_ns: Some(1),
            wait_ns: BTreeMap::from([(ObjectKind::Mutex, 1)]),
            ..Thread::default()
        }],
        groups: vec![Group {
            start: Some(place()),
            create_site: Some(SiteId(0)),
            threads: vec![ThreadId(0)],
            ..Group::default()
        }],
        uses: vec![Use {
            op: Some(Op::MutexLock),
            ..Use::default()
        }],
        pairs: vec![Pair {
            peer: Some(ThreadId(0)),
            peer_acquired_at: vec![place()],
            peer_site: Some(SiteId(0)),
            ..Pair::default()
        }],
        live_curves: Some(LiveCurves {
            marks: vec![LiveMark::default()],
            curves: vec![LiveCurve {
                points: vec![LivePoint {
                    value: Some(1.5),
                    ..LivePoint::default()
                }],
                threads: vec![LiveThread {
                    values: vec![Some(1.5)],
                    ..LiveThread::default()
                }],
                ..LiveCurve::default()
            }],
            ..LiveCurves::default()
        }),
        sched: Some(Sched {
            loops: vec![SpinLoop {
                frames: vec![place()],
                ..SpinLoop::default()
            }],
            names: vec!["file".into()],
            lost: vec![Lost::default()],
            goroutines: vec![GoProgram {
                looks: 1,
                waits: vec![GoWait {
                    site: Some(SiteId(0)),
                    ..GoWait::default()
                }],
                ..GoProgram::default()
            }],
            ..Sched::default()
        }),
        experiments: Some(experiments()),
        ..Model::default()
    };
    // A site without a name, for the list of those.
    model.sites.push(Site {
        own: Some(0),
        frames: vec![SiteFrame {
            function: String::new(),
            ..place()
        }],
        ..Site::default()
    });
    model.uses.push(Use {
        site: SiteId(1),
        ..model.uses[0].clone()
    });
    (model, analysis())
}

fn analysis() -> Analysis {
    let stats = LockStats {
        contention_ratio: Some(0.5),
        hold_contended_ns: Some(1.0),
        hold_sampled_ns: Some(1.0),
        acquire_ns: Some(1.0),
        wait_hist: vec![1],
        quadrant: Quadrant::Q2,
        ..LockStats::default()
    };
    let sites = vec![SiteShare::default()];
    let waits_for = vec![WaitsFor {
        holder: vec![place()],
        released_at: Some(SiteId(0)),
        ..WaitsFor::default()
    }];
    let subjects = [
        Subject::Site(ObjectId(0), SiteId(0)),
        Subject::Groups(vec![GroupId(0)]),
        Subject::Thread(ThreadId(0)),
        Subject::Loop(LoopId(0)),
        Subject::Processes(vec![ProcessId(0)]),
        Subject::File(NameId(0), SiteId(0)),
    ];
    Analysis {
        findings: subjects.into_iter().map(finding).collect(),
        dismissed: vec![finding(Subject::Object(ObjectId(0)))],
        parallelism: vec![Parallelism {
            cpus: 2,
            run_delay_ns: Some(1),
            ..Parallelism::default()
        }],
        locks: vec![LockRow {
            stats: stats.clone(),
            sites: sites.clone(),
            waits_for: waits_for.clone(),
            family: Some(0),
            ..LockRow::default()
        }],
        sites: vec![SiteRow {
            stats: stats.clone(),
            ..SiteRow::default()
        }],
        families: vec![FamilyRow {
            locks: vec![ObjectId(0)],
            stats,
            ..FamilyRow::default()
        }],
        events: vec![EventRow {
            wait_hist: vec![1],
            sites,
            waits_for,
            ..EventRow::default()
        }],
        groups: vec![GroupRow {
            run_delay_ns: Some(1),
            top_waits: vec![(ObjectId(0), 1)],
            linked: vec![GroupId(0)],
            ..GroupRow::default()
        }],
        assignments: vec![Assignment {
            groups: vec![GroupId(0)],
            now: vec![1],
            ideal: vec![1.5],
            options: vec![AssignmentOption {
                threads: vec![1],
                throughput: 1.0,
            }],
            ..Assignment::default()
        }],
        sources: Sources {
            scheduler: Some(SchedSource::Perf),
            ..Sources::default()
        },
        unexplained: vec![Evidence {
            key: "kernel_cpu_ratio",
            value: 0.25,
            text: "25 % of the CPU time in the kernel".into(),
        }],
        ..Analysis::default()
    }
}

/// The scheduler's side of [`everything`].
fn critical() -> critical::Analysis {
    let wait = critical::WaitRow {
        nr: 1,
        site: Some(SiteId(0)),
        object: Some(ObjectId(0)),
        address: 1,
        name: Some(NameId(0)),
        kernel_stack: vec!["f".into()],
        ..Default::default()
    };
    let link = critical::Link {
        site: Some(SiteId(0)),
        object: Some(ObjectId(0)),
        name: Some(NameId(0)),
        ..Default::default()
    };
    let edge = critical::EdgeRow {
        site: Some(SiteId(0)),
        object: Some(ObjectId(0)),
        waker: Waker::Thread(ThreadId(0), Some(SiteId(0))),
        waker_group: Some(GroupId(0)),
        chain: vec![link],
        ..Default::default()
    };
    let function = critical::FunctionRow {
        lines: vec![critical::LineRow {
            line: 7,
            ..Default::default()
        }],
        ..Default::default()
    };
    critical::Analysis {
        parallelism: critical::Parallelism {
            cpus: 2,
            levels: vec![critical::Level::default()],
            ..Default::default()
        },
        timeline: vec![critical::Moment {
            thread: Some(ThreadId(0)),
            site: Some(SiteId(0)),
            ..Default::default()
        }],
        threads: vec![critical::ThreadRow::default()],
        groups: vec![critical::GroupRow {
            woken_by: vec![(GroupId(0), 1, 1)],
            ..Default::default()
        }],
        paths: vec![critical::PathRow {
            site: Some(SiteId(0)),
            functions: vec![function],
            ..Default::default()
        }],
        reasons: vec![critical::ReasonRow::default()],
        waits: vec![wait],
        edges: vec![edge],
        loops: vec![critical::LoopRow {
            site: Some(SiteId(0)),
            waits_for: vec![0],
            ..Default::default()
        }],
        quality: critical::Quality {
            remarks: vec!["remark".into()],
            ..Default::default()
        },
        ..Default::default()
    }
}

/// The same with everything unknown that can be.
fn unknown_critical() -> critical::Analysis {
    let mut rows = critical();
    rows.parallelism.cpus = 0;
    rows.timeline = vec![critical::Moment::default()];
    rows.paths[0].site = None;
    rows.paths[0].functions[0].lines = vec![critical::LineRow::default()];
    rows.waits = vec![critical::WaitRow {
        nr: -1,
        ..Default::default()
    }];
    rows.edges = vec![critical::EdgeRow {
        chain: vec![critical::Link::default()],
        ..Default::default()
    }];
    rows.loops[0].site = None;
    rows
}

/// What sections touched, of [`everything`].
fn sections() -> diagnose::Analysis {
    let data = diagnose::DataRow {
        name: "table".into(),
        region: convoy_model::Region::Global,
        words: 1,
        sections: 0.5,
        accesses: 1.5,
        sharing: convoy_model::Sharing::Shared,
    };
    let part = diagnose::Part {
        name: "table".into(),
        words: 1,
        bytes: 8,
        sections: 0.5,
        at: Some(SiteId(0)),
    };
    let verdict = diagnose::Verdict {
        causes: finding(Subject::Run).causes,
        evidence: finding(Subject::Run).evidence,
        lines: vec![place()],
        waits_saved: Some(0.5),
        ..Default::default()
    };
    let site = diagnose::SiteRow {
        locks: vec![ObjectId(0)],
        op: Some(Op::MutexLock),
        ends: [1; 9],
        hold_ns: Some(1.5),
        regions: vec![diagnose::RegionRow {
            region: convoy_model::Region::Heap,
            words: 1.5,
            reads: 1.5,
            writes: 0.5,
            shared: 0.5,
        }],
        data: vec![data.clone()],
        lines: vec![diagnose::LineRow {
            frame: place(),
            executions: 1.5,
            instructions: 2.5,
            share: 0.5,
            accesses: 1.5,
            by_sharing: [0.5; 5],
            calls: false,
            movable: true,
        }],
        calls: vec![diagnose::CallRow {
            what: convoy_model::Called::Syscall(1),
            frame: Some(place()),
            per_section: 1.5,
            sections: 0.5,
            waits: 1,
            wait_ns: 1,
            blocking: true,
        }],
        conflicts: Some(diagnose::Share::default()),
        partition: Some(diagnose::Partition {
            parts: 2,
            separated: 0.5,
            largest: vec![part],
            common: vec![data],
            by: diagnose::PartitionBy::Place,
        }),
        verdict,
        ..Default::default()
    };
    let inside = diagnose::InsideRow {
        inner: ObjectId(0),
        outer: ObjectId(0),
        outer_site: SiteId(0),
        acquisitions: 1.5,
        share: 0.5,
        always: false,
    };
    diagnose::Analysis {
        sites: vec![site],
        inside: vec![inside],
        drops: vec![("no-chunk".into(), 1)],
        ..Default::default()
    }
}

/// The same with everything unknown that can be.
fn unknown_sections() -> diagnose::Analysis {
    let mut rows = sections();
    let site = &mut rows.sites[0];
    (site.op, site.hold_ns, site.conflicts, site.partition) = (None, None, None, None);
    site.calls[0].frame = None;
    site.verdict.waits_saved = None;
    rows
}

fn finding(subject: Subject) -> Finding {
    Finding {
        id: FindingId::ContendedLock,
        subject,
        title: "title".into(),
        evidence: vec![Evidence {
            key: "wait_ns",
            value: 1.0,
            text: "text".into(),
        }],
        causes: vec![Cause {
            id: "read-only-section",
            text: "text".into(),
            fix: "fix".into(),
        }],
        undecided: String::new(),
        gain: Gain::none("method", "limit"),
        share_of_thread_time: 0.5,
        caveats: vec!["caveat".into()],
    }
}

/// With a number and a reason, which real ones do not have together.
fn experiments() -> Experiments {
    let level = ExperimentLevel {
        speedup: 0.5,
        saved: [0.1, 0.2, 0.3],
    };
    Experiments {
        progress: vec![ExperimentProgress::default()],
        targets: vec![ExperimentTarget {
            name: "f".into(),
            sample_share: Some(0.2),
            levels: vec![level],
            reason: "reason".into(),
            ..ExperimentTarget::default()
        }],
        null: vec![ExperimentNull {
            level,
            ..ExperimentNull::default()
        }],
        reason: "reason".into(),
        notes: vec!["remark".into()],
        ..Experiments::default()
    }
}

/// The same with everything unknown that can be.
fn nothing_known() -> (Model, Analysis) {
    let (mut model, mut analysis) = everything();
    model.meta.exit = Exit::Unknown;
    model.processes.push(Process::default());
    model.objects = vec![Object::default()];
    model.sites[0] = Site {
        frames: vec![SiteFrame::default()],
        ..Site::default()
    };
    model.threads[0].run_delay_ns = None;
    model.groups = vec![Group::default()];
    model.uses = vec![Use::default()];
    model.pairs = vec![Pair::default()];
    let programs = model
        .sched
        .iter_mut()
        .flat_map(|sched| &mut sched.goroutines);
    programs.for_each(|program| program.waits = vec![GoWait::default()]);
    analysis.parallelism[0] = Parallelism {
        process: ProcessId(0),
        ..Parallelism::default()
    };
    analysis.locks[0] = LockRow {
        stats: LockStats {
            quadrant: Quadrant::Unknown,
            ..LockStats::default()
        },
        waits_for: vec![WaitsFor::default()],
        ..LockRow::default()
    };
    let live = model.live_curves.iter_mut().flat_map(|l| &mut l.curves);
    live.flat_map(|c| &mut c.points)
        .for_each(|p| p.value = None);
    analysis.groups[0].run_delay_ns = None;
    (model.meta.cpu_user_ns, model.meta.cpu_sys_ns) = (0, 0);
    model.experiments = None;
    analysis.findings[0].gain.high = f64::INFINITY;
    analysis.sources.scheduler = None;
    (model, analysis)
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let (model, analysis) = everything();
    let walk = Walk::of_report(&write(&model, &analysis, Some((&critical(), &sections()))));
    // Else a serialised type would hide behind it.
    let mut null = walk.null.clone();
    null.remove(&("Waker".into(), "tid".into()));
    assert!(null.is_empty(), "unknown: {null:?}");
    // A subject has one kind of id at a time: together they have all kinds.
    let mut empty = walk.empty.clone();
    empty.retain(|(shape, _)| shape != "Subject");
    assert!(empty.is_empty(), "empty: {empty:?}");
    let unmet: Vec<_> = walk.keys.keys().filter(|k| !walk.met.contains(k)).collect();
    assert!(unmet.is_empty(), "documented and not written: {unmet:?}");
}

#[test]
fn a_waker_outside_has_a_tid() {
    let (model, analysis) = everything();
    let mut rows = critical();
    rows.edges[0].waker = Waker::Outside(7);
    let walk = Walk::of_report(&write(&model, &analysis, Some((&rows, &sections()))));
    assert!(!walk.null.contains(&("Waker".into(), "tid".into())));
}

#[test]
fn exactly_what_may_be_null_is_documented_so() {
    let (mut model, analysis) = nothing_known();
    let mut null = Walk::of_report(&write(
        &model,
        &analysis,
        Some((&unknown_critical(), &unknown_sections())),
    ))
    .null;
    model.experiments = Some(Experiments {
        targets: vec![ExperimentTarget::default()],
        ..Experiments::default()
    });
    model.live_curves = None;
    let walk = Walk::of_report(&write(&model, &analysis, None));
    null.extend(walk.null);
    let nullable: BTreeSet<Key> = walk
        .keys
        .iter()
        .filter(|(_, t)| t.nullable)
        .map(|(k, _)| k.clone())
        .collect();
    assert_eq!(null, nullable);
}

#[test]
fn golden_documents_are_as_documented() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/report");
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    assert!(!files.is_empty(), "no golden documents in {folder}");
    for file in files {
        Walk::of_report(&std::fs::read_to_string(file).unwrap());
    }
}
