//! lock-step: what the hand-overs themselves cost, and threads that meet while they take turns on the processors.

use convoy_model::finding::Finding;
use convoy_model::{FindingId, Model, OffReason, SpinKind};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{alone, analysis, model, workers};

/// Said, whether it is worth a line or not.
fn told(model: &Model) -> Option<Finding> {
    let a = analysis(model);
    let mut found = a.findings.into_iter().chain(a.dismissed);
    found.find(|f| f.id == FindingId::LockStep)
}

/// Threads of one kind meet after each step. They have too few processors: each runs its step in another turn, is ready to run
/// until then, and waits for those that run after it.
#[derive(Clone, Copy)]
struct Crowd {
    threads: usize,
    cpus: usize,
    step: u64,
    /// After each step, for something else.
    sleeps: u64,
    /// Before each step, for a processor that another program has.
    queues: u64,
}

const CROWD: Crowd = Crowd {
    threads: 4,
    cpus: 2,
    step: us(30),
    sleeps: 0,
    queues: 0,
};

impl Crowd {
    fn told(&self) -> Option<Finding> {
        let mut p = ProfileBuilder::new("app");
        p.cpus(self.cpus as u32);
        let (work, meet) = (p.site("cells", "grid.c", 3), p.site("cells", "grid.c", 8));
        let ids = workers(&mut p, self.threads);
        let turns = self.threads / self.cpus;
        let mut s = Schedule::new();
        let many = |n: usize| n as u64 * self.step;
        for round in 0..600 {
            for (at, &t) in ids.iter().enumerate() {
                let turn = (at + round) % turns;
                let other = ids[(at + 1) % self.threads];
                let late = Wait::futex(meet, 0x7000).woken_by(other, meet);
                let sleep = Wait::new(OffReason::Sleep, work);
                if turn > 0 || self.queues > 0 {
                    s.queues(t, work, many(turn) + self.queues);
                }
                s.runs(t, work, self.step);
                if turn + 1 < turns {
                    s.waits(t, late, many(turns - 1 - turn));
                }
                if self.sleeps > 0 {
                    s.waits(t, sleep, self.sleeps);
                }
            }
        }
        told(&model(p, s))
    }
}

#[test]
fn threads_that_take_turns_on_the_processors_cannot_all_run_at_once() {
    // A round takes 60 us: 120 us of work on two processors. Two waits in it cost 10 us together, 20 at most.
    let f = CROWD.told().expect("told");
    assert!(f.title.contains("meet"), "{}", f.title);
    // The processors have 9 us less to do, as 0.9 of it is expected to go; 20 us at most, and of each of six steps a microsecond
    // that is there because a wait was before it.
    let (mid, high) = (60.0 / 55.5, 60.0 / 47.0);
    assert!((f.gain.mid - mid).abs() < 0.005, "{:?}", f.gain);
    assert!(
        (f.gain.high - alone(high, 26.0 / 120.0)).abs() < 0.02,
        "{:?}",
        f.gain
    );
}

#[test]
fn what_a_crowd_runs_is_left_whatever_else_it_waits_for() {
    let idle = Crowd {
        threads: 6,
        ..CROWD
    };
    for idle in [
        Crowd {
            sleeps: us(85),
            ..idle
        },
        Crowd {
            queues: us(85),
            ..idle
        },
    ] {
        // 175 us a round, in which two processors have 180 us to do, of which four waits cost 20.
        // 0.9 of it is expected to go, and 0.07 of the part that is waits.
        let part = 0.9 + 0.07 * 20.0 / 180.0;
        let mid = 175.0 / (175.0 - part * (175.0 - 80.0));
        let f = idle.told().expect("told");
        assert!((f.gain.mid - mid).abs() < 0.005, "{mid} {:?}", f.gain);
    }
}

#[test]
fn longer_steps_on_too_few_processors_wait_for_their_turns() {
    let step = |step| Crowd { step, ..CROWD }.told();
    // Every second step is two pieces, one without a processor: 50 us are two thirds of the step.
    assert!(step(us(74)).is_some());
    assert!(step(us(76)).is_none());
}

#[test]
fn a_crowd_that_does_not_use_the_processors_may_have_nothing_to_do() {
    let sleeps = |sleeps| {
        let threads = 6;
        let crowd = Crowd {
            threads,
            sleeps,
            ..CROWD
        };
        crowd.told()
    };
    // A round of 90 us in which two processors are busy, and as long a sleep.
    assert!(sleeps(us(85)).is_some());
    assert!(sleeps(us(95)).is_none());
}

#[test]
fn of_very_many_more_threads_than_processors_the_number_matters_first() {
    let threads = |threads| {
        let step = us(20);
        let crowd = Crowd {
            threads,
            step,
            ..CROWD
        };
        crowd.told()
    };
    assert!(threads(8).is_some());
    assert!(threads(10).is_none());
}

/// What a thread runs between two hand-overs: places and microseconds.
type Runs<'a> = &'a [(&'a [&'a str], u64)];

/// A reader and a writer that hand over pieces in turns: they wait in put() and get().
#[derive(Clone, Copy)]
struct Turns<'a> {
    n: u64,
    reads: Runs<'a>,
    writes: Runs<'a>,
    /// Share of their CPU time, as the agent counts it.
    in_kernel: Option<f64>,
    /// Each waits as often for something that others hand over.
    also_elsewhere: bool,
}

const PLAIN: Runs = &[(&["parse"], 30)];
const USUAL: Turns = Turns {
    n: 400,
    reads: PLAIN,
    writes: PLAIN,
    in_kernel: None,
    also_elsewhere: false,
};
/// 40 samples of each thread, half of them where it wakes the other.
const SIGNAL: Runs = &[(&["parse"], 15), (&["pthread_cond_signal", "put"], 15)];
const SIGNALS: Turns = Turns {
    n: 4000,
    reads: SIGNAL,
    writes: SIGNAL,
    ..USUAL
};

impl Turns<'_> {
    /// What the hand-overs cost of the threads' CPU time, expected and at most, as percent.
    fn price(&self) -> [f64; 2] {
        let mut p = ProfileBuilder::new("app");
        p.cpus(4);
        let libc = p.module("libc.so.6");
        let at = |p: &mut ProfileBuilder, functions: &[&str]| {
            let of_libc = |f: &str| f.starts_with("pthread_") || f == "memcpy";
            let frame = |f: &&str| match of_libc(f) {
                true => p.frame_in(libc, f, "", 0),
                false => p.frame(f, "app.c", 1),
            };
            let frames: Vec<_> = functions.iter().map(frame).collect();
            p.stack(&frames)
        };
        let thread = |name| p.thread(name).start(name, "app.c", 1).cpu(1).id();
        let ids = ["reader", "writer"].map(thread);
        if let Some(share) = self.in_kernel {
            for t in ids {
                p.edit_thread(t).cpu(ms(100)).sys((share * 1e8) as u64);
            }
        }
        let [put, get, poll] = ["put", "get", "poll_others"].map(|f| at(&mut p, &[f]));
        let mut s = Schedule::new();
        let spin = s.spin_loop(SpinKind::Polling, None);
        let lasts = |runs: Runs| runs.iter().map(|(_, n)| us(*n)).sum::<u64>();
        let reader = Wait::futex(put, 0x7000).woken_by(ids[1], get);
        let writer = Wait::futex(get, 0x7004).woken_by(ids[0], put);
        s.waits(ids[1], writer, lasts(self.reads));
        for _ in 0..self.n {
            for (t, wait, own, others) in [
                (ids[0], reader, self.reads, self.writes),
                (ids[1], writer, self.writes, self.reads),
            ] {
                for &(functions, n) in own {
                    let stack = at(&mut p, functions);
                    match functions.contains(&"spin") {
                        true => s.spins(t, stack, spin, us(n)),
                        false => s.runs(t, stack, us(n)),
                    };
                }
                s.waits(t, wait, lasts(others));
                if self.also_elsewhere {
                    s.waits(t, Wait::futex(poll, 0x8000), us(1));
                }
            }
        }
        let f = told(&model(p, s)).expect("told");
        let text = f.evidence.iter().find(|e| e.key == "switch_cpu_ns");
        let words: Vec<_> = text.expect("said").text.split(' ').collect();
        let percents = words.windows(2).filter(|pair| pair[1].starts_with('%'));
        let percents: Vec<f64> = percents.filter_map(|pair| pair[0].parse().ok()).collect();
        [percents[0], percents[percents.len() - 1]]
    }
}

#[test]
fn a_hand_over_costs_what_switches_do_where_nothing_else_is_known() {
    // 5 us of 30, and 10 at most.
    assert_eq!(USUAL.price(), [17.0, 33.0]);
}

#[test]
fn samples_of_waiting_and_waking_are_its_price() {
    // 15 of 30 us.
    assert_eq!(SIGNALS.price(), [50.0; 2]);
    let in_function = |functions: &[&str]| {
        let runs: Runs = &[(&["parse"], 15), (functions, 15)];
        Turns {
            reads: runs,
            writes: runs,
            ..SIGNALS
        }
        .price()
    };
    assert_eq!(in_function(&["memcpy", "put"]), [17.0, 33.0]);
    // A lock is part of it where it is taken to hand over.
    assert_eq!(in_function(&["pthread_mutex_lock", "put"]), [50.0; 2]);
    // At most, other locks are as well.
    assert_eq!(in_function(&["pthread_mutex_lock", "log"]), [17.0, 50.0]);
}

#[test]
fn who_has_few_samples_is_like_the_others() {
    let writer = |writes| Turns {
        reads: &[(&["pthread_cond_signal", "put"], 30)],
        writes,
        ..SIGNALS
    };
    // 40 samples of the one are all hand-overs, three more could have been something else: 28 us of 30. They are 40 of 66 with
    // those of the other: 12 us of 20.
    assert_eq!(writer(&[(&["parse"], 20)]).price(), [80.0; 2]);
    // With 53 of its own, it has none, but for its switches: 5.7 us of 40, 11.4 at most.
    assert_eq!(writer(&[(&["parse"], 40)]).price(), [48.0, 56.0]);
}

#[test]
fn few_samples_of_all_together_say_nothing() {
    let turns = |n| Turns { n, ..SIGNALS }.price();
    // 10 samples of each, and 16.
    assert_eq!(turns(1000), [17.0, 33.0]);
    assert_eq!(turns(1600), [50.0; 2]);
}

#[test]
fn samples_of_threads_that_spin_are_no_work_that_hand_overs_are_a_share_of() {
    let runs: Runs = &[SIGNAL[0], SIGNAL[1], (&["spin"], 30)];
    let spinning = Turns {
        reads: runs,
        writes: runs,
        ..SIGNALS
    };
    assert_eq!(spinning.price(), [50.0; 2]);
}

#[test]
fn the_kernels_time_bounds_what_switches_cost() {
    let of_kernel = |share| {
        let in_kernel = Some(share);
        Turns { in_kernel, ..USUAL }.price()
    };
    // 15 of 30 us, of which a wait takes 10.
    assert_eq!(of_kernel(0.5), [33.0, 50.0]);
    // 3 us, but ticks may have missed that it is 5.
    assert_eq!(of_kernel(0.1), [10.0, 17.0]);
}

#[test]
fn of_what_all_waits_cost_these_have_their_part() {
    let half = |turns: Turns| {
        Turns {
            also_elsewhere: true,
            ..turns
        }
        .price()
    };
    // Of 50 % in samples.
    assert_eq!(half(SIGNALS), [25.0, 33.0]);
    // Of 80 % in the kernel.
    let in_kernel = Some(0.8);
    assert_eq!(half(Turns { in_kernel, ..USUAL }), [33.0, 40.0]);
}

/// Threads that pass pieces on from one to the next; each has its function, and works for this long at a time.
fn chain(names: &[&'static str], step: u64) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4);
    let ids: Vec<u32> = names
        .iter()
        .map(|&name| p.thread(name).start(name, "app.c", 1).cpu(1).id())
        .collect();
    let sites: Vec<u32> = names.iter().map(|name| p.site(name, "app.c", 7)).collect();
    let n = names.len();
    let mut s = Schedule::new();
    // The piece goes to and fro: who is between two others waits for both.
    let order: Vec<usize> = (0..n).chain((1..n - 1).rev()).collect();
    for (at, &t) in ids.iter().enumerate() {
        let turns: Vec<usize> = (0..order.len()).filter(|turn| order[*turn] == at).collect();
        for round in 0..2000 {
            for &turn in &turns {
                let due = (round * order.len() + turn) as u64 * step;
                let before = order[(turn + order.len() - 1) % order.len()];
                let handed =
                    Wait::futex(sites[at], 0x7000 + at as u64).woken_by(ids[before], sites[before]);
                let last = match turns.iter().position(|other| *other == turn) {
                    Some(0) if round == 0 => 0,
                    Some(0) => {
                        ((round - 1) * order.len() + turns[turns.len() - 1] + 1) as u64 * step
                    }
                    Some(ix) => (round * order.len() + turns[ix - 1] + 1) as u64 * step,
                    None => due,
                };
                if due > last {
                    s.waits(t, handed, due - last);
                }
                s.runs(t, sites[at], step);
            }
        }
    }
    let found = analysis(&model(p, s)).findings.into_iter();
    found.filter(|f| f.id == FindingId::LockStep).collect()
}

#[test]
fn stages_that_all_work_in_turns_are_one_pipeline() {
    let told = chain(&["reader", "parser", "writer"], us(10));
    assert_eq!(told.len(), 1, "{told:#?}");
    let title = &told[0].title;
    assert!(
        title.starts_with("reader, parser and writer work in turns"),
        "{title}"
    );
    let fix = &told[0].causes[0].fix;
    for place in ["reader() app.c:7", "parser() app.c:7", "writer() app.c:7"] {
        assert!(fix.contains(place), "{fix}");
    }
    // Of 40 us of a round, 20 are the parser's, of which half are waits.
    let gain = &told[0].gain;
    assert!((2.5..4.0).contains(&gain.mid), "{gain:?}");
    assert!(gain.high >= 3.9, "{gain:?}");
    let pair = chain(&["reader", "parser"], us(10));
    assert_eq!(pair.len(), 1, "{pair:#?}");
}
