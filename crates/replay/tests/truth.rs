//! The simulator against measured truth: programs of one lock and a pipeline on condition
//! variables, whose sections were really shortened and measured.
//!
//! The truth is the median of 10 runs of each configuration on one virtual machine with 2 CPUs (AMD
//! EPYC, Linux 6.18, glibc 2.36), and noisy itself: two sets of 5 runs of the same binaries
//! disagree on the time saved by 3.7 points in the median and 23.7 at most. The machine below was
//! calibrated there. Nothing is fitted to the what-ifs.

use convoy_replay::machine::Machine;
use convoy_replay::machine::WakeLatency;
use convoy_replay::program::Channel;
use convoy_replay::program::Cond;
use convoy_replay::program::Lock;
use convoy_replay::program::Need;
use convoy_replay::program::Op;
use convoy_replay::program::Program;
use convoy_replay::program::Thread;
use convoy_replay::sim;
use convoy_replay::sim::Options;

/// That machine.
fn machine() -> Machine {
    let row =
        |(idle_us, p10_ns, p50_ns, p90_ns, ipi_share): (f64, f64, f64, f64, f64)| WakeLatency {
            idle_ns: idle_us * 1e3,
            p10_ns,
            p50_ns,
            p90_ns,
            ipi_share,
        };
    Machine {
        cpus: 2,
        atomic_local_ns: 3.2,
        atomic_remote_ns: 15.0,
        lock_pair_ns: 6.4,
        rdlock_pair_ns: 12.0,
        futex_check_ns: 215.0,
        futex_eagain_ns: 345.0,
        futex_block_ns: 350.0,
        futex_wake_none_ns: 290.0,
        futex_wake_ns: 900.0,
        futex_wake_ipi_ns: 10_250.0,
        switch_ns: 1500.0,
        tick_ns: 4e6,
        slice_ns: 2.8e6,
        wake_latency: [
            (0.0, 2_800.0, 3_200.0, 30_000.0, 0.15),
            (2.0, 4_500.0, 19_000.0, 28_000.0, 0.4),
            (5.0, 11_000.0, 16_000.0, 24_000.0, 0.25),
            (10.0, 12_000.0, 20_000.0, 35_000.0, 0.5),
            (20.0, 27_000.0, 35_000.0, 42_000.0, 0.95),
            (50.0, 29_000.0, 36_500.0, 45_000.0, 1.0),
            (200.0, 30_000.0, 40_000.0, 52_000.0, 1.0),
            (500.0, 33_000.0, 44_000.0, 60_000.0, 1.0),
            (4000.0, 43_000.0, 62_000.0, 90_000.0, 1.0),
        ]
        .into_iter()
        .map(row)
        .collect(),
        spawn_ns: 20_000.0,
        clock_ns: 10.0,
    }
}

/// ns per operation, everything at 100 %, then the section, then the work outside, at 75/50/25/0 %.
struct Truth {
    name: &'static str,
    threads: u32,
    inside_ns: f32,
    outside_ns: f32,
    base: f64,
    inside: [f64; 4],
    outside: [f64; 4],
}

const TRUTH: [Truth; 4] = [
    Truth {
        name: "b_cont T2",
        threads: 2,
        inside_ns: 200.0,
        outside_ns: 1000.0,
        base: 655.0,
        inside: [635.0, 596.0, 565.0, 518.0],
        outside: [564.0, 446.0, 454.0, 310.0],
    },
    Truth {
        name: "b_cont T4",
        threads: 4,
        inside_ns: 200.0,
        outside_ns: 1000.0,
        base: 685.0,
        inside: [654.0, 595.0, 595.0, 526.0],
        outside: [553.0, 409.0, 547.0, 427.0],
    },
    Truth {
        name: "b_hot T2",
        threads: 2,
        inside_ns: 1000.0,
        outside_ns: 200.0,
        base: 1540.0,
        inside: [1252.0, 867.0, 535.0, 155.0],
        outside: [1482.0, 1429.0, 1343.0, 1354.0],
    },
    Truth {
        name: "b_hot T4",
        threads: 4,
        inside_ns: 1000.0,
        outside_ns: 200.0,
        base: 1414.0,
        inside: [1069.0, 787.0, 577.0, 124.0],
        outside: [1360.0, 1342.0, 1406.0, 1513.0],
    },
];

const FACTORS: [f32; 4] = [0.75, 0.5, 0.25, 0.0];
const OPERATIONS: u32 = 200_000;
const SEEDS: [u64; 3] = [1, 2, 3];

/// The loop of one lock, `inside` and `outside` scaled.
fn one_lock(truth: &Truth, inside: f32, outside: f32) -> Program {
    let count = OPERATIONS / truth.threads;
    let ops = |thread: u32| {
        let mut state = u64::from(thread) + 1;
        // Lengths vary by a few percent, as measured ones do: without it the threads run in lock
        // step.
        let mut vary = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            0.98 + 0.04 * (state >> 40) as f32 / (1u64 << 24) as f32
        };
        let mut ops = Vec::new();
        for index in 0..count {
            let section = thread * count + index;
            ops.push(Op::Work {
                ns: truth.outside_ns * outside * vary(),
            });
            ops.push(Op::Acquire {
                lock: 0,
                shared: false,
                section,
            });
            ops.push(Op::Work {
                ns: truth.inside_ns * inside * vary(),
            });
            ops.push(Op::Release { lock: 0 });
        }
        ops
    };
    Program {
        threads: (0..truth.threads)
            .map(|thread| Thread {
                at_start: true,
                ops: ops(thread),
                ..Thread::default()
            })
            .collect(),
        locks: vec![Lock::default()],
        ..Program::default()
    }
}

/// Simulated ns per operation.
fn ns_per_op(program: &Program) -> f64 {
    let runs = sim::run_many(program, &machine(), &Options::default(), &SEEDS);
    let runs = runs.expect("a valid program");
    assert_eq!(runs.stuck, 0);
    runs.median.wall_ns / f64::from(OPERATIONS)
}

#[test]
fn time_saved_by_shorter_sections_is_that_of_the_truth() {
    let mut errors = Vec::new();
    let mut report = String::new();
    for truth in &TRUTH {
        let base = ns_per_op(&one_lock(truth, 1.0, 1.0));
        report += &format!(
            "{}: {base:.0} ns/op (truth {:.0})\n",
            truth.name, truth.base
        );
        assert!((base / truth.base - 1.0).abs() < 0.12, "{report}");
        let what_ifs = FACTORS
            .into_iter()
            .zip(truth.inside)
            .map(|(f, ns)| ((f, 1.0), ns));
        let what_ifs = what_ifs.chain(
            FACTORS
                .into_iter()
                .zip(truth.outside)
                .map(|(f, ns)| ((1.0, f), ns)),
        );
        for ((inside, outside), measured) in what_ifs {
            let simulated = ns_per_op(&one_lock(truth, inside, outside));
            let saved = 100.0 * (1.0 - simulated / base);
            let true_saved = 100.0 * (1.0 - measured / truth.base);
            errors.push((saved - true_saved).abs());
            report += &format!(
                "  section x {inside}, outside x {outside}: {simulated:.0} ns/op \
                 (truth {measured:.0}), saved {saved:.0} % (truth {true_saved:.0} %)\n"
            );
        }
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    let within = errors.iter().filter(|error| **error <= 10.0).count();
    report += &format!(
        "median error {median:.1} points, {within} of {} within 10",
        errors.len()
    );
    println!("{report}");
    assert!(median <= 4.0, "{report}");
    assert!(within >= 26, "{report}");
}

/// Three stages, two queues of 16, as in the program measured: stage lengths in us.
fn pipeline(stages: [f32; 3], items: u32) -> Program {
    // Queue 0 from stage 1 to 2, queue 1 from 2 to 3: channels 2q = items, 2q + 1 = free places;
    // condition variables alike.
    let put = |queue: u32| {
        [
            Op::Acquire {
                lock: queue,
                shared: false,
                section: u32::MAX,
            },
            Op::Await {
                cond: 2 * queue + 1,
                lock: queue,
                need: Need::Token(2 * queue + 1),
            },
            Op::Work { ns: 15.0 },
            Op::Post { channel: 2 * queue },
            Op::Signal { cond: 2 * queue },
            Op::Release { lock: queue },
        ]
    };
    let get = |queue: u32| {
        [
            Op::Acquire {
                lock: queue,
                shared: false,
                section: u32::MAX,
            },
            Op::Await {
                cond: 2 * queue,
                lock: queue,
                need: Need::Token(2 * queue),
            },
            Op::Work { ns: 15.0 },
            Op::Post {
                channel: 2 * queue + 1,
            },
            Op::Signal {
                cond: 2 * queue + 1,
            },
            Op::Release { lock: queue },
        ]
    };
    let work = |stage: usize| Op::Work {
        ns: stages[stage] * 1000.0,
    };
    let mut threads = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..items {
        threads[0].push(work(0));
        threads[0].extend(put(0));
        threads[1].extend(get(0));
        threads[1].push(work(1));
        threads[1].extend(put(1));
        threads[2].extend(get(1));
        threads[2].push(work(2));
    }
    Program {
        threads: threads
            .into_iter()
            .map(|ops| Thread {
                at_start: true,
                ops,
                ..Thread::default()
            })
            .collect(),
        locks: vec![Lock::default(); 2],
        conds: vec![Cond::default(); 4],
        channels: [0, 16, 0, 16].map(|tokens| Channel { tokens }).to_vec(),
        ..Program::default()
    }
}

#[test]
fn time_saved_in_a_pipeline_is_that_of_the_truth() {
    // Stages of nominally 20, 100 and 30 us, as long as they were on that machine.
    let base = [17.7f32, 88.5, 26.5].map(|us| us * 1.13);
    let us_per_item = |stages| {
        let items = 3000;
        let program = pipeline(stages, items);
        let runs = sim::run_many(&program, &machine(), &Options::default(), &SEEDS);
        let runs = runs.expect("a valid program");
        assert_eq!(runs.stuck, 0);
        runs.median.wall_ns / f64::from(items) / 1000.0
    };
    let base_us = us_per_item(base);
    // A model of stages alone says 100: the rest are wake-ups, paid by the bottleneck.
    assert!((base_us / 115.0 - 1.0).abs() < 0.05, "{base_us} us an item");
    // Time saved by each stage at 75/50/25/0 %, percent; and the error allowed, points. Stage 2 at
    // 25 % is near saturation of the CPUs, where the truth depends on placement by the real
    // scheduler.
    let truth = [
        [0.0, 1.0, 1.0, 2.0],
        [24.0, 45.0, 50.0, 66.0],
        [3.0, 2.0, 2.0, 3.0],
    ];
    let allowed = [[5.0; 4], [10.0, 10.0, 20.0, 10.0], [5.0; 4]];
    for (stage, (saved, allowed)) in truth.into_iter().zip(allowed).enumerate() {
        for ((factor, true_saved), allowed) in FACTORS.into_iter().zip(saved).zip(allowed) {
            let mut stages = base;
            stages[stage] *= factor;
            let saved = 100.0 * (1.0 - us_per_item(stages) / base_us);
            let text = format!("stage {} x {factor}: saved {saved:.0} %", stage + 1);
            println!("{text} (truth {true_saved:.0} %)");
            assert!(
                (saved - true_saved).abs() <= allowed,
                "{text} (truth {true_saved:.0} %)"
            );
        }
    }
}
