//! small-pool, holder-off-cpu and kept-off-cpus of goroutines: what looks at them tell, and what looks the same and is healthy.

use convoy_analysis::scheduler::Analysis;
use convoy_model::finding::{Finding, Subject};
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::{GoDoing, GoPlace, GoProgram, GoState, GoWait, GoroutineState, GO_IN_CALL};
use convoy_testkit::sched::Schedule;
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, go_stack, ids, only};

const LOOKS: u64 = 100;

/// Those that use one call: how many wait in it, and what those do that do not.
#[derive(Clone, Copy)]
struct Users {
    reason: &'static str,
    /// The function of Go's own in which they wait.
    innermost: &'static str,
    /// The call that waits.
    call: &'static str,
    waiting: u64,
    away: u64,
    /// How many are away, squared.
    squares: u64,
    capacity: u64,
    /// Frame, from 1, of the function that gives back.
    gives_back: u32,
    /// What those that are away do, and where.
    state: GoroutineState,
    inside: &'static str,
    /// What they call there.
    calls: &'static str,
}

/// Twenty goroutines of which two have what a condition guards, and wait for an answer.
const POOL: Users = Users {
    reason: "sync.Cond.Wait",
    innermost: "sync.(*Cond).Wait",
    call: "main.acquire",
    waiting: 18,
    away: 2,
    squares: 4,
    capacity: 0,
    gives_back: 3,
    state: GoroutineState::Waiting,
    inside: "main.request",
    calls: "net.(*conn).Read",
};

/// The same with a lock, which one of them has.
const LOCK: Users = Users {
    reason: "sync.Mutex.Lock",
    innermost: "sync.(*Mutex).Lock",
    away: 1,
    squares: 1,
    gives_back: 0,
    ..POOL
};

/// A program that hardly ever has a goroutine to run, for a second.
fn program(of: impl FnOnce(&mut ProfileBuilder) -> GoProgram, busy_ms: u64) -> Model {
    program_in("main.request", of, busy_ms)
}

/// The same of one whose goroutines begin in this function.
fn program_in(
    function: &str,
    of: impl FnOnce(&mut ProfileBuilder) -> GoProgram,
    busy_ms: u64,
) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let work = go_stack(&mut p, &[function, "runtime.goexit"]);
    let idle = go_stack(&mut p, &["runtime.stopm", "runtime.mstart"]);
    let thread = p.thread("app").cpu(1).id();
    let program = of(&mut p);
    let mut s = Schedule::new();
    for _ in 0..10 {
        s.runs(thread, work, ms(busy_ms / 10));
        let wait = convoy_testkit::sched::Wait::futex(idle, 0x100);
        s.waits(thread, wait, ms(100 - busy_ms / 10));
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let sched = profile.sched.as_mut().expect("just put in");
    sched.goroutines = vec![program];
    let end = sched.end_ns;
    profile.processes[0].end_ns = end;
    Model::build(profile)
}

fn shared(users: Users) -> Model {
    let of = |p: &mut ProfileBuilder| {
        let outer = ["main.request", "runtime.goexit"];
        let waits = go_stack(p, &[users.innermost, users.call, outer[0], outer[1]]);
        let elsewhere = go_stack(p, &[users.calls, users.inside, "runtime.goexit"]);
        let (elsewhere_for, is_somewhere) = match users.state {
            GoroutineState::Waiting => ("IO wait", true),
            GoroutineState::InCall => (GO_IN_CALL, true),
            _ => ("", false),
        };
        let wait = |reason: &str, stack, each: u64, place| GoWait {
            reason: reason.into(),
            stack,
            n: each * LOOKS,
            waits: LOOKS,
            place,
        };
        GoProgram {
            looks: LOOKS,
            goroutines: 20 * LOOKS,
            states: vec![GoState {
                procs: 2,
                n: LOOKS,
                ..GoState::default()
            }],
            waits: vec![
                wait(users.reason, waits, users.waiting, Some(0)),
                wait(elsewhere_for, elsewhere, users.away, None),
            ],
            places: vec![GoPlace {
                reason: users.reason.into(),
                stack: waits,
                depth: 1,
                gives_back: users.gives_back,
                capacity: users.capacity,
                users: (users.waiting + users.away) as u32,
                most: users.waiting + users.away,
                present: LOOKS,
                looks: LOOKS,
                waiting: users.waiting * LOOKS,
                away: users.away * LOOKS,
                away_squares: users.squares * LOOKS,
                doing: vec![GoDoing {
                    state: users.state,
                    wait: is_somewhere.then_some(1),
                    n: users.away * LOOKS,
                }],
            }],
            ..GoProgram::default()
        }
    };
    program(of, 50)
}

#[track_caller]
fn said(users: Users) -> Analysis {
    analysis(&shared(users))
}

#[test]
fn who_waits_for_what_others_have_who_wait_for_an_answer_waits_for_a_pool() {
    let a = said(POOL);
    let found = only(&a);
    assert_eq!(found.id.as_str(), "small-pool");
    assert!(found.title.contains("main.acquire"), "{}", found.title);
    // Eighteen of twenty wait: at most all are at work at once, beside two that were perhaps never seen waiting.
    assert!((found.gain.high - 11.0).abs() < 0.1, "{:?}", found.gain);
    assert!(found.gain.mid > 2.0, "{:?}", found.gain);
    assert_eq!(found.gain.low, 1.0, "who answers may be no faster");
}

#[test]
fn who_waits_for_work_in_the_same_way_does_not() {
    let idle = [
        (
            "nobody of them lets others go on",
            Users {
                gives_back: 0,
                ..POOL
            },
        ),
        (
            "now more at work and now fewer",
            Users {
                squares: 9,
                away: 2,
                ..POOL
            },
        ),
        (
            "one at a time: in turn",
            Users {
                away: 1,
                squares: 1,
                ..POOL
            },
        ),
        (
            "those that work are elsewhere",
            Users {
                inside: "main.other",
                ..POOL
            },
        ),
        (
            "and on a processor",
            Users {
                state: GoroutineState::Running,
                ..POOL
            },
        ),
        (
            "jobs come through a channel",
            Users {
                reason: "chan receive",
                innermost: "runtime.chanrecv1",
                ..POOL
            },
        ),
        (
            "of another length than there are at work",
            Users {
                reason: "chan receive",
                innermost: "runtime.chanrecv1",
                capacity: 16,
                ..POOL
            },
        ),
        (
            "one of many channels",
            Users {
                reason: "select",
                innermost: "runtime.selectgo",
                ..POOL
            },
        ),
    ];
    for (why, users) in idle {
        assert_eq!(ids(&said(users)), [] as [&str; 0], "{why}");
    }
}

#[test]
fn a_channel_with_as_many_tokens_as_have_one_is_a_pool() {
    for reason in ["chan receive", "chan send"] {
        let tokens = Users {
            reason,
            innermost: "runtime.chansend1",
            capacity: 2,
            gives_back: 0,
            ..POOL
        };
        assert_eq!(only(&said(tokens)).id.as_str(), "small-pool", "{reason}");
        let buffer = Users {
            capacity: 8,
            ..tokens
        };
        assert!(said(buffer).findings.is_empty(), "a queue that is full");
        let left = Users {
            capacity: 3,
            ..tokens
        };
        assert!(said(left).findings.is_empty(), "one is to be had");
        let now_and_then = Users {
            squares: 8,
            ..tokens
        };
        assert!(said(now_and_then).findings.is_empty(), "none, or four");
    }
}

#[test]
fn pools_that_are_known_need_no_proof() {
    let known = Users {
        reason: "select",
        innermost: "runtime.selectgo",
        call: "database/sql.(*DB).conn",
        gives_back: 0,
        ..POOL
    };
    assert_eq!(only(&said(known)).id.as_str(), "small-pool");
}

#[test]
fn a_lock_that_is_kept_over_a_call_is_told_from_one_that_is_fought_for() {
    let lock = LOCK;
    assert_eq!(only(&said(lock)).id.as_str(), "holder-off-cpu");
    let runs = Users {
        state: GoroutineState::Running,
        ..lock
    };
    assert!(said(runs).findings.is_empty(), "its holder runs");
    // At so many looks of ten all of them compute, and at the others one waits for an answer.
    let bursts = |computing: u64| {
        let mut model = shared(lock);
        let sched = model.sched.as_mut().expect("scheduled");
        let place = &mut sched.goroutines[0].places[0];
        place.doing[0].n = (10 - computing) * LOOKS / 10;
        place.doing.push(GoDoing {
            state: GoroutineState::Running,
            wait: None,
            n: LOOKS / 2,
        });
        place.away = (10 - computing) * LOOKS / 10 + LOOKS / 2;
        ids(&analysis(&model))
    };
    assert_eq!(bursts(2), ["holder-off-cpu"]);
    assert_eq!(bursts(4), [""; 0]);
    let elsewhere = Users {
        inside: "main.other",
        ..lock
    };
    assert!(
        said(elsewhere).findings.is_empty(),
        "who has it is not known"
    );
}

#[test]
fn a_lock_that_is_kept_over_a_call_that_leaves_go_is_told() {
    let lock = Users {
        state: GoroutineState::InCall,
        calls: "syscall.Syscall",
        ..LOCK
    };
    let a = said(lock);
    let found = only(&a);
    assert_eq!(found.id.as_str(), "holder-off-cpu");
    let is_told = found.title.contains("is in a call of the system");
    assert!(is_told, "{}", found.title);
    assert_eq!(found.gain.low, 1.0, "the system may do one at a time");
    let in_c = Users {
        calls: "runtime.cgocall",
        ..lock
    };
    assert_eq!(
        only(&said(in_c)).id.as_str(),
        "contended-futex",
        "C computes"
    );
    let elsewhere = Users {
        inside: "main.other",
        ..lock
    };
    assert!(said(elsewhere).findings.is_empty());
    // Short calls of those that do not have it are met as often as one is, while who has it runs.
    let mut model = shared(lock);
    let sched = model.sched.as_mut().expect("scheduled");
    let place = &mut sched.goroutines[0].places[0];
    place.doing.push(GoDoing {
        state: GoroutineState::Running,
        wait: None,
        n: LOOKS,
    });
    place.away += LOOKS;
    assert_eq!(ids(&analysis(&model)), [""; 0]);
}

#[test]
fn a_channel_whose_tokens_are_in_c_is_a_pool() {
    let tokens = Users {
        reason: "chan send",
        innermost: "runtime.chansend1",
        capacity: 2,
        gives_back: 0,
        state: GoroutineState::InCall,
        calls: "runtime.cgocall",
        ..POOL
    };
    let a = said(tokens);
    assert_eq!(only(&a).id.as_str(), "small-pool");
    let mostly = &only(&a).evidence[1].text;
    assert!(mostly.contains("of C at main.request()"), "{mostly}");
}

/// So many goroutines run on so many processors of the runtime, and so many wait for one; one of them ran at so many looks.
fn queue(procs: u32, runnable: u32, longest: u64, turns: u64) -> Option<(f64, f64)> {
    let found = queue_at(LOOKS, procs, runnable, longest, turns);
    assert!(found
        .iter()
        .all(|f| matches!(&f.subject, Subject::Processes(of) if of.len() == 1)));
    found.map(|f| (f.gain.mid, f.gain.high))
}

/// The same at so many looks; at the others nothing could run.
fn queue_at(n: u64, procs: u32, runnable: u32, longest: u64, turns: u64) -> Option<Finding> {
    let of = |_: &mut ProfileBuilder| GoProgram {
        looks: LOOKS,
        turns,
        longest,
        states: vec![
            GoState {
                procs,
                running: procs,
                runnable,
                n,
                ..GoState::default()
            },
            GoState {
                procs,
                n: LOOKS - n,
                ..GoState::default()
            },
        ],
        ..GoProgram::default()
    };
    let a = analysis(&program(of, 10 * n));
    a.findings
        .into_iter()
        .find(|f| f.id == FindingId::KeptOffCpus)
}

#[test]
fn goroutines_of_an_idle_program_queue_for_nobodys_loss() {
    assert!(queue_at(50, 1, 3, 10, 400).is_some());
    assert!(queue_at(15, 1, 3, 3, 60).is_none(), "nothing runs for 85 %");
}

#[test]
fn goroutines_queue_for_one_processor_while_a_cpu_is_idle() {
    let (mid, high) = queue(1, 3, 30, 400).expect("GOMAXPROCS=1");
    assert!(mid > 1.5 && (high - 2.0).abs() < 0.05, "{mid} {high}");
    assert_eq!(queue(1, 0, 100, 400), None, "nobody waits");
    assert_eq!(queue(2, 3, 30, 400), None, "as many as CPUs");
    assert_eq!(queue(1, 3, 100, 400), None, "one does all of the work");
    let hand_over = queue(1, 3, 30, 400 * 100);
    assert_eq!(
        hand_over, None,
        "they hand over to one another all the time"
    );
}

/// Goroutines seen asleep by all looks together, in so many sleeps, while a thread is at work for so many milliseconds of a second.
fn asleep(n: u64, waits: u64, busy_ms: u64, function: &str) -> Option<f64> {
    asleep_beside("main.request", n, waits, busy_ms, function)
}

/// The same beside work that begins in this function.
fn asleep_beside(works: &str, n: u64, waits: u64, busy_ms: u64, function: &str) -> Option<f64> {
    let of = |p: &mut ProfileBuilder| {
        let stack = [
            "runtime.gopark",
            "time.Sleep",
            "main.await",
            function,
            "runtime.goexit",
        ];
        let stack = go_stack(p, &stack);
        GoProgram {
            looks: LOOKS,
            waits: vec![GoWait {
                reason: "sleep".into(),
                stack,
                n,
                waits,
                place: None,
            }],
            ..GoProgram::default()
        }
    };
    let a = analysis(&program_in(works, of, busy_ms));
    let found = a.findings.iter().find(|f| f.id == FindingId::SleepPolling);
    found.map(|f| f.gain.mid)
}

#[test]
fn goroutines_that_sleep_between_two_looks_leave_the_processors_idle() {
    let run = "main.request";
    // A second with 0.8 s of work, in which a thread works or none does: 0.8 of the fifth goes.
    let mid = asleep(400, 380, 800, run).expect("they wait for one another");
    assert!((mid - 1.0 / 0.84).abs() < 0.02, "{mid}");
    assert_eq!(asleep(400, 20, 800, run), None, "a schedule");
    assert_eq!(asleep(100, 100, 800, run), None, "one at a time");
    assert_eq!(asleep(400, 380, 950, run), None, "something can run");
    assert_eq!(
        asleep(400, 380, 800, "main.upstream"),
        None,
        "it stands for a call"
    );
    let serve = "net/http.(*conn).serve";
    assert_eq!(
        asleep_beside(serve, 400, 380, 800, serve),
        None,
        "so does it while a request is served"
    );
}
