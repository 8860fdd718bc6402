//! The scheduler's rows in the model: ids, sites, objects, groups of processes without an agent.

use convoy_model::{Model, ObjectId, OffReason, ThreadId, Waker};
use convoy_profile::{
    Bins, Doing, FunctionStart, Interval, Lane, ObjectKind, OffCpu, Sched, Slice, SpinLoop,
    ThreadRef, Timeline, Wake,
};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

#[test]
fn nothing_was_listened_to() {
    assert_eq!(Model::build(ProfileBuilder::new("app").build()).sched, None);
}

#[test]
fn a_futex_word_belongs_to_the_object_around_it() {
    let mut p = ProfileBuilder::new("app");
    let lock = p.mutex("lock");
    let addr = p.raw().objects[lock as usize].addr;
    let site = p.site("work", "a.c", 1);
    let mut s = Schedule::new();
    s.waits(0, Wait::futex(site, addr), ms(1));
    s.waits(0, Wait::futex(site, addr + 40), ms(1));
    s.waits(0, Wait::futex(site, addr - 4), ms(1));
    let mut profile = p.build();
    s.put_into(&mut profile);
    let model = Model::build(profile);
    let offs = model.sched.unwrap().offs;
    let objects: Vec<_> = offs.iter().map(|off| off.object).collect();
    assert_eq!(objects, [Some(ObjectId(0)), None, None]);
}

/// Memory in which there was a lock, and so many times something of this kind as well.
#[test]
fn a_word_in_memory_that_was_two_things_belongs_to_neither() {
    let object_after = |bytes: u64, kind: ObjectKind, lives: u32| {
        let mut p = ProfileBuilder::new("app");
        let lock = p.mutex("lock");
        let objects = &mut p.raw().objects;
        let other = convoy_profile::Object {
            kind,
            lives,
            addr: objects[lock as usize].addr + bytes,
            ..objects[lock as usize].clone()
        };
        let word = other.addr;
        objects.push(other);
        let site = p.site("work", "a.c", 1);
        let mut s = Schedule::new();
        s.waits(0, Wait::futex(site, word), ms(1));
        let mut profile = p.build();
        s.put_into(&mut profile);
        Model::build(profile).sched.unwrap().offs[0].object
    };
    let object = |kind, lives| object_after(0, kind, lives);
    assert_eq!(object(ObjectKind::Mutex, 1), Some(ObjectId(0)));
    assert_eq!(object(ObjectKind::Unknown, 1), Some(ObjectId(0)));
    assert_eq!(object(ObjectKind::Futex, 1), Some(ObjectId(0)));
    assert_eq!(object(ObjectKind::Cond, 0), None);
    assert_eq!(object(ObjectKind::RwLock, 9), None);
    let other = Some(ObjectId(1));
    assert_eq!(object_after(8, ObjectKind::Cond, 1), None, "they overlap");
    assert_eq!(object_after(40, ObjectKind::Cond, 1), other);
    assert_eq!(object_after(8, ObjectKind::Futex, 1), other);
    assert_eq!(object_after(8, ObjectKind::Thread, 1), other);
}

#[test]
fn rows_that_lead_nowhere_are_left_out() {
    let mut profile = ProfileBuilder::new("app").build();
    let nowhere = ThreadRef {
        process: 7,
        thread: 9,
    };
    let main = ThreadRef::default();
    profile.sched = Some(Sched {
        slices: vec![
            Slice {
                thread: nowhere,
                ..Slice::default()
            },
            Slice {
                thread: main,
                stack: 99,
                spin: Some(5),
                cm_ns: f64::NAN,
                ..Slice::default()
            },
        ],
        offs: vec![
            OffCpu {
                thread: nowhere,
                ..OffCpu::default()
            },
            OffCpu {
                thread: main,
                name: Some(3),
                ..OffCpu::default()
            },
        ],
        wakes: vec![
            Wake {
                off: 0,
                ..Wake::default()
            },
            Wake {
                off: 1,
                waker: convoy_profile::Waker::Thread(nowhere, 4),
                waker_off: vec![(0, 1), (1, 2), (77, 3)],
                ..Wake::default()
            },
        ],
        loops: vec![SpinLoop {
            process: 44,
            frame: Some(1 << 30),
            ..SpinLoop::default()
        }],
        bins: Bins {
            width_ns: 1,
            bins: vec![convoy_profile::Bin {
                top: Some(1),
                ..convoy_profile::Bin::default()
            }],
        },
        timeline: Some(Timeline {
            lanes: vec![
                Lane {
                    thread: nowhere,
                    intervals: vec![Interval::default()],
                },
                Lane {
                    thread: main,
                    intervals: [
                        Doing::Running(Some(0)),
                        Doing::Running(Some(1)),
                        Doing::Waiting(Some(1)),
                        Doing::Preempted(Some(9)),
                    ]
                    .map(|doing| Interval {
                        doing,
                        wake: Some(1),
                        ..Interval::default()
                    })
                    .to_vec(),
                },
            ],
            ..Timeline::default()
        }),
        ..Sched::default()
    });
    let sched = Model::build(profile).sched.unwrap();
    assert_eq!(
        (sched.slices.len(), sched.offs.len(), sched.wakes.len()),
        (1, 1, 1)
    );
    assert_eq!(sched.dropped_rows, 3);
    assert_eq!(sched.slices[0].site, None);
    assert_eq!(sched.slices[0].spin, None);
    assert_eq!(sched.slices[0].cm_ns, 0.0);
    assert_eq!(sched.offs[0].name, None);
    assert_eq!(sched.wakes[0].waker, Waker::Unknown);
    assert_eq!(sched.wakes[0].waker_off, [(convoy_model::OffId(0), 2)]);
    assert_eq!(sched.bins[0].top, Some(0), "the row moved up");
    assert!(sched.loops[0].frames.is_empty());
    let lanes = sched.timeline.unwrap().lanes;
    assert_eq!(lanes.len(), 1);
    let told = lanes[0].intervals.iter().map(|i| (i.doing, i.wake));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            Doing::Running(None),
            Doing::Running(Some(0)),
            Doing::Waiting(Some(0)),
            Doing::Preempted(None),
        ]
        .map(|doing| (doing, Some(0)))
    );
}

#[test]
fn wakers_may_be_in_other_processes() {
    let mut p = ProfileBuilder::new("client");
    let read = p.site("receive", "client.c", 5);
    p.process("server");
    let answer = p.site("answer", "server.c", 8);
    let mut s = Schedule::new();
    let wait = Wait::new(OffReason::Socket, read).woken_from(1, 0, answer);
    s.process(0).waits(0, wait, ms(5));
    s.process(1).runs(0, answer, ms(5));
    let mut profile = p.build();
    s.put_into(&mut profile);
    let model = Model::build(profile);
    let sched = model.sched.as_ref().unwrap();
    let Waker::Thread(thread, Some(site)) = sched.wakes[0].waker else {
        panic!("{:?}", sched.wakes[0]);
    };
    assert_eq!(thread, ThreadId(1));
    assert_eq!(
        model.sites[site.0 as usize].frames[0].label(),
        "answer() server.c:8"
    );
}

/// Names and sizes of the groups.
fn sizes(model: &Model) -> Vec<(&str, usize)> {
    let groups = model.groups.iter();
    groups.map(|g| (g.name.as_str(), g.threads.len())).collect()
}

/// Threads of a program that carried no agent have no start routine: their stacks tell what they run.
#[test]
fn jobs_come_from_the_schedulers_stacks() {
    let mut p = ProfileBuilder::new("server");
    p.raw().without_agent = true;
    let libc = p.module("/usr/lib/libc.so.6");
    let begin = p.frame_in(libc, "start_thread", "", 0);
    let read = p.frame_in(libc, "read", "", 0);
    let (serve, log) = (p.frame("serve", "s.c", 4), p.frame("log_loop", "s.c", 9));
    let stacks = [p.stack(&[read, serve, begin]), p.stack(&[read, log, begin])];
    let threads: Vec<_> = (0..3).map(|_| p.thread("server").id()).collect();
    let mut s = Schedule::new();
    s.runs(threads[0], stacks[0], ms(2));
    s.runs(threads[1], stacks[0], ms(2));
    s.waits(threads[2], Wait::new(OffReason::File, stacks[1]), ms(2));
    let mut profile = p.build();
    s.put_into(&mut profile);
    let model = Model::build(profile);
    let groups = sizes(&model);
    assert_eq!(groups, [("main", 1), ("serve()", 2), ("log_loop()", 1)]);
    let shown = |site: usize| &model.sites[site].frames[model.sites[site].shown].function;
    assert_eq!(
        (shown(0), shown(1)),
        (&"serve".to_owned(), &"log_loop".to_owned())
    );
}

/// The agent knows a library as the dynamic linker does, the kernel by the name of its file: it is one.
#[test]
fn a_library_has_one_name_whoever_saw_it() {
    let mut p = ProfileBuilder::new("server");
    let linked = p.module("/lib/librocksdb.so.7.8");
    let mapped = p.module("/usr/lib/librocksdb.so.7.8.3");
    let other = p.module("/usr/lib/libz.so.1.2.13");
    let modules = &mut p.raw().modules;
    modules[mapped as usize] = convoy_profile::Module {
        path: modules[mapped as usize].path.clone(),
        ..modules[linked as usize].clone()
    };
    let frames = [linked, mapped, other].map(|module| p.frame_in(module, "lookup", "", 0));
    let stacks = frames.map(|frame| p.stack(&[frame]));
    let mut s = Schedule::new();
    for stack in stacks {
        s.runs(0, stack, ms(2));
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let model = Model::build(profile);
    let names: Vec<&str> = model
        .sites
        .iter()
        .map(|site| site.frames[0].module.as_str())
        .collect();
    let name = "librocksdb.so.7.8";
    assert_eq!(names, [name, name, "libz.so.1.2.13"]);
}

/// All closures of one function have one name; where the code begins that they were compiled to tells them apart.
#[test]
fn closures_of_one_function_are_jobs_of_their_own() {
    let mut p = ProfileBuilder::new("server");
    p.raw().without_agent = true;
    let libc = p.module("/usr/lib/libc.so.6");
    let begin = p.frame_in(libc, "start_thread", "", 0);
    let mut closure = |line, begins| {
        let frame = p.frame("main::{lambda}::operator()", "m.cc", line);
        p.raw().starts.push(FunctionStart {
            frame,
            address: begins,
        });
        p.stack(&[frame, begin])
    };
    let [a, later_in_a, b] = [(9, 0x100), (12, 0x100), (15, 0x200)].map(|(l, at)| closure(l, at));
    let threads: Vec<_> = (0..3).map(|_| p.thread("server").id()).collect();
    let mut s = Schedule::new();
    s.runs(threads[0], later_in_a, ms(2));
    s.runs(threads[1], a, ms(2));
    s.runs(threads[2], b, ms(2));
    let mut profile = p.build();
    s.put_into(&mut profile);
    let model = Model::build(profile);
    let groups = sizes(&model);
    let closures = ["main::{closure}() (m.cc:9)", "main::{closure}() (m.cc:15)"];
    assert_eq!(groups, [("main", 1), (closures[0], 2), (closures[1], 1)]);
}

/// Go's scheduler runs any goroutine on any thread: only what nearly all of the time went into is a job, and
/// threads of which nothing else is known share the only job that is known.
#[test]
fn go_threads_are_named_after_what_they_mostly_do() {
    let mut p = ProfileBuilder::new("gopher");
    p.raw().without_agent = true;
    let begin = p.frame("runtime.goexit.abi0", "asm_amd64.s", 1);
    let futex = p.frame("runtime.futex.abi0", "sys_linux_amd64.s", 1);
    let worker = p.frame("main.(*Pool).worker", "main.go", 12);
    let other = p.frame("main.other", "main.go", 40);
    let (a, b) = (
        p.stack(&[futex, worker, begin]),
        p.stack(&[futex, other, begin]),
    );
    let (one, many) = (p.thread("gopher").id(), p.thread("gopher").id());
    let mut s = Schedule::new();
    s.runs(one, a, ms(9)).runs(one, b, ms(1));
    s.runs(many, a, ms(5)).runs(many, b, ms(5));
    let mut profile = p.build();
    s.put_into(&mut profile);
    let groups = Model::build(profile).groups;
    let names: Vec<_> = groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["main", "main.(*Pool).worker()"]);
}
