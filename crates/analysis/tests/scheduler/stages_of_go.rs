//! Go: one goroutine that all others wait for, whatever threads it runs on.

use convoy_model::finding::Finding;
use convoy_model::{FindingId, GoProgram, GoWait, Model, SiteId};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, go_stack, model, workers};

/// A goroutine that encodes, on one thread and then on the other; half of the time another one runs beside it.
struct Server {
    /// What every other one of those beside it began in.
    beside: &'static str,
    /// What wakes its thread.
    ready: &'static str,
    /// Both have nothing to do for so long of each 10 ms.
    idle_ms: u64,
    /// What makes goroutines now and then.
    maker: &'static str,
}

const SERVER: Server = Server {
    beside: "main.handle",
    ready: "runtime.chansend.send.goready.func1",
    idle_ms: 0,
    maker: "main.main",
};

impl Server {
    fn model(&self) -> Model {
        let mut p = ProfileBuilder::new("app");
        p.cpus(2).raw().without_agent = true;
        let encode = [
            "main.encode",
            "main.(*Registry).loop",
            "main.newRegistry.gowrap1",
            "runtime.goexit",
        ];
        let encode = go_stack(&mut p, &encode);
        let handle = [self.beside, "main.handle"]
            .map(|first| go_stack(&mut p, &["main.parse", first, "runtime.goexit"]));
        let idle = go_stack(&mut p, &["runtime.stopm", "runtime.mstart"]);
        let ready = go_stack(&mut p, &[self.ready, "runtime.mstart"]);
        let makes = go_stack(&mut p, &["runtime.newproc", self.maker, "runtime.goexit"]);
        let ids = workers(&mut p, 2);
        let mut s = Schedule::new();
        for at in 0..120 {
            let (serves, asks) = (ids[at % 2], ids[1 - at % 2]);
            let handed = Wait::futex(idle, 0x100).woken_by(serves, ready);
            s.runs(serves, encode, ms(10 - self.idle_ms));
            s.waits(asks, handed, ms(5));
            let beside = if at % 60 == 0 {
                makes
            } else {
                handle[at / 2 % 2]
            };
            s.runs(asks, beside, ms(5));
            if self.idle_ms > 0 {
                s.waits(serves, Wait::futex(idle, 0x200), ms(self.idle_ms));
            }
        }
        model(p, s)
    }

    fn stage(&self) -> Option<Finding> {
        let found = analysis(&self.model()).findings.into_iter();
        found.into_iter().find(|f| f.id == FindingId::LimitingStage)
    }
}

#[test]
fn a_goroutine_that_is_always_at_work_limits_the_others() {
    let stage = SERVER.stage().expect("said");
    let title = &stage.title;
    assert!(title.contains("main.(*Registry).loop() a.go"), "{title}");
    assert!(title.contains("100 % of the run"), "{title}");
    // 15 of 20 ms that the processors have: 10 can be 7.5.
    let gain = stage.gain;
    assert_eq!(gain.low, 1.0);
    assert!((1.3..1.34).contains(&gain.high), "{gain:?}");
    assert!((1.2..1.3).contains(&gain.mid), "{gain:?}");
}

#[test]
fn of_the_first_goroutine_less_is_expected() {
    let mut p = SERVER.model();
    for frame in p.sites.iter_mut().flat_map(|site| &mut site.frames) {
        if frame.function.contains("newRegistry") {
            frame.function = "main.main".into();
        }
    }
    let found = analysis(&p).findings.into_iter();
    let stage = found.into_iter().find(|f| f.id == FindingId::LimitingStage);
    let gain = stage.expect("said").gain;
    assert!((1.1..1.17).contains(&gain.mid), "{gain:?}");
}

#[test]
fn two_that_began_in_one_function_are_no_stage() {
    let beside = "main.newRegistry.gowrap1";
    assert_eq!(Server { beside, ..SERVER }.stage(), None);
}

#[test]
fn those_that_are_made_all_the_time_are_no_stage() {
    let maker = "main.newRegistry";
    assert_eq!(Server { maker, ..SERVER }.stage(), None);
}

#[test]
fn one_that_is_idle_at_times_limits_nobody() {
    let idle_ms = 2;
    assert_eq!(Server { idle_ms, ..SERVER }.stage(), None);
}

/// The same if looks have seen so many of a hundred times that it waits.
fn seen_to_wait(n: u64) -> Option<Finding> {
    let server = Server {
        idle_ms: 2,
        ..SERVER
    };
    let mut p = server.model();
    let stage = p.sites.iter().position(|site| {
        let mut frames = site.frames.iter();
        frames.any(|frame| frame.function == "main.encode")
    });
    let sched = p.sched.as_mut().expect("scheduled");
    sched.goroutines = vec![GoProgram {
        looks: 100,
        waits: vec![GoWait {
            reason: "chan receive".into(),
            site: stage.map(|at| SiteId(at as u32)),
            n,
            ..GoWait::default()
        }],
        ..GoProgram::default()
    }];
    let found = analysis(&p).findings.into_iter();
    found.into_iter().find(|f| f.id == FindingId::LimitingStage)
}

#[test]
fn one_that_never_waits_limits_the_others_however_long_it_takes_to_get_a_processor() {
    assert!(seen_to_wait(4).is_some());
    assert_eq!(seen_to_wait(20), None);
}

#[test]
fn what_wakes_threads_for_a_lock_is_no_stage() {
    for ready in ["runtime.readyWithTime.goready.func1", "runtime.newproc"] {
        assert_eq!(Server { ready, ..SERVER }.stage(), None, "{ready}");
    }
}

#[test]
fn where_other_programs_have_the_processors_several_look_like_one() {
    let mut m = SERVER.model();
    m.meta.machine.cpus_online = 2;
    let cpus_ns = 2 * (m.meta.end_ns - m.meta.start_ns);
    let mut said = |share: f64| {
        m.meta.others_ns = (share * cpus_ns as f64) as u64;
        let found = analysis(&m).findings.into_iter();
        found.into_iter().any(|f| f.id == FindingId::LimitingStage)
    };
    assert!(said(0.14));
    assert!(!said(0.16));
}
